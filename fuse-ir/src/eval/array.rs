//! What goes into an evaluation and what comes out of it.

use super::Precision;
use crate::bind::bind_extents;
use crate::dtype::{DType, Value};
use crate::graph::{Kernel, ParamKind};
use crate::id::{AxisId, NodeId, ParamId};
use crate::scalar::ScalarOp;
use std::fmt;

/// A tensor as plain values, row-major in the declared order of its axes.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// The element type.
    pub dtype: DType,
    /// The extents, outermost first. Empty for a single element.
    pub shape: Vec<usize>,
    /// The elements, all of `dtype`.
    pub data: Vec<Value>,
}

impl Array {
    /// The array of this shape whose elements are `data`.
    ///
    /// # Errors
    /// If the elements are not as many as the shape says or not all of `dtype`.
    pub fn new(dtype: DType, shape: Vec<usize>, data: Vec<Value>) -> Result<Array, String> {
        let array = Array { dtype, shape, data };
        array.verify()?;
        Ok(array)
    }

    /// An array of one dimension of f32s.
    pub fn from_f32(data: &[f32]) -> Array {
        Array {
            dtype: DType::F32,
            shape: vec![data.len()],
            data: data.iter().map(|&x| Value::F32(x)).collect(),
        }
    }

    /// The same elements under another shape.
    ///
    /// # Errors
    /// If that shape has another number of elements.
    pub fn reshape(self, shape: Vec<usize>) -> Result<Array, String> {
        Array::new(self.dtype, shape, self.data)
    }

    fn verify(&self) -> Result<(), String> {
        let count = self.shape.iter().try_fold(1usize, |n, &e| n.checked_mul(e));
        if count != Some(self.data.len()) {
            return Err(format!("{} elements for the shape {:?}", self.data.len(), self.shape));
        }
        match self.data.iter().find(|v| v.dtype() != self.dtype) {
            Some(v) => Err(format!("an element is {} and the array {}", v.dtype(), self.dtype)),
            None => Ok(()),
        }
    }

    /// Where the element at `position` stands in `data`; `None` outside the shape.
    pub fn offset(&self, position: &[i64]) -> Option<usize> {
        if position.len() != self.shape.len() {
            return None;
        }
        let mut at = 0;
        for (&p, &extent) in position.iter().zip(&self.shape) {
            let p = usize::try_from(p).ok().filter(|&p| p < extent)?;
            at = at * extent + p;
        }
        Some(at)
    }

    /// Whether both have one dtype and shape and equal bits in every element; a NaN equals any NaN.
    pub fn same_bits(&self, other: &Array) -> bool {
        self.dtype == other.dtype
            && self.shape == other.shape
            && self.data.len() == other.data.len()
            && self.data.iter().zip(&other.data).all(|(a, b)| same_value_bits(*a, *b))
    }

    /// The array as this precision holds it.
    pub(super) fn admit(&self, precision: Precision) -> Array {
        let dtype = match precision {
            Precision::F64 if self.dtype.is_float() => DType::F64,
            Precision::F64 | Precision::Exact => self.dtype,
        };
        let data = self.data.iter().map(|&v| precision.admit(v)).collect();
        Array { dtype, shape: self.shape.clone(), data }
    }
}

/// Whether both have one dtype and equal bits; a NaN equals any NaN.
fn same_value_bits(a: Value, b: Value) -> bool {
    a.dtype() == b.dtype()
        && match (a.as_f64(), b.as_f64()) {
            (Some(x), Some(y)) => x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan()),
            _ => a == b,
        }
}

/// What is passed for one parameter.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// A tensor.
    Tensor(Array),
    /// A scalar.
    Scalar(Value),
    /// The extent of an `Axis<H>`.
    Axis(usize),
}

/// What is passed for each parameter, in order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Inputs(pub Vec<Input>);

/// What a call gives.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outputs {
    /// The components of the result, in order.
    pub results: Vec<Array>,
    /// What each `&mut` parameter holds in the end, in order.
    pub params: Vec<(ParamId, Array)>,
    /// The first fault (language rule 15), if there was one.
    pub fault: Option<NodeFault>,
}

