//! A state of the search: which values lie in memory, and which group leaves each of them there.
//!
//! A group is known by its roots. What it computes follows: everything back to values that other groups leave in memory
//! and to the parameters. So a value that is not in memory is computed again by every group that needs it.

use crate::graph::facts::GraphFacts;
use crate::graph::{Kernel, Op, OutputTarget};
use crate::id::{AxisId, NodeId, ParamId, TempId};
use crate::plan::Refusal;
use crate::plan::cost::{Price, Sizes, count_code, count_live_values, count_parameters, price_group};
use crate::schedule::build::{BodyContext, Refused, Root, build_body, label};
use crate::schedule::passes::schedule_body;
use crate::schedule::{BodyOp, BufferRef, MOST_DIMENSIONS, Operand, ScheduledGroup};
use crate::target::Target;
use std::collections::BTreeSet;
use std::rc::Rc;

/// What a plan is made for and from.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) facts: &'a GraphFacts,
    pub(super) target: &'a Target,
    pub(super) sizes: &'a Sizes,
    /// Whether a reduction may take two launches.
    pub(super) may_split: bool,
}

/// A group as scheduled, with what the search asks of it.
#[derive(Clone, Debug)]
pub(super) struct Lowered {
    pub(super) group: ScheduledGroup,
    pub(super) price: Price,
    /// Values of other groups that it loads.
    pub(super) loads: Vec<NodeId>,
    /// Parameters that it loads.
    pub(super) reads: Vec<ParamId>,
    /// Parameters that it stores to.
    pub(super) writes: Vec<ParamId>,
}

/// A group of a partition.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) roots: Vec<Root>,
    pub(super) lowered: Rc<Lowered>,
}

/// Groups and the values between them. Slots of merged groups are empty.
#[derive(Clone, Debug)]
pub(super) struct Partition {
    /// Whether groups that do not compute it themselves load the value.
    pub(super) memory: Vec<bool>,
    pub(super) groups: Vec<Option<Group>>,
}

impl<'a> Problem<'a> {
    /// The buffer in which a value lies when it is in memory: a result that holds it, else a temp of its own. Temps are
    /// named by their nodes until the plan is finished.
    pub(super) fn buffer_of(&self, id: NodeId) -> (BufferRef, Vec<AxisId>) {
        for output in &self.kernel.outputs {
            if let (true, OutputTarget::Result { index, axes }) = (output.value == id, &output.target) {
                return (BufferRef::Result(*index), axes.clone());
            }
        }
        (BufferRef::Temp(TempId(id.0)), self.facts.layouts[id.index()].clone())
    }

    /// Whether a result of the kernel holds the value.
    pub(super) fn is_result(&self, id: NodeId) -> bool {
        matches!(self.buffer_of(id).0, BufferRef::Result(_))
    }

    /// Whether a root leaves its value where other groups can load it; a store over a parameter does not.
    pub(super) fn holds(&self, root: Root, id: NodeId) -> bool {
        root.node(self.kernel) == id
            && match root {
                Root::Temp(_) => true,
                Root::Output(k) => {
                    matches!(self.kernel.outputs[k as usize].target, OutputTarget::Result { .. })
                }
            }
    }

    /// Whether a node is no operation of its own: a leaf, or a function of scalar parameters and constants alone.
    pub(super) fn is_leaf(&self, id: NodeId) -> bool {
        match &self.kernel.node(id).op {
            Op::Tensor(_) | Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => true,
            Op::Map { .. } | Op::View { .. } | Op::Reduce { .. } => false,
            Op::CumSum { .. } | Op::Materialize { .. } => false,
        }
    }

