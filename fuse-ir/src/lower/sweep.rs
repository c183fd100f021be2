//! One sweep of a team over a range of reduced positions: values, stores, what is kept, accumulation.

use super::body::{Emitter, Scope};
use super::combine::{Reduction, collect_reductions};
use super::team::{Accumulators, Team};
use super::vector::{KeptRun, Run};
use crate::dtype::DType;
use crate::id::ValueId;
use crate::index_map::IndexExpr;
use crate::kernel_ir::{Expr, LocalKind, Memory, Stmt, Unroll};
use crate::schedule::{BodyOp, LANES, Level, Pass, ScheduledGroup};

/// Values of a body that is unrolled.
const SHORT_BODY: usize = 12;

/// What one sweep does.
#[derive(Clone, Debug, Default)]
pub(super) struct SweepPlan {
    /// Inner values to compute, in order.
    pub(super) values: Vec<ValueId>,
    /// Those of them, or running sums, that are kept for later sweeps.
    pub(super) keep: Vec<ValueId>,
    /// Values that an earlier sweep kept and this one reads.
    pub(super) kept: Vec<ValueId>,
    /// Running sums that this sweep prepares: their sources are kept in their place.
    pub(super) scans: Vec<ValueId>,
}

/// What each sweep does. If `keep`, values that several sweeps need stay in memory of the block: those that the schedule
/// buffers and those that are loaded. Else they are computed again, but for running sums.
pub(super) fn plan_sweeps(group: &ScheduledGroup, keep: bool) -> Vec<SweepPlan> {
    let is_scan = |v: ValueId| matches!(group.value(v).op, BodyOp::CumSum { .. });
    let count = group.passes.len();
    let mut kept_by = vec![usize::MAX; group.values.len()];
    for (p, pass) in group.passes.iter().enumerate() {
        for &v in &pass.buffered {
            if keep || is_scan(v) {
                kept_by[v.index()] = p;
            }
        }
    }
    let demand = |kept_by: &[usize], p: usize| {
        let pass = &group.passes[p];
        let mut roots: Vec<ValueId> = pass.stores.iter().map(|s| group.stores[*s as usize].value).collect();
        for v in &pass.reductions {
            if let BodyOp::Reduce { sources, .. } = &group.value(*v).op {
                roots.extend(sources);
            }
        }
        roots.extend((0..group.values.len()).map(ValueId::from_index).filter(|v| kept_by[v.index()] == p));
        let mut plan = SweepPlan::default();
        let mut seen = vec![false; group.values.len()];
        while let Some(v) = roots.pop() {
            if group.value(v).level != Level::Inner || std::mem::replace(&mut seen[v.index()], true) {
                continue;
            }
            if kept_by[v.index()] < p {
                plan.kept.push(v);
                continue;
            }
            if is_scan(v) {
                plan.scans.push(v);
            } else {
                plan.values.push(v);
                if kept_by[v.index()] == p {
                    plan.keep.push(v);
                }
            }
            roots.extend(group.reads(v));
        }
        for list in [&mut plan.values, &mut plan.keep, &mut plan.kept, &mut plan.scans] {
            list.sort();
        }
        plan
    };
    if keep {
        let plans: Vec<SweepPlan> = (0..count).map(|p| demand(&kept_by, p)).collect();
        for (k, by) in kept_by.iter_mut().enumerate() {
            let id = ValueId::from_index(k);
            let buffer = match &group.value(id).op {
                BodyOp::Load(o) => {
                    matches!(group.operands[o.index()], crate::schedule::Operand::Buffer { .. })
                }
                _ => false,
            };
            let users: Vec<usize> = (0..count).filter(|p| plans[*p].values.contains(&id)).collect();
            if buffer && users.len() > 1 && *by == usize::MAX {
                *by = users[0];
            }
        }
    }
    (0..count).map(|p| demand(&kept_by, p)).collect()
}

