//! Panels: the sources' tiles in shared memory.
//!
//! A tile lies in *lines* of 16-byte chunks. Lines run along the reduced positions where the source does in memory, else
//! along its rows or columns; chunk `c` of line `r` stands at `c ^ r`, by which of the eight groups of banks both have, so
//! that neither eight chunks of a line nor a chunk of eight lines meet a bank twice. A thread brings whole chunks:
//!
//! - by `cp.async`, where the source is an element of a buffer that lies along the line, aligned;
//! - as a run of the panel's program, where lines do not cross the ends of the innermost axis;
//! - else one position after the other.

use super::TilePlace;
use super::shape::{TileShape, Unit, narrow_root};
use crate::dtype::{DType, Value};
use crate::id::{AxisId, ValueId, ViewId};
use crate::index_map::IndexExpr;
use crate::kernel_ir::build::slots;
use crate::kernel_ir::{Condition, Expr, Stmt, Unroll};
use crate::lower::THREADS;
use crate::lower::body::{Emitter, Scope, both};
use crate::lower::vector::{Motion, Run, motion_of_indices};
use crate::schedule::contraction::{Panel, Parts, collect_axes};
use crate::schedule::{BodyOp, Operand, ScheduledGroup};

/// Bytes of a chunk.
const CHUNK_BYTES: u32 = 16;

/// A panel's tiles in shared memory.
pub(super) struct Staged {
    /// The panel, by number.
    pub(super) panel: usize,
    pub(super) view: ViewId,
    dtype: DType,
    /// What is brought: the source, or what a widening of it reads.
    root: ValueId,
    /// Whether lines run along the reduced positions.
    pub(super) along_depth: bool,
    /// Lines of a tile, and elements of a line.
    lines: u32,
    length: u32,
    /// Whether neighbouring threads bring chunks of neighbouring lines: where the source lies across them.
    across: bool,
    /// The axis along which lines run.
    axis: Option<AxisId>,
}

impl Staged {
    /// Elements of a chunk.
    pub(super) fn of_chunk(&self) -> u32 {
        CHUNK_BYTES / self.dtype.size() as u32
    }

    /// Chunks of a line.
    fn chunks(&self) -> u32 {
        self.length / self.of_chunk()
    }

    /// Elements of a stage.
    fn elements(&self) -> u32 {
        self.lines * self.length
    }

    /// The first element of a stage.
    pub(super) fn stage(&self, slot: &Expr) -> Expr {
        slot * self.elements()
    }

    /// The first element of a chunk of a line, within a stage.
    pub(super) fn chunk(&self, line: &Expr, chunk: &Expr) -> Expr {
        let chunks = self.chunks();
        let turn = if chunks >= 8 {
            line & 7u32
        } else {
            // Lines that share 128 bytes have the banks of different chunks already.
            (line / (8 / chunks)) & (chunks - 1)
        };
        line * self.length + (chunk ^ turn) * self.of_chunk()
    }
}

/// Whether what a panel loads lies along the reduced positions rather than along its own side.
pub(super) fn lies_along_depth(panel: &Panel, depth: Option<AxisId>, side: Option<AxisId>) -> bool {
    let uses = |e: &IndexExpr, axis: Option<AxisId>| axis.is_some_and(|a| e.uses_index(a));
    let innermost = panel.group.operands.iter().filter_map(|o| match o {
        Operand::Buffer { map, .. } => map.indices.last().map(|(_, e)| e),
        Operand::Index(_) | Operand::Mask(_) | Operand::Check { .. } => None,
    });
    let mut by_side = false;
    for e in innermost {
        if uses(e, depth) {
            return true;
        }
        by_side |= uses(e, side);
    }
    !by_side
}

