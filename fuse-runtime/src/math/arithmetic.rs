//! Sign handling, fused multiply-add and the functions made of one square root.

/// `a * b + c`, rounded once where `F` says that the instruction is there, else twice.
#[inline(always)]
pub fn fma<const F: bool>(a: f32, b: f32, c: f32) -> f32 {
    if F { a.mul_add(b, c) } else { a * b + c }
}

/// `a * b + c` in f64, rounded once where `F` says that the instruction is there, else twice.
#[inline(always)]
pub fn fma_f64<const F: bool>(a: f64, b: f64, c: f64) -> f64 {
    if F { a.mul_add(b, c) } else { a * b + c }
}

/// `a * b + c` rounded once, as `f32::mul_add`, on every target. (Inside the functions here [`fma`] is used, which may
/// round twice.)
///
/// Without the instruction the sum is made in f64, where the product is exact, and rounded to odd: an inexact sum gets
/// an odd last bit, which keeps the second rounding, to f32, from meeting a tie that is none.
#[inline(always)]
pub fn mul_add<const F: bool>(a: f32, b: f32, c: f32) -> f32 {
    if F {
        return a.mul_add(b, c);
    }
    let product = f64::from(a) * f64::from(b);
    let c = f64::from(c);
    let sum = product + c;
    // What the sum lost (Knuth), exactly; NaN if the sum is not finite.
    let of_c = sum - product;
    let lost = (product - (sum - of_c)) + (c - of_c);
    let bits = sum.to_bits();
    let even = bits & 1 ^ 1;
    let away = (lost > 0.0) == (sum > 0.0);
    let step = if away { even } else { even.wrapping_neg() };
    let step = if (lost > 0.0) | (lost < 0.0) { step } else { 0 };
    f64::from_bits(bits.wrapping_add(step)) as f32
}

/// The polynomial with `coefficients` from the highest power down, by Horner's rule.
#[inline(always)]
pub(super) fn horner<const F: bool, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[0];
    let mut i = 1;
    while i < N {
        sum = fma::<F>(sum, x, coefficients[i]);
        i += 1;
    }
    sum
}

/// [`horner`] in f64.
#[inline(always)]
pub(super) fn horner_f64<const F: bool, const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[0];
    let mut i = 1;
    while i < N {
        sum = fma_f64::<F>(sum, x, coefficients[i]);
        i += 1;
    }
    sum
}

/// The magnitude of `x`, by its bits.
#[inline(always)]
pub fn abs(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & 0x7fff_ffff)
}

/// The magnitude of `x` with the sign of `sign`, by their bits.
#[inline(always)]
pub fn copysign(x: f32, sign: f32) -> f32 {
    f32::from_bits((x.to_bits() & 0x7fff_ffff) | (sign.to_bits() & 0x8000_0000))
}

/// One with the sign of `x` (so ±1 for ±0 as in `f32::signum`), NaN for NaN.
#[inline(always)]
pub fn signum(x: f32) -> f32 {
    let one = copysign(1.0, x);
    if x.is_nan() { x } else { one }
}

/// `1 / sqrt(x)`: two correctly rounded steps, 1.5 ulp at most.
#[inline(always)]
pub fn rsqrt<const F: bool>(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// `sqrt(x² + y²)`, infinite if either side is, NaN or not. In f64 neither square overflows nor vanishes.
#[inline(always)]
pub fn hypot<const F: bool>(x: f32, y: f32) -> f32 {
    let (wide_x, wide_y) = (f64::from(x), f64::from(y));
    let root = fma_f64::<F>(wide_x, wide_x, wide_y * wide_y).sqrt() as f32;
    let root = if abs(x) == f32::INFINITY { f32::INFINITY } else { root };
    if abs(y) == f32::INFINITY { f32::INFINITY } else { root }
}
