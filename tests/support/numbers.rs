//! Numbers for tests.

/// Reproducible values in -2..2 that hit no simple pattern.
pub(crate) fn values(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    (0..n).map(|_| (next() >> 8) as f32 / (1 << 22) as f32 - 2.0).collect()
}