impl Emitter<'_> {
    /// Shared memory for the stages of every panel.
    pub(super) fn share_panels(
        &mut self,
        parts: &Parts,
        group: &ScheduledGroup,
        shape: TileShape,
    ) -> Vec<Staged> {
        let depth_axis = group.reduced.last().copied();
        let mut staged: Vec<Staged> = Vec::new();
        for (number, panel) in parts.panels.iter().enumerate() {
            let (root, dtype) = match shape.unit {
                Unit::Tensor(mma) => (narrow_root(panel), mma.operand()),
                Unit::Scalar(_) => (panel.value, panel.group.value(panel.value).dtype.compute()),
            };
            let (axes, side) = match panel.is_left {
                true => (&parts.sides.rows, shape.rows),
                false => (&parts.sides.columns, shape.columns),
            };
            // All panels of a side lie alike, so that a thread has the same rows or columns of each.
            let first = parts.panels.iter().find(|p| p.is_left == panel.is_left).unwrap_or(panel);
            let natural = lies_along_depth(first, depth_axis, axes.last().copied());
            // `ldmatrix` transposes 16-bit elements only.
            let along_depth = natural || (shape.is_tensor() && dtype.size() != 2);
            let (lines, length) = if along_depth { (side, shape.depth) } else { (shape.depth, side) };
            let across = lies_along_depth(panel, depth_axis, axes.last().copied()) != along_depth;
            let axis = if along_depth { depth_axis } else { axes.last().copied() };
            let name = if panel.is_left { "row_tiles" } else { "column_tiles" };
            let elements = u64::from(shape.stages * lines * length);
            let view = self.share(name, dtype, elements.into());
            staged.push(Staged {
                panel: number,
                view,
                dtype,
                root,
                along_depth,
                lines,
                length,
                across,
                axis,
            });
        }
        staged
    }

    /// Brings the tile of a panel whose first reduced position is `first` to the stage `slot`.
    pub(super) fn stage_panel(
        &mut self,
        parts: &Parts,
        group: &ScheduledGroup,
        staged: &Staged,
        place: &TilePlace,
        (slot, first): (&Expr, &Expr),
        scope: &Scope,
    ) {
        let panel = &parts.panels[staged.panel];
        let name = if panel.is_left { "rows" } else { "columns" };
        let all = staged.lines * staged.chunks();
        let turns = all.div_ceil(THREADS);
        self.repeat("turn", turns, Unroll::Full, |em, turn| {
            let item = em.item("chunk", &turn);
            let (line, chunk) = match staged.across {
                false => (&item / staged.chunks(), &item % staged.chunks()),
                true => (&item % staged.lines, &item / staged.lines),
            };
            let line = em.builder.bind("line", line);
            let chunk = em.builder.bind("part", chunk);
            let to = staged.stage(slot) + staged.chunk(&line, &chunk);
            let to = em.builder.bind("to", to);
            let (along, across) = (&chunk * staged.of_chunk(), line);
            let (of_depth, of_side) = if staged.along_depth { (along, across) } else { (across, along) };
            let origin = if panel.is_left { &place.first_row } else { &place.first_column };
            let side = origin + em.widen(of_side);
            let side = em.builder.bind(if panel.is_left { "row" } else { "column" }, side);
            let depth = first + em.widen(of_depth);
            let depth = em.builder.bind("depth", depth);
            let at = ChunkPlace { parts, group, staged, place, side, depth, to };
            em.builder.open();
            let fact = em.bring_chunk(&at, scope, name);
            let quick = em.builder.close();
            let stmts = match fact {
                Some(None) => quick,
                Some(Some(fact)) => {
                    em.builder.open();
                    em.bring_positions(&at, scope);
                    let otherwise = em.builder.close();
                    vec![Stmt::If { condition: fact, then: quick, otherwise }]
                }
                None => {
                    em.builder.open();
                    em.bring_positions(&at, scope);
                    em.builder.close()
                }
            };
            // The last turn of a tile with fewer chunks than threads.
            if all.is_multiple_of(THREADS) {
                stmts.into_iter().for_each(|s| em.builder.push(s));
            } else {
                em.builder.push(Stmt::If { condition: item.lt(all), then: stmts, otherwise: Vec::new() });
            }
        });
    }

    /// A chunk at once, with the fact that it takes; `None` if there is no way.
    fn bring_chunk(&mut self, at: &ChunkPlace<'_>, scope: &Scope, name: &str) -> Option<Option<Expr>> {
        let (staged, panel) = (at.staged, at.panel());
        let axis = staged.axis?;
        let size = staged.of_chunk();
        let extent = self.extent_arg(&IndexExpr::Extent(axis), self.index);
        let whole = Condition::Multiple { size: extent.into(), of: size.into() };
        let scope = self.chunk_scope(at, scope, None);
        let mut conditions = vec![whole];
        match find_copy(panel, staged, axis) {
            Some((operand, k)) => {
                let Operand::Buffer { buffer, dtype, map } = &panel.group.operands[operand] else {
                    return None;
                };
                let mut scope = scope;
                let others: Vec<ValueId> = at.values().into_iter().filter(|v| *v != staged.root).collect();
                self.compute_all(&panel.group, &others, &mut scope);
                let within = self.bounds(&map.bounds, &scope);
                let within = both(scope.active.clone(), within).unwrap_or(true.into());
                conditions.extend(self.vector_conditions(*buffer, *dtype, &map.indices, k, size));
                let from = self.vector_offset(*buffer, &map.indices, k, &scope);
                let pointer = self.pointer(*buffer, *dtype);
                let valid = within.select(CHUNK_BYTES, 0u32);
                self.builder.copy_async(
                    (staged.view, at.to.clone()),
                    (pointer, from),
                    CHUNK_BYTES,
                    Some(valid),
                );
                Some(self.fact_for(&format!("{name}_copied").to_uppercase(), conditions))
            }
            None => {
                let fact = self.fact_for(&format!("{name}_in_runs").to_uppercase(), conditions);
                let chunk = self.builder.array("chunk", staged.dtype.compute(), size, None);
                let values = at.values();
                let run = Run { axis, len: size, values: &values, stores: &[], kept: &[], keep: &[] };
                self.emit_run(&panel.group, &run, &scope, &mut |em, scope, e| {
                    em.keep_source(at, scope, chunk, &e);
                });
                self.builder.store_from(staged.view, at.to.clone(), slots(chunk, 0u32, size), None);
                Some(fact)
            }
        }
    }

    /// A chunk, one position after the other.
    fn bring_positions(&mut self, at: &ChunkPlace<'_>, scope: &Scope) {
        let (staged, panel) = (at.staged, at.panel());
        let size = staged.of_chunk();
        let chunk = self.builder.array("chunk", staged.dtype.compute(), size, None);
        self.repeat("e", size, Unroll::Full, |em, e| {
            let step = em.widen(e.clone());
            let mut scope = em.chunk_scope(at, scope, Some(&step));
            em.compute_all(&panel.group, &at.values(), &mut scope);
            em.keep_source(at, &scope, chunk, &e);
        });
        self.builder.store_from(staged.view, at.to.clone(), slots(chunk, 0u32, size), None);
    }

    /// `chunk[e]` is the source, or zero outside.
    fn keep_source(&mut self, at: &ChunkPlace<'_>, scope: &Scope, chunk: crate::id::ArrayId, e: &Expr) {
        let value = self.value(scope, at.staged.root);
        let zero = Value::zero(at.staged.dtype.compute());
        let value = match &scope.active {
            Some(active) => active.clone().select(value, zero),
            None => value,
        };
        self.builder.set_element(chunk, e, value);
    }

    /// The scope of a position of a chunk: of its first, or so many further.
    fn chunk_scope(&mut self, at: &ChunkPlace<'_>, scope: &Scope, step: Option<&Expr>) -> Scope {
        let (staged, place) = (at.staged, at.place);
        let (mut side, mut depth) = (at.side.clone(), at.depth.clone());
        if let Some(step) = step {
            let moved = if staged.along_depth { &mut depth } else { &mut side };
            *moved = self.builder.bind("at", &*moved + step);
        }
        self.panel_scope(at.parts, at.group, staged.panel, place, (&side, &depth), scope)
    }

    /// What is known at a row or column of a panel and a reduced position.
    pub(super) fn panel_scope(
        &mut self,
        parts: &Parts,
        group: &ScheduledGroup,
        panel: usize,
        place: &TilePlace,
        (side, depth): (&Expr, &Expr),
        scope: &Scope,
    ) -> Scope {
        let is_left = parts.panels[panel].is_left;
        let extent = if is_left { &place.rows } else { &place.columns };
        let mut scope = scope.clone();
        let inside = side.clone().lt(extent) & depth.clone().lt(&place.depth);
        scope.active = Some(self.builder.bind("inside", inside));
        let sides = &parts.sides;
        self.decompose(side.clone(), if is_left { &sides.rows } else { &sides.columns }, &mut scope);
        self.decompose(depth.clone(), &group.reduced, &mut scope);
        // The first of the positions of the domain that read it.
        let far = |e: &Expr| e.clone().cast(DType::U64);
        let (rows, columns) = (far(&place.rows), far(&place.columns));
        let of_batch = far(&place.batch) * rows;
        let outer = match is_left {
            true => (of_batch + far(side)) * columns,
            false => of_batch * columns + far(side),
        };
        scope.place = Some(outer * far(&place.depth) + far(depth));
        scope
    }
}

