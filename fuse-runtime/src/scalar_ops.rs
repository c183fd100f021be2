//! The scalar operations that std lacks, for the Rust copies of ops.
//!
//! The copy of an op is what the tests of the op compare with, so that these are the plain definitions, without a view to
//! speed: kernels do not call them.

use crate::convert;
use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// f32 and f64.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a float",
    label = "needs f32 or f64: cast it first, `(.. as f32)`"
)]
pub trait Float: Number {
    #[doc(hidden)]
    fn rsqrt(self) -> Self;
    #[doc(hidden)]
    fn sigmoid(self) -> Self;
    #[doc(hidden)]
    fn erf(self) -> Self;
    #[doc(hidden)]
    fn erfc(self) -> Self;
    #[doc(hidden)]
    fn is_nan(self) -> bool;
    #[doc(hidden)]
    fn max(self, other: Self) -> Self;
    #[doc(hidden)]
    fn min(self, other: Self) -> Self;
}

/// Integers.
#[diagnostic::on_unimplemented(message = "`{Self}` is not an integer", label = "needs an integer")]
pub trait Integer: Number {
    #[doc(hidden)]
    fn shift_count(self) -> u32;
}

/// Floats and integers.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a number", label = "needs a float or an integer")]
pub trait Number: Copy + PartialOrd + sealed::Sealed {
    #[doc(hidden)]
    fn square(self) -> Self;
    #[doc(hidden)]
    fn round_to_f16(self) -> f32;
    #[doc(hidden)]
    fn round_to_bf16(self) -> f32;
    #[doc(hidden)]
    fn round_to_f8e4m3(self) -> f32;
    #[doc(hidden)]
    fn round_to_f8e5m2(self) -> f32;
}

macro_rules! impl_float {
    ($ty:ident, $erf:path, $erfc:path) => {
        impl Float for $ty {
            fn rsqrt(self) -> Self {
                1.0 / self.sqrt()
            }
            fn sigmoid(self) -> Self {
                1.0 / (1.0 + (-self).exp())
            }
            fn erf(self) -> Self {
                $erf(self)
            }
            fn erfc(self) -> Self {
                $erfc(self)
            }
            fn is_nan(self) -> bool {
                $ty::is_nan(self)
            }
            fn max(self, other: Self) -> Self {
                $ty::max(self, other)
            }
            fn min(self, other: Self) -> Self {
                $ty::min(self, other)
            }
        }
    };
}

impl_float!(f32, libm::erff, libm::erfcf);
impl_float!(f64, libm::erf, libm::erfc);

/// `$round` takes `self` to a narrow float by way of `$via`, with one rounding where that is exact.
macro_rules! impl_number {
    ($ty:ident, $square:expr, $via:ident, $e4m3:path, $e5m2:path, $half:ident) => {
        impl sealed::Sealed for $ty {}

        impl Number for $ty {
            fn square(self) -> Self {
                let square: fn($ty) -> $ty = $square;
                square(self)
            }
            fn round_to_f16(self) -> f32 {
                f16::$half(self as $via).to_f32()
            }
            fn round_to_bf16(self) -> f32 {
                bf16::$half(self as $via).to_f32()
            }
            fn round_to_f8e4m3(self) -> f32 {
                $e4m3(self as $via)
            }
            fn round_to_f8e5m2(self) -> f32 {
                $e5m2(self as $via)
            }
        }
    };
    ($($ty:ident)*) => {
        $(impl Integer for $ty {
            fn shift_count(self) -> u32 {
                self as u32
            }
        })*
        $(impl_number!($ty, |x| x.wrapping_mul(x), f32, convert::round_to_f8e4m3, convert::round_to_f8e5m2, from_f32);)*
    };
}

impl_number!(f32, |x| x * x, f32, convert::round_to_f8e4m3, convert::round_to_f8e5m2, from_f32);
impl_number!(f64, |x| x * x, f64, convert::round_f64_to_f8e4m3, convert::round_f64_to_f8e5m2, from_f64);
impl_number!(i8 i16 i32 i64 u8 u16 u32 u64);

/// `1 / x.sqrt()`.
pub fn rsqrt<T: Float>(x: T) -> T {
    x.rsqrt()
}

/// `1 / (1 + exp(-x))`.
pub fn sigmoid<T: Float>(x: T) -> T {
    x.sigmoid()
}

/// The error function.
pub fn erf<T: Float>(x: T) -> T {
    x.erf()
}

/// `1 - erf(x)`, accurate in the tail.
pub fn erfc<T: Float>(x: T) -> T {
    x.erfc()
}

/// `x * x`; integers wrap.
pub fn square<T: Number>(x: T) -> T {
    x.square()
}

/// The count of a shift, of which only the low bits are looked at.
pub fn shift_count<T: Integer>(n: T) -> u32 {
    n.shift_count()
}

