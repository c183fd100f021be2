//! Contractions in tiles: the numbers of every variant within the bound, every layout, every edge; and what they cost.

use super::noise::noise;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{Array, Input, Inputs};
use fuse_ir::graph::{Kernel, Op, ParamKind, Reducer};
use fuse_ir::id::{AxisId, NodeId, ParamId};
use fuse_ir::index_map::{Bound, IndexEnv, IndexExpr, IndexMap};
use fuse_ir::kernel_ir::{DeviceNumbers, LaunchArg, Origin, Param, ParamKind as KernelParam};
use fuse_ir::lower::{LowerOptions, LoweredKernel, lower_launch};
use fuse_ir::plan::{PlanOptions, plan_kernel};
use fuse_ir::print_cuda::print_cuda;
use fuse_ir::program::Program;
use fuse_ir::random::KernelBuilder;
use fuse_ir::scalar::ScalarOp;
use fuse_ir::schedule::ScheduleKind;
use fuse_ir::simulate::{Layout, ProgramOptions, ProgramReport, VariantChoice, simulate_program};
use fuse_ir::target::Target;

pub(super) fn program(kernel: Kernel) -> Program {
    let plan = plan_kernel(&kernel, &Target::gpu("sm_80").unwrap(), &PlanOptions::default()).unwrap();
    assert_eq!(plan.launches.len(), 1, "{}", kernel.name);
    assert_eq!(plan.launches[0].parts[0].kind, ScheduleKind::Contraction, "{}", kernel.name);
    Program { kernel, plan }
}

pub(super) fn dot(b: &mut KernelBuilder, x: NodeId, y: NodeId, axes: &[AxisId]) -> NodeId {
    b.push(Op::Reduce { reducer: Reducer::Dot, sources: vec![x, y], axes: axes.to_vec(), output: 0 })
}

pub(super) fn number(value: Value) -> f64 {
    value.as_f64().unwrap_or_else(|| value.as_i128().unwrap_or(0) as f64)
}