/// What sweeps keep, with the sweep that does and whether it is a running sum.
pub(super) fn list_kept(plans: &[SweepPlan]) -> Vec<(usize, ValueId, bool)> {
    let of_plan = |(p, plan): (usize, &SweepPlan)| {
        let values = plan.keep.iter().map(move |v| (p, *v, false));
        values.chain(plan.scans.iter().map(move |v| (p, *v, true))).collect::<Vec<_>>()
    };
    plans.iter().enumerate().flat_map(of_plan).collect()
}

/// Whether some reduction reads what is kept position by position, also where other threads kept it.
pub(super) fn is_read_in_order(group: &ScheduledGroup) -> bool {
    let ordered = |p: &Pass| collect_reductions(group, &p.reductions).iter().any(Reduction::is_ordered);
    group.passes.iter().any(ordered)
}

/// A value in whose place another can be kept: the sweep that keeps this one is the last that reads that one, and of each
/// position both are the same thread's, which has loaded the one before it stores the other.
pub(super) fn find_predecessor(
    group: &ScheduledGroup,
    plans: &[SweepPlan],
    (sweep, value, scan): (usize, ValueId, bool),
) -> Option<ValueId> {
    if scan || is_read_in_order(group) {
        return None;
    }
    let all = list_kept(plans);
    let dtype = group.value(value).dtype;
    let fits = |before: ValueId| {
        let last_read = plans.iter().rposition(|p| p.kept.contains(&before));
        last_read == Some(sweep) && group.value(before).dtype == dtype
    };
    let free: Vec<ValueId> =
        all.iter().filter(|(_, v, scan)| !scan && fits(*v)).map(|(_, v, _)| *v).collect();
    let own = all.iter().filter(|(p, v, scan)| *p == sweep && !scan && group.value(*v).dtype == dtype);
    let number = own.map(|(_, v, _)| *v).position(|v| v == value)?;
    free.get(number).copied()
}

/// Bytes that a position of a row takes in shared memory if all is kept that several sweeps need.
pub(crate) fn count_kept_bytes(group: &ScheduledGroup) -> u64 {
    let plans = plan_sweeps(group, true);
    let size = |v: ValueId| group.value(v).dtype.size() as u64;
    let apart = |kept: &(usize, ValueId, bool)| find_predecessor(group, &plans, *kept).is_none();
    list_kept(&plans).into_iter().filter(apart).map(|(_, v, _)| size(v)).sum()
}

/// Where a kept value lies.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) value: ValueId,
    pub(super) memory: Memory,
    /// The element of reduced position 0.
    pub(super) base: Expr,
    /// Elements from one reduced position to the next.
    pub(super) step: u64,
    /// For runs of more than 16 bytes: into how many pieces a run is cut, and the elements of a row. The first pieces of
    /// all runs lie side by side, then the second ones, so that neighbouring lanes meet neighbouring words.
    pub(super) pieces: Option<(u32, Expr)>,
}

impl Kept {
    /// The element of reduced position `at`.
    pub(super) fn element(&self, emitter: &Emitter<'_>, at: &Expr) -> Expr {
        &self.base + at * emitter.number(self.step)
    }

    /// Where the run that starts at reduced position `at` lies.
    fn run(&self, emitter: &Emitter<'_>, at: &Expr) -> KeptRun {
        let (first, apart) = match &self.pieces {
            None => (self.element(emitter, at), None),
            Some((pieces, row)) => {
                let pieces = emitter.number((*pieces).into());
                (&self.base + at / &pieces, Some(row / pieces))
            }
        };
        KeptRun { value: self.value, memory: self.memory, first, apart }
    }
}

