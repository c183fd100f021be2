//! The simulator's counters against those of an emulator that runs what NVRTC makes of the printed text: a driver whose GPU is
//! called `cudaemu`, and which writes a line for each launch where `CUDAEMU_LOG` says. Elsewhere there is nothing to compare.
//!
//! Sectors of global memory and passes over the banks of shared memory are those of the kernel as it is written, so long as
//! the compiler neither drops nor repeats an access; so both must be equal, launch by launch.

#![allow(
    clippy::print_stdout,
    reason = "it says that it skips, and its figures to whoever asks with --nocapture"
)]

use fuse_compiler::diagnostic::Diagnostics;
use fuse_compiler::pipeline::plan_block;
use fuse_ir::dtype::Value;
use fuse_ir::eval::{Array, Input, Inputs};
use fuse_ir::graph::ParamKind;
use fuse_ir::kernel_ir::DeviceNumbers;
use fuse_ir::program::Program;
use fuse_ir::simulate::{ProgramOptions, RanKernel, simulate_program};
use fuse_runtime::Device;
use fuse_runtime::survey::{Gpu, Survey};
use fuse_runtime::verify::verify_program;
use std::process::Command;

/// The kernels, each with the extents of its calls by the order of its axes.
const KERNELS: &[(&str, &[&[usize]])] = &[
    // Pointwise: vectors, a tail, an odd row, several results, narrow elements, shifted reads.
    ("fn scale<N>(x: Tensor<f32, N>, a: f32) -> Tensor<f32, N> { x * a }", &[&[4096], &[1003]]),
    (
        "fn gated<M, N>(x: Tensor<f32, M, N>, b: Tensor<f32, N>, s: Tensor<f32, M>) -> Tensor<f32, M, N> {
            (x + b).max(0.0) * s
        }",
        &[&[16, 256], &[7, 129]],
    ),
    (
        "fn halves<N>(x: Tensor<f16, N>, y: Tensor<f16, N>) -> (Tensor<f16, N>, Tensor<f32, N>) {
            ((x + y) as f16, x * 2.0)
        }",
        &[&[4096], &[517]],
    ),
    (
        "fn requantise<M, N>(q: Tensor<i8, M, N>, s: Tensor<f32, N>) -> Tensor<i8, M, N> {
            ((q as f32 * s) * 16.0).round_ties_even() as i8
        }",
        &[&[16, 256], &[5, 77]],
    ),
    ("fn doubled<N>(x: &mut Tensor<f64, N>) { *x *= 2.0; }", &[&[2048], &[33]]),
    // Transposes through tiles.
    (
        "fn add_transposed<M, N>(x: Tensor<f32, M, N>, y: Tensor<f32, N, M>) -> Tensor<f32, M, N> { x + y }",
        &[&[64, 96], &[33, 70]],
    ),
    (
        "fn transposed_halves<M, N>(x: Tensor<f16, N, M>) -> Tensor<f16, M, N> { (x * 0.5) as f16 }",
        &[&[64, 128], &[40, 66]],
    ),
    // Rows: several a warp, a block for each, persistent.
    (
        "fn softmax<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.softmax(N) }",
        &[&[70, 16], &[9, 64], &[4, 1024], &[3, 1003], &[2, 8192], &[1, 40000]],
    ),
    (
        "fn softmax_of_halves<M, N>(x: Tensor<f16, M, N>) -> Tensor<f16, M, N> { x.softmax(N) as f16 }",
        &[&[33, 40], &[4, 1024], &[2, 4099]],
    ),
    (
        "fn softmax_of_columns<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.softmax(M) }",
        &[&[64, 100], &[130, 33]],
    ),
    (
        "fn layer<M, N>(x: Tensor<f32, M, N>, g: Tensor<f32, N>, b: Tensor<f32, N>) -> Tensor<f32, M, N> {
            layer_norm(x, g, b, 1e-5)
        }",
        &[&[40, 32], &[4, 1024], &[3, 517], &[2, 12000]],
    ),
    (
        "fn rms<M, N>(x: Tensor<f32, M, N>, g: Tensor<f32, N>) -> Tensor<f32, M, N> { rms_norm(x, g, 1e-5) }",
        &[&[40, 32], &[4, 1024], &[2, 3001]],
    ),
    (
        "fn sum_and_max<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M>, Tensor<f32, M>) { (x.sum(N), x.max(N)) }",
        &[&[40, 64], &[3, 4097]],
    ),
    ("fn greatest<M, N>(x: Tensor<f32, M, N>) -> Tensor<i64, M> { x.argmax(N) }", &[&[40, 50], &[2, 9001]]),
    // Columns and everything.
    (
        "#[kernel(assume(M = 8192, N = 2048))]
        fn column_sum<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, N> { x.sum(M) }",
        &[&[64, 40], &[9000, 33], &[1, 5]],
    ),
    (
        "#[kernel(assume(M = 4096, N = 4096))]
        fn full_sum<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32> { x.sum((M, N)) }",
        &[&[64, 40], &[300, 333], &[128, 1024]],
    ),
    (
        "#[kernel(assume(M = 4096, N = 4096))]
        fn centred<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x - x.mean((M, N)) }",
        &[&[40, 1000]],
    ),
    ("fn running<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.cumsum(N) }", &[&[6, 40], &[1, 5000]]),
];

