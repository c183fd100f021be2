//! Attention as one kernel: its numbers against plain loops for every form, which tiles it goes through, and that scores are
//! nowhere in memory.

use super::noise::noise;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{Array, Input, Inputs};
use fuse_ir::graph::{Kernel, Op, ParamKind, Reducer};
use fuse_ir::id::{AxisId, NodeId, ParamId};
use fuse_ir::index_map::IndexEnv;
use fuse_ir::kernel_ir::{DeviceNumbers, Origin};
use fuse_ir::lower::{LowerOptions, is_streamed, lower_launch};
use fuse_ir::plan::{PlanOptions, plan_kernel};
use fuse_ir::print_cuda::print_cuda;
use fuse_ir::program::Program;
use fuse_ir::random::KernelBuilder;
use fuse_ir::scalar::ScalarOp;
use fuse_ir::schedule::{BufferRef, ScheduleKind};
use fuse_ir::simulate::{Counters, Layout, ProgramOptions, ProgramReport, VariantChoice, simulate_program};
use fuse_ir::target::Target;

/// Which keys a query sees.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Mask {
    All,
    /// Those up to its own position.
    Causal,
    /// Those less than the scalar `width` away.
    Window(i64),
    /// Those of blocks of `width` of the same parity.
    Blocks(i64),
}

impl Mask {
    fn sees(self, i: usize, j: usize) -> bool {
        match self {
            Mask::All => true,
            Mask::Causal => i >= j,
            Mask::Window(width) => (i.abs_diff(j) as i64) < width,
            Mask::Blocks(width) => i / width as usize % 2 == j / width as usize % 2,
        }
    }
}

fn dot(b: &mut KernelBuilder, x: NodeId, y: NodeId, axes: &[AxisId]) -> NodeId {
    b.push(Op::Reduce { reducer: Reducer::Dot, sources: vec![x, y], axes: axes.to_vec(), output: 0 })
}

/// `select(mask, q · k * scale, −∞).softmax(T) · v` for each head.
fn attention(name: &str, dtype: DType, mask: Mask) -> Program {
    let mut b = KernelBuilder::new(name);
    let (out, axes) = attend(&mut b, dtype, mask);
    b.result(out, &axes);
    program(b.build())
}

/// The same, and the axes of the result.
fn attend(b: &mut KernelBuilder, dtype: DType, mask: Mask) -> (NodeId, [AxisId; 3]) {
    let [h, s, t, d, e] = ["H", "S", "T", "D", "E"].map(|a| b.axis(a));
    for (axis, extent) in [(h, 8), (s, 1024), (t, 1024), (d, 64), (e, 64)] {
        b.kernel.axes[axis.index()].assumed = Some(extent);
    }
    let (q, k) = (b.tensor("q", dtype, &[h, s, d]), b.tensor("k", dtype, &[h, t, d]));
    let v = b.tensor("v", dtype, &[h, t, e]);
    let (_, scale) = b.scalar("scale", DType::F32);
    let wide = |b: &mut KernelBuilder, x| match dtype {
        DType::F32 => x,
        _ => b.map(ScalarOp::Cast(DType::F32), &[x]),
    };
    let (q, k, v) = (wide(b, q), wide(b, k), wide(b, v));
    let score = dot(b, q, k, &[d]);
    let score = b.map(ScalarOp::Mul, &[score, scale]);
    let low = b.constant(Value::F32(f32::NEG_INFINITY));
    let (row, key) = (b.push(Op::Index(s)), b.push(Op::Index(t)));
    let seen = match mask {
        Mask::All => None,
        Mask::Causal => Some(b.map(ScalarOp::Ge, &[row, key])),
        Mask::Window(_) => {
            let (_, width) = b.scalar("width", DType::I64);
            let (before, after) = (b.map(ScalarOp::Sub, &[row, key]), b.map(ScalarOp::Sub, &[key, row]));
            let (x, y) = (b.map(ScalarOp::Lt, &[before, width]), b.map(ScalarOp::Lt, &[after, width]));
            Some(b.map(ScalarOp::And, &[x, y]))
        }
        Mask::Blocks(_) => {
            let (_, width) = b.scalar("width", DType::I64);
            let two = b.constant(Value::I64(2));
            let [x, y] = [row, key].map(|at| {
                let block = b.map(ScalarOp::Div, &[at, width]);
                b.map(ScalarOp::Rem, &[block, two])
            });
            Some(b.map(ScalarOp::Eq, &[x, y]))
        }
    };
    let score = seen.map_or(score, |seen| b.map(ScalarOp::Select, &[seen, score, low]));
    let zero = b.constant(Value::F32(0.0));
    let most = b.reduce(Reducer::Max, score, &[t]);
    let empty = b.map(ScalarOp::Eq, &[most, low]);
    let most = b.map(ScalarOp::Select, &[empty, zero, most]);
    let shifted = b.map(ScalarOp::Sub, &[score, most]);
    let weight = b.map(ScalarOp::Exp, &[shifted]);
    let sum = b.reduce(Reducer::Sum, weight, &[t]);
    let none = b.map(ScalarOp::Eq, &[sum, zero]);
    let one = b.constant(Value::F32(1.0));
    let sum = b.map(ScalarOp::Select, &[none, one, sum]);
    let weight = b.map(ScalarOp::Div, &[weight, sum]);
    let out = dot(b, weight, v, &[t]);
    let out = match dtype {
        DType::F32 => out,
        _ => b.map(ScalarOp::Cast(dtype), &[out]),
    };
    (out, [h, s, e])
}

