//! Constants that need no import: std's float constants and the associated constants of the primitive types.

use fuse_ir::dtype::{DType, Value};

/// What a path stands for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PathConstant {
    /// `PI`: a float that adopts f32 or f64. Both roundings, since std's f32 constant is not always the rounded f64's.
    Float {
        /// In f32.
        f32: f32,
        /// In f64.
        f64: f64,
    },
    /// `f32::EPSILON`, `core::f64::consts::E`: one dtype.
    Typed(Value),
}

impl PathConstant {
    /// The value in `dtype`, if the constant has or can adopt it.
    pub fn value(self, dtype: DType) -> Option<Value> {
        match (self, dtype) {
            (PathConstant::Float { f32, .. }, DType::F32) => Some(Value::F32(f32)),
            (PathConstant::Float { f64, .. }, DType::F64) => Some(Value::F64(f64)),
            (PathConstant::Typed(value), _) if value.dtype() == dtype => Some(value),
            _ => None,
        }
    }
}

/// The constant that a path names: `PI`, `consts::PI`, `f32::consts::PI`, `core::f64::consts::PI`, `f32::MAX`,
/// `i32::MIN`, `u8::BITS`.
pub fn constant_path(path: &syn::Path) -> Option<PathConstant> {
    if path.segments.iter().any(|segment| !segment.arguments.is_none()) {
        return None;
    }
    let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match *names.as_slice() {
        [name] | ["consts", name] if path.leading_colon.is_none() => float_constant(name),
        ["f32", "consts", name] | ["core" | "std", "f32", "consts", name] => {
            float_constant(name)?.value(DType::F32).map(PathConstant::Typed)
        }
        ["f64", "consts", name] | ["core" | "std", "f64", "consts", name] => {
            float_constant(name)?.value(DType::F64).map(PathConstant::Typed)
        }
        [dtype, name] | ["core" | "std", dtype, name] => {
            associated_constant(DType::from_name(dtype)?, name).map(PathConstant::Typed)
        }
        _ => None,
    }
}

/// A constant of `core::f32::consts` and `core::f64::consts`.
fn float_constant(name: &str) -> Option<PathConstant> {
    macro_rules! choose {
        ($($constant:ident)*) => {
            match name {
                $(stringify!($constant) => PathConstant::Float {
                    f32: std::f32::consts::$constant,
                    f64: std::f64::consts::$constant,
                },)*
                _ => return None,
            }
        };
    }
    Some(choose! {
        PI TAU E SQRT_2 FRAC_1_SQRT_2 LN_2 LN_10 LOG2_E LOG2_10 LOG10_E LOG10_2
        FRAC_1_PI FRAC_2_PI FRAC_2_SQRT_PI FRAC_PI_2 FRAC_PI_3 FRAC_PI_4 FRAC_PI_6 FRAC_PI_8
    })
}

/// An associated constant of a primitive type.
fn associated_constant(dtype: DType, name: &str) -> Option<Value> {
    macro_rules! float {
        ($type:ident, $variant:ident) => {
            match name {
                "EPSILON" => Value::$variant($type::EPSILON),
                "INFINITY" => Value::$variant($type::INFINITY),
                "NEG_INFINITY" => Value::$variant($type::NEG_INFINITY),
                "NAN" => Value::$variant($type::NAN),
                "MIN" => Value::$variant($type::MIN),
                "MAX" => Value::$variant($type::MAX),
                "MIN_POSITIVE" => Value::$variant($type::MIN_POSITIVE),
                "RADIX" => Value::U32($type::RADIX),
                "DIGITS" => Value::U32($type::DIGITS),
                "MANTISSA_DIGITS" => Value::U32($type::MANTISSA_DIGITS),
                "MIN_EXP" => Value::I32($type::MIN_EXP),
                "MAX_EXP" => Value::I32($type::MAX_EXP),
                "MIN_10_EXP" => Value::I32($type::MIN_10_EXP),
                "MAX_10_EXP" => Value::I32($type::MAX_10_EXP),
                _ => return None,
            }
        };
    }
    macro_rules! int {
        ($type:ident, $variant:ident) => {
            match name {
                "MIN" => Value::$variant($type::MIN),
                "MAX" => Value::$variant($type::MAX),
                "BITS" => Value::U32($type::BITS),
                _ => return None,
            }
        };
    }
    Some(match dtype {
        DType::F32 => float!(f32, F32),
        DType::F64 => float!(f64, F64),
        DType::I8 => int!(i8, I8),
        DType::I16 => int!(i16, I16),
        DType::I32 => int!(i32, I32),
        DType::I64 => int!(i64, I64),
        DType::U8 => int!(u8, U8),
        DType::U16 => int!(u16, U16),
        DType::U32 => int!(u32, U32),
        DType::U64 => int!(u64, U64),
        DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2 | DType::Bool => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(path: &str) -> Option<PathConstant> {
        constant_path(&syn::parse_str(path).expect("a path"))
    }

    #[test]
    fn std_constants_need_no_import() {
        use std::f64::consts::PI;
        let pi = find("PI").expect("known");
        assert_eq!(pi.value(DType::F32), Some(Value::F32(std::f32::consts::PI)));
        assert_eq!(pi.value(DType::F64), Some(Value::F64(PI)));
        assert_eq!(pi.value(DType::I32), None);
        for path in
            ["std::f64::consts::PI", "core::f64::consts::PI", "::core::f64::consts::PI", "f64::consts::PI"]
        {
            assert_eq!(find(path), Some(PathConstant::Typed(Value::F64(PI))), "{path}");
        }
    }

    #[test]
    fn associated_constants_are_typed() {
        assert_eq!(find("f32::EPSILON"), Some(PathConstant::Typed(Value::F32(f32::EPSILON))));
        assert_eq!(find("std::f32::MAX"), Some(PathConstant::Typed(Value::F32(f32::MAX))));
        assert_eq!(find("i32::MIN"), Some(PathConstant::Typed(Value::I32(i32::MIN))));
        assert_eq!(find("u8::BITS"), Some(PathConstant::Typed(Value::U32(8))));
        for path in ["ALPHA", "f32::PI", "bool::MAX", "f16::MAX", "my::PI", "::PI"] {
            assert_eq!(find(path), None, "{path}");
        }
    }
}
