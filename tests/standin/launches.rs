//! What a launch passes. The stand-in runs no kernel, so the tests do: on the noted parameters alone, by the names and types
//! that the entry declares, in the memory to which its pointers point. Right results show that each parameter is what its name says.

use super::launch::Launch;
use crate::*;
use fuse::error::FaultKind;
use fuse::{Tensor, f16};

fn wave<const R: usize>(shape: [usize; R], device: &Device) -> Result<Tensor<f32, R>, Error> {
    let n = shape.iter().product::<usize>();
    Tensor::from_vec((0..n).map(|k| (k as f32 * 0.37).sin()).collect(), shape, device)
}

/// Does what a launch of `scale` is to do.
fn run_scale(launch: &Launch) {
    let number = |name: &str| launch.number(name) as usize;
    let a = f32::from_bits(launch.number("a") as u32);
    let (size, n) = (number("size"), number("n"));
    for k in 0..size {
        let (m, n) = (k / n, k % n);
        let at = |buffer: &str| {
            m * number(&format!("{buffer}_stride_m")) + n * number(&format!("{buffer}_stride_n"))
        };
        launch.write("out", at("out"), a * launch.read::<f32>("x", at("x")));
    }
}

#[test]
fn pointers_extents_and_strides() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    for shape in [[3, 5], [1, 1], [64, 64], [1, 4096], [4096, 1]] {
        let x = wave(shape, &device)?;
        let y = scale(&x, -2.5)?;
        let launch = Launch::only();
        let size = (shape[0] * shape[1]) as u64;
        // A thread has one element or a vector of them.
        let threads = launch.grid[0] * launch.block[0];
        assert!(threads * 4 >= size && launch.grid[1..] == [1, 1], "{launch:?}");
        assert_eq!(launch.entry, "fuse_scale");
        run_scale(&launch);
        let expected: Vec<f32> = x.to_vec()?.iter().map(|x| -2.5 * x).collect();
        assert_eq!(y.to_vec()?, expected, "{shape:?}");
    }
    drop(device);
    check_end();
    Ok(())
}

#[test]
fn a_view_is_passed_as_it_lies() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    let x = wave([8, 9], &device)?;
    let view = x.slice((1..4, 2..7))?.transpose(0, 1)?;
    let y = scale(&view, 3.0)?;
    run_scale(&Launch::only());
    let expected: Vec<f32> = view.to_vec()?.iter().map(|x| 3.0 * x).collect();
    assert_eq!(y.to_vec()?, expected);
    let mut into = wave([6, 7], &device)?;
    let before = into.to_vec()?;
    scale::into(&x.slice((0..2, 0..3))?, 1.5, &mut into.slice((2..4, 4..7))?)?;
    run_scale(&Launch::only());
    let (x, after) = (x.to_vec()?, into.to_vec()?);
    for (k, (before, after)) in before.iter().zip(&after).enumerate() {
        let (m, n) = (k / 7, k % 7);
        let written = (2..4).contains(&m) && n >= 4;
        let expected = if written { 1.5 * x[9 * (m - 2) + n - 4] } else { *before };
        assert_eq!(*after, expected, "element {m}, {n}");
    }
    into.copy_from_slice(&before)?;
    drop((view, into, y, device));
    check_use();
    Ok(())
}

#[test]
fn scalars_of_every_size_and_in_place() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    let x = Tensor::from_vec(vec![1.0f64, 2.0, 3.0], [3], &device)?;
    mixed(&x, 1.5, -2.5, -3, 65535, i64::MIN, true, f16::from_f32(0.25), u32::MAX)?;
    let launch = Launch::only();
    let scalars = [
        ("a", "f32", u64::from(1.5f32.to_bits())),
        ("b", "f64", (-2.5f64).to_bits()),
        ("c", "i8", 0xfd),
        ("d", "u16", 0xffff),
        ("e", "i64", 1 << 63),
        ("f", "bool", 1),
        // Scalars of narrow floats are widened by the host.
        ("g", "f32", u64::from(0.25f32.to_bits())),
        ("h", "u32", 0xffff_ffff),
        ("n", "u32", 3),
    ];
    for (name, of, bits) in scalars {
        assert_eq!((launch.param(name).of.as_str(), launch.number(name)), (of, bits), "{name}");
    }
    assert_eq!(launch.params.len(), scalars.len() + 4, "x, out, and their strides: {launch:?}");
    assert_eq!([0, 1, 2].map(|k| launch.read::<f64>("x", k)), [1.0, 2.0, 3.0]);
    let mut p = Tensor::from_vec(vec![8.0f32, 4.0], [2], &device)?;
    decay(&mut p, 0.5)?;
    let launch = Launch::only();
    for k in 0..launch.number("n") as usize {
        let value = launch.read::<f32>("p", k * launch.number("p_stride_n") as usize);
        launch.write("p", k, value - f32::from_bits(launch.number("rate") as u32) * value);
    }
    assert_eq!(p.to_vec()?, [4.0, 2.0]);
    drop((x, p, device));
    check_end();
    Ok(())
}

