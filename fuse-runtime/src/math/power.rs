//! Powers and the cube root.

use super::arithmetic::{abs, fma_f64};
use super::exponential::exp_wide;
use super::logarithm::log2_wide;

/// x^y in f64 as 2^(y log2 |x|), to about 1e-10, and the sign apart; with the special values of `f32::powf`.
#[inline(always)]
fn signed_power<const F: bool>(x: f32, y: f64, y_is_integer: bool, y_is_odd: bool) -> f32 {
    let magnitude = f64::from(abs(x));
    let finite = magnitude < f64::INFINITY;
    let log = log2_wide::<F>(magnitude);
    let log = if finite { log } else { magnitude };
    let log = if magnitude == 0.0 { f64::NEG_INFINITY } else { log };
    let exponent = log * y;
    // One to any power and anything to the power of zero are one, also where the other is infinite or NaN.
    let exponent = if (log == 0.0) | (y == 0.0) { 0.0 } else { exponent };
    // 2^±300 is infinite or zero in f32. A NaN passes.
    let exponent = if exponent > 300.0 { 300.0 } else { exponent };
    let exponent = if exponent < -300.0 { -300.0 } else { exponent };
    let power = exp_wide::<F>(exponent * core::f64::consts::LN_2) as f32;
    // A negative base has a real power only for an integer exponent; the infinite one counts as the limit it has.
    let undefined = (x < 0.0) & finite & !y_is_integer;
    let power = if undefined & (y != 0.0) { f32::NAN } else { power };
    let sign = if y_is_odd { x.to_bits() & 0x8000_0000 } else { 0 };
    f32::from_bits(power.to_bits() ^ sign)
}

/// x^y, in f64 throughout, with the special values of `f32::powf`.
#[inline(always)]
pub fn powf<const F: bool>(x: f32, y: f32) -> f32 {
    // From 2^24 on every f32 is an even integer.
    const EVEN: f32 = 16_777_216.0;
    let large = abs(y) >= EVEN;
    let bounded = if abs(y) < EVEN { y } else { EVEN };
    // SAFETY: the value is at most 2^24 in magnitude, and not NaN, for which the comparison does not hold.
    let whole: i32 = unsafe { bounded.to_int_unchecked() };
    let y_is_integer = large | (whole as f32 == y);
    signed_power::<F>(x, f64::from(y), y_is_integer, y_is_integer & (whole & 1 != 0))
}

/// x^n. Exponents up to 31 by products in f64 (-1 to 4 of them in f32, so that `powi(x, 2)` is `x * x`), larger ones as
/// `powf`; all but the one taken vanish when `n` is a constant.
#[inline(always)]
pub fn powi<const F: bool>(x: f32, n: i32) -> f32 {
    let square = x * x;
    let wide = f64::from(x);
    let count = n.unsigned_abs();
    // The product of the powers x^1, x^2, x^4, x^8, x^16 whose bits are set.
    let mut product = 1.0;
    let mut factor = wide;
    let mut bit = 1;
    while bit < 32 {
        product = if count & bit != 0 { product * factor } else { product };
        factor *= factor;
        bit <<= 1;
    }
    let product = if n < 0 { 1.0 / product } else { product };
    let power = signed_power::<F>(x, f64::from(n), true, n & 1 != 0);
    let power = if count < 32 { product as f32 } else { power };
    let power = if n == 4 { square * square } else { power };
    let power = if n == 3 { square * x } else { power };
    let power = if n == 2 { square } else { power };
    let power = if n == 1 { x } else { power };
    let power = if n == 0 { 1.0 } else { power };
    if n == -1 { 1.0 / x } else { power }
}

/// The cube root: an estimate by a third of the exponent, good to 5 bits, and two of Halley's steps in f64.
#[inline(always)]
pub fn cbrt<const F: bool>(x: f32) -> f32 {
    let a = f64::from(abs(x));
    // Every f32 is a normal f64. The upper half of the bits suffices: its third is a 32-bit division by a constant.
    let upper = (a.to_bits() >> 32) as u32;
    let estimate = f64::from_bits(u64::from((upper / 3).wrapping_add(715_094_163)) << 32);
    let halley = |t: f64| {
        let cube = t * t * t;
        t * fma_f64::<F>(2.0, a, cube) / fma_f64::<F>(2.0, cube, a)
    };
    let root = halley(halley(estimate)) as f32;
    let root = f32::from_bits(root.to_bits() | (x.to_bits() & 0x8000_0000));
    if (x == 0.0) | x.is_nan() | (abs(x) == f32::INFINITY) { x } else { root }
}
