//! What a kernel is tried with: sizes, values and layouts that hurt.

use fuse_ir::bind::bind_extents;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{Array, Input, Inputs};
use fuse_ir::graph::{Axis, AxisSource, CheckKind, Kernel, Node, Op, ParamKind};
use fuse_ir::id::AxisId;
use fuse_ir::id::{NodeId, ParamId};
use fuse_ir::index_map::{Extent, IndexEnv, IndexExpr};
use fuse_ir::schedule::{CHUNK, LANES};

/// How the elements of the input tensors lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layout {
    /// In the declared order without gaps.
    Contiguous,
    /// With the axes in reverse order.
    Transposed,
    /// With a gap after each row, and not from the start.
    Padded,
}

/// Which values the inputs have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Values {
    /// Numbers of ordinary size.
    Ordinary,
    /// Among them NaN, infinities, zeros of both signs, denormals, the greatest and the least.
    Special,
}

/// The extents asked for: for each axis by name; axes that are not named get their own from the list.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Sizes(pub(super) Vec<(String, usize)>);

/// Reproducible random numbers: SplitMix64.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which is not zero.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// The free axes of a kernel: those that neither a constant nor an equation gives.
fn free_axes(kernel: &Kernel) -> Vec<usize> {
    let derived = |k: usize| matches!(kernel.axes[k].source, AxisSource::Derived(_) | AxisSource::Static(_));
    (0..kernel.axes.len()).filter(|&k| !derived(k)).collect()
}

/// Small sizes for every free axis: all one; primes; one axis empty; one axis longer than the lanes of a reduction, one
/// longer than its chunk. `budget` limits the positions of the longest.
pub(super) fn default_sizes(kernel: &Kernel, budget: usize) -> Vec<Sizes> {
    const PRIMES: [usize; 8] = [5, 7, 3, 2, 11, 3, 2, 3];
    let free = free_axes(kernel);
    let name = |k: usize| kernel.axes[k].name.clone();
    let sizes = |extent: &dyn Fn(usize) -> usize| {
        Sizes(free.iter().enumerate().map(|(position, &k)| (name(k), extent(position))).collect())
    };
    let mut all = vec![
        sizes(&|_| 1),
        sizes(&|position| PRIMES[position % PRIMES.len()]),
        sizes(&|position| PRIMES[(position + 2) % PRIMES.len()] + 1),
    ];
    for long in 0..free.len() {
        all.push(sizes(&|position| if position == long { 0 } else { 2 }));
        all.push(sizes(&|position| if position == long { LANES + 3 } else { 2 }));
    }
    for long in 0..free.len() {
        let positions = (2 * CHUNK + 3).saturating_mul(2usize.pow(free.len().min(20) as u32 - 1));
        let longest = sizes(&|position| if position == long { 2 * CHUNK + 3 } else { 2 });
        if positions <= budget && count_positions(kernel, &longest) <= budget {
            all.push(longest);
        }
    }
    if free.is_empty() {
        all.truncate(1);
    }
    all
}

/// The positions of the largest operation at these sizes: axes that follow from others may follow from a long one.
fn count_positions(kernel: &Kernel, sizes: &Sizes) -> usize {
    let scalars = vec![Some(Value::I64(1)); kernel.params.len()];
    let mut extents = start_extents(kernel, sizes);
    if settle_equations(kernel, &scalars, &mut extents).is_none() {
        return 0;
    }
    let of_node = |node: &Node| {
        let reduced: &[AxisId] = if let Op::Reduce { axes, .. } = &node.op { axes } else { &[] };
        let axes = node.ty.axes.iter().chain(reduced);
        axes.fold(1usize, |n, axis| n.saturating_mul(extents[axis.index()].unsigned_abs() as usize))
    };
    kernel.nodes.iter().map(of_node).max().unwrap_or(0)
}

