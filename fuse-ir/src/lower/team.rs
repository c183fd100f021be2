//! Teams: the threads that share the accumulators of a chunk.
//!
//! A chunk has 64 accumulators ([`crate::schedule::LANES`]). A team of `members` threads spreads them: `registers` for
//! each, `members * registers = 64`. *Interleaved*, member `p` has the accumulators `p`, `p + members`, …; *in runs* it has
//! `registers * p` and those that follow, so that its elements are consecutive and load as vectors. The fold by halving is
//! the same tree either way; only what happens inside a thread and what between threads changes place.

use super::body::{Emitter, Scope};
use super::combine::Reduction;
use crate::id::{ArrayId, LocalId, ViewId};
use crate::kernel_ir::build::element;
use crate::kernel_ir::{Builtin, Expr, ShuffleKind};
use crate::schedule::LANES;

/// The threads that share a chunk.
#[derive(Clone, Debug)]
pub(super) struct Team {
    /// Which member this thread is, a u32.
    pub(super) member: Expr,
    /// How many there are.
    pub(super) members: u32,
    /// Whether accumulators are in runs.
    pub(super) runs: bool,
    /// How members reach one another.
    pub(super) reach: Reach,
}

/// How the members of a team reach one another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reach {
    /// They are neighbouring lanes of a warp.
    Shuffle,
    /// They are the same lane of each warp of a block of 256 threads: through shared memory.
    Shared,
}

impl Team {
    /// Accumulators of each member.
    pub(super) fn registers(&self) -> u32 {
        LANES as u32 / self.members
    }

    /// Whether this thread is the first member.
    pub(super) fn leads(&self) -> Expr {
        self.member.clone().equals(0u32)
    }
}

/// The accumulators of a reduction in this thread: an array for each component.
#[derive(Clone, Debug)]
pub(super) struct Accumulators {
    pub(super) arrays: Vec<ArrayId>,
}