fn program(kernel: Kernel) -> Program {
    let plan = plan_kernel(&kernel, &Target::gpu("sm_80").unwrap(), &PlanOptions::default()).unwrap();
    assert_eq!(plan.launches.len(), 1, "{}", plan.display(&kernel));
    assert_eq!(plan.launches[0].parts[0].kind, ScheduleKind::Streamed, "{}", plan.display(&kernel));
    Program { kernel, plan }
}

fn inputs(program: &Program, extents: &[usize], mask: Mask) -> Inputs {
    let of = |(k, p): (usize, &fuse_ir::graph::Param)| match &p.kind {
        ParamKind::Tensor { dtype, axes, .. } => {
            let shape: Vec<usize> = axes.iter().map(|a| extents[a.index()]).collect();
            let data = noise(k as u64 + 1, *dtype, shape.iter().product());
            Input::Tensor(Array::new(*dtype, shape, data).unwrap())
        }
        ParamKind::Scalar { dtype: DType::I64 } => match mask {
            Mask::Window(width) | Mask::Blocks(width) => Input::Scalar(Value::I64(width)),
            Mask::All | Mask::Causal => Input::Scalar(Value::I64(0)),
        },
        ParamKind::Scalar { dtype } => Input::Scalar(Value::F64(0.75).cast(*dtype)),
        ParamKind::Axis { axis } => Input::Axis(extents[axis.index()]),
    };
    Inputs(program.kernel.params.iter().enumerate().map(of).collect())
}

fn tensor(inputs: &Inputs, k: usize) -> Vec<f64> {
    let Input::Tensor(array) = &inputs.0[k] else { panic!("parameter {k} is no tensor") };
    array.data.iter().map(|v| v.as_f64().unwrap()).collect()
}

fn run(program: &Program, inputs: &Inputs, options: &ProgramOptions) -> ProgramReport {
    let report = simulate_program(program, inputs, options)
        .unwrap_or_else(|e| panic!("{} with {options:?}: {e}", program.kernel.name));
    let faults: Vec<String> = report.faults().map(|f| f.to_string()).take(3).collect();
    assert!(faults.is_empty(), "{} with {options:?}: {faults:#?}", program.kernel.name);
    let may_split = options.device.multiprocessors > 2;
    assert!(may_split || report.kernels.len() == 1, "one kernel");
    report
}

/// A device that one block does not fill.
fn large() -> DeviceNumbers {
    DeviceNumbers { architecture: 80, multiprocessors: 132 }
}

