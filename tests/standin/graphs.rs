//! Captured calls: what a replay asks of the driver.

use super::launch::Launch;
use crate::*;
use fuse::{Graph, Tensor};

/// A launch whose words of faults may be elsewhere: those of a captured launch are its own.
fn without_faults(mut launch: Launch) -> Launch {
    launch.params.retain(|param| param.name != "faults");
    launch
}

#[test]
fn a_replay_is_one_launch_with_what_was_captured() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    let mut x = Tensor::full(0.5f32, [6, 50], &device)?;
    let mut p = Tensor::full(1.0f32, [10], &device)?;
    let i = Tensor::full(3i32, [9], &device)?;
    let work = |p: &mut Tensor<f32, 1>| {
        let y = centre(&normalise(&x)?)?;
        decay(p, 0.25)?;
        Ok((scale(&y, 3.0)?, quotient(&i, &i)?))
    };
    let (graph, results) = Graph::capture(&device, || work(&mut p))?;
    // The calls were made once, and are captured with the memory that they had, but for intermediate buffers and faults.
    let report = StandIn::Driver.report();
    let made = Launch::all(&report, "launch");
    graph.replay()?;
    let captured = Launch::all(&StandIn::Driver.report(), "replay");
    let strip = |launches: &[Launch]| -> Vec<Launch> {
        let own = |name: &str| name == "scratch" || name == "temp0";
        let strip = |launch: &Launch| {
            let mut launch = without_faults(launch.clone());
            launch.params.iter_mut().filter(|p| own(&p.name)).for_each(|p| p.bits = 0);
            launch
        };
        launches.iter().map(strip).collect()
    };
    assert_eq!(strip(&captured), strip(&made));
    let before = StandIn::Driver.report();
    for round in 0..100 {
        let contents = vec![round as f32; 300];
        x.copy_from_slice(&contents)?;
        graph.replay()?;
        let replayed = Launch::all(&StandIn::Driver.report(), "replay");
        assert_eq!(replayed, captured, "round {round}");
        // What it reads then is what was copied.
        assert_eq!((0..300).map(|k| replayed[0].read::<f32>("x", k)).collect::<Vec<_>>(), contents);
    }
    let after = StandIn::Driver.report();
    let calls = |name: &str| after.count(name) - before.count(name);
    assert_eq!(calls("cuGraphLaunch"), 100);
    for name in ["cuLaunchKernel", "cuMemAllocAsync", "cuMemsetD8Async", "cuStreamSynchronize"] {
        assert_eq!(calls(name), 0, "{name}");
    }
    device.synchronize()?;
    drop((x, p, i, graph, results, device));
    check_end();
    Ok(())
}

#[test]
fn a_graph_without_its_input_is_not_launched() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    let x = Tensor::full(0.5f32, [6, 50], &device)?;
    let (graph, y) = Graph::capture(&device, || scale(&x, 2.0))?;
    drop(x);
    let message = graph.replay().err().map(|e| e.to_string()).unwrap_or_default();
    assert!(message.starts_with("kernel `scale`: argument `x` was dropped"), "{message}");
    assert_eq!(StandIn::Driver.report().count("cuGraphLaunch"), 0);
    drop((y, graph, device));
    check_end();
    Ok(())
}

#[test]
fn faults_of_a_replay_are_kept_until_somebody_waits() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    let a = Tensor::full(1i32, [8], &device)?;
    let (graph, y) = Graph::capture(&device, || quotient(&a, &a))?;
    graph.replay()?;
    let replayed = Launch::all(&StandIn::Driver.report(), "replay").remove(0);
    replayed.write("faults", 0, 0u64);
    // Words that a replay before has lowered stay so: nobody has waited.
    graph.replay()?;
    assert_eq!(replayed.read::<u64>("faults", 0), 0);
    assert!(matches!(y.to_vec(), Err(Error::Fault(_))));
    graph.replay()?;
    assert_eq!(replayed.read::<u64>("faults", 0), u64::MAX, "they are set again");
    device.synchronize()?;
    drop((a, y, graph, device));
    check_end();
    Ok(())
}

/// Its words are still noted then; they go with the stream.
#[test]
fn a_graph_that_is_dropped_before_anybody_waits_leaves_nothing() -> Result<(), Error> {
    in_own_process!();
    let device = new_device()?;
    let a = Tensor::full(1i32, [8], &device)?;
    let (graph, y) = Graph::capture(&device, || quotient(&a, &a))?;
    graph.replay()?;
    graph.replay()?;
    drop((a, y, graph, device));
    check_end();
    Ok(())
}
