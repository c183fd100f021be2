//! The f64 functions: std's, or `libm`'s where std has none.

/// Declares `NAME_f64(x)` as a method of f64.
macro_rules! from_std {
    ($($name:ident = $method:ident),* $(,)?) => {$(
        #[doc = concat!("`f64::", stringify!($method), "`.")]
        #[inline(always)]
        pub fn $name(x: f64) -> f64 {
            x.$method()
        }
    )*};
}

from_std! {
    exp_f64 = exp, exp2_f64 = exp2, exp_m1_f64 = exp_m1,
    ln_f64 = ln, log2_f64 = log2, log10_f64 = log10, ln_1p_f64 = ln_1p,
    sin_f64 = sin, cos_f64 = cos, tan_f64 = tan, asin_f64 = asin, acos_f64 = acos, atan_f64 = atan,
    sinh_f64 = sinh, cosh_f64 = cosh, tanh_f64 = tanh, asinh_f64 = asinh, acosh_f64 = acosh, atanh_f64 = atanh,
    cbrt_f64 = cbrt, sqrt_f64 = sqrt, abs_f64 = abs, signum_f64 = signum,
    floor_f64 = floor, ceil_f64 = ceil, trunc_f64 = trunc, round_f64 = round,
    round_ties_even_f64 = round_ties_even, fract_f64 = fract,
}

/// `f64::mul_add`: rounded once, by a call where the target lacks the instruction.
#[inline(always)]
pub fn mul_add_f64(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}

/// `f64::powf`.
#[inline(always)]
pub fn powf_f64(x: f64, y: f64) -> f64 {
    x.powf(y)
}

/// `f64::powi`.
#[inline(always)]
pub fn powi_f64(x: f64, n: i32) -> f64 {
    x.powi(n)
}

/// `f64::atan2`.
#[inline(always)]
pub fn atan2_f64(y: f64, x: f64) -> f64 {
    y.atan2(x)
}

/// `f64::hypot`.
#[inline(always)]
pub fn hypot_f64(x: f64, y: f64) -> f64 {
    x.hypot(y)
}

/// `f64::copysign`.
#[inline(always)]
pub fn copysign_f64(x: f64, sign: f64) -> f64 {
    x.copysign(sign)
}

/// `1 / sqrt(x)`.
#[inline(always)]
pub fn rsqrt_f64(x: f64) -> f64 {
    1.0 / x.sqrt()
}

/// The logistic function `1 / (1 + e^-x)`; of a negative `x` as `e^x / (1 + e^x)`, which keeps small results.
#[inline(always)]
pub fn sigmoid_f64(x: f64) -> f64 {
    let z = (-x.abs()).exp();
    let numerator = if x < 0.0 { z } else { 1.0 };
    numerator / (1.0 + z)
}

/// The error function.
#[inline(always)]
pub fn erf_f64(x: f64) -> f64 {
    libm::erf(x)
}

/// The complement of the error function.
#[inline(always)]
pub fn erfc_f64(x: f64) -> f64 {
    libm::erfc(x)
}
