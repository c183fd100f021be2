//! Hyperbolic functions and their inverses.

use super::arithmetic::{abs, copysign};
use super::exponential::{exp_m1_wide, exp_of_twice, exp_wide};
use super::logarithm::ln_1p_wide;

/// The hyperbolic tangent: `(1 - z) / (1 + z)` with z = e^-2|x|. That z is at most one keeps the rounding of the sum small
/// where the result is: there 1 + z is almost two. Without fused multiply-add it would be too great all the same, and f64 is taken.
#[inline(always)]
pub fn tanh<const F: bool>(x: f32) -> f32 {
    let magnitude = abs(x);
    let magnitude = if magnitude > 10.0 { 10.0 } else { magnitude };
    if !F {
        let m = exp_m1_wide::<F>(-2.0 * f64::from(magnitude));
        return copysign((m / (m + 2.0)) as f32, x);
    }
    let (difference, sum) = exp_of_twice::<F>(-magnitude);
    // The sign is put on last, so that -0 keeps it.
    copysign(difference / sum, x)
}

/// |x| in f64, bounded to what still fits the exponential: beyond it sinh and cosh are infinite in f32.
#[inline(always)]
fn bounded_magnitude(x: f32) -> f64 {
    let magnitude = abs(x);
    f64::from(if magnitude > 100.0 { 100.0 } else { magnitude })
}

/// The hyperbolic sine, in f64 from e^x - 1.
#[inline(always)]
pub fn sinh<const F: bool>(x: f32) -> f32 {
    let m = exp_m1_wide::<F>(bounded_magnitude(x));
    copysign(((m + m / (m + 1.0)) * 0.5) as f32, x)
}

/// The hyperbolic cosine, in f64.
#[inline(always)]
pub fn cosh<const F: bool>(x: f32) -> f32 {
    let power = exp_wide::<F>(bounded_magnitude(x));
    ((power + 1.0 / power) * 0.5) as f32
}

/// The inverse hyperbolic sine: `ln(1 + a + a²/(1 + √(a²+1)))` in f64 with a = |x|.
#[inline(always)]
pub fn asinh<const F: bool>(x: f32) -> f32 {
    let a = f64::from(abs(x));
    let square = a * a;
    let result = ln_1p_wide::<F>(a + square / (1.0 + (square + 1.0).sqrt())) as f32;
    copysign(if abs(x) < f32::INFINITY { result } else { abs(x) }, x)
}

/// The inverse hyperbolic cosine: `ln(1 + t + √(t (t+2)))` in f64 with t = x - 1; NaN below one.
#[inline(always)]
pub fn acosh<const F: bool>(x: f32) -> f32 {
    let t = f64::from(x) - 1.0;
    let result = ln_1p_wide::<F>(t + (t * (t + 2.0)).sqrt()) as f32;
    let result = if x >= 1.0 { result } else { f32::NAN };
    if x == f32::INFINITY { x } else { result }
}

/// The inverse hyperbolic tangent: half of `ln(1 + 2a/(1-a))` in f64 with a = |x|; NaN beyond ±1.
#[inline(always)]
pub fn atanh<const F: bool>(x: f32) -> f32 {
    let a = f64::from(abs(x));
    let result = (0.5 * ln_1p_wide::<F>((a + a) / (1.0 - a))) as f32;
    let elsewhere = if a == 1.0 { f32::INFINITY } else { f32::NAN };
    copysign(if a < 1.0 { result } else { elsewhere }, x)
}