/// Where a chunk lies.
struct ChunkPlace<'a> {
    parts: &'a Parts,
    group: &'a ScheduledGroup,
    staged: &'a Staged,
    place: &'a TilePlace,
    /// The linear row or column and reduced position of its first element.
    side: Expr,
    depth: Expr,
    /// Its first element in shared memory.
    to: Expr,
}

impl ChunkPlace<'_> {
    fn panel(&self) -> &Panel {
        &self.parts.panels[self.staged.panel]
    }

    /// The values that the source needs, in order; it is the last.
    fn values(&self) -> Vec<ValueId> {
        let pass = self.panel().group.passes.first();
        let root = self.staged.root;
        pass.map_or(Vec::new(), |p| p.values.iter().copied().filter(|v| *v <= root).collect())
    }
}

/// The operand that a chunk may be copied from, with the number of the buffer's axis along which it lies: nothing else
/// moves along the line.
fn find_copy(panel: &Panel, staged: &Staged, axis: AxisId) -> Option<(usize, usize)> {
    let group = &panel.group;
    let BodyOp::Load(operand) = &group.value(staged.root).op else { return None };
    let Operand::Buffer { dtype, map, .. } = &group.operands[operand.index()] else { return None };
    if *dtype != staged.dtype || map.bounds.iter().any(|b| b.expr.uses_index(axis)) {
        return None;
    }
    let Motion::Vector(k) = motion_of_indices(&map.indices, axis) else { return None };
    let axes = collect_axes(&group.operands, &group.values, &[]);
    let moves = |v: usize| v < staged.root.index() && axes[v].contains(&axis);
    if (0..group.values.len()).any(moves) {
        return None;
    }
    Some((operand.index(), k))
}
