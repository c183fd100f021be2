//! Element types and single values of them.

mod bits;

use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of an element in memory or in a register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// IEEE binary16: arithmetic on it happens in f32.
    F16,
    /// bfloat16: arithmetic on it happens in f32.
    Bf16,
    /// OCP FP8 E4M3 (finite, one NaN), for storage.
    F8E4M3,
    /// OCP FP8 E5M2, for storage.
    F8E5M2,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// A truth value, one byte in memory.
    Bool,
}

impl DType {
    /// Every dtype.
    pub const ALL: [DType; 15] = [
        DType::F32,
        DType::F64,
        DType::F16,
        DType::Bf16,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::Bool,
    ];

    /// The name as the language spells it: `f32`, `bf16`, `f8e4m3`, `bool`.
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::F8E4M3 => "f8e4m3",
            DType::F8E5M2 => "f8e5m2",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::Bool => "bool",
        }
    }

    /// The dtype of that name.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes of one element in memory.
    pub fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 | DType::U64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::Bf16 | DType::I16 | DType::U16 => 2,
            DType::F8E4M3 | DType::F8E5M2 | DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }

    /// Whether it is a floating-point type of any width.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64) || self.is_narrow_float()
    }

    /// Whether it is stored narrower than it is computed: f16, bf16 and the f8 types.
    pub fn is_narrow_float(self) -> bool {
        matches!(self, DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2)
    }

    /// Whether it is a signed integer.
    pub fn is_signed_int(self) -> bool {
        matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    /// Whether it is an unsigned integer.
    pub fn is_unsigned_int(self) -> bool {
        matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }

    /// Whether it is an integer.
    pub fn is_int(self) -> bool {
        self.is_signed_int() || self.is_unsigned_int()
    }

    /// The type it is computed in: narrow floats in f32, all others in themselves. A value of a narrow type travels in
    /// registers as an f32 that is already rounded to it.
    pub fn compute(self) -> DType {
        if self.is_narrow_float() { DType::F32 } else { self }
    }

    /// The accumulator of `sum`, `prod` and `cumsum` over this type (language rule 11).
    pub fn accumulator(self) -> DType {
        match self {
            DType::F64 => DType::F64,
            DType::F32 | DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2 => DType::F32,
            DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::Bool => DType::I64,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => DType::U64,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One value with its dtype. Narrow floats are kept as the f32 they stand for, so that arithmetic needs no unpacking.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Value {
    /// An f32.
    F32(f32),
    /// An f64.
    F64(f64),
    /// An f16, as the f32 of the same value.
    F16(f32),
    /// A bf16, as the f32 of the same value.
    Bf16(f32),
    /// An f8e4m3, as the f32 of the same value.
    F8E4M3(f32),
    /// An f8e5m2, as the f32 of the same value.
    F8E5M2(f32),
    /// An i8.
    I8(i8),
    /// An i16.
    I16(i16),
    /// An i32.
    I32(i32),
    /// An i64.
    I64(i64),
    /// A u8.
    U8(u8),
    /// A u16.
    U16(u16),
    /// A u32.
    U32(u32),
    /// A u64.
    U64(u64),
    /// A bool.
    Bool(bool),
}

impl Value {
    /// Its dtype.
    pub fn dtype(self) -> DType {
        match self {
            Value::F32(_) => DType::F32,
            Value::F64(_) => DType::F64,
            Value::F16(_) => DType::F16,
            Value::Bf16(_) => DType::Bf16,
            Value::F8E4M3(_) => DType::F8E4M3,
            Value::F8E5M2(_) => DType::F8E5M2,
            Value::I8(_) => DType::I8,
            Value::I16(_) => DType::I16,
            Value::I32(_) => DType::I32,
            Value::I64(_) => DType::I64,
            Value::U8(_) => DType::U8,
            Value::U16(_) => DType::U16,
            Value::U32(_) => DType::U32,
            Value::U64(_) => DType::U64,
            Value::Bool(_) => DType::Bool,
        }
    }

    /// The float `x` rounded to `dtype`, to nearest even; f8e4m3 saturates and keeps NaN, f8e5m2 saturates too,
    /// f16 and bf16 overflow to infinity. `None` if `dtype` is no float.
    pub fn from_f64(dtype: DType, x: f64) -> Option<Value> {
        Some(match dtype {
            DType::F32 => Value::F32(x as f32),
            DType::F64 => Value::F64(x),
            // The crate's own conversions from f64 round twice on some processors and drop low bits on others.
            DType::F16 => Value::F16(f16::from_f32(round_to_odd(x)).to_f32()),
            DType::Bf16 => Value::Bf16(bf16::from_f32(round_to_odd(x)).to_f32()),
            DType::F8E4M3 => Value::F8E4M3(round_to_f8(x, 3, -6, 448.0)),
            DType::F8E5M2 => Value::F8E5M2(round_to_f8(x, 2, -14, 57344.0)),
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => return None,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool => return None,
        })
    }

    /// The integer `x` wrapped to `dtype`. `None` if `dtype` is no integer.
    pub fn from_i128(dtype: DType, x: i128) -> Option<Value> {
        Some(match dtype {
            DType::I8 => Value::I8(x as i8),
            DType::I16 => Value::I16(x as i16),
            DType::I32 => Value::I32(x as i32),
            DType::I64 => Value::I64(x as i64),
            DType::U8 => Value::U8(x as u8),
            DType::U16 => Value::U16(x as u16),
            DType::U32 => Value::U32(x as u32),
            DType::U64 => Value::U64(x as u64),
            DType::F32 | DType::F64 | DType::F16 | DType::Bf16 => return None,
            DType::F8E4M3 | DType::F8E5M2 | DType::Bool => return None,
        })
    }

    /// Zero, or false, of `dtype`.
    pub fn zero(dtype: DType) -> Value {
        Value::from_i128(dtype, 0).or_else(|| Value::from_f64(dtype, 0.0)).unwrap_or(Value::Bool(false))
    }

    /// The value as a float, if it is one; exact.
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Value::F64(x) => Some(x),
            Value::F32(x) | Value::F16(x) | Value::Bf16(x) | Value::F8E4M3(x) | Value::F8E5M2(x) => {
                Some(x as f64)
            }
            Value::I8(_) | Value::I16(_) | Value::I32(_) | Value::I64(_) => None,
            Value::U8(_) | Value::U16(_) | Value::U32(_) | Value::U64(_) | Value::Bool(_) => None,
        }
    }

    /// The value as an integer, if it is one.
    pub fn as_i128(self) -> Option<i128> {
        match self {
            Value::I8(x) => Some(x.into()),
            Value::I16(x) => Some(x.into()),
            Value::I32(x) => Some(x.into()),
            Value::I64(x) => Some(x.into()),
            Value::U8(x) => Some(x.into()),
            Value::U16(x) => Some(x.into()),
            Value::U32(x) => Some(x.into()),
            Value::U64(x) => Some(x.into()),
            Value::F32(_) | Value::F64(_) | Value::F16(_) | Value::Bf16(_) => None,
            Value::F8E4M3(_) | Value::F8E5M2(_) | Value::Bool(_) => None,
        }
    }

    /// The value as a bool, if it is one.
    pub fn as_bool(self) -> Option<bool> {
        if let Value::Bool(x) = self { Some(x) } else { None }
    }

    /// What `as` makes of it (language rules 9 and 10): float to integer saturates and NaN becomes 0, integers wrap,
    /// narrowing floats round to nearest even. Numbers to bool: whether they differ from zero.
    pub fn cast(self, to: DType) -> Value {
        if self.dtype() == to {
            return self;
        }
        if let Some(x) = self.as_f64() {
            return match to {
                DType::I8 => Value::I8(x as i8),
                DType::I16 => Value::I16(x as i16),
                DType::I32 => Value::I32(x as i32),
                DType::I64 => Value::I64(x as i64),
                DType::U8 => Value::U8(x as u8),
                DType::U16 => Value::U16(x as u16),
                DType::U32 => Value::U32(x as u32),
                DType::U64 => Value::U64(x as u64),
                DType::Bool => Value::Bool(x != 0.0),
                DType::F32 | DType::F64 | DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2 => {
                    Value::from_f64(to, x).unwrap_or(self)
                }
            };
        }
        let x = self.as_i128().unwrap_or_else(|| i128::from(self.as_bool() == Some(true)));
        match to {
            DType::Bool => Value::Bool(x != 0),
            // An integer goes to f32 in one rounding; the narrow types round that f32 again, as generated code does.
            DType::F32 => Value::F32(x as f32),
            DType::F64 => Value::F64(x as f64),
            DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2 => Value::F32(x as f32).cast(to),
            DType::I8
            | DType::I16
            | DType::I32
            | DType::I64
            | DType::U8
            | DType::U16
            | DType::U32
            | DType::U64 => Value::from_i128(to, x).unwrap_or(self),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::F32(x) | Value::F16(x) | Value::Bf16(x) | Value::F8E4M3(x) | Value::F8E5M2(x) => {
                write!(f, "{x:?}")
            }
            Value::F64(x) => write!(f, "{x:?}"),
            Value::Bool(x) => write!(f, "{x}"),
            _ => write!(f, "{}", self.as_i128().unwrap_or(0)),
        }
    }
}

/// `x` as f32, rounded to odd: an inexact value gets the neighbour with an odd last bit. Rounding that to a format with
/// two bits fewer is rounding `x` once.
fn round_to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    let bits = nearest.to_bits();
    if back == x || x.is_nan() || bits & 1 == 1 {
        nearest
    } else if back.abs() < x.abs() {
        f32::from_bits(bits + 1)
    } else {
        f32::from_bits(bits - 1)
    }
}

