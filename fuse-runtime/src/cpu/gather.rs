//! Copies between strided memory and flat tiles, by element size.

/// A strided rectangle: `rows × columns` elements, row-major in the tile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rectangle {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// Elements in memory from one row to the next.
    pub(crate) row_stride: i64,
    /// Elements in memory from one column to the next.
    pub(crate) column_stride: i64,
}

/// Side of the squares in which a rectangle is walked that lies across memory.
const SQUARE: usize = 8;

/// `to[i][j] = from[j][i]` for a square; rows are `from_stride` and `to_stride` elements apart. The rows are read and
/// written whole, so that the exchange happens in registers.
///
/// # Safety
/// The squares are readable and writable.
#[inline(always)]
unsafe fn transpose_square<T: Copy>(from: *const T, from_stride: isize, to: *mut T, to_stride: usize) {
    // SAFETY: by the contract.
    unsafe {
        let mut rows = [*from.cast::<[T; SQUARE]>(); SQUARE];
        for (j, row) in rows.iter_mut().enumerate() {
            *row = *from.offset(j as isize * from_stride).cast::<[T; SQUARE]>();
        }
        let columns: [[T; SQUARE]; SQUARE] = std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i]));
        for (i, column) in columns.into_iter().enumerate() {
            *to.add(i * to_stride).cast::<[T; SQUARE]>() = column;
        }
    }
}

macro_rules! by_size {
    ($size:expr, $f:ident($($arg:expr),*)) => {
        match $size {
            1 => $f::<u8>($($arg),*),
            2 => $f::<u16>($($arg),*),
            4 => $f::<u32>($($arg),*),
            _ => $f::<u64>($($arg),*),
        }
    };
}

/// Copies a rectangle of memory into a tile.
///
/// # Safety
/// Every element of the rectangle is readable at `from`, the tile at `to` has `rows * columns` elements, both aligned
/// for an element of `size` bytes.
pub(crate) unsafe fn gather(size: usize, from: *const u8, to: *mut u8, shape: Rectangle) {
    // SAFETY: by the contract.
    unsafe { by_size!(size, gather_elements(from.cast(), to.cast(), shape)) }
}

/// Copies a tile into a rectangle of memory.
///
/// # Safety
/// As for [`gather`], with memory writable.
pub(crate) unsafe fn scatter(size: usize, from: *const u8, to: *mut u8, shape: Rectangle) {
    // SAFETY: by the contract.
    unsafe { by_size!(size, scatter_elements(from.cast(), to.cast(), shape)) }
}

/// Repeats one element.
///
/// # Safety
/// The element is readable and the tile at `to` has `len` elements.
pub(crate) unsafe fn splat(size: usize, from: *const u8, to: *mut u8, len: usize) {
    unsafe fn splat_elements<T: Copy>(from: *const T, to: *mut T, len: usize) {
        // SAFETY: by the contract of `splat`.
        unsafe { std::slice::from_raw_parts_mut(to, len).fill(*from) }
    }
    // SAFETY: by the contract.
    unsafe { by_size!(size, splat_elements(from.cast(), to.cast(), len)) }
}

unsafe fn gather_elements<T: Copy>(from: *const T, to: *mut T, s: Rectangle) {
    // SAFETY: the caller vouches for every element of the rectangle and of the tile.
    unsafe {
        match s.column_stride {
            1 => {
                for r in 0..s.rows {
                    let row = from.offset(r as isize * s.row_stride as isize);
                    std::ptr::copy_nonoverlapping(row, to.add(r * s.columns), s.columns);
                }
            }
            0 => {
                for r in 0..s.rows {
                    let x = *from.offset(r as isize * s.row_stride as isize);
                    let row = std::slice::from_raw_parts_mut(to.add(r * s.columns), s.columns);
                    let (whole, tail) = row.as_chunks_mut::<SQUARE>();
                    for part in whole {
                        *part = [x; SQUARE];
                    }
                    for y in tail {
                        *y = x;
                    }
                }
            }
            _ if s.rows > 1 && s.row_stride.unsigned_abs() < s.column_stride.unsigned_abs() => {
                for r0 in (0..s.rows).step_by(SQUARE) {
                    for c0 in (0..s.columns).step_by(SQUARE) {
                        let start = from.offset(
                            r0 as isize * s.row_stride as isize + c0 as isize * s.column_stride as isize,
                        );
                        let tile = to.add(r0 * s.columns + c0);
                        let whole = r0 + SQUARE <= s.rows && c0 + SQUARE <= s.columns;
                        if whole && s.row_stride == 1 {
                            transpose_square(start, s.column_stride as isize, tile, s.columns);
                            continue;
                        }
                        for c in 0..SQUARE.min(s.columns - c0) {
                            let column = start.offset(c as isize * s.column_stride as isize);
                            for r in 0..SQUARE.min(s.rows - r0) {
                                *tile.add(r * s.columns + c) =
                                    *column.offset(r as isize * s.row_stride as isize);
                            }
                        }
                    }
                }
            }
            _ => {
                for r in 0..s.rows {
                    let row = from.offset(r as isize * s.row_stride as isize);
                    for c in 0..s.columns {
                        *to.add(r * s.columns + c) = *row.offset(c as isize * s.column_stride as isize);
                    }
                }
            }
        }
    }
}

unsafe fn scatter_elements<T: Copy>(from: *const T, to: *mut T, s: Rectangle) {
    // SAFETY: the caller vouches for every element of the rectangle and of the tile.
    unsafe {
        match s.column_stride {
            1 => {
                for r in 0..s.rows {
                    let row = to.offset(r as isize * s.row_stride as isize);
                    std::ptr::copy_nonoverlapping(from.add(r * s.columns), row, s.columns);
                }
            }
            _ if s.rows > 1 && s.row_stride.unsigned_abs() < s.column_stride.unsigned_abs() => {
                for c0 in (0..s.columns).step_by(SQUARE) {
                    for r0 in (0..s.rows).step_by(SQUARE) {
                        let start = to.offset(
                            r0 as isize * s.row_stride as isize + c0 as isize * s.column_stride as isize,
                        );
                        let tile = from.add(r0 * s.columns + c0);
                        let whole = r0 + SQUARE <= s.rows && c0 + SQUARE <= s.columns;
                        if whole && s.row_stride == 1 && s.column_stride > 0 {
                            transpose_square(tile, s.columns as isize, start, s.column_stride as usize);
                            continue;
                        }
                        for c in 0..SQUARE.min(s.columns - c0) {
                            let column = start.offset(c as isize * s.column_stride as isize);
                            for r in 0..SQUARE.min(s.rows - r0) {
                                *column.offset(r as isize * s.row_stride as isize) =
                                    *tile.add(r * s.columns + c);
                            }
                        }
                    }
                }
            }
            _ => {
                for r in 0..s.rows {
                    let row = to.offset(r as isize * s.row_stride as isize);
                    for c in 0..s.columns {
                        *row.offset(c as isize * s.column_stride as isize) = *from.add(r * s.columns + c);
                    }
                }
            }
        }
    }
}
