//! Operands whose index expressions are not affine: indirect reads, and divisions that do not fall on a dimension.
//!
//! Every expression is evaluated for a whole tile at a time into i64, then elements are fetched one by one.

use super::access::fill_form;
use super::affine::{CallEnv, Form};
use super::gather::{Rectangle, gather};
use super::geometry::Block;
use super::launch::Launch;
use fuse_ir::dtype::DType;
use fuse_ir::id::ValueId;
use fuse_ir::index_map::{Bound, IndexExpr};

/// Tiles of indices, kept between uses.
#[derive(Debug, Default)]
pub(crate) struct IndexTiles {
    free: Vec<Vec<i64>>,
}

impl IndexTiles {
    pub(crate) fn take(&mut self, len: usize) -> Vec<i64> {
        let mut tile = self.free.pop().unwrap_or_default();
        tile.clear();
        tile.resize(len, 0);
        tile
    }

    pub(crate) fn give(&mut self, tile: Vec<i64>) {
        self.free.push(tile);
    }
}

/// A tile of an integer value that an indirect read uses.
pub(crate) type IndirectTile<'a> = &'a dyn Fn(ValueId) -> (*const u8, DType);

/// What evaluation needs: the launch, the block, and the tiles of values that are indices.
pub(crate) struct Evaluation<'a> {
    pub(crate) launch: &'a Launch<'a>,
    pub(crate) block: Block,
    pub(crate) indirect: IndirectTile<'a>,
}

impl Evaluation<'_> {
    fn env(&self) -> CallEnv<'_> {
        self.launch.env
    }

    /// The numbers of an expression at the positions of the block.
    pub(crate) fn eval(&self, expr: &IndexExpr, tiles: &mut IndexTiles, out: &mut [i64]) {
        match expr {
            IndexExpr::Const(c) => out.fill(*c),
            IndexExpr::Extent(axis) => out.fill(self.env().extent(*axis)),
            IndexExpr::Param(param) => out.fill(self.env().param(*param)),
            IndexExpr::Index(axis) => match self.launch.axis_form(*axis) {
                Some(form) => fill_form(&self.launch.geometry, form, &self.block, out),
                None => out.fill(0),
            },
            IndexExpr::Indirect(node) => {
                let (data, dtype) = (self.indirect)(ValueId(node.0));
                // SAFETY: the tile of the value has as many elements as the block has positions.
                unsafe { widen_integers(data, dtype, out) };
            }
            IndexExpr::Add(a, b) => self.combine(a, b, tiles, out, i64::wrapping_add),
            IndexExpr::Sub(a, b) => self.combine(a, b, tiles, out, i64::wrapping_sub),
            IndexExpr::Mul(a, b) => self.combine(a, b, tiles, out, i64::wrapping_mul),
            IndexExpr::FloorDiv(a, b) => {
                self.combine(a, b, tiles, out, |x, d| if d > 0 { x.div_euclid(d) } else { 0 });
            }
            IndexExpr::Mod(a, b) => {
                self.combine(a, b, tiles, out, |x, d| if d > 0 { x.rem_euclid(d) } else { 0 });
            }
        }
    }

    fn combine(
        &self,
        a: &IndexExpr,
        b: &IndexExpr,
        tiles: &mut IndexTiles,
        out: &mut [i64],
        f: impl Fn(i64, i64) -> i64,
    ) {
        self.eval(a, tiles, out);
        let mut other = tiles.take(out.len());
        self.eval(b, tiles, &mut other);
        for (x, y) in out.iter_mut().zip(&other) {
            *x = f(*x, *y);
        }
        tiles.give(other);
    }

    /// The offsets in elements of a buffer read or written at these positions: the affine part, and the other indices
    /// with their strides.
    pub(crate) fn offsets<'e>(
        &self,
        affine: &Form,
        others: impl Iterator<Item = (&'e IndexExpr, isize)>,
        tiles: &mut IndexTiles,
        out: &mut [i64],
    ) {
        fill_form(&self.launch.geometry, affine, &self.block, out);
        let mut index = tiles.take(out.len());
        for (expr, stride) in others {
            self.eval(expr, tiles, &mut index);
            for (x, i) in out.iter_mut().zip(&index) {
                *x = x.wrapping_add(i.wrapping_mul(stride as i64));
            }
        }
        tiles.give(index);
    }

    /// Clears those of `holds` where a bound fails; gives the last failing index and extent of each through `failed`.
    pub(crate) fn test_bounds(
        &self,
        bounds: &[Bound],
        tiles: &mut IndexTiles,
        holds: &mut [bool],
        mut failed: impl FnMut(usize, i64, i64),
    ) {
        let mut number = tiles.take(holds.len());
        for bound in bounds {
            self.eval(&bound.expr, tiles, &mut number);
            let limit = self.env().constant(&bound.extent);
            for (j, (h, x)) in holds.iter_mut().zip(&number).enumerate() {
                if *h && !(0 <= *x && *x < limit) {
                    *h = false;
                    failed(j, *x, limit);
                }
            }
        }
        tiles.give(number);
    }
}

