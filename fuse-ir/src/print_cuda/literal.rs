//! Constants as C++ writes them, each of exactly the type and bits it has.

use super::operand::{Operand, rank};
use crate::dtype::Value;

/// The constant, of its compute type.
pub(super) fn print_literal(value: Value) -> Operand {
    let dtype = value.dtype().compute();
    let text = match value {
        Value::F32(x) | Value::F16(x) | Value::Bf16(x) | Value::F8E4M3(x) | Value::F8E5M2(x) => {
            if x.is_finite() { format!("{x:?}f") } else { format!("__uint_as_float({:#x}u)", x.to_bits()) }
        }
        Value::F64(x) if x.is_finite() => format!("{x:?}"),
        Value::F64(x) => format!("__longlong_as_double({:#x}ll)", x.to_bits() as i64),
        Value::I32(i32::MIN) => "i32(0x80000000u)".into(),
        Value::I64(i64::MIN) => "i64(0x8000000000000000ull)".into(),
        Value::I32(x) => x.to_string(),
        Value::I64(x) => format!("{x}ll"),
        Value::U32(x) => format!("{x}u"),
        Value::U64(x) => format!("{x}ull"),
        Value::Bool(x) => x.to_string(),
        Value::I8(_) | Value::I16(_) | Value::U8(_) | Value::U16(_) => {
            format!("{dtype}({})", value.as_i128().unwrap_or(0))
        }
    };
    let rank = if text.starts_with('-') { rank::UNARY } else { rank::PRIMARY };
    Operand { constant: Some(value), ..Operand::new(text, rank, dtype) }
}
