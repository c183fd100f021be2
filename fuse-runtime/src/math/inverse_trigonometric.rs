//! Inverse trigonometric functions, in f32 throughout.

use super::arithmetic::{abs, copysign, fma, horner};
use core::f32::consts::{FRAC_PI_2, PI};

/// π/2 less its f32.
const FRAC_PI_2_LOW: f32 = -4.371_139e-8;
/// π less its f32.
const PI_LOW: f32 = -8.742_278e-8;

/// Of a magnitude a up to one `(s, p, is_upper)` with asin s = s + s p: s is a itself up to a half, above it √((1-a)/2),
/// as asin a = π/2 - 2 asin s. The fit is good to 0.09 ulp.
#[inline(always)]
fn reduce_asin<const F: bool>(magnitude: f32) -> (f32, f32, bool) {
    let upper = magnitude > 0.5;
    let square = if upper { fma::<F>(magnitude, -0.5, 0.5) } else { magnitude * magnitude };
    let s = if upper { square.sqrt() } else { magnitude };
    let p = horner::<F, 5>(square, [0.042_218_585, 0.024_147_592, 0.045_477_1, 0.074_952_416, 0.166_667_54]);
    (s, p * square, upper)
}

/// The angle in [-π/2, π/2] whose sine is `x`; NaN beyond ±1.
#[inline(always)]
pub fn asin<const F: bool>(x: f32) -> f32 {
    let (s, p, upper) = reduce_asin::<F>(abs(x));
    let twice = s + s;
    // asin s stays in two parts, and what the first difference loses (exactly this) goes into the second: the rounding
    // of either would count double here.
    let first = FRAC_PI_2 - twice;
    let lost = (FRAC_PI_2 - first) - twice;
    let outer = first - (fma::<F>(twice, p, -FRAC_PI_2_LOW) - lost);
    copysign(if upper { outer } else { fma::<F>(s, p, s) }, x)
}

/// The angle in [0, π] whose cosine is `x`; NaN beyond ±1.
#[inline(always)]
pub fn acos<const F: bool>(x: f32) -> f32 {
    let (s, p, upper) = reduce_asin::<F>(abs(x));
    let half = fma::<F>(s, p, s);
    let twice = half + half;
    let central = FRAC_PI_2 - (copysign(half, x) - FRAC_PI_2_LOW);
    let outer = if x < 0.0 { PI - (twice - PI_LOW) } else { twice };
    if upper { outer } else { central }
}

/// The arc tangent of q in [0, 1]. The fit is good to 0.05 ulp.
#[inline(always)]
fn atan_of_octant<const F: bool>(q: f32) -> f32 {
    let square = q * q;
    let p = horner::<F, 9>(
        square,
        [
            -0.001_793_635_7,
            0.010_914_669,
            -0.031_177_964,
            0.057_957_713,
            -0.084_034_57,
            0.109_521_88,
            -0.142_642_42,
            0.199_985_49,
            -0.333_333,
        ],
    );
    fma::<F>(p * square, q, q)
}

/// The angle in [-π/2, π/2] whose tangent is `x`.
#[inline(always)]
pub fn atan<const F: bool>(x: f32) -> f32 {
    let magnitude = abs(x);
    let steep = magnitude > 1.0;
    let q = (if steep { 1.0 } else { magnitude }) / (if steep { magnitude } else { 1.0 });
    let p = atan_of_octant::<F>(q);
    let result = if steep { FRAC_PI_2 - (p - FRAC_PI_2_LOW) } else { p };
    copysign(result, x)
}

/// The angle of the point (x, y), counted from the positive x axis, in [-π, π]; signed zeros as in `f32::atan2`.
#[inline(always)]
pub fn atan2<const F: bool>(y: f32, x: f32) -> f32 {
    let (height, width) = (abs(y), abs(x));
    let steep = height > width;
    let smaller = if steep { width } else { height };
    let larger = if steep { height } else { width };
    let q = smaller / larger;
    // Both zero counts as an angle of zero, both infinite as the diagonal; a NaN equals nothing and stays.
    let diagonal = if height == 0.0 { 0.0 } else { 1.0 };
    let q = if height == width { diagonal } else { q };
    let p = atan_of_octant::<F>(q);
    let left = (x.to_bits() >> 31) != 0;
    // The angle is `base` plus or minus p, by octant.
    let base = if left { PI } else { 0.0 };
    let base_low = if left { PI_LOW } else { 0.0 };
    let base = if steep { FRAC_PI_2 } else { base };
    let base_low = if steep { FRAC_PI_2_LOW } else { base_low };
    let signed = if steep != left { -p } else { p };
    copysign(base + (signed + base_low), y)
}
