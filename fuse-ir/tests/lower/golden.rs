//! Kernels of well-known groups, kept as text, and run on shapes that take each of their variants.

use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{Array, Input, Inputs, Precision, evaluate};
use fuse_ir::graph::{Kernel, Op, ParamKind, Reducer};
use fuse_ir::index_map::{Bound, IndexExpr, IndexMap};
use fuse_ir::lower::{LowerOptions, fits_narrow, lower_launch};
use fuse_ir::plan::{PlanOptions, plan_kernel};
use fuse_ir::program::Program;
use fuse_ir::random::KernelBuilder;
use fuse_ir::scalar::ScalarOp;
use fuse_ir::simulate::{Counters, Layout, ProgramOptions, VariantChoice, simulate_program};
use fuse_ir::target::Target;

fn program(kernel: Kernel) -> Program {
    let plan = plan_kernel(&kernel, &Target::gpu("sm_80").unwrap(), &PlanOptions::default()).unwrap();
    Program { kernel, plan }
}

/// The text of every kernel, variants after one another.
fn check_text(program: &Program) {
    let options = LowerOptions { wide: false, shared_memory: 163 << 10 };
    let mut text = String::new();
    for number in 0..program.plan.launches.len() {
        let lowered = lower_launch(program, number, &options).unwrap();
        for (step, variants) in lowered.steps.iter().enumerate() {
            for variant in variants {
                text += &format!("// launch {number} step {step}\n{}\n", variant.kernel);
            }
        }
    }
    let path = format!("{}/tests/golden/lower/{}.txt", env!("CARGO_MANIFEST_DIR"), program.kernel.name);
    if std::env::var_os("FUSE_BLESS").is_some() {
        std::fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "{} differs; `FUSE_BLESS=1` rewrites it", program.kernel.name);
}

/// Values that are neither all equal nor in order.
fn fill(dtype: DType, shape: &[usize]) -> Input {
    let count = shape.iter().product::<usize>();
    let value = |k: usize| Value::F64(((k * 7919) % 1013) as f64 / 64.0 - 7.5).cast(dtype);
    Input::Tensor(Array::new(dtype, shape.to_vec(), (0..count).map(value).collect()).unwrap())
}

/// Runs the program with the extents of its tensors' axes.
fn check_values(program: &Program, extents: &[usize]) -> Counters {
    let inputs = program.kernel.params.iter().map(|p| match &p.kind {
        ParamKind::Tensor { dtype, axes, .. } => {
            fill(*dtype, &axes.iter().map(|a| extents[a.index()]).collect::<Vec<_>>())
        }
        ParamKind::Scalar { dtype } => Input::Scalar(Value::F64(0.75).cast(*dtype)),
        ParamKind::Axis { axis } => Input::Axis(extents[axis.index()]),
    });
    let inputs = Inputs(inputs.collect());
    let want = evaluate(&program.kernel, &inputs, Precision::Exact).unwrap();
    let mut best = Counters::default();
    for (wide, variant, layout) in [
        (true, VariantChoice::Last, Layout::Contiguous),
        (false, VariantChoice::First, Layout::Spread(2)),
        (false, VariantChoice::First, Layout::Contiguous),
    ] {
        let options = ProgramOptions { wide, variant, layout, ..ProgramOptions::default() };
        let got = simulate_program(program, &inputs, &options).unwrap();
        assert_eq!(got.faults().next(), None, "{} of {extents:?} {options:?}", program.kernel.name);
        assert!(
            got.outputs.same_bits(&want),
            "{} of {extents:?} {options:?}: {:?}\n{:?}",
            program.kernel.name,
            want.results.first().map(|a| a.data.iter().take(8).collect::<Vec<_>>()),
            got.outputs.results.first().map(|a| a.data.iter().take(8).collect::<Vec<_>>()),
        );
        best = Counters::default();
        got.kernels.into_iter().for_each(|k| best += k.report.counters);
    }
    best
}

/// Memory is met in whole sectors and shared memory without conflicts; each byte of the operands comes once.
fn check_traffic(counters: &Counters, bytes_read: u64, bytes_written: u64) {
    let (loads, stores) = (counters.global_loads, counters.global_stores);
    assert_eq!((loads.sectors, loads.least_sectors), (bytes_read / 32, bytes_read / 32), "sectors loaded");
    assert_eq!((stores.sectors, stores.least_sectors), (bytes_written / 32, bytes_written / 32), "stored");
    assert_eq!(counters.shared().conflicts(), 0, "bank conflicts: {counters:?}");
}

fn softmax(dtype: DType, outer_first: bool) -> Program {
    let mut b = KernelBuilder::new(if outer_first { "softmax_rows" } else { "softmax_columns" });
    let (m, n) = (b.axis("M"), b.axis("N"));
    let axes = if outer_first { [m, n] } else { [n, m] };
    let x = b.tensor("x", dtype, &axes);
    let wide = b.map(ScalarOp::Cast(DType::F32), &[x]);
    let greatest = b.reduce(Reducer::Max, wide, &[n]);
    let centred = b.map(ScalarOp::Sub, &[wide, greatest]);
    let e = b.map(ScalarOp::Exp, &[centred]);
    let total = b.reduce(Reducer::Sum, e, &[n]);
    let y = b.map(ScalarOp::Div, &[e, total]);
    let y = b.map(ScalarOp::Cast(dtype), &[y]);
    b.result(y, &axes);
    program(b.build())
}

