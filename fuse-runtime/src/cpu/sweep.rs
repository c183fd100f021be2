//! Passes over a block of outer positions: sweeps by chunks of the reduction tree, folds, and what follows them.

use super::geometry::{Block, Orientation};
use super::prepare::{PassReduction, PassScan, Source};
use super::reduce::{Components, ReduceExec, Step, take_combiner_fault};
use super::scan::{scan_columns, scan_rows};
use super::scratch::{ReductionLayout, components};
use super::tile::LaneSlot;
use super::worker::Worker;
use fuse_ir::schedule::{CHUNK, LANES};
use fuse_ir::stage::Place;
use std::ops::Range;

impl Worker<'_> {
    /// Outer values that need no reduction.
    pub(crate) fn run_prologue(&mut self) {
        let launch = self.launch;
        if launch.exec.prologue.is_empty() {
            return;
        }
        let positions = self.outer_positions();
        for &k in &launch.exec.prologue {
            self.run_stage(k, &positions);
        }
        self.forget_expanded();
    }

    /// A pass over all reduced positions of the outer block.
    pub(crate) fn run_pass(&mut self, p: usize) {
        self.start_scans(p);
        self.sweep_chunks(p, 0..self.launch.geometry.reduced().div_ceil(CHUNK));
        self.give_results(p);
        self.run_epilogue(p);
    }

    /// A run of chunks of a sweep; the reductions of the run stand in the tops afterwards.
    pub(crate) fn sweep_chunks(&mut self, p: usize, run: Range<usize>) {
        let count = run.len();
        let mut done = 0;
        while done < count {
            let chunk = run.start + done;
            if let Some((results, size)) = self.reduce_pair(p, chunk..run.end) {
                for result in results {
                    // SAFETY: the top is of this thread and has at most as many bytes.
                    unsafe { std::ptr::copy_nonoverlapping(result.as_ptr(), self.tops(p, 0)[0], size) };
                    self.push_chunk(p, done);
                    done += 1;
                }
                continue;
            }
            self.sweep_chunk(p, chunk);
            if count > 1 {
                self.push_chunk(p, done);
            }
            done += 1;
        }
        self.combine_chunks(p, count);
    }

    /// The reductions of two whole chunks at the start of `run`, and the size of one, where a pass is one builtin reduction of
    /// one row that lies in memory.
    fn reduce_pair(&mut self, p: usize, run: Range<usize>) -> Option<([[u8; 8]; 2], usize)> {
        let launch = self.launch;
        let (pass, outer) = (&launch.exec.passes[p], self.outer);
        if run.len() < 2 || (run.start + 2) * CHUNK > launch.geometry.reduced() {
            return None;
        }
        let [reduction] = &pass.reductions[..] else { return None };
        let Step::Builtin(fns) = reduction.exec.step else { return None };
        let is_all = pass.sweep.is_empty() && pass.scans.is_empty() && self.is_whole_chunk(reduction);
        if !is_all || outer.len != 1 {
            return None;
        }
        let block = Block { c: outer.c, a: outer.start, a_len: 1, b: run.start * CHUNK, b_len: 2 * CHUNK };
        let (from, _) = self.rows_in_memory(reduction, &block)?;
        self.state.prefetch.step();
        let size = reduction.exec.dtypes[0].size();
        let mut both = [0_u64; 2];
        let mut results = [[0; 8]; 2];
        // SAFETY: the bindings vouch for every element that the plan reads; a result has at most eight bytes.
        unsafe {
            let to = both.as_mut_ptr().cast::<u8>();
            (fns.rows)(from, 2, CHUNK, to);
            for (k, result) in results.iter_mut().enumerate() {
                std::ptr::copy_nonoverlapping(to.add(k * size), result.as_mut_ptr(), size);
            }
        }
        Some((results, size))
    }

    /// What follows a sweep: outer values and outer stores.
    pub(crate) fn run_epilogue(&mut self, p: usize) {
        let launch = self.launch;
        let pass = &launch.exec.passes[p];
        let positions = self.outer_positions();
        for &k in &pass.epilogue {
            self.run_stage(k, &positions);
        }
        for &s in &pass.outer_stores {
            let array = self.array(launch.exec.group.stores[s].value);
            self.store(s, array, &positions);
        }
    }

    /// One chunk of a sweep; the reductions of the chunk stand in the tops afterwards.
    fn sweep_chunk(&mut self, p: usize, chunk: usize) {
        let launch = self.launch;
        let (g, steps) = (&launch.geometry, launch.steps);
        let pass = &launch.exec.passes[p];
        let end = g.reduced().min((chunk + 1) * CHUNK);
        for (r, reduction) in pass.reductions.iter().enumerate() {
            let state = self.reduction_layout(p, r);
            if !self.is_whole_chunk(reduction) {
                // SAFETY: the layout has that many lanes.
                unsafe {
                    let lanes = components(self.base, &state.lanes);
                    reduction.exec.fill_identity(&lanes, 0, launch.lanes(reduction) * self.outer.len);
                }
            }
        }
        let outer = self.outer;
        let start = chunk * CHUNK;
        if g.orientation == Orientation::Columns {
            let block = |a, a_len| Block { c: outer.c, a, a_len, b: outer.start, b_len: outer.len };
            if steps.a == 1 && pass.is_free_in_order() {
                // One lane after the other, so that its accumulators stay in the L1 cache.
                for lane in start..end.min(start + LANES) {
                    for at in (lane..end).step_by(LANES) {
                        self.sweep_block(p, &block(at, 1));
                    }
                }
            } else {
                for at in (start..end).step_by(steps.a) {
                    self.sweep_block(p, &block(at, steps.a.min(end - at)));
                }
            }
        } else {
            for first in (0..outer.len).step_by(steps.rows.max(1)) {
                for at in (start..end).step_by(steps.b.max(1)) {
                    let (a, a_len) = (outer.start + first, steps.rows.min(outer.len - first));
                    let block = Block { c: outer.c, a, a_len, b: at, b_len: steps.b.min(end - at) };
                    self.sweep_block(p, &block);
                }
            }
        }
        for (r, reduction) in pass.reductions.iter().enumerate() {
            if !self.is_whole_chunk(reduction) {
                self.fold_lanes(p, r, reduction);
            }
            self.report_combiner(reduction);
        }
    }

    /// One block of a sweep: stages, then what reduces or scans their results.
    fn sweep_block(&mut self, p: usize, block: &Block) {
        let launch = self.launch;
        let pass = &launch.exec.passes[p];
        self.state.prefetch.step();
        for &k in &pass.sweep {
            self.find_lanes(p, k, block);
            self.run_stage(k, block);
        }
        for (r, reduction) in pass.reductions.iter().enumerate() {
            if reduction.along.is_none() {
                self.reduce_block(p, r, reduction, block);
            }
        }
        for (s, scan) in pass.scans.iter().enumerate() {
            self.scan_block(p, s, scan, block);
        }
    }

    /// The lanes of the reductions that a stage takes along over a block.
    fn find_lanes(&mut self, p: usize, stage: usize, block: &Block) {
        let launch = self.launch;
        self.state.lanes.clear();
        for &r in &launch.exec.stages[stage].reductions {
            let reduction = &launch.exec.passes[p].reductions[r];
            let (lanes, dtype) = (launch.lanes(reduction), reduction.exec.dtypes[0]);
            let (skipped, width, first, groups) = match launch.geometry.orientation {
                Orientation::Columns if launch.is_flat(block) => {
                    (block.a % LANES * block.b_len, block.len(), 0, 1)
                }
                Orientation::Columns => (0, block.b_len, block.a % LANES, lanes),
                Orientation::Plain | Orientation::Rows => {
                    ((block.a - self.outer.start) * lanes, lanes, 0, block.a_len)
                }
            };
            // SAFETY: the layout has lanes for each outer position.
            let data = unsafe {
                let start = components(self.base, &self.reduction_layout(p, r).lanes)[0];
                start.add(skipped * dtype.size())
            };
            self.state.lanes.push(LaneSlot { data, dtype, width, first, groups });
        }
    }

    /// Whether each chunk of a row is one block, and the reducer has a function for whole rows.
    fn is_whole_chunk(&self, reduction: &PassReduction) -> bool {
        let g = &self.launch.geometry;
        reduction.along.is_none()
            && g.orientation == Orientation::Rows
            && self.launch.steps.b >= g.b.min(CHUNK)
            && matches!(reduction.exec.step, Step::Builtin(_))
    }

    fn reduction_layout(&self, p: usize, r: usize) -> ReductionLayout {
        let passes = &self.launch.exec.passes;
        let before: usize = passes[..p].iter().map(|pass| pass.reductions.len()).sum();
        self.layout().reductions[before + r]
    }

    /// The rows of a block and the elements from one to the next, where a reduction reads its one source straight from memory:
    /// that need not be flat.
    fn rows_in_memory(&self, reduction: &PassReduction, block: &Block) -> Option<(*mut u8, usize)> {
        let [(_, dtype, Source::Load(operand))] = reduction.sources[..] else { return None };
        let access = self.launch.access(operand.index());
        if access.dtype.is_narrow_float() {
            return None;
        }
        let (at, stride) = access.flat_rows(self.launch.forms(), block)?;
        let stride = usize::try_from(stride).ok()?;
        // SAFETY: the bindings vouch for every element that the plan reads.
        Some((unsafe { access.data.offset(at as isize * dtype.size() as isize) }, stride))
    }

    fn reduce_block(&mut self, p: usize, r: usize, reduction: &PassReduction, block: &Block) {
        let exec = &reduction.exec;
        let mut data: Components = [std::ptr::null_mut(); super::reduce::MAX_COMPONENTS];
        let mut row_stride = block.b_len;
        if let Some((rows, stride)) = self.rows_in_memory(reduction, block) {
            (data[0], row_stride) = (rows, stride);
        } else {
            for (k, &(v, dtype, source)) in reduction.sources.iter().enumerate() {
                data[k] = self.input(v, dtype, source, Place::Inner, block);
            }
        }
        let state = self.reduction_layout(p, r);
        let first = block.a.wrapping_sub(self.outer.start);
        // SAFETY: the accumulators are this thread's; the data is a block, row by row.
        unsafe {
            let lanes = components(self.base, &state.lanes);
            match self.launch.geometry.orientation {
                Orientation::Columns => step_columns(exec, &lanes, &data, row_stride, block),
                Orientation::Plain | Orientation::Rows => {
                    if let (true, Step::Builtin(fns)) = (self.is_whole_chunk(reduction), exec.step) {
                        let size = exec.dtypes[0].size();
                        let top = components(self.base, &state.top)[0].add(first * size);
                        if row_stride == block.b_len || block.a_len == 1 {
                            (fns.rows)(data[0], block.a_len, block.b_len, top);
                        } else {
                            for row in 0..block.a_len {
                                let from = data[0].add(row * row_stride * size);
                                (fns.rows)(from, 1, block.b_len, top.add(row * size));
                            }
                        }
                        return;
                    }
                    for row in 0..block.a_len {
                        let acc = exec.offset(&lanes, (first + row) * exec.lanes());
                        let from = exec.offset_data(&data, row * row_stride);
                        exec.step(&acc, exec.lanes(), &from, block.b_len, block.b as i64, 1);
                    }
                }
            }
        }
    }

    /// Records a fault of a user's combiner. It belongs to no element: the position is the first in work.
    fn report_combiner(&self, reduction: &PassReduction) {
        if let (Step::User(_), Some((v, _))) = (&reduction.exec.step, reduction.results.first())
            && take_combiner_fault()
        {
            self.record_fault(*v, &self.outer_positions(), 0, None);
        }
    }

    /// Folds the lanes of every outer position to the tops.
    fn fold_lanes(&mut self, p: usize, r: usize, reduction: &PassReduction) {
        let exec = &reduction.exec;
        let state = self.reduction_layout(p, r);
        let len = self.outer.len;
        // SAFETY: the layout has lanes and a top for each outer position.
        unsafe {
            let (lanes, top) = (components(self.base, &state.lanes), components(self.base, &state.top));
            if self.launch.geometry.orientation == Orientation::Columns {
                exec.fold(&lanes, self.launch.lanes(reduction), len);
                copy(exec, &lanes, &top, len);
            } else if let Some(fns) = reduction.along {
                // Lanes are rows as others are, whose lanes are themselves.
                (fns.rows)(lanes[0], len, self.launch.lanes(reduction), top[0]);
            } else {
                for row in 0..len {
                    let row_lanes = exec.offset(&lanes, row * exec.lanes());
                    exec.fold(&row_lanes, exec.lanes(), 1);
                    copy(exec, &row_lanes, &exec.offset(&top, row), 1);
                }
            }
        }
    }

    /// Combines the tops with the chunks before: a binary counter, so that chunks meet as adjacent pairs.
    pub(crate) fn push_chunk(&mut self, p: usize, chunk: usize) {
        let launch = self.launch;
        for (r, reduction) in launch.exec.passes[p].reductions.iter().enumerate() {
            let exec = &reduction.exec;
            let state = self.reduction_layout(p, r);
            let len = self.outer.len;
            // SAFETY: the stack has a level for each bit of the number of chunks.
            unsafe {
                let (top, stack) = (components(self.base, &state.top), components(self.base, &state.stack));
                let (mut carry, mut level) = (top, 0);
                while chunk >> level & 1 == 1 {
                    let left = exec.offset(&stack, level * len);
                    exec.combine(&left, len, &carry, len);
                    carry = left;
                    level += 1;
                }
                copy(exec, &carry, &exec.offset(&stack, level * len), len);
            }
            self.report_combiner(reduction);
        }
    }

    /// Combines what is left on the stack after `chunks` chunks to the tops.
    pub(crate) fn combine_chunks(&mut self, p: usize, chunks: usize) {
        let launch = self.launch;
        for (r, reduction) in launch.exec.passes[p].reductions.iter().enumerate() {
            let exec = &reduction.exec;
            let state = self.reduction_layout(p, r);
            let len = self.outer.len;
            // SAFETY: tops, stack and arrays have an element for each outer position.
            unsafe {
                let (top, stack) = (components(self.base, &state.top), components(self.base, &state.stack));
                match chunks {
                    0 => exec.fill_identity(&top, 0, len),
                    1 => {}
                    _ => {
                        let mut levels =
                            (0..usize::BITS).filter(|l| chunks >> l & 1 == 1).map(|l| l as usize);
                        let mut result = exec.offset(&stack, levels.next().unwrap_or(0) * len);
                        for level in levels {
                            let left = exec.offset(&stack, level * len);
                            exec.combine(&left, len, &result, len);
                            result = left;
                        }
                        copy(exec, &result, &top, len);
                    }
                }
            }
            self.report_combiner(reduction);
        }
    }

    /// Puts the tops of a pass's reductions into the arrays of their results.
    pub(crate) fn give_results(&mut self, p: usize) {
        let launch = self.launch;
        for (r, reduction) in launch.exec.passes[p].reductions.iter().enumerate() {
            let top = self.tops(p, r);
            for &(v, component) in &reduction.results {
                let bytes = self.outer.len * reduction.exec.dtypes[component].size();
                // SAFETY: tops and arrays have an element for each outer position.
                unsafe { std::ptr::copy_nonoverlapping(top[component], self.array(v), bytes) };
            }
        }
    }

    /// The tops of a pass's reductions, to be kept or put back.
    pub(crate) fn tops(&self, p: usize, r: usize) -> Components {
        // SAFETY: the offsets are those of the layout.
        unsafe { components(self.base, &self.reduction_layout(p, r).top) }
    }

    fn start_scans(&mut self, p: usize) {
        let launch = self.launch;
        for (s, scan) in launch.exec.passes[p].scans.iter().enumerate() {
            let bytes = self.outer.len * scan.source.1.size();
            // SAFETY: the layout has a sum for each outer position; zero bytes are zero of every number.
            unsafe { std::ptr::write_bytes(self.base.add(self.scan_offset(p, s)), 0, bytes) };
        }
    }

    fn scan_offset(&self, p: usize, s: usize) -> usize {
        let passes = &self.launch.exec.passes;
        let before: usize = passes[..p].iter().map(|pass| pass.scans.len()).sum();
        self.layout().scans[before + s]
    }

    fn scan_block(&mut self, p: usize, s: usize, scan: &PassScan, block: &Block) {
        let (v, dtype, source) = scan.source;
        let from = self.input(v, dtype, source, Place::Inner, block);
        let to = self.row_buffer(scan.value, dtype, block);
        // SAFETY: source and row buffer hold the block, the sums one element for each outer position.
        unsafe {
            let sums = self.base.add(self.scan_offset(p, s));
            if self.launch.geometry.orientation == Orientation::Columns {
                scan_columns(dtype, from, to, sums, block.a_len, block.b_len);
            } else {
                let first = block.a - self.outer.start;
                scan_rows(dtype, from, to, sums.add(first * dtype.size()), block.a_len, block.b_len);
            }
        }
        for &s in &scan.stores {
            self.store(s, to, block);
        }
    }
}

