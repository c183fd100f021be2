//! Reductions that are cut into chunks: one kernel for the chunks, one that folds them.

use super::body::{Emitter, Scope, both};
use super::combine::{Reduction, collect_reductions};
use super::rows::{RowPass, row_run};
use super::sweep::plan_sweeps;
use super::team::Reach;
use super::{Scratch, Structure, THREADS};
use crate::dtype::DType;
use crate::id::{ArgId, ValueId};
use crate::index_map::IndexExpr;
use crate::kernel_ir::build::thread_x;
use crate::kernel_ir::{Access, Expr, LocalKind, Size, Stmt, Target, Unroll, Usage};
use crate::scalar::ScalarOp;
use crate::schedule::{BodyOp, CHUNK, Operand, ScheduledGroup};

/// The structures of the kernel for the chunks, the best first.
pub(super) fn structures(group: &ScheduledGroup) -> Vec<Structure> {
    if row_run(group).is_some() {
        let all = [true, false].map(|vectors| Structure::Chunks { vectors, columns: false });
        return all.to_vec();
    }
    let along = |axis| {
        group.operands.iter().any(|o| {
            matches!(o, Operand::Buffer { map, .. }
                if map.indices.last().is_some_and(|(_, e)| e.uses_index(axis)))
        })
    };
    // Where memory runs along an outer axis neighbouring lanes take neighbouring columns.
    let columns =
        group.outer.last().is_some_and(|a| along(*a)) && !group.reduced.last().is_some_and(|a| along(*a));
    vec![Structure::Chunks { vectors: false, columns }]
}

