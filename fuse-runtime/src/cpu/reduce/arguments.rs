//! `ArgMax` and `ArgMin`: the value and its position travel together.
//!
//! A NaN beats every number; of equals the smaller position wins, so the tree does not matter.

use super::super::instruction_set::InstructionSet;
use fuse_ir::dtype::DType;

/// `(values, positions, width, data, len, position of the first element, elements with the same position)`.
type ArgumentStep = unsafe fn(*mut u8, *mut i64, usize, *const u8, usize, i64, usize);
/// `(values, positions, width, other values, other positions, len)`.
type ArgumentCombine = unsafe fn(*mut u8, *mut i64, usize, *const u8, *const i64, usize);

/// The compiled functions of `ArgMax` or `ArgMin` over a dtype.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArgumentFns {
    pub(crate) step: ArgumentStep,
    pub(crate) combine: ArgumentCombine,
}

/// Whether `(x, p)` beats `(y, q)`. Integers differ from themselves never, so the NaN tests vanish for them.
#[inline(always)]
#[allow(clippy::eq_op, clippy::nonminimal_bool, reason = "x != x is the test for NaN, written for any type")]
fn beats<T: Copy + PartialOrd, const GREATEST: bool>(x: T, p: i64, y: T, q: i64) -> bool {
    let better = if GREATEST { x > y } else { x < y };
    let (x_nan, y_nan) = (x != x, y != y);
    let same = (x == y) | (x_nan & y_nan);
    (better & !y_nan) | (x_nan & !y_nan) | (same & (p < q))
}

#[inline(always)]
fn step_body<T: Copy + PartialOrd, const GREATEST: bool>(
    values: &mut [T],
    positions: &mut [i64],
    data: &[T],
    position: i64,
    columns: usize,
) {
    let width = values.len().min(positions.len());
    if width == 0 || columns == 0 {
        return;
    }
    // Runs of equal position would do for columns as well, but a row (one column) has a position for each element.
    let mut start = 0;
    while start < data.len() {
        let part = &data[start..data.len().min(start + width)];
        if columns == 1 {
            let first = position.wrapping_add(start as i64);
            for (j, ((v, q), x)) in values.iter_mut().zip(positions.iter_mut()).zip(part).enumerate() {
                let p = first.wrapping_add(j as i64);
                let wins = beats::<T, GREATEST>(*x, p, *v, *q);
                *v = if wins { *x } else { *v };
                *q = if wins { p } else { *q };
            }
        } else {
            let mut first = position.wrapping_add((start / columns) as i64);
            let groups =
                values.chunks_mut(columns).zip(positions.chunks_mut(columns)).zip(part.chunks(columns));
            for ((values, positions), part) in groups {
                for ((v, q), x) in values.iter_mut().zip(positions).zip(part) {
                    let wins = beats::<T, GREATEST>(*x, first, *v, *q);
                    *v = if wins { *x } else { *v };
                    *q = if wins { first } else { *q };
                }
                first = first.wrapping_add(1);
            }
        }
        start += width;
    }
}

#[inline(always)]
fn combine_body<T: Copy + PartialOrd, const GREATEST: bool>(
    values: &mut [T],
    positions: &mut [i64],
    others: &[T],
    other_positions: &[i64],
) {
    let width = values.len().max(1);
    for (others, other_positions) in others.chunks(width).zip(other_positions.chunks(width)) {
        let mine = values.iter_mut().zip(positions.iter_mut());
        for ((v, q), (x, p)) in mine.zip(others.iter().zip(other_positions)) {
            let wins = beats::<T, GREATEST>(*x, *p, *v, *q);
            *v = if wins { *x } else { *v };
            *q = if wins { *p } else { *q };
        }
    }
}

macro_rules! version {
    ($t:ty, $greatest:literal $(, #[$feature:meta])?) => {{
        $(#[$feature])?
        unsafe fn step(
            values: *mut u8, positions: *mut i64, width: usize, data: *const u8, len: usize, position: i64,
            columns: usize,
        ) {
            // SAFETY: the caller gives arrays of these lengths that do not overlap.
            unsafe {
                step_body::<$t, $greatest>(
                    std::slice::from_raw_parts_mut(values.cast(), width),
                    std::slice::from_raw_parts_mut(positions, width),
                    std::slice::from_raw_parts(data.cast(), len),
                    position,
                    columns,
                );
            }
        }
        $(#[$feature])?
        unsafe fn combine(
            values: *mut u8, positions: *mut i64, width: usize, others: *const u8, other_positions: *const i64,
            len: usize,
        ) {
            // SAFETY: the caller gives arrays of these lengths that do not overlap.
            unsafe {
                combine_body::<$t, $greatest>(
                    std::slice::from_raw_parts_mut(values.cast(), width),
                    std::slice::from_raw_parts_mut(positions, width),
                    std::slice::from_raw_parts(others.cast(), len),
                    std::slice::from_raw_parts(other_positions, len),
                );
            }
        }
        ArgumentFns { step, combine }
    }};
}

macro_rules! versions {
    ($set:expr, $greatest:expr, $t:ty) => {
        match ($set, $greatest) {
            #[cfg(target_arch = "x86_64")]
            (InstructionSet::Avx512, true) => {
                version!($t, true, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")])
            }
            #[cfg(target_arch = "x86_64")]
            (InstructionSet::Avx512, false) => {
                version!($t, false, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")])
            }
            // AVX2 gains little over the baseline on pairs of 32-bit values and 64-bit positions.
            (_, true) => version!($t, true),
            (_, false) => version!($t, false),
        }
    };
}

impl ArgumentFns {
    /// The functions for a dtype of numbers.
    pub(super) fn new(greatest: bool, dtype: DType, set: InstructionSet) -> Option<ArgumentFns> {
        Some(match dtype {
            DType::F32 => versions!(set, greatest, f32),
            DType::F64 => versions!(set, greatest, f64),
            DType::I8 => versions!(set, greatest, i8),
            DType::I16 => versions!(set, greatest, i16),
            DType::I32 => versions!(set, greatest, i32),
            DType::I64 => versions!(set, greatest, i64),
            DType::U8 => versions!(set, greatest, u8),
            DType::U16 => versions!(set, greatest, u16),
            DType::U32 => versions!(set, greatest, u32),
            DType::U64 => versions!(set, greatest, u64),
            DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2 | DType::Bool => return None,
        })
    }
}
