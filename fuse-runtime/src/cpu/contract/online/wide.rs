//! Rows of exponents with AVX-512, bit for bit those of the portable form: greatest values in one instruction, and
//! exponentials that scale in one.

use super::super::super::combine::{Combine, Sum};
use super::super::super::instruction_set::first_lanes;
use crate::math::exp_avx512;
use fuse_ir::schedule::LANES;
use std::arch::x86_64::*;

/// Lanes of a vector.
const WIDTH: usize = 16;
const VECTORS: usize = LANES / WIDTH;

/// The greatest element of a row; NaN is passed over.
///
/// # Safety
/// The processor has AVX-512.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn greatest(row: &[f32]) -> f32 {
    let mut most = [_mm512_set1_ps(f32::NEG_INFINITY); VECTORS];
    let (whole, tail) = row.as_chunks::<LANES>();
    // Where one is NaN the second operand is taken.
    for chunk in whole {
        for (v, m) in most.iter_mut().enumerate() {
            // SAFETY: the vector lies in the chunk.
            *m = _mm512_max_ps(unsafe { _mm512_loadu_ps(chunk.as_ptr().add(v * WIDTH)) }, *m);
        }
    }
    for part in tail.chunks(WIDTH) {
        let mask = first_lanes(part.len());
        // SAFETY: the lanes of the mask lie in the part.
        most[0] =
            unsafe { _mm512_mask_max_ps(most[0], mask, _mm512_maskz_loadu_ps(mask, part.as_ptr()), most[0]) };
    }
    _mm512_reduce_max_ps(most.into_iter().reduce(|a, b| _mm512_max_ps(a, b)).unwrap_or(most[0]))
}

/// Puts `exp(x - c)` in place of `x` and gives the sum.
///
/// # Safety
/// The processor has AVX-512.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn exponentiate(row: &mut [f32], c: f32) -> f32 {
    let shift = _mm512_set1_ps(c);
    let mut sums = [_mm512_setzero_ps(); VECTORS];
    let (whole, tail) = row.as_chunks_mut::<LANES>();
    for chunk in whole {
        for (v, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the vector lies in the chunk.
            unsafe {
                let at = chunk.as_mut_ptr().add(v * WIDTH);
                let y = exp_avx512(_mm512_sub_ps(_mm512_loadu_ps(at), shift));
                _mm512_storeu_ps(at, y);
                *sum = _mm512_add_ps(*sum, y);
            }
        }
    }
    let mut lanes = [0.0; LANES];
    for (v, sum) in sums.into_iter().enumerate() {
        // SAFETY: the vector lies in the lanes.
        unsafe { _mm512_storeu_ps(lanes.as_mut_ptr().add(v * WIDTH), sum) };
    }
    let mut sum = Sum::fold(lanes);
    for part in tail.chunks_mut(WIDTH) {
        let mask = first_lanes(part.len());
        // SAFETY: the lanes of the mask lie in the part.
        unsafe {
            let x = _mm512_maskz_loadu_ps(mask, part.as_ptr());
            _mm512_mask_storeu_ps(part.as_mut_ptr(), mask, exp_avx512(_mm512_sub_ps(x, shift)));
        }
        part.iter().for_each(|y| sum += y);
    }
    sum
}
