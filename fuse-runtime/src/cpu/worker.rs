//! One thread at a block: operands become tiles, stages run over them, results go to memory.

use super::access::{AccessKind, NO_TILE, TileKey, expand, narrow, widen};
use super::affine::Form;
use super::bindings::CpuFault;
use super::general::{Evaluation, IndexTiles, fetch, fetch_runs, put};
use super::geometry::{Block, Orientation};
use super::launch::Launch;
use super::prefetch::Prefetch;
use super::prepare::{Output, Source, StageExec};
use super::reduce::fill;
use super::scratch::{Layout, Scratch};
use super::tile::{LaneSlot, Slot, Tile, TileShape};
use fuse_ir::dtype::DType;
use fuse_ir::id::ValueId;
use fuse_ir::schedule::Operand;
use fuse_ir::stage::Place;
use std::cell::RefCell;

/// The state of a thread, kept between launches.
#[derive(Debug, Default)]
pub(crate) struct WorkerState {
    scratch: Scratch,
    layout: Layout,
    keys: Vec<TileKey>,
    outer_keys: Vec<TileKey>,
    expand_keys: Vec<[usize; 3]>,
    /// By value: where the last stage that computed it put it.
    tiles: Vec<Rows>,
    arrays: Vec<*mut u8>,
    row_buffers: Vec<*mut u8>,
    inputs: Vec<Slot>,
    outputs: Vec<Slot>,
    pub(crate) lanes: Vec<LaneSlot>,
    faults: Vec<usize>,
    index_tiles: IndexTiles,
    pub(crate) prefetch: Prefetch,
}

/// The rows of a block.
#[derive(Clone, Copy, Debug)]
struct Rows {
    data: *mut u8,
    /// Elements from one to the next.
    stride: usize,
}

const NO_ROWS: Rows = Rows { data: std::ptr::null_mut(), stride: 0 };

thread_local! {
    /// Several, because a thread that waits in a launch may be given another one to help with.
    #[allow(clippy::vec_box, reason = "states are large and move often; a box is a pointer to move")]
    static STATES: RefCell<Vec<Box<WorkerState>>> = const { RefCell::new(Vec::new()) };
}

/// Outer positions that are worked on together: `start..start + len` at `c` (rows: `c` is 0).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OuterBlock {
    pub(crate) c: usize,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// A thread at work on a launch.
pub(crate) struct Worker<'l> {
    pub(crate) launch: &'l Launch<'l>,
    pub(crate) state: Box<WorkerState>,
    /// The start of the scratch.
    pub(crate) base: *mut u8,
    pub(crate) outer: OuterBlock,
}

/// Arrays over all outer positions and row buffers of the whole domain, for passes that run one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'s> {
    /// By value.
    pub(crate) arrays: &'s [*mut u8],
    /// By value.
    pub(crate) row_buffers: &'s [*mut u8],
}

