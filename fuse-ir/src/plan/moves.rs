//! What changes a partition: two groups become one, or the readers of a value compute it again.
//!
//! A change is worked out first, which gives its price; whether it closes a circle is asked only of those that are made.

use crate::graph::Op;
use crate::id::NodeId;
use crate::plan::Refusal;
use crate::plan::partition::{Group, Partition, Problem};
use crate::schedule::BodyOp;
use crate::schedule::build::{Refused, Root, label, write_an_op};
use std::collections::BTreeSet;
use std::rc::Rc;

/// A move as worked out: the groups of the slots that change, and the values that leave memory.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) groups: Vec<(usize, Option<Group>)>,
    pub(super) leaving: Vec<NodeId>,
}

impl Partition {
    /// The roots of the union of two groups, and the values that leave memory because only these two load them.
    pub(super) fn union(&self, problem: &Problem<'_>, a: usize, b: usize) -> (Vec<Root>, Vec<NodeId>) {
        let mut leaving = Vec::new();
        let both = [self.group(a), self.group(b)];
        let mut roots: Vec<Root> = both.iter().flatten().flat_map(|g| g.roots.iter().copied()).collect();
        roots.sort();
        roots.retain(|root| {
            let Root::Temp(node) = *root else { return true };
            let outside = self.pinned.contains(&node)
                || self.live().any(|(k, g)| k != a && k != b && g.lowered.loads.contains(&node));
            let cut = matches!(problem.kernel.node(node).op, Op::Materialize { .. });
            if !outside && !cut {
                leaving.push(node);
            }
            outside || cut
        });
        (roots, leaving)
    }

    /// Refuses a union that certainly computes too much, before it is built: it computes what either does.
    pub(super) fn check_size(&self, problem: &Problem<'_>, a: usize, b: usize) -> Result<(), Refused> {
        let limit = problem.target.code_size as usize;
        let maps = |k: usize| {
            let values = self.group(k).map_or(&[][..], |g| &g.lowered.group.values);
            let computed = values.iter().filter(|v| matches!(v.op, BodyOp::Map { .. }));
            computed.filter_map(|v| v.node).collect::<BTreeSet<NodeId>>()
        };
        let sizes = [a, b].map(|k| self.group(k).map_or(0, |g| g.lowered.group.values.len()));
        if sizes[0] + sizes[1] <= limit {
            return Ok(());
        }
        let code = maps(a).union(&maps(b)).count();
        if code <= limit {
            return Ok(());
        }
        let node = self.group(b).and_then(|g| g.roots.first()).map(|r| r.node(problem.kernel));
        let because = format!("about {code} operations, {limit} fit a launch");
        Err(Refused::new(Refusal::CodeSize, node, because).unless(write_an_op()))
    }

    /// Two groups as one, in the slot of the second. Whether it would depend on itself is not asked.
    ///
    /// # Errors
    /// If the union is no group.
    pub(super) fn try_merge(&self, problem: &Problem<'_>, a: usize, b: usize) -> Result<Step, Refused> {
        self.check_size(problem, a, b)?;
        let (roots, leaving) = self.union(problem, a, b);
        let lowered = Rc::new(problem.lower(&roots, &self.memory, &leaving)?);
        Ok(Step { groups: vec![(a, None), (b, Some(Group { roots, lowered }))], leaving })
    }

    /// Refuses a union that would depend on itself through another group.
    ///
    /// # Errors
    /// If it would.
    pub(super) fn check_order(
        &self,
        problem: &Problem<'_>,
        (a, b): (usize, usize),
        step: &Step,
    ) -> Result<Partition, Refused> {
        let next = self.with(step);
        let Some(between) = next.find_circle(problem, b) else { return Ok(next) };
        let first_root = |slot: usize| {
            let root = self.group(slot).and_then(|g| g.roots.first());
            root.map_or(NodeId(0), |r| r.node(problem.kernel))
        };
        let name = |slot: usize| label(problem.kernel, first_root(slot));
        let because = format!("another launch lies between `{}` and it", name(a));
        let refused = Refused::new(Refusal::Cycle, Some(first_root(a)), because);
        Err(refused.unless(format!("compute `{}` without `{}`", name(between), name(a))))
    }

    /// Every reader of a value computes it again. Whether one would depend on itself is not asked.
    ///
    /// # Errors
    /// If a reader cannot.
    pub(super) fn try_recompute(&self, problem: &Problem<'_>, id: NodeId) -> Result<Step, Refused> {
        let mut step = Step { groups: Vec::new(), leaving: vec![id] };
        for (k, group) in self.live() {
            let stores = group.roots.contains(&Root::Temp(id));
            if !stores && !group.lowered.loads.contains(&id) {
                continue;
            }
            let roots: Vec<Root> = group.roots.iter().copied().filter(|r| *r != Root::Temp(id)).collect();
            let group = match roots.is_empty() {
                true => None,
                false => {
                    let lowered = Rc::new(problem.lower(&roots, &self.memory, &step.leaving)?);
                    Some(Group { roots, lowered })
                }
            };
            step.groups.push((k, group));
        }
        Ok(step)
    }

    /// Refuses to compute a value again where a reader would depend on itself. It then loads what went into the value,
    /// which was stored before it; only what it newly reads and another group overwrites can close a circle.
    ///
    /// # Errors
    /// If one would.
    pub(super) fn check_recomputed(
        &self,
        problem: &Problem<'_>,
        id: NodeId,
        step: &Step,
    ) -> Result<Partition, Refused> {
        let next = self.with(step);
        let overwrites = next.live().any(|(_, g)| !g.lowered.writes.is_empty());
        if overwrites && next.launch_order(problem).is_none() {
            let because = format!("computing `{}` again would depend on itself", label(problem.kernel, id));
            return Err(Refused::new(Refusal::Cycle, Some(id), because));
        }
        Ok(next)
    }

    /// The partition after a step.
    fn with(&self, step: &Step) -> Partition {
        let mut next = self.clone();
        step.leaving.iter().for_each(|n| next.memory[n.index()] = false);
        for (slot, group) in &step.groups {
            next.groups[*slot] = group.clone();
        }
        next
    }

    /// The seconds that a step saves.
    pub(super) fn gain(&self, step: &Step) -> f64 {
        let seconds = |g: Option<&Group>| g.map_or(0.0, |g| g.lowered.price.seconds);
        let saves = |saved, (k, group): &(usize, Option<Group>)| {
            saved + seconds(self.group(*k)) - seconds(group.as_ref())
        };
        step.groups.iter().fold(0.0, saves)
    }
}
