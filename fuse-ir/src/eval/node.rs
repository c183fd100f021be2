//! One node of a graph on the elements of its operands.

use super::reduce::{Combiner, reduce_row};
use super::scalar_fn::eval_fn_in;
use super::wide::eval_op_wide;
use super::{Array, EvalError, Evaluation, Fault, Input, Inputs, Precision, eval_op};
use crate::dtype::{DType, Value};
use crate::graph::{Kernel, MapFn, Op};
use crate::id::{AxisId, NodeId, ParamId};
use crate::index_map::{IndexEnv, IndexMap};
use crate::scalar::ScalarOp;

/// What an index expression reads at one position.
pub(crate) struct IndexContext<'a> {
    /// The position, by axis.
    pub(crate) index: &'a [i64],
    /// The extents, by axis.
    pub(crate) extents: &'a [i64],
    /// The integer parameters, by parameter.
    pub(crate) params: &'a [i64],
    /// The element of an integer node at this position.
    pub(crate) indirect: &'a dyn Fn(NodeId) -> i64,
}

impl IndexEnv for IndexContext<'_> {
    fn index(&self, axis: AxisId) -> i64 {
        self.index[axis.index()]
    }

    fn extent(&self, axis: AxisId) -> i64 {
        self.extents[axis.index()]
    }

    fn param(&self, param: ParamId) -> i64 {
        self.params[param.index()]
    }

    fn indirect(&self, node: NodeId) -> i64 {
        (self.indirect)(node)
    }
}

/// The elements of a node, row-major in the order of its sorted axes.
#[derive(Clone)]
pub(super) struct NodeValue {
    pub(super) axes: Vec<AxisId>,
    pub(super) data: Vec<Value>,
    strides: Vec<usize>,
    dtype: DType,
}

impl NodeValue {
    /// An empty value that elements are pushed to in the order of the axes.
    fn new(dtype: DType, axes: &[AxisId], extents: &[i64]) -> Self {
        let mut strides = vec![1; axes.len()];
        for i in (1..axes.len()).rev() {
            strides[i - 1] = strides[i] * extents[axes[i].index()] as usize;
        }
        NodeValue { axes: axes.to_vec(), data: Vec::new(), strides, dtype }
    }

    fn offset(&self, index: &[i64]) -> usize {
        self.axes.iter().zip(&self.strides).map(|(a, s)| index[a.index()] as usize * s).sum()
    }

    /// The element at a position that has at least this value's axes.
    pub(super) fn get(&self, index: &[i64]) -> Value {
        self.data[self.offset(index)]
    }

    /// The elements in the declared order of the axes.
    pub(super) fn to_array(&self, axes: &[AxisId], extents: &[i64]) -> Result<Array, EvalError> {
        let shape = axes.iter().map(|a| extents[a.index()] as usize).collect();
        let mut data = Vec::with_capacity(self.data.len());
        for_each_position(axes, extents, |index| {
            data.push(self.get(index));
            Ok(())
        })?;
        Ok(Array { dtype: self.dtype, shape, data })
    }

    /// The same elements with floats as f64.
    pub(super) fn widened(&self) -> NodeValue {
        let data = self.data.iter().map(|&v| Precision::F64.admit(v)).collect();
        NodeValue { data, dtype: held_dtype(self.dtype, Precision::F64), ..self.clone() }
    }
}

fn held_dtype(dtype: DType, precision: Precision) -> DType {
    match precision {
        Precision::F64 if dtype.is_float() => DType::F64,
        Precision::F64 | Precision::Exact => dtype,
    }
}

/// Calls `f` at every position of `axes`, the last running fastest; the index it is given is by axis id.
pub(super) fn for_each_position(
    axes: &[AxisId],
    extents: &[i64],
    mut f: impl FnMut(&[i64]) -> Result<(), EvalError>,
) -> Result<(), EvalError> {
    let mut index = vec![0; extents.len()];
    if axes.iter().any(|a| extents[a.index()] <= 0) {
        return Ok(());
    }
    loop {
        f(&index)?;
        let advanced = axes.iter().rev().any(|a| {
            let i = &mut index[a.index()];
            *i += 1;
            let inside = *i < extents[a.index()];
            if !inside {
                *i = 0;
            }
            inside
        });
        if !advanced {
            return Ok(());
        }
    }
}

