//! Groups without reductions: a grid of threads over the linear positions of the domain.

use super::body::{Emitter, Scope};
use super::vector::{Motion, Run, motion_of_indices, motion_of_operand, run_length};
use super::{Structure, THREADS};
use crate::dtype::DType;
use crate::id::AxisId;
use crate::index_map::IndexExpr;
use crate::kernel_ir::build::thread_x;
use crate::kernel_ir::{Builtin, Condition, Expr, Size, Unroll};
use crate::program::Program;
use crate::schedule::{Level, Operand, ScheduledGroup};

/// Blocks of a pointwise launch at most; further positions are taken in turns.
const MOST_BLOCKS: u64 = 1 << 20;

/// The structures of a pointwise group, the best first.
pub(super) fn structures(_: &Program, group: &ScheduledGroup) -> Vec<Structure> {
    let mut list = Vec::new();
    let run = group.outer.last().and_then(|axis| run_length(group, *axis)).unwrap_or(1);
    if run > 1 && is_flat(group) {
        list.push(Structure::Flat);
    }
    if super::tile::find_crossing(group).is_some() {
        list.push(Structure::Tiles);
    }
    if run > 1 {
        list.push(Structure::Runs);
    }
    list.push(Structure::Scalar);
    list
}

/// Whether every buffer could be dense over the domain, and nothing asks where on an axis it stands.
fn is_flat(group: &ScheduledGroup) -> bool {
    let whole = |indices: &[(AxisId, IndexExpr)]| {
        indices.is_empty()
            || (indices.len() == group.outer.len()
                && indices.iter().zip(&group.outer).all(|((_, e), a)| *e == IndexExpr::Index(*a)))
    };
    let loads = group.operands.iter().all(|o| match o {
        Operand::Buffer { map, .. } => map.bounds.is_empty() && whole(&map.indices),
        Operand::Index(_) | Operand::Mask(_) | Operand::Check { .. } => false,
    });
    loads && group.stores.iter().all(|s| !s.indices.is_empty() && whole(&s.indices))
}