/// Combines a block of columns into their lanes: position `r` goes to lane `r % 64`.
///
/// # Safety
/// The lanes are those of the block's columns, the data is the block with rows `row_stride` apart.
unsafe fn step_columns(
    exec: &ReduceExec,
    lanes: &Components,
    data: &Components,
    row_stride: usize,
    block: &Block,
) {
    let (columns, rows) = (block.b_len, block.a_len);
    let first = block.a;
    // SAFETY: by the contract.
    unsafe {
        if exec.lanes() == 1 {
            for row in 0..rows {
                let from = exec.offset_data(data, row * row_stride);
                exec.step(lanes, columns, &from, columns, (first + row) as i64, columns);
            }
        } else if row_stride == columns && first.is_multiple_of(LANES) && rows >= LANES {
            exec.step(lanes, LANES * columns, data, rows * columns, first as i64, columns);
        } else if row_stride == columns && first % LANES + rows <= LANES {
            let acc = exec.offset(lanes, first % LANES * columns);
            exec.step(&acc, rows * columns, data, rows * columns, first as i64, columns);
        } else {
            for row in 0..rows {
                let acc = exec.offset(lanes, (first + row) % LANES * columns);
                let from = exec.offset_data(data, row * row_stride);
                exec.step(&acc, columns, &from, columns, (first + row) as i64, columns);
            }
        }
    }
}

/// # Safety
/// The arrays have `len` elements and do not overlap.
unsafe fn copy(exec: &ReduceExec, from: &Components, to: &Components, len: usize) {
    for (k, dtype) in exec.dtypes.iter().enumerate() {
        // SAFETY: by the contract.
        unsafe { std::ptr::copy_nonoverlapping(from[k], to[k], len * dtype.size()) };
    }
}