impl Evaluation {
    /// The elements of a node, given those of the nodes before it, and the first fault among them.
    pub(super) fn eval_node(
        &self,
        kernel: &Kernel,
        inputs: &Inputs,
        precision: Precision,
        id: NodeId,
        values: &[NodeValue],
    ) -> Result<(NodeValue, Option<Fault>), EvalError> {
        let node = kernel.node(id);
        let extents = &self.extents;
        let mut result = NodeValue::new(held_dtype(node.ty.dtype, precision), &node.ty.axes, extents);
        let mut first_fault: Option<Fault> = None;
        match &node.op {
            Op::Tensor(p) => {
                let (Some(Input::Tensor(array)), Some(axes)) =
                    (inputs.0.get(p.index()), declared_axes(kernel, *p))
                else {
                    return Err(EvalError::InvalidInputs(format!("{p} is no tensor")));
                };
                let mut position = vec![0; axes.len()];
                for_each_position(&node.ty.axes, extents, |index| {
                    for (to, a) in position.iter_mut().zip(axes) {
                        *to = index[a.index()];
                    }
                    let value = array.offset(&position).map(|at| array.data[at]);
                    result.data.push(precision.admit(value.unwrap_or(Value::zero(node.ty.dtype))));
                    Ok(())
                })?;
            }
            Op::Scalar(p) => match inputs.0.get(p.index()) {
                Some(Input::Scalar(v)) => result.data.push(precision.admit(*v)),
                _ => return Err(EvalError::InvalidInputs(format!("{p} is no scalar"))),
            },
            Op::Constant(v) => result.data.push(precision.admit(*v)),
            Op::Index(a) => result.data.extend((0..extents[a.index()]).map(Value::I64)),
            Op::Extent(e) => {
                let nowhere = vec![0; extents.len()];
                result.data.push(Value::I64(e.eval(&self.context(&nowhere, &|_| 0))));
            }
            Op::Map { function, args } => {
                let operands: Vec<&NodeValue> = args.iter().map(|n| &values[n.index()]).collect();
                let first = args.first().map_or(DType::F64, |n| kernel.node(*n).ty.dtype);
                let mut elements = Vec::with_capacity(args.len());
                for_each_position(&node.ty.axes, extents, |index| {
                    elements.clear();
                    elements.extend(operands.iter().map(|v| v.get(index)));
                    let (value, fault) = apply_map(kernel, *function, first, precision, &elements);
                    first_fault = first_fault.or(fault);
                    result.data.push(value);
                    Ok(())
                })?;
            }
            Op::View { source, map, fill } => {
                for_each_position(&node.ty.axes, extents, |index| {
                    let (value, fault) = self.read_view(id, values, *source, map, index)?;
                    first_fault = first_fault.or(fault);
                    let missing = || precision.admit(fill.unwrap_or(Value::zero(node.ty.dtype)));
                    result.data.push(value.unwrap_or_else(missing));
                    Ok(())
                })?;
            }
            Op::Reduce { reducer, sources, axes, output } => {
                let dtypes: Vec<DType> = sources.iter().map(|n| kernel.node(*n).ty.dtype).collect();
                let mut combiner = Combiner::new(reducer, &dtypes, &kernel.functions, precision);
                self.reduce(&mut combiner, &node.ty.axes, axes, sources, values, |total| {
                    result.data.push(total[*output as usize]);
                })?;
                first_fault = combiner.fault;
            }
            Op::CumSum { source, axis } => {
                let source = &values[source.index()];
                result.data = source.data.clone();
                let stride = source.axes.iter().position(|a| a == axis).map_or(0, |i| source.strides[i]);
                for_each_position(&node.ty.axes, extents, |index| {
                    // The sum starts at +0.0, as those of reductions do, so that a first −0.0 becomes +0.0.
                    let at = source.offset(index);
                    let before = if index[axis.index()] > 0 {
                        result.data[at - stride]
                    } else {
                        Value::zero(result.dtype)
                    };
                    result.data[at] = eval_op(ScalarOp::Add, &[before, result.data[at]]).0;
                    Ok(())
                })?;
            }
            Op::Materialize { source } => result.data = values[source.index()].data.clone(),
        }
        Ok((result, first_fault))
    }

