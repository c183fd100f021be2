//! A state of the search: which values lie in memory, and which group leaves each of them there.
//!
//! A group is known by its roots. What it computes follows: everything back to values that other groups leave in memory
//! and to the parameters. So a value that is not in memory is computed again by every group that needs it.

use crate::graph::facts::GraphFacts;
use crate::graph::{Kernel, Op, OutputTarget};
use crate::id::{AxisId, NodeId, ParamId, TempId};
use crate::plan::Refusal;
use crate::plan::cost::{Price, Sizes, count_code, count_live_values, count_parameters, price_group};
use crate::schedule::apart::are_apart;
use crate::schedule::build::{Body, BodyContext, Refused, Root, build_body, write_an_op};
use crate::schedule::passes::schedule_body;
use crate::schedule::streamed::build_streamed;
use crate::schedule::{BodyOp, BufferRef, MOST_DIMENSIONS, Operand, ScheduledGroup};
use crate::target::Target;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// What was done to find a plan: the greater part of the time that it takes.
#[derive(Default)]
pub(super) struct Work {
    /// Groups that were scheduled, to price them or to say why they are none.
    pub(super) schedules: Cell<u64>,
    /// The values of their bodies.
    pub(super) values: Cell<u64>,
}

/// What a plan is made for and from.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) facts: &'a GraphFacts,
    pub(super) target: &'a Target,
    pub(super) sizes: &'a Sizes,
    /// Whether a reduction may take two launches.
    pub(super) may_split: bool,
    pub(super) work: &'a Work,
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
    /// Values that groups outside load, if this is a region of a larger partition.
    pub(super) pinned: Rc<BTreeSet<NodeId>>,
}

impl<'a> Problem<'a> {
    /// The buffer in which a value lies when it is in memory: a result that holds it, else a temp of its own. Temps are
    /// named by their nodes until the plan is finished.
    pub(super) fn buffer_of(&self, id: NodeId) -> (BufferRef, Vec<AxisId>) {
        let output = self.facts.results[id.index()].map(|k| &self.kernel.outputs[k as usize].target);
        match output {
            Some(OutputTarget::Result { index, axes }) => (BufferRef::Result(*index), axes.clone()),
            Some(OutputTarget::Param { .. }) | None => {
                (BufferRef::Temp(TempId(id.0)), self.facts.layouts[id.index()].clone())
            }
        }
    }

