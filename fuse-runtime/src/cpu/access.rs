//! From memory to tiles and back: which blocks are slices of memory as they lie, and how the others are copied.

use super::affine::Form;
use super::gather::{Rectangle, gather, scatter, splat};
use super::geometry::{Block, Geometry};
use crate::convert;
use fuse_ir::dtype::DType;
use std::ops::Range;

/// How an operand or a store of one launch finds its elements.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) kind: AccessKind,
    /// The element at offset zero.
    pub(crate) data: *mut u8,
    /// In memory.
    pub(crate) dtype: DType,
    /// The form of the address in elements, or of the number of an index.
    pub(crate) form: usize,
    /// Forms that must lie in their limits; outside there is zero.
    pub(crate) bounds: Range<usize>,
    /// The one stride over each side of a block, if there is one.
    a_stride: Option<i64>,
    b_stride: Option<i64>,
    /// Whether the tile depends on where the block lies along `c`, `a` and `b`.
    depends: [bool; 3],
}

/// What an access gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessKind {
    /// Elements of memory.
    Memory,
    /// The numbers of its form.
    Index,
    /// Whether its bounds hold.
    Mask,
    /// What a general expression gives, see [`super::general`].
    General,
}

/// The forms of a launch, with the upper limits of those that are bounds.
#[derive(Clone, Copy)]
pub(crate) struct Forms<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) forms: &'a [Form],
    pub(crate) limits: &'a [i64],
}

/// A run of the innermost dimension in a row of a block.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Where in the row it begins.
    start: usize,
    len: usize,
    /// The form there.
    at: i64,
}

/// Where a block lies for the access of a tile, as far as the tile depends on it.
pub(crate) type TileKey = [usize; 5];

/// A key that no block has.
pub(crate) const NO_TILE: TileKey = [usize::MAX; 5];

impl Access {
    pub(crate) fn new(
        kind: AccessKind,
        data: *mut u8,
        dtype: DType,
        form: usize,
        bounds: Range<usize>,
    ) -> Access {
        Access { kind, data, dtype, form, bounds, a_stride: None, b_stride: None, depends: [true; 3] }
    }

    /// Looks at the forms once the geometry is known.
    pub(crate) fn resolve(&mut self, f: Forms<'_>) {
        if self.kind == AccessKind::General {
            return;
        }
        let g = f.geometry;
        let form = &f.forms[self.form];
        (self.a_stride, self.b_stride) =
            (g.linear_stride(form, g.a_dims()), g.linear_stride(form, g.b_dims()));
        let moves = |dims: Range<usize>| {
            let mut used = self.bounds.clone().chain([self.form]);
            used.any(|k| f.forms[k].strides[dims.clone()].iter().any(|&s| s != 0))
        };
        self.depends = [moves(g.c_dims()), moves(g.a_dims()), moves(g.b_dims())];
    }

    /// The strides over both sides, if there is one for each.
    pub(crate) fn strides(&self) -> Option<(i64, i64)> {
        Some((self.a_stride?, self.b_stride?))
    }

    /// What of the block decides the tile: two blocks with one key have one tile.
    pub(crate) fn key(&self, block: &Block) -> TileKey {
        let [c, a, b] = self.depends;
        let or_zero = |depends, x| if depends { x } else { 0 };
        [or_zero(c, block.c), or_zero(a, block.a), or_zero(b, block.b), block.a_len, block.b_len]
    }

    /// Whether all positions are one element.
    pub(crate) fn is_still(&self) -> bool {
        self.depends == [false; 3]
    }

    /// The one stride along a row, if it has one.
    pub(crate) fn row_run(&self) -> Option<i64> {
        self.b_stride
    }

    /// Whether other columns are other elements.
    pub(crate) fn moves_along(&self) -> bool {
        self.depends[2]
    }

    /// Whether other rows are other elements.
    pub(crate) fn moves_down(&self) -> bool {
        self.depends[1]
    }

    /// The offset of the block's first element if its elements lie one after the other.
    #[inline]
    pub(crate) fn flat_offset(&self, f: Forms<'_>, block: &Block) -> Option<i64> {
        let g = f.geometry;
        if !self.bounds.is_empty() {
            return None;
        }
        let along = block.b_len == 1 || self.b_stride == Some(1) || self.run_is_flat(f, block);
        let down = block.a_len == 1 || self.a_stride == Some(block.b_len as i64);
        if along && down { Some(g.at_block(&f.forms[self.form], block)) } else { None }
    }

