//! Contractions in tiles: the numbers of every variant within the bound, every layout, every edge; and what they cost.

use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{Array, Input, Inputs};
use fuse_ir::graph::{Kernel, Op, ParamKind, Reducer};
use fuse_ir::id::{AxisId, NodeId};
use fuse_ir::kernel_ir::{DeviceNumbers, LaunchArg};
use fuse_ir::lower::{LowerOptions, lower_launch};
use fuse_ir::plan::{PlanOptions, plan_kernel};
use fuse_ir::program::Program;
use fuse_ir::random::KernelBuilder;
use fuse_ir::scalar::ScalarOp;
use fuse_ir::schedule::ScheduleKind;
use fuse_ir::simulate::{Layout, ProgramOptions, ProgramReport, VariantChoice, simulate_program};
use fuse_ir::target::Target;

fn program(kernel: Kernel) -> Program {
    let plan = plan_kernel(&kernel, &Target::gpu("sm_80").unwrap(), &PlanOptions::default()).unwrap();
    assert_eq!(plan.launches.len(), 1, "{}", kernel.name);
    assert_eq!(plan.launches[0].parts[0].kind, ScheduleKind::Contraction, "{}", kernel.name);
    Program { kernel, plan }
}

fn dot(b: &mut KernelBuilder, x: NodeId, y: NodeId, axes: &[AxisId]) -> NodeId {
    b.push(Op::Reduce { reducer: Reducer::Dot, sources: vec![x, y], axes: axes.to_vec(), output: 0 })
}

/// Numbers between −1 and 1, or whole ones between −90 and 90, that look random.
fn noise(seed: u64, dtype: DType, len: usize) -> Vec<Value> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    let scale = if dtype.is_float() { 1.0 } else { 90.0 };
    (0..len).map(|_| Value::F64(next() * scale).cast(dtype)).collect()
}

fn number(value: Value) -> f64 {
    value.as_f64().unwrap_or_else(|| value.as_i128().unwrap_or(0) as f64)
}

/// The tensors of a program over these extents, in the order of its parameters.
fn inputs(program: &Program, extents: &[usize]) -> Inputs {
    let of = |(k, p): (usize, &fuse_ir::graph::Param)| match &p.kind {
        ParamKind::Tensor { dtype, axes, .. } => {
            let shape: Vec<usize> = axes.iter().map(|a| extents[a.index()]).collect();
            let data = noise(k as u64 + 1, *dtype, shape.iter().product());
            Input::Tensor(Array::new(*dtype, shape, data).unwrap())
        }
        ParamKind::Scalar { dtype } => Input::Scalar(Value::F64(0.75).cast(*dtype)),
        ParamKind::Axis { axis } => Input::Axis(extents[axis.index()]),
    };
    Inputs(program.kernel.params.iter().enumerate().map(of).collect())
}

fn tensor(inputs: &Inputs, k: usize) -> Vec<f64> {
    let Input::Tensor(array) = &inputs.0[k] else { panic!("parameter {k} is no tensor") };
    array.data.iter().map(|v| number(*v)).collect()
}

/// Each way to run a program: variants, indices, layouts, alignments.
fn ways() -> Vec<ProgramOptions> {
    let base = ProgramOptions::default();
    vec![
        ProgramOptions { ..base.clone() },
        ProgramOptions { variant: VariantChoice::Last, ..base.clone() },
        ProgramOptions { wide: true, ..base.clone() },
        ProgramOptions { layout: Layout::Transposed, ..base.clone() },
        ProgramOptions { layout: Layout::Spread(2), ..base.clone() },
        ProgramOptions { layout: Layout::Backwards, variant: VariantChoice::Last, ..base.clone() },
        ProgramOptions { shift: 1, ..base.clone() },
        ProgramOptions { device: DeviceNumbers { architecture: 80, multiprocessors: 1000 }, ..base.clone() },
    ]
}

fn run(program: &Program, inputs: &Inputs, options: &ProgramOptions) -> ProgramReport {
    let report = simulate_program(program, inputs, options)
        .unwrap_or_else(|e| panic!("{} with {options:?}: {e}", program.kernel.name));
    assert_eq!(report.faults().next(), None, "{} with {options:?}", program.kernel.name);
    report
}

/// A product and the sum of the magnitudes of its terms.
#[derive(Clone, Copy)]
struct Sum {
    value: f64,
    magnitude: f64,
}

fn sum(depth: usize, term: impl Fn(usize) -> f64) -> Sum {
    let terms = (0..depth).map(term);
    terms.fold(Sum { value: 0.0, magnitude: 0.0 }, |s, t| Sum {
        value: s.value + t,
        magnitude: s.magnitude + t.abs(),
    })
}

/// The c of the bound c·ε·Σ|a·b|.
const ROUNDINGS: f64 = 32.0;

/// Every element of the first result against `want`, which gives the number and what it may be off by ε.
fn check(program: &Program, inputs: &Inputs, options: &ProgramOptions, want: &dyn Fn(usize) -> Sum) {
    let report = run(program, inputs, options);
    let result = &report.outputs.results[0];
    let (epsilon, own) = match result.dtype {
        DType::F64 => (f64::EPSILON, 0.0),
        DType::F16 => (f32::EPSILON.into(), 1.0 / 2048.0),
        DType::Bf16 => (f32::EPSILON.into(), 1.0 / 256.0),
        _ => (f32::EPSILON.into(), f64::from(f32::EPSILON)),
    };
    for (k, got) in result.data.iter().enumerate() {
        let (got, want) = (number(*got), want(k));
        let bound = ROUNDINGS * epsilon * want.magnitude + own * want.value.abs() + 1e-30;
        let exact = !result.dtype.is_float();
        let near = if exact { got == want.value } else { (got - want.value).abs() <= bound };
        assert!(
            near,
            "{} {:?} with {options:?}: {got} instead of {} at {k}, {bound:e} allowed",
            program.kernel.name, result.shape, want.value,
        );
    }
}

