//! A call of a program through its lowered kernels, on the simulator.

use fuse_ir::bind::bind_extents;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{Array, Input, Inputs, Outputs};
use fuse_ir::graph::{OutputTarget, ParamKind};
use fuse_ir::id::{AxisId, NodeId, ParamId, TempId};
use fuse_ir::index_map::{IndexEnv, IndexExpr};
use fuse_ir::kernel_ir::{Kernel, LaunchArg, Origin};
use fuse_ir::lower::{FaultSite, LowerOptions, LoweredKernel, fits_narrow, lower_launch};
use fuse_ir::program::Program;
use fuse_ir::schedule::BufferRef;
use fuse_ir::simulate::{Argument, Counters, GlobalMemory, SimulateOptions, simulate_kernel};
use std::collections::BTreeMap;

/// How the call is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// 64-bit indices.
    pub(super) wide: bool,
    /// Which of the variants that may run does: the first, or the last.
    pub(super) last: bool,
    /// Elements between neighbours along the innermost axis of each argument.
    pub(super) spread: usize,
}

/// What came of a call.
pub(super) struct Called {
    pub(super) outputs: Outputs,
    /// The sites that faulted.
    pub(super) faults: Vec<FaultSite>,
    /// What each kernel did.
    pub(super) counters: Vec<Counters>,
}

struct Env<'a>(&'a [i64], &'a [i64]);

impl IndexEnv for Env<'_> {
    fn index(&self, _: AxisId) -> i64 {
        0
    }
    fn extent(&self, axis: AxisId) -> i64 {
        self.0[axis.index()]
    }
    fn param(&self, param: ParamId) -> i64 {
        self.1[param.index()]
    }
    fn indirect(&self, _: NodeId) -> i64 {
        0
    }
}

struct Place {
    buffer: usize,
    shape: Vec<usize>,
    strides: Vec<usize>,
    dtype: DType,
}

/// Where the element at each position of a shape lies, row-major.
fn elements(place: &Place) -> Vec<usize> {
    let count: usize = place.shape.iter().product();
    (0..count)
        .map(|k| {
            let (mut rest, mut at) = (k, 0);
            for (n, s) in place.shape.iter().zip(&place.strides).rev() {
                at += rest % n * s;
                rest /= n;
            }
            at
        })
        .collect()
}

/// Elements as they stand in memory.
fn encode(dtype: DType, values: &[Value]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_bits().to_le_bytes()[..dtype.size()].to_vec()).collect()
}

/// The element at `at`; `None` if nobody wrote it.
fn decode(memory: &GlobalMemory, buffer: usize, dtype: DType, at: usize) -> Option<Value> {
    let (size, buffer) = (dtype.size(), &memory.buffers[buffer]);
    let bytes = at * size..(at + 1) * size;
    if buffer.written.as_ref().is_some_and(|w| !w[bytes.clone()].iter().all(|w| *w)) {
        return None;
    }
    let mut word = [0; 8];
    word[..size].copy_from_slice(&buffer.bytes[bytes]);
    Some(Value::from_bits(dtype, u64::from_le_bytes(word)))
}

