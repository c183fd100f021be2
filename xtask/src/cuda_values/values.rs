//! Edge values of each dtype, their bytes, and when two values agree.

use fuse_ir::dtype::{DType, Value};

/// Values of a dtype at which operations go wrong if they do.
pub(super) fn edge_values(dtype: DType) -> Vec<Value> {
    match dtype {
        DType::F32 => singles().into_iter().map(Value::F32).collect(),
        DType::F64 => doubles().into_iter().map(Value::F64).collect(),
        DType::Bool => vec![Value::Bool(false), Value::Bool(true)],
        dtype => integers(dtype),
    }
}

fn singles() -> Vec<f32> {
    let mut all = vec![
        0.5,
        1.5,
        2.5,
        0.1,
        3.7,
        0.0,
        1.0,
        2.0,
        3.0,
        1e-45,
        f32::MIN_POSITIVE,
        5.9e-39,
        f32::MAX,
        f32::INFINITY,
        127.5,
        128.0,
        255.5,
        256.0,
        32767.5,
        65504.0,
        65520.0,
        448.0,
        464.0,
        57344.0,
        61440.0,
        1e30,
        100.3,
        88.72,
        103.9,
        0.99999994,
        1.0000001,
        16777217.0,
        8388607.5,
        2147483648.0,
        4294967296.0,
        9.223372e18,
        1.8446744e19,
        0.875,
        0.92,
        1e-5,
        7.0,
        0.0009765625,
        0.000_977_516_2,
        6.1e-5,
        3.0e-8,
        1.001_953_1,
        1.000_488_3,
        2147483520.0,
        10.2,
        1e10,
        3e25,
    ];
    all.extend(all.clone().iter().map(|x| -x));
    all.push(f32::NAN);
    all
}

fn doubles() -> Vec<f64> {
    let mut all: Vec<f64> = singles().into_iter().map(f64::from).collect();
    let tiny = 2f64.powi(-40);
    // Next to ties of the narrow formats, where rounding twice differs from rounding once.
    let near_ties =
        [1.0 + 2f64.powi(-11), 1.0 + 2f64.powi(-8), 1.0625, 1.125, 2f64.powi(-25), 2f64.powi(-24) * 1.5];
    for x in near_ties {
        all.extend([x + x * tiny, x - x * tiny, -(x + x * tiny), x]);
    }
    all.extend([
        1e300,
        -1e300,
        1e-300,
        4294967295.5,
        -0.9999999,
        9007199254740993.0,
        5e-324,
        2147483647.5,
        1e39,
    ]);
    all
}

fn integers(dtype: DType) -> Vec<Value> {
    let bits = dtype.size() as u32 * 8;
    let (least, greatest) = match dtype.is_signed_int() {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    let near = [0, 1, 2, 3, 5, 7, 10, 31, 32, 33, 63, 64, 100, -1, -2, -3, -7, -10, -31, -100];
    let near = near.into_iter().filter(|n| (least..=greatest).contains(n));
    let ends = [least, least + 1, greatest, greatest - 1, greatest / 2, greatest / 3, (greatest / 2) + 1];
    let mut all: Vec<i128> = near.chain(ends).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().filter_map(|n| Value::from_i128(dtype, n)).collect()
}

/// Some of the values, spread over them.
pub(super) fn some(values: Vec<Value>, count: usize) -> Vec<Value> {
    let step = values.len().div_ceil(count).max(1);
    let last = values.last().copied();
    let mut some: Vec<Value> = values.into_iter().step_by(step).collect();
    some.extend(last);
    some
}

/// The bytes of a value in memory.
pub(super) fn to_bytes(value: Value) -> Vec<u8> {
    match value {
        Value::F64(x) => x.to_le_bytes().into(),
        Value::F32(x) => x.to_le_bytes().into(),
        Value::Bool(x) => vec![u8::from(x)],
        other => other.as_i128().unwrap_or(0).to_le_bytes()[..other.dtype().size()].into(),
    }
}

/// The value with these bytes.
pub(super) fn from_bytes(dtype: DType, bytes: &[u8]) -> Value {
    let mut wide = [0; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = u128::from_le_bytes(wide);
    match dtype {
        DType::F64 => Value::F64(f64::from_bits(bits as u64)),
        DType::F32 => Value::F32(f32::from_bits(bits as u32)),
        DType::Bool if bits < 2 => Value::Bool(bits == 1),
        DType::Bool => Value::U8(bits as u8),
        dtype => Value::from_i128(dtype, bits as i128).unwrap_or(Value::Bool(false)),
    }
}

/// Whether the values are equal to the bit, but for the kind of a NaN, or within so many units in the last place.
pub(super) fn agree(found: Value, want: Value, ulps: u64) -> bool {
    let (Some(a), Some(b)) = (found.as_f64(), want.as_f64()) else { return found == want };
    if a.is_nan() || b.is_nan() {
        return a.is_nan() && b.is_nan();
    }
    let order =
        |bits: u64, sign: u64| if bits & sign != 0 { -((bits & !sign) as i128) } else { bits as i128 };
    let (a, b) = match (found, want) {
        (Value::F32(a), Value::F32(b)) if ulps == 0 => (i128::from(a.to_bits()), i128::from(b.to_bits())),
        (Value::F64(a), Value::F64(b)) if ulps == 0 => (i128::from(a.to_bits()), i128::from(b.to_bits())),
        (Value::F32(a), Value::F32(b)) => {
            (order(a.to_bits().into(), 1 << 31), order(b.to_bits().into(), 1 << 31))
        }
        (Value::F64(a), Value::F64(b)) => (order(a.to_bits(), 1 << 63), order(b.to_bits(), 1 << 63)),
        _ => return false,
    };
    a.abs_diff(b) <= u128::from(ulps)
}