/// Every element against plain loops in f64. A score is off by c·ε·Σ|q·k|, which moves its weight by as much; products of
/// weights and values are off by c·ε·Σ|w·v|.
fn check(program: &Program, extents: [usize; 5], mask: Mask, options: &ProgramOptions) -> Counters {
    let [_, s, t, d, e] = extents;
    let inputs = inputs(program, &extents, mask);
    let report = run(program, &inputs, options);
    let [q, k, v] = [0, 1, 2].map(|p| tensor(&inputs, p));
    let result = &report.outputs.results[0];
    let own = match result.dtype {
        DType::F16 => 1.0 / 2048.0,
        DType::Bf16 => 1.0 / 256.0,
        _ => f64::from(f32::EPSILON),
    };
    let epsilon = f64::from(f32::EPSILON);
    for (at, got) in result.data.iter().enumerate() {
        let (head, i, c) = (at / (s * e), at / e % s, at % e);
        let mut moved = 0.0f64;
        let scores: Vec<f64> = (0..t)
            .map(|j| {
                let terms = (0..d).map(|x| q[(head * s + i) * d + x] * k[(head * t + j) * d + x]);
                moved = moved.max(0.75 * terms.clone().map(f64::abs).sum::<f64>());
                if mask.sees(i, j) { 0.75 * terms.sum::<f64>() } else { f64::NEG_INFINITY }
            })
            .collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let most = if most == f64::NEG_INFINITY { 0.0 } else { most };
        let sum: f64 = scores.iter().map(|x| (x - most).exp()).sum();
        let (mut want, mut magnitude) = (0.0, 0.0);
        for (j, x) in scores.iter().enumerate() {
            let weight = if sum == 0.0 { 0.0 } else { (x - most).exp() / sum };
            want += weight * v[(head * t + j) * e + c];
            magnitude += (weight * v[(head * t + j) * e + c]).abs();
        }
        let bound = epsilon * (16.0 * moved + 8.0 * most.abs() + 32.0) * magnitude + own * want.abs() + 1e-30;
        let got = got.as_f64().unwrap();
        assert!(
            (got - want).abs() <= bound,
            "{} of {extents:?} with {options:?} at {at}: {got}, not {want}, more than {bound:e} off",
            program.kernel.name
        );
    }
    let mut all = Counters::default();
    report.kernels.into_iter().for_each(|k| all += k.report.counters);
    all
}

/// Each way to run a program: variants, indices, layouts, alignments.
fn ways() -> Vec<ProgramOptions> {
    let base = ProgramOptions::default();
    vec![
        ProgramOptions { ..base.clone() },
        ProgramOptions { variant: VariantChoice::Last, ..base.clone() },
        ProgramOptions { wide: true, ..base.clone() },
        ProgramOptions { layout: Layout::Transposed, ..base.clone() },
        ProgramOptions { layout: Layout::Backwards, ..base.clone() },
        ProgramOptions { shift: 1, ..base.clone() },
        ProgramOptions { device: DeviceNumbers { architecture: 75, multiprocessors: 2 }, ..base },
    ]
}

/// Heads, queries, keys, widths of keys and of values: below, at and above the sizes of tiles, none and one of each.
const SIZES: [[usize; 5]; 9] = [
    [1, 1, 1, 1, 1],
    [2, 5, 3, 4, 2],
    [1, 64, 64, 16, 64],
    [2, 37, 130, 17, 33],
    [1, 70, 65, 40, 72],
    [1, 3, 0, 4, 2],
    [1, 0, 3, 4, 2],
    [1, 3, 5, 0, 2],
    [1, 129, 67, 64, 8],
];

#[test]
fn masks_of_every_kind_are_right() {
    for mask in [Mask::All, Mask::Causal, Mask::Window(3), Mask::Window(0), Mask::Blocks(5)] {
        let name = format!("{mask:?}").to_lowercase().replace(['(', ')'], "");
        let p = attention(&name, DType::F32, mask);
        for extents in SIZES {
            check(&p, extents, mask, &ProgramOptions::default());
        }
    }
}

#[test]
fn every_way_to_run_is_right() {
    let p = attention("causal", DType::F32, Mask::Causal);
    for options in ways() {
        check(&p, [2, 37, 130, 17, 33], Mask::Causal, &options);
    }
}

#[test]
fn half_precision_is_right() {
    for dtype in [DType::F16, DType::Bf16] {
        let p = attention("half", dtype, Mask::Causal);
        for options in ways() {
            check(&p, [2, 70, 130, 32, 40], Mask::Causal, &options);
        }
        for extents in SIZES {
            check(&p, extents, Mask::Causal, &ProgramOptions::default());
        }
    }
}

