//! What is said where the driver, NVRTC or a part of either is missing, and that the CPU is then used if it may be.

use crate::*;
use fuse::CudaUnavailable;
use fuse::Tensor;

/// Checks what is said, and whether it means that there is no GPU, so that the CPU is the best device.
#[track_caller]
fn check(absent: bool, text: &str) -> Result<(), Error> {
    for _ in 0..2 {
        let outcome = Device::cuda(0);
        let Err(Error::Cuda(why)) = &outcome else { panic!("{outcome:?}") };
        assert_eq!(why.to_string(), text);
        assert_eq!(Device::why_not_cuda().as_ref(), Some(why));
        match (absent, Device::best()) {
            (true, best) => assert_eq!(best?, Device::cpu()),
            (false, Err(Error::Cuda(same))) => assert_eq!(same, *why),
            (false, other) => panic!("{other:?}"),
        }
        assert_eq!(Device::best_or_cpu(), Device::cpu());
        let x = Tensor::full(2.0f32, [2, 2], &Device::best_or_cpu())?;
        assert_eq!(scale(&x, 2.0)?.to_vec()?, [4.0; 4]);
    }
    Ok(())
}

#[test]
fn no_driver() -> Result<(), Error> {
    in_own_process!(Found::None, Found::StandIn);
    let text =
        "no NVIDIA driver: `libcuda` is not found; install the driver, or add its folder to LD_LIBRARY_PATH";
    check(true, text)?;
    assert_eq!(Device::cuda_count(), 0);
    Ok(())
}

#[test]
fn no_compiler() -> Result<(), Error> {
    in_own_process!(Found::StandIn, Found::None);
    let text = "no NVRTC: `libnvrtc` is not found; install it (`pip install nvidia-cuda-nvrtc`, or the CUDA toolkit) and \
                add its folder to LD_LIBRARY_PATH";
    check(false, text)?;
    assert_eq!(StandIn::Driver.report().live("context"), 0);
    Ok(())
}

#[test]
fn an_old_driver() -> Result<(), Error> {
    in_own_process!(Found::Old, Found::StandIn);
    StandIn::Driver.set("driver", 11020);
    let text = "the NVIDIA driver, which is for CUDA 11.2, has no `cuGraphInstantiateWithFlags`; \
                install one for CUDA 11.4 or newer";
    check(false, text)
}

#[test]
fn no_device() -> Result<(), Error> {
    in_own_process!();
    StandIn::Driver.set("devices", 0);
    let text = "there is no GPU, so none of number 0; check `nvidia-smi` and CUDA_VISIBLE_DEVICES";
    check(true, text)
}

#[test]
fn a_device_of_another_number() -> Result<(), Error> {
    in_own_process!();
    StandIn::Driver.set("devices", 2);
    let text = Device::cuda(2).err().map(|e| e.to_string()).unwrap_or_default();
    assert_eq!(text, "CUDA cannot be used: there is no GPU of number 2: there are 2, numbered from 0");
    assert_eq!((Device::cuda_count(), Device::cuda(1)?.to_string()), (2, "cuda:1".to_owned()));
    check_use();
    Ok(())
}

/// The machine may come up later.
#[test]
fn a_driver_that_does_not_start_yet() -> Result<(), Error> {
    in_own_process!();
    StandIn::Driver.fail("cuInit", 0, 8, 802);
    let outcome = Device::cuda(0);
    let text = "CUDA cannot be used: `cuInit` gives CUDA_ERROR_SYSTEM_NOT_READY (802); check that `nvidia-smi` works";
    assert_eq!(outcome.err().map(|e| e.to_string()).as_deref(), Some(text));
    assert!(matches!(Device::best(), Err(Error::Cuda(CudaUnavailable::Start { code: 802, .. }))));
    while StandIn::Driver.report().count("cuInit") < 8 {
        assert_eq!(Device::best_or_cpu(), Device::cpu());
    }
    assert!(Device::best()?.is_cuda());
    check_use();
    Ok(())
}

#[test]
fn an_architecture_that_is_older_than_the_compiler() -> Result<(), Error> {
    in_own_process!();
    StandIn::Driver.set("capability", 50);
    check(false, "NVRTC 13.0 compiles nothing that sm_50 runs; install one of the driver's own version")?;
    assert_eq!(StandIn::Driver.report().live("context"), 0);
    Ok(())
}