/// A program for each kernel, planned as a binary carries it.
fn programs() -> Vec<(Program, &'static [&'static [usize]])> {
    let plan = |(source, extents): &(&'static str, &'static [&'static [usize]])| {
        let attribute = if source.starts_with('#') { "" } else { "#[kernel] " };
        let mut diagnostics = Diagnostics::new();
        let block = format!("{attribute}{source}").parse().expect("tokens");
        let mut planned = plan_block(block, &mut diagnostics);
        let errors: Vec<String> = diagnostics.iter().map(|error| error.text()).collect();
        assert!(errors.is_empty(), "{source}\n{errors:#?}");
        (planned.swap_remove(0).program, *extents)
    };
    KERNELS.iter().map(plan).collect()
}

/// Tensors with these extents.
fn inputs(program: &Program, extents: &[usize]) -> Inputs {
    let inputs = program.kernel.params.iter().map(|param| match &param.kind {
        ParamKind::Tensor { dtype, axes, .. } => {
            let shape: Vec<usize> = axes.iter().map(|a| extents[a.index()]).collect();
            let count = shape.iter().product::<usize>();
            let value = |k: usize| Value::F64(((k * 7919) % 1013) as f64 / 64.0 - 7.5).cast(*dtype);
            Input::Tensor(Array { dtype: *dtype, shape, data: (0..count).map(value).collect() })
        }
        ParamKind::Scalar { dtype } => Input::Scalar(Value::F64(0.75).cast(*dtype)),
        ParamKind::Axis { axis } => Input::Axis(extents[axis.index()]),
    });
    Inputs(inputs.collect())
}

/// What a launch moves: its kernel, sectors loaded and stored, passes over the banks of loads and of stores.
#[derive(PartialEq, Eq, Debug)]
struct Traffic {
    kernel: String,
    loaded: u64,
    stored: u64,
    shared_loads: u64,
    shared_stores: u64,
}

impl Traffic {
    fn of_simulator(ran: &RanKernel) -> Traffic {
        let counters = &ran.report.counters;
        Traffic {
            kernel: format!("fuse_{}", ran.name),
            loaded: counters.global_loads.sectors,
            stored: counters.global_stores.sectors,
            shared_loads: counters.shared_loads.iter().map(|t| t.wavefronts).sum(),
            shared_stores: counters.shared_stores.iter().map(|t| t.wavefronts).sum(),
        }
    }

    /// A line of the emulator's.
    fn of_emulator(line: &str) -> Traffic {
        let after = |key: &str| {
            let at = line.find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("no `{key}` in {line}"));
            line[at + key.len() + 3..].trim_start_matches('"')
        };
        let number = |key: &str| {
            let digits = after(key).split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            digits.parse().unwrap_or_else(|_| panic!("`{key}` is no number in {line}"))
        };
        Traffic {
            kernel: after("kernel").split('"').next().unwrap_or_default().to_owned(),
            loaded: number("gld_sectors"),
            stored: number("gst_sectors"),
            shared_loads: number("sld_wave"),
            shared_stores: number("sst_wave"),
        }
    }
}