impl Outputs {
    /// Whether both have equal bits in every element of every result and parameter; a NaN equals any NaN, faults are
    /// not compared.
    pub fn same_bits(&self, other: &Outputs) -> bool {
        self.results.len() == other.results.len()
            && self.params.len() == other.params.len()
            && self.results.iter().zip(&other.results).all(|(a, b)| a.same_bits(b))
            && self.params.iter().zip(&other.params).all(|((p, a), (q, b))| p == q && a.same_bits(b))
    }
}

/// What made an element 0 that has no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// An integer was divided by zero.
    DivisionByZero(ScalarOp),
    /// A gather without a fill read out of range.
    OutOfRange {
        /// The axis that was indexed.
        axis: AxisId,
        /// The position asked for.
        index: i64,
        /// The extent of the axis.
        extent: i64,
    },
}

/// A fault and where it happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeFault {
    /// The node that faulted, if it is known.
    pub node: Option<NodeId>,
    /// What happened.
    pub fault: Fault,
}

/// Why a kernel could not be evaluated.
#[derive(Clone, PartialEq, Debug)]
pub enum EvalError {
    /// The graph breaks a typing rule.
    InvalidGraph(String),
    /// The inputs do not fit the parameters, or the extents do not fit one another.
    InvalidInputs(String),
    /// An index map or region leads out of the array that it indexes.
    OutOfRange {
        /// What was indexed.
        what: String,
        /// The position.
        position: Vec<i64>,
        /// The shape.
        shape: Vec<usize>,
    },
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvalError::InvalidGraph(why) => write!(f, "invalid graph: {why}"),
            EvalError::InvalidInputs(why) => write!(f, "invalid inputs: {why}"),
            EvalError::OutOfRange { what, position, shape } => {
                write!(f, "{what} leads to {position:?} of the shape {shape:?}")
            }
        }
    }
}

impl std::error::Error for EvalError {}

/// The extents and integer parameters of a call.
pub(crate) struct Bound {
    /// By axis.
    pub(crate) extents: Vec<i64>,
    /// By parameter; 0 for those that are no integer.
    pub(crate) params: Vec<i64>,
}

/// Checks each input against its parameter and binds the extents.
pub(crate) fn bind_inputs(kernel: &Kernel, inputs: &Inputs) -> Result<Bound, EvalError> {
    let invalid = |why: String| EvalError::InvalidInputs(why);
    if inputs.0.len() != kernel.params.len() {
        return Err(invalid(format!("{} inputs for {} parameters", inputs.0.len(), kernel.params.len())));
    }
    let mut params = Vec::new();
    for (param, input) in kernel.params.iter().zip(&inputs.0) {
        let fits = match (&param.kind, input) {
            (ParamKind::Tensor { dtype, axes, .. }, Input::Tensor(array)) => {
                array.verify().map_err(|e| invalid(format!("`{}`: {e}", param.name)))?;
                array.dtype == *dtype && array.shape.len() == axes.len()
            }
            (ParamKind::Scalar { dtype }, Input::Scalar(v)) => v.dtype() == *dtype,
            (ParamKind::Axis { .. }, Input::Axis(_)) => true,
            (ParamKind::Tensor { .. } | ParamKind::Scalar { .. } | ParamKind::Axis { .. }, _) => false,
        };
        if !fits {
            return Err(invalid(format!("what is passed for `{}` is not what it takes", param.name)));
        }
        params.push(match input {
            Input::Scalar(v) => v.as_i128().map_or(0, |n| n as i64),
            Input::Axis(n) => *n as i64,
            Input::Tensor(_) => 0,
        });
    }
    let shapes: Vec<Option<&[usize]>> = inputs
        .0
        .iter()
        .map(|i| match i {
            Input::Tensor(array) => Some(array.shape.as_slice()),
            Input::Scalar(_) | Input::Axis(_) => None,
        })
        .collect();
    let scalars: Vec<Option<Value>> = inputs
        .0
        .iter()
        .map(|i| match i {
            Input::Tensor(_) => None,
            Input::Scalar(v) => Some(*v),
            Input::Axis(n) => i64::try_from(*n).ok().map(Value::I64),
        })
        .collect();
    let extents = bind_extents(kernel, &shapes, &scalars).map_err(|e| invalid(e.to_string()))?;
    Ok(Bound { extents, params })
}