/// Rounds to the nearest multiple of the spacing at `x` of a float with `mantissa` bits and least exponent `min_exp`.
fn round_to_f8(x: f64, mantissa: i32, min_exp: i32, max: f32) -> f32 {
    if x.is_nan() {
        return f32::NAN;
    }
    let exponent = if x == 0.0 || !x.is_finite() { 0 } else { ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023 };
    let spacing = 2f64.powi(exponent.max(min_exp) - mantissa);
    let rounded = if x.is_finite() { (x / spacing).round_ties_even() * spacing } else { x };
    (rounded as f32).clamp(-max, max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_follow_the_language() {
        assert_eq!(Value::F32(f32::NAN).cast(DType::I32), Value::I32(0));
        assert_eq!(Value::F32(300.0).cast(DType::U8), Value::U8(255));
        assert_eq!(Value::I32(300).cast(DType::U8), Value::U8(44));
        assert_eq!(Value::F32(65520.0).cast(DType::F16), Value::F16(f32::INFINITY));
        assert_eq!(Value::F32(1e9).cast(DType::F8E4M3), Value::F8E4M3(448.0));
        assert_eq!(Value::F32(0.0009765625).cast(DType::F8E4M3), Value::F8E4M3(0.0));
        assert_eq!(Value::F32(19.0).cast(DType::F8E4M3), Value::F8E4M3(20.0));
    }

    /// Just above and below a tie, by less than an f32 shows.
    #[test]
    fn casts_of_f64_round_once() {
        let tiny = 2f64.powi(-50);
        for sign in [1.0, -1.0] {
            let check = |x: f64, dtype: DType, want: f64| {
                assert_eq!(Value::F64(sign * x).cast(dtype).as_f64(), Some(sign * want), "{x:e} as {dtype}");
            };
            for (dtype, bits) in [(DType::F16, 10), (DType::Bf16, 7)] {
                let (half, step) = (2f64.powi(-bits - 1), 2f64.powi(-bits));
                check(1.0 + half + tiny, dtype, 1.0 + step);
                check(1.0 + half - tiny, dtype, 1.0);
                check(1.0 + half, dtype, 1.0);
                check(1.0 + step + half, dtype, 1.0 + 2.0 * step);
            }
            check(2f64.powi(-25) * (1.0 + tiny), DType::F16, 2f64.powi(-24));
            check(2f64.powi(-25), DType::F16, 0.0);
            check(2f64.powi(-134) * (1.0 + tiny), DType::Bf16, 2f64.powi(-133));
            check(1e300, DType::F16, f64::INFINITY);
            check(f64::from(f32::MAX), DType::Bf16, f64::INFINITY);
            check(3.39e38, DType::Bf16, 3.3895313892515355e38);
        }
    }
}
