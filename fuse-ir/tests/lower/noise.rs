//! Elements of tensors that look random.

use fuse_ir::dtype::{DType, Value};

/// Numbers between −1 and 1, or whole ones between −90 and 90, that look random.
pub(super) fn noise(seed: u64, dtype: DType, len: usize) -> Vec<Value> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    let scale = if dtype.is_float() { 1.0 } else { 90.0 };
    (0..len).map(|_| Value::F64(next() * scale).cast(dtype)).collect()
}