#[test]
fn softmax_of_rows() {
    let p = softmax(DType::F16, true);
    check_text(&p);
    for extents in [[5, 64], [3, 7], [70, 16], [2, 4096], [2, 4104], [1, 9001]] {
        check_values(&p, &extents);
    }
    // The row is read once: in later sweeps it comes from shared memory.
    check_traffic(&check_values(&p, &[32, 512]), 32 * 512 * 2, 32 * 512 * 2);
    check_traffic(&check_values(&p, &[2, 8192]), 2 * 8192 * 2, 2 * 8192 * 2);
}

#[test]
fn softmax_of_columns() {
    let p = softmax(DType::F32, false);
    check_text(&p);
    for extents in [[40, 64], [3, 7], [33, 130], [2, 4099]] {
        check_values(&p, &extents);
    }
    check_traffic(&check_values(&p, &[64, 100]), 64 * 100 * 4, 64 * 100 * 4);
}

/// Softmax and norms of rows, and how many bytes of shared memory an element takes that is kept from sweep to sweep.
fn persistent_kernels() -> [(Program, u64); 3] {
    let norm = |name: &str, centred: bool| {
        let mut b = KernelBuilder::new(name);
        let (m, n) = (b.axis("M"), b.axis("N"));
        let x = b.tensor("x", DType::F32, &[m, n]);
        let count = b.push(Op::Extent(IndexExpr::extent(n)));
        let count = b.map(ScalarOp::Cast(DType::F32), &[count]);
        let mean_of = |b: &mut KernelBuilder, of| {
            let sum = b.reduce(Reducer::Sum, of, &[n]);
            b.map(ScalarOp::Div, &[sum, count])
        };
        let y = if centred {
            let mean = mean_of(&mut b, x);
            b.map(ScalarOp::Sub, &[x, mean])
        } else {
            x
        };
        let square = b.map(ScalarOp::Mul, &[y, y]);
        let variance = mean_of(&mut b, square);
        let scale = b.map(ScalarOp::Rsqrt, &[variance]);
        let y = b.map(ScalarOp::Mul, &[y, scale]);
        b.result(y, &[m, n]);
        program(b.build())
    };
    [(softmax(DType::F32, true), 4), (norm("layer_norm", true), 4), (norm("rms_norm", false), 4)]
}

/// A row is read once as long as what sweeps need again fits the shared memory of a block, whatever its length; beyond that
/// once for each sweep.
#[test]
fn rows_are_read_once_up_to_the_persistent_limit() {
    for (program, kept) in persistent_kernels() {
        let sweeps = program.plan.launches[0].parts[0].passes.len() as u64;
        for n in
            [1, 2, 7, 31, 64, 100, 1024, 4096, 4097, 8192, 12_000, 20_000, 28_000, 40_000, 56_000, 65_536]
        {
            let rows = if n > 4096 { 1 } else { 3 };
            let options = ProgramOptions { shared_memory: 227 << 10, ..ProgramOptions::default() };
            let inputs = Inputs(vec![fill(DType::F32, &[rows, n])]);
            let got = simulate_program(&program, &inputs, &options).unwrap();
            assert_eq!(got.faults().next(), None);
            let mut counters = Counters::default();
            got.kernels.into_iter().for_each(|k| counters += k.report.counters);
            let row = 4 * (rows * n) as u64;
            // Partial results of a block take a little.
            let fits = kept * n as u64 + 1024 <= 227 << 10;
            let (name, times) = (&program.kernel.name, counters.global_loads.bytes / row);
            assert_eq!(counters.global_loads.bytes % row, 0, "{name} of {n}");
            assert_eq!(times, if fits { 1 } else { sweeps }, "{name} of {n}");
        }
    }
}

#[test]
fn bias_and_activation() {
    let mut b = KernelBuilder::new("bias_relu");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.tensor("x", DType::F32, &[m, n]);
    let bias = b.tensor("bias", DType::F32, &[n]);
    let sum = b.map(ScalarOp::Add, &[x, bias]);
    let zero = b.constant(Value::F32(0.0));
    let y = b.map(ScalarOp::Max, &[sum, zero]);
    b.result(y, &[m, n]);
    let p = program(b.build());
    check_text(&p);
    for extents in [[3, 8], [5, 7], [1, 1], [17, 260]] {
        check_values(&p, &extents);
    }
}

#[test]
fn one_dense_pass() {
    let mut b = KernelBuilder::new("scale_add");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.tensor("x", DType::F32, &[m, n]);
    let y = b.tensor("y", DType::F32, &[m, n]);
    let (_, scale) = b.scalar("scale", DType::F32);
    let scaled = b.map(ScalarOp::Mul, &[x, scale]);
    let z = b.map(ScalarOp::Add, &[scaled, y]);
    b.result(z, &[m, n]);
    let p = program(b.build());
    check_text(&p);
    for extents in [[3, 8], [5, 7], [1, 1], [9, 333]] {
        check_values(&p, &extents);
    }
    check_traffic(&check_values(&p, &[64, 96]), 2 * 64 * 96 * 4, 64 * 96 * 4);
}

