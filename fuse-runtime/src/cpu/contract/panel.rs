//! The sources of products: where they lie, or how they get into a panel.

use super::super::access::AccessKind;
use super::super::access::widen;
use super::super::bindings::Bindings;
use super::super::geometry::Block;
use super::super::launch::{Launch, LaunchBuffers, Steps};
use super::super::parallel::run_uniform;
use super::super::prepare::GroupExec;
use super::super::worker::Worker;
use super::multiply::Operand;
use super::{BLOCK, Sizes, count_dims, multiplied};
use fuse_ir::dtype::DType;
use fuse_ir::id::{AxisId, ValueId};
use fuse_ir::schedule::BodyOp;
use fuse_ir::stage::Place;

/// A source, ready to run.
#[derive(Debug)]
pub(super) struct PanelExec {
    pub(super) exec: GroupExec,
    /// The value that it is.
    value: ValueId,
    /// The operand, if it is only loaded.
    load: Option<usize>,
    /// Whether it has the rows; else the columns.
    pub(super) is_left: bool,
}

impl PanelExec {
    pub(super) fn new(exec: GroupExec, value: ValueId, is_left: bool) -> PanelExec {
        let load = match exec.group.value(value).op {
            BodyOp::Load(operand) => Some(operand.index()),
            BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => None,
            BodyOp::Map { .. } | BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => None,
        };
        PanelExec { exec, value, load, is_left }
    }

    /// The operand, if it is only loaded.
    pub(super) fn load_operand(&self) -> Option<usize> {
        self.load
    }

    /// The dtype of the panel.
    pub(super) fn dtype(&self) -> DType {
        multiplied(self.exec.group.value(self.value).dtype)
    }
}

/// A source in one launch. Side `a` of its blocks is the one that lies across memory.
pub(super) struct PanelPlace<'a> {
    pub(super) exec: &'a PanelExec,
    pub(super) launch: Launch<'a>,
    /// Whether side `a` is the reduced one.
    depth_first: bool,
    /// The strides along its own side and along the reduced positions, if it is read where it lies.
    strides: Option<(i64, i64)>,
    /// Of what is only loaded: the forms of the positions on the axes of its buffer, if all are affine.
    pub(super) positions: Vec<usize>,
}

