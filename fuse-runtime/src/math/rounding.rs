//! Rounding to integers. `F` (on x86-64: SSE4.1 is there) takes the one instruction; without it `f32::floor` and its kin
//! are calls into libm, so the same result is made by additions.

use super::arithmetic::{abs, copysign};

/// 2^23: from here on every f32 is an integer, and adding it to a smaller magnitude rounds that to one.
const INTEGRAL: f32 = 8_388_608.0;

/// The magnitude of `x` rounded to the nearest integer, ties to even, for |x| below 2^23.
#[inline(always)]
fn round_magnitude(x: f32) -> f32 {
    (abs(x) + INTEGRAL) - INTEGRAL
}

/// `rounded` where `x` is not an integer by size alone; large values, infinities and NaN are returned as they are.
#[inline(always)]
fn unless_large(x: f32, rounded: f32) -> f32 {
    if abs(x) < INTEGRAL { copysign(rounded, x) } else { x }
}

/// The nearest integer, ties to even.
#[inline(always)]
pub fn round_ties_even<const F: bool>(x: f32) -> f32 {
    if F {
        return x.round_ties_even();
    }
    unless_large(x, round_magnitude(x))
}

/// The largest integer not above `x`.
#[inline(always)]
pub fn floor<const F: bool>(x: f32) -> f32 {
    if F {
        return x.floor();
    }
    let nearest = copysign(round_magnitude(x), x);
    let floor = if nearest > x { nearest - 1.0 } else { nearest };
    // Signs are right already: a negative x has a floor of -0 or below. copysign would spoil nothing.
    unless_large(x, floor)
}

/// The smallest integer not below `x`.
#[inline(always)]
pub fn ceil<const F: bool>(x: f32) -> f32 {
    if F {
        return x.ceil();
    }
    let nearest = copysign(round_magnitude(x), x);
    let ceil = if nearest < x { nearest + 1.0 } else { nearest };
    unless_large(x, ceil)
}

/// The integer part.
#[inline(always)]
pub fn trunc<const F: bool>(x: f32) -> f32 {
    if F {
        return x.trunc();
    }
    let nearest = round_magnitude(x);
    let trunc = if nearest > abs(x) { nearest - 1.0 } else { nearest };
    unless_large(x, trunc)
}

/// The nearest integer, ties away from zero.
#[inline(always)]
pub fn round<const F: bool>(x: f32) -> f32 {
    if F {
        return x.round();
    }
    let nearest = round_magnitude(x);
    // The difference is exact, and a half only where the tie went down to an even number.
    let round = if abs(x) - nearest == 0.5 { nearest + 1.0 } else { nearest };
    unless_large(x, round)
}

/// The part after the point, with the sign of `x`.
#[inline(always)]
pub fn fract<const F: bool>(x: f32) -> f32 {
    x - trunc::<F>(x)
}