/// The emulator's GPU, if it is what the driver finds.
fn emulator() -> Option<Gpu> {
    let gpus = Survey::take().gpus.ok()?;
    gpus.into_iter().flatten().find(|gpu| gpu.name.starts_with("cudaemu"))
}

/// Multiprocessors of what the emulator says that it is.
fn multiprocessors(architecture: u32) -> u32 {
    if architecture >= 90 { 132 } else { 108 }
}

/// Set in the process whose launches the emulator writes down.
const LOGGED: &str = "FUSE_COUNTERS_LOGGED";
/// Between the lines of one call and those of the next.
const CALLS: &str = "FUSE_COUNTERS_CALLS";

#[test]
fn sectors_and_wavefronts_are_those_of_the_emulator() {
    let Some(gpu) = emulator() else {
        println!("skipped: the driver is no emulator that counts");
        return;
    };
    if std::env::var_os(LOGGED).is_some() {
        return run_on_the_emulator();
    }
    let log = std::env::temp_dir().join(format!("fuse-counters-{}.log", std::process::id()));
    let (calls, _) = (log.with_extension("calls"), std::fs::remove_file(&log));
    let child = Command::new(std::env::current_exe().expect("a program has a path"))
        .args(["--exact", "sectors_and_wavefronts_are_those_of_the_emulator", "--nocapture"])
        .env("CUDAEMU_LOG", &log)
        .env(LOGGED, "1")
        .env(CALLS, &calls)
        .output()
        .expect("the program starts again");
    let said = [&child.stdout, &child.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(child.status.success(), "{}\n{}", said[0], said[1]);
    let lines = std::fs::read_to_string(&log).expect("the emulator writes down its launches");
    let starts = std::fs::read_to_string(&calls).expect("the process writes down its calls");
    let (lines, mut starts) = (lines.lines().collect::<Vec<_>>(), starts.lines());
    let architecture = gpu.architecture.trim_start_matches("sm_").parse().expect("a number");
    let options = ProgramOptions {
        shared_memory: gpu.shared_memory,
        device: DeviceNumbers { architecture, multiprocessors: multiprocessors(architecture) },
        ..ProgramOptions::default()
    };
    let mut differences = Vec::new();
    for (program, extents) in programs() {
        for extents in extents {
            let report = simulate_program(&program, &inputs(&program, extents), &options);
            let report = report.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(report.faults().next(), None, "{}", program.kernel.name);
            let start: usize = starts.next().and_then(|n| n.parse().ok()).expect("a number for each call");
            for (k, ran) in report.kernels.iter().enumerate() {
                let (simulated, emulated) =
                    (Traffic::of_simulator(ran), Traffic::of_emulator(lines[start + k]));
                println!("{extents:?} {simulated:?}");
                if simulated != emulated {
                    differences
                        .push(format!("{extents:?}\n  simulated {simulated:?}\n  emulated  {emulated:?}"));
                }
            }
        }
    }
    let _ = (std::fs::remove_file(&log), std::fs::remove_file(&calls));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Makes every call, and notes before each how many launches there were.
fn run_on_the_emulator() {
    let log = std::env::var_os("CUDAEMU_LOG").expect("it is set for this process");
    let mut starts = String::new();
    let device = Device::cuda(0).unwrap_or_else(|error| panic!("{error}"));
    for (program, extents) in programs() {
        for extents in extents {
            device.synchronize().unwrap_or_else(|error| panic!("{error}"));
            let lines = std::fs::read_to_string(&log).unwrap_or_default().lines().count();
            starts += &format!("{lines}\n");
            let runs =
                verify_program(program.clone(), &inputs(&program, extents), std::slice::from_ref(&device));
            // The first of them with tensors that lie contiguous.
            assert!(runs.unwrap_or_else(|error| panic!("{}: {error}", program.kernel.name)) > 0);
        }
    }
    std::fs::write(std::env::var_os(CALLS).expect("it is set for this process"), starts).expect("written");
}
