//! Logarithms.

use super::arithmetic::{abs, copysign, fma, fma_f64, horner, horner_f64};

/// ln 2 with nine trailing zero bits, so that its product with an exponent is exact.
const LN_2_HIGH: f32 = f32::from_bits(0x3f31_7200);
/// What [`LN_2_HIGH`] leaves out.
const LN_2_LOW: f32 = 1.428_606_8e-6;

/// The values of a logarithm where the formula has none: -inf for ±0, +inf for itself, NaN below and for NaN.
#[inline(always)]
fn complete_logarithm(x: f32, result: f32) -> f32 {
    let elsewhere = if x == 0.0 { f32::NEG_INFINITY } else { f32::NAN };
    let result = if x > 0.0 { result } else { elsewhere };
    if x == f32::INFINITY { x } else { result }
}

/// The natural logarithm.
///
/// x = 2^k (1+f) with 1+f within [√½, √2], and `ln(1+f) = f - f²/2 + f³ Q(f)`; the fit of Q is good to 0.05 ulp.
#[inline(always)]
pub fn ln<const F: bool>(x: f32) -> f32 {
    const SQRT_HALF: u32 = 0x3f35_04f3;
    let denormal = x < f32::MIN_POSITIVE;
    let scaled = if denormal { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits().wrapping_sub(SQRT_HALF);
    let k = ((bits as i32) >> 23) as f32;
    let k = if denormal { k - 23.0 } else { k };
    let f = f32::from_bits((bits & 0x007f_ffff).wrapping_add(SQRT_HALF)) - 1.0;
    let q = horner::<F, 9>(
        f,
        [
            0.053_848_453,
            -0.109_210_916,
            0.121_004_604,
            -0.125_489_65,
            0.142_097_58,
            -0.166_593_67,
            0.200_022_24,
            -0.250_001_67,
            0.333_333_13,
        ],
    );
    let square = f * f;
    let tail = fma::<F>(k, LN_2_LOW, square * f * q);
    let tail = fma::<F>(square, -0.5, tail);
    let result = fma::<F>(k, LN_2_HIGH, f + tail);
    complete_logarithm(x, result)
}

/// `(k, ln m)` with `u + correction = 2^k m` and m within about [√½, √2], for positive normal u and a correction below
/// its last bit. Relative error of `ln m`: 1e-13, also next to one.
#[inline(always)]
pub(super) fn split_ln_wide<const F: bool>(u: f64, correction: Option<f64>) -> (f64, f64) {
    let bits = u.to_bits();
    // The biased exponent under the exponent of 2^52 is a float of that value.
    let exponent = bits >> 52;
    let k = f64::from_bits(exponent | 0x4330_0000_0000_0000) - (4_503_599_627_370_496.0 + 1023.0);
    let m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    let upper = m > core::f64::consts::SQRT_2;
    let k = if upper { k + 1.0 } else { k };
    let m = if upper { m * 0.5 } else { m };
    let mut f = m - 1.0;
    // Known where this is called: no branch is left of it.
    if let Some(correction) = correction {
        let inverse_power = f64::from_bits(2046u64.wrapping_sub(exponent) << 52);
        let inverse_power = if upper { inverse_power * 0.5 } else { inverse_power };
        f = fma_f64::<F>(correction, inverse_power, f);
    }
    // ln(1+f) = 2 artanh(s), s = f/(2+f).
    let s = f / (2.0 + f);
    let square = s * s;
    let p = horner_f64::<F, 5>(
        square,
        [
            0.195_846_931_065_697_75,
            0.221_761_531_381_897_7,
            0.285_721_099_571_518,
            0.399_999_956_148_214_54,
            0.666_666_666_758_199_5,
        ],
    );
    (k, fma_f64::<F>(p * square, s, s + s))
}

/// `ln(1 + y)` in f64, to about 1e-13 relatively however small y is, for y > -1 below 2^1023.
#[inline(always)]
pub(super) fn ln_1p_wide<const F: bool>(y: f64) -> f64 {
    let u = 1.0 + y;
    let (k, ln_m) = split_ln_wide::<F>(u, Some(y - (u - 1.0)));
    fma_f64::<F>(k, core::f64::consts::LN_2, ln_m)
}

/// log2 of the magnitude of a nonzero finite `x`, in f64 to about 1e-13 relatively.
#[inline(always)]
pub(super) fn log2_wide<const F: bool>(x: f64) -> f64 {
    let (k, ln_m) = split_ln_wide::<F>(x, None);
    fma_f64::<F>(ln_m, core::f64::consts::LOG2_E, k)
}

/// The logarithm to base 2.
#[inline(always)]
pub fn log2<const F: bool>(x: f32) -> f32 {
    complete_logarithm(x, log2_wide::<F>(f64::from(abs(x))) as f32)
}

/// The logarithm to base 10.
#[inline(always)]
pub fn log10<const F: bool>(x: f32) -> f32 {
    let (k, ln_m) = split_ln_wide::<F>(f64::from(abs(x)), None);
    let result = fma_f64::<F>(ln_m, core::f64::consts::LOG10_E, k * core::f64::consts::LOG10_2);
    complete_logarithm(x, result as f32)
}

/// `ln(1 + x)`, without cancellation near zero.
#[inline(always)]
pub fn ln_1p<const F: bool>(x: f32) -> f32 {
    let result = ln_1p_wide::<F>(f64::from(x)) as f32;
    let elsewhere = if x == -1.0 { f32::NEG_INFINITY } else { f32::NAN };
    let result = if x > -1.0 { result } else { elsewhere };
    let result = if x == f32::INFINITY { x } else { result };
    // The result has the sign of the argument, also for -0.
    copysign(result, x)
}