/// Runs a program.
pub(super) fn call(program: &Program, inputs: &Inputs, how: How) -> Result<Called, String> {
    let kernel = &program.kernel;
    let shapes: Vec<Option<&[usize]>> = inputs
        .0
        .iter()
        .map(|i| if let Input::Tensor(a) = i { Some(a.shape.as_slice()) } else { None })
        .collect();
    let scalars: Vec<Option<Value>> = inputs
        .0
        .iter()
        .map(|i| match i {
            Input::Tensor(_) => None,
            Input::Scalar(v) => Some(*v),
            Input::Axis(n) => Some(Value::I64(*n as i64)),
        })
        .collect();
    let extents = bind_extents(kernel, &shapes, &scalars).map_err(|e| e.to_string())?;
    let params: Vec<i64> =
        scalars.iter().map(|s| s.and_then(|v| v.as_i128()).map_or(0, |n| n as i64)).collect();
    let mut memory = GlobalMemory::default();
    let mut places: BTreeMap<BufferRef, Place> = BTreeMap::new();
    let mut allocate =
        |id: BufferRef, dtype: DType, shape: Vec<usize>, data: Option<&[Value]>, spread: usize| {
            let mut strides = vec![0; shape.len()];
            let mut step = spread;
            for k in (0..shape.len()).rev() {
                strides[k] = step;
                step *= shape[k].max(1);
            }
            let mut place = Place { buffer: 0, shape, strides, dtype };
            let at = elements(&place);
            let len = at.iter().max().map_or(0, |n| n + 1);
            place.buffer = match data {
                Some(data) => {
                    let mut all = vec![Value::zero(dtype); len];
                    for (at, v) in at.iter().zip(data) {
                        all[*at] = *v;
                    }
                    memory.allocate(encode(dtype, &all))
                }
                None => memory.allocate_uninitialised(len * dtype.size()),
            };
            places.insert(id, place);
        };
    for (k, (param, input)) in kernel.params.iter().zip(&inputs.0).enumerate() {
        if let (ParamKind::Tensor { dtype, .. }, Input::Tensor(a)) = (&param.kind, input) {
            let id = BufferRef::Param(ParamId::from_index(k));
            allocate(id, *dtype, a.shape.clone(), Some(&a.data), how.spread);
        }
    }
    let shape = |axes: &[AxisId]| axes.iter().map(|a| extents[a.index()] as usize).collect::<Vec<_>>();
    for output in &kernel.outputs {
        if let OutputTarget::Result { index, axes } = &output.target {
            let dtype = kernel.node(output.value).ty.dtype;
            allocate(BufferRef::Result(*index), dtype, shape(axes), None, how.spread);
        }
    }
    for (k, temp) in program.plan.temps.iter().enumerate() {
        allocate(BufferRef::Temp(TempId::from_index(k)), temp.dtype, shape(&temp.axes), None, 1);
    }
    let (mut faults, mut counters) = (Vec::new(), Vec::new());
    for number in 0..program.plan.launches.len() {
        for group in &program.plan.launches[number].parts {
            for (id, written, read) in &program.plan.in_place {
                if *id == group.id && written != read && how.spread == 1 {
                    let buffer = places[read].buffer;
                    places.get_mut(written).unwrap().buffer = buffer;
                }
            }
        }
        let stride = |b: BufferRef, k: u32| places[&b].strides[k as usize] as i64;
        let wide = how.wide || !fits_narrow(program, number, &extents, &params, &stride);
        let options = LowerOptions { wide, shared_memory: 96 << 10 };
        let lowered = lower_launch(program, number, &options).map_err(|e| e.to_string())?;
        let env = Env(&extents, &params);
        let scratch: Vec<usize> = lowered
            .scratch
            .iter()
            .map(|s| {
                let elements = s.elements.eval(&env).max(0) as usize;
                memory.allocate_uninitialised(elements * s.dtype.size())
            })
            .collect();
        for variants in &lowered.steps {
            let mut launch = None;
            for variant in variants {
                let words = memory.allocate(vec![0xff; 8 * variant.faults.len()]);
                let args = make_args(&variant.kernel, &env, &places, &scratch, words, &scalars);
                let given: Vec<LaunchArg> = args
                    .iter()
                    .map(|a| match a {
                        Argument::Pointer { buffer, offset } => {
                            LaunchArg::Pointer(memory.buffers[*buffer].address + offset)
                        }
                        Argument::Scalar(v) => LaunchArg::Scalar(*v),
                    })
                    .collect();
                let fits = variant.kernel.requires.iter().all(|c| c.holds(&given));
                // A simulator is slow: a variant with a block for every row of many is left out.
                let blocks = variant.kernel.evaluate_geometry(&given).map_or(0, |d| d.grid[0]);
                if fits && (launch.is_none() || blocks < 200) {
                    launch = Some((variant, args, words));
                    if !how.last {
                        break;
                    }
                }
            }
            let (variant, args, words) = launch.ok_or("no variant may run")?;
            counters.push(run(variant, &args, &mut memory)?);
            for (k, site) in variant.faults.iter().enumerate() {
                if decode(&memory, words, DType::U64, k) != Some(Value::U64(u64::MAX)) {
                    faults.push(*site);
                }
            }
        }
    }
    let read = |id: BufferRef| {
        let place = &places[&id];
        let data: Option<Vec<Value>> =
            elements(place).iter().map(|at| decode(&memory, place.buffer, place.dtype, *at)).collect();
        let data = data.ok_or_else(|| format!("{id:?} is not written everywhere"))?;
        Ok::<Array, String>(Array { dtype: place.dtype, shape: place.shape.clone(), data })
    };
    let mut outputs = Outputs::default();
    for output in &kernel.outputs {
        if let OutputTarget::Result { index, .. } = &output.target {
            outputs.results.push(read(BufferRef::Result(*index))?);
        }
    }
    for (k, param) in kernel.params.iter().enumerate() {
        if matches!(param.kind, ParamKind::Tensor { mutable: true, .. }) {
            let id = ParamId::from_index(k);
            outputs.params.push((id, read(BufferRef::Param(id))?));
        }
    }
    Ok(Called { outputs, faults, counters })
}

/// Runs a kernel, in which nothing may be wrong.
fn run(variant: &LoweredKernel, args: &[Argument], memory: &mut GlobalMemory) -> Result<Counters, String> {
    let options = SimulateOptions::default();
    let report = simulate_kernel(&variant.kernel, memory, args, &options)
        .map_err(|e| format!("{e}\n{}", variant.kernel))?;
    match report.faults.first() {
        Some(fault) => Err(format!("{fault}\n{}", variant.kernel)),
        None => Ok(report.counters),
    }
}

fn make_args(
    kernel: &Kernel,
    env: &Env<'_>,
    places: &BTreeMap<BufferRef, Place>,
    scratch: &[usize],
    faults: usize,
    scalars: &[Option<Value>],
) -> Vec<Argument> {
    let pointer = |buffer: usize| Argument::Pointer { buffer, offset: 0 };
    kernel
        .params
        .iter()
        .map(|param| {
            let number = |n: i64| match param.kind {
                fuse_ir::kernel_ir::ParamKind::Scalar { dtype, .. } => {
                    Argument::Scalar(Value::from_i128(dtype, n.into()).unwrap())
                }
                fuse_ir::kernel_ir::ParamKind::Pointer { .. } => panic!("a pointer from a number"),
            };
            match &param.source {
                Origin::Buffer(id) => pointer(places[id].buffer),
                Origin::Scratch(n) => pointer(scratch[*n as usize]),
                Origin::Faults => pointer(faults),
                Origin::Extent(e) => number(IndexExpr::eval(e, env)),
                Origin::Stride { buffer, axis } => number(places[buffer].strides[*axis as usize] as i64),
                Origin::Scalar(p) => {
                    let value = scalars[p.index()].unwrap();
                    Argument::Scalar(value.cast(value.dtype().compute()))
                }
                Origin::Given => panic!("nothing is given by position"),
            }
        })
        .collect()
}