    /// Reduces `sources` over `reduced` at every position of `outer`, and gives each result to `take`.
    pub(super) fn reduce(
        &self,
        combiner: &mut Combiner<'_>,
        outer: &[AxisId],
        reduced: &[AxisId],
        sources: &[NodeId],
        values: &[NodeValue],
        mut take: impl FnMut(Vec<Value>),
    ) -> Result<(), EvalError> {
        let extents = &self.extents;
        let sources: Vec<&NodeValue> = sources.iter().map(|n| &values[n.index()]).collect();
        let len = reduced.iter().map(|a| extents[a.index()] as usize).product();
        let mut inner = vec![0; extents.len()];
        for_each_position(outer, extents, |index| {
            inner.copy_from_slice(index);
            take(reduce_row(combiner, len, |r, element| {
                let mut rest = r as i64;
                for a in reduced.iter().rev() {
                    inner[a.index()] = rest % extents[a.index()];
                    rest /= extents[a.index()];
                }
                element.clear();
                element.extend(sources.iter().map(|s| s.get(&inner)));
            }));
            Ok(())
        })
    }

    /// The element that a view reads at `index`: none where its bounds fail, 0 and a fault where an indirect index is
    /// out of range.
    fn read_view(
        &self,
        view: NodeId,
        values: &[NodeValue],
        source: NodeId,
        map: &IndexMap,
        index: &[i64],
    ) -> Result<(Option<Value>, Option<Fault>), EvalError> {
        let indirect = |n: NodeId| values[n.index()].get(index).as_i128().map_or(0, saturate);
        let context = self.context(index, &indirect);
        let inside =
            |b: &crate::index_map::Bound| (0..b.extent.eval(&context)).contains(&b.expr.eval(&context));
        if !map.bounds.iter().all(inside) {
            return Ok((None, None));
        }
        let source = &values[source.index()];
        let mut offset = 0;
        for ((axis, e), stride) in map.indices.iter().zip(&source.strides) {
            let (at, extent) = (e.eval(&context), self.extents[axis.index()]);
            if !(0..extent).contains(&at) {
                let mut is_indirect = false;
                e.for_each_leaf(&mut |leaf| {
                    is_indirect |= matches!(leaf, crate::index_map::IndexExpr::Indirect(_))
                });
                if !is_indirect {
                    return Err(EvalError::OutOfRange {
                        what: format!("{view} on {axis}"),
                        position: vec![at],
                        shape: vec![extent as usize],
                    });
                }
                let zero = Value::zero(source.dtype);
                return Ok((Some(zero), Some(Fault::OutOfRange { axis: *axis, index: at, extent })));
            }
            offset += at as usize * stride;
        }
        Ok((Some(source.data[offset]), None))
    }
}

/// An index as an i64; one beyond stays out of every range.
fn saturate(x: i128) -> i64 {
    x.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

fn declared_axes(kernel: &Kernel, param: ParamId) -> Option<&[AxisId]> {
    match &kernel.params.get(param.index())?.kind {
        crate::graph::ParamKind::Tensor { axes, .. } => Some(axes),
        crate::graph::ParamKind::Scalar { .. } | crate::graph::ParamKind::Axis { .. } => None,
    }
}

/// One element of a map; `first` is the declared dtype of the first operand.
fn apply_map(
    kernel: &Kernel,
    function: MapFn,
    first: DType,
    precision: Precision,
    elements: &[Value],
) -> (Value, Option<Fault>) {
    match (function, precision) {
        (MapFn::Op(op), Precision::Exact) => eval_op(op, elements),
        (MapFn::Op(op), Precision::F64) => eval_op_wide(op, first, elements),
        (MapFn::Call { function, result }, _) => {
            let (results, fault) = eval_fn_in(precision, &kernel.functions, function, elements);
            (results[result as usize], fault)
        }
    }
}
