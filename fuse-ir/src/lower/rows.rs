//! Reductions whose outer positions are each owned by one team, one block, or one column of a block.
//!
//! ```text
//! short rows   warp: | team 0 | team 1 | …      a row each, one chunk
//! block rows   block: team g takes the chunks g, g + C, …; C is a power of two, so that the results of C neighbouring
//!              chunks fold to one node of the tree; nodes go into a binary counter in shared memory
//! columns      32 lanes are 32 outer positions, the 8 warps share the accumulators; chunk after chunk into the counter
//! ```

use super::body::{Emitter, Scope, both};
use super::combine::{Reduction, collect_reductions};
use super::sweep::{Kept, Sweep, SweepPlan, find_predecessor, is_read_in_order, list_kept, plan_sweeps};
use super::team::{Accumulators, Reach, Team};
use super::vector::{Motion, motion_of_operand, run_length};
use super::{Scratch, Structure, THREADS, fits_shared};
use crate::dtype::DType;
use crate::id::{LocalId, ValueId, ViewId};
use crate::index_map::IndexExpr;
use crate::kernel_ir::build::{Builder, thread_x};
use crate::kernel_ir::{
    Builtin, Condition, Expr, LocalKind, Memory, Scope as BarrierScope, ShuffleKind, Size, Stmt, Unroll,
    Usage,
};
use crate::scalar::ScalarOp;
use crate::schedule::{BodyOp, CHUNK, LANES, Level, Operand, Pass, ScheduledGroup};

/// Threads of a block of short rows: few, so that what is kept of long ones fits.
const SHORT_THREADS: u32 = 64;

/// Heights of the tree over the rounds of a row with 32-bit indices: rows have less than 2^31 positions.
const HEIGHTS: u64 = 20;
/// The same with 64-bit indices, for rows of 2^52 positions.
const WIDE_HEIGHTS: u64 = 40;

/// The structures of a group that walks rows, the best first.
pub(super) fn structures(group: &ScheduledGroup) -> Vec<Structure> {
    let vectors = row_run(group).is_some();
    let keeps = plan_sweeps(group, true).iter().any(|p| !p.keep.is_empty());
    let mut list = Vec::new();
    for keep in [true, false] {
        if keep && !keeps {
            continue;
        }
        for vectors in [true, false] {
            if vectors && row_run(group).is_none() {
                continue;
            }
            list.push(Structure::ShortRows { vectors, keep });
        }
    }
    for keep in [true, false] {
        if keep && !keeps {
            continue;
        }
        if vectors {
            list.push(Structure::BlockRows { vectors: true, keep });
        }
        list.push(Structure::BlockRows { vectors: false, keep });
    }
    list
}

/// The structures of a group that walks columns, the best first.
pub(super) fn column_structures(group: &ScheduledGroup) -> Vec<Structure> {
    let keeps = plan_sweeps(group, true).iter().any(|p| !p.keep.is_empty());
    let all = [Structure::Columns { keep: true }, Structure::Columns { keep: false }];
    all[usize::from(!keeps)..].to_vec()
}

/// Elements of a vector along the reduced axes, if anything moves along them by one.
pub(super) fn row_run(group: &ScheduledGroup) -> Option<u32> {
    let axis = *group.reduced.last()?;
    let moves = group.operands.iter().any(|o| matches!(motion_of_operand(o, axis), Motion::Vector(_)));
    run_length(group, axis).filter(|n| *n > 1 && moves).map(|n| n.min(8))
}

/// The shared memory through which the chunks of a block become a row, for one reduction.
struct Exchange {
    /// What each team of the block has, or each warp of each column.
    parts: Vec<ViewId>,
    /// The binary counter.
    heights: Vec<ViewId>,
    /// The finished partial result, if threads need it that did not make it.
    result: Vec<ViewId>,
}

/// How a block is laid out for a group.
pub(super) struct Layout {
    pub(super) team: Team,
    /// Which team of the block this thread is in, a u32.
    number: Expr,
    /// Teams of a block that share a row.
    teams: u32,
    /// Outer positions of a block.
    pub(super) rows: u32,
    /// Which of them this thread works on, a u32.
    pub(super) row: Expr,
    /// Whether a row is one chunk of one team.
    short: bool,
}

