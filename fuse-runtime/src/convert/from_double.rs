//! f64 rounded once to a narrow float, as a value in f32.

use super::eight_bit::{round_to_f8e4m3, round_to_f8e5m2};
use super::half_precision::{round_to_bf16, round_to_f16};

/// `x` as f32, rounded to odd: an inexact value gets the neighbour whose last bit is odd.
///
/// Rounding that again to a format with at least two bits fewer is rounding `x` once, since no tie can come of it that
/// `x` is not.
#[inline(always)]
fn round_to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    let inexact = (back < x) | (back > x);
    let bits = nearest.to_bits();
    let even = (bits & 1) ^ 1;
    let step = if back.abs() < x.abs() { even } else { even.wrapping_neg() };
    f32::from_bits(bits.wrapping_add(if inexact { step } else { 0 }))
}

/// `x` rounded to f16, as an f32.
#[inline(always)]
pub fn round_f64_to_f16(x: f64) -> f32 {
    round_to_f16(round_to_odd(x))
}

/// `x` rounded to bf16, as an f32.
#[inline(always)]
pub fn round_f64_to_bf16(x: f64) -> f32 {
    round_to_bf16(round_to_odd(x))
}

/// `x` rounded to f8e4m3, saturating, as an f32.
#[inline(always)]
pub fn round_f64_to_f8e4m3(x: f64) -> f32 {
    round_to_f8e4m3(round_to_odd(x))
}

/// `x` rounded to f8e5m2, saturating, as an f32.
#[inline(always)]
pub fn round_f64_to_f8e5m2(x: f64) -> f32 {
    round_to_f8e5m2(round_to_odd(x))
}
