//! Running sums, from first to last, over the blocks of a sweep.

use fuse_ir::dtype::DType;

macro_rules! by_dtype {
    ($dtype:expr, $f:ident($($arg:expr),*)) => {
        match $dtype {
            DType::F32 => $f::<f32>($($arg),*),
            DType::F64 => $f::<f64>($($arg),*),
            DType::I8 => $f::<i8>($($arg),*),
            DType::I16 => $f::<i16>($($arg),*),
            DType::I32 => $f::<i32>($($arg),*),
            DType::I64 => $f::<i64>($($arg),*),
            DType::U8 => $f::<u8>($($arg),*),
            DType::U16 => $f::<u16>($($arg),*),
            DType::U32 => $f::<u32>($($arg),*),
            DType::U64 => $f::<u64>($($arg),*),
            // Narrow floats are summed as f32, and there are no sums of bools.
            DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2 => $f::<f32>($($arg),*),
            DType::Bool => {}
        }
    };
}

trait Number: Copy {
    fn plus(self, other: Self) -> Self;
}

macro_rules! numbers {
    ($($t:ty: $a:ident, $b:ident => $sum:expr);*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $sum
            }
        }
    )*};
}

numbers! {
    f32: a, b => a + b; f64: a, b => a + b;
    i8: a, b => a.wrapping_add(b); i16: a, b => a.wrapping_add(b); i32: a, b => a.wrapping_add(b);
    i64: a, b => a.wrapping_add(b); u8: a, b => a.wrapping_add(b); u16: a, b => a.wrapping_add(b);
    u32: a, b => a.wrapping_add(b); u64: a, b => a.wrapping_add(b)
}

/// Running sums along the rows of a block; `sums` holds the sum so far of each row.
///
/// # Safety
/// `from` and `to` hold `rows * columns` elements, `sums` one for each row; they do not overlap.
pub(crate) unsafe fn scan_rows(
    dtype: DType,
    from: *const u8,
    to: *mut u8,
    sums: *mut u8,
    rows: usize,
    columns: usize,
) {
    /// A few rows side by side: each waits for its own last addition only.
    unsafe fn scan_some<T: Number, const N: usize>(from: *const T, to: *mut T, sums: *mut T, columns: usize) {
        // SAFETY: by the contract of `scan_rows`.
        unsafe {
            let mut running: [T; N] = std::array::from_fn(|row| *sums.add(row));
            for j in 0..columns {
                for (row, sum) in running.iter_mut().enumerate() {
                    *sum = sum.plus(*from.add(row * columns + j));
                    *to.add(row * columns + j) = *sum;
                }
            }
            for (row, sum) in running.into_iter().enumerate() {
                *sums.add(row) = sum;
            }
        }
    }
    unsafe fn scan<T: Number>(from: *const T, to: *mut T, sums: *mut T, rows: usize, columns: usize) {
        const TOGETHER: usize = 8;
        let mut row = 0;
        // SAFETY: by the contract of `scan_rows`.
        unsafe {
            while row + TOGETHER <= rows {
                let at = row * columns;
                scan_some::<T, TOGETHER>(from.add(at), to.add(at), sums.add(row), columns);
                row += TOGETHER;
            }
            while row < rows {
                let at = row * columns;
                scan_some::<T, 1>(from.add(at), to.add(at), sums.add(row), columns);
                row += 1;
            }
        }
    }
    // SAFETY: by the contract.
    unsafe { by_dtype!(dtype, scan(from.cast(), to.cast(), sums.cast(), rows, columns)) }
}

/// Running sums down the columns of a block; `sums` holds the sum so far of each column.
///
/// # Safety
/// `from` and `to` hold `rows * columns` elements, `sums` one for each column; they do not overlap.
pub(crate) unsafe fn scan_columns(
    dtype: DType,
    from: *const u8,
    to: *mut u8,
    sums: *mut u8,
    rows: usize,
    columns: usize,
) {
    unsafe fn scan<T: Number>(from: *const T, to: *mut T, sums: *mut T, rows: usize, columns: usize) {
        for row in 0..rows {
            // SAFETY: by the contract of `scan_columns`.
            let (from, to, sums) = unsafe {
                (
                    std::slice::from_raw_parts(from.add(row * columns), columns),
                    std::slice::from_raw_parts_mut(to.add(row * columns), columns),
                    std::slice::from_raw_parts_mut(sums, columns),
                )
            };
            for ((x, y), sum) in from.iter().zip(to).zip(sums) {
                *sum = sum.plus(*x);
                *y = *sum;
            }
        }
    }
    // SAFETY: by the contract.
    unsafe { by_dtype!(dtype, scan(from.cast(), to.cast(), sums.cast(), rows, columns)) }
}