/// What a sweep needs to know.
pub(super) struct Sweep<'s> {
    pub(super) plan: &'s SweepPlan,
    /// Inner stores, by number.
    pub(super) stores: &'s [u32],
    pub(super) team: &'s Team,
    /// Every kept value of the group.
    pub(super) kept: &'s [Kept],
    /// Reductions with their accumulators; ordered ones are not among them.
    pub(super) reductions: &'s [(Reduction<'s>, Accumulators)],
    /// The reduced positions: of the index dtype. The start is a multiple of 64 but for ordered sweeps.
    pub(super) start: Expr,
    pub(super) end: Expr,
    /// Fault positions: the place of reduced position 0, a u64.
    pub(super) place: Expr,
}

impl Emitter<'_> {
    /// Walks the positions of a range that are this member's.
    pub(super) fn emit_sweep(&mut self, group: &ScheduledGroup, sweep: &Sweep<'_>, scope: &Scope) {
        if sweep.team.runs {
            return self.sweep_runs(group, sweep, scope);
        }
        let (team, registers) = (sweep.team, sweep.team.registers());
        let member = self.widen(team.member.clone());
        let local = self.builder.local("step", self.index, LocalKind::Loop);
        self.builder.open();
        let slot_local = self.builder.local("slot", DType::U32, LocalKind::Loop);
        let slot = Expr::Local(slot_local);
        self.builder.open();
        let offset = self.widen(slot.clone() * team.members);
        let at = self.builder.bind("at", Expr::Local(local) + member + offset);
        self.builder.open();
        self.sweep_position(group, sweep, scope, &at, &slot);
        let then = self.builder.close();
        let condition = at.lt(&sweep.end);
        self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
        let body = self.builder.close();
        self.builder.push(Stmt::For {
            local: slot_local,
            start: 0u32.into(),
            end: registers.into(),
            step: 1u32.into(),
            unroll: Unroll::Full,
            body,
        });
        let body = self.builder.close();
        let step = self.number(LANES as u64);
        self.push_loop(local, sweep.start.clone(), sweep.end.clone(), step, body);
    }

    /// Walks a range from first to last in the first member, for reductions that keep the order. Only values are
    /// computed; stores and what is kept are the other sweep's.
    pub(super) fn emit_ordered_sweep(&mut self, group: &ScheduledGroup, sweep: &Sweep<'_>, scope: &Scope) {
        let local = self.builder.local("at", self.index, LocalKind::Loop);
        self.builder.open();
        let slot = Expr::from(0u32);
        self.sweep_position(group, sweep, scope, &Expr::Local(local), &slot);
        let body = self.builder.close();
        self.builder.open();
        let step = self.number(1);
        self.push_loop(local, sweep.start.clone(), sweep.end.clone(), step, body);
        let then = self.builder.close();
        let condition = sweep.team.leads();
        self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
    }

    fn push_loop(&mut self, local: crate::id::LocalId, start: Expr, end: Expr, step: Expr, body: Vec<Stmt>) {
        self.builder.push(Stmt::For { local, start, end, step, unroll: Unroll::None, body });
    }

    /// One position: reads what is kept, computes, keeps, stores, accumulates.
    fn sweep_position(
        &mut self,
        group: &ScheduledGroup,
        sweep: &Sweep<'_>,
        scope: &Scope,
        at: &Expr,
        slot: &Expr,
    ) {
        let mut scope = scope.clone();
        scope.place = Some(&sweep.place + at.clone().cast(DType::U64));
        self.decompose(at.clone(), &group.reduced, &mut scope);
        for &id in &sweep.plan.kept {
            let Some(kept) = sweep.kept.iter().find(|k| k.value == id) else {
                self.missing(id);
                continue;
            };
            let (name, index) = (self.name_value(group, id), kept.element(self, at));
            scope.values[id.index()] = Some(self.builder.load(&name, kept.memory, index, None));
        }
        self.compute_all(group, &sweep.plan.values, &mut scope);
        self.keep_position(group, sweep, &scope, at);
        for &number in sweep.stores {
            self.store(group, &group.stores[number as usize], &scope);
        }
        self.accumulate_all(sweep, &scope, at, slot);
    }

    fn keep_position(&mut self, group: &ScheduledGroup, sweep: &Sweep<'_>, scope: &Scope, at: &Expr) {
        for &id in &sweep.plan.keep {
            self.keep_value(sweep, id, id, scope, at);
        }
        for &id in &sweep.plan.scans {
            if let BodyOp::CumSum { source } = group.value(id).op {
                self.keep_value(sweep, id, source, scope, at);
            }
        }
    }

    fn keep_value(&mut self, sweep: &Sweep<'_>, id: ValueId, value: ValueId, scope: &Scope, at: &Expr) {
        let Some(kept) = sweep.kept.iter().find(|k| k.value == id) else {
            return self.missing(id);
        };
        let (e, index) = (self.value(scope, value), kept.element(self, at));
        self.builder.store(kept.memory, index, e, None);
    }

    fn accumulate_all(&mut self, sweep: &Sweep<'_>, scope: &Scope, at: &Expr, slot: &Expr) {
        for (reduction, accumulators) in sweep.reductions {
            let element: Vec<Expr> = reduction.sources.iter().map(|s| self.value(scope, *s)).collect();
            let partial = reduction.lift(element, at);
            self.accumulate(reduction, accumulators, slot, &partial, scope);
        }
    }

    fn sweep_runs(&mut self, group: &ScheduledGroup, sweep: &Sweep<'_>, scope: &Scope) {
        let len = sweep.team.registers();
        let Some(&axis) = group.reduced.last() else { return };
        let local = self.builder.local("at", self.index, LocalKind::Loop);
        let at = Expr::Local(local);
        self.builder.open();
        let mut scope = scope.clone();
        scope.place = Some(&sweep.place + at.clone().cast(DType::U64));
        self.decompose_reduced_run(&at, group, &mut scope);
        let place = |em: &Self, ids: &[ValueId]| -> Vec<KeptRun> {
            ids.iter()
                .filter_map(|id| sweep.kept.iter().find(|k| k.value == *id))
                .map(|k| k.run(em, &at))
                .collect()
        };
        let (kept, keep) = (place(self, &sweep.plan.kept), place(self, &sweep.plan.keep));
        let run =
            Run { axis, len, values: &sweep.plan.values, stores: sweep.stores, kept: &kept, keep: &keep };
        self.emit_run(group, &run, &scope, &mut |em, scope, e| {
            let position = &at + em.widen(e.clone());
            for &id in &sweep.plan.scans {
                if let BodyOp::CumSum { source } = group.value(id).op {
                    em.keep_value(sweep, id, source, scope, &position);
                }
            }
            em.accumulate_all(sweep, scope, &position, &e);
        });
        let body = self.builder.close();
        let first = self.widen(sweep.team.member.clone()) * self.number(len.into());
        let start = self.builder.bind("from", &sweep.start + first);
        let step = self.number(LANES as u64);
        // A few vectors in flight hide the latency of memory; long bodies have enough to do.
        let unroll = if sweep.plan.values.len() <= SHORT_BODY { Unroll::By(4) } else { Unroll::None };
        self.builder.push(Stmt::For { local, start, end: sweep.end.clone(), step, unroll, body });
    }

    /// The reduced positions of a run's first element: its length divides the last axis.
    fn decompose_reduced_run(&mut self, at: &Expr, group: &ScheduledGroup, scope: &mut Scope) {
        let Some((last, others)) = group.reduced.split_last() else { return };
        if others.is_empty() {
            scope.positions.insert(*last, at.clone());
            return;
        }
        let extent = self.extent(&IndexExpr::Extent(*last));
        let name = self.axis_name(*last);
        let position = self.builder.bind(&format!("i_{name}"), at % &extent);
        scope.positions.insert(*last, position);
        let rest = self.builder.bind("rest", at / extent);
        self.decompose(rest, others, scope);
    }
}