/// The driver compiles what is for one before.
#[test]
fn an_architecture_that_is_newer_than_the_compiler() -> Result<(), Error> {
    in_own_process!();
    StandIn::Driver.set("capability", 127);
    let device = new_device()?;
    let x = Tensor::full(2.0f32, [2, 2], &device)?;
    for call in ["nvrtcGetPTXSize", "nvrtcGetPTX"] {
        StandIn::Compiler.fail(call, 0, 1, 11);
        let text = scale(&x, 2.0).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(
            text.contains(&format!("`{call}` on {device} gives NVRTC_ERROR_INTERNAL_ERROR (11)")),
            "{text}"
        );
    }
    let before = StandIn::Compiler.report().count("nvrtcGetPTX");
    scale(&x, 2.0)?;
    let report = StandIn::Compiler.report();
    assert!(report.events()[0].ends_with("--gpu-architecture=compute_121"), "{:?}", report.events());
    assert_eq!((report.count("nvrtcGetPTX") - before, report.count("nvrtcGetCUBIN")), (1, 0));
    drop((x, device));
    check_end();
    Ok(())
}

#[test]
fn a_driver_that_does_not_take_the_compilers_code() -> Result<(), Error> {
    in_own_process!();
    StandIn::Driver.set("driver", 12020);
    let device = new_device()?;
    let x = Tensor::full(2.0f32, [2, 2], &device)?;
    StandIn::Driver.fail("cuModuleLoadData", 0, 1, 222);
    let text = scale(&x, 2.0).err().map(|e| e.to_string()).unwrap_or_default();
    let expected = format!(
        "kernel `scale`: the driver of {device}, which is for CUDA 12.2, does not take the code of NVRTC 13.0: \
         CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222); install a newer driver, or NVRTC 12.2"
    );
    assert_eq!(text, expected);
    // Without its version it is said as it is.
    StandIn::Driver.fail("cuModuleLoadData", 0, 1, 222);
    StandIn::Driver.fail("cuDriverGetVersion", 0, 1, 999);
    assert!(matches!(scale(&x, 2.0), Err(Error::CudaCall { code: 222, .. })));
    scale(&x, 2.0)?;
    // A driver as new as NVRTC must take it: then it is no matter of versions.
    StandIn::Driver.set("driver", 13000);
    StandIn::Driver.fail("cuModuleLoadData", 0, 1, 200);
    let text = normalise(&x).err().map(|e| e.to_string()).unwrap_or_default();
    let expected =
        format!("kernel `normalise`: `cuModuleLoadData` on {device} gives CUDA_ERROR_INVALID_IMAGE (200)");
    assert_eq!(text, expected);
    drop((x, device));
    check_end();
    Ok(())
}

#[test]
fn a_text_that_does_not_compile() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    let x = Tensor::full(2.0f32, [2, 2], &device)?;
    StandIn::Compiler.set("reject", 1);
    let text = scale(&x, 2.0).err().map(|e| e.to_string()).unwrap_or_default();
    let expected = "kernel `scale`: the CUDA C++ of `scale` does not compile:\n\
                    kernel.cu(7): error: the stand-in takes no text\n";
    assert_eq!(text, expected);
    for call in ["nvrtcGetProgramLogSize", "nvrtcGetProgramLog"] {
        StandIn::Compiler.fail(call, 0, 1, 11);
        let text = scale(&x, 2.0).err().map(|e| e.to_string()).unwrap_or_default();
        assert_eq!(
            text,
            format!("kernel `scale`: `{call}` on {device} gives NVRTC_ERROR_INTERNAL_ERROR (11)")
        );
    }
    StandIn::Compiler.set("reject", 0);
    scale(&x, 2.0)?;
    drop((x, device));
    check_end();
    Ok(())
}

/// An error that the driver has no name for.
#[test]
fn an_error_without_a_name() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    StandIn::Driver.fail("cuStreamSynchronize", 0, 1, 205);
    StandIn::Driver.fail("cuStreamSynchronize", 0, 1, 719 - 18);
    let text = |outcome: Result<(), Error>| outcome.err().map(|e| e.to_string()).unwrap_or_default();
    assert_eq!(
        text(device.synchronize()),
        format!("`cuStreamSynchronize` on {device} gives error 205 (205)")
    );
    StandIn::Driver.fail("cuGetErrorName", 0, 1, 1);
    assert_eq!(
        text(device.synchronize()),
        format!("`cuStreamSynchronize` on {device} gives error 701 (701)")
    );
    device.synchronize()?;
    Ok(())
}