    /// Schedules and prices the group of these roots.
    pub(super) fn lower(&self, roots: &[Root], memory: &[bool]) -> Result<Lowered, Refused> {
        let owned = |id: NodeId| roots.iter().any(|r| self.holds(*r, id));
        let in_memory = |id: NodeId| (memory[id.index()] && !owned(id)).then(|| self.buffer_of(id));
        let context = BodyContext {
            kernel: self.kernel,
            facts: self.facts,
            memory: &in_memory,
            code_size: self.target.code_size,
        };
        let body = build_body(context, roots)?;
        let group = schedule_body(self.kernel, self.target, self.sizes, body, self.may_split);
        let first = roots.first().map(|r| r.node(self.kernel));
        let refuse = |refusal, because: String| Err(Refused { refusal, node: first, because });
        let parameters = count_parameters(&group);
        if parameters > self.target.parameters {
            let limit = self.target.parameters;
            return refuse(
                Refusal::Parameters,
                format!("{parameters} buffers and scalars, {limit} fit a launch"),
            );
        }
        let dimensions = group.count_dimensions();
        if dimensions > MOST_DIMENSIONS {
            return refuse(
                Refusal::Parameters,
                format!("{dimensions} axes and parts of axes, {MOST_DIMENSIONS} fit a launch"),
            );
        }
        let code = count_code(self.kernel, &group);
        if code > self.target.code_size && group.values.len() > 1 {
            let limit = self.target.code_size;
            return refuse(Refusal::CodeSize, format!("about {code} operations, {limit} fit a launch"));
        }
        let reductions: usize = group.passes.iter().map(|p| p.reductions.len()).sum();
        if reductions > self.target.reductions as usize {
            let limit = self.target.reductions;
            return refuse(Refusal::CodeSize, format!("{reductions} reductions, {limit} fit a group"));
        }
        let live = count_live_values(self.target, &group);
        if live > self.target.live_values && group.values.len() > 2 {
            let limit = self.target.live_values;
            return refuse(Refusal::Registers, format!("{live} values live at once, {limit} fit registers"));
        }
        self.check_in_place(&group)?;
        let mut lowered = Lowered {
            price: price_group(self.kernel, self.target, self.sizes, &group),
            loads: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            group,
        };
        let mut loads = BTreeSet::new();
        let mut reads = BTreeSet::new();
        for value in &lowered.group.values {
            let BodyOp::Load(operand) = &value.op else { continue };
            match (&lowered.group.operands[operand.index()], value.node) {
                (Operand::Buffer { buffer: BufferRef::Param(p), .. }, _) => {
                    reads.insert(*p);
                }
                (Operand::Buffer { .. }, Some(node)) => {
                    loads.insert(node);
                }
                _ => {}
            }
        }
        let writes: BTreeSet<ParamId> = lowered.group.stores.iter().filter_map(param_of).collect();
        lowered.loads = loads.into_iter().collect();
        lowered.reads = reads.into_iter().collect();
        lowered.writes = writes.into_iter().collect();
        Ok(lowered)
    }

    /// A group that stores over a parameter may load it only at the very position of the store.
    fn check_in_place(&self, group: &ScheduledGroup) -> Result<(), Refused> {
        for store in &group.stores {
            let Some(param) = param_of(store) else { continue };
            for operand in &group.operands {
                let Operand::Buffer { buffer, map, .. } = operand else { continue };
                if *buffer == store.buffer && map.indices != store.indices {
                    let name = &self.kernel.param(param).name;
                    return Err(Refused {
                        refusal: Refusal::InPlaceHazard,
                        node: group.value(store.value).node,
                        because: format!("`{name}` is read at other positions than it is written"),
                    });
                }
            }
        }
        Ok(())
    }
}

fn param_of(store: &crate::schedule::Store) -> Option<ParamId> {
    match store.buffer {
        BufferRef::Param(p) => Some(p),
        BufferRef::Result(_) | BufferRef::Temp(_) => None,
    }
}

impl Partition {
    /// The groups that exist, with their slots.
    pub(super) fn live(&self) -> impl Iterator<Item = (usize, &Group)> {
        self.groups.iter().enumerate().filter_map(|(k, g)| g.as_ref().map(|g| (k, g)))
    }

    /// The group of a slot that exists.
    pub(super) fn group(&self, slot: usize) -> Option<&Group> {
        self.groups.get(slot).and_then(Option::as_ref)
    }

    /// The modelled cost of all groups.
    pub(super) fn price(&self) -> Price {
        self.live().fold(Price::default(), |sum, (_, g)| sum + g.lowered.price)
    }

    /// For each slot the slots that must be launched before it: those that store what it loads, those that read what it
    /// overwrites, and those that overwrite the same parameter earlier in the program.
    pub(super) fn dependencies(&self, problem: &Problem<'_>) -> Vec<BTreeSet<usize>> {
        let mut holders: Vec<Option<usize>> = vec![None; problem.kernel.nodes.len()];
        for (k, group) in self.live() {
            for root in &group.roots {
                let node = root.node(problem.kernel);
                if problem.holds(*root, node) {
                    holders[node.index()] = Some(k);
                }
            }
        }
        let mut before = vec![BTreeSet::new(); self.groups.len()];
        let mut writers: Vec<(ParamId, usize, u32)> = Vec::new();
        for (k, group) in self.live() {
            for node in &group.lowered.loads {
                before[k].extend(holders[node.index()].filter(|h| *h != k));
            }
            for root in &group.roots {
                if let Root::Output(o) = root
                    && let OutputTarget::Param { param, .. } = problem.kernel.outputs[*o as usize].target
                {
                    writers.push((param, k, *o));
                }
            }
        }
        for (param, writer, output) in &writers {
            for (k, group) in self.live() {
                if k != *writer && group.lowered.reads.contains(param) {
                    before[*writer].insert(k);
                }
            }
            let earlier = writers.iter().filter(|(p, k, o)| p == param && k != writer && o < output);
            before[*writer].extend(earlier.map(|(_, k, _)| *k));
        }
        before
    }