impl Emitter<'_> {
    /// Where the partial results of a reduction lie: a buffer for each component, chunk by chunk.
    fn partials(&mut self, group: &ScheduledGroup, reduction: &Reduction<'_>, usage: Usage) -> Vec<ArgId> {
        let product = |axes: &[crate::id::AxisId]| {
            axes.iter().fold(IndexExpr::Const(1), |p, a| p.times(IndexExpr::Extent(*a)))
        };
        let chunk = CHUNK as i64;
        let chunks = product(&group.reduced).plus(chunk - 1).floor_div(chunk);
        let elements = product(&group.outer).times(chunks);
        let first = reduction.values.first().map_or(0, |(v, _)| v.0);
        (0..reduction.components.len())
            .map(|k| {
                let key = (group.id, first * 64 + k as u32);
                let scratch = Scratch { elements: elements.clone(), dtype: reduction.components[k] };
                self.scratch_pointer(key, scratch, usage)
            })
            .collect()
    }

    /// The partial result of every chunk.
    pub(super) fn lower_chunks(&mut self, group: &ScheduledGroup, structure: Structure, block: Expr) -> Size {
        let Some(pass) = group.passes.first() else { return 0.into() };
        let vectors = matches!(structure, Structure::Chunks { vectors: true, .. });
        let run = if vectors { row_run(group) } else { None };
        let layout = self.lay_out(structure, run);
        let (outer, outer_expr) = self.count(&group.outer);
        let (inner, inner_expr) = self.count(&group.reduced);
        if let Some(run) = run {
            self.require_row_vectors(group, run, &inner);
        }
        let chunk = self.number(CHUNK as u64);
        let chunks = self.builder.bind("chunks", (&inner_expr + self.number(CHUNK as u64 - 1)) / &chunk);
        let chunk_count = inner.ceil_div(CHUNK as u64);
        let (rows, row) = (self.number(layout.rows.into()), self.widen(layout.row.clone()));
        let block = self.widen(block);
        // Teams of rows take chunk after chunk; a block of columns takes one chunk of 32 outer positions.
        let columns = layout.team.reach == Reach::Shared;
        let (position, own, live, blocks) = if columns {
            let own = self.builder.bind("chunk", &block % &chunks);
            let position = self.builder.bind("outer", (block / &chunks) * rows + row);
            let live = self.builder.bind("live", position.clone().lt(&outer_expr));
            (position, own, live, outer.ceil_div(u64::from(layout.rows)) * chunk_count)
        } else {
            let number = self.builder.bind("number", block * rows + row);
            let own = self.builder.bind("chunk", &number % &chunks);
            let position = self.builder.bind("outer", number / &chunks);
            let live = self.builder.bind("live", position.clone().lt(&outer_expr));
            (position, own, live, (outer * chunk_count).ceil_div(u64::from(layout.rows)))
        };
        let mut scope = Scope::new(group);
        self.compute_prologue(group, false, &mut scope);
        scope.active = Some(live.clone());
        let place = position.clone().cast(DType::U64) * inner_expr.clone().cast(DType::U64);
        scope.place = Some(place.clone());
        self.decompose(position.clone(), &group.outer, &mut scope);
        self.compute_prologue(group, true, &mut scope);
        let start = self.builder.bind("start", &own * &chunk);
        let rest = self.builder.bind("rest", live.clone().select(&inner_expr - &start, self.number(0)));
        let end = self.builder.bind("end", &start + rest.min(&chunk));
        let plan = plan_sweeps(group, false).into_iter().next().unwrap_or_default();
        let reductions = collect_reductions(group, &pass.reductions);
        let row = RowPass {
            layout: &layout,
            kept: &[],
            len: &end,
            whole: &inner_expr,
            place: &place,
            is_last: true,
        };
        let states = self.start_all(&reductions, &layout.team);
        self.emit_chunk(group, pass, &plan, &row, &states, (&start, &end), &scope);
        for (reduction, accumulators) in &states {
            let exchange: Vec<_> = match columns {
                true => reduction
                    .components
                    .iter()
                    .map(|d| self.share("parts", *d, u64::from(THREADS).into()))
                    .collect(),
                false => Vec::new(),
            };
            let partial = self.close_chunk(reduction, accumulators, &row, &exchange, &scope);
            let scratch = self.partials(group, reduction, Usage::Write);
            let at = self.builder.bind("partial", &position * &chunks + &own);
            let condition = both(Some(live.clone()), Some(layout.team.leads())).unwrap_or(true.into());
            self.builder.if_then(condition, |b| {
                for (pointer, e) in scratch.iter().zip(&partial) {
                    b.store(*pointer, &at, e, None);
                }
            });
        }
        blocks
    }

    /// Folds the chunks of each outer position, a block for each, and computes what depends on them.
    pub(super) fn lower_fold(&mut self, group: &ScheduledGroup, block: Expr) -> Size {
        let Some(pass) = group.passes.first() else { return 0.into() };
        let (outer, _) = self.count(&group.outer);
        let (_, inner_expr) = self.count(&group.reduced);
        let chunk = self.number(CHUNK as u64);
        let chunks = self.builder.bind("chunks", (&inner_expr + self.number(CHUNK as u64 - 1)) / chunk);
        let position = self.widen(block);
        let mut scope = Scope::new(group);
        scope.place = Some(position.clone().cast(DType::U64) * inner_expr.cast(DType::U64));
        self.compute_prologue(group, false, &mut scope);
        self.decompose(position.clone(), &group.outer, &mut scope);
        self.compute_prologue(group, true, &mut scope);
        let first = self.builder.bind("first", position * &chunks);
        let reductions = collect_reductions(group, &pass.reductions);
        let mut reduced = Vec::new();
        for reduction in &reductions {
            let scratch = self.partials(group, reduction, Usage::ReadWrite);
            self.fold_levels(reduction, &scratch, (&first, &chunks), &scope);
            let mut all = Vec::new();
            for (pointer, identity) in scratch.iter().zip(&reduction.identity) {
                let local = self.builder.local("reduced", identity.dtype(), LocalKind::Let);
                let zero = self.number(0);
                let access = Access {
                    memory: (*pointer).into(),
                    dtype: identity.dtype(),
                    index: first.clone(),
                    count: 1,
                    when: Some(zero.lt(&chunks)),
                };
                self.builder.push(Stmt::Load { target: Target::Let(local), access, fill: *identity });
                all.push(Expr::Local(local));
            }
            for (id, output) in &reduction.values {
                reduced.push((*id, reduction.finish(&all, *output)));
            }
        }
        for (id, value) in reduced {
            scope.values[id.index()] = Some(value);
        }
        let epilogue: Vec<ValueId> = pass
            .epilogue
            .iter()
            .copied()
            .filter(|v| !matches!(group.value(*v).op, BodyOp::Reduce { .. }))
            .collect();
        self.compute_all(group, &epilogue, &mut scope);
        self.builder.open();
        for &number in &pass.outer_stores {
            self.store(group, &group.stores[number as usize], &scope);
        }
        let then = self.builder.close();
        if pass.outer_stores.iter().any(|s| self.writes_over(group, *s, false)) {
            self.builder.block_barrier();
        }
        let condition = thread_x().equals(0u32);
        self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
        outer
    }

    /// Adjacent pairs, level by level, in place.
    fn fold_levels(
        &mut self,
        reduction: &Reduction<'_>,
        scratch: &[ArgId],
        (first, chunks): (&Expr, &Expr),
        scope: &Scope,
    ) {
        let one = self.number(1);
        // The number of levels: the bits of the last chunk's number; none if there is one chunk or none.
        let width = if self.index == DType::U64 { 64u32 } else { 32 };
        let last = chunks.clone().max(one.clone()) - &one;
        let levels = Expr::from(width) - last.unary(ScalarOp::LeadingZeros);
        let levels = self.builder.bind("levels", levels);
        let level = self.builder.local("level", DType::U32, LocalKind::Loop);
        self.builder.open();
        let reach = self.builder.bind("reach", one << Expr::Local(level));
        let left = self.builder.local("left", self.index, LocalKind::Loop);
        self.builder.open();
        let right = self.builder.bind("right", Expr::Local(left) + &reach);
        self.builder.open();
        let load = |em: &mut Self, at: Expr| -> Vec<Expr> {
            scratch.iter().map(|p| em.builder.load("part", *p, &at, None)).collect()
        };
        let here = self.builder.bind("here", first + Expr::Local(left));
        let a = load(self, here.clone());
        let b = load(self, first + &right);
        let total = self.combine(reduction, &a, &b, scope);
        for (pointer, e) in scratch.iter().zip(total) {
            self.builder.store(*pointer, &here, e, None);
        }
        let then = self.builder.close();
        let condition = right.lt(chunks);
        self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
        let body = self.builder.close();
        let double = &reach * self.number(2);
        let start = self.widen(thread_x()) * &double;
        let step = double * self.number(THREADS.into());
        let end = chunks.clone();
        self.builder.push(Stmt::For { local: left, start, end, step, unroll: Unroll::None, body });
        self.builder.block_barrier();
        let body = self.builder.close();
        self.builder.push(Stmt::For {
            local: level,
            start: 0u32.into(),
            end: levels,
            step: 1u32.into(),
            unroll: Unroll::None,
            body,
        });
    }
}