    /// Whether the block's `b` positions lie within one run of the innermost dimension, of stride 1.
    fn run_is_flat(&self, f: Forms<'_>, block: &Block) -> bool {
        let dims = f.geometry.b_dims();
        let Some(last) = dims.last() else { return false };
        let extent = f.geometry.extents[last];
        f.forms[self.form].strides[last] == 1 && block.b % extent.max(1) + block.b_len <= extent
    }

    /// The rows of the block if each lies in one run of stride 1: the offset of the first, and from one to the next.
    pub(crate) fn flat_rows(&self, f: Forms<'_>, block: &Block) -> Option<(i64, i64)> {
        let along = block.b_len == 1 || self.b_stride == Some(1) || self.run_is_flat(f, block);
        if self.kind != AccessKind::Memory || !self.bounds.is_empty() || !along {
            return None;
        }
        let stride = if block.a_len == 1 { 0 } else { self.a_stride? };
        Some((f.geometry.at_block(&f.forms[self.form], block), stride))
    }

    /// Copies the block's elements, as they are in memory, into a tile.
    ///
    /// # Safety
    /// The elements are readable where the bounds hold; the tile has room for the block.
    pub(crate) unsafe fn gather_raw(&self, f: Forms<'_>, block: &Block, to: *mut u8) {
        let size = self.dtype.size();
        // SAFETY: by the contract; the rectangles are those of the block.
        unsafe {
            self.for_each_rectangle(f, block, |at, shape, tile| {
                let from = self.data.offset(at as isize * size as isize);
                gather(size, from, to.add(tile * size), shape);
            });
            if !self.bounds.is_empty() {
                self.gather_bounded(f, block, to);
            }
        }
    }

    /// Copies a tile of elements as they are in memory to the block's places.
    ///
    /// # Safety
    /// The places are writable; the tile has the block's elements.
    pub(crate) unsafe fn scatter_raw(&self, f: Forms<'_>, block: &Block, from: *const u8) {
        let size = self.dtype.size();
        // SAFETY: by the contract; the rectangles are those of the block.
        unsafe {
            self.for_each_rectangle(f, block, |at, shape, tile| {
                let to = self.data.offset(at as isize * size as isize);
                scatter(size, from.add(tile * size), to, shape);
            });
        }
    }

    /// Calls `copy` with the offset, shape and tile position of the rectangles that make up the block. None if there
    /// are bounds.
    fn for_each_rectangle(&self, f: Forms<'_>, block: &Block, mut copy: impl FnMut(i64, Rectangle, usize)) {
        if !self.bounds.is_empty() {
            return;
        }
        let (g, form) = (f.geometry, &f.forms[self.form]);
        let base = form.base.wrapping_add(g.offset(form, g.c_dims(), block.c));
        if let (Some(row_stride), Some(column_stride)) = (self.a_stride, self.b_stride) {
            let at = base + row_stride * block.a as i64 + column_stride * block.b as i64;
            let shape = Rectangle { rows: block.a_len, columns: block.b_len, row_stride, column_stride };
            return copy(at, shape, 0);
        }
        // Down `a` in one go where its stride is known; along `b` in runs of the innermost dimension.
        let (rows, steps) = if self.a_stride.is_some() { (block.a_len, 1) } else { (1, block.a_len) };
        for step in 0..steps {
            let row = base.wrapping_add(g.offset(form, g.a_dims(), block.a + step));
            for_each_run(g, block.b, block.b_len, |start, len| {
                let shape = Rectangle {
                    rows,
                    columns: len,
                    row_stride: self.a_stride.unwrap_or(0),
                    column_stride: g.b_dims().last().map_or(0, |k| form.strides[k]),
                };
                let at = row.wrapping_add(g.offset(form, g.b_dims(), block.b + start));
                if rows == 1 || len == block.b_len {
                    copy(at, shape, step * block.b_len + start);
                } else {
                    // The rows of a run are not neighbours in the tile.
                    for r in 0..rows {
                        let one = Rectangle { rows: 1, ..shape };
                        copy(at + r as i64 * shape.row_stride, one, r * block.b_len + start);
                    }
                }
            });
        }
    }

