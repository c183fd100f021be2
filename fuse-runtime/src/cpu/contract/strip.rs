//! Products of a few rows, for which packing them and a tile of results would cost as much as multiplying.
//!
//! The rows are read where they lie, one element for all lanes of a vector; the other source is packed, columns side by side,
//! and serves any number of strips. Six rows by four vectors of columns stay in registers.

#[cfg(target_arch = "x86_64")]
use super::super::instruction_set::first_lanes;
use super::multiply::Operand;

/// Rows and vectors of columns that stay in registers, and lanes of a vector.
const ROWS: usize = 6;
const VECTORS: usize = 4;
const WIDTH: usize = 16;

/// `result[r][j] (+)= Σ left[r][k] · right[k][j]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strip {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
    /// Elements of f32.
    pub(super) left: Operand,
    pub(super) right: *const f32,
    /// Elements from one reduced position of the right source to the next.
    pub(super) right_step: usize,
    pub(super) result: *mut f32,
    /// Elements from one row of the result to the next.
    pub(super) result_step: usize,
    /// Whether the products are added to what is there.
    pub(super) add: bool,
}

/// Packs a source of columns: `to[k][j]`, without gaps.
///
/// # Safety
/// The source has that many columns and reduced positions, and the target room for them.
pub(super) unsafe fn pack(source: Operand, columns: usize, depth: usize, to: *mut f32) {
    /// Columns whose elements of a cache line are moved together.
    const BLOCK: usize = 16;
    let from = source.data.cast::<f32>();
    for first in (0..columns).step_by(BLOCK) {
        let count = BLOCK.min(columns - first);
        for k in 0..depth {
            for j in first..first + count {
                // SAFETY: by the contract.
                unsafe {
                    let x = *from.offset(j as isize * source.side + k as isize * source.depth);
                    *to.add(k * columns + j) = x;
                }
            }
        }
    }
}

/// The products of a strip.
///
/// # Safety
/// The sources are readable, the result is writable and holds numbers if they are added to, and nothing else touches it. The
/// processor has AVX-512.
pub(super) unsafe fn multiply(s: Strip) {
    if s.depth == 0 {
        for r in (0..s.rows).filter(|_| !s.add) {
            // SAFETY: by the contract; zero bytes are zeros.
            unsafe { std::ptr::write_bytes(s.result.add(r * s.result_step), 0, s.columns) };
        }
        return;
    }
    for first in (0..s.columns).step_by(VECTORS * WIDTH) {
        let columns = (s.columns - first).min(VECTORS * WIDTH);
        for row in (0..s.rows).step_by(ROWS) {
            // SAFETY: by the contract.
            unsafe {
                match columns.div_ceil(WIDTH) {
                    4 => multiply_block::<4>(&s, row, first, columns),
                    3 => multiply_block::<3>(&s, row, first, columns),
                    2 => multiply_block::<2>(&s, row, first, columns),
                    _ => multiply_block::<1>(&s, row, first, columns),
                }
            }
        }
    }
}

/// Six rows, or those that are left, and `V` vectors of columns.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn multiply_block<const V: usize>(s: &Strip, row: usize, first: usize, columns: usize) {
    use std::arch::x86_64::{
        _mm512_add_ps, _mm512_fmadd_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_ps,
        _mm512_setzero_ps,
    };
    let rows = ROWS.min(s.rows - row);
    let masks: [u16; V] = std::array::from_fn(|v| first_lanes((columns - v * WIDTH).min(WIDTH)));
    // SAFETY: by the contract of `multiply`; rows past the last repeat it and are not stored, lanes past the last are masked.
    unsafe {
        let left: [*const f32; ROWS] = std::array::from_fn(|r| {
            s.left.data.cast::<f32>().offset((row + r.min(rows - 1)) as isize * s.left.side)
        });
        let right = s.right.add(first);
        let mut sums = [[_mm512_setzero_ps(); V]; ROWS];
        let mut add = |k: usize, masks: [u16; V]| {
            let from = right.add(k * s.right_step);
            let columns: [_; V] =
                std::array::from_fn(|v| _mm512_maskz_loadu_ps(masks[v], from.add(v * WIDTH)));
            for (sums, left) in sums.iter_mut().zip(left) {
                let x = _mm512_set1_ps(*left.offset(k as isize * s.left.depth));
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = _mm512_fmadd_ps(x, column, *sum);
                }
            }
        };
        if columns == V * WIDTH {
            (0..s.depth).for_each(|k| add(k, [u16::MAX; V]));
        } else {
            (0..s.depth).for_each(|k| add(k, masks));
        }
        for (r, sums) in sums.into_iter().enumerate().take(rows) {
            let to = s.result.add((row + r) * s.result_step + first);
            for (v, sum) in sums.into_iter().enumerate() {
                let (to, mask) = (to.add(v * WIDTH), masks[v]);
                let total = if s.add { _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sum) } else { sum };
                _mm512_mask_storeu_ps(to, mask, total);
            }
        }
    }
}

/// # Safety
/// As on x86-64; it is not called elsewhere, since only AVX-512 multiplies strips.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn multiply_block<const V: usize>(s: &Strip, row: usize, first: usize, columns: usize) {
    let left = s.left.data.cast::<f32>();
    for r in row..s.rows.min(row + ROWS) {
        for j in first..first + columns {
            // SAFETY: by the contract of `multiply`.
            unsafe {
                let product = |k: usize| {
                    *left.offset(r as isize * s.left.side + k as isize * s.left.depth)
                        * *s.right.add(k * s.right_step + j)
                };
                let to = s.result.add(r * s.result_step + j);
                *to = (0..s.depth).map(product).sum::<f32>() + if s.add { *to } else { 0.0 };
            }
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::super::super::instruction_set::InstructionSet;
    use super::*;

    #[test]
    fn strips_of_every_shape_are_the_sums_of_products() {
        if !InstructionSet::available().contains(&InstructionSet::Avx512) {
            return;
        }
        for (rows, columns, depth) in
            [(1, 1, 1), (5, 17, 3), (6, 64, 7), (13, 100, 33), (24, 130, 64), (7, 48, 0), (2, 15, 9)]
        {
            let number = |k: usize| ((k * 37 + 11) % 23) as f32 - 11.0;
            let left: Vec<f32> = (0..rows * depth).map(number).collect();
            let right: Vec<f32> = (0..depth * columns).map(|k| number(k + 5)).collect();
            // The right source lies column by column, the left one position by position.
            let of = |data: &Vec<f32>, side, depth| Operand { data: data.as_ptr().cast(), side, depth };
            let mut packed = vec![f32::NAN; depth * columns];
            let mut result = vec![1.0; rows * (columns + 3)];
            // SAFETY: the vectors have these sizes; the processor has AVX-512.
            unsafe {
                pack(of(&right, depth as isize, 1), columns, depth, packed.as_mut_ptr());
                for add in [false, true] {
                    multiply(Strip {
                        rows,
                        columns,
                        depth,
                        left: of(&left, 1, rows as isize),
                        right: packed.as_ptr(),
                        right_step: columns,
                        result: result.as_mut_ptr(),
                        result_step: columns + 3,
                        add,
                    });
                }
            }
            for r in 0..rows {
                for j in 0..columns + 3 {
                    let sum: f32 = (0..depth)
                        .map(|k| left[k * rows + r] * right.get(j * depth + k).unwrap_or(&0.0))
                        .sum();
                    let want = if j < columns { 2.0 * sum } else { 1.0 };
                    assert_eq!(result[r * (columns + 3) + j], want, "{rows} {columns} {depth}: {r}, {j}");
                }
            }
        }
    }
}
