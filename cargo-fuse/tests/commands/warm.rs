//! Kernels are compiled ahead of time, where there is NVRTC.

use super::crates::Crate;
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