/// Which variant runs is a matter of widths, alignment and the device; that on tensor cores has no bank conflicts.
#[test]
fn tensor_cores_take_what_they_can() {
    for dtype in [DType::F16, DType::Bf16] {
        let p = attention("half", dtype, Mask::All);
        let base = ProgramOptions::default();
        for (extents, products) in [
            // Four warps; eight blocks of keys in all by four parts of the depth, and by eight of the columns, where eight keys
            // are multiplied at a time by two parts of the weights.
            ([1, 64, 128, 64, 64], 4 * 2 * (8 * 4 + 8 * 8 * 2)),
            ([1, 64, 64, 128, 128], 4 * (8 * 8 + 8 * 16 * 2)),
            ([1, 64, 64, 64, 72], 4 * (8 * 8 + 8 * 16 * 2)),
            ([1, 64, 64, 40, 24], 4 * (8 * 4 + 8 * 8 * 2)),
            ([1, 64, 64, 136, 64], 0),
            ([1, 64, 64, 36, 64], 0),
        ] {
            let counters = check(&p, extents, Mask::All, &base);
            assert_eq!(counters.products, products, "{extents:?}");
            if products > 0 {
                assert_eq!(counters.shared().conflicts(), 0, "{extents:?}");
            }
        }
        let old = DeviceNumbers { architecture: 75, multiprocessors: 2 };
        let counters =
            check(&p, [1, 64, 64, 64, 64], Mask::All, &ProgramOptions { device: old, ..base.clone() });
        assert_eq!(counters.products, 0);
        let counters = check(&p, [1, 64, 64, 64, 64], Mask::All, &ProgramOptions { shift: 1, ..base });
        assert_eq!(counters.products, 0);
    }
}

/// Of tiles that a mask excludes none is multiplied.
#[test]
fn excluded_tiles_are_passed_over() {
    let n = 5u64;
    let extents = [1, n as usize * 64, n as usize * 64, 16, 16];
    let of = |dtype, mask| {
        let p = attention("masked", dtype, mask);
        check(&p, extents, mask, &ProgramOptions::default())
    };
    let one = 4 * (8 * 4 + 8 * 8 * 2);
    assert_eq!(of(DType::F16, Mask::All).products, n * n * one);
    assert_eq!(of(DType::F16, Mask::Causal).products, n * (n + 1) / 2 * one);
    assert_eq!(of(DType::F16, Mask::Window(50)).products, (3 * n - 2) * one);
    // Three even blocks and two odd ones.
    assert_eq!(of(DType::F16, Mask::Blocks(64)).products, (3 * 3 + 2 * 2) * one);
    // Where one after the other multiplies, a tile has four barriers if it is computed and two if not, and a
    // block six more.
    let barriers = |tiles: u64| 4 * tiles + 2 * (n * n - tiles);
    let all = of(DType::F32, Mask::Causal).block_barriers;
    assert_eq!(all - n * 6, barriers(n * (n + 1) / 2));
    let near = of(DType::F32, Mask::Window(50)).block_barriers;
    assert_eq!(near - n * 6, barriers(3 * n - 2));
    let blocks = of(DType::F32, Mask::Blocks(64)).block_barriers;
    assert_eq!(blocks - n * 6, barriers(3 * 3 + 2 * 2));
}

/// A residual that is overwritten is read by the thread that writes it.
#[test]
fn results_may_be_added_in_place() {
    for dtype in [DType::F32, DType::F16] {
        let mut b = KernelBuilder::new("in_place");
        let (out, axes) = attend(&mut b, dtype, Mask::All);
        let (param, r) = b.tensor_mut("r", dtype, &axes);
        let wide = |b: &mut KernelBuilder, x| b.map(ScalarOp::Cast(DType::F32), &[x]);
        let (out, r) = (wide(&mut b, out), wide(&mut b, r));
        let sum = b.map(ScalarOp::Add, &[out, r]);
        let sum = b.map(ScalarOp::Cast(dtype), &[sum]);
        b.store(param, sum);
        let p = program(b.build());
        assert!(is_streamed(&p, p.plan.groups().next().unwrap()));
        let inputs = inputs(&p, &[2, 70, 40, 16, 72], Mask::All);
        let report = run(&p, &inputs, &ProgramOptions::default());
        let plain = attention("plain", dtype, Mask::All);
        let without = run(&plain, &inputs_of(&inputs), &ProgramOptions::default());
        let before = tensor(&inputs, 4);
        let (_, after) = &report.outputs.params[0];
        for (k, got) in after.data.iter().enumerate() {
            let more = without.outputs.results[0].data[k].as_f64().unwrap();
            let want = Value::F64(f64::from((before[k] + more) as f32)).cast(dtype).as_f64().unwrap();
            assert_eq!(got.as_f64().unwrap(), want, "{dtype} at {k}");
        }
    }
}

