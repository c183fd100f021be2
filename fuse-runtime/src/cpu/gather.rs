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

/// Side of the squares in which a rectangle is walked that lies across memory: 16 f32 are a cache line.
const SQUARE: usize = 16;

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
                    std::slice::from_raw_parts_mut(to.add(r * s.columns), s.columns).fill(x);
                }
            }
            _ if s.rows > 1 && s.row_stride.unsigned_abs() < s.column_stride.unsigned_abs() => {
                for r0 in (0..s.rows).step_by(SQUARE) {
                    let r1 = (r0 + SQUARE).min(s.rows);
                    for c0 in (0..s.columns).step_by(SQUARE) {
                        let c1 = (c0 + SQUARE).min(s.columns);
                        for r in r0..r1 {
                            let row = from.offset(r as isize * s.row_stride as isize);
                            for c in c0..c1 {
                                *to.add(r * s.columns + c) =
                                    *row.offset(c as isize * s.column_stride as isize);
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
                for r0 in (0..s.rows).step_by(SQUARE) {
                    let r1 = (r0 + SQUARE).min(s.rows);
                    for c in 0..s.columns {
                        for r in r0..r1 {
                            let offset = r as isize * s.row_stride as isize;
                            *to.offset(offset + c as isize * s.column_stride as isize) =
                                *from.add(r * s.columns + c);
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
