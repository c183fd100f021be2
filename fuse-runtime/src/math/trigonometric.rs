//! Sine, cosine and tangent, for arguments of every size.

use super::arithmetic::{fma, fma_f64, horner, horner_f64};
use super::exponential::ROUND_F64;
use core::hint::select_unpredictable;

/// 2/π times 2^(27 j) modulo 4, within ±2, in three parts: up to 2^-27, up to 2^-56, and what follows (53 bits).
///
/// An f32 times one of the first two parts is exact in f64.
const TWO_OVER_PI: [[f64; 3]; 4] = [
    [0.6366197690367699, 3.3308114738561656e-9, 2.276010073078396e-18],
    [-0.5529460534453392, 2.168126039814311e-9, 1.0330342399379403e-17],
    [1.291000947356224, 5.111805381763368e-9, 3.0053182646326145e-18],
    [-1.3139050975441933, 2.2660121279383105e-9, 1.0688538751642284e-17],
];

/// `(r, q)`: x = (q + r) π/2 with |r| <= 1/2 and the low two bits of q right.
///
/// This is Payne and Hanek's method with floats for digits. From 2^50 on x is a multiple of 2^27, of which y = x/2^27 is
/// what multiplies 2^27 · 2/π, and multiples of 4 (whole turns) may be left out of that factor; likewise from 2^77 and
/// 2^104 on. So y stays below 2^50, four windows of 2/π serve all exponents of an f32, and the window is chosen by
/// selects: every argument takes the same path. The products with the two upper parts are exact, so are their fractions,
/// and the absolute error of r is about 2^-57; the f32 nearest to a multiple of π/2 is 2^-30 away from it.
#[inline(always)]
fn reduce(x: f32) -> (f64, u32) {
    const STEP: f64 = 134_217_728.0;
    const FIRST: f64 = 1_125_899_906_842_624.0;
    let x = f64::from(x);
    let magnitude = x.abs();
    let beyond = [magnitude >= FIRST, magnitude >= FIRST * STEP, magnitude >= FIRST * STEP * STEP];
    // Ordinary ifs on the same conditions would be gathered into branches, which end vectorisation.
    let choose = |of_windows: [f64; 4]| {
        let [first, second, third, fourth] = of_windows;
        let chosen = select_unpredictable(beyond[0], second, first);
        let chosen = select_unpredictable(beyond[1], third, chosen);
        select_unpredictable(beyond[2], fourth, chosen)
    };
    let y = x * choose([1.0, 1.0 / STEP, 1.0 / (STEP * STEP), 1.0 / (STEP * STEP * STEP)]);
    let part = |i: usize| choose(TWO_OVER_PI.map(|window| window[i]));
    let high = y * part(0);
    let middle = y * part(1);
    let low = y * part(2);
    let shifted_high = high + ROUND_F64;
    let shifted_middle = middle + ROUND_F64;
    let fraction = (high - (shifted_high - ROUND_F64)) + (middle - (shifted_middle - ROUND_F64));
    let shifted_fraction = fraction + ROUND_F64;
    let r = (fraction - (shifted_fraction - ROUND_F64)) + low;
    // The low bits of each shifted value are those of the integer it was rounded to.
    let quadrant = (shifted_high.to_bits() as u32)
        .wrapping_add(shifted_middle.to_bits() as u32)
        .wrapping_add(shifted_fraction.to_bits() as u32);
    (r, quadrant)
}

/// `sin((q + r) π/2)`. The fits are good to 0.06 ulp (sine) and 0.01 ulp (cosine).
#[inline(always)]
fn sin_of_quadrant<const F: bool>(r: f64, quadrant: u32) -> f32 {
    let r = (r * core::f64::consts::FRAC_PI_2) as f32;
    let square = r * r;
    let p = horner::<F, 3>(square, [-1.951_859_9e-4, 8.332_191e-3, -0.166_666_55]);
    let sine = fma::<F>(p * square, r, r);
    let p = horner::<F, 3>(square, [2.443_243_3e-5, -1.388_731e-3, 4.166_664_6e-2]);
    let cosine = fma::<F>(p * square, square, fma::<F>(square, -0.5, 1.0));
    let value = if quadrant & 1 == 0 { sine } else { cosine };
    f32::from_bits(value.to_bits() ^ ((quadrant & 2) << 30))
}

/// The sine of `x` radians.
#[inline(always)]
pub fn sin<const F: bool>(x: f32) -> f32 {
    let (r, quadrant) = reduce(x);
    let sine = sin_of_quadrant::<F>(r, quadrant);
    if x == 0.0 { x } else { sine }
}

/// The cosine of `x` radians.
#[inline(always)]
pub fn cos<const F: bool>(x: f32) -> f32 {
    let (r, quadrant) = reduce(x);
    sin_of_quadrant::<F>(r, quadrant.wrapping_add(1))
}

/// The tangent of `x` radians, as a quotient in f64 (fits good to 1e-13).
#[inline(always)]
pub fn tan<const F: bool>(x: f32) -> f32 {
    let (r, quadrant) = reduce(x);
    let r = r * core::f64::consts::FRAC_PI_2;
    let square = r * r;
    let p = horner_f64::<F, 5>(
        square,
        [
            -2.476_140_680_573_564_8e-8,
            2.755_535_444_917_081_8e-6,
            -1.984_126_380_784_272e-4,
            8.333_333_325_244_99e-3,
            -0.166_666_666_666_314_5,
        ],
    );
    let sine = fma_f64::<F>(p * square, r, r);
    let p = horner_f64::<F, 4>(
        square,
        [
            -2.755_551_948_398_388e-7,
            2.480_158_068_729_865_5e-5,
            -1.388_888_887_756_602e-3,
            4.166_666_666_659_618e-2,
        ],
    );
    let cosine = fma_f64::<F>(p * square, square, fma_f64::<F>(square, -0.5, 1.0));
    let odd = quadrant & 1 != 0;
    let numerator = if odd { -cosine } else { sine };
    let denominator = if odd { sine } else { cosine };
    let tangent = (numerator / denominator) as f32;
    if x == 0.0 { x } else { tangent }
}
