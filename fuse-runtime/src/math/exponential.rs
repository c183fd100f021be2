//! Exponentials, and the logistic function made from one.

use super::arithmetic::{abs, copysign, fma, fma_f64, horner, horner_f64};

/// 1.5·2^23. Adding it to |x| < 2^22 rounds to the nearest integer, which then stands in the low bits.
pub(super) const ROUND_F32: f32 = 12_582_912.0;
/// 1.5·2^52, the same for f64 and |x| < 2^51.
pub(super) const ROUND_F64: f64 = 6_755_399_441_055_744.0;

/// ln 2 with nine trailing zero bits, so that its product with an exponent is exact.
const LN_2_HIGH: f32 = f32::from_bits(0x3f31_7200);
/// What [`LN_2_HIGH`] leaves out.
const LN_2_LOW: f32 = 1.428_606_8e-6;

/// [`ROUND_F32`] and the bias of an exponent: the low bits of the sum are those of 2^n.
const ROUND_BIASED: f32 = ROUND_F32 + 127.0;
/// [`ROUND_F32`] and the biases of two exponents, for [`scale`].
const ROUND_BIASED_TWICE: f32 = ROUND_F32 + 254.0;

/// 2^n for n in -126..=127, from `n + ROUND_BIASED`.
#[inline(always)]
fn power_of_two(shifted: f32) -> f32 {
    f32::from_bits(shifted.to_bits() << 23)
}

/// Two factors of 2^n for n in -252..=254, from `n + ROUND_BIASED_TWICE`: so only the product with the second rounds to a
/// denormal or overflows. Half of the bits has half of `n` and one bias, and so has what is left.
#[inline(always)]
fn two_powers_of_two(shifted: f32) -> (f32, f32) {
    let both = shifted.to_bits();
    let half = both >> 1;
    (f32::from_bits(half << 23), f32::from_bits(both.wrapping_sub(half) << 23))
}

/// `(e^r - 1, n + round)` with `x = n ln 2 + r`, for |x| below about 1e5 and one of the rounding constants above. The fit is
/// good to 0.02 ulp.
#[inline(always)]
fn reduce_and_exp_m1<const F: bool>(x: f32, round: f32) -> (f32, f32) {
    let shifted = fma::<F>(x, core::f32::consts::LOG2_E, round);
    let n = shifted - round;
    let r = fma::<F>(n, -LN_2_HIGH, x);
    let r = fma::<F>(n, -LN_2_LOW, r);
    let square = r * r;
    (fma::<F>(in_halves::<F>(EXP_COEFFICIENTS, r, square), square, r), shifted)
}

/// A polynomial of fourth degree, its upper and lower half apart: they do not wait for one another.
#[inline(always)]
fn in_halves<const F: bool>([c4, c3, c2, c1, c0]: [f32; 5], r: f32, square: f32) -> f32 {
    let high = fma::<F>(c4, square, fma::<F>(c3, r, c2));
    fma::<F>(high, square, fma::<F>(c1, r, c0))
}

/// `(e^r - 1 - r) / r^2` on |r| <= ln 2 / 2.
const EXP_COEFFICIENTS: [f32; 5] =
    [0.001_381_982_2, 0.008_368_687, 0.041_668_277, 0.166_665_21, 0.499_999_94];
/// The exponential of what is not greater is zero.
const LEAST_EXPONENT: f32 = -104.0;

/// e^x.
#[inline(always)]
pub fn exp<const F: bool>(x: f32) -> f32 {
    // Beyond these bounds the result is infinite or zero anyway. Written so that NaN passes and each is one instruction.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < LEAST_EXPONENT { LEAST_EXPONENT } else { x };
    let (m, shifted) = reduce_and_exp_m1::<F>(x, ROUND_BIASED_TWICE);
    let (first, second) = two_powers_of_two(shifted);
    fma::<F>(m, first, first) * second
}