    /// Whether a result of the kernel holds the value.
    pub(super) fn is_result(&self, id: NodeId) -> bool {
        self.facts.results[id.index()].is_some()
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

    /// Schedules and prices the group of these roots, where what is `leaving` is no longer in memory.
    pub(super) fn lower(
        &self,
        roots: &[Root],
        memory: &[bool],
        leaving: &[NodeId],
    ) -> Result<Lowered, Refused> {
        self.work.schedules.set(self.work.schedules.get() + 1);
        let owned = |id: NodeId| roots.iter().any(|r| self.holds(*r, id));
        let in_memory = |id: NodeId| {
            let stays = memory[id.index()] && !leaving.contains(&id) && !owned(id);
            stays.then(|| self.buffer_of(id))
        };
        let context = BodyContext {
            kernel: self.kernel,
            facts: self.facts,
            memory: &in_memory,
            code_size: self.target.code_size,
            depthwise: self.target.shared_memory == 0,
        };
        let group = match build_body(context, roots) {
            Ok(body) => {
                self.work.values.set(self.work.values.get() + body.values.len() as u64);
                schedule_body(self.kernel, self.target, self.sizes, body, self.may_split)
            }
            // What cannot share one loop may still share tiles.
            Err(refused) => {
                let schedule = |body: Body| {
                    self.work.values.set(self.work.values.get() + body.values.len() as u64);
                    schedule_body(self.kernel, self.target, self.sizes, body, false)
                };
                let buffer_of = |id: NodeId| self.buffer_of(id);
                build_streamed(context, roots, &buffer_of, &schedule).unwrap_or(Err(refused))?
            }
        };
        let first = roots.first().map(|r| r.node(self.kernel));
        let refuse = |refusal, because: String| Refused::new(refusal, first, because);
        let parameters = count_parameters(&group);
        if parameters > self.target.parameters {
            let limit = self.target.parameters;
            let because = format!("{parameters} buffers and scalars, {limit} fit a launch");
            return Err(refuse(Refusal::Parameters, because).unless(PASS_ONE_TENSOR));
        }
        let dimensions = group.count_dimensions();
        if dimensions > MOST_DIMENSIONS {
            let because = format!("{dimensions} axes and parts of axes, {MOST_DIMENSIONS} fit a launch");
            return Err(refuse(Refusal::Parameters, because));
        }
        let code = count_code(self.kernel, &group);
        if code > self.target.code_size && group.values.len() > 1 {
            let limit = self.target.code_size;
            let because = format!("about {code} operations, {limit} fit a launch");
            return Err(refuse(Refusal::CodeSize, because).unless(write_an_op()));
        }
        let of_loop = |l: &ScheduledGroup| l.passes.iter().map(|p| p.reductions.len()).sum::<usize>();
        let reductions = group.loops().iter().map(of_loop).max().unwrap_or(0);
        if reductions > self.target.reductions as usize {
            let limit = self.target.reductions;
            let because = format!("{reductions} reductions, {limit} fit a group");
            return Err(refuse(Refusal::CodeSize, because));
        }
        let live = group.loops().iter().map(|l| count_live_values(self.target, l)).max().unwrap_or(0);
        if live > self.target.live_values && group.values.len() > 2 {
            let limit = self.target.live_values;
            let because = format!("{live} values live at once, {limit} fit registers");
            let remedy =
                format!("use values up soon after they are computed: {limit} can wait for their last use");
            return Err(refuse(Refusal::Registers, because).unless(remedy));
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
                    let node = group.value(store.value).node;
                    let because = format!("`{name}` is read at other positions than it is written");
                    return Err(Refused::new(Refusal::InPlaceHazard, node, because).unless(RETURN_A_TENSOR));
                }
            }
        }
        Ok(())
    }
}

/// What helps where a launch has too many parameters.
pub(super) const PASS_ONE_TENSOR: &str = "pass tensors of one shape as one tensor with another axis";

