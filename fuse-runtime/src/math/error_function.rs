//! The error function and its complement.

use super::arithmetic::{abs, copysign, fma, horner, horner_f64};
use super::exponential::{exp_normal, exp_wide};

/// The error function: an odd polynomial below 0.92, `1 - e^q(x)` above, where the polynomial q fits `ln(1 - erf x)`
/// up to 4, beyond which the result is one.
#[inline(always)]
pub fn erf<const F: bool>(x: f32) -> f32 {
    let magnitude = abs(x);
    let square = x * x;
    let p = horner::<F, 7>(
        square,
        [
            8.002_782e-5,
            -8.050_804_6e-4,
            5.192_460_5e-3,
            -2.685_574e-2,
            0.112_836_26,
            -0.376_126_3,
            0.128_379_17,
        ],
    );
    let small = fma::<F>(p, x, x);
    let bounded = if magnitude > 4.0 { 4.0 } else { magnitude };
    let q = horner::<F, 7>(
        bounded,
        [
            1.982_347_3e-4,
            -3.065_597e-3,
            2.231_551_1e-2,
            -0.104_114_1,
            -0.636_975_77,
            -1.127_797_4,
            -1.664_281_9e-4,
        ],
    );
    let large = copysign(1.0 - exp_normal::<F>(q), x);
    // The last copysign keeps -0, where the sum above has +0.
    copysign(if magnitude < 0.92 { small } else { large }, x)
}

/// The complement of the error function, `1 - erf(x)` without cancellation, down to denormal results.
///
/// In f64, as `e^-x² g(x) / (1 + 2x)` for a magnitude, with g a polynomial in `(x-3)/(x+3)` (fit good to 0.04 ulp) up to
/// 10.2, beyond which the result is zero; the magnitude's result is taken from 2 for a negative `x`.
#[inline(always)]
pub fn erfc<const F: bool>(x: f32) -> f32 {
    let magnitude = abs(x);
    let bounded = f64::from(if magnitude > 10.2 { 10.2 } else { magnitude });
    let t = (bounded - 3.0) / (bounded + 3.0);
    let p = horner_f64::<F, 11>(
        t,
        [
            -2.671_793_015_182_986_6e-4,
            -7.751_162_293_823_501e-4,
            2.003_355_020_124_150_2e-3,
            2.566_561_371_993_652_1e-3,
            -2.379_853_949_552_191_2e-2,
            6.829_574_980_264_032e-2,
            -0.119_270_795_358_477_7,
            0.129_646_433_685_986_54,
            -4.756_240_966_066_159e-2,
            -0.135_621_140_130_717_27,
            1.253_008_059_216_554,
        ],
    );
    let tail = exp_wide::<F>(-bounded * bounded) * p / (1.0 + 2.0 * bounded);
    let result = if x < 0.0 { 2.0 - tail } else { tail };
    if x.is_nan() { x } else { result as f32 }
}
