//! Casts with the meaning of Rust's `as`, in a form that vectorises.
//!
//! rustc 1.95 compiles `x as i32` from a float to a scalar conversion and two selects for each element. Here the value is
//! bounded first, which is vector code, and then converted by the plain instruction.

use crate::math::Float;

/// Types that `self as T` converts to, and what kernels cast besides: bool to a float, anything to bool by `!= 0`.
pub trait CastTo<T> {
    /// `self as T`.
    fn cast_to(self) -> T;
}

/// `x as T`: floats to integers saturate and NaN gives 0, integers wrap, the rest rounds to nearest.
#[inline(always)]
pub fn cast<T, S: CastTo<T>>(x: S) -> T {
    x.cast_to()
}

/// Casts for which Rust's own `as` is vector code already.
macro_rules! cast_by_as {
    ($($from:ty => $($to:ty),*;)*) => {$($(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast_to(self) -> $to {
                self as $to
            }
        }
    )*)*};
}

cast_by_as! {
    i8 => i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64;
    i16 => i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64;
    i32 => i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64;
    i64 => i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64;
    isize => i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64;
    u8 => i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64;
    u16 => i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64;
    u32 => i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64;
    u64 => i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64;
    usize => i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64;
    bool => bool, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize;
    f32 => f32, f64;
    f64 => f32, f64;
}

/// Zero for a NaN.
#[inline(always)]
fn zero_if_nan<T: Float + Default>(x: T) -> T {
    if x.partial_cmp(&x).is_some() { x } else { T::default() }
}

/// Integers whose every value the float holds, so that bounding by them is the saturation. They go through a wider
/// integer, for whose conversion there is an instruction.
macro_rules! saturate_exactly {
    ($($from:ty => $($to:ty as $through:ty),*;)*) => {$($(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast_to(self) -> $to {
                let x = zero_if_nan(self);
                let x = if x > <$to>::MAX as $from { <$to>::MAX as $from } else { x };
                let x = if x < <$to>::MIN as $from { <$to>::MIN as $from } else { x };
                // SAFETY: x is not NaN and within the range of the target, hence of the integer between.
                let whole: $through = unsafe { x.to_int_unchecked() };
                whole as $to
            }
        }
    )*)*};
}

saturate_exactly! {
    f32 => i8 as i32, i16 as i32, u8 as i32, u16 as i32;
    f64 => i8 as i32, i16 as i32, i32 as i32, u8 as i32, u16 as i32, u32 as u32;
}

/// Integers whose largest value the float does not hold: below the power of two above it the conversion is exact, from
/// it on the result is the largest value.
macro_rules! saturate_wide {
    ($($from:ty => $($to:ty),*;)*) => {$($(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast_to(self) -> $to {
                // MAX as a float rounds up to that power of two.
                const LIMIT: $from = <$to>::MAX as $from;
                const BELOW: $from = <$from>::from_bits(LIMIT.to_bits() - 1);
                let finite = zero_if_nan(self);
                let x = if finite > BELOW { BELOW } else { finite };
                let x = if x < <$to>::MIN as $from { <$to>::MIN as $from } else { x };
                // SAFETY: x is not NaN, not below MIN (zero or a negative power of two, which the float holds), and at
                // most the float before the power of two above MAX.
                let whole: $to = unsafe { x.to_int_unchecked() };
                if finite >= LIMIT { <$to>::MAX } else { whole }
            }
        }
    )*)*};
}

saturate_wide! {
    f32 => i32, i64, isize, u32, u64, usize;
    f64 => i64, isize, u64, usize;
}

/// bool to floats, and numbers to bool.
macro_rules! cast_bool {
    ($($number:ty: $zero:literal),*; $($float:ty),*) => {
        $(impl CastTo<bool> for $number {
            #[inline(always)]
            fn cast_to(self) -> bool {
                self != $zero
            }
        })*
        $(impl CastTo<$float> for bool {
            #[inline(always)]
            fn cast_to(self) -> $float {
                if self { 1.0 } else { 0.0 }
            }
        })*
    };
}

cast_bool! {
    i8: 0, i16: 0, i32: 0, i64: 0, isize: 0, u8: 0, u16: 0, u32: 0, u64: 0, usize: 0, f32: 0.0, f64: 0.0;
    f32, f64
}