impl<'a> PanelPlace<'a> {
    /// Resolves a source; `None` if there is nothing of it.
    pub(super) fn new(
        panel: &'a PanelExec,
        bindings: &'a Bindings<'a>,
        buffers: &mut Box<LaunchBuffers>,
        (batch, side): (&[AxisId], &[AxisId]),
        sizes: &Sizes,
    ) -> Option<PanelPlace<'a>> {
        let exec = &panel.exec;
        let mut launch = Launch::unplaced(exec, bindings, buffers)?;
        let reduced =
            launch.domain.len - count_dims(&launch.domain, batch) - count_dims(&launch.domain, side);
        let dims = [count_dims(&launch.domain, batch), count_dims(&launch.domain, side), reduced];
        // Blocks run along memory: along the side on which the first load has the least stride.
        let depth_first = launch.runs_along(dims);
        let positions = panel.load.map_or(Vec::new(), |operand| launch.add_positions(operand));
        launch.place_sides(dims, depth_first);
        let own = if panel.is_left { sizes.tile_rows } else { sizes.tile_columns };
        let b = if depth_first { own } else { sizes.tile_depth };
        launch.settle(Steps { outer: 1, rows: 1, a: (BLOCK / b.max(1)).max(1), b });
        run_uniform(&mut launch);
        let mut place = PanelPlace { exec: panel, launch, depth_first, strides: None, positions };
        place.strides = place.find_direct();
        Some(place)
    }

    fn find_direct(&self) -> Option<(i64, i64)> {
        let access = self.launch.access(self.exec.load?);
        let plain = access.kind == AccessKind::Memory && access.bounds.is_empty();
        let is_multiplied = matches!(access.dtype, DType::F32 | DType::F64 | DType::I8 | DType::U8);
        if !plain || !is_multiplied || access.dtype != self.exec.dtype() {
            return None;
        }
        let (a, b) = access.strides()?;
        let (side, depth) = if self.depth_first { (b, a) } else { (a, b) };
        (side >= 0 && depth >= 0).then_some((side, depth))
    }

    /// Whether side `a` is the reduced one.
    pub(super) fn is_depth_first(&self) -> bool {
        self.depth_first
    }

    /// Whether it is read where it lies.
    pub(super) fn is_direct(&self) -> bool {
        self.strides.is_some()
    }

    /// Bytes of its panel.
    pub(super) fn bytes(&self, sizes: &Sizes) -> usize {
        if self.is_direct() {
            return 0;
        }
        let own = if self.exec.is_left { sizes.tile_rows } else { sizes.tile_columns };
        own * sizes.tile_depth * self.exec.dtype().size()
    }

    /// Where it lies from these positions on, if it is read there.
    pub(super) fn direct(&self, c: usize, start: usize, k: usize) -> Option<Operand> {
        let (side, depth) = self.strides?;
        let access = self.launch.access(self.exec.load?);
        let (a, b) = if self.depth_first { (k, start) } else { (start, k) };
        let forms = self.launch.forms();
        let at = forms.geometry.at_block(&forms.forms[access.form], &Block { c, a, a_len: 1, b, b_len: 1 });
        // SAFETY: the bindings vouch for every element that the plan reads.
        let data = unsafe { access.data.offset(at as isize * access.dtype.size() as isize) };
        Some(Operand { data, side: side as isize, depth: depth as isize })
    }

    /// The panel of these many positions.
    pub(super) fn operand(&self, data: *mut u8, len: usize, depth: usize) -> Operand {
        match self.depth_first {
            true => Operand { data, side: 1, depth: len as isize },
            false => Operand { data, side: depth as isize, depth: 1 },
        }
    }

    /// Fills a panel with the positions `side` (start and length) and `depth` (start and length).
    pub(super) fn fill(
        &self,
        worker: &mut Worker<'_>,
        panel: *mut u8,
        c: usize,
        side: (usize, usize),
        depth: (usize, usize),
    ) {
        let (down, along) = if self.depth_first { (depth, side) } else { (side, depth) };
        let size = self.exec.dtype().size();
        if let Some(operand) = self.exec.load {
            let access = self.launch.access(operand);
            if access.kind == AccessKind::Memory && !access.dtype.is_narrow_float() {
                let block = Block { c, a: down.0, a_len: down.1, b: along.0, b_len: along.1 };
                // SAFETY: the bindings vouch for every element that the plan reads, and the panel has room for all.
                return unsafe { access.gather_raw(self.launch.forms(), &block, panel) };
            }
        }
        let step = (BLOCK / along.1.max(1)).max(1).min(self.launch.steps.a);
        for row in (0..down.1).step_by(step) {
            let block =
                Block { c, a: down.0 + row, a_len: step.min(down.1 - row), b: along.0, b_len: along.1 };
            // SAFETY: the rows lie in the panel.
            let to = unsafe { panel.add(row * along.1 * size) };
            match self.exec.load {
                Some(operand) => self.copy(worker, operand, to, &block),
                None => {
                    worker.give_row_buffer(self.exec.value, to);
                    worker.run_sweeps(&block);
                }
            }
        }
    }

    /// A block of what is only loaded.
    fn copy(&self, worker: &mut Worker<'_>, operand: usize, to: *mut u8, block: &Block) {
        let access = self.launch.access(operand);
        let forms = self.launch.forms();
        // SAFETY: the bindings vouch for every element that the plan reads, and the panel has room for the block.
        unsafe {
            // What needs no widening was copied as a whole.
            if access.kind == AccessKind::Memory
                && let Some(at) = access.flat_offset(forms, block)
            {
                let from = access.data.offset(at as isize * access.dtype.size() as isize);
                return widen(access.dtype, from, to, block.len());
            }
            let tile = worker.load(operand, self.exec.value, Place::Inner, block);
            std::ptr::copy_nonoverlapping(tile, to, block.len() * self.exec.dtype().size());
        }
    }
}