/// The tensors of a program over these extents, in the order of its parameters.
pub(super) fn inputs(program: &Program, extents: &[usize]) -> Inputs {
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

pub(super) fn tensor(inputs: &Inputs, k: usize) -> Vec<f64> {
    let Input::Tensor(array) = &inputs.0[k] else { panic!("parameter {k} is no tensor") };
    array.data.iter().map(|v| number(*v)).collect()
}

/// Each way to run a program: variants, indices, layouts, alignments.
pub(super) fn ways() -> Vec<ProgramOptions> {
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

pub(super) fn run(program: &Program, inputs: &Inputs, options: &ProgramOptions) -> ProgramReport {
    let report = simulate_program(program, inputs, options)
        .unwrap_or_else(|e| panic!("{} with {options:?}: {e}", program.kernel.name));
    assert_eq!(report.faults().next(), None, "{} with {options:?}", program.kernel.name);
    report
}

/// A product and the sum of the magnitudes of its terms.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    pub(super) value: f64,
    pub(super) magnitude: f64,
}

pub(super) fn sum(depth: usize, term: impl Fn(usize) -> f64) -> Sum {
    let terms = (0..depth).map(term);
    terms.fold(Sum { value: 0.0, magnitude: 0.0 }, |s, t| Sum {
        value: s.value + t,
        magnitude: s.magnitude + t.abs(),
    })
}

/// The c of the bound c·ε·Σ|a·b|.
const ROUNDINGS: f64 = 32.0;

/// Every element of the first result against `want`, which gives the number and what it may be off by ε.
pub(super) fn check(
    program: &Program,
    inputs: &Inputs,
    options: &ProgramOptions,
    want: &dyn Fn(usize) -> Sum,
) {
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
pub(super) fn linear(name: &str, dtype: DType, to: DType, transposed: bool) -> Program {
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

pub(super) fn check_linear(
    program: &Program,
    transposed: bool,
    [m, k, n]: [usize; 3],
    ways: &[ProgramOptions],
) {
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
        // Each size in some of the ways; each way comes up with a third of the sizes.
        for (k, size) in SIZES.into_iter().enumerate() {
            let ways: Vec<ProgramOptions> = ways().into_iter().skip(k % 3).step_by(3).collect();
            check_linear(&program, transposed, size, &ways);
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

/// A kernel that may be fast takes tensor cores for f32, of which eleven bits of each factor are left.
#[test]
fn fast_kernels_round_to_tf32() {
    for transposed in [false, true] {
        let mut program = linear("linear_fast", DType::F32, DType::F32, transposed);
        program.kernel.fast = true;
        let tile = first_tile(&program);
        assert!(lowered(&program)[tile].kernel.comment.contains("tf32"));
        let [m, k, n] = [144, 40, 136];
        let inputs = inputs(&program, &[m, k, n]);
        let [x, w, bias] = [0, 1, 2].map(|p| tensor(&inputs, p));
        let got = run(&program, &inputs, &ProgramOptions::default()).outputs.results.remove(0);
        for (at, got) in got.data.iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let w_at = |q: usize| if transposed { w[j * k + q] } else { w[q * n + j] };
            let s = sum(k, |q| x[i * k + q] * w_at(q));
            let bound = s.magnitude * 2.0 / 1024.0 + 1e-6;
            assert!((number(*got) - (s.value + bias[j]).max(0.0)).abs() <= bound, "{at}");
        }
    }
}

/// What a kernel costs whose operands are aligned: every sector that it asks for is read whole, no access to shared memory
/// meets a bank twice, products are those of whole tiles, and the tile is the large one.
#[test]
fn aligned_operands_come_whole() {
    let products_of = |dtype: DType, [m, k, n]: [u64; 3]| match dtype {
        DType::F16 | DType::Bf16 => m * k * n / (16 * 8 * 16),
        DType::I8 => m * k * n / (16 * 8 * 32),
        _ => 0,
    };
    for (dtype, to) in [(DType::F16, DType::F16), (DType::F32, DType::F32), (DType::I8, DType::I32)] {
        for transposed in [false, true] {
            let program = linear("traffic", dtype, to, transposed);
            let extents = [256, 128, 128];
            let inputs = inputs(&program, &extents);
            let report = run(&program, &inputs, &ProgramOptions::default());
            let kernel = &report.kernels[0];
            assert_eq!(kernel.variant, first_tile(&program));
            let counters = kernel.report.counters;
            let what = format!("{dtype}, transposed: {transposed}");
            assert_eq!(counters.shared().conflicts(), 0, "{what}");
            let (loads, stores) = (counters.global_loads, counters.global_stores);
            assert_eq!(
                (loads.sectors, stores.sectors),
                (loads.least_sectors, stores.least_sectors),
                "{what}"
            );
            // Bytes move by transposition through registers only.
            assert!(counters.async_copies > 0, "{what}");
            assert_eq!(counters.products, products_of(dtype, extents.map(|n| n as u64)), "{what}");
        }
    }
}

/// Two products of one source that meet in the epilogue, two results, a residual, a batch.
pub(super) fn gated(dtype: DType) -> Program {
    let mut b = KernelBuilder::new("gated");
    let (g, m, k, n) = (b.axis("G"), b.axis("M"), b.axis("K"), b.axis("N"));
    let x = b.tensor("x", dtype, &[g, m, k]);
    let (u, v) = (b.tensor("u", dtype, &[g, k, n]), b.tensor("v", dtype, &[n, k]));
    let r = b.tensor("r", DType::F32, &[g, m, n]);
    let wide = [x, u, v].map(|t| match dtype {
        DType::F32 => t,
        _ => b.map(ScalarOp::Cast(DType::F32), &[t]),
    });
    let (p, q) = (dot(&mut b, wide[0], wide[1], &[k]), dot(&mut b, wide[0], wide[2], &[k]));
    let y = b.map(ScalarOp::Sub, &[p, q]);
    let y = b.map(ScalarOp::Add, &[y, r]);
    b.result(y, &[g, m, n]);
    let other = b.map(ScalarOp::Cast(DType::F16), &[q]);
    b.result(other, &[g, n, m]);
    program(b.build())
}

pub(super) fn check_gated(program: &Program, extents: [usize; 4], ways: &[ProgramOptions]) {
    let inputs = inputs(program, &extents);
    let [x, u, v, r] = [0, 1, 2, 3].map(|p| tensor(&inputs, p));
    let [_, m, k, n] = extents;
    for options in ways {
        check(program, &inputs, options, &|at| {
            let (batch, i, j) = (at / (m * n), at / n % m, at % n);
            let x_at = |c: usize| x[(batch * m + i) * k + c];
            let p = sum(k, |c| x_at(c) * u[(batch * k + c) * n + j]);
            let q = sum(k, |c| x_at(c) * v[j * k + c]);
            Sum { value: p.value - q.value + r[at], magnitude: p.magnitude + q.magnitude + r[at].abs() }
        });
    }
}

#[test]
fn siblings_share_a_launch() {
    for dtype in [DType::F32, DType::F16] {
        let program = gated(dtype);
        for extents in [[2, 70, 33, 40], [1, 144, 64, 72], [3, 1, 1, 5]] {
            check_gated(&program, extents, &ways());
        }
    }
}

/// A convolution with a pad and a stride: the left source is read through an index map with bounds, channels along the
/// line; sources of channels are computed (scaled) in a second form.
#[test]
fn windows_are_read_through_their_maps() {
    for (dtype, scaled) in [(DType::F16, false), (DType::F32, false), (DType::F32, true)] {
        let mut b = KernelBuilder::new("convolution");
        let (l, c, o, r) = (b.axis("L"), b.axis("C"), b.axis("O"), b.axis("R"));
        let p = b.derived_axis("P", IndexExpr::extent(l));
        let x = b.tensor("x", dtype, &[l, c]);
        let w = b.tensor("w", dtype, &[o, r, c]);
        let at = IndexExpr::index(p).plus(IndexExpr::index(r)).minus(1);
        let bounds = vec![Bound { expr: at.clone(), extent: IndexExpr::extent(l) }];
        let map = IndexMap { indices: vec![(l, at), (c, IndexExpr::index(c))], bounds };
        let window = b.view(x, &[p, r, c], map, Some(Value::zero(dtype)));
        let mut sources = [window, w].map(|t| match dtype {
            DType::F32 => t,
            _ => b.map(ScalarOp::Cast(DType::F32), &[t]),
        });
        if scaled {
            let one = b.constant(Value::F32(1.0));
            sources[0] = b.map(ScalarOp::Add, &[sources[0], one]);
        }
        let y = dot(&mut b, sources[0], sources[1], &[r, c]);
        b.result(y, &[p, o]);
        let program = program(b.build());
        for [l, c, o, r] in [[70, 16, 24, 3], [9, 5, 7, 3], [130, 8, 136, 1]] {
            let inputs = inputs(&program, &[l, c, o, r, l]);
            let [x, w] = [0, 1].map(|p| tensor(&inputs, p));
            for options in ways() {
                check(&program, &inputs, &options, &|at| {
                    let (p, j) = (at / o, at % o);
                    sum(r * c, |q| {
                        let (s, ch) = (q / c, q % c);
                        let row = (p + s).wrapping_sub(1);
                        let read = if row < l { x[row * c + ch] } else { 0.0 };
                        (read + f64::from(u8::from(scaled))) * w[(j * r + s) * c + ch]
                    })
                });
            }
        }
    }
}

pub(super) fn check_golden(name: &str, text: &str) {
    let path = format!("{}/tests/golden/lower/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("FUSE_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "{name} differs; `FUSE_BLESS=1` rewrites it");
}

pub(super) fn lowered(program: &Program) -> Vec<LoweredKernel> {
    let options = LowerOptions { wide: false, shared_memory: 99 << 10 };
    let mut launch = lower_launch(program, 0, &options).unwrap();
    // The second kernel adds pieces, where there are any.
    assert_eq!(launch.steps.len(), 2);
    launch.steps.remove(0)
}

/// The number of the first variant that has tiles; those before are for narrow sides.
fn first_tile(program: &Program) -> usize {
    lowered(program).iter().position(|v| v.kernel.comment.contains("tiles of")).unwrap()
}

/// The CUDA of a linear layer on tensor cores, to be read.
#[test]
fn the_text_of_a_linear_layer() {
    let program = linear("linear_f16", DType::F16, DType::F16, false);
    check_golden("linear_f16", &print_cuda(&lowered(&program)[first_tile(&program)].kernel));
}

/// The extents of three axes.
pub(super) struct Extents(pub(super) [i64; 3]);

impl IndexEnv for Extents {
    fn index(&self, _: AxisId) -> i64 {
        0
    }

    fn extent(&self, axis: AxisId) -> i64 {
        self.0[axis.index()]
    }

    fn param(&self, _: ParamId) -> i64 {
        0
    }

    fn indirect(&self, _: NodeId) -> i64 {
        0
    }
}

/// The arguments of a kernel for these extents on a device; tensors lie anyhow.
fn arguments(
    kernel: &fuse_ir::kernel_ir::Kernel,
    extents: [i64; 3],
    device: DeviceNumbers,
) -> Vec<LaunchArg> {
    let argument = |p: &Param| {
        let KernelParam::Scalar { dtype, .. } = p.kind else { return LaunchArg::Pointer(256) };
        let number = match &p.source {
            Origin::Extent(extent) => extent.eval(&Extents(extents)),
            Origin::Device(which) => device.get(*which).into(),
            _ => 0,
        };
        LaunchArg::Scalar(Value::I64(number).cast(dtype))
    };
    kernel.params.iter().map(argument).collect()
}

/// What is taken for rows, columns and depth: its tile or lines, and in how many pieces the depth falls.
fn taken(steps: &[Vec<LoweredKernel>], extents: [i64; 3], device: DeviceNumbers) -> String {
    let fits = |v: &&LoweredKernel| {
        let args = arguments(&v.kernel, extents, device);
        v.kernel.requires.iter().all(|c| c.holds(&args))
    };
    let kernel = &steps[0].iter().find(fits).unwrap().kernel;
    let text = kernel.comment.trim_start_matches("g0: ").trim_start_matches("tiles of ");
    let text = text.split(" in ").next().unwrap_or(text).replace("at most ", "");
    let second = &steps[1][0].kernel;
    let blocks = second.evaluate_geometry(&arguments(second, extents, device)).unwrap().grid[0];
    if blocks == 0 {
        return text;
    }
    let grid = |device| kernel.evaluate_geometry(&arguments(kernel, extents, device)).unwrap().grid[0];
    let whole = grid(DeviceNumbers { multiprocessors: 1, ..device });
    format!("{text}, {} pieces", grid(device) / whole)
}

/// What is taken for each shape on three devices.
#[test]
fn the_tile_of_each_shape() {
    const SHAPES: [[i64; 3]; 19] = [
        [1, 4096, 4096],
        [4, 1024, 4096],
        [8, 11008, 4096],
        [16, 4096, 4096],
        [4096, 4, 4096],
        [4, 4, 65536],
        [64, 64, 64],
        [64, 64, 1000],
        [64, 64, 65536],
        [96, 96, 1024],
        [128, 128, 8192],
        [512, 512, 512],
        [512, 4096, 1024],
        [1024, 1024, 1024],
        [2048, 3072, 768],
        [4096, 4096, 4096],
        [25088, 64, 576],
        [64, 576, 25088],
        [100_000, 32, 32],
    ];
    let mut text = String::new();
    for dtype in [DType::F16, DType::F32] {
        let program = linear("linear", dtype, dtype, false);
        let options = LowerOptions { wide: false, shared_memory: 99 << 10 };
        let steps = lower_launch(&program, 0, &options).unwrap().steps;
        for [m, n, k] in SHAPES {
            let mut line = format!("{dtype} {m:>6} x {n:<5} over {k:<5}");
            for target in ["sm_80", "sm_90", "sm_120"] {
                let device = DeviceNumbers {
                    architecture: target[3..].parse().unwrap(),
                    multiprocessors: Target::gpu(target).unwrap().units,
                };
                line += &format!(" | {target} {:<34}", taken(&steps, [m, k, n], device));
            }
            text += &format!("{}\n", line.trim_end());
        }
    }
    check_golden("tiles", &text);
}