impl Emitter<'_> {
    /// A pointwise group; gives its number of blocks.
    pub(super) fn lower_pointwise(
        &mut self,
        group: &ScheduledGroup,
        structure: Structure,
        block: Expr,
        shares_launch: bool,
    ) -> Size {
        let last = group.outer.last().copied();
        let run = match (structure, last) {
            (Structure::Scalar, _) | (_, None) => 1,
            (_, Some(axis)) => run_length(group, axis).unwrap_or(1),
        };
        let (total, total_expr) = self.count(&group.outer);
        let threads = total.clone().ceil_div(u64::from(run));
        let blocks = threads.ceil_div(u64::from(THREADS)).min(MOST_BLOCKS);
        match (structure, last) {
            (Structure::Flat, Some(_)) => self.require_flat(group, run),
            (Structure::Runs, Some(axis)) => self.require_runs(group, axis, run),
            (_, _) => {}
        }
        let mut scope = Scope::new(group);
        // Over no axes there is one position, whose thread alone may read what it writes.
        let alone = group.outer.is_empty();
        if !alone {
            self.compute_prologue(group, false, &mut scope);
        }
        let own = self.widen(block) * self.number(u64::from(THREADS)) + self.widen(thread_x());
        let start = self.builder.bind("start", own * self.number(u64::from(run)));
        // Other groups have blocks of the launch too: the step is that of this group's blocks.
        let count = if shares_launch {
            let size = blocks.clone();
            self.size_expr(&size)
        } else {
            Expr::from(Builtin::GridDim(0))
        };
        let step = self.widen(count) * self.number(u64::from(THREADS * run));
        let local = self.builder.local("first", self.index, crate::kernel_ir::LocalKind::Loop);
        self.builder.open();
        let first = Expr::Local(local);
        scope.place = Some(first.clone().cast(DType::U64));
        let pass = group.passes.first().cloned().unwrap_or_default();
        match structure {
            Structure::Flat => {
                scope.flat = Some(first.clone());
                let axis = last.unwrap_or(AxisId(0));
                let whole = (&first + self.number(u64::from(run))).le(&total_expr);
                self.builder.open();
                let spec =
                    Run { axis, len: run, values: &pass.values, stores: &pass.stores, kept: &[], keep: &[] };
                self.emit_run(group, &spec, &scope, &mut |_, _, _| ());
                let then = self.builder.close();
                self.builder.open();
                let tail = self.builder.local("tail", self.index, crate::kernel_ir::LocalKind::Loop);
                self.builder.open();
                let mut one = scope.clone();
                one.flat = Some(tail.into());
                one.place = Some(Expr::from(tail).cast(DType::U64));
                self.emit_position(group, &pass, &mut one);
                let body = self.builder.close();
                self.builder.push(crate::kernel_ir::Stmt::For {
                    local: tail,
                    start: first,
                    end: total_expr.clone(),
                    step: self.number(1),
                    unroll: Unroll::None,
                    body,
                });
                let otherwise = self.builder.close();
                self.builder.push(crate::kernel_ir::Stmt::If { condition: whole, then, otherwise });
            }
            Structure::Runs => {
                let axis = last.unwrap_or(AxisId(0));
                self.decompose_runs(first, group, run, &mut scope);
                let spec =
                    Run { axis, len: run, values: &pass.values, stores: &pass.stores, kept: &[], keep: &[] };
                self.emit_run(group, &spec, &scope, &mut |_, _, _| ());
            }
            _ => {
                if alone {
                    self.compute_prologue(group, false, &mut scope);
                }
                self.decompose(first, &group.outer, &mut scope);
                self.emit_position(group, &pass, &mut scope);
            }
        }
        let body = self.builder.close();
        self.builder.push(crate::kernel_ir::Stmt::For {
            local,
            start,
            end: total_expr,
            step,
            unroll: Unroll::None,
            body,
        });
        blocks
    }

    /// One position: its values and stores.
    pub(super) fn emit_position(
        &mut self,
        group: &ScheduledGroup,
        pass: &crate::schedule::Pass,
        scope: &mut Scope,
    ) {
        self.compute_all(group, &pass.values, scope);
        let outer: Vec<_> =
            pass.epilogue.iter().copied().filter(|v| group.value(*v).level < Level::Inner).collect();
        self.compute_all(group, &outer, scope);
        for &number in pass.stores.iter().chain(&pass.outer_stores) {
            self.store(group, &group.stores[number as usize], scope);
        }
    }

    /// The positions of the first element of a run: the last axis is divided into runs, so that the position on it is
    /// known to be a multiple of their length.
    pub(super) fn decompose_runs(
        &mut self,
        first: Expr,
        group: &ScheduledGroup,
        run: u32,
        scope: &mut Scope,
    ) {
        let Some((last, others)) = group.outer.split_last() else { return };
        let len = self.number(u64::from(run));
        let runs = self.builder.bind("run", first / &len);
        let name = self.axis_name(*last);
        if others.is_empty() {
            let at = self.builder.bind(&format!("i_{name}"), runs * len);
            scope.positions.insert(*last, at);
            return;
        }
        let extent = self.extent(&IndexExpr::Extent(*last));
        let in_axis = self.builder.bind("runs", extent / &len);
        let at = self.builder.bind(&format!("i_{name}"), (&runs % &in_axis) * len);
        scope.positions.insert(*last, at);
        let rest = self.builder.bind("rest", runs / in_axis);
        self.decompose(rest, others, scope);
    }

    fn require_runs(&mut self, group: &ScheduledGroup, axis: AxisId, run: u32) {
        let extent = self.extent_arg(&IndexExpr::Extent(axis), self.index);
        let mut requires = vec![Condition::Multiple { size: extent.into(), of: run.into() }];
        // The first access that can be a vector must be one; others are told apart by facts.
        let store = group.stores.iter().find_map(|s| match motion_of_indices(&s.indices, axis) {
            Motion::Vector(k) => Some((s.buffer, s.dtype, &s.indices, k)),
            Motion::Same | Motion::Each => None,
        });
        let load = group.operands.iter().find_map(|o| match (motion_of_operand(o, axis), o) {
            (Motion::Vector(k), Operand::Buffer { buffer, dtype, map }) => {
                Some((*buffer, *dtype, &map.indices, k))
            }
            _ => None,
        });
        if let Some((buffer, dtype, indices, k)) = store.or(load) {
            requires.extend(self.vector_conditions(buffer, dtype, indices, k, run));
        }
        self.builder.kernel_mut().requires.extend(requires);
    }

    fn require_flat(&mut self, group: &ScheduledGroup, run: u32) {
        let mut accessed = Vec::new();
        for operand in &group.operands {
            if let Operand::Buffer { buffer, dtype, map } = operand
                && !map.indices.is_empty()
            {
                accessed.push((*buffer, *dtype, map.indices.clone()));
            }
        }
        accessed.extend(group.stores.iter().map(|s| (s.buffer, s.dtype, s.indices.clone())));
        let mut requires: Vec<Condition> = Vec::new();
        for (buffer, dtype, indices) in accessed {
            let pointer = self.pointer(buffer, dtype);
            let mut add = |c: Condition| {
                if !requires.contains(&c) {
                    requires.push(c);
                }
            };
            add(Condition::Aligned { pointer, bytes: run * dtype.size() as u32 });
            let mut dense: Size = 1.into();
            let mut strides = Vec::new();
            for (k, (axis, _)) in indices.iter().enumerate().rev() {
                let stride = self.stride(buffer, k as u32, *axis);
                strides.push(Condition::Equal(stride.into(), dense.clone()));
                let extent = self.extent_arg(&IndexExpr::Extent(group.outer[k]), self.index);
                dense = dense * Size::Param(extent);
            }
            strides.into_iter().for_each(add);
        }
        self.builder.kernel_mut().requires.extend(requires);
    }
}
