//! Products of a few rows, for which packing them and a tile of results would cost as much as multiplying.
//!
//! The rows are read where they lie, one element for all lanes of a vector; the other source is packed, in panels of as many
//! columns as stay in registers, and serves any number of strips.

use super::super::instruction_set::InstructionSet;
use super::super::vector::Vector;
use super::multiply::Operand;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m512};

/// Rows that stay in registers.
const ROWS: usize = 6;
/// Vectors of columns that stay in registers with them: of 32 vectors, and of 16.
const VECTORS_OF_32: usize = 4;
const VECTORS_OF_16: usize = 2;

/// Columns of a panel; `None` if strips are not multiplied with the instruction set.
pub(super) fn panel(set: InstructionSet) -> Option<usize> {
    match set {
        InstructionSet::Avx512 => Some(16 * VECTORS_OF_32),
        InstructionSet::Avx2 => Some(8 * VECTORS_OF_16),
        InstructionSet::Baseline => None,
    }
}

/// `result[r][j] (+)= Σ left[r][k] · right[k][j]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strip {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
    /// Elements of f32.
    pub(super) left: Operand,
    /// The same in panels: a panel's columns are neighbours, and it has `side` elements for each of them.
    pub(super) right: Operand,
    pub(super) result: *mut f32,
    /// Elements from one row of the result to the next.
    pub(super) result_step: usize,
    /// Whether the products are added to what is there.
    pub(super) add: bool,
}

/// Elements of a packed source.
pub(super) fn packed_len(set: InstructionSet, columns: usize, depth: usize) -> usize {
    columns.next_multiple_of(panel(set).unwrap_or(1)) * depth
}

/// Whether a source of columns can be read where it lies: a panel's lines must not crowd a set of the cache.
pub(super) fn is_packed(set: InstructionSet, source: Operand, columns: usize) -> bool {
    let lies_close = set == InstructionSet::Avx512 || panel(set).is_some_and(|width| columns <= width);
    source.side == 1 && lies_close
}

/// Packs a source of columns into panels.
///
/// # Safety
/// The source has that many columns and reduced positions, and the target room for [`packed_len`].
pub(super) unsafe fn pack(set: InstructionSet, source: Operand, columns: usize, depth: usize, to: *mut f32) {
    let (width, from) = (panel(set).unwrap_or(1), source.data.cast::<f32>());
    for first in (0..columns).step_by(width) {
        let count = width.min(columns - first);
        let pack_one = |j: usize, k: usize| {
            // SAFETY: by the contract.
            unsafe {
                let x = *from.offset((first + j) as isize * source.side + k as isize * source.depth);
                *to.add(first * depth + k * width + j) = x;
            }
        };
        // In the order in which the source lies.
        if source.depth == 1 {
            (0..count).for_each(|j| (0..depth).for_each(|k| pack_one(j, k)));
        } else {
            (0..depth).for_each(|k| (0..count).for_each(|j| pack_one(j, k)));
        }
    }
}

/// A source as it was packed.
pub(super) fn packed(set: InstructionSet, data: *const f32, depth: usize) -> Operand {
    Operand { data: data.cast(), side: depth as isize, depth: panel(set).unwrap_or(1) as isize }
}

