//! What goes wrong, and the exit status that says so: 1 for what was found, 2 for what kept from looking.

use super::crates::{Crate, check_golden};
use super::standins::{Found, libraries};
use std::path::Path;

const LIBRARY: &str = "\
fuse::fuse! {
    #[kernel(launches = 1)]
    pub fn centred<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x - x.mean(N) }

    #[kernel]
    pub fn other<K>(x: Tensor<f32, K>) -> Tensor<f32, K> { x }
}
";

#[test]
fn what_is_not_there_is_named_with_what_is() {
    let demo = Crate::new("unknown", LIBRARY);
    let fails = |line: &str, code: i32, message: &str| {
        let ran = demo.fuse(line);
        assert_eq!(ran.failure(), (code, message), "{line}");
        assert_eq!(ran.out, "", "{line}");
    };
    fails("explain center", 1, "no kernel `center`: there are `centred`, `other`");
    fails("emit center --cuda", 1, "no kernel `center`: there are `centred`, `other`");
    let targets = "there are `cpu`, `sm_75`, `sm_80`, `sm_86`, `sm_89`, `sm_90`, `sm_100`, `sm_120`";
    fails("explain --target sm_10", 2, &format!("no target `sm_10`: {targets}"));
    fails("explain --assume B=3", 2, "no axis `B`: there are `K`, `M`, `N`");
    fails("explain centred --assume K=3", 2, "no axis `K`: there are `M`, `N`");

    demo.write("src/lib.rs", "");
    let none =
        "there are none in what was compiled; those of tests and examples are compiled with --all-targets";
    fails("explain", 1, &format!("no kernels: {none}"));
    fails("explain k", 1, &format!("no kernel `k`: {none}"));
}

#[test]
fn a_wrong_call_shows_how_it_is_called() {
    let demo = Crate::new("call", LIBRARY);
    for line in ["", "explain --no-such", "emit centred", "emit --cuda", "explain --assume M"] {
        let ran = demo.fuse(line);
        assert_eq!(ran.code, Some(2), "{line}");
        assert!(ran.err.contains("--help"), "{line}: {}", ran.err);
    }
    let help = demo.fuse("--help").ok();
    check_golden("help.txt", &help);
}

#[test]
fn a_build_that_fails_says_why() {
    let demo = Crate::new("broken", &LIBRARY.replace("x.mean(N)", "x.mean(Z)"));
    let ran = demo.fuse("explain");
    assert_eq!(ran.failure(), (2, "`cargo check` fails; the reason stands above"));
    assert!(ran.err.contains("src/lib.rs:3"), "{}", ran.err);
    let ran = demo.fuse("explain --manifest-path nowhere/Cargo.toml");
    assert_eq!(ran.failure(), (2, "`cargo metadata` fails; the reason stands above"));
}

#[test]
fn a_contract_that_breaks_the_build_is_explained() {
    let demo =
        Crate::new("contract", &LIBRARY.replace("x - x.mean(N)", "(x + 1.0).materialize() - x.mean(N)"));
    let ran = demo.fuse("explain --refused");
    assert_eq!(ran.failure(), (2, "`cargo check` fails; the reason stands above"));
    assert!(
        ran.err.contains("`centred` takes 2 launches, but its contract is `launches = 1`"),
        "{}",
        ran.err
    );
    check_golden("explain_contract.txt", &ran.out);
    // Other commands speak of what is compiled.
    let ran = demo.fuse("emit centred --graph");
    assert_eq!((ran.failure().0, ran.out.as_str()), (2, ""));
    // Another kernel is not the reason.
    let ran = demo.fuse("explain other");
    assert_eq!((ran.failure(), ran.out.as_str()), ((2, "`cargo check` fails; the reason stands above"), ""));
}

#[test]
fn a_folder_that_takes_no_plans_ends_the_build() {
    let demo = Crate::new("folder", LIBRARY);
    let file = demo.root().join("Cargo.toml");
    let ran = demo.cargo("check", &[("FUSE_PLAN_DIR", &file)]);
    assert_eq!(ran.code, Some(101), "{}", ran.err);
    let message = format!("error: the plans of this block cannot be written to `{}`", file.display());
    assert!(ran.err.contains(&message), "{}", ran.err);
    assert!(
        ran.err.contains("help: let the environment variable `FUSE_PLAN_DIR` name a folder"),
        "{}",
        ran.err
    );
    // Without the variable, or if it is empty, nothing is written.
    demo.cargo("check", &[("FUSE_PLAN_DIR", Path::new(""))]).ok();
}

#[test]
fn the_doctor_looks_at_every_part_of_this_machine() {
    let demo = Crate::new("doctor", LIBRARY);
    let ran = demo.fuse("doctor");
    // Whether all can be used depends on the machine.
    assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    for part in ["cpu      ", "gpu      ", "cache    ", "rustfmt  "] {
        assert!(ran.out.lines().any(|line| line.starts_with(part)), "no {part} in {}", ran.out);
    }
}

/// With stand-ins for the driver and NVRTC, so that the words do not depend on the machine.
#[test]
fn the_doctor_knows_a_gpu_and_what_keeps_one_from_being_used() {
    let demo = Crate::new("doctor-gpu", LIBRARY);
    let cache = demo.root().join("cache");
    let doctor = |driver, compiler| {
        let folders = [libraries("cuda", driver), libraries("nvrtc", compiler)];
        let folders = std::env::join_paths(folders).expect("no colon in a path");
        let variables = [("LD_LIBRARY_PATH", Path::new(&folders)), ("FUSE_CACHE_DIR", cache.as_path())];
        demo.fuse_with("doctor", &variables)
    };
    let text = doctor(Found::StandIn, Found::StandIn).ok();
    let line =
        |part: &str| text.lines().find(|line| line.starts_with(part)).map(str::to_owned).unwrap_or_default();
    assert_eq!(line("driver"), "driver   for CUDA 13.0");
    assert!(line("gpu").contains(", sm_90, ") && line("gpu").starts_with("gpu      0: "), "{text}");
    assert!(line("nvrtc").starts_with("nvrtc    13.0, for sm_75, sm_80, "), "{text}");
    assert_eq!(line("cache"), format!("cache    {}: 0 compiled kernels, 0 B", cache.display()));

    let ran = doctor(Found::StandIn, Found::None);
    assert_eq!(ran.failure(), (1, "1 thing is there and cannot be used"));
    assert!(
        ran.out.contains("gpu      0: cannot be used: no NVRTC: `libnvrtc` is not found; install it"),
        "{}",
        ran.out
    );
    let ran = doctor(Found::Old, Found::StandIn);
    assert_eq!(ran.failure(), (1, "1 thing is there and cannot be used"));
    assert!(ran.out.contains("install one for CUDA 11.4 or newer"), "{}", ran.out);
}
