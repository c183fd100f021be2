//! Elements as they stand in memory: little-endian bits, and back.

use super::{DType, Value};
use half::{bf16, f16};

impl Value {
    /// The bits of the element, in the low bits. Floats of 8 bits have one NaN here; infinities of f8e5m2 stay.
    pub fn to_bits(self) -> u64 {
        match self {
            Value::F32(x) => x.to_bits().into(),
            Value::F64(x) => x.to_bits(),
            Value::F16(x) => f16::from_f32(x).to_bits().into(),
            Value::Bf16(x) => bf16::from_f32(x).to_bits().into(),
            Value::F8E4M3(x) => encode_f8(x, 3, 7).into(),
            Value::F8E5M2(x) => encode_f8(x, 2, 15).into(),
            Value::I8(x) => (x as u8).into(),
            Value::I16(x) => (x as u16).into(),
            Value::I32(x) => (x as u32).into(),
            Value::I64(x) => x as u64,
            Value::U8(x) => x.into(),
            Value::U16(x) => x.into(),
            Value::U32(x) => x.into(),
            Value::U64(x) => x,
            Value::Bool(x) => x.into(),
        }
    }

    /// The element of that dtype with these bits; higher bits are ignored. A bool is true if its byte is not 0.
    pub fn from_bits(dtype: DType, bits: u64) -> Value {
        match dtype {
            DType::F32 => Value::F32(f32::from_bits(bits as u32)),
            DType::F64 => Value::F64(f64::from_bits(bits)),
            DType::F16 => Value::F16(f16::from_bits(bits as u16).to_f32()),
            DType::Bf16 => Value::Bf16(bf16::from_bits(bits as u16).to_f32()),
            DType::F8E4M3 => Value::F8E4M3(decode_f8(bits as u8, 3, 7)),
            DType::F8E5M2 => Value::F8E5M2(decode_f8(bits as u8, 2, 15)),
            DType::I8 => Value::I8(bits as i8),
            DType::I16 => Value::I16(bits as i16),
            DType::I32 => Value::I32(bits as i32),
            DType::I64 => Value::I64(bits as i64),
            DType::U8 => Value::U8(bits as u8),
            DType::U16 => Value::U16(bits as u16),
            DType::U32 => Value::U32(bits as u32),
            DType::U64 => Value::U64(bits),
            DType::Bool => Value::Bool(bits as u8 != 0),
        }
    }

    /// The value as it is computed with: a narrow float as the f32 of the same value.
    pub fn widened(self) -> Value {
        match self {
            Value::F16(x) | Value::Bf16(x) | Value::F8E4M3(x) | Value::F8E5M2(x) => Value::F32(x),
            Value::F32(_) | Value::F64(_) | Value::Bool(_) => self,
            Value::I8(_) | Value::I16(_) | Value::I32(_) | Value::I64(_) => self,
            Value::U8(_) | Value::U16(_) | Value::U32(_) | Value::U64(_) => self,
        }
    }

    /// The element of `dtype` that a store of this value leaves in memory: as [`Value::cast`] rounds, but infinities of
    /// f8e5m2, which only loads bring into a register, stay.
    pub fn stored(self, dtype: DType) -> Value {
        match self {
            Value::F32(x) if dtype == DType::F8E5M2 && x.is_infinite() => Value::F8E5M2(x),
            _ => self.cast(dtype),
        }
    }
}

/// The bits of a value that the format has; `mantissa` bits are stored, the exponent's bias is `bias`.
fn encode_f8(x: f32, mantissa: i32, bias: i32) -> u8 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let magnitude = x.abs();
    if x.is_nan() {
        return sign | 0x7f;
    }
    if x.is_infinite() {
        return sign | 0x7c;
    }
    let exponent = (magnitude.to_bits() >> 23) as i32 - 127;
    if exponent < 1 - bias {
        return sign | (magnitude * 2f32.powi(bias - 1 + mantissa)) as u8;
    }
    let stored = (magnitude.to_bits() >> (23 - mantissa)) as u8 & ((1 << mantissa) - 1);
    sign | (((exponent + bias) as u8) << mantissa) | stored
}

fn decode_f8(bits: u8, mantissa: i32, bias: i32) -> f32 {
    let magnitude = bits & 0x7f;
    let exponent = i32::from(magnitude >> mantissa);
    let stored = magnitude & ((1 << mantissa) - 1);
    let value = match (mantissa, magnitude) {
        (3, 0x7f) | (2, 0x7d..) => f32::NAN,
        (2, 0x7c) => f32::INFINITY,
        _ if exponent == 0 => f32::from(stored) * 2f32.powi(1 - bias - mantissa),
        _ => f32::from(stored + (1 << mantissa)) * 2f32.powi(exponent - bias - mantissa),
    };
    if bits & 0x80 == 0 { value } else { -value }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value of 8 and 16 bits comes back; of NaNs only the kind.
    #[test]
    fn bits_come_back() {
        for dtype in DType::ALL {
            let count = if dtype.size() == 1 { 1 << 8 } else { 1 << 16 };
            for bits in 0..count {
                let value = Value::from_bits(dtype, bits);
                assert_eq!(value.dtype(), dtype);
                let kept = value.as_f64().is_some_and(f64::is_nan) || dtype == DType::Bool;
                assert!(kept || value.to_bits() == bits, "{value:?} {bits:#x} {:#x}", value.to_bits());
            }
        }
        assert_eq!(Value::from_bits(DType::F8E4M3, 0x7e), Value::F8E4M3(448.0));
        assert_eq!(Value::from_bits(DType::F8E4M3, 0x01), Value::F8E4M3(2f32.powi(-9)));
        assert_eq!(Value::from_bits(DType::F8E5M2, 0xfb), Value::F8E5M2(-57344.0));
        assert_eq!(Value::from_bits(DType::F8E5M2, 0x01), Value::F8E5M2(2f32.powi(-16)));
        assert_eq!(Value::from_bits(DType::I64, u64::MAX), Value::I64(-1));
    }

    /// A rounded value has bits that decode to it.
    #[test]
    fn rounded_values_encode() {
        for dtype in [DType::F8E4M3, DType::F8E5M2, DType::F16, DType::Bf16] {
            for step in 0..1 << 16 {
                let rounded = Value::F32(f32::from_bits(step << 16)).cast(dtype);
                let back = Value::from_bits(dtype, rounded.to_bits());
                let nan = rounded.as_f64().is_some_and(f64::is_nan);
                assert!(back == rounded || nan, "{rounded:?} {back:?}");
            }
        }
        assert_eq!(Value::F32(f32::NEG_INFINITY).stored(DType::F8E5M2).to_bits(), 0xfc);
        assert_eq!(Value::F32(f32::INFINITY).stored(DType::F8E4M3).to_bits(), 0x7e);
    }
}
