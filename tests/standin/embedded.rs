//! Machine code that the program carries: kernels start where there is no NVRTC.

use crate::*;
use fuse::{CudaUnavailable, Tensor, add_machine_code};
use fuse_runtime::{MachineCode, Precompiled, Precompiler};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A file of a test's own, gone with it.
struct File(PathBuf);

impl File {
    /// An archive of `scale`, `total` and `quotient` for sm_90, written by a process that has NVRTC.
    fn new(name: &str) -> File {
        let file =
            File(std::env::temp_dir().join(format!("fuse-standin-{}-{name}.fuse", std::process::id())));
        let child =
            Child::new(Found::StandIn, Found::StandIn, &only("standin::embedded::an_archive_is_written"));
        child.env(ARCHIVE, &file.0).run();
        file
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Names the file to the processes of the tests.
const ARCHIVE: &str = "FUSE_TEST_ARCHIVE";

fn archive() -> PathBuf {
    std::env::var_os(ARCHIVE).map(PathBuf::from).expect("the process that starts this one names it")
}

/// What a program has by `include_bytes!`.
fn bytes() -> &'static [u8] {
    Vec::leak(std::fs::read(archive()).expect("the archive was written"))
}

/// What each test runs in a process of its own, with an archive.
fn run_with_archive(test: &str, compiler: Found, variables: &[(&str, &str)]) {
    let file = File::new(test.rsplit("::").next().unwrap_or_default());
    let child = Child::new(Found::StandIn, compiler, &only(test)).env(ARCHIVE, &file.0);
    variables.iter().fold(child, |child, (name, value)| child.env(name, value)).run();
}

#[test]
fn an_archive_is_written() -> Result<(), Error> {
    if !in_child() {
        // The other tests have it done.
        return Ok(());
    }
    let compiler = Precompiler::open("sm_90").expect("there is NVRTC");
    let code = Mutex::new(MachineCode::new());
    for program in [scale::program(), total::program(), quotient::program()] {
        for kernel in Precompiler::list_for_every_call(program) {
            assert_eq!(compiler.embed(&kernel, &code), Ok(Precompiled::Compiled));
        }
    }
    let code = code.into_inner().expect("nobody panics");
    assert_eq!(StandIn::Compiler.report().count("nvrtcCompileProgram"), code.len() as u64, "each once");
    write(&archive(), &code.to_bytes());
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("the folder for temporary files is writable");
}

/// What is left of a device that is gone, where there is no NVRTC to ask.
#[track_caller]
fn check_driver() {
    let report = StandIn::Driver.report();
    assert_eq!(report.misuse(), [""; 0]);
    assert_eq!(TEMPORARY.map(|kind| (kind, report.live(kind))), TEMPORARY.map(|kind| (kind, 0)));
}

#[test]
fn kernels_start_without_a_compiler() -> Result<(), Error> {
    if !in_child() {
        run_with_archive(crate::test_name!(), Found::None, &[]);
        return Ok(());
    }
    assert!(matches!(Device::cuda(0), Err(Error::Cuda(CudaUnavailable::NoCompiler))));
    add_machine_code(bytes())?;
    let device = new_device()?;
    assert_eq!(Device::why_not_cuda(), None);
    let count = |call| StandIn::Driver.report().count(call);

    let x = Tensor::full(2.0f32, [4, 4], &device)?;
    scale(&x, 2.0)?;
    assert_eq!((count("cuModuleLoadData"), count("cuLaunchKernel")), (1, 1));
    // Neither are strides those of a contiguous tensor, nor is the start of every row aligned.
    let part = x.slice((.., 1..3))?;
    scale(&part.transpose(0, 1)?, 2.0)?;
    assert_eq!((count("cuModuleLoadData"), count("cuLaunchKernel")), (2, 2));
    quotient(&Tensor::full(6i32, [5], &device)?, &Tensor::full(2i32, [5], &device)?)?;

    // More elements than 32 bits count.
    let many = Tensor::full(1.0f32, [1, 1], &device)?.broadcast_to([70_000, 70_000])?;
    let launches = count("cuLaunchKernel");
    total(&many)?;
    assert!(count("cuLaunchKernel") > launches);
    device.synchronize()?;

    // What the archive lacks is said, and harms nothing.
    let mut p = Tensor::full(1.0f32, [8], &device)?;
    let error = decay(&mut p, 0.5).err().map(|e| e.to_string()).unwrap_or_default();
    let expected = "kernel `decay`: the program carries no machine code of `decay` for sm_90, which `cargo fuse warm \
                    --arch sm_90 --embed` writes, and it cannot be compiled here: no NVRTC: `libnvrtc` is not found; \
                    install it (`pip install nvidia-cuda-nvrtc`, or the CUDA toolkit) and add its folder to LD_LIBRARY_PATH";
    assert_eq!(error, expected);
    scale(&x, 3.0)?;
    device.synchronize()?;
    drop((x, part, many, p, device));
    check_driver();
    Ok(())
}

#[test]
fn carried_code_comes_before_the_compiler() -> Result<(), Error> {
    if !in_child() {
        run_with_archive(crate::test_name!(), Found::StandIn, &[]);
        return Ok(());
    }
    add_machine_code(bytes())?;
    let device = new_device()?;
    let x = Tensor::full(2.0f32, [2, 2], &device)?;
    scale(&x, 2.0)?;
    assert_eq!(StandIn::Compiler.report().count("nvrtcCompileProgram"), 0);
    // What is not there is compiled.
    normalise(&x)?;
    assert_eq!(StandIn::Compiler.report().count("nvrtcCompileProgram"), 1);
    drop((x, device));
    check_end();
    Ok(())
}

#[test]
fn code_for_another_gpu_does_not_help() -> Result<(), Error> {
    if !in_child() {
        run_with_archive(crate::test_name!(), Found::None, &[("STANDIN_CAPABILITY", "80")]);
        return Ok(());
    }
    add_machine_code(bytes())?;
    assert!(matches!(Device::cuda(0), Err(Error::Cuda(CudaUnavailable::NoCompiler))));
    assert_eq!(StandIn::Driver.report().live("context"), 0);
    Ok(())
}

#[test]
fn carried_code_that_the_driver_refuses() -> Result<(), Error> {
    if !in_child() {
        run_with_archive(crate::test_name!(), Found::None, &[]);
        return Ok(());
    }
    add_machine_code(bytes())?;
    StandIn::Driver.set("driver", 12020);
    let device = new_device()?;
    let x = Tensor::full(2.0f32, [2, 2], &device)?;
    StandIn::Driver.fail("cuModuleLoadData", 0, 1, 222);
    let error = scale(&x, 2.0).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(error.contains("which is for CUDA 12.2, does not take the code of NVRTC 13.0"), "{error}");
    scale(&x, 2.0)?;
    drop((x, device));
    check_driver();
    Ok(())
}