/// [`exp`] of sixteen numbers that are at most 88 or infinite, bit for bit: `vscalefps` multiplies by a power of two and rounds once, which
/// takes the portable form two products. What is 0 is computed of 0 instead: infinities and results that underflow take the
/// processor a detour.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn exp_avx512(x: std::arch::x86_64::__m512) -> std::arch::x86_64::__m512 {
    use std::arch::x86_64::{
        _CMP_NLE_UQ, _mm512_add_ps, _mm512_cmp_ps_mask, _mm512_fmadd_ps, _mm512_maskz_mov_ps,
        _mm512_maskz_scalef_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_sub_ps,
    };
    // NaN is not less.
    let is_seen = _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(x, _mm512_set1_ps(LEAST_EXPONENT));
    let x = _mm512_maskz_mov_ps(is_seen, x);
    let round = _mm512_set1_ps(ROUND_F32);
    let n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(core::f32::consts::LOG2_E), round), round);
    let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LN_2_HIGH), x);
    let r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LN_2_LOW), r);
    let [c4, c3, c2, c1, c0] = EXP_COEFFICIENTS.map(|c| _mm512_set1_ps(c));
    let square = _mm512_mul_ps(r, r);
    let high = _mm512_fmadd_ps(c4, square, _mm512_fmadd_ps(c3, r, c2));
    let p = _mm512_fmadd_ps(high, square, _mm512_fmadd_ps(c1, r, c0));
    let p = _mm512_add_ps(_mm512_fmadd_ps(p, square, r), _mm512_set1_ps(1.0));
    // Where x is infinite `p` is NaN, and so many times NaN is infinite to this instruction.
    _mm512_maskz_scalef_ps(is_seen, p, n)
}

/// e^x with one scale factor, for results that may be taken as 2^-126 when smaller: for use within other functions.
#[inline(always)]
pub(super) fn exp_normal<const F: bool>(x: f32) -> f32 {
    let x = if x > 88.37 { 88.37 } else { x };
    let x = if x < -87.33 { -87.33 } else { x };
    let (m, shifted) = reduce_and_exp_m1::<F>(x, ROUND_BIASED);
    let power = power_of_two(shifted);
    fma::<F>(m, power, power)
}

/// `((e^2x - 1) / 2, (e^2x + 1) / 2)` for x in -40..=0: half of each, since then nothing has to be doubled.
#[inline(always)]
pub(super) fn exp_of_twice<const F: bool>(x: f32) -> (f32, f32) {
    let shifted = fma::<F>(x, 2.0 * core::f32::consts::LOG2_E, ROUND_BIASED);
    let n = shifted - ROUND_BIASED;
    let r = fma::<F>(n, -0.5 * LN_2_HIGH, x);
    let r = fma::<F>(n, -0.5 * LN_2_LOW, r);
    // (e^2r - 1) / 2 = r + 2 r^2 p(2r).
    let [c4, c3, c2, c1, c0] = EXP_COEFFICIENTS;
    let square = r * r;
    let p = in_halves::<F>([32.0 * c4, 16.0 * c3, 8.0 * c2, 4.0 * c1, 2.0 * c0], r, square);
    let m = fma::<F>(p, square, r);
    let power = power_of_two(shifted);
    (fma::<F>(m, power, fma::<F>(power, 0.5, -0.5)), fma::<F>(m, power, fma::<F>(power, 0.5, 0.5)))
}

/// 2^x. The fit is good to 0.04 ulp and the reduction is exact.
#[inline(always)]
pub fn exp2<const F: bool>(x: f32) -> f32 {
    let x = if x > 129.0 { 129.0 } else { x };
    let x = if x < -151.0 { -151.0 } else { x };
    let shifted = x + ROUND_BIASED_TWICE;
    let r = x - (shifted - ROUND_BIASED_TWICE);
    let p = horner::<F, 6>(r, EXP2_COEFFICIENTS);
    let (first, second) = two_powers_of_two(shifted);
    fma::<F>(p, r, 1.0) * first * second
}

/// `(2^r - 1) / r` on |r| <= 1/2.
const EXP2_COEFFICIENTS: [f32; 6] =
    [0.000_153_540_21, 0.001_339_89, 0.009_618_436, 0.055_503_324, 0.240_226_48, core::f32::consts::LN_2];