/// The greater; NaN if either is.
pub fn maximum<T: Float>(a: T, b: T) -> T {
    if a.is_nan() || b.is_nan() { either_nan(a, b) } else { a.max(b) }
}

/// The lesser; NaN if either is.
pub fn minimum<T: Float>(a: T, b: T) -> T {
    if a.is_nan() || b.is_nan() { either_nan(a, b) } else { a.min(b) }
}

fn either_nan<T: Float>(a: T, b: T) -> T {
    if a.is_nan() { a } else { b }
}

/// `lo` below it, `hi` above it, NaN stays; unlike std's the bounds are not checked, and of crossed ones `hi` wins.
pub fn clamp<T: Number>(x: T, lo: T, hi: T) -> T {
    let raised = if x < lo { lo } else { x };
    if raised > hi { hi } else { raised }
}

/// `a` if the condition holds, else `b`; both are evaluated.
pub fn select<T>(condition: bool, a: T, b: T) -> T {
    if condition { a } else { b }
}

/// `x as f16 as f32`.
pub fn round_to_f16<T: Number>(x: T) -> f32 {
    x.round_to_f16()
}

/// `x as bf16 as f32`.
pub fn round_to_bf16<T: Number>(x: T) -> f32 {
    x.round_to_bf16()
}

/// `x as f8e4m3 as f32`: saturates, NaN stays.
pub fn round_to_f8e4m3<T: Number>(x: T) -> f32 {
    x.round_to_f8e4m3()
}

/// `x as f8e5m2 as f32`: saturates, NaN stays.
pub fn round_to_f8e5m2<T: Number>(x: T) -> f32 {
    x.round_to_f8e5m2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuse_ir::dtype::{DType, Value};
    use fuse_ir::eval::eval_op;
    use fuse_ir::scalar::ScalarOp;

    const EDGES: [f32; 16] = [
        0.0,
        -0.0,
        0.3,
        -0.7,
        1.0,
        2.5,
        -9.0,
        88.0,
        1e-40,
        1e30,
        65520.0,
        448.1,
        f32::MAX,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];

    fn agree(found: f32, expected: Value, what: &str, x: f32) {
        let Value::F32(expected) = expected else { panic!("{what} gives {expected:?}") };
        let close = (found - expected).abs() <= 4.0 * f32::EPSILON * expected.abs().max(f32::MIN_POSITIVE);
        assert!(
            found == expected || close || found.is_nan() && expected.is_nan(),
            "{what}({x}): {found} {expected}"
        );
    }

    #[test]
    fn functions_mean_what_the_operations_mean() {
        let check = |function: fn(f32) -> f32, op: ScalarOp| {
            for x in EDGES {
                agree(function(x), eval_op(op, &[Value::F32(x)]).0, &format!("{op:?}"), x);
            }
        };
        check(rsqrt, ScalarOp::Rsqrt);
        check(sigmoid, ScalarOp::Sigmoid);
        check(erf, ScalarOp::Erf);
        check(erfc, ScalarOp::Erfc);
        for a in EDGES {
            for b in EDGES {
                let args = [Value::F32(a), Value::F32(b)];
                agree(maximum(a, b), eval_op(ScalarOp::Maximum, &args).0, "maximum", a);
                agree(minimum(a, b), eval_op(ScalarOp::Minimum, &args).0, "minimum", a);
                let args = [Value::F32(a), Value::F32(b), Value::F32(1.0)];
                agree(clamp(a, b, 1.0), eval_op(ScalarOp::Clamp, &args).0, "clamp", a);
            }
        }
    }

    #[test]
    fn rounding_means_what_casts_mean() {
        macro_rules! check {
            ($round:ident, $dtype:ident) => {
                for x in EDGES {
                    agree(
                        $round(x),
                        Value::F32(x).cast(DType::$dtype).cast(DType::F32),
                        stringify!($round),
                        x,
                    );
                    let double = f64::from(x) * (1.0 + 1e-12);
                    let cast = Value::F64(double).cast(DType::$dtype).cast(DType::F32);
                    agree($round(double), cast, stringify!($round), x);
                }
                for n in [0, 3, -17, 2049, 65519, i32::MAX, i32::MIN] {
                    let cast = Value::I32(n).cast(DType::$dtype).cast(DType::F32);
                    agree($round(n), cast, stringify!($round), n as f32);
                }
            };
        }
        check!(round_to_f16, F16);
        check!(round_to_bf16, Bf16);
        check!(round_to_f8e4m3, F8E4M3);
        check!(round_to_f8e5m2, F8E5M2);
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(square(100_000i32), 100_000i32.wrapping_mul(100_000));
        assert_eq!(square(20u8), 144);
        assert_eq!(1i32.wrapping_shl(shift_count(-1i8)), i32::MIN);
        assert_eq!(clamp(7i64, 9, 3), 3);
        assert!(select(true, 1, 2) == 1 && select(false, 1, 2) == 2);
    }
}
