//! The exact search, for kernels small enough: every choice of values in memory, every grouping of what is stored.
//!
//! Values that only one loop over the same axes reads stay in it, which is never worse. For the others each subset in
//! memory is tried, and for each the partitions of the roots, one root after the other. A subset is passed over when writing
//! it alone takes too long, and a branch is given up when its groups already cost as much as the best plan known: a group
//! does not get cheaper by leaving more in memory.

use crate::graph::Op;
use crate::id::NodeId;
use crate::plan::partition::{Group, Lowered, Partition, Problem};
use crate::schedule::build::Root;
use std::collections::HashMap;
use std::rc::Rc;

/// Values that may be in memory or not, at most.
const MOST_CHOICES: usize = 12;
/// Nodes of a kernel that is searched, at most.
const MOST_NODES: usize = 128;

/// The best partition, if it is found within `budget`: values of bodies that are built.
pub(super) fn search_exactly(
    problem: &Problem<'_>,
    greedy: &Partition,
    anchors: &[bool],
    budget: u32,
) -> Option<Partition> {
    let kernel = problem.kernel;
    let is_free = |id: &NodeId| {
        anchors[id.index()]
            && !problem.facts.users[id.index()].is_empty()
            && !matches!(kernel.node(*id).op, Op::Materialize { .. })
    };
    let choices: Vec<NodeId> = kernel.node_ids().filter(is_free).collect();
    if choices.len() > MOST_CHOICES || kernel.nodes.len() > MOST_NODES {
        return None;
    }
    let mut search = Search {
        problem,
        known: HashMap::new(),
        budget,
        best_seconds: greedy.price().seconds,
        best: greedy.clone(),
        memory: Vec::new(),
        chosen: 0,
    };
    let least = least_seconds(problem, greedy);
    let written = |id: &NodeId| {
        let elements = problem.sizes.product(&problem.facts.layouts[id.index()]);
        elements.saturating_mul(kernel.node(*id).ty.dtype.size() as u64) as f64
    };
    for chosen in 0..1u32 << choices.len() {
        let kept = choices.iter().enumerate().filter(|(k, _)| chosen >> k & 1 == 1).map(|(_, id)| id);
        let bytes: f64 = kept.filter(|id| !problem.is_result(**id)).map(written).sum();
        if least + bytes / problem.target.bandwidth >= search.best_seconds {
            continue;
        }
        let mut memory = vec![false; kernel.nodes.len()];
        for id in kernel.node_ids() {
            let cut = matches!(kernel.node(id).op, Op::Materialize { .. });
            memory[id.index()] = cut && !problem.facts.users[id.index()].is_empty();
        }
        for (k, id) in choices.iter().enumerate() {
            memory[id.index()] = chosen >> k & 1 == 1;
        }
        let mut roots: Vec<Root> = (0..kernel.outputs.len() as u32).map(Root::Output).collect();
        let temps = kernel.node_ids().filter(|id| memory[id.index()] && !problem.is_result(*id));
        roots.extend(temps.map(Root::Temp));
        roots.sort_by_key(|r| r.node(kernel));
        if roots.len() > 24 {
            return None;
        }
        search.memory = memory;
        search.chosen = chosen;
        search.place(&roots, 0, &mut Vec::new(), 0.0)?;
    }
    Some(search.best)
}

/// What every plan takes that leaves nothing in memory but its results: a launch, and the traffic that one launch cannot
/// avoid either, which is known if the plan found so far has one.
fn least_seconds(problem: &Problem<'_>, found: &Partition) -> f64 {
    let bytes = if found.live().count() == 1 { found.price().bytes } else { 0 };
    problem.target.launch + bytes as f64 / problem.target.bandwidth
}

struct Search<'a> {
    problem: &'a Problem<'a>,
    known: HashMap<(u32, Vec<Root>), Option<Rc<Lowered>>>,
    budget: u32,
    best_seconds: f64,
    best: Partition,
    memory: Vec<bool>,
    chosen: u32,
}

impl Search<'_> {
    fn lower(&mut self, roots: &[Root]) -> Option<Option<Rc<Lowered>>> {
        let key = (self.chosen, roots.to_vec());
        if let Some(known) = self.known.get(&key) {
            return Some(known.clone());
        }
        let lowered = self.problem.lower(roots, &self.memory, &[]).ok().map(Rc::new);
        let nodes = (self.problem.kernel.nodes.len() as u32).min(self.problem.target.code_size);
        let values = lowered.as_ref().map_or(nodes, |l| l.group.values.len() as u32);
        self.budget = self.budget.checked_sub(values)?;
        self.known.insert(key, lowered.clone());
        Some(lowered)
    }

    /// Puts the roots from `at` on into the groups made so far or into new ones; `None` if the budget is used up.
    fn place(
        &mut self,
        roots: &[Root],
        at: usize,
        groups: &mut Vec<(Vec<Root>, Rc<Lowered>)>,
        seconds: f64,
    ) -> Option<()> {
        if seconds >= self.best_seconds {
            return Some(());
        }
        let Some(&root) = roots.get(at) else {
            let made = groups
                .iter()
                .map(|(roots, lowered)| Some(Group { roots: roots.clone(), lowered: Rc::clone(lowered) }));
            let partition =
                Partition { memory: self.memory.clone(), groups: made.collect(), pinned: Rc::default() };
            if partition.launch_order(self.problem).is_some() {
                self.best_seconds = seconds;
                self.best = partition;
            }
            return Some(());
        };
        for k in 0..groups.len() {
            let mut joined = groups[k].0.clone();
            joined.push(root);
            joined.sort();
            if let Some(lowered) = self.lower(&joined)? {
                let after = seconds - groups[k].1.price.seconds + lowered.price.seconds;
                let before = std::mem::replace(&mut groups[k], (joined, lowered));
                self.place(roots, at + 1, groups, after)?;
                groups[k] = before;
            }
        }
        if let Some(lowered) = self.lower(&[root])? {
            let after = seconds + lowered.price.seconds;
            groups.push((vec![root], lowered));
            self.place(roots, at + 1, groups, after)?;
            groups.pop();
        }
        Some(())
    }
}
