//! Products whose right source is a window that slides: convolutions.
//!
//! The windows of neighbouring columns overlap, so a panel of them would hold most elements several times. Instead the part
//! of the source that a tile needs is copied once, padding included, into a *box* in scratch, in which the element of
//! reduced position `k` and column `j` lies at `depth[k] + place(j)`: the micro-kernel reads its vectors of columns there,
//! unaligned, and needs no packing. Columns are the positions of the last two dimensions, rows of a picture; where the
//! rows of the box follow one another closely they are taken as one run, and what is computed between them is left out.
//!
//! ```text
//! box   ┌──────────────────┐
//!       │0 a b c d e f g 0 │   k = (channel, r, s) reads from depth[k] on
//!       │0 h i j k l m n 0 │   with AVX-512 columns 16 · 3 at once, rows of the left source 8 at once
//!       └──────────────────┘
//! ```

use super::super::access::AccessKind;
use super::super::geometry::Block;
use super::super::instruction_set::InstructionSet;
use super::super::vector::Vector;
use super::Sizes;
use super::multiply::Operand as Matrix;
use super::panel::PanelPlace;
use fuse_ir::dtype::DType;
use fuse_ir::schedule::Operand;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m512};

/// What is multiplied at once and stays in registers.
#[derive(Clone, Copy, Debug)]
struct AtOnce {
    /// Rows of the left source.
    rows: usize,
    /// Columns.
    lanes: usize,
    /// `sums[r][j] = Σ left[k][r] · boxed[depth[k] + j]`, rows of the sums `ld` elements apart.
    multiply: MultiplyLanes,
}

type MultiplyLanes =
    unsafe fn(depth: &[usize], left: *const f32, boxed: *const f32, sums: *mut f32, ld: usize);

impl AtOnce {
    /// `None` if the instruction set has no such multiplication.
    fn new(set: InstructionSet) -> Option<AtOnce> {
        match set {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => Some(AtOnce { rows: 8, lanes: 3 * 16, multiply: multiply_avx512 }),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => Some(AtOnce { rows: 6, lanes: 2 * 8, multiply: multiply_avx2 }),
            _ => None,
        }
    }
}

/// Bytes of a box, of the left source as it is packed, and columns of a tile, at most.
const BOX: usize = 1 << 20;
const LEFT: usize = 2 << 20;
const COLUMNS: usize = 1024;
/// Shorter rows of a picture waste most of a vector.
const SHORTEST: usize = 12;

/// How a source slides in one launch.
#[derive(Debug)]
pub(super) struct Sliding {
    /// Along each axis of the source, outermost first.
    axes: Vec<Axis>,
    /// Where each reduced position lies in the box.
    depth: Vec<usize>,
    /// Columns of a row of the picture, rows of a picture, and how many rows a tile has.
    width: usize,
    height: usize,
    pub(super) rows: usize,
    /// From one row to the next in the box.
    step: usize,
    /// Elements of the box.
    len: usize,
    at_once: AtOnce,
}

/// One axis of the source.
#[derive(Clone, Copy, Debug)]
struct Axis {
    /// The form of the position on it.
    form: usize,
    extent: i64,
    /// In memory and in the box.
    source: isize,
    stride: usize,
    /// Positions of the box.
    len: usize,
}

/// Scratch of a thread, in bytes from the start of its part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scratch {
    boxed: usize,
    left: usize,
    sums: usize,
}

