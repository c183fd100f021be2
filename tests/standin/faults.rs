//! Every call of the driver and of NVRTC fails once: what was asked for is an error that says what failed and why, asked for
//! again it works, and nothing is left behind.

use crate::*;
use fuse::{Graph, Tensor};

/// What the steps work on.
#[derive(Default)]
struct World {
    device: Option<Device>,
    other: Option<Device>,
    floats: Vec<Tensor<f32, 2>>,
    vector: Option<Tensor<f32, 1>>,
    integers: Vec<Tensor<i32, 1>>,
    graph: Option<Graph>,
}

impl World {
    fn device(&self) -> &Device {
        self.device.as_ref().expect("a step before has made it")
    }

    fn other(&self) -> &Device {
        self.other.as_ref().expect("a step before has made it")
    }
}

/// What is done: the kernel whose name an error must have, and the step. A step that fails leaves the world as it was.
type Step = (&'static str, fn(&mut World) -> Result<(), Error>);

/// Steps that together make every call of the driver and of NVRTC.
const STEPS: [Step; 19] = [
    ("", |w| set(new_device(), &mut w.device)),
    ("", |w| set(w.device().new_stream(), &mut w.other)),
    // A copy through a slot, one that is waited for, and zeros.
    ("", |w| push(Tensor::full(0.5, [3, 5], w.device()), &mut w.floats)),
    ("", |w| push(Tensor::full(0.25, [8, 10_000], w.device()), &mut w.floats)),
    ("", |w| set(Tensor::zeros([7], w.device()), &mut w.vector)),
    ("", |w| push(Tensor::full(3, [9], w.device()), &mut w.integers)),
    ("scale", |w| push(scale(&w.floats[0], 2.0), &mut w.floats)),
    ("centre", |w| push(centre(&w.floats[0]), &mut w.floats)),
    // Rows for which more shared memory is asked than every launch may have.
    ("normalise", |w| push(normalise(&w.floats[1]), &mut w.floats)),
    ("quotient", |w| push(quotient(&w.integers[0], &w.integers[0]), &mut w.integers)),
    ("decay", |w| decay(w.vector.as_mut().expect("a step before has made it"), 0.5)),
    ("", |w| check(w.floats[0].to_vec(), &[0.5; 15])),
    ("", |w| check(w.floats[1].slice((3, 5))?.reshape([])?.item().map(|x| vec![x]), &[0.25])),
    ("", |w| w.floats[0].slice((.., 2..4))?.copy_from_slice(&[0.5; 6])),
    // Copies on one stream, and from one to another.
    ("", |w| {
        let copy = w.floats[0].to_device(w.other())?;
        check(copy.to_vec(), &[0.5; 15])?;
        push(Ok(copy), &mut w.floats)
    }),
    ("", |w| {
        let (graph, (x, i)) = Graph::capture(w.device(), || {
            Ok((centre(&normalise(&w.floats[0])?)?, quotient(&w.integers[0], &w.integers[0])?))
        })?;
        push(Ok(x), &mut w.floats)?;
        push(Ok(i), &mut w.integers)?;
        set(Ok(graph), &mut w.graph)
    }),
    ("", |w| w.graph.as_ref().expect("a step before has made it").replay()),
    ("", |w| w.device().synchronize()),
    ("", |w| w.other().synchronize()),
];

fn set<T>(made: Result<T, Error>, place: &mut Option<T>) -> Result<(), Error> {
    *place = Some(made?);
    Ok(())
}

fn push<T>(made: Result<T, Error>, list: &mut Vec<T>) -> Result<(), Error> {
    list.push(made?);
    Ok(())
}

fn check(read: Result<Vec<f32>, Error>, expected: &[f32]) -> Result<(), Error> {
    assert_eq!(read?, expected);
    Ok(())
}

/// Calls whose failure nobody is told: what they give back is lost, and that is all.
const GIVE_BACK: [(&str, &str); 9] = [
    ("cuMemFreeAsync", "block"),
    ("cuMemFree_v2", "block"),
    ("cuMemFreeHost", "pinned"),
    ("cuStreamDestroy_v2", "stream"),
    ("cuEventDestroy_v2", "event"),
    ("cuModuleUnload", "module"),
    ("cuGraphDestroy", "graph"),
    ("cuGraphExecDestroy", "exec"),
    ("nvrtcDestroyProgram", "programs"),
];

/// Runs the steps, each again if it fails, and gives the errors with the kernel of their step.
fn run_steps() -> Vec<(&'static str, Error)> {
    let mut world = World::default();
    let mut errors = Vec::new();
    for (kernel, step) in STEPS {
        if let Err(error) = step(&mut world) {
            errors.push((kernel, error));
            if let Err(error) = step(&mut world) {
                panic!("it fails again: {error}");
            }
        }
    }
    errors
}

/// A call that fails: the library's, its name, how many calls succeed before.
#[derive(Clone, Debug)]
struct Planned {
    library: StandIn,
    call: String,
    skip: u64,
}

impl Planned {
    /// The code, and how a message says it.
    fn code(&self) -> (u32, &'static str) {
        match self.library {
            StandIn::Driver => (999, "CUDA_ERROR_UNKNOWN (999)"),
            StandIn::Compiler => (11, "NVRTC_ERROR_INTERNAL_ERROR (11)"),
        }
    }

    /// Runs the steps with this call failing once.
    fn run(&self) {
        let (code, said) = self.code();
        self.library.fail(&self.call, self.skip, 1, code);
        let errors = run_steps();
        let silent = GIVE_BACK.iter().any(|(call, _)| *call == self.call);
        for (kernel, error) in &errors {
            let text = error.to_string();
            let call = format!("`{}`", self.call.trim_end_matches("_v2"));
            assert!(text.contains(&call) && text.contains(said), "{self:?}: {text}");
            let device = text.contains(" on cuda:0") || text.starts_with("CUDA cannot be used: ");
            assert!(device, "{self:?} names no device: {text}");
            let named = kernel.is_empty() || text.starts_with(&format!("kernel `{kernel}`: "));
            assert!(named, "{self:?} does not name `{kernel}`: {text}");
        }
        // The last of these are made when tensors and streams go, of which no caller hears.
        let at_end = ["cuCtxSetCurrent", "cuStreamSynchronize"].contains(&self.call.as_str());
        assert!(errors.len() <= 1, "{self:?}: {errors:?}");
        assert!(errors.len() == 1 || silent || at_end, "{self:?}: nobody was told");
    }
}

/// The calls that a run of the steps makes beside those that it has made before.
fn count_calls(before: Option<&[Planned]>) -> Vec<Planned> {
    let mut all = Vec::new();
    for library in [StandIn::Driver, StandIn::Compiler] {
        for (call, count) in library.report().calls() {
            let made = |p: &&Planned| p.library == library && p.call == call;
            let skip = count - before.and_then(|b| b.iter().find(made)).map_or(0, |p| p.skip);
            all.push(Planned { library, call: call.to_owned(), skip });
        }
    }
    all
}

/// The first time, when libraries are found and code is compiled and loaded: each call in a process of its own.
#[test]
fn every_call_fails_once() {
    const NAME: &str = "standin::faults::every_call_fails_once";
    let child = || Child::new(Found::StandIn, Found::StandIn, &only(NAME));
    if !in_child() {
        for pools in ["1", "0"] {
            let printed = child().env("STANDIN_POOLS", pools).run();
            let counted = printed.lines().filter_map(|line| line.strip_prefix("counted "));
            let mut faults: Vec<String> = Vec::new();
            for line in counted {
                let (call, count) = line.rsplit_once(' ').expect("a call and a number");
                let count: u64 = count.parse().expect("a number");
                // The first and the last.
                let mut which = [0, count - 1].to_vec();
                which.dedup();
                faults.extend(which.iter().map(|skip| format!("{call} {skip}")));
            }
            assert!(faults.len() > 60, "{faults:?}");
            let next = std::sync::Mutex::new(faults.iter());
            std::thread::scope(|scope| {
                for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
                    scope.spawn(|| {
                        loop {
                            let Some(fault) = next.lock().expect("no thread panics with it").next() else {
                                break;
                            };
                            child().env("STANDIN_POOLS", pools).env("FUSE_FAULT", fault).run();
                        }
                    });
                }
            });
        }
        return;
    }
    let Ok(fault) = std::env::var("FUSE_FAULT") else {
        assert!(run_steps().is_empty());
        check_end();
        for Planned { library, call, skip } in count_calls(None) {
            write_line(&format!("counted {library:?} {call} {skip}"));
        }
        return;
    };
    let words: Vec<&str> = fault.split(' ').collect();
    let [library, call, skip] = words.as_slice() else { panic!("{fault}") };
    let library = if *library == "Driver" { StandIn::Driver } else { StandIn::Compiler };
    let planned = Planned { library, call: (*call).to_owned(), skip: skip.parse().expect("a number") };
    planned.run();
    check_left(&planned, 1);
}