/// The products of a strip.
///
/// # Safety
/// The sources are readable, the result is writable and holds numbers if they are added to, and nothing else touches it. The
/// processor has the instruction set, and [`panel`] one for it.
pub(super) unsafe fn multiply(set: InstructionSet, s: Strip) {
    if s.depth == 0 {
        for r in (0..s.rows).filter(|_| !s.add) {
            // SAFETY: by the contract; zero bytes are zeros.
            unsafe { std::ptr::write_bytes(s.result.add(r * s.result_step), 0, s.columns) };
        }
        return;
    }
    // SAFETY: by the contract.
    unsafe {
        match set {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => multiply_avx512(&s),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => multiply_avx2(&s),
            _ => {}
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn multiply_avx512(s: &Strip) {
    // SAFETY: by the contract of `multiply`.
    unsafe { multiply_panels::<__m512, VECTORS_OF_32>(s) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn multiply_avx2(s: &Strip) {
    // SAFETY: by the contract of `multiply`.
    unsafe { multiply_panels::<__m256, VECTORS_OF_16>(s) }
}

#[inline(always)]
unsafe fn multiply_panels<V: Vector, const VECTORS: usize>(s: &Strip) {
    for first in (0..s.columns).step_by(VECTORS * V::WIDTH) {
        let columns = (s.columns - first).min(VECTORS * V::WIDTH);
        for row in (0..s.rows).step_by(ROWS) {
            // SAFETY: by the contract of `multiply`.
            unsafe {
                match columns.div_ceil(V::WIDTH) {
                    4.. => multiply_block::<V, 4>(s, row, first, columns),
                    3 => multiply_block::<V, 3>(s, row, first, columns),
                    2 => multiply_block::<V, 2>(s, row, first, columns),
                    _ => multiply_block::<V, 1>(s, row, first, columns),
                }
            }
        }
    }
}

/// Six rows, or those that are left, and `N` vectors of columns.
#[inline(always)]
unsafe fn multiply_block<V: Vector, const N: usize>(s: &Strip, row: usize, first: usize, columns: usize) {
    // SAFETY: by the contract of `multiply`.
    unsafe {
        match columns == N * V::WIDTH {
            true => multiply_lanes::<V, N, true>(s, row, first, columns),
            false => multiply_lanes::<V, N, false>(s, row, first, columns),
        }
    }
}

/// `WHOLE` says that these are all lanes of the vectors: reading and writing some of them is slow.
#[inline(always)]
unsafe fn multiply_lanes<V: Vector, const N: usize, const WHOLE: bool>(
    s: &Strip,
    row: usize,
    first: usize,
    columns: usize,
) {
    let rows = ROWS.min(s.rows - row);
    // SAFETY: by the contract of `multiply`; rows past the last repeat it and are not stored, lanes past the last are left out.
    unsafe {
        let mut lanes = [V::first(0); N];
        for (v, lanes) in lanes.iter_mut().enumerate().filter(|_| !WHOLE) {
            *lanes = V::first((columns - v * V::WIDTH).min(V::WIDTH));
        }
        let load = |from: *const f32, v: usize| match WHOLE {
            true => V::load(from),
            false => V::load_lanes(from, lanes[v]),
        };
        let mut left = [s.left.data.cast::<f32>(); ROWS];
        for (r, left) in left.iter_mut().enumerate() {
            *left = left.offset((row + r.min(rows - 1)) as isize * s.left.side);
        }
        let right = s.right.data.cast::<f32>().offset(first as isize * s.right.side);
        let mut sums = [[V::splat(0.0); N]; ROWS];
        for k in 0..s.depth as isize {
            let from = right.offset(k * s.right.depth);
            let mut columns = [V::splat(0.0); N];
            for (v, column) in columns.iter_mut().enumerate() {
                *column = load(from.add(v * V::WIDTH), v);
            }
            for (sums, left) in sums.iter_mut().zip(left) {
                let x = V::splat(*left.offset(k * s.left.depth));
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = x.multiply_add(column, *sum);
                }
            }
        }
        for (r, sums) in sums.into_iter().enumerate().take(rows) {
            let to = s.result.add((row + r) * s.result_step + first);
            for (v, sum) in sums.into_iter().enumerate() {
                let to = to.add(v * V::WIDTH);
                let total = if s.add { load(to, v).add(sum) } else { sum };
                match WHOLE {
                    true => total.store(to),
                    false => total.store_lanes(to, lanes[v]),
                }
            }
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn strips_of_every_shape_are_the_sums_of_products() {
        let shapes = [
            (1, 1, 1),
            (5, 17, 3),
            (6, 64, 7),
            (13, 100, 33),
            (24, 130, 64),
            (7, 48, 0),
            (2, 15, 9),
            (3, 8, 5),
        ];
        for set in InstructionSet::available() {
            if panel(set).is_some() {
                shapes.into_iter().for_each(|(rows, columns, depth)| check(set, rows, columns, depth));
            }
        }
    }

    fn check(set: InstructionSet, rows: usize, columns: usize, depth: usize) {
        let number = |k: usize| ((k * 37 + 11) % 23) as f32 - 11.0;
        let left: Vec<f32> = (0..rows * depth).map(number).collect();
        let right: Vec<f32> = (0..depth * columns).map(|k| number(k + 5)).collect();
        // The right source lies column by column, the left one position by position.
        let of = |data: &Vec<f32>, side, depth| Operand { data: data.as_ptr().cast(), side, depth };
        let mut memory = vec![f32::NAN; packed_len(set, columns, depth)];
        let mut result = vec![1.0; rows * (columns + 3)];
        // SAFETY: the vectors have these sizes; the processor has the instruction set.
        unsafe {
            let source = of(&right, depth as isize, 1);
            pack(set, source, columns, depth, memory.as_mut_ptr());
            let right = packed(set, memory.as_ptr(), depth);
            for add in [false, true] {
                let (left, result) = (of(&left, 1, rows as isize), result.as_mut_ptr());
                let result_step = columns + 3;
                multiply(set, Strip { rows, columns, depth, left, right, result, result_step, add });
            }
        }
        for r in 0..rows {
            for j in 0..columns + 3 {
                let sum: f32 =
                    (0..depth).map(|k| left[k * rows + r] * right.get(j * depth + k).unwrap_or(&0.0)).sum();
                let want = if j < columns { 2.0 * sum } else { 1.0 };
                assert_eq!(result[r * (columns + 3) + j], want, "{set} {rows} {columns} {depth}: {r}, {j}");
            }
        }
    }
}