    /// The slots in an order in which they can be launched, earlier nodes first; `None` if they depend on themselves.
    pub(super) fn launch_order(&self, problem: &Problem<'_>) -> Option<Vec<usize>> {
        let before = self.dependencies(problem);
        let mut left: Vec<usize> = self.live().map(|(k, _)| k).collect();
        let first_node =
            |k: usize| self.group(k).and_then(|g| g.roots.iter().map(|r| r.node(problem.kernel)).max());
        left.sort_by_cached_key(|k| first_node(*k));
        let mut done = vec![false; self.groups.len()];
        let mut order = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let ready = left.iter().position(|k| before[*k].iter().all(|b| done[*b]))?;
            let slot = left.remove(ready);
            done[slot] = true;
            order.push(slot);
        }
        Some(order)
    }

    /// The same groups under another target or other prices.
    ///
    /// # Errors
    /// If a group is none there.
    pub(super) fn repriced(&self, problem: &Problem<'_>) -> Result<Partition, Refused> {
        let mut next = self.clone();
        for group in next.groups.iter_mut().flatten() {
            group.lowered = Rc::new(problem.lower(&group.roots, &self.memory)?);
        }
        Ok(next)
    }

    /// The roots and memory of the union of two groups: values that only these read leave memory.
    pub(super) fn union(&self, problem: &Problem<'_>, a: usize, b: usize) -> (Vec<Root>, Vec<bool>) {
        let mut memory = self.memory.clone();
        let both = [self.group(a), self.group(b)];
        let mut roots: Vec<Root> = both.iter().flatten().flat_map(|g| g.roots.iter().copied()).collect();
        roots.sort();
        roots.retain(|root| {
            let Root::Temp(node) = *root else { return true };
            let outside = self.live().any(|(k, g)| k != a && k != b && g.lowered.loads.contains(&node));
            let cut = matches!(problem.kernel.node(node).op, Op::Materialize { .. });
            if !outside && !cut {
                memory[node.index()] = false;
            }
            outside || cut
        });
        (roots, memory)
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
        Err(Refused { refusal: Refusal::CodeSize, node, because })
    }

    /// The partition with two groups merged.
    ///
    /// # Errors
    /// If the union is no group, or would depend on itself through another.
    pub(super) fn merged(&self, problem: &Problem<'_>, a: usize, b: usize) -> Result<Partition, Refused> {
        self.check_size(problem, a, b)?;
        let (roots, memory) = self.union(problem, a, b);
        let lowered = problem.lower(&roots, &memory)?;
        let mut next = self.clone();
        next.memory = memory;
        next.groups[a] = None;
        next.groups[b] = Some(Group { roots, lowered: Rc::new(lowered) });
        if next.launch_order(problem).is_none() {
            let other = self.group(a).and_then(|g| g.roots.first()).map(|r| r.node(problem.kernel));
            let because = match other {
                Some(node) => format!("another launch lies between `{}` and it", label(problem.kernel, node)),
                None => "another launch lies between them".to_owned(),
            };
            return Err(Refused { refusal: Refusal::Cycle, node: other, because });
        }
        Ok(next)
    }

    /// The partition in which every reader of a value computes it again.
    ///
    /// # Errors
    /// If a reader cannot.
    pub(super) fn recomputed(&self, problem: &Problem<'_>, id: NodeId) -> Result<Partition, Refused> {
        let mut next = self.clone();
        next.memory[id.index()] = false;
        for (k, group) in self.live() {
            let stores = group.roots.contains(&Root::Temp(id));
            if !stores && !group.lowered.loads.contains(&id) {
                continue;
            }
            let roots: Vec<Root> = group.roots.iter().copied().filter(|r| *r != Root::Temp(id)).collect();
            next.groups[k] = match roots.is_empty() {
                true => None,
                false => {
                    let lowered = Rc::new(problem.lower(&roots, &next.memory)?);
                    Some(Group { roots, lowered })
                }
            };
        }
        // What the value alone was computed from may have lost its last reader but gained others.
        if next.launch_order(problem).is_none() {
            let because = format!("computing `{}` again would depend on itself", label(problem.kernel, id));
            return Err(Refused { refusal: Refusal::Cycle, node: Some(id), because });
        }
        Ok(next)
    }
}