/// When everything is compiled and loaded: each of more than a hundred calls in turn.
#[test]
fn every_call_fails_once_in_turn() -> Result<(), Error> {
    in_own_process!();
    assert!(run_steps().is_empty());
    let first = count_calls(None);
    assert!(run_steps().is_empty());
    let calls = count_calls(Some(&first));
    let mut lost = std::collections::BTreeMap::<&str, u64>::new();
    let mut failed = 0;
    for Planned { library, call, skip: count } in calls {
        for skip in 0..count {
            let planned = Planned { library, call: call.clone(), skip };
            planned.run();
            failed += 1;
            let kind = GIVE_BACK.iter().find(|(silent, _)| *silent == call).map(|(_, kind)| *kind);
            *lost.entry(kind.unwrap_or_default()).or_default() += 1;
        }
    }
    assert!(failed > 150, "{failed} calls");
    check_use();
    let report = StandIn::Driver.report();
    for kind in TEMPORARY {
        assert_eq!(report.live(kind), lost.get(kind).copied().unwrap_or(0), "{kind}");
    }
    assert_eq!(report.live("stream"), 1 + lost.get("stream").copied().unwrap_or(0));
    Ok(())
}

/// Checks that nothing is left, but what that many refusals to take it back have left.
fn check_left(planned: &Planned, most: u64) {
    check_use();
    let (driver, compiler) = (StandIn::Driver.report(), StandIn::Compiler.report());
    let kind = GIVE_BACK.iter().find(|(call, _)| *call == planned.call).map_or("", |(_, kind)| *kind);
    let lost = |of: &str| if of == kind { most } else { 0 };
    for of in TEMPORARY {
        assert_eq!(driver.live(of), lost(of), "{of} after {planned:?}");
    }
    assert_eq!(driver.live("stream"), 1 + lost("stream"), "streams after {planned:?}");
    assert_eq!(driver.live("context"), 1, "users of the context after {planned:?}");
    assert_eq!(driver.live("module"), driver.live("function"), "modules after {planned:?}");
    assert_eq!(compiler.live("programs"), lost("programs"), "programs after {planned:?}");
}

/// After an access out of bounds a device refuses everything: all that is asked for is an error, and nothing hangs or panics.
#[test]
fn a_lost_device_refuses_everything() -> Result<(), Error> {
    in_own_process!();
    let mut world = World::default();
    for (_, step) in STEPS {
        step(&mut world)?;
    }
    StandIn::Driver.fail("cuLaunchKernel", 0, 1, 700);
    for (_, step) in STEPS.iter().skip(1) {
        let outcome = step(&mut world);
        let Err(error @ Error::CudaCall { code: 700, .. }) = &outcome else {
            // What the device is not asked for works: memory that is kept, and calls before the launch.
            assert!(outcome.is_ok(), "{outcome:?}");
            continue;
        };
        assert!(error.to_string().ends_with("gives CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{error}");
    }
    assert!(matches!(world.device().synchronize(), Err(Error::CudaCall { code: 700, .. })));
    drop(world);
    assert!(new_device().is_err());
    check_use();
    Ok(())
}