impl<'l> Worker<'l> {
    pub(crate) fn new(launch: &'l Launch<'l>, shared: bool) -> Worker<'l> {
        let mut state = STATES.with_borrow_mut(Vec::pop).unwrap_or_default();
        let (operands, values) = (launch.exec.group.operands.len(), launch.exec.group.values.len());
        state.layout.compute(launch, shared);
        let base = state.scratch.reserve(state.layout.bytes);
        state.keys.clear();
        state.keys.resize(operands, NO_TILE);
        state.outer_keys.clear();
        state.outer_keys.resize(operands, NO_TILE);
        state.expand_keys.clear();
        state.expand_keys.resize(values, [usize::MAX; 3]);
        state.tiles.clear();
        state.tiles.resize(values, NO_ROWS);
        for (list, offsets) in
            [(&mut state.arrays, &state.layout.arrays), (&mut state.row_buffers, &state.layout.row_buffers)]
        {
            list.clear();
            // SAFETY: the offsets lie in the scratch.
            list.extend(offsets.iter().map(|&at| unsafe { base.add(at) }));
        }
        Worker { launch, state, base, outer: OuterBlock { c: 0, start: 0, len: 1 } }
    }

    pub(crate) fn finish(self) {
        STATES.with_borrow_mut(|states| states.push(self.state));
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.state.layout
    }

    /// Moves to other outer positions; with `shared`, to their part of the shared arrays and buffers.
    pub(crate) fn enter(&mut self, outer: OuterBlock, shared: Option<Shared<'_>>) {
        self.outer = outer;
        let g = &self.launch.geometry;
        if g.orientation == Orientation::Rows && shared.is_none() {
            let next = outer.start + outer.len;
            let a_len = outer.len.min(g.a - next);
            let block = Block { c: 0, a: next, a_len, b: 0, b_len: g.b };
            let blocks = g.b.div_ceil(self.launch.steps.b) * outer.len.div_ceil(self.launch.steps.rows);
            let steps = self.launch.exec.passes.len() * blocks;
            self.state.prefetch.plan(self.launch, &block, steps);
        }
        let Some(shared) = shared else { return };
        let first = if g.orientation == Orientation::Columns { outer.c * g.b } else { 0 } + outer.start;
        for v in 0..shared.arrays.len() {
            let size = self.launch.exec.group.values[v].dtype.compute().size();
            if !shared.arrays[v].is_null() {
                // SAFETY: the shared arrays have an element for each outer position.
                self.state.arrays[v] = unsafe { shared.arrays[v].add(first * size) };
            }
            if !shared.row_buffers[v].is_null() {
                // SAFETY: the shared buffers have an element for each position of the domain.
                self.state.row_buffers[v] = unsafe { shared.row_buffers[v].add(first * g.reduced() * size) };
            }
        }
    }

    /// Says where the rows of a value lie that no stage of the group computes.
    pub(crate) fn give_tile(&mut self, v: ValueId, data: *mut u8, stride: usize) {
        self.state.tiles[v.index()] = Rows { data, stride };
    }

    /// Says where the row buffer of a value of a plain group lies.
    pub(crate) fn give_row_buffer(&mut self, v: ValueId, data: *mut u8) {
        self.state.row_buffers[v.index()] = data;
    }

    /// The array of an outer value at the first outer position.
    pub(crate) fn array(&self, v: ValueId) -> *mut u8 {
        self.state.arrays[v.index()]
    }

    /// The block of the outer positions alone.
    pub(crate) fn outer_positions(&self) -> Block {
        let OuterBlock { c, start, len } = self.outer;
        match self.launch.geometry.orientation {
            Orientation::Plain | Orientation::Rows => Block { c, a: start, a_len: len, b: 0, b_len: 1 },
            Orientation::Columns => Block { c, a: 0, a_len: 1, b: start, b_len: len },
        }
    }

    /// Where a block of the sweep lies in row buffers, which are kept block by block.
    fn buffer_offset(&self, block: &Block) -> usize {
        match self.launch.geometry.orientation {
            Orientation::Plain => 0,
            Orientation::Rows => {
                (block.a - self.outer.start) * self.launch.geometry.b + block.b * block.a_len
            }
            Orientation::Columns => block.a * block.b_len,
        }
    }

    /// A row buffer at a block.
    pub(crate) fn row_buffer(&self, v: ValueId, dtype: DType, block: &Block) -> *mut u8 {
        // SAFETY: the block lies in the rows that the buffer holds.
        unsafe { self.state.row_buffers[v.index()].add(self.buffer_offset(block) * dtype.size()) }
    }

    /// The tile of a value for a block: flat, of its compute type.
    pub(crate) fn input(
        &mut self,
        v: ValueId,
        dtype: DType,
        source: Source,
        place: Place,
        block: &Block,
    ) -> *mut u8 {
        match source {
            Source::Load(operand) => self.load(operand.index(), v, place, block),
            Source::Tile => self.state.tiles[v.index()].data,
            Source::Buffer => self.row_buffer(v, dtype, block),
            Source::Outer if place == Place::Inner => self.expand(v, dtype, block),
            Source::Outer => self.state.arrays[v.index()],
        }
    }

    /// Outer values are new: what was spread over blocks is not theirs.
    pub(crate) fn forget_expanded(&mut self) {
        self.state.expand_keys.fill([usize::MAX; 3]);
    }

    /// An outer value spread over a block.
    fn expand(&mut self, v: ValueId, dtype: DType, block: &Block) -> *mut u8 {
        let g = &self.launch.geometry;
        let down = g.orientation != Orientation::Columns;
        let to = self.at(self.state.layout.tiles[v.index()]);
        // The first outer position of the block, counted over all and from those in work.
        let (outer, first) = match g.orientation {
            Orientation::Columns => (self.outer.c * g.b + self.outer.start, 0),
            Orientation::Plain | Orientation::Rows => (block.a, block.a - self.outer.start),
        };
        let [at, a_len, b_len] = self.state.expand_keys[v.index()];
        let covered = if down {
            a_len == block.a_len && (b_len == block.b_len || (a_len == 1 && b_len > block.b_len))
        } else {
            b_len == block.b_len && a_len >= block.a_len
        };
        if at != outer || !covered {
            // SAFETY: the array has an element for each outer position of the block, the tile room for the block.
            unsafe {
                let from = self.state.arrays[v.index()].add(first * dtype.size());
                expand(dtype.size(), from, to, block, down);
            }
            self.state.expand_keys[v.index()] = [outer, block.a_len, block.b_len];
        }
        to
    }

    fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: offsets of the layout lie in the scratch.
        unsafe { self.base.add(offset) }
    }

    /// The tile of an operand: memory as it lies, or a copy in scratch.
    pub(crate) fn load(&mut self, operand: usize, v: ValueId, place: Place, block: &Block) -> *mut u8 {
        let launch = self.launch;
        let (access, f) = (launch.access(operand), launch.forms());
        let flat = match access.kind {
            AccessKind::Memory => access.flat_offset(f, block),
            AccessKind::Index | AccessKind::Mask | AccessKind::General => None,
        };
        let is_narrow = access.dtype.is_narrow_float();
        // SAFETY: the bindings vouch for every element that the plan reads.
        let memory = |at: i64| unsafe { access.data.offset(at as isize * access.dtype.size() as isize) };
        if let (Some(at), false) = (flat, is_narrow) {
            return memory(at);
        }
        let inner = place == Place::Inner;
        let layout = &self.state.layout;
        let to = self.at(if inner { layout.loads[operand] } else { layout.outer_loads[operand] });
        let raw = self.at(layout.raw);
        let key = access.key(block);
        let keys = if inner { &mut self.state.keys } else { &mut self.state.outer_keys };
        if keys[operand] == key {
            return to;
        }
        keys[operand] = key;
        // SAFETY: elements are readable by the contract of the launch, and tiles have room for a block.
        unsafe {
            match access.kind {
                AccessKind::Memory if is_narrow => {
                    let from = match flat {
                        Some(at) => memory(at),
                        None => {
                            access.gather_raw(f, block, raw);
                            raw
                        }
                    };
                    widen(access.dtype, from, to, block.len());
                }
                AccessKind::Memory => access.gather_raw(f, block, to),
                AccessKind::Index => access.fill_index(f, block, to.cast()),
                AccessKind::Mask => access.fill_mask(f, block, to.cast()),
                AccessKind::General => self.load_general(operand, v, place, block, to, raw),
            }
        }
        to
    }

    /// # Safety
    /// As [`Self::load`]; `to` and `raw` have room for the block.
    unsafe fn load_general(
        &mut self,
        operand: usize,
        v: ValueId,
        place: Place,
        block: &Block,
        to: *mut u8,
        raw: *mut u8,
    ) {
        let launch = self.launch;
        let (rows, whole) = (launch.is_along_memory(operand), block);
        // Where a row is a run of memory only its beginning is evaluated.
        let block = &if rows { Block { b_len: 1, ..*block } } else { *block };
        // Positions that are the same everywhere lie in no tile.
        let mut constants: Vec<Vec<u64>> = Vec::new();
        let reads: Vec<(ValueId, *const u8, DType)> = launch.exec.group.operands[operand]
            .reads()
            .into_iter()
            .map(|u| {
                let dtype = launch.exec.group.value(u).dtype.compute();
                if let Some(value) = launch.uniform(u) {
                    let mut words = vec![0u64; block.len()];
                    // SAFETY: an element is at most a word.
                    unsafe { fill(words.as_mut_ptr().cast(), value, block.len()) };
                    constants.push(words);
                    return (u, constants[constants.len() - 1].as_ptr().cast(), dtype);
                }
                let source = self.source_of_index(u);
                (u, self.input(u, dtype, source, place, block).cast_const(), dtype)
            })
            .collect();
        let indirect = |u: ValueId| {
            let found = reads.iter().find(|(w, _, _)| *w == u);
            found.map_or((std::ptr::null(), DType::F32), |(_, data, dtype)| (*data, *dtype))
        };
        let evaluation = Evaluation { launch, block: *block, indirect: &indirect };
        let tiles = &mut self.state.index_tiles;
        let len = block.len();
        let mut out_of_range = None;
        match &launch.exec.group.operands[operand] {
            Operand::Buffer { buffer, dtype, map } => {
                let buffer = launch.buffer(*buffer);
                let mut holds = vec![true; len];
                evaluation.test_bounds(&map.bounds, tiles, &mut holds, |_, _, _| {});
                let mut offsets = tiles.take(len);
                let access = launch.access(operand);
                let form = &launch.forms().forms[access.form];
                let axes = || launch.general_indices(operand);
                let parts = axes().map(|k| (&map.indices[k].1, buffer.strides.get(k).copied().unwrap_or(0)));
                evaluation.offsets(form, parts, tiles, &mut offsets);
                let is_narrow = dtype.is_narrow_float();
                let place = if is_narrow { raw } else { to };
                // SAFETY: where the bounds hold the element, or the run that begins with it, may be read.
                unsafe {
                    if rows {
                        let run = (whole.b_len, access.row_run().unwrap_or(0));
                        fetch_runs(dtype.size(), buffer.data, &offsets, &holds, run, place);
                    } else {
                        fetch(dtype.size(), buffer.data, &offsets, &holds, place);
                    }
                    if is_narrow {
                        widen(*dtype, raw, to, whole.len());
                    }
                }
                tiles.give(offsets);
            }
            Operand::Index(expr) => {
                // SAFETY: the tile has room for the block.
                let out = unsafe { std::slice::from_raw_parts_mut(to.cast::<i64>(), len) };
                evaluation.eval(expr, tiles, out);
            }
            Operand::Mask(bounds) => {
                // SAFETY: the tile has room for the block.
                let out = unsafe { std::slice::from_raw_parts_mut(to.cast::<bool>(), len) };
                out.fill(true);
                evaluation.test_bounds(bounds, tiles, out, |_, _, _| {});
            }
            Operand::Check { when, bounds } => {
                // SAFETY: the tile has room for the block.
                let out = unsafe { std::slice::from_raw_parts_mut(to.cast::<bool>(), len) };
                let mut wanted = vec![true; len];
                evaluation.test_bounds(when, tiles, &mut wanted, |_, _, _| {});
                out.fill(true);
                evaluation.test_bounds(bounds, tiles, out, |j, index, extent| {
                    let earlier = out_of_range.is_some_and(|(k, _, _)| k <= j);
                    if wanted[j] && !earlier {
                        out_of_range = Some((j, index, extent));
                    }
                });
            }
        }
        if let Some((j, index, extent)) = out_of_range {
            self.record_fault(v, block, j, Some((index, extent)));
        }
    }

    /// Where the value of an index comes from when an operand of any stage needs it.
    fn source_of_index(&self, v: ValueId) -> Source {
        if let Some(operand) = self.launch.operand_of(v) {
            return Source::Load(fuse_ir::id::OperandId::from_index(operand));
        }
        let exec = self.launch.exec;
        if exec.outer_arrays.contains(&v) {
            Source::Outer
        } else if !self.state.tiles[v.index()].data.is_null() {
            Source::Tile
        } else {
            Source::Buffer
        }
    }

    /// An input of an inner stage, row by row: in memory where it lies there in runs, else in a tile.
    fn input_rows(&mut self, v: ValueId, dtype: DType, source: Source, block: &Block) -> Slot {
        let launch = self.launch;
        let len = block.b_len;
        let slot = |data, row_stride| Slot { data, len, row_stride, dtype };
        match source {
            Source::Load(operand) => {
                let access = launch.access(operand.index());
                if !access.dtype.is_narrow_float()
                    && let Some((at, stride)) = access.flat_rows(launch.forms(), block)
                    && let Ok(stride) = usize::try_from(stride)
                {
                    // SAFETY: the bindings vouch for every element that the plan reads.
                    return slot(unsafe { access.data.offset(at as isize * dtype.size() as isize) }, stride);
                }
                slot(self.load(operand.index(), v, Place::Inner, block), len)
            }
            Source::Tile => {
                let rows = self.state.tiles[v.index()];
                slot(rows.data, rows.stride)
            }
            Source::Buffer => slot(self.row_buffer(v, dtype, block), len),
            Source::Outer if launch.geometry.orientation == Orientation::Columns => {
                slot(self.state.arrays[v.index()], 0)
            }
            Source::Outer => slot(self.expand(v, dtype, block), len),
        }
    }

    /// The stages of all sweeps over a block, one after the other: of groups that reduce nothing.
    pub(crate) fn run_sweeps(&mut self, block: &Block) {
        let launch = self.launch;
        for pass in &launch.exec.passes {
            for &k in &pass.sweep {
                self.run_stage(k, block);
            }
        }
    }

    /// Runs a stage over a block, stores included. The lanes of its reductions are in place.
    pub(crate) fn run_stage(&mut self, k: usize, block: &Block) {
        let launch = self.launch;
        let stage: &StageExec = &launch.exec.stages[k];
        let inner = stage.place == Place::Inner;
        // The lanes of a row are the row's; those of columns follow one another as the columns do.
        let own_lanes = !stage.reductions.is_empty() && launch.geometry.orientation == Orientation::Rows;
        let by_rows = inner && (own_lanes || !launch.is_flat(block));
        let mut shape = if by_rows {
            TileShape { rows: block.a_len, len: block.b_len }
        } else {
            TileShape { rows: 1, len: block.len() }
        };
        self.state.inputs.clear();
        for &(v, dtype, source) in &stage.inputs {
            let slot = if by_rows {
                self.input_rows(v, dtype, source, block)
            } else {
                let data = self.input(v, dtype, source, stage.place, block);
                Slot { data, len: shape.len, row_stride: shape.len, dtype }
            };
            self.state.inputs.push(slot);
        }
        self.state.outputs.clear();
        for output in &stage.outputs {
            let rows = self.output_place(output, stage.place, block);
            self.state.tiles[output.value.index()] = rows;
            let row_stride = if by_rows { rows.stride } else { shape.len };
            let slot = Slot { data: rows.data, len: shape.len, row_stride, dtype: output.dtype };
            self.state.outputs.push(slot);
        }
        let state = &mut *self.state;
        let of_stage = state.inputs.iter().chain(&state.outputs);
        if shape.rows > 1
            && stage.reductions.is_empty()
            && of_stage.clone().all(|s| s.len == shape.len && s.row_stride == shape.len)
        {
            shape = TileShape { rows: 1, len: block.len() };
            state.inputs.iter_mut().chain(&mut state.outputs).for_each(|slot| slot.len = shape.len);
        }
        state.faults.clear();
        state.faults.resize(stage.faults.len(), usize::MAX);
        // SAFETY: inputs are initialised rows of their length, outputs are places of their own, lanes those of the
        // block, and the function is the version for an instruction set that was found here.
        unsafe {
            let scalars = launch.scalars(k);
            let lanes = if stage.reductions.is_empty() { &[] } else { &state.lanes[..] };
            let (inputs, outputs, faults) = (&state.inputs, &mut state.outputs, &mut state.faults);
            let mut tile = Tile::new(shape, inputs, outputs, lanes, scalars, faults);
            (stage.function)(&mut tile);
        }
        for (i, &v) in stage.faults.iter().enumerate() {
            let j = self.state.faults[i];
            if j != usize::MAX {
                self.record_fault(v, block, j, None);
            }
        }
        for output in &stage.outputs {
            let rows = self.state.tiles[output.value.index()];
            for &s in &output.stores {
                self.store_rows(s, rows, block);
            }
        }
    }

    /// All passes over these rows.
    pub(crate) fn run_rows(&mut self, outer: OuterBlock) {
        self.outer = outer;
        let launch = self.launch;
        let Some(row) = &launch.exec.row else { return };
        let positions = self.outer_positions();
        let (rows, len) = (outer.len, launch.geometry.b);
        let block = Block { c: 0, a: outer.start, a_len: rows, b: 0, b_len: len };
        self.state.inputs.clear();
        for &(v, dtype, operand) in &row.inputs {
            let slot = self.input_rows(v, dtype, Source::Load(operand), &block);
            self.state.inputs.push(slot);
        }
        for &(v, dtype, operand) in &row.outer_inputs {
            let data = self.load(operand.index(), v, Place::Outer, &positions);
            self.state.inputs.push(Slot { data, len: 1, row_stride: 1, dtype });
        }
        self.state.outputs.clear();
        for &(v, dtype) in &row.buffers {
            // Each row is done with before the next: one buffer will do.
            let data = self.state.row_buffers[v.index()];
            self.state.outputs.push(Slot { data, len, row_stride: 0, dtype });
        }
        for output in &row.outputs {
            let Rows { data, stride } = self.output_place(output, Place::Inner, &block);
            self.state.outputs.push(Slot { data, len, row_stride: stride, dtype: output.dtype });
        }
        for output in &row.outer_outputs {
            let data = self.state.arrays[output.value.index()];
            self.state.outputs.push(Slot { data, len: 1, row_stride: 1, dtype: output.dtype });
        }
        let state = &mut *self.state;
        // SAFETY: inputs are initialised rows of their length, outputs are places of their own, and the function is the
        // version for an instruction set that was found here.
        unsafe {
            let (inputs, outputs) = (&state.inputs, &mut state.outputs);
            let shape = TileShape { rows, len };
            let mut tile = Tile::new(shape, inputs, outputs, &[], launch.row_scalars(), &mut []);
            (row.function)(&mut tile);
        }
        for (k, output) in row.outputs.iter().enumerate() {
            let slot = self.state.outputs[row.buffers.len() + k];
            for &s in &output.stores {
                self.store_rows(s, Rows { data: slot.data, stride: slot.row_stride }, &block);
            }
        }
        for output in &row.outer_outputs {
            for &s in &output.stores {
                self.store(s, self.array(output.value), &positions);
            }
        }
    }

    /// Where a stage puts an output: into memory if its rows are runs there, else into scratch.
    fn output_place(&self, output: &Output, place: Place, block: &Block) -> Rows {
        let v = output.value.index();
        let flat = |data| Rows { data, stride: block.b_len };
        if place != Place::Inner {
            return flat(self.state.arrays[v]);
        }
        if output.buffered {
            return flat(self.row_buffer(output.value, output.dtype, block));
        }
        for &s in &output.stores {
            if let Some(rows) = self.direct_rows(s, block)
                && (rows.stride == block.b_len || !(output.flat || self.launch.is_flat(block)))
            {
                return rows;
            }
        }
        flat(self.at(self.state.layout.tiles[v]))
    }

    /// The rows of a block in memory, if a stage may write them there.
    fn direct_rows(&self, s: usize, block: &Block) -> Option<Rows> {
        let access = self.launch.store(s);
        if !self.launch.is_direct(s) {
            return None;
        }
        let (at, stride) = access.flat_rows(self.launch.forms(), block)?;
        let stride = if block.a_len == 1 { block.b_len } else { usize::try_from(stride).ok()? };
        // SAFETY: the block's elements are the launch's to write.
        let data = unsafe { access.data.offset(at as isize * access.dtype.size() as isize) };
        (stride >= block.b_len).then_some(Rows { data, stride })
    }

    /// Takes rows to memory, unless they lie there already.
    fn store_rows(&mut self, s: usize, rows: Rows, block: &Block) {
        if block.a_len == 1 || rows.stride == block.b_len {
            return self.store(s, rows.data, block);
        }
        if self.direct_rows(s, block).is_some_and(|place| place.data == rows.data) {
            return;
        }
        let size = self.launch.store(s).dtype.compute().size();
        for row in 0..block.a_len {
            let one = Block { a: block.a + row, a_len: 1, ..*block };
            // SAFETY: the row is one of the block's.
            let data = unsafe { rows.data.add(row * rows.stride * size) };
            self.store(s, data, &one);
        }
    }

    /// Takes a tile to memory, unless it lies there already.
    pub(crate) fn store(&mut self, s: usize, tile: *mut u8, block: &Block) {
        let launch = self.launch;
        let (access, f) = (launch.store(s), launch.forms());
        let (size, len) = (access.dtype.size(), block.len());
        // One element for the whole launch: the first outer positions store it, the others would store it again.
        let first = self.outer.c == 0 && self.outer.start == 0;
        if !first && access.kind == AccessKind::Memory && access.is_still() {
            return;
        }
        let is_narrow = access.dtype.is_narrow_float();
        let raw = self.at(self.state.layout.raw);
        // SAFETY: the block's elements are the launch's to write, and tiles hold a block.
        unsafe {
            if access.kind == AccessKind::General {
                let from = if is_narrow {
                    narrow(access.dtype, tile, raw, len);
                    raw
                } else {
                    tile
                };
                let indirect = |_: ValueId| (std::ptr::null(), DType::F32);
                let evaluation = Evaluation { launch, block: *block, indirect: &indirect };
                let store = &launch.exec.group.stores[s];
                let mut offsets = self.state.index_tiles.take(len);
                let strides = launch.buffer(store.buffer).strides;
                let parts = store.indices.iter().map(|(_, e)| e).zip(strides.iter().copied());
                evaluation.offsets(&Form::default(), parts, &mut self.state.index_tiles, &mut offsets);
                put(size, access.data, &offsets, from);
                self.state.index_tiles.give(offsets);
                return;
            }
            if let Some(at) = access.flat_offset(f, block) {
                let to = access.data.offset(at as isize * size as isize);
                if to == tile {
                    return;
                }
                if is_narrow {
                    narrow(access.dtype, tile, to, len);
                } else {
                    std::ptr::copy_nonoverlapping(tile, to, len * size);
                }
                return;
            }
            if is_narrow {
                narrow(access.dtype, tile, raw, len);
                access.scatter_raw(f, block, raw);
            } else {
                access.scatter_raw(f, block, tile);
            }
        }
    }

    /// Keeps a fault if it is the first in the order of the domain.
    pub(crate) fn record_fault(&self, v: ValueId, block: &Block, j: usize, index: Option<(i64, i64)>) {
        let launch = self.launch;
        let group = &launch.exec.group;
        let indices = launch.geometry.indices(&launch.domain, block, j);
        let axes = group.outer.iter().chain(&group.reduced);
        let position: Vec<_> = axes.map(|&a| (a, launch.domain.position(a, &indices))).collect();
        let mut key: Vec<i64> = vec![v.index() as i64];
        key.extend(position.iter().map(|(_, i)| *i));
        let fault = CpuFault { group: group.id, node: group.value(v).node, position, index };
        let mut first = launch.fault.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if first.as_ref().is_none_or(|(earlier, _)| key < *earlier) {
            *first = Some((key, fault));
        }
    }
}
