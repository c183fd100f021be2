//! The types that a tensor can have as elements.

use crate::convert::{F8E4M3, F8E5M2};
use fuse_ir::dtype::{DType, Value};
use half::{bf16, f16};
use std::fmt;

mod sealed {
    /// Keeps [`super::Element`] closed: kernels know the layout of every element type.
    pub trait Sealed {}
}

/// A type that a tensor can have as elements: `f32`, `f64`, `f16`, `bf16`, the eight-bit floats, the integers of 8 to 64
/// bits, and `bool`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type of tensors",
    label = "expected f32, f64, f16, bf16, F8E4M3, F8E5M2, an integer of 8 to 64 bits, or bool"
)]
pub trait Element: sealed::Sealed + Copy + Send + Sync + PartialEq + fmt::Debug + 'static {
    /// How kernels name the type.
    const DTYPE: DType;
    /// Zero, or `false`. Its bytes are all zero.
    const ZERO: Self;

    /// The element with its dtype.
    fn to_value(self) -> Value;

    /// The element of that value; the value is cast as `as` does.
    fn from_value(value: Value) -> Self;
}

/// Elements that are one of the primitive types of the compiler's own values.
macro_rules! primitive_element {
    ($($type:ty, $dtype:ident, $zero:literal;)*) => { $(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            const ZERO: Self = $zero;

            fn to_value(self) -> Value {
                Value::$dtype(self)
            }

            fn from_value(value: Value) -> Self {
                if let Value::$dtype(x) = value.cast(DType::$dtype) { x } else { $zero }
            }
        }
    )* };
}

/// Elements that are kept as an f32 in the compiler's own values.
macro_rules! narrow_element {
    ($($type:ty, $dtype:ident;)*) => { $(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            const ZERO: Self = <$type>::from_bits(0);

            fn to_value(self) -> Value {
                Value::$dtype(self.to_f32())
            }

            fn from_value(value: Value) -> Self {
                if let Value::$dtype(x) = value.cast(DType::$dtype) {
                    <$type>::from_f32(x)
                } else {
                    Self::ZERO
                }
            }
        }
    )* };
}

primitive_element! {
    f32, F32, 0.0;
    f64, F64, 0.0;
    i8, I8, 0;
    i16, I16, 0;
    i32, I32, 0;
    i64, I64, 0;
    u8, U8, 0;
    u16, U16, 0;
    u32, U32, 0;
    u64, U64, 0;
    bool, Bool, false;
}

narrow_element! {
    f16, F16;
    bf16, Bf16;
    F8E4M3, F8E4M3;
    F8E5M2, F8E5M2;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_there_and_back() {
        assert_eq!(f32::from_value(1.5f32.to_value()), 1.5);
        assert_eq!(f16::from_value(f16::from_f32(0.1).to_value()), f16::from_f32(0.1));
        assert_eq!(F8E4M3::from_value(Value::F32(1e9)).to_f32(), 448.0);
        assert_eq!(i8::from_value(Value::I64(300)), 44);
        assert!(bool::from_value(Value::Bool(true)));
    }

    #[test]
    fn sizes_are_those_of_the_dtype() {
        fn check<T: Element>() {
            assert_eq!(size_of::<T>(), T::DTYPE.size());
            assert_eq!(T::ZERO.to_value(), Value::zero(T::DTYPE));
        }
        check::<f32>();
        check::<f64>();
        check::<f16>();
        check::<bf16>();
        check::<F8E4M3>();
        check::<F8E5M2>();
        check::<i64>();
        check::<u8>();
        check::<bool>();
    }
}