/// The extents of axes as far as the sizes name them.
fn start_extents(kernel: &Kernel, sizes: &Sizes) -> Vec<i64> {
    let asked = |name: &str| sizes.0.iter().find(|(axis, _)| axis == name).map(|(_, n)| *n as i64);
    let of_axis = |axis: &Axis| match axis.source {
        AxisSource::Static(n) => n as i64,
        AxisSource::Shape | AxisSource::Host(_) | AxisSource::Derived(_) => asked(&axis.name).unwrap_or(2),
    };
    kernel.axes.iter().map(of_axis).collect()
}

/// An extent under given extents and integer parameters.
struct Env<'a> {
    extents: &'a [i64],
    scalars: &'a [Option<Value>],
}

impl IndexEnv for Env<'_> {
    fn index(&self, _: AxisId) -> i64 {
        0
    }

    fn extent(&self, axis: AxisId) -> i64 {
        self.extents[axis.index()]
    }

    fn param(&self, param: ParamId) -> i64 {
        self.scalars[param.index()].and_then(Value::as_i128).unwrap_or(0) as i64
    }

    fn indirect(&self, _: NodeId) -> i64 {
        0
    }
}

/// Inputs for a kernel at these sizes; `None` if the kernel refuses them.
///
/// Axes that equations give follow from the others; the axis of a check follows from what it must be equal to.
pub(super) fn make_inputs(kernel: &Kernel, sizes: &Sizes, values: Values, seed: u64) -> Option<Inputs> {
    let mut random = Random::new(seed);
    let mut extents = start_extents(kernel, sizes);
    let mut scalars: Vec<Option<Value>> = kernel
        .params
        .iter()
        .map(|param| match &param.kind {
            ParamKind::Scalar { dtype } => Some(random_scalar(*dtype, &mut random)),
            ParamKind::Tensor { .. } | ParamKind::Axis { .. } => None,
        })
        .collect();
    raise_steps(kernel, &mut scalars);
    settle_equations(kernel, &scalars, &mut extents)?;
    let mut inputs = Vec::new();
    for (param, scalar) in kernel.params.iter().zip(&scalars) {
        inputs.push(match &param.kind {
            ParamKind::Scalar { .. } => Input::Scalar((*scalar)?),
            ParamKind::Axis { axis } => Input::Axis(usize::try_from(extents[axis.index()]).ok()?),
            ParamKind::Tensor { dtype, axes, .. } => {
                let shape: Vec<usize> =
                    axes.iter().map(|a| usize::try_from(extents[a.index()]).ok()).collect::<Option<_>>()?;
                let count = shape.iter().try_fold(1usize, |n, &k| n.checked_mul(k))?;
                let data = (0..count).map(|_| random_value(*dtype, values, &mut random)).collect();
                Input::Tensor(Array { dtype: *dtype, shape, data })
            }
        });
    }
    let inputs = Inputs(inputs);
    bind(kernel, &inputs).map(|_| inputs)
}

/// The extents that the kernel binds for these inputs, if it takes them.
pub(super) fn bind(kernel: &Kernel, inputs: &Inputs) -> Option<Vec<i64>> {
    let shapes: Vec<Option<&[usize]>> = inputs
        .0
        .iter()
        .map(|input| if let Input::Tensor(array) = input { Some(array.shape.as_slice()) } else { None })
        .collect();
    bind_extents(kernel, &shapes, &scalars_of(inputs)).ok()
}

/// The scalar of each parameter.
pub(super) fn scalars_of(inputs: &Inputs) -> Vec<Option<Value>> {
    let scalar = |input: &Input| match input {
        Input::Tensor(_) => None,
        Input::Scalar(value) => Some(*value),
        Input::Axis(n) => Some(Value::U64(*n as u64)),
    };
    inputs.0.iter().map(scalar).collect()
}