    unsafe fn gather_bounded(&self, f: Forms<'_>, block: &Block, to: *mut u8) {
        let size = self.dtype.size();
        let form = &f.forms[self.form];
        let stride = f.geometry.b_dims().last().map_or(0, |k| form.strides[k]);
        self.for_each_bounded_run(f, block, |row, run, valid| {
            let at = run.at.wrapping_add(stride.wrapping_mul(valid.start as i64));
            let tile = row * block.b_len + run.start;
            let shape = Rectangle { rows: 1, columns: valid.len(), row_stride: 0, column_stride: stride };
            // SAFETY: the bounds hold in the valid part, so its elements may be read; the run lies in the tile.
            unsafe {
                if valid.start > 0 {
                    std::ptr::write_bytes(to.add(tile * size), 0, valid.start * size);
                }
                if !valid.is_empty() {
                    let from = self.data.offset(at as isize * size as isize);
                    gather(size, from, to.add((tile + valid.start) * size), shape);
                }
                if valid.end < run.len {
                    std::ptr::write_bytes(to.add((tile + valid.end) * size), 0, (run.len - valid.end) * size);
                }
            }
        });
    }

    /// Calls `f` with row, run and its valid part for every run of the innermost dimension. What a run adds to the forms is
    /// the same in every row, so it is found once.
    fn for_each_bounded_run(
        &self,
        f: Forms<'_>,
        block: &Block,
        mut run: impl FnMut(usize, Run, Range<usize>),
    ) {
        let g = f.geometry;
        let used: Vec<usize> = std::iter::once(self.form).chain(self.bounds.clone()).collect();
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for_each_run(g, block.b, block.b_len, |start, len| runs.push((start, len)));
        let width = 1 + self.bounds.len();
        let mut offsets: Vec<i64> = Vec::with_capacity(width * runs.len());
        for &(start, _) in &runs {
            offsets.extend(used.iter().map(|&k| g.offset(&f.forms[k], g.b_dims(), block.b + start)));
        }
        let last = g.b_dims().last();
        let strides: Vec<i64> = used.iter().map(|&k| last.map_or(0, |d| f.forms[k].strides[d])).collect();
        let mut bases = vec![0i64; width];
        for row in 0..block.a_len {
            for (base, &k) in bases.iter_mut().zip(&used) {
                let form = &f.forms[k];
                *base = form.base.wrapping_add(g.offset(form, g.c_dims(), block.c)).wrapping_add(g.offset(
                    form,
                    g.a_dims(),
                    block.a + row,
                ));
            }
            for (&(start, len), offsets) in runs.iter().zip(offsets.chunks_exact(width)) {
                let mut valid = 0..len;
                for (k, limit) in self.bounds.clone().enumerate() {
                    let at = bases[k + 1].wrapping_add(offsets[k + 1]);
                    let within = valid_part(at, strides[k + 1], f.limits[limit], len);
                    valid = valid.start.max(within.start)..valid.end.min(within.end);
                }
                if valid.start >= valid.end {
                    valid = 0..0;
                }
                let at = bases[0].wrapping_add(offsets[0]);
                run(row, Run { start, len, at }, valid);
            }
        }
    }

    /// Fills a tile with the numbers of the form.
    ///
    /// # Safety
    /// The tile has room for the block.
    pub(crate) unsafe fn fill_index(&self, f: Forms<'_>, block: &Block, to: *mut i64) {
        // SAFETY: by the contract.
        let tile = unsafe { std::slice::from_raw_parts_mut(to, block.len()) };
        fill_form(f.geometry, &f.forms[self.form], block, tile);
    }

    /// Fills a tile with whether the bounds hold.
    ///
    /// # Safety
    /// The tile has room for the block.
    pub(crate) unsafe fn fill_mask(&self, f: Forms<'_>, block: &Block, to: *mut bool) {
        // SAFETY: by the contract.
        let tile = unsafe { std::slice::from_raw_parts_mut(to, block.len()) };
        self.for_each_bounded_run(f, block, |row, run, valid| {
            let run = &mut tile[row * block.b_len + run.start..][..run.len];
            run.fill(false);
            run[valid].fill(true);
        });
    }
}

