//! Random values: mostly ordinary ones, now and then every kind that goes wrong.

use super::Prng;
use crate::dtype::{DType, Value};
use crate::eval::Array;

/// How a tensor is filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filling {
    /// Whether NaN, infinities, denormals, zeros of both signs and extreme integers occur.
    pub(super) specials: bool,
}

pub(super) fn random_array(rng: &mut Prng, dtype: DType, shape: &[usize], filling: Filling) -> Array {
    let count = shape.iter().product();
    let data = (0..count).map(|_| random_value(rng, dtype, filling)).collect();
    Array { dtype, shape: shape.to_vec(), data }
}

pub(super) fn random_value(rng: &mut Prng, dtype: DType, filling: Filling) -> Value {
    let special = filling.specials && rng.one_in(8);
    if dtype == DType::Bool {
        return Value::Bool(rng.one_in(2));
    }
    if dtype.is_int() {
        let extremes =
            [i128::from(i64::MIN), i64::MAX.into(), i32::MIN.into(), i32::MAX.into(), u64::MAX.into()];
        let x = if special { rng.pick(&extremes) } else { rng.below(9) as i128 - 2 };
        // An unsigned type has no −2, which would be an extreme.
        let x = if !special && dtype.is_unsigned_int() { x.abs() } else { x };
        return Value::from_i128(dtype, x).unwrap_or(Value::zero(dtype));
    }
    let extremes = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        f64::from(f32::MIN_POSITIVE) / 8.0,
        -f64::from(f32::from_bits(1)),
        f64::from(f32::MAX),
        6.1e-5,
        -65504.0,
    ];
    let x = if special { rng.pick(&extremes) } else { rng.unit() * 8.0 - 4.0 };
    // Some round numbers, so that ties and equal elements occur.
    let x = if !special && rng.one_in(4) { x.round() } else { x };
    Value::F64(x).cast(dtype)
}