impl Emitter<'_> {
    /// Declares accumulators that hold the identity.
    pub(super) fn start_accumulators(&mut self, reduction: &Reduction<'_>, registers: u32) -> Accumulators {
        let arrays = reduction
            .components
            .iter()
            .zip(&reduction.identity)
            .map(|(dtype, identity)| self.builder.array("acc", *dtype, registers, Some(*identity)))
            .collect();
        Accumulators { arrays }
    }

    /// `acc[slot] = acc[slot] ⊕ partial`.
    pub(super) fn accumulate(
        &mut self,
        reduction: &Reduction<'_>,
        accumulators: &Accumulators,
        slot: &Expr,
        partial: &[Expr],
        scope: &Scope,
    ) {
        let left: Vec<Expr> = accumulators.arrays.iter().map(|a| element(*a, slot)).collect();
        let total = self.combine(reduction, &left, partial, scope);
        let total = if total.len() > 1 { self.bind_all("total", total) } else { total };
        for (array, e) in accumulators.arrays.iter().zip(total) {
            self.builder.set_element(*array, slot, e);
        }
    }

    /// Folds the accumulators of a team; the result is right in the first member. Warp-wide, or for the whole block:
    /// `exchange` are the views of 8 × 32 elements of teams that reach through shared memory, free to be written.
    pub(super) fn fold_team(
        &mut self,
        reduction: &Reduction<'_>,
        team: &Team,
        accumulators: &Accumulators,
        exchange: &[ViewId],
        scope: &Scope,
    ) -> Vec<Expr> {
        let mut parts: Vec<Vec<Expr>> = (0..team.registers())
            .map(|k| accumulators.arrays.iter().map(|a| element(*a, k)).collect())
            .collect();
        if team.runs && !reduction.calls() && team.members >= team.registers() {
            return self.fold_runs(reduction, team, parts, scope);
        }
        if team.runs {
            for part in &mut parts {
                *part = self.fold_across(reduction, team, part.clone(), exchange, scope);
            }
            return self.fold_inside(reduction, parts, scope);
        }
        let one = self.fold_inside(reduction, parts, scope);
        self.fold_across(reduction, team, one, exchange, scope)
    }

    /// Folds accumulators in runs with fewer shuffles: while a member holds several, the two sides of a pair take half of
    /// them each. The member `p` and its partner `p ^ distance` combine what each took, the lower one's value on the left;
    /// so the tree stays, and what was folded over registers last is folded over members last.
    fn fold_runs(
        &mut self,
        reduction: &Reduction<'_>,
        team: &Team,
        mut parts: Vec<Vec<Expr>>,
        scope: &Scope,
    ) -> Vec<Expr> {
        let mut distance = team.members / 2;
        let first = distance;
        while parts.len() > 1 {
            let upper = (&team.member & distance).equals(distance);
            let upper = self.builder.bind("upper", upper);
            let far = parts.split_off(parts.len() / 2);
            let mut halves = Vec::new();
            for (near, far) in parts.iter().zip(&far) {
                let (mut left, mut right) = (Vec::new(), Vec::new());
                for (near, far) in near.iter().zip(far) {
                    let given = upper.clone().select(near, far);
                    let got = self.builder.shuffle("other", ShuffleKind::Xor, given, distance, team.members);
                    left.push(upper.clone().select(&got, near));
                    right.push(upper.clone().select(far, &got));
                }
                let (left, right) = (self.bind_all("left", left), self.bind_all("right", right));
                let total = self.combine(reduction, &left, &right, scope);
                halves.push(self.bind_all("fold", total));
            }
            parts = halves;
            distance /= 2;
        }
        let mut part = parts.pop().unwrap_or_default();
        // The rest of the members, then what the registers were: the distances of the first steps again.
        let mut steps = Vec::new();
        let mut rest = distance;
        while rest > 0 {
            steps.push(rest);
            rest /= 2;
        }
        let mut again = first;
        while again > distance {
            steps.push(again);
            again /= 2;
        }
        for distance in steps {
            let other: Vec<Expr> = part
                .iter()
                .map(|e| self.builder.shuffle("other", ShuffleKind::Down, e, distance, team.members))
                .collect();
            let total = self.combine(reduction, &part, &other, scope);
            part = self.bind_all("fold", total);
        }
        part
    }

    /// Folds partial results of one thread by halving.
    fn fold_inside(
        &mut self,
        reduction: &Reduction<'_>,
        mut parts: Vec<Vec<Expr>>,
        scope: &Scope,
    ) -> Vec<Expr> {
        while parts.len() > 1 {
            let upper = parts.split_off(parts.len() / 2);
            for (left, right) in parts.iter_mut().zip(&upper) {
                let total = self.combine(reduction, left, right, scope);
                *left = self.bind_all("fold", total);
            }
        }
        parts.pop().unwrap_or_default()
    }

    /// Folds what the members of a team have, by halving.
    fn fold_across(
        &mut self,
        reduction: &Reduction<'_>,
        team: &Team,
        part: Vec<Expr>,
        exchange: &[ViewId],
        scope: &Scope,
    ) -> Vec<Expr> {
        match team.reach {
            Reach::Shuffle => {
                let mut part = part;
                let mut distance = team.members / 2;
                while distance > 0 {
                    let other: Vec<Expr> = part
                        .iter()
                        .map(|e| self.builder.shuffle("other", ShuffleKind::Down, e, distance, team.members))
                        .collect();
                    // Members past the distance combine what nobody reads; they must not fault.
                    let mut inside = scope.clone();
                    inside.active =
                        super::body::both(scope.active.clone(), Some(team.member.clone().lt(distance)));
                    let total = self.combine(reduction, &part, &other, &inside);
                    part = self.bind_all("fold", total);
                    distance /= 2;
                }
                part
            }
            Reach::Shared => {
                let lane = Expr::from(Builtin::Lane);
                for (view, e) in exchange.iter().zip(&part) {
                    self.builder.store(*view, &team.member * 32u32 + &lane, e, None);
                }
                self.builder.block_barrier();
                let results: Vec<LocalId> = part.iter().map(|e| self.builder.register("folded", e)).collect();
                self.builder.open();
                let mut parts = Vec::new();
                for member in 0..team.members {
                    let load = |em: &mut Self, view: &ViewId| {
                        em.builder.load("part", *view, &lane + member * 32, None)
                    };
                    parts.push(exchange.iter().map(|v| load(self, v)).collect());
                }
                let total = self.fold_inside(reduction, parts, scope);
                for (register, e) in results.iter().zip(total) {
                    self.builder.set(*register, e);
                }
                let then = self.builder.close();
                let condition = team.leads();
                self.builder.push(crate::kernel_ir::Stmt::If { condition, then, otherwise: Vec::new() });
                results.into_iter().map(Expr::Local).collect()
            }
        }
    }
}
