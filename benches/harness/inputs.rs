//! Seeded inputs and checksums. Inputs are a function of seed and position alone, so that other programs can make the
//! same ones.

use std::ops::{Deref, DerefMut};

/// Numbers that start at a cache line, as those of a tensor do: a floor must not be slower for want of that.
pub struct Aligned {
    data: Vec<f32>,
    start: usize,
    length: usize,
}

impl Aligned {
    /// `length` times `value`.
    pub fn filled(length: usize, value: f32) -> Self {
        let data = vec![value; length + 16];
        let start = data.as_ptr().align_offset(64);
        Aligned { data, start, length }
    }

    /// The same numbers.
    pub fn copied(numbers: &[f32]) -> Self {
        let mut aligned = Aligned::filled(numbers.len(), 0.0);
        aligned.copy_from_slice(numbers);
        aligned
    }
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.data[self.start..][..self.length]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.data[self.start..][..self.length]
    }
}

/// A well mixed word for each position (lowbias32).
fn hash(position: u32, seed: u32) -> u32 {
    let mut x = position.wrapping_add(seed.wrapping_mul(0x9E37_79B9));
    x ^= x >> 16;
    x = x.wrapping_mul(0x7FEB_352D);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846C_A68B);
    x ^ (x >> 16)
}

/// `n` numbers from `low` to `high`, evenly spread.
pub fn uniform(n: usize, seed: u32, low: f32, high: f32) -> Vec<f32> {
    let span = (f64::from(high) - f64::from(low)) as f32;
    let unit = 1.0 / (1 << 24) as f32;
    (0..n as u32).map(|k| (hash(k, seed) >> 8) as f32 * unit * span + low).collect()
}

/// `n` bytes, evenly spread.
pub fn signed_bytes(n: usize, seed: u32) -> Vec<i8> {
    (0..n as u32).map(|k| (hash(k, seed) >> 24) as u8 as i8).collect()
}

/// `sum |y| w` and `sum y w / sum |y| w` with `w = (1 + i % 251) / 251`, output `k` weighted by `k + 1`.
pub fn checksum(outputs: &[Vec<f32>]) -> (f64, f64) {
    let (mut magnitude, mut signed) = (0.0, 0.0);
    for (k, output) in outputs.iter().enumerate() {
        for (i, &y) in output.iter().enumerate() {
            let term = f64::from(y) * ((1 + i % 251) as f64 / 251.0) * (k + 1) as f64;
            magnitude += term.abs();
            signed += term;
        }
    }
    (magnitude, if magnitude == 0.0 { 0.0 } else { signed / magnitude })
}