/// The numbers of a form at the positions of a block.
pub(crate) fn fill_form(g: &Geometry, form: &Form, block: &Block, tile: &mut [i64]) {
    let stride = g.b_dims().last().map_or(0, |k| form.strides[k]);
    for row in 0..block.a_len {
        for_each_run(g, block.b, block.b_len, |start, len| {
            let first = Block { a: block.a + row, a_len: 1, b: block.b + start, ..*block };
            let mut number = g.at_block(form, &first);
            for x in &mut tile[row * block.b_len + start..][..len] {
                *x = number;
                number = number.wrapping_add(stride);
            }
        });
    }
}

/// The runs of the innermost dimension of side `b` in `start..start + len`: start within the block, and length.
fn for_each_run(g: &Geometry, start: usize, len: usize, mut run: impl FnMut(usize, usize)) {
    let dims = g.b_dims();
    let extent = match (dims.clone().last(), dims.len()) {
        // Outer positions are a block at the start of what is reduced, even where that is empty.
        (Some(last), 2..) => g.extents[last].max(1),
        _ => return run(0, len),
    };
    let mut done = 0;
    while done < len {
        let part = (extent - (start + done) % extent).min(len - done);
        run(done, part);
        done += part;
    }
}

/// The `j` of `0..len` for which `0 <= base + stride * j < limit`.
fn valid_part(base: i64, stride: i64, limit: i64, len: usize) -> Range<usize> {
    let clamp = |x: i64| x.clamp(0, len as i64) as usize;
    let ceil_div = |a: i64, b: i64| a.div_euclid(b) + i64::from(a.rem_euclid(b) != 0);
    match stride {
        1 => clamp(-base)..clamp(limit - base),
        0 if 0 <= base && base < limit => 0..len,
        0 => 0..0,
        2.. => clamp(ceil_div(-base, stride))..clamp(ceil_div(limit - base, stride)),
        _ => clamp((base - limit).div_euclid(-stride) + 1)..clamp(base.div_euclid(-stride) + 1),
    }
}

/// Widens a tile of a narrow float.
///
/// # Safety
/// Both tiles have `len` elements and do not overlap.
pub(crate) unsafe fn widen(dtype: DType, from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: by the contract.
    unsafe {
        let wide = std::slice::from_raw_parts_mut(to.cast::<f32>(), len);
        match dtype {
            DType::F16 => convert::widen_f16(std::slice::from_raw_parts(from.cast(), len), wide),
            DType::Bf16 => convert::widen_bf16(std::slice::from_raw_parts(from.cast(), len), wide),
            DType::F8E4M3 => convert::widen_f8e4m3(std::slice::from_raw_parts(from.cast(), len), wide),
            DType::F8E5M2 => convert::widen_f8e5m2(std::slice::from_raw_parts(from.cast(), len), wide),
            DType::F32 | DType::F64 | DType::Bool => {}
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => {}
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => {}
        }
    }
}

/// Narrows a tile of f32.
///
/// # Safety
/// Both tiles have `len` elements and do not overlap.
pub(crate) unsafe fn narrow(dtype: DType, from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: by the contract.
    unsafe {
        let wide = std::slice::from_raw_parts(from.cast::<f32>(), len);
        match dtype {
            DType::F16 => convert::narrow_f16(wide, std::slice::from_raw_parts_mut(to.cast(), len)),
            DType::Bf16 => convert::narrow_bf16(wide, std::slice::from_raw_parts_mut(to.cast(), len)),
            DType::F8E4M3 => convert::narrow_f8e4m3(wide, std::slice::from_raw_parts_mut(to.cast(), len)),
            DType::F8E5M2 => convert::narrow_f8e5m2(wide, std::slice::from_raw_parts_mut(to.cast(), len)),
            DType::F32 | DType::F64 | DType::Bool => {}
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => {}
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => {}
        }
    }
}

/// Expands one element for each row (or column) of a block to the block.
///
/// # Safety
/// `from` has an element for each row (`down`) or each column, and `to` has room for the block.
pub(crate) unsafe fn expand(size: usize, from: *const u8, to: *mut u8, block: &Block, down: bool) {
    // SAFETY: by the contract.
    unsafe {
        if !down {
            let shape =
                Rectangle { rows: block.a_len, columns: block.b_len, row_stride: 0, column_stride: 1 };
            return gather(size, from, to, shape);
        }
        if block.a_len == 1 {
            return splat(size, from, to, block.b_len);
        }
        let shape = Rectangle { rows: block.a_len, columns: block.b_len, row_stride: 1, column_stride: 0 };
        gather(size, from, to, shape);
    }
}