/// What helps where an old value is still read.
pub(super) const RETURN_A_TENSOR: &str = "return a new tensor instead of writing in place";

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

    /// For each node the slot that leaves it where others can load it.
    fn holders(&self, problem: &Problem<'_>) -> Vec<Option<usize>> {
        let mut holders: Vec<Option<usize>> = vec![None; problem.kernel.nodes.len()];
        for (k, group) in self.live() {
            for root in &group.roots {
                let node = root.node(problem.kernel);
                if problem.holds(*root, node) {
                    holders[node.index()] = Some(k);
                }
            }
        }
        holders
    }

    /// Pairs of slots of which the first must be launched before the second because of what that overwrites: those
    /// that read it, and those that overwrite it earlier in the program. Who reads only other elements may be launched at
    /// any time.
    fn order_of_stores(&self, problem: &Problem<'_>) -> Vec<(usize, usize)> {
        let mut writers: Vec<(ParamId, usize, u32)> = Vec::new();
        for (k, group) in self.live().filter(|(_, g)| !g.lowered.writes.is_empty()) {
            for root in &group.roots {
                if let Root::Output(o) = root
                    && let OutputTarget::Param { param, .. } = problem.kernel.outputs[*o as usize].target
                {
                    writers.push((param, k, *o));
                }
            }
        }
        let mut pairs = Vec::new();
        for (param, writer, output) in &writers {
            let readers = self.live().filter(|(k, g)| {
                k != writer
                    && g.lowered.reads.contains(param)
                    && !self.are_apart(problem, *k, *writer, *param)
            });
            pairs.extend(readers.map(|(k, _)| (k, *writer)));
            let earlier = writers.iter().filter(|(p, k, o)| p == param && k != writer && o < output);
            pairs.extend(earlier.map(|(_, k, _)| (*k, *writer)));
        }
        pairs
    }

    /// Whether a group reads none of the elements of a parameter that another overwrites.
    pub(super) fn are_apart(
        &self,
        problem: &Problem<'_>,
        reader: usize,
        writer: usize,
        param: ParamId,
    ) -> bool {
        let (Some(reader), Some(writer)) = (self.group(reader), self.group(writer)) else { return true };
        let (reader, writer) = (&reader.lowered.group, &writer.lowered.group);
        are_apart(&problem.facts.extents, reader, writer, BufferRef::Param(param))
    }

    /// For each slot the slots that must be launched before it: those that store what it loads, those that read what it
    /// overwrites, and those that overwrite the same parameter earlier in the program.
    pub(super) fn dependencies(&self, problem: &Problem<'_>) -> Vec<BTreeSet<usize>> {
        let holders = self.holders(problem);
        let mut before = vec![BTreeSet::new(); self.groups.len()];
        for (k, group) in self.live() {
            let loads = group.lowered.loads.iter();
            before[k].extend(loads.filter_map(|n| holders[n.index()]).filter(|h| *h != k));
        }
        for (first, second) in self.order_of_stores(problem) {
            before[second].insert(first);
        }
        before
    }

    /// A group that would have to be launched both before and after the one of `slot`, if there is one.
    pub(super) fn find_circle(&self, problem: &Problem<'_>, slot: usize) -> Option<usize> {
        let holders = self.holders(problem);
        let stores = self.order_of_stores(problem);
        let mut seen = vec![false; self.groups.len()];
        let mut stack = vec![slot];
        while let Some(k) = stack.pop() {
            let loads = self.group(k).map_or(&[][..], |g| &g.lowered.loads);
            let held = loads.iter().filter_map(|n| holders[n.index()]).filter(|h| *h != k);
            let overwritten = stores.iter().filter(|(_, second)| *second == k).map(|(first, _)| *first);
            for before in held.chain(overwritten) {
                if before == slot {
                    return Some(k);
                }
                if !std::mem::replace(&mut seen[before], true) {
                    stack.push(before);
                }
            }
        }
        None
    }

    /// The slots in an order in which they can be launched, earlier nodes first; `None` if they depend on themselves.
    pub(super) fn launch_order(&self, problem: &Problem<'_>) -> Option<Vec<usize>> {
        let before = self.dependencies(problem);
        let mut after = vec![Vec::new(); self.groups.len()];
        let mut waiting = vec![0usize; self.groups.len()];
        for (k, list) in before.iter().enumerate() {
            waiting[k] = list.len();
            list.iter().for_each(|b| after[*b].push(k));
        }
        let last_node =
            |k: usize| self.group(k).and_then(|g| g.roots.iter().map(|r| r.node(problem.kernel)).max());
        let live = self.live().map(|(k, _)| k);
        let mut ready: BTreeSet<_> = live.filter(|k| waiting[*k] == 0).map(|k| (last_node(k), k)).collect();
        let mut order = Vec::with_capacity(self.groups.len());
        while let Some((_, slot)) = ready.pop_first() {
            order.push(slot);
            for &next in &after[slot] {
                waiting[next] -= 1;
                if waiting[next] == 0 {
                    ready.insert((last_node(next), next));
                }
            }
        }
        (order.len() == self.live().count()).then_some(order)
    }

    /// The same groups under another target or other prices.
    ///
    /// # Errors
    /// If a group is none there.
    pub(super) fn repriced(&self, problem: &Problem<'_>) -> Result<Partition, Refused> {
        let mut next = self.clone();
        for group in next.groups.iter_mut().flatten() {
            group.lowered = Rc::new(problem.lower(&group.roots, &self.memory, &[])?);
        }
        Ok(next)
    }
}
