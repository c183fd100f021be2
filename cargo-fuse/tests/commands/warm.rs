//! Kernels are compiled ahead of time: by NVRTC where there is one, and by what stands in for it, so that a program that
//! carries its machine code is run without.

use super::crates::Crate;
use super::standins::{Found, libraries};
use std::path::{Path, PathBuf};

const LIBRARY: &str = "\
fuse::fuse! {
    #[kernel]
    pub fn scaled<M, N>(x: Tensor<f32, M, N>, w: Tensor<f32, N>) -> Tensor<f32, M, N> { x * w }

    #[kernel]
    pub fn total<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> { x.sum(N) }
}
";

/// The folder of NVRTC that `cargo xtask cuda-toolchain` installs, if it did.
fn nvrtc() -> Option<PathBuf> {
    // Files of tests lie in `tmp` in the target folder.
    let lib = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?.join("cuda-toolchain/lib");
    let child = |folder: PathBuf, start: &str| {
        let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        entries
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start)))
            .min()
    };
    let packages = child(lib, "python3")?.join("site-packages/nvidia");
    Some(child(packages, "cu")?.join("lib")).filter(|folder| folder.is_dir())
}

#[test]
fn kernels_are_compiled_once() {
    let Some(nvrtc) = nvrtc() else {
        let required = std::env::var_os("FUSE_REQUIRE_CUDA_TOOLCHAIN").is_some();
        assert!(!required, "no NVRTC; `cargo xtask cuda-toolchain` installs it");
        println!("skipped: no NVRTC; `cargo xtask cuda-toolchain` installs it");
        return;
    };
    let demo = Crate::new("warm", LIBRARY);
    let cache = demo.root().join("cache");
    let variables = [("LD_LIBRARY_PATH", nvrtc.as_path()), ("FUSE_CACHE_DIR", cache.as_path())];
    let warm = |line: &str| demo.fuse_with(line, &variables);

    let first = warm("warm --arch sm_90").ok();
    let files = || std::fs::read_dir(&cache).expect("the folder").count();
    let compiled = files();
    assert!(compiled >= 2, "{first}");
    let shown = cache.display();
    assert_eq!(first, format!("{compiled} variants compiled for sm_90, 0 were there, in {shown}\n"));
    let again = warm("warm --arch sm_90").ok();
    assert_eq!(again, format!("0 variants compiled for sm_90, {compiled} were there, in {shown}\n"));
    assert_eq!(files(), compiled);
    // Another architecture has its own.
    warm("warm scaled --arch sm_80").ok();
    assert!(files() > compiled);
    for file in std::fs::read_dir(&cache).expect("the folder") {
        let code = std::fs::read(file.expect("a file").path()).expect("a file");
        assert!(code.windows(4).any(|bytes| bytes == b"\x7fELF"), "no machine code");
    }

    let ptx = warm("emit total --ptx sm_80").ok();
    assert!(ptx.starts_with("// PTX for sm_80 of `demo::total`, planned for cpu\n"), "{ptx}");
    assert!(ptx.contains(".target sm_80") && ptx.contains(".visible .entry fuse_total"), "{ptx}");

    let unknown = warm("warm --arch sm_12345");
    assert_eq!(unknown.failure().0, 2);
    assert!(unknown.failure().1.contains("compiles nothing that sm_12345 runs"), "{unknown:?}");
}

#[test]
fn an_architecture_is_named_where_there_is_no_gpu() {
    if fuse_runtime::Device::cuda_count() > 0 {
        println!("skipped: there is a GPU");
        return;
    }
    let demo = Crate::new("no-arch", LIBRARY);
    let message = "there is no GPU here that can be used; name an architecture: `--arch sm_90`";
    assert_eq!(demo.fuse("warm").failure(), (2, message));
}

/// It says what it finds before and after it takes its machine code in.
const PROGRAM: &str = r#"use fuse::{Device, Error, Tensor, fuse};

fuse! {
    #[kernel]
    pub fn scaled<M, N>(x: Tensor<f32, M, N>, w: Tensor<f32, N>) -> Tensor<f32, M, N> { x * w }

    #[kernel]
    pub fn total<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> { x.sum(N) }
}

fn main() -> Result<(), Error> {
    println!("{}", Device::cuda(0).expect_err("there is no NVRTC"));
    fuse::add_machine_code(include_bytes!("machine_code.fuse"))?;
    let dev = Device::cuda(0)?;
    let x = Tensor::full(2.0f32, [4, 8], &dev)?;
    let y = scaled(&x, &Tensor::full(0.5, [8], &dev)?)?;
    // No strides of a contiguous tensor.
    total(&y.slice((1..3, 2..7))?)?;
    total(&y.transpose(0, 1)?)?;
    dev.synchronize()?;
    println!("three kernels ran on {dev}");
    Ok(())
}
"#;