#[test]
fn launches_of_a_call_share_their_buffers() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    let x = wave([3, 5], &device)?;
    let y = centre(&x)?;
    let launches = Launch::all(&StandIn::Driver.report(), "launch");
    let entries: Vec<&str> = launches.iter().map(|launch| launch.entry.as_str()).collect();
    assert_eq!(entries, ["fuse_centre_0", "fuse_centre_0_fold", "fuse_centre_1"]);
    let [sum, fold, difference] = launches.as_slice() else { panic!("{launches:?}") };
    let address = |launch: &Launch, name: &str| launch.param(name).bits;
    assert_eq!(address(sum, "x"), address(difference, "x"));
    assert_eq!(address(sum, "scratch"), address(fold, "scratch"));
    assert_eq!(address(fold, "temp0"), address(difference, "temp0"));
    let all = ["x", "temp0", "out"].map(|name| address(difference, name));
    assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2], "{difference:?}");
    drop((x, y, device));
    check_end();
    Ok(())
}

#[test]
fn indices_of_64_bits_where_32_do_not_suffice() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    let x = Tensor::full(1.0f32, [1, 1], &device)?.broadcast_to([70_000, 70_000])?;
    let y = normalise(&x.slice((..2, ..3))?)?;
    assert_eq!(Launch::only().param("n").of, "u32");
    drop(y);
    // 19.6 GB of a result are more than the stand-in has, which it then says.
    let outcome = normalise(&x);
    assert!(matches!(outcome, Err(Error::OutOfMemory { bytes: 19_600_000_000, .. })), "{outcome:?}");
    let y = total(&x)?;
    let launch = Launch::all(&StandIn::Driver.report(), "launch").remove(0);
    let wide: Vec<&str> = launch.params.iter().filter(|p| p.bits >= 70_000).map(|p| p.of.as_str()).collect();
    assert!(wide.iter().all(|of| ["pointer", "i64", "u64"].contains(of)) && wide.len() > 2, "{launch:?}");
    drop((x, y, device));
    check_use();
    Ok(())
}

#[test]
fn nothing_is_launched_for_nothing() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    let y = scale(&Tensor::<f32, 2>::zeros([0, 7], &device)?, 2.0)?;
    assert_eq!(y.to_vec()?, [0.0; 0]);
    assert_eq!(StandIn::Driver.report().count("cuLaunchKernel"), 0);
    check_use();
    Ok(())
}

#[test]
fn a_noted_fault_is_the_error_of_whoever_waits() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    let a = Tensor::full(1i32, [8], &device)?;
    let first = quotient(&a, &a)?;
    let second = quotient(&a, &a)?;
    let launches = Launch::all(&StandIn::Driver.report(), "launch");
    let [_, noted] = launches.as_slice() else { panic!("{launches:?}") };
    assert_eq!(noted.read::<u64>("faults", 0), u64::MAX, "a word starts set");
    noted.write("faults", 0, 3u64);
    let outcome = first.to_vec();
    let Err(Error::Fault(fault)) = &outcome else { panic!("{outcome:?}") };
    assert_eq!((fault.kernel.as_str(), &fault.kind), ("quotient", &FaultKind::DivisionByZero));
    assert!(first.to_vec().is_ok() && second.to_vec().is_ok(), "it is reported once");
    // Its words are set again before they are used again, and if that fails, the call does.
    StandIn::Driver.fail("cuMemsetD8Async", 0, 1, 999);
    assert!(matches!(quotient(&a, &a), Err(Error::CudaCall { .. })));
    let third = quotient(&a, &a)?;
    let launch = Launch::only();
    assert_eq!(launch.read::<u64>("faults", 0), u64::MAX);
    // While it cannot be read it is not forgotten.
    launch.write("faults", 0, 0u64);
    StandIn::Driver.fail("cuMemcpyDtoHAsync_v2", 0, 1, 999);
    assert!(matches!(device.synchronize(), Err(Error::CudaCall { .. })));
    assert!(matches!(device.synchronize(), Err(Error::Fault(_))));
    device.synchronize()?;
    drop((a, first, second, third, device));
    check_end();
    Ok(())
}

/// The compiler puts registers into memory so that more blocks fit. Then the same function is compiled for fewer.
#[test]
fn a_function_that_spills_is_compiled_with_more_room() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    let x = wave([3, 5], &device)?;
    let counts = || {
        let (driver, compiler) = (StandIn::Driver.report(), StandIn::Compiler.report());
        [driver.count("cuLaunchKernel"), driver.live("module"), compiler.count("nvrtcCompileProgram")]
    };
    StandIn::Compiler.set("spills", 24);
    drop((scale(&x, 2.0)?, scale(&x, 2.0)?));
    assert_eq!(counts(), [2, 1, 2]);
    // If the second does not compile, the first serves.
    StandIn::Compiler.fail("nvrtcCompileProgram", 1, 1, 11);
    normalise(&x)?;
    assert_eq!(counts()[0], 3);
    // Nor does it help where there are too few for one block: the least of all variants is launched.
    StandIn::Compiler.set("always_spills", 48);
    total(&x)?;
    let launches = Launch::all(&StandIn::Driver.report(), "launch");
    assert!(launches.iter().all(|launch| launch.entry.starts_with("fuse_total")), "{launches:?}");
    drop((x, device));
    check_end();
    Ok(())
}