impl Sliding {
    /// How the source of a panel slides; `None` if it does not, or not so that this pays.
    pub(super) fn find(place: &PanelPlace<'_>, sizes: &Sizes, set: InstructionSet) -> Option<Sliding> {
        let launch = &place.launch;
        let operand = place.exec.load_operand()?;
        let access = launch.access(operand);
        let plain = access.kind == AccessKind::Memory && access.dtype == DType::F32;
        let at_once = AtOnce::new(set)?;
        if !plain || place.exec.is_left || !place.is_depth_first() {
            return None;
        }
        let Operand::Buffer { buffer, map, .. } = &launch.exec.group.operands[operand] else { return None };
        let forms = launch.forms();
        let g = forms.geometry;
        let columns = g.b_dims();
        if columns.len() < 2 {
            return None;
        }
        let (row, column) = (columns.end - 2, columns.end - 1);
        let (height, width) = (g.extents[row], g.extents[column]);
        if !(SHORTEST..=COLUMNS).contains(&width) {
            return None;
        }
        let strides = launch.buffer(*buffer).strides;
        let mut axes: Vec<Axis> = Vec::with_capacity(strides.len());
        for (k, (((axis, _), &source), &form)) in
            map.indices.iter().zip(strides).zip(&place.positions).enumerate()
        {
            let extent = launch.env.extent(*axis);
            if forms.forms[form].strides[..g.dims()].iter().any(|&s| s < 0) || k >= 8 {
                return None;
            }
            axes.push(Axis { form, extent, source, stride: 0, len: 0 });
        }
        // What guards the read must be that it stays within the source.
        let guards = |bound: usize| {
            axes.iter().any(|a| forms.forms[a.form] == forms.forms[bound] && a.extent == forms.limits[bound])
        };
        if axes.is_empty() || !access.bounds.clone().all(guards) {
            return None;
        }
        let mut sliding =
            Sliding { axes, depth: Vec::new(), width, height, rows: 0, step: 0, len: 0, at_once };
        // As many rows as fit the box, and divide the picture if any do.
        let most = height.min(COLUMNS / width).max(1);
        let fits = |s: &mut Sliding, rows: usize| {
            s.shape(place, rows, (row, column));
            s.len * 4 <= BOX
        };
        let divides = |rows: &usize| height % rows == 0;
        let enough = |rows: &usize| 2 * rows > most;
        let candidates = (1..=most).rev().filter(divides).filter(enough).chain((1..=most).rev());
        let rows = candidates.into_iter().find(|&rows| fits(&mut sliding, rows))?;
        sliding.shape(place, rows, (row, column));
        let reach = |dim: usize| -> usize {
            let moves = sliding.axes.iter().map(|a| forms.forms[a.form].strides[dim] as usize * a.stride);
            moves.sum()
        };
        // Columns must be neighbours in the box, and windows overlap: else a panel is as good.
        let touched: usize = sizes.depth.saturating_mul(rows * width);
        if reach(column) != 1 || touched < 2 * sliding.len {
            return None;
        }
        sliding.step = reach(row);
        for k in 0..sizes.depth {
            let of_axis = |a: &Axis| g.offset(&forms.forms[a.form], g.a_dims(), k) as usize * a.stride;
            let at = sliding.axes.iter().map(of_axis).sum();
            sliding.depth.push(at);
        }
        Some(sliding)
    }

    /// Sets the box for tiles of these many rows of the picture.
    fn shape(&mut self, place: &PanelPlace<'_>, rows: usize, (row, column): (usize, usize)) {
        let forms = place.launch.forms();
        let g = forms.geometry;
        let mut stride = 1;
        for axis in self.axes.iter_mut().rev() {
            let form = &forms.forms[axis.form];
            let along = |dim: usize, n: usize| form.strides[dim] as usize * (n - 1);
            let depth: usize = g.a_dims().map(|d| along(d, g.extents[d].max(1))).sum();
            axis.len = 1 + depth + along(row, rows) + along(column, self.width);
            axis.stride = stride;
            stride *= axis.len;
        }
        (self.rows, self.len) = (rows, stride);
    }

    /// Columns of a tile.
    pub(super) fn columns(&self) -> usize {
        self.rows * self.width
    }

    /// Rows of a tile of the left source so that it fits its scratch, packed.
    pub(super) fn most_rows(&self) -> usize {
        let rows = self.at_once.rows;
        (LEFT / (4 * self.depth.len().max(1)) / rows * rows).max(rows)
    }

    /// Lays out the scratch with `take`.
    pub(super) fn lay_out(&self, sizes: &Sizes, mut take: impl FnMut(usize) -> usize) -> Scratch {
        let AtOnce { rows, lanes, .. } = self.at_once;
        let left = sizes.tile_rows.next_multiple_of(rows) * self.depth.len();
        // Vectors may read past the last element.
        Scratch {
            boxed: take(4 * (self.len + 2 * lanes)),
            left: take(4 * left),
            sums: take(4 * rows * lanes),
        }
    }

    /// Whether the rows of the box are taken as one run: those of a window of a window may overlap.
    fn is_run(&self) -> bool {
        (self.width..=self.width + self.width / 4).contains(&self.step)
    }

    /// Columns that are computed for these rows of the picture.
    fn span(&self, rows: usize) -> usize {
        if self.is_run() { (rows - 1) * self.step + self.width } else { self.width }
    }

