//! The lock file, and what differs from it.

use super::crates::{Crate, check_golden};

const LIBRARY: &str = "\
fuse::fuse! {
    #[kernel]
    pub fn score<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
        let y = x.exp();
        let z = y + 1.0;
        z.sqrt()
    }

    #[kernel]
    pub fn total<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.sum(N) }
}
";

#[test]
fn a_lost_fusion_is_named_with_its_rule() {
    let demo = Crate::new("lock", LIBRARY);
    let written = demo.fuse("lock").ok();
    assert_eq!(written, format!("2 kernels written to {}\n", demo.root().join("fuse.lock").display()));
    check_golden("fuse.lock", &demo.read("fuse.lock"));
    assert_eq!(demo.fuse("lock --check").ok(), "2 kernels as locked\n");

    // The lines are others, the kernels the same.
    demo.write("src/lib.rs", &format!("\n\n//! Kernels.\n{LIBRARY}").replace("//!", "//"));
    assert_eq!(demo.fuse("lock --check").ok(), "2 kernels as locked\n");

    // `y` is named as before, and is read from memory now.
    demo.write(
        "src/lib.rs",
        &LIBRARY.replace("x.exp()", "x.exp().materialize()").replace("total", "sum_of_all"),
    );
    let lost = demo.fuse("lock --check");
    let path = demo.root().join("fuse.lock");
    assert_eq!(
        lost.failure(),
        (
            1,
            format!("`{}` is out of date; if that is meant, `cargo fuse lock` updates it", path.display())
                .as_str()
        )
    );
    check_golden("lock_lost.txt", &lost.out);

    demo.fuse("lock").ok();
    assert_eq!(demo.fuse("lock --check").ok(), "2 kernels as locked\n");
    demo.write("src/lib.rs", LIBRARY);
    let gained = demo.fuse("lock --check");
    assert_eq!(gained.code, Some(1));
    check_golden("lock_gained.txt", &gained.out);
}

#[test]
fn a_lock_file_that_is_none_is_a_failure() {
    let demo = Crate::new("no-lock", LIBRARY);
    let path = demo.root().join("fuse.lock");
    let (code, message) = (2, format!("`{}` cannot be read: ", path.display()));
    let missing = demo.fuse("lock --check");
    assert_eq!(missing.failure().0, code);
    assert!(missing.failure().1.starts_with(&message), "{missing:?}");
    assert!(missing.failure().1.ends_with("; `cargo fuse lock` writes it"), "{missing:?}");

    demo.write("fuse.lock", "version 1\n\nkernels: two\n");
    let text = format!(
        "line 3 of `{}` is not as this version writes it; `cargo fuse lock` writes it anew",
        path.display()
    );
    assert_eq!(demo.fuse("lock --check").failure(), (2, text.as_str()));
}

#[test]
fn kernels_of_one_name_are_numbered() {
    let module = |name: &str, by: &str| {
        format!(
            "pub mod {name} {{ fuse::fuse! {{ #[kernel] pub fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {{ x * {by} }} }} }}\n"
        )
    };
    let demo = Crate::new("numbered", &(module("a", "2.0") + &module("b", "3.0")));
    demo.fuse("lock --file plans.txt").ok();
    let text = demo.read("plans.txt");
    let names: Vec<&str> = text.lines().filter(|line| line.starts_with("kernel ")).collect();
    assert_eq!(names, ["kernel demo::k", "kernel demo::k #2"]);
}