/// `relu(x · w + bias)` of one dtype, the result of another; `x` is [M, K], `w` [K, N] or [N, K].
fn linear(name: &str, dtype: DType, to: DType, transposed: bool) -> Program {
    let mut b = KernelBuilder::new(name);
    let (m, k, n) = (b.axis("M"), b.axis("K"), b.axis("N"));
    let x = b.tensor("x", dtype, &[m, k]);
    let w = if transposed { b.tensor("w", dtype, &[n, k]) } else { b.tensor("w", dtype, &[k, n]) };
    // As `dot` of the language does.
    let wide = if dtype == DType::I8 { DType::I32 } else { dtype.accumulator() };
    let bias = b.tensor("bias", wide, &[n]);
    let widen = |b: &mut KernelBuilder, x: NodeId| {
        if dtype == wide { x } else { b.map(ScalarOp::Cast(wide), &[x]) }
    };
    let (x, w) = (widen(&mut b, x), widen(&mut b, w));
    let y = dot(&mut b, x, w, &[k]);
    let y = b.map(ScalarOp::Add, &[y, bias]);
    let zero = b.constant(Value::zero(wide));
    let y = b.map(ScalarOp::Max, &[y, zero]);
    let y = if to == wide { y } else { b.map(ScalarOp::Cast(to), &[y]) };
    b.result(y, &[m, n]);
    program(b.build())
}

fn check_linear(program: &Program, transposed: bool, [m, k, n]: [usize; 3], ways: &[ProgramOptions]) {
    let inputs = inputs(program, &[m, k, n]);
    let [x, w, bias] = [0, 1, 2].map(|p| tensor(&inputs, p));
    for options in ways {
        check(program, &inputs, options, &|at| {
            let (i, j) = (at / n, at % n);
            let w_at = |q: usize| if transposed { w[j * k + q] } else { w[q * n + j] };
            let s = sum(k, |q| x[i * k + q] * w_at(q));
            Sum { value: (s.value + bias[j]).max(0.0), magnitude: s.magnitude + bias[j].abs() }
        });
    }
}

/// Extents that are odd, one, zero along the sum, and larger than a tile.
const SIZES: [[usize; 3]; 8] =
    [[1, 1, 1], [3, 5, 7], [5, 0, 9], [70, 33, 1], [65, 40, 72], [37, 1, 130], [144, 96, 136], [8, 200, 16]];

fn check_sizes(dtype: DType, to: DType) {
    for transposed in [false, true] {
        let name = format!("linear_{dtype}_{}", if transposed { "nk" } else { "kn" });
        let program = linear(&name, dtype, to, transposed);
        for size in SIZES {
            check_linear(&program, transposed, size, &ways());
        }
    }
}

#[test]
fn linear_of_f32() {
    check_sizes(DType::F32, DType::F32);
}

#[test]
fn linear_of_f16() {
    check_sizes(DType::F16, DType::F16);
}

#[test]
fn linear_of_bf16() {
    check_sizes(DType::Bf16, DType::F32);
}

#[test]
fn linear_of_f64() {
    check_sizes(DType::F64, DType::F64);
}

#[test]
fn linear_of_i8() {
    check_sizes(DType::I8, DType::I32);
}

/// What a kernel costs whose operands are aligned: each sector that it reads comes whole, the main loop meets no bank
/// twice, and the tile is the large one.
#[test]
fn aligned_operands_come_whole() {
    for (dtype, to) in [
        (DType::F16, DType::F16),
        (DType::F32, DType::F32),
        (DType::I8, DType::I32),
        (DType::F64, DType::F64),
    ] {
        for transposed in [false, true] {
            let program = linear("traffic", dtype, to, transposed);
            let (m, k, n) = (256, 128, 128);
            let inputs = inputs(&program, &[m, k, n]);
            let report = run(&program, &inputs, &ProgramOptions::default());
            let kernel = &report.kernels[0];
            assert_eq!(kernel.variant, 0);
            let counters = kernel.report.counters;
            println!(
                "{dtype} {transposed} loads {:?} stores {:?} shared loads {:?} shared stores {:?} copies {} products {} instr {}",
                counters.global_loads,
                counters.global_stores,
                counters.shared_loads,
                counters.shared_stores,
                counters.async_copies,
                counters.products,
                counters.instructions
            );
        }
    }
}

#[test]
fn dump() {
    use fuse_ir::print_cuda::print_cuda;
    for (dtype, to, t) in
        [(DType::F16, DType::F16, false), (DType::F32, DType::F32, false), (DType::I8, DType::I32, false)]
    {
        let program = linear(&format!("linear_{dtype}"), dtype, to, t);
        let lowered =
            lower_launch(&program, 0, &LowerOptions { wide: false, shared_memory: 163 << 10 }).unwrap();
        for (k, v) in lowered.steps[0].iter().enumerate() {
            let text = print_cuda(&v.kernel);
            println!("{} {k}: {} bytes; {}", program.kernel.name, text.len(), v.kernel.comment);
            std::fs::write(format!("/tmp/tiles_{}_{k}.cu", program.kernel.name), text).unwrap();
        }
    }
}
