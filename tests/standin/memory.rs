//! Memory: what is said if there is none, what is done before, and that freed memory serves again.

use crate::*;
use fuse::{Graph, Tensor};

#[test]
fn the_error_names_what_it_was_for_and_what_is_free() -> Result<(), Error> {
    in_own_process!();
    StandIn::Driver.set("memory", 1 << 20);
    let device = new_device()?;
    let text = |outcome: Result<(), Error>| outcome.err().map(|e| e.to_string()).unwrap_or_default();
    let outcome = Tensor::<f32, 1>::zeros([1 << 19], &device).map(drop);
    let place = format!("on {device}, where 1048576 are free");
    assert_eq!(text(outcome), format!("no memory for a tensor of 2097152 bytes, {place}"));
    StandIn::Driver.fail("cuMemGetInfo_v2", 0, 1, 999);
    let outcome = Tensor::<f32, 1>::zeros([1 << 19], &device).map(drop);
    assert_eq!(text(outcome), format!("no memory for a tensor of 2097152 bytes, on {device}"));
    let x = Tensor::full(1.0f32, [1, 1], &device)?.broadcast_to([600, 1000])?;
    let place = format!("on {device}, where 1048320 are free");
    let expected =
        format!("kernel `scale`: no memory for argument `result`, which has 2400000 bytes, {place}");
    assert_eq!(text(scale(&x, 2.0).map(drop)), expected);
    // A product before a sum that is read twice is kept in memory.
    let expected = "kernel `staged`: no memory for an intermediate buffer of 2400000 bytes, ";
    let message = text(staged(&x).map(drop));
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(scale(&x.slice((..2, ..3))?, 2.0)?.shape(), [2, 3]);
    drop((x, device));
    check_end();
    Ok(())
}

#[test]
fn freed_memory_is_given_back_before_there_is_none() -> Result<(), Error> {
    in_own_process!();
    StandIn::Driver.set("memory", 1 << 20);
    let device = new_device()?;
    // 600 KiB are kept when it is gone, and 800 KiB are not there beside.
    drop(Tensor::<u8, 1>::zeros([600 << 10], &device)?);
    assert_eq!(StandIn::Driver.report().live("block"), 1);
    let x = Tensor::<u8, 1>::zeros([800 << 10], &device)?;
    let report = StandIn::Driver.report();
    assert_eq!(
        (report.live("block"), report.count("cuMemAllocAsync"), report.count("cuMemFreeAsync")),
        (1, 3, 1)
    );
    drop((x, device));
    check_end();
    Ok(())
}

#[test]
fn a_loop_of_calls_asks_the_driver_for_no_memory() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    let x = Tensor::full(1.0f32, [30, 50], &device)?;
    for _ in 0..3 {
        centre(&normalise(&x)?)?;
    }
    let before = StandIn::Driver.report();
    for _ in 0..100 {
        centre(&normalise(&x)?)?;
    }
    let after = StandIn::Driver.report();
    let more: Vec<(&str, u64)> =
        after.calls().map(|(name, n)| (name, n - before.count(name))).filter(|(_, n)| *n > 0).collect();
    assert_eq!(more, [("cuCtxSetCurrent", 200), ("cuLaunchKernel", 400)]);
    drop((x, device));
    check_end();
    Ok(())
}

#[test]
fn a_gpu_without_pools_allocates_at_once() -> Result<(), Error> {
    in_own_process!();
    StandIn::Driver.set("pools", 0);
    let device = new_device()?;
    let x = Tensor::full(2.0f32, [30, 50], &device)?;
    let y = centre(&x)?;
    assert_eq!(x.to_vec()?, [2.0; 1500]);
    let report = StandIn::Driver.report();
    assert!(report.count("cuMemAlloc_v2") > 0);
    assert_eq!((report.count("cuMemAllocAsync"), report.count("cuDeviceGetDefaultMemPool")), (0, 0));
    drop((x, y, device));
    check_end();
    Ok(())
}

/// Copies from pinned memory for which nobody waits: without memory for another slot the caller waits instead.
#[test]
fn copies_wait_where_there_is_no_slot() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    let copy = |k: u32| Tensor::full(k, [100], &device);
    let waits = || StandIn::Driver.report().count("cuStreamSynchronize");
    // No copy is ever done.
    StandIn::Driver.fail("cuEventQuery", 0, u64::MAX, 600);
    let (mut tensors, before) = (Vec::new(), waits());
    for k in 0..12 {
        tensors.push(copy(k)?);
    }
    assert_eq!((waits() - before, StandIn::Driver.report().live("pinned")), (4, 8));
    for (k, tensor) in (0..).zip(&tensors) {
        assert_eq!(tensor.to_vec()?, [k; 100]);
    }
    let other = new_device()?;
    StandIn::Driver.fail("cuMemHostAlloc", 0, 1, 2);
    assert_eq!(Tensor::full(7u32, [100], &other)?.to_vec()?, [7; 100]);
    drop((tensors, device, other));
    check_end();
    Ok(())
}

/// Of a call without intermediate buffers only its new result is allocated, once every list is as long as it needs to be.
#[test]
fn launches_allocate_nothing() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    StandIn::Driver.quiet(true);
    let x = Tensor::full(1.0f32, [30, 64], &device)?;
    let i = Tensor::full(1i32, [30], &device)?;
    let (mut y, mut j) = (scale(&x, 2.0)?, quotient(&i, &i)?);
    let count = |call: &mut dyn FnMut() -> Result<(), Error>| -> Result<f64, Error> {
        (0..50).try_for_each(|_| call())?;
        let before = crate::allocations::count();
        (0..50).try_for_each(|_| call())?;
        Ok((crate::allocations::count() - before) as f64 / 50.0)
    };
    assert_eq!(count(&mut || scale::into(&x, 2.0, &mut y))?, 0.0);
    assert_eq!(count(&mut || normalise::into(&x, &mut y))?, 0.0, "with a fact");
    assert_eq!(count(&mut || scale(&x, 2.0).map(drop))?, 1.0);
    // Of launches that may fault there are lists, which grow until somebody waits.
    let faults = count(&mut || quotient::into(&i, &i, &mut j))?;
    assert!(faults < 0.2, "{faults}");
    let (graph, results) =
        Graph::capture(&device, || (0..10).map(|_| scale(&x, 2.0)).collect::<Result<Vec<_>, Error>>())?;
    assert_eq!(count(&mut || graph.replay())?, 1.0, "the list of the memory that is in use");
    // Intermediate buffers have four lists, of a few words each.
    let buffers = count(&mut || centre::into(&x, &mut y))?;
    assert!(buffers <= 4.0, "{buffers}");
    StandIn::Driver.quiet(false);
    drop((x, y, i, j, graph, results, device));
    check_end();
    Ok(())
}