#[test]
fn a_program_carries_its_machine_code() {
    let demo = Crate::program("carried", PROGRAM);
    let (driver, nvrtc) = (libraries("cuda", Found::StandIn), libraries("nvrtc", Found::StandIn));
    let cache = demo.root().join("cache");
    let warm = |line: &str, compiler: &Path| {
        demo.fuse_with(line, &[("LD_LIBRARY_PATH", compiler), ("FUSE_CACHE_DIR", cache.as_path())])
    };
    let path = "src/machine_code.fuse";
    let file = demo.root().join(path);

    // A kernel that is not there leaves no file that would be empty.
    assert_eq!(warm(&format!("warm other --arch sm_90 --embed {path}"), &nvrtc).failure().0, 1);
    assert!(!file.exists());

    let said = warm(&format!("warm --arch sm_90 --arch sm_80 --embed {path}"), &nvrtc).ok();
    let lines: Vec<&str> = said.lines().collect();
    let compiled = lines[0].strip_suffix(" variants compiled for sm_90, 0 were there").expect(&said);
    assert_eq!(lines[1], format!("{compiled} variants compiled for sm_80, 0 were there"));
    let both = 2 * compiled.parse::<usize>().expect("a number");
    let written = format!("written to {path}");
    assert!(lines[2].starts_with(&format!("{both} variants, ")) && lines[2].ends_with(&written), "{said}");
    // What one takes from the cache is the same file.
    let first = std::fs::read(&file).expect("the file is written");
    let again = warm(&format!("warm --arch sm_80 --arch sm_90 --embed {path}"), &nvrtc).ok();
    assert!(again.contains(&format!("0 variants compiled for sm_80, {compiled} were there")), "{again}");
    assert!(std::fs::read(&file).is_ok_and(|bytes| bytes == first), "another file for the same kernels");

    // The program runs where there is a driver and no NVRTC, nor a cache.
    let folders = [driver.as_path(), &libraries("nvrtc", Found::None)];
    let folders = std::env::join_paths(folders).expect("no colon in a path");
    let found = [("LD_LIBRARY_PATH", Path::new(&folders)), ("FUSE_CACHE_DIR", Path::new(""))];
    let ran = demo.cargo("run", &found).ok();
    let lines: Vec<&str> = ran.lines().collect();
    assert!(lines[0].starts_with("CUDA cannot be used: no NVRTC: `libnvrtc` is not found"), "{ran}");
    assert_eq!(lines[1..], ["three kernels ran on cuda:0"]);

    // A kernel that has changed since is no longer there, and the program says so.
    demo.write("src/main.rs", &PROGRAM.replace("x * w }", "x * w + 1.0 }"));
    let ran = demo.cargo("run", &found);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("NoMachineCode { kernel: \"scaled\""), "{}", ran.err);
}

#[test]
fn a_file_that_cannot_be_written_is_said_before_anything_is_built() {
    let demo = Crate::new("unwritable", LIBRARY);
    let nvrtc = libraries("nvrtc", Found::StandIn);
    let ran = demo.fuse_with("warm --arch sm_90 --embed nowhere/a.fuse", &[("LD_LIBRARY_PATH", &nvrtc)]);
    let (code, message) = ran.failure();
    assert_eq!(code, 2);
    assert!(message.starts_with("`nowhere/a.fuse` cannot be written: "), "{message}");
    // What is no such file stays.
    let ran = demo.fuse_with("warm --arch sm_90 --embed src/lib.rs", &[("LD_LIBRARY_PATH", &nvrtc)]);
    let message = "`src/lib.rs` is there and holds no machine code of kernels: it is left as it is; remove it, or name another file";
    assert_eq!(ran.failure(), (2, message));
    assert_eq!(demo.read("src/lib.rs"), LIBRARY);
    // Without a folder to keep code in, only what is carried can be compiled.
    let variables = [("LD_LIBRARY_PATH", nvrtc.as_path()), ("FUSE_CACHE_DIR", Path::new(""))];
    let ran = demo.fuse_with("warm --arch sm_90", &variables);
    let message = "FUSE_CACHE_DIR is empty, so nothing is kept; unset it, or let it name a folder";
    assert_eq!(ran.failure(), (2, message));
    let ptx = demo.fuse_with("emit total --ptx sm_80", &variables).ok();
    assert!(ptx.starts_with("// PTX for sm_80 of `demo::total`, planned for cpu\n\n// total\n"), "{ptx}");
}