#[test]
fn transposed_sum() {
    let mut b = KernelBuilder::new("add_transposed");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.tensor("x", DType::F32, &[m, n]);
    let y = b.tensor("y", DType::F32, &[n, m]);
    let z = b.map(ScalarOp::Add, &[x, y]);
    b.result(z, &[m, n]);
    let p = program(b.build());
    check_text(&p);
    for extents in [[32, 32], [5, 7], [33, 70], [64, 16]] {
        check_values(&p, &extents);
    }
    check_traffic(&check_values(&p, &[64, 96]), 2 * 64 * 96 * 4, 64 * 96 * 4);
}

fn reduced(name: &str, reducer: Reducer, dtype: DType, over: &[usize]) -> Program {
    let mut b = KernelBuilder::new(name);
    let axes = [b.axis("M"), b.axis("N")];
    let x = b.tensor("x", dtype, &axes);
    let over: Vec<_> = over.iter().map(|k| axes[*k]).collect();
    let y = b.reduce(reducer, x, &over);
    let kept: Vec<_> = axes.into_iter().filter(|a| !over.contains(a)).collect();
    b.result(y, &kept);
    program(b.build())
}

#[test]
fn sum_of_columns() {
    let p = reduced("sum_columns", Reducer::Sum, DType::F32, &[0]);
    check_text(&p);
    for extents in [[64, 40], [7, 3], [9000, 33], [1, 5]] {
        check_values(&p, &extents);
    }
}

#[test]
fn sum_of_everything() {
    let p = reduced("sum_all", Reducer::Sum, DType::F32, &[0, 1]);
    check_text(&p);
    for extents in [[64, 40], [7, 3], [300, 333], [1, 1], [128, 1024]] {
        check_values(&p, &extents);
    }
}

#[test]
fn greatest_of_rows() {
    let p = reduced("argmax_rows", Reducer::ArgMax, DType::F32, &[1]);
    check_text(&p);
    for extents in [[6, 40], [7, 3], [3, 9001], [2, 40000]] {
        check_values(&p, &extents);
    }
}

#[test]
fn running_sums() {
    let mut b = KernelBuilder::new("cumsum_rows");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.tensor("x", DType::F32, &[m, n]);
    let y = b.push(fuse_ir::graph::Op::CumSum { source: x, axis: n });
    b.result(y, &[m, n]);
    let p = program(b.build());
    check_text(&p);
    for extents in [[6, 40], [7, 3], [1, 5000]] {
        check_values(&p, &extents);
    }
}

/// Two unrelated small groups take a block range each.
#[test]
fn groups_side_by_side() {
    let mut b = KernelBuilder::new("side_by_side");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.tensor("x", DType::F32, &[m]);
    let y = b.tensor("y", DType::F32, &[n]);
    let (a, c) = (b.map(ScalarOp::Exp, &[x]), b.map(ScalarOp::Sqrt, &[y]));
    b.result(a, &[m]);
    b.result(c, &[n]);
    let p = program(b.build());
    assert_eq!(p.plan.launches.len(), 1, "the plan joins them");
    check_text(&p);
    for extents in [[32, 1000], [7, 3], [1, 1]] {
        check_values(&p, &extents);
    }
}

/// A window before the start of an axis: the predicate is part of the load.
#[test]
fn shifted_with_zeros() {
    let mut b = KernelBuilder::new("shift");
    let n = b.axis("N");
    let x = b.tensor("x", DType::F32, &[n]);
    let before = IndexExpr::index(n).minus(1);
    let bounds = vec![Bound { expr: before.clone(), extent: IndexExpr::extent(n) }];
    let map = IndexMap { indices: vec![(n, before)], bounds };
    let shifted = b.view(x, &[n], map, Some(Value::F32(0.0)));
    let y = b.map(ScalarOp::Sub, &[x, shifted]);
    b.result(y, &[n]);
    let p = program(b.build());
    check_text(&p);
    for n in [1, 8, 515] {
        check_values(&p, &[n]);
    }
}

/// 32-bit indices are refused where a position, an element or a step of an index would leave them.
#[test]
fn long_launches_take_wide_indices() {
    let mut b = KernelBuilder::new("long");
    let n = b.axis("N");
    let x = b.tensor("x", DType::F32, &[n]);
    let y = b.map(ScalarOp::Exp, &[x]);
    b.result(y, &[n]);
    let p = program(b.build());
    let fits = |n: i64, stride: i64| fits_narrow(&p, 0, &[n], &[0], &|_, _| stride);
    assert!(fits(1 << 29, 1));
    assert!(!fits(1 << 30, 1), "positions");
    assert!(!fits(1 << 29, 8), "elements");
    assert!(!fits(1 << 20, -1), "elements before the first");
}