    /// Packs the rows of the left source: those that are multiplied at once together, position by position.
    ///
    /// # Safety
    /// The source has `rows` rows; the scratch at `memory` is that of [`Self::lay_out`].
    pub(super) unsafe fn pack(&self, left: Matrix, rows: usize, memory: *mut u8, at: Scratch) {
        // SAFETY: by the contract.
        unsafe {
            let to = memory.add(at.left).cast::<f32>();
            let from = left.data.cast::<f32>();
            let (depth, at_once) = (self.depth.len(), self.at_once.rows);
            for part in 0..rows.div_ceil(at_once) {
                for k in 0..depth {
                    for r in 0..at_once {
                        let row = part * at_once + r;
                        let x = match row < rows {
                            true => *from.offset(row as isize * left.side + k as isize * left.depth),
                            false => 0.0,
                        };
                        *to.add((part * depth + k) * at_once + r) = x;
                    }
                }
            }
        }
    }

    /// The products of a tile of whole rows of pictures, of the packed left source.
    ///
    /// # Safety
    /// The bindings vouch for the source; the scratch is that of [`Self::lay_out`] with the left source packed; the tile at
    /// `result` is writable. The processor has the instruction set that it was found for.
    pub(super) unsafe fn multiply(
        &self,
        place: &PanelPlace<'_>,
        tile: &Block,
        memory: *mut u8,
        at: Scratch,
        result: *mut f32,
    ) {
        let mut done = 0;
        while done < tile.b_len {
            // Rows of one picture.
            let first = (tile.b + done) / self.width;
            let rows = (self.height - first % self.height).min((tile.b_len - done) / self.width).max(1);
            // SAFETY: by the contract; the columns lie in the tile.
            unsafe {
                self.fill(place, tile.c, tile.b + done, memory.add(at.boxed).cast());
                self.multiply_rows(tile, rows, memory, at, result.add(done));
            }
            done += rows * self.width;
        }
    }

    /// Copies what the rows from a column on need into the box.
    unsafe fn fill(&self, place: &PanelPlace<'_>, c: usize, column: usize, to: *mut f32) {
        let launch = &place.launch;
        let Some(operand) = place.exec.load_operand() else { return };
        let (forms, data) = (launch.forms(), launch.access(operand).data.cast::<f32>());
        let block = Block { c, a: 0, a_len: 1, b: column, b_len: 1 };
        let start = |axis: &Axis| forms.geometry.at_block(&forms.forms[axis.form], &block);
        let starts: Vec<i64> = self.axes.iter().map(start).collect();
        let Some((last, outer)) = self.axes.split_last() else { return };
        let low = *starts.last().unwrap_or(&0);
        let valid = (-low).clamp(0, last.len as i64)..(last.extent - low).clamp(0, last.len as i64);
        let valid = valid.start as usize..(valid.end.max(valid.start)) as usize;
        let lines: usize = outer.iter().map(|a| a.len).product();
        let mut index = [0usize; 8];
        for line in 0..lines {
            let mut inside = !valid.is_empty();
            let mut from = (low + valid.start as i64) as isize * last.source;
            for (k, axis) in outer.iter().enumerate() {
                let position = starts[k] + index[k] as i64;
                inside &= (0..axis.extent).contains(&position);
                from += position as isize * axis.source;
            }
            // SAFETY: by the contract of `multiply`: positions within the source are readable, lines lie in the box.
            unsafe {
                let row = std::slice::from_raw_parts_mut(to.add(line * last.len), last.len);
                if !inside {
                    row.fill(0.0);
                } else {
                    row[..valid.start].fill(0.0);
                    row[valid.end..].fill(0.0);
                    let row = &mut row[valid.clone()];
                    let from = data.offset(from);
                    if last.source == 1 {
                        std::ptr::copy_nonoverlapping(from, row.as_mut_ptr(), row.len());
                    } else {
                        for (j, x) in row.iter_mut().enumerate() {
                            *x = *from.offset(j as isize * last.source);
                        }
                    }
                }
            }
            for k in (0..outer.len()).rev() {
                index[k] += 1;
                if index[k] < outer[k].len {
                    break;
                }
                index[k] = 0;
            }
        }
        // SAFETY: the box has room for what the last vectors read past it.
        unsafe { std::slice::from_raw_parts_mut(to.add(self.len), 2 * self.at_once.lanes).fill(0.0) };
    }