/// `(e^x - 1, 2^n)` as `(m, s)` with `e^x = s (1 + m)`, for |x| below 700. Relative error of `m`: 1e-10.
#[inline(always)]
fn reduce_and_exp_m1_f64<const F: bool>(x: f64) -> (f64, f64) {
    let shifted = fma_f64::<F>(x, core::f64::consts::LOG2_E, ROUND_F64);
    let n = shifted - ROUND_F64;
    let r = fma_f64::<F>(n, -6.931_471_803_691_238e-1, x);
    let r = fma_f64::<F>(n, -1.908_214_929_270_588e-10, r);
    let p = horner_f64::<F, 7>(
        r,
        [
            1.932_347_314_313_32e-5,
            1.989_924_861_430_466_3e-4,
            1.390_048_153_498_007_8e-3,
            8.333_298_525_294_198e-3,
            4.166_659_697_906_426e-2,
            1.666_666_671_886_233_7e-1,
            5.000_000_010_446_751e-1,
        ],
    );
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    (fma_f64::<F>(p, r * r, r), power)
}

/// e^x in f64 for |x| below 700, good to 1e-10: what rounds to an f32 within 0.51 ulp.
#[inline(always)]
pub(super) fn exp_wide<const F: bool>(x: f64) -> f64 {
    let (m, power) = reduce_and_exp_m1_f64::<F>(x);
    fma_f64::<F>(m, power, power)
}

/// e^x - 1 in f64 for |x| below 700, good to 1e-10 relatively however small x is.
#[inline(always)]
pub(super) fn exp_m1_wide<const F: bool>(x: f64) -> f64 {
    let (m, power) = reduce_and_exp_m1_f64::<F>(x);
    fma_f64::<F>(m, power, power - 1.0)
}

/// e^x - 1, without cancellation near zero.
#[inline(always)]
pub fn exp_m1<const F: bool>(x: f32) -> f32 {
    let bounded = if x > 100.0 { 100.0 } else { x };
    let bounded = if bounded < -100.0 { -100.0 } else { bounded };
    // The result has the sign of the argument, also for -0.
    copysign(exp_m1_wide::<F>(f64::from(bounded)) as f32, x)
}

/// The logistic function `1 / (1 + e^-x)`.
///
/// With z = e^-|x| it is 1/(1+z) or z/(1+z), where the rounding of 1+z would cost up to an ulp. Both sides of the division are
/// taken one and a half times: where z is small the sum then has almost a bit more. Without fused multiply-add that costs
/// z another rounding, and f64 is taken.
#[inline(always)]
pub fn sigmoid<const F: bool>(x: f32) -> f32 {
    let below = -abs(x);
    let below = if below < LEAST_EXPONENT_AND_HALF { LEAST_EXPONENT_AND_HALF } else { below };
    let negative = x < 0.0;
    if !F {
        let z = exp_wide::<F>(f64::from(below));
        return ((if negative { z } else { 1.0 }) / (1.0 + z)) as f32;
    }
    // As `reduce_and_exp_m1`, but what rounding the remainder loses is kept: that is what 2 ulp leave no room for.
    let shifted = fma::<F>(below, core::f32::consts::LOG2_E, ROUND_BIASED_TWICE);
    let n = shifted - ROUND_BIASED_TWICE;
    let (high, low) = (fma::<F>(n, -LN_2_HIGH, below), n * -LN_2_LOW);
    let r = high + low;
    let square = r * r;
    let m = high + fma::<F>(in_halves::<F>(EXP_COEFFICIENTS, r, square), square, low);
    let (first, second) = two_powers_of_two(shifted);
    let first = f32::from_bits(first.to_bits() | HALF_MORE);
    let z = fma::<F>(m, first, first) * second;
    (if negative { z } else { 1.5 }) / (z + 1.5)
}

/// The bit that makes 1.5 times a power of two of it.
const HALF_MORE: u32 = 1 << 22;
/// One and a half times the exponential of what is not greater is zero.
const LEAST_EXPONENT_AND_HALF: f32 = -105.0;
