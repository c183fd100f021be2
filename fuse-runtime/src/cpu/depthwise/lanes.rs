//! Sums over taps of some rows and lanes at once.

use super::super::instruction_set::InstructionSet;
use super::super::vector::{Plain, Vector};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m512};

/// Rows whose sums stay in registers.
const ROWS: usize = 6;
/// Vectors of lanes that do with them.
const VECTORS: usize = 2;

/// One tap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tap {
    /// The element of the first row and lane; lanes are neighbours.
    pub(super) source: *const f32,
    /// From one row to the next.
    pub(super) step: isize,
    /// What it is multiplied by: one number, or one for each lane.
    pub(super) filter: *const f32,
}

/// `sums[row][lane] = Σ source[row][lane] · filter[lane]` over the taps in order, the sums row-major without gaps.
pub(super) struct Lanes<'a> {
    pub(super) taps: &'a [Tap],
    /// Whether a tap of the filter is one number for all lanes.
    pub(super) shared: bool,
    pub(super) rows: usize,
    pub(super) lanes: usize,
    pub(super) sums: *mut f32,
}

/// Computes the sums.
///
/// # Safety
/// Taps are readable and sums writable for that many rows and lanes; the processor has the instruction set.
pub(super) unsafe fn sum(set: InstructionSet, l: &Lanes<'_>) {
    // SAFETY: by the contract.
    unsafe {
        match set {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => sum_avx512(l),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => sum_avx2(l),
            _ => sum_lanes::<Plain>(l),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn sum_avx512(l: &Lanes<'_>) {
    // SAFETY: by the contract of `sum`.
    unsafe { sum_lanes::<__m512>(l) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn sum_avx2(l: &Lanes<'_>) {
    // SAFETY: by the contract of `sum`.
    unsafe { sum_lanes::<__m256>(l) }
}

#[inline(always)]
unsafe fn sum_lanes<V: Vector>(l: &Lanes<'_>) {
    // SAFETY: by the contract of `sum`.
    unsafe { if l.shared { sum_vectors::<V, true>(l) } else { sum_vectors::<V, false>(l) } }
}

/// `SHARED` says that a tap of the filter is one number.
#[inline(always)]
unsafe fn sum_vectors<V: Vector, const SHARED: bool>(l: &Lanes<'_>) {
    let mut lane = 0;
    // SAFETY: by the contract of `sum`.
    unsafe {
        while l.lanes - lane >= VECTORS * V::WIDTH {
            sum_columns::<V, VECTORS, SHARED, true>(l, lane, V::first(0));
            lane += VECTORS * V::WIDTH;
        }
        while lane < l.lanes {
            let count = (l.lanes - lane).min(V::WIDTH);
            match count == V::WIDTH {
                true => sum_columns::<V, 1, SHARED, true>(l, lane, V::first(0)),
                false => sum_columns::<V, 1, SHARED, false>(l, lane, V::first(count)),
            }
            lane += count;
        }
    }
}

/// All rows of `N` vectors of lanes, in blocks of about equal height.
#[inline(always)]
unsafe fn sum_columns<V: Vector, const N: usize, const SHARED: bool, const WHOLE: bool>(
    l: &Lanes<'_>,
    lane: usize,
    some: V::Lanes,
) {
    let mut row = 0;
    while row < l.rows {
        let left = l.rows - row;
        let height = left.div_ceil(left.div_ceil(ROWS));
        // SAFETY: by the contract of `sum`.
        unsafe {
            match height {
                6.. => sum_block::<V, 6, N, SHARED, WHOLE>(l, row, lane, some),
                5 => sum_block::<V, 5, N, SHARED, WHOLE>(l, row, lane, some),
                4 => sum_block::<V, 4, N, SHARED, WHOLE>(l, row, lane, some),
                3 => sum_block::<V, 3, N, SHARED, WHOLE>(l, row, lane, some),
                2 => sum_block::<V, 2, N, SHARED, WHOLE>(l, row, lane, some),
                _ => sum_block::<V, 1, N, SHARED, WHOLE>(l, row, lane, some),
            }
        }
        row += height;
    }
}

/// `WHOLE` says that these are all lanes of the vectors: reading and writing some of them is slow.
#[inline(always)]
unsafe fn sum_block<V: Vector, const R: usize, const N: usize, const SHARED: bool, const WHOLE: bool>(
    l: &Lanes<'_>,
    row: usize,
    lane: usize,
    some: V::Lanes,
) {
    // SAFETY: by the contract of `sum`.
    unsafe {
        let load = |from: *const f32| match WHOLE {
            true => V::load(from),
            false => V::load_lanes(from, some),
        };
        let mut sums = [[V::splat(0.0); N]; R];
        for tap in l.taps {
            let mut filter = [V::splat(0.0); N];
            for (v, filter) in filter.iter_mut().enumerate() {
                *filter = match SHARED {
                    true => V::splat(*tap.filter),
                    false => load(tap.filter.add(lane + v * V::WIDTH)),
                };
            }
            let mut source = tap.source.offset(row as isize * tap.step).add(lane);
            for sums in &mut sums {
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = load(source.add(v * V::WIDTH)).multiply_add(filter[v], *sum);
                }
                source = source.wrapping_offset(tap.step);
            }
        }
        for (r, sums) in sums.into_iter().enumerate() {
            let to = l.sums.add((row + r) * l.lanes + lane);
            for (v, sum) in sums.into_iter().enumerate() {
                match WHOLE {
                    true => sum.store(to.add(v * V::WIDTH)),
                    false => sum.store_lanes(to, some),
                }
            }
        }
    }
}