/// The inputs without the last.
fn inputs_of(inputs: &Inputs) -> Inputs {
    Inputs(inputs.0[..inputs.0.len() - 1].to_vec())
}

/// No kernel knows of a buffer for what lies between the links.
#[test]
fn scores_are_never_in_memory() {
    for dtype in [DType::F32, DType::F16] {
        let p = attention("attention", dtype, Mask::All);
        let group = p.plan.groups().next().unwrap();
        assert!(is_streamed(&p, group));
        let options = LowerOptions { wide: false, shared_memory: 96 << 10 };
        let mut p = p.clone();
        p.kernel.launches = Some(1);
        let lowered = lower_launch(&p, 0, &options).unwrap();
        assert_eq!((lowered.steps.len(), lowered.scratch.len()), (1, 0));
        for variant in &lowered.steps[0] {
            let temp =
                variant.kernel.params.iter().find(|p| matches!(p.source, Origin::Buffer(BufferRef::Temp(_))));
            assert_eq!(temp, None);
        }
    }
}

/// The best variant of causal attention as CUDA, for someone to read.
#[test]
fn texts_are_kept() {
    for dtype in [DType::F32, DType::F16] {
        let p = attention(&format!("causal_{dtype}"), dtype, Mask::Causal);
        let options = LowerOptions { wide: false, shared_memory: 96 << 10 };
        let lowered = lower_launch(&p, 0, &options).unwrap();
        let text = print_cuda(&lowered.steps[0][0].kernel);
        let path = format!("{}/tests/golden/lower/causal_{dtype}.cu", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("FUSE_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == text, "causal_{dtype}.cu differs; `FUSE_BLESS=1` rewrites it");
    }
}

/// Few queries and many keys: each range of keys has blocks of its own, and a second kernel puts them together.
#[test]
fn ranges_of_keys_are_put_together() {
    let sizes = [
        [2, 3, 1300, 8, 16],
        [1, 1, 513, 16, 8],
        [1, 70, 1025, 17, 33],
        [1, 5, 600, 32, 72],
        [1, 2, 1100, 4, 0],
    ];
    for (dtype, mask) in [
        (DType::F32, Mask::All),
        (DType::F32, Mask::Window(3)),
        (DType::F16, Mask::Causal),
        (DType::Bf16, Mask::All),
    ] {
        let p = attention("decode", dtype, mask);
        // What differs for this one is how it is loaded and stored.
        let ways_of = if dtype == DType::Bf16 { 1 } else { ways().len() };
        for options in ways().into_iter().take(ways_of) {
            let architecture = options.device.architecture;
            let options = ProgramOptions { device: DeviceNumbers { architecture, ..large() }, ..options };
            let of_all = if options == ways()[0] { &sizes[..] } else { &sizes[..1] };
            for extents in of_all {
                check(&p, *extents, mask, &options);
            }
        }
        let options = ProgramOptions { device: large(), ..ProgramOptions::default() };
        let report = run(&p, &inputs(&p, &[2, 3, 1300, 8, 16], mask), &options);
        let names: Vec<&str> = report.kernels.iter().map(|k| k.name.as_str()).collect();
        assert_eq!(names, ["decode", "decode_fold"]);
        let warps: Vec<u64> = report.kernels.iter().map(|k| k.report.counters.warps).collect();
        let threads = if dtype == DType::F32 { 8 } else { 4 };
        assert_eq!(warps, [2 * 3 * threads, 2 * 8], "three ranges of two heads");
    }
}

/// Where there are enough blocks, few keys, or a contract, there is one kernel.
#[test]
fn ranges_of_keys_are_for_few_queries_and_many_keys() {
    let mut p = attention("decode", DType::F32, Mask::All);
    let kernels = |p: &Program, extents: &[usize], multiprocessors| {
        let device = DeviceNumbers { architecture: 80, multiprocessors };
        let options = ProgramOptions { device, ..ProgramOptions::default() };
        run(p, &inputs(p, extents, Mask::All), &options).kernels.len()
    };
    assert_eq!(kernels(&p, &[1, 3, 513, 4, 4], 132), 2);
    assert_eq!(kernels(&p, &[1, 3, 512, 4, 4], 132), 1);
    assert_eq!(kernels(&p, &[5, 3, 513, 4, 4], 10), 2);
    assert_eq!(kernels(&p, &[5, 3, 513, 4, 4], 9), 1);
    p.kernel.launches = Some(1);
    assert_eq!(kernels(&p, &[1, 3, 513, 4, 4], 132), 1);
    p.kernel.launches = Some(2);
    assert_eq!(kernels(&p, &[1, 3, 513, 4, 4], 132), 2);
}

/// Extents of a call.
struct OfExtents([i64; 5]);

impl IndexEnv for OfExtents {
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

/// What ranges leave is no larger for more ranges than there are.
#[test]
fn memory_of_ranges_is_bounded() {
    let p = attention("decode", DType::F32, Mask::All);
    let lowered = lower_launch(&p, 0, &LowerOptions { wide: false, shared_memory: 96 << 10 }).unwrap();
    let most = |keys: i64| {
        let extents = [1, 3, keys, 4, 8];
        lowered.scratch.iter().map(|s| s.elements.eval(&OfExtents(extents))).collect::<Vec<i64>>()
    };
    // Products, greatest values and sums.
    assert_eq!(most(1300), [3 * 8 * 3, 3 * 3, 3 * 3]);
    assert_eq!(most(1 << 20), [64 * 8 * 3, 64 * 3, 64 * 3]);
    assert_eq!(lowered.steps.len(), 2);
}

/// Weights are normalised when all ranges are known: what that would lose of products is not lost.
#[test]
fn extreme_values_of_ranges_are_kept() {
    let p = attention("decode", DType::F32, Mask::All);
    let extents = [1, 3, 1300, 4, 4];
    for size in [3e38f32, 1e-38] {
        let mut inputs = inputs(&p, &extents, Mask::All);
        inputs.0[2] =
            Input::Tensor(Array::new(DType::F32, vec![1, 1300, 4], vec![Value::F32(size); 5200]).unwrap());
        let options = ProgramOptions { device: large(), ..ProgramOptions::default() };
        let report = run(&p, &inputs, &options);
        assert_eq!(report.kernels.len(), 2);
        for x in &report.outputs.results[0].data {
            let x = x.as_f64().unwrap();
            assert!((x / f64::from(size) - 1.0).abs() < 1e-5, "{x}, not {size}");
        }
    }
}

/// A tile that a mask admits as a whole has no selections: what a tile more of keys takes of a warp is about what it takes
/// without a mask, and much less than where positions have to be asked for.
#[test]
fn admitted_tiles_have_no_mask() {
    for (dtype, scores) in [(DType::F32, 16), (DType::F16, 32)] {
        let of_tile = |mask: Mask, heights: u64| {
            let p = attention("masked", dtype, mask);
            let run = |keys: usize| check(&p, [1, 64, 64 * keys, 16, 16], mask, &ProgramOptions::default());
            let (few, many) = (run(3), run(7));
            (many.instructions - few.instructions) / (4 * heights)
        };
        let warps = if dtype == DType::F32 { 8 } else { 4 };
        let [none, wide, excluded] =
            [Mask::All, Mask::Window(1000), Mask::Causal].map(|mask| of_tile(mask, warps));
        assert!(wide < none + 2 * scores, "{dtype}: {wide} instructions, {none} without a mask");
        assert!(excluded < none / 2, "{dtype}: {excluded} instructions for a tile that is passed over");
    }
}

/// Where there is room the queries are loaded once, not with each tile of keys.
#[test]
fn rows_are_loaded_once() {
    let p = attention("attention", DType::F32, Mask::All);
    let bytes = |shared_memory| {
        let options = ProgramOptions { shared_memory, ..ProgramOptions::default() };
        check(&p, [1, 64, 256, 64, 64], Mask::All, &options).global_loads.bytes
    };
    let (queries, others) = (64 * 64 * 4, 2 * 256 * 64 * 4);
    assert_eq!(bytes(96 << 10), queries + others);
    assert_eq!(bytes(48 << 10), 4 * queries + others);
}