    /// A block of columns at a time, so that what it reads of the box stays in the first cache while all rows of the left
    /// source go past it.
    unsafe fn multiply_rows(
        &self,
        tile: &Block,
        rows: usize,
        memory: *mut u8,
        at: Scratch,
        result: *mut f32,
    ) {
        let (depth, at_once) = (self.depth.len(), self.at_once);
        let (runs, span) = if self.is_run() { (1, self.span(rows)) } else { (rows, self.width) };
        let mut pieces = Vec::new();
        // SAFETY: by the contract of `multiply`.
        unsafe {
            let (boxed, sums) = (memory.add(at.boxed).cast::<f32>(), memory.add(at.sums).cast::<f32>());
            let packed = memory.add(at.left).cast::<f32>();
            for (run, first) in (0..runs).flat_map(|r| (0..span).step_by(at_once.lanes).map(move |f| (r, f)))
            {
                self.find_pieces(run, first..span.min(first + at_once.lanes), &mut pieces);
                let boxed = boxed.add(run * self.step + first);
                for row in (0..tile.a_len).step_by(at_once.rows) {
                    let (packed, rows) = (packed.add(row * depth), at_once.rows.min(tile.a_len - row));
                    let result = result.add(row * tile.b_len);
                    // All of them lie in the tile.
                    if let [Piece { lane: 0, column, len }] = pieces[..]
                        && len == at_once.lanes
                        && rows == at_once.rows
                    {
                        (at_once.multiply)(&self.depth, packed, boxed, result.add(column), tile.b_len);
                        continue;
                    }
                    (at_once.multiply)(&self.depth, packed, boxed, sums, at_once.lanes);
                    for r in 0..rows {
                        let (from, to) = (sums.add(r * at_once.lanes), result.add(r * tile.b_len));
                        for &Piece { lane, column, len } in &pieces {
                            std::ptr::copy_nonoverlapping(from.add(lane), to.add(column), len);
                        }
                    }
                }
            }
        }
    }

    /// What of these positions of a run are columns of the tile.
    fn find_pieces(&self, run: usize, positions: std::ops::Range<usize>, pieces: &mut Vec<Piece>) {
        pieces.clear();
        let mut p = positions.start;
        while p < positions.end {
            let (row, column) = if self.is_run() { (p / self.step, p % self.step) } else { (run, p) };
            if column >= self.width {
                p += self.step - column;
                continue;
            }
            let len = (self.width - column).min(positions.end - p);
            pieces.push(Piece { lane: p - positions.start, column: row * self.width + column, len });
            p += len;
        }
    }
}

/// Neighbouring lanes that are neighbouring columns.
#[derive(Clone, Copy, Debug)]
struct Piece {
    lane: usize,
    column: usize,
    len: usize,
}

/// `ROWS` rows and `N` vectors of columns.
///
/// # Safety
/// The elements are readable and writable; the processor has the instruction set of the vector.
#[inline(always)]
unsafe fn multiply_lanes<V: Vector, const ROWS: usize, const N: usize>(
    depth: &[usize],
    left: *const f32,
    boxed: *const f32,
    sums: *mut f32,
    ld: usize,
) {
    // SAFETY: by the contract.
    unsafe {
        let mut total = [[V::splat(0.0); N]; ROWS];
        for (k, &at) in depth.iter().enumerate() {
            let mut columns = [V::splat(0.0); N];
            for (v, column) in columns.iter_mut().enumerate() {
                *column = V::load(boxed.add(at + v * V::WIDTH));
            }
            for (r, row) in total.iter_mut().enumerate() {
                let x = V::splat(*left.add(k * ROWS + r));
                for (sum, column) in row.iter_mut().zip(columns) {
                    *sum = x.multiply_add(column, *sum);
                }
            }
        }
        for (r, row) in total.into_iter().enumerate() {
            for (v, sum) in row.into_iter().enumerate() {
                sum.store(sums.add(r * ld + v * V::WIDTH));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn multiply_avx512(depth: &[usize], left: *const f32, boxed: *const f32, sums: *mut f32, ld: usize) {
    // SAFETY: by the contract of `multiply_lanes`.
    unsafe { multiply_lanes::<__m512, 8, 3>(depth, left, boxed, sums, ld) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn multiply_avx2(depth: &[usize], left: *const f32, boxed: *const f32, sums: *mut f32, ld: usize) {
    // SAFETY: by the contract of `multiply_lanes`.
    unsafe { multiply_lanes::<__m256, 6, 2>(depth, left, boxed, sums, ld) }
}
