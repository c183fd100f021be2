//! Powers and the cube root.

use super::arithmetic::{abs, fma_f64};
use super::exponential::exp_wide;
use super::logarithm::log2_wide;

/// `|x|^y` in f64, to about 1e-10, for nonzero finite x. Results beyond f32 come out as 2^±300.
#[inline(always)]
fn magnitude_power<const F: bool>(x: f64, y: f64) -> f64 {
    let exponent = log2_wide::<F>(x) * y;
    let exponent = if exponent > 300.0 { 300.0 } else { exponent };
    let exponent = if exponent < -300.0 { -300.0 } else { exponent };
    exp_wide::<F>(exponent * core::f64::consts::LN_2)
}

/// What a power is when the magnitude of its base is zero or infinite, and when its exponent is zero or the base one.
#[inline(always)]
fn complete_power(x: f32, y: f32, y_is_integer: bool, y_is_odd: bool, power: f32) -> f32 {
    let magnitude = abs(x);
    let grows = (magnitude > 1.0) == (y > 0.0);
    let limit = if grows { f32::INFINITY } else { 0.0 };
    let extreme = (magnitude == 0.0) | (magnitude == f32::INFINITY) | (abs(y) == f32::INFINITY);
    let power = if extreme { limit } else { power };
    // A negative base has a real power only for an integer exponent.
    let undefined = (x < 0.0) & !y_is_integer & (magnitude < f32::INFINITY);
    let power = if undefined { f32::NAN } else { power };
    let sign = if y_is_odd { x.to_bits() & 0x8000_0000 } else { 0 };
    let power = f32::from_bits(power.to_bits() ^ sign);
    let power = if x.is_nan() | y.is_nan() { f32::NAN } else { power };
    let one = (x == 1.0) | (y == 0.0) | ((x == -1.0) & (abs(y) == f32::INFINITY));
    if one { 1.0 } else { power }
}

/// x^y, in f64 as 2^(y log2 |x|), with the special values of `f32::powf`.
#[inline(always)]
pub fn powf<const F: bool>(x: f32, y: f32) -> f32 {
    let power = magnitude_power::<F>(f64::from(abs(x)), f64::from(y)) as f32;
    // From 2^24 on every f32 is an even integer; below, adding 2^52 rounds to an integer.
    const INTEGRAL: f64 = 4_503_599_627_370_496.0;
    let bounded = f64::from(if abs(y) > 16_777_216.0 { 16_777_216.0 } else { abs(y) });
    let y_is_integer = (bounded + INTEGRAL) - INTEGRAL == bounded;
    let half = bounded * 0.5;
    let y_is_odd = y_is_integer & ((half + INTEGRAL) - INTEGRAL != half);
    complete_power(x, y, y_is_integer, y_is_odd, power)
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
    let power = magnitude_power::<F>(f64::from(abs(x)), f64::from(n)) as f32;
    let power = complete_power(x, n as f32, true, n & 1 != 0, power);
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
