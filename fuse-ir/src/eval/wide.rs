//! Scalar operations of [`Precision::F64`](super::Precision::F64): every float is an f64.

use super::{Fault, eval_op};
use crate::dtype::{DType, Value};
use crate::scalar::ScalarOp;

/// [`eval_op`] where floats of any declared dtype are f64s; `first` is the declared dtype of the first operand.
///
/// Casts to narrow floats round, and so does one from f64 to f32: they are part of what the user wrote. A cast to f32
/// from anything else does not. The bits of an f32 are those of the rounded value.
pub(super) fn eval_op_wide(op: ScalarOp, first: DType, args: &[Value]) -> (Value, Option<Fault>) {
    match (op, args) {
        (ScalarOp::Cast(to), [a]) => (cast_wide(*a, first, to), None),
        (ScalarOp::ToBits, [a]) if first == DType::F32 => eval_op(op, &[a.cast(DType::F32)]),
        _ => {
            let (value, fault) = eval_op(op, args);
            (widen(value), fault)
        }
    }
}

/// A float of any dtype as the f64 of the same value; anything else as it is.
pub(super) fn widen(value: Value) -> Value {
    value.as_f64().map_or(value, Value::F64)
}

fn cast_wide(value: Value, from: DType, to: DType) -> Value {
    let rounds = to.is_narrow_float() || (from == DType::F64 && to == DType::F32);
    if rounds {
        widen(value.cast(to))
    } else if to.is_float() {
        value.cast(DType::F64)
    } else {
        value.cast(to)
    }
}