impl Emitter<'_> {
    /// A group of rows or columns; gives its number of blocks.
    pub(super) fn lower_rows(&mut self, group: &ScheduledGroup, structure: Structure, block: Expr) -> Size {
        let keep = matches!(
            structure,
            Structure::ShortRows { keep: true, .. }
                | Structure::BlockRows { keep: true, .. }
                | Structure::Columns { keep: true }
        );
        let vectors = matches!(
            structure,
            Structure::ShortRows { vectors: true, .. } | Structure::BlockRows { vectors: true, .. }
        );
        let run = if vectors { row_run(group) } else { None };
        let layout = self.lay_out(structure, run);
        let (outer, outer_expr) = self.count(&group.outer);
        let (inner, inner_expr) = self.count(&group.reduced);
        if layout.short {
            // An empty row gives the identity itself, not the fold of 64 identities.
            let limits = [
                Condition::AtMost(inner.clone(), (CHUNK as u64).into()),
                Condition::AtMost(1.into(), inner.clone()),
            ];
            self.builder.kernel_mut().requires.extend(limits);
        }
        if let Some(run) = run {
            self.require_row_vectors(group, run, &inner);
        }
        let rows = self.number(layout.rows.into());
        let position = self.widen(block) * rows + self.widen(layout.row.clone());
        let position = self.builder.bind("outer", position);
        let mut scope = Scope::new(group);
        let live = (layout.rows > 1).then(|| self.builder.bind("live", position.clone().lt(&outer_expr)));
        // Threads without a row do not read what another one may write.
        scope.active = live.clone().filter(|_| self.overwrites(group));
        self.compute_prologue(group, false, &mut scope);
        scope.active = live.clone();
        let len = match &live {
            Some(live) => {
                let zero = self.number(0);
                self.builder.bind("len", live.clone().select(&inner_expr, zero))
            }
            None => inner_expr.clone(),
        };
        let place = position.clone().cast(DType::U64) * inner_expr.clone().cast(DType::U64);
        scope.place = Some(place.clone());
        self.decompose(position.clone(), &group.outer, &mut scope);
        self.compute_prologue(group, true, &mut scope);

        let plans = plan_sweeps(group, keep);
        let kept = self.place_kept(group, &plans, keep, &layout, (&inner, &outer), &position, &inner_expr);
        for (k, (pass, plan)) in group.passes.iter().zip(&plans).enumerate() {
            // A position is the same thread's in all sweeps, but what is reduced in order is read by one for all.
            let before = &group.passes[..k];
            let ordered = before
                .iter()
                .any(|p| collect_reductions(group, &p.reductions).iter().any(Reduction::is_ordered));
            if k > 0 && pass.stores.iter().any(|s| self.writes_over(group, *s, !ordered)) {
                self.barrier(&layout);
            }
            let is_last = k + 1 == group.passes.len();
            let context = RowPass {
                layout: &layout,
                kept: &kept,
                len: &len,
                whole: &inner_expr,
                place: &place,
                is_last,
            };
            let results = self.emit_pass(group, pass, plan, &context, &scope);
            for (id, value) in results {
                scope.values[id.index()] = Some(value);
            }
            for id in &plan.scans {
                self.scan(&kept, *id, &layout, &len);
            }
            self.finish_pass(group, pass, (&layout, is_last), &mut scope);
        }
        if keep {
            let requirement = fits_shared(self.shared.clone(), self.options);
            self.builder.kernel_mut().requires.push(requirement);
        }
        outer.ceil_div(u64::from(layout.rows))
    }

    pub(super) fn lay_out(&mut self, structure: Structure, run: Option<u32>) -> Layout {
        let lanes = LANES as u32;
        let members = match run {
            Some(run) => lanes / run,
            None => lanes / 2,
        };
        let thread = thread_x();
        let runs = run.is_some();
        let split = |b: &mut Self, members: u32| {
            (b.builder.bind("team", &thread / members), b.builder.bind("member", &thread % members))
        };
        match structure {
            Structure::ShortRows { .. } => {
                self.builder.kernel_mut().geometry.block = [SHORT_THREADS, 1, 1];
                let (number, member) = split(self, members);
                let team = Team { member, members, runs, reach: Reach::Shuffle };
                let rows = SHORT_THREADS / members;
                Layout { team, number: 0u32.into(), teams: 1, rows, row: number, short: true }
            }
            Structure::Columns { .. } | Structure::Chunks { columns: true, .. } => {
                let member = Expr::from(Builtin::Warp);
                let team = Team { member, members: THREADS / 32, runs: false, reach: Reach::Shared };
                let row = Builtin::Lane.into();
                Layout { team, number: 0u32.into(), teams: 1, rows: 32, row, short: false }
            }
            Structure::Chunks { .. } => {
                let (number, member) = split(self, members);
                let team = Team { member, members, runs, reach: Reach::Shuffle };
                let rows = THREADS / members;
                Layout { team, number: 0u32.into(), teams: 1, rows, row: number, short: true }
            }
            _ => {
                let (number, member) = split(self, members);
                let team = Team { member, members, runs, reach: Reach::Shuffle };
                Layout { team, number, teams: THREADS / members, rows: 1, row: 0u32.into(), short: false }
            }
        }
    }

    pub(super) fn require_row_vectors(&mut self, group: &ScheduledGroup, run: u32, inner: &Size) {
        let Some(&axis) = group.reduced.last() else { return };
        let extent = self.extent_arg(&IndexExpr::Extent(axis), self.index);
        let mut requires = vec![
            Condition::Multiple { size: extent.into(), of: run.into() },
            Condition::Multiple { size: inner.clone(), of: run.into() },
        ];
        // The first operand that can be loaded as vectors must be; others are told apart by facts.
        let first = group.operands.iter().find_map(|o| match (motion_of_operand(o, axis), o) {
            (Motion::Vector(k), Operand::Buffer { buffer, dtype, map }) => {
                Some((*buffer, *dtype, map.indices.clone(), k))
            }
            _ => None,
        });
        if let Some((buffer, dtype, indices, k)) = first {
            requires.extend(self.vector_conditions(buffer, dtype, &indices, k, run));
        }
        let kernel = self.builder.kernel_mut();
        for condition in requires {
            if !kernel.requires.contains(&condition) {
                kernel.requires.push(condition);
            }
        }
    }

    /// Memory for what is kept: shared, or scratch for running sums of rows that may be too long for it.
    #[expect(clippy::too_many_arguments, reason = "everything that places a row")]
    fn place_kept(
        &mut self,
        group: &ScheduledGroup,
        plans: &[SweepPlan],
        keep: bool,
        layout: &Layout,
        (inner, _outer): (&Size, &Size),
        position: &Expr,
        inner_expr: &Expr,
    ) -> Vec<Kept> {
        let mut list: Vec<Kept> = Vec::new();
        for (p, value, scan) in list_kept(plans) {
            let dtype = if scan { group.value(value).dtype.compute() } else { group.value(value).dtype };
            let name = format!("{}_row", self.name_value(group, value));
            if keep {
                if let Some(before) = find_predecessor(group, plans, (p, value, scan)) {
                    let before = list.iter().find(|k| k.value == before).cloned();
                    list.extend(before.map(|kept| Kept { value, ..kept }));
                    continue;
                }
                let view = self.share(&name, dtype, inner.clone() * u64::from(layout.rows));
                let columns = layout.team.reach == Reach::Shared;
                let row = self.widen(layout.row.clone());
                let (base, step) = match columns {
                    true => (row, u64::from(layout.rows)),
                    false => (self.builder.bind("row_at", row * inner_expr), 1),
                };
                let in_order = scan || is_read_in_order(group);
                let bytes = layout.team.registers() * dtype.size() as u32;
                let pieces =
                    (layout.team.runs && bytes > 16 && !in_order).then(|| (bytes / 16, inner_expr.clone()));
                list.push(Kept { value, memory: view.into(), base, step, pieces });
            } else {
                // The scratch buffer lies as the domain does, so that its elements are met in order.
                let all: Vec<_> = group.outer.iter().chain(&group.reduced).copied().collect();
                let elements = all.iter().fold(IndexExpr::Const(1), |p, a| p.times(IndexExpr::Extent(*a)));
                let scratch = Scratch { elements, dtype };
                let pointer = self.scratch_pointer((group.id, value.0), scratch, Usage::ReadWrite);
                let base = self.builder.bind("row_at", position * inner_expr);
                list.push(Kept { value, memory: Memory::Global(pointer), base, step: 1, pieces: None });
            }
        }
        list
    }

    /// A barrier of those who share a row, unless one stands just before and nothing was read since that is written later.
    fn barrier(&mut self, layout: &Layout) {
        let wanted = if layout.short { BarrierScope::Warp } else { BarrierScope::Block };
        let settled = |memory: &Memory| matches!(memory, Memory::Shared(view) if self.settled.contains(view));
        let matters = |stmt: &&Stmt| match stmt {
            Stmt::Comment(_)
            | Stmt::Let { .. }
            | Stmt::Register { .. }
            | Stmt::Array { .. }
            | Stmt::Call { .. } => false,
            Stmt::Load { access, .. } => !settled(&access.memory),
            _ => true,
        };
        let last = self.builder.so_far().iter().rev().find(matters);
        if last != Some(&Stmt::Barrier(wanted)) {
            self.builder.push(Stmt::Barrier(wanted));
        }
    }

    /// The sweep of a pass and its reductions; gives the reduced values.
    fn emit_pass(
        &mut self,
        group: &ScheduledGroup,
        pass: &Pass,
        plan: &SweepPlan,
        row: &RowPass<'_>,
        scope: &Scope,
    ) -> Vec<(ValueId, Expr)> {
        let reductions = collect_reductions(group, &pass.reductions);
        if row.layout.short {
            let zero = self.number(0);
            let states = self.start_all(&reductions, &row.layout.team);
            self.emit_chunk(group, pass, plan, row, &states, (&zero, row.len), scope);
            let mut values = Vec::new();
            for (reduction, accumulators) in &states {
                let partial = self.close_chunk(reduction, accumulators, row, &[], scope);
                let all: Vec<Expr> = partial
                    .iter()
                    .map(|e| {
                        self.builder.shuffle("reduced", ShuffleKind::Idx, e, 0u32, row.layout.team.members)
                    })
                    .collect();
                for (id, output) in &reduction.values {
                    values.push((*id, reduction.finish(&all, *output)));
                }
            }
            return values;
        }
        let chunk = self.number(CHUNK as u64);
        let chunks = self.builder.bind("chunks", (row.whole + self.number(CHUNK as u64 - 1)) / &chunk);
        let teams = row.layout.teams;
        let exchanges: Vec<Exchange> =
            reductions.iter().map(|r| self.share_exchange(r, row.layout, row.is_last)).collect();
        let rounds = self
            .builder
            .bind("rounds", (&chunks + self.number(u64::from(teams) - 1)) / self.number(teams.into()));
        let local = self.builder.local("round", self.index, LocalKind::Loop);
        let round = Expr::Local(local);
        self.builder.open();
        if !reductions.is_empty() {
            // What the teams had in the round before has been read.
            let later = self.number(0).lt(&round);
            self.builder.if_then(later, Builder::block_barrier);
        }
        let first = self.builder.bind("first_chunk", &round * self.number(teams.into()));
        let start = (&first + self.widen(row.layout.number.clone())) * &chunk;
        let start = self.builder.bind("start", start);
        // Past the end there is nothing, also where the sum would leave the dtype.
        let start = self.builder.bind("start", start.min(row.len));
        let rest = row.len - &start;
        let end = self.builder.bind("end", &start + rest.min(&chunk));
        let states = self.start_all(&reductions, &row.layout.team);
        self.emit_chunk(group, pass, plan, row, &states, (&start, &end), scope);
        for ((reduction, accumulators), exchange) in states.iter().zip(&exchanges) {
            let partial = self.close_chunk(reduction, accumulators, row, &exchange.parts, scope);
            let left = self.builder.bind("left", &chunks - &first);
            self.push_round(reduction, partial, exchange, row, (&round, &left), scope);
        }
        let body = self.builder.close();
        let (zero, one) = (self.number(0), self.number(1));
        let end = rounds.clone();
        self.builder.push(Stmt::For { local, start: zero, end, step: one, unroll: Unroll::None, body });
        let mut values = Vec::new();
        let totals: Vec<Vec<LocalId>> = reductions
            .iter()
            .zip(&exchanges)
            .map(|(reduction, exchange)| self.total_rounds(reduction, exchange, row, &rounds, scope))
            .collect();
        if !reductions.is_empty() && !row.is_last {
            self.builder.block_barrier();
        }
        for ((reduction, exchange), total) in reductions.iter().zip(&exchanges).zip(&totals) {
            let column = row.layout.column();
            let all: Vec<Expr> = if row.is_last {
                total.iter().map(|r| Expr::Local(*r)).collect()
            } else {
                exchange.result.iter().map(|v| self.builder.load("reduced", *v, &column, None)).collect()
            };
            for (id, output) in &reduction.values {
                values.push((*id, reduction.finish(&all, *output)));
            }
        }
        values
    }

    pub(super) fn start_all<'r>(
        &mut self,
        reductions: &[Reduction<'r>],
        team: &Team,
    ) -> Vec<(Reduction<'r>, Accumulators)> {
        let registers = |r: &Reduction<'_>| if r.is_ordered() { 1 } else { team.registers() };
        reductions.iter().map(|r| (r.clone(), self.start_accumulators(r, registers(r)))).collect()
    }

    /// Walks a range of a row within one chunk.
    #[expect(clippy::too_many_arguments, reason = "a sweep of a pass at a place")]
    pub(super) fn emit_chunk(
        &mut self,
        group: &ScheduledGroup,
        pass: &Pass,
        plan: &SweepPlan,
        row: &RowPass<'_>,
        states: &[(Reduction<'_>, Accumulators)],
        (start, end): (&Expr, &Expr),
        scope: &Scope,
    ) {
        let (ordered, others): (Vec<_>, Vec<_>) = states.iter().cloned().partition(|(r, _)| r.is_ordered());
        let sweep = |reductions| Sweep {
            plan,
            stores: &[],
            team: &row.layout.team,
            kept: row.kept,
            reductions,
            start: start.clone(),
            end: end.clone(),
            place: row.place.clone(),
        };
        if !ordered.is_empty() {
            // It may read what other members keep, so those must have kept it.
            if !plan.kept.is_empty() {
                self.barrier(row.layout);
            }
            let values = only_for(group, plan, &ordered);
            let narrowed = SweepPlan { values, keep: vec![], scans: vec![], kept: plan.kept.clone() };
            self.emit_ordered_sweep(group, &Sweep { plan: &narrowed, ..sweep(&ordered) }, scope);
            if pass.stores.iter().any(|s| self.writes_over(group, *s, false)) {
                self.barrier(row.layout);
            }
        }
        let idle =
            others.is_empty() && pass.stores.is_empty() && plan.keep.is_empty() && plan.scans.is_empty();
        if !idle {
            self.emit_sweep(group, &Sweep { stores: &pass.stores, ..sweep(&others) }, scope);
        }
    }

    /// The result of a chunk in the first member of its team.
    pub(super) fn close_chunk(
        &mut self,
        reduction: &Reduction<'_>,
        accumulators: &Accumulators,
        row: &RowPass<'_>,
        exchange: &[ViewId],
        scope: &Scope,
    ) -> Vec<Expr> {
        if reduction.is_ordered() {
            return accumulators.arrays.iter().map(|a| crate::kernel_ir::build::element(*a, 0u32)).collect();
        }
        self.fold_team(reduction, &row.layout.team, accumulators, exchange, scope)
    }

    fn share_exchange(&mut self, reduction: &Reduction<'_>, layout: &Layout, is_last: bool) -> Exchange {
        let columns = layout.team.reach == Reach::Shared;
        let parts = if columns { u64::from(THREADS) } else { layout.teams.into() };
        let width = if columns { 32 } else { 1 };
        let share = |em: &mut Self, name: &str, len: u64| -> Vec<ViewId> {
            reduction.components.iter().map(|d| em.share(name, *d, len.into())).collect()
        };
        let heights = if self.index == DType::U64 { WIDE_HEIGHTS } else { HEIGHTS };
        let exchange = Exchange {
            parts: share(self, "parts", parts),
            heights: share(self, "heights", heights * width),
            result: if is_last { Vec::new() } else { share(self, "result", width) },
        };
        self.settled.extend(&exchange.result);
        exchange
    }

    /// Folds what the teams of a block have in this round and adds the node to the counter.
    fn push_round(
        &mut self,
        reduction: &Reduction<'_>,
        partial: Vec<Expr>,
        exchange: &Exchange,
        row: &RowPass<'_>,
        (round, left): (&Expr, &Expr),
        scope: &Scope,
    ) {
        let layout = row.layout;
        let carry: Vec<LocalId> = if layout.team.reach == Reach::Shared {
            partial.iter().map(|e| self.builder.register("carry", e)).collect()
        } else {
            let number = layout.number.clone();
            self.builder.open();
            for (view, e) in exchange.parts.iter().zip(&partial) {
                self.builder.store(*view, &number, e, None);
            }
            let then = self.builder.close();
            let condition = layout.team.leads();
            self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
            // A chunk alone is that of the thread that reads it.
            let several = self.number(1).lt(left);
            self.builder.if_then(several, Builder::block_barrier);
            self.fold_teams(reduction, exchange, layout.teams, left, scope)
        };
        let leader = self.leader(layout);
        let (column, width) = (layout.column(), layout.width());
        self.builder.open();
        // The round's number says which heights are taken: those of its low bits that are one.
        let taken = round.clone().unary(ScalarOp::Not).unary(ScalarOp::TrailingZeros);
        let taken = self.builder.bind("taken", taken);
        let height = self.builder.local("height", DType::U32, LocalKind::Loop);
        self.builder.open();
        let at = Expr::Local(height) * width + &column;
        let below: Vec<Expr> =
            exchange.heights.iter().map(|v| self.builder.load("node", *v, &at, None)).collect();
        let right: Vec<Expr> = carry.iter().map(|r| Expr::Local(*r)).collect();
        let total = self.combine(reduction, &below, &right, scope);
        let total = self.bind_all("node", total);
        for (register, e) in carry.iter().zip(total) {
            self.builder.set(*register, e);
        }
        let body = self.builder.close();
        self.builder.push(Stmt::For {
            local: height,
            start: 0u32.into(),
            end: taken.clone(),
            step: 1u32.into(),
            unroll: Unroll::None,
            body,
        });
        for (view, register) in exchange.heights.iter().zip(&carry) {
            self.builder.store(*view, &taken * width + &column, *register, None);
        }
        let then = self.builder.close();
        self.builder.push(Stmt::If { condition: leader, then, otherwise: Vec::new() });
    }

    /// Adjacent pairs of the results of a round's chunks, of which there may be fewer than teams; right in thread 0.
    fn fold_teams(
        &mut self,
        reduction: &Reduction<'_>,
        exchange: &Exchange,
        teams: u32,
        left: &Expr,
        scope: &Scope,
    ) -> Vec<LocalId> {
        let carry: Vec<LocalId> =
            reduction.identity.iter().map(|v| self.builder.register("carry", *v)).collect();
        self.builder.open();
        let lane = Expr::from(Builtin::Lane);
        let count = left.clone().min(self.number(teams.into())).cast(DType::U32);
        let count = self.builder.bind("count", count);
        for (view, register) in exchange.parts.iter().zip(&carry) {
            let part = self.builder.load("part", *view, &lane, Some(lane.clone().lt(&count)));
            self.builder.set(*register, part);
        }
        let mut reach = 1;
        while reach < teams {
            let other: Vec<Expr> = carry
                .iter()
                .map(|r| self.builder.shuffle("other", ShuffleKind::Down, *r, reach, 32))
                .collect();
            let pair = (&lane % (2 * reach)).equals(0u32) & (&lane + reach).lt(&count);
            self.builder.open();
            let left: Vec<Expr> = carry.iter().map(|r| Expr::Local(*r)).collect();
            let total = self.combine(reduction, &left, &other, scope);
            let total = self.bind_all("pair", total);
            for (register, e) in carry.iter().zip(total) {
                self.builder.set(*register, e);
            }
            let then = self.builder.close();
            self.builder.push(Stmt::If { condition: pair, then, otherwise: Vec::new() });
            reach *= 2;
        }
        let then = self.builder.close();
        let condition = Expr::from(Builtin::Warp).equals(0u32);
        self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
        carry
    }

    /// Whether this thread keeps the counter of its row or column.
    fn leader(&self, layout: &Layout) -> Expr {
        match layout.team.reach {
            Reach::Shared => layout.team.leads(),
            Reach::Shuffle => thread_x().equals(0u32),
        }
    }

    /// Folds the counter: the least height holds the latest chunks, so each further one stands to its left. Gives the total,
    /// right in the thread that kept the counter.
    fn total_rounds(
        &mut self,
        reduction: &Reduction<'_>,
        exchange: &Exchange,
        row: &RowPass<'_>,
        rounds: &Expr,
        scope: &Scope,
    ) -> Vec<LocalId> {
        let layout = row.layout;
        let (column, width) = (layout.column(), layout.width());
        let condition = self.leader(layout);
        let total: Vec<LocalId> =
            reduction.identity.iter().map(|v| self.builder.register("sum", *v)).collect();
        self.builder.open();
        let seen = self.builder.register("seen", false);
        let height = self.builder.local("height", DType::U32, LocalKind::Loop);
        self.builder.open();
        let one = self.number(1);
        let bit = (rounds >> Expr::Local(height)) & one.clone();
        self.builder.open();
        let at = Expr::Local(height) * width + &column;
        let left: Vec<Expr> =
            exchange.heights.iter().map(|v| self.builder.load("node", *v, &at, None)).collect();
        self.builder.open();
        let right: Vec<Expr> = total.iter().map(|r| Expr::Local(*r)).collect();
        let both = self.combine(reduction, &left, &right, scope);
        let both = self.bind_all("node", both);
        for (register, e) in total.iter().zip(both) {
            self.builder.set(*register, e);
        }
        let then = self.builder.close();
        self.builder.open();
        for (register, e) in total.iter().zip(&left) {
            self.builder.set(*register, e);
        }
        let otherwise = self.builder.close();
        self.builder.push(Stmt::If { condition: seen.into(), then, otherwise });
        self.builder.set(seen, true);
        let then = self.builder.close();
        self.builder.push(Stmt::If { condition: bit.equals(one), then, otherwise: Vec::new() });
        let body = self.builder.close();
        let bits = Expr::from(if self.index == DType::U64 { 64u32 } else { 32 });
        let heights = bits - rounds.clone().unary(ScalarOp::LeadingZeros);
        self.builder.push(Stmt::For {
            local: height,
            start: 0u32.into(),
            end: heights,
            step: 1u32.into(),
            unroll: Unroll::None,
            body,
        });
        for (view, register) in exchange.result.iter().zip(&total) {
            self.builder.store(*view, &column, *register, None);
        }
        let then = self.builder.close();
        self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
        total
    }

    /// The running sum of a row, in place of its source: from first to last by one thread.
    fn scan(&mut self, kept: &[Kept], id: ValueId, layout: &Layout, len: &Expr) {
        let Some(row) = kept.iter().find(|k| k.value == id).cloned() else { return self.missing(id) };
        self.barrier(layout);
        let dtype = self.builder.kernel().memory_dtype(row.memory).unwrap_or(DType::F32);
        let condition = if layout.short || layout.team.reach == Reach::Shared {
            layout.team.leads()
        } else {
            thread_x().equals(0u32)
        };
        self.builder.open();
        let sum = self.builder.register("running", crate::dtype::Value::zero(dtype));
        let local = self.builder.local("at", self.index, LocalKind::Loop);
        self.builder.open();
        let at = row.element(self, &Expr::Local(local));
        let at = self.builder.bind("element", at);
        let next = self.builder.load("next", row.memory, &at, None);
        self.builder.set(sum, Expr::Local(sum) + next);
        self.builder.store(row.memory, &at, sum, None);
        let body = self.builder.close();
        let (zero, one) = (self.number(0), self.number(1));
        self.builder.push(Stmt::For {
            local,
            start: zero,
            end: len.clone(),
            step: one,
            unroll: Unroll::None,
            body,
        });
        let then = self.builder.close();
        self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
        self.barrier(layout);
    }

    /// What follows a sweep: outer values in every thread, outer stores in one. After the last sweep the values too are that
    /// one's, which made the totals.
    fn finish_pass(
        &mut self,
        group: &ScheduledGroup,
        pass: &Pass,
        (layout, is_last): (&Layout, bool),
        scope: &mut Scope,
    ) {
        let leads = if layout.short { layout.team.leads() } else { self.leader(layout) };
        let leads = both(scope.active.clone(), Some(leads)).unwrap_or(true.into());
        if is_last && !layout.short {
            scope.active = Some(leads.clone());
        }
        self.compute_all(group, &pass.epilogue, scope);
        if pass.outer_stores.is_empty() {
            return;
        }
        if pass.outer_stores.iter().any(|s| self.writes_over(group, *s, false)) {
            self.barrier(layout);
        }
        let mut inner = scope.clone();
        inner.active = None;
        self.builder.open();
        for &number in &pass.outer_stores {
            self.store(group, &group.stores[number as usize], &inner);
        }
        let then = self.builder.close();
        self.builder.push(Stmt::If { condition: leads, then, otherwise: Vec::new() });
    }
}

/// What the passes of a row share.
pub(super) struct RowPass<'r> {
    pub(super) layout: &'r Layout,
    pub(super) kept: &'r [Kept],
    /// Reduced positions of this thread's row: none where it has no row.
    pub(super) len: &'r Expr,
    /// Reduced positions of every row.
    pub(super) whole: &'r Expr,
    /// The fault position of reduced position 0, a u64.
    pub(super) place: &'r Expr,
    /// Whether no pass follows, so that its results are needed only where they are stored.
    pub(super) is_last: bool,
}

impl Layout {
    /// Which column of the block's shared arrays is this thread's, a u32.
    fn column(&self) -> Expr {
        if self.team.reach == Reach::Shared { self.row.clone() } else { 0u32.into() }
    }

    /// Columns of the block's shared arrays.
    fn width(&self) -> u32 {
        if self.team.reach == Reach::Shared { self.rows } else { 1 }
    }
}

/// The values of a sweep that these reductions need.
fn only_for(
    group: &ScheduledGroup,
    plan: &SweepPlan,
    reductions: &[(Reduction<'_>, Accumulators)],
) -> Vec<ValueId> {
    let mut stack: Vec<ValueId> = reductions.iter().flat_map(|(r, _)| r.sources.iter().copied()).collect();
    let mut wanted = vec![false; group.values.len()];
    while let Some(v) = stack.pop() {
        if group.value(v).level != Level::Inner || plan.kept.contains(&v) {
            continue;
        }
        if matches!(group.value(v).op, BodyOp::CumSum { .. }) {
            continue;
        }
        if !std::mem::replace(&mut wanted[v.index()], true) {
            stack.extend(group.reads(v));
        }
    }
    plan.values.iter().copied().filter(|v| wanted[v.index()]).collect()
}