/// Makes derived axes and the axes of equality checks what their equations say.
fn settle_equations(kernel: &Kernel, scalars: &[Option<Value>], extents: &mut [i64]) -> Option<()> {
    let checked = kernel.checks.iter().filter_map(|check| match &check.kind {
        CheckKind::Equal { axis, expected, .. } => Some((*axis, expected)),
        CheckKind::NotEmpty { .. } | CheckKind::InBounds { .. } | CheckKind::AtLeast { .. } => None,
    });
    let derived = kernel.axes.iter().enumerate().filter_map(|(k, axis)| match &axis.source {
        AxisSource::Derived(extent) => Some((AxisId::from_index(k), extent)),
        AxisSource::Shape | AxisSource::Host(_) | AxisSource::Static(_) => None,
    });
    let equations: Vec<(AxisId, &Extent)> = derived.chain(checked).collect();
    // An equation may feed another; as many rounds as there are equations settle any chain.
    for _ in 0..=equations.len() {
        for (axis, extent) in &equations {
            extents[axis.index()] = extent.eval(&Env { extents, scalars });
        }
    }
    extents.iter().all(|&n| n >= 0).then_some(())
}

/// Raises scalars that must not be less than a number to it: the steps of windows.
fn raise_steps(kernel: &Kernel, scalars: &mut [Option<Value>]) {
    for check in &kernel.checks {
        if let CheckKind::AtLeast { value: IndexExpr::Param(param), least, .. } = &check.kind
            && let Some(scalar) = &mut scalars[param.index()]
            && scalar.as_i128().is_some_and(|n| n < i128::from(*least))
        {
            *scalar = Value::from_i128(scalar.dtype(), (*least).into()).unwrap_or(*scalar);
        }
    }
}

/// A scalar argument: floats around one, integers small and not negative, so that most are valid positions and counts.
fn random_scalar(dtype: DType, random: &mut Random) -> Value {
    if dtype.is_float() {
        let x = 0.25 + random.below(1000) as f64 / 800.0;
        return Value::from_f64(dtype, x).unwrap_or(Value::zero(dtype));
    }
    match dtype {
        DType::Bool => Value::Bool(random.below(2) == 1),
        _ => Value::from_i128(dtype, random.below(3).into()).unwrap_or(Value::zero(dtype)),
    }
}

fn random_value(dtype: DType, values: Values, random: &mut Random) -> Value {
    let special = values == Values::Special && random.below(8) == 0;
    let pick = random.next();
    if dtype == DType::Bool {
        return Value::Bool(pick & 1 == 1);
    }
    if !dtype.is_float() {
        let x: i128 = match (special, pick % 6) {
            (true, 0) => i64::MAX.into(),
            (true, 1) => i64::MIN.into(),
            (true, 2) => -1,
            (true, 3) => 127,
            (true, 4) => 1 << 31,
            (true, _) => 0,
            // Small, so that most are valid as indices.
            (false, _) => ((pick >> 8) % 4).into(),
        };
        return Value::from_i128(dtype, x).unwrap_or(Value::zero(dtype));
    }
    let least_normal = if dtype == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    let x = match (special, pick % 12) {
        (true, 0) => f64::NAN,
        (true, 1) => f64::INFINITY,
        (true, 2) => f64::NEG_INFINITY,
        (true, 3) => 0.0,
        (true, 4) => -0.0,
        (true, 5) => least_normal / 8.0,
        (true, 6) => -least_normal / 1024.0,
        (true, 7) => {
            if dtype == DType::F64 {
                f64::MAX
            } else {
                f32::MAX.into()
            }
        }
        (true, 8) => least_normal,
        (true, 9) => 1.0,
        (true, 10) => 65504.0,
        (true, _) => -1.0,
        // Between -4 and 4, in steps that f32 holds exactly.
        (false, _) => ((pick >> 40) as f64 / f64::from(1 << 21)) - 4.0,
    };
    Value::from_f64(dtype, x).unwrap_or(Value::zero(dtype))
}
