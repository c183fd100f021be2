//! The most multiply-adds that the machine does: independent chains of them in registers, on all cores.

use rayon::prelude::*;
use std::hint::black_box;

/// Chains that hide the latency of a multiply-add.
const CHAINS: usize = 12;

/// Does `count` multiply-adds of f32, all threads together.
pub fn multiply_and_add(count: usize) {
    let threads = rayon::current_num_threads();
    (0..threads).into_par_iter().with_max_len(1).for_each(|_| {
        black_box(spin(count / threads));
    });
}

/// A sum of every chain, so that none is left out.
fn spin(count: usize) -> f32 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the instruction set.
            return unsafe { spin_avx512(count) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has the instruction set.
            return unsafe { spin_avx2(count) };
        }
    }
    spin_lanes::<4, { cfg!(target_arch = "aarch64") }>(count)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
unsafe fn spin_avx512(count: usize) -> f32 {
    spin_lanes::<16, true>(count)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn spin_avx2(count: usize) -> f32 {
    spin_lanes::<8, true>(count)
}

/// `F` says that fused multiply-add is an instruction.
#[inline(always)]
fn spin_lanes<const W: usize, const F: bool>(count: usize) -> f32 {
    let (x, y) = (black_box([0.5f32; W]), black_box([0.25f32; W]));
    let mut sums = [[0.0f32; W]; CHAINS];
    for _ in 0..count / (CHAINS * W) {
        for sum in &mut sums {
            for k in 0..W {
                sum[k] = if F { x[k].mul_add(y[k], sum[k]) } else { x[k] * y[k] + sum[k] };
            }
        }
    }
    sums.iter().flatten().sum()
}