/// Fetches the elements at these offsets where the bounds hold, zeros elsewhere.
///
/// # Safety
/// The element at every offset whose bounds hold is readable; `to` has room for all.
pub(crate) unsafe fn fetch(size: usize, data: *const u8, offsets: &[i64], holds: &[bool], to: *mut u8) {
    macro_rules! fetch {
        ($t:ty) => {
            for (j, (at, h)) in offsets.iter().zip(holds).enumerate() {
                // SAFETY: by the contract.
                unsafe {
                    let x = if *h { *data.cast::<$t>().offset(*at as isize) } else { 0 };
                    *to.cast::<$t>().add(j) = x;
                }
            }
        };
    }
    match size {
        1 => fetch!(u8),
        2 => fetch!(u16),
        4 => fetch!(u32),
        _ => fetch!(u64),
    }
}

/// Fetches runs of elements that begin at these offsets where the bounds hold, zeros elsewhere. `run` is the length and
/// the stride.
///
/// # Safety
/// The elements of every run whose bounds hold are readable; `to` has room for all runs.
pub(crate) unsafe fn fetch_runs(
    size: usize,
    data: *const u8,
    offsets: &[i64],
    holds: &[bool],
    run: (usize, i64),
    to: *mut u8,
) {
    let (len, stride) = run;
    let shape = Rectangle { rows: 1, columns: len, row_stride: 0, column_stride: stride };
    for (row, (at, h)) in offsets.iter().zip(holds).enumerate() {
        // SAFETY: by the contract; zero bytes are zero of every dtype.
        unsafe {
            let to = to.add(row * len * size);
            if *h {
                gather(size, data.offset(*at as isize * size as isize), to, shape);
            } else {
                std::ptr::write_bytes(to, 0, len * size);
            }
        }
    }
}

/// Stores elements at these offsets.
///
/// # Safety
/// The element at every offset is writable; `from` has as many elements.
pub(crate) unsafe fn put(size: usize, data: *mut u8, offsets: &[i64], from: *const u8) {
    for (j, at) in offsets.iter().enumerate() {
        let shape = Rectangle { rows: 1, columns: 1, row_stride: 0, column_stride: 1 };
        // SAFETY: by the contract.
        unsafe { gather(size, from.add(j * size), data.offset(*at as isize * size as isize), shape) };
    }
}

/// Integers of any type as i64.
///
/// # Safety
/// `data` has as many elements as `out`.
unsafe fn widen_integers(data: *const u8, dtype: DType, out: &mut [i64]) {
    macro_rules! widen {
        ($t:ty) => {
            for (j, x) in out.iter_mut().enumerate() {
                // SAFETY: by the contract.
                *x = unsafe { *data.cast::<$t>().add(j) } as i64;
            }
        };
    }
    match dtype {
        DType::I8 => widen!(i8),
        DType::I16 => widen!(i16),
        DType::I32 => widen!(i32),
        DType::I64 => widen!(i64),
        DType::U8 => widen!(u8),
        DType::U16 => widen!(u16),
        DType::U32 => widen!(u32),
        DType::U64 => {
            for (j, x) in out.iter_mut().enumerate() {
                // Beyond i64 is beyond every extent.
                // SAFETY: by the contract.
                *x = i64::try_from(unsafe { *data.cast::<u64>().add(j) }).unwrap_or(i64::MAX);
            }
        }
        DType::Bool => widen!(bool),
        DType::F32 | DType::F64 | DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2 => out.fill(0),
    }
}
