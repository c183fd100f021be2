//! Streamed contractions: a contraction whose weights are normalised along the axes that it contracts, as in attention.
//!
//! Nothing is known of attention. What is asked is that the weights depend on *statistics* of their own rows, reductions
//! along the contracted axes, in no other way than by a shift of an exponent and by factors of the row. Then the rows need
//! not be complete before they are used: a block of keys at a time adds to the statistics and to the products, and what was
//! added before is scaled when the greatest exponent changes (Milakov and Gimelshein, "Online normalizer calculation for
//! softmax", 2018; Rabe and Staats, "Self-attention does not need O(n²) memory", 2021).
//!
//! ```text
//!   q ──┐                    ┌─► max(T) ──► shift ─┐
//!       dot(D) ─► program ─► x ─────────────────► exp(x - shift) ─► sum(T) ─► factor ─┐
//!   k ──┘                    │                     └──────────────────────────────── mul ─► dot(T) ─► epilogue
//!                            │                                                   v ───────────┘
//!   └─────── link 1 ─────────┘└─────────────── link 2 ─────────────┘└──────────────── link 3 ─────────────────┘
//! ```
//!
//! The links are loops like any other, exactly as the graph says: interpreted, or launched one after the other with buffers
//! between them, they give what separate groups give. [`cut_streamed`] makes of them the parts of the loop over tiles, and
//! says why there are none where there are not. So what can be streamed is decided in one place.

mod algebra;
mod parts;

pub use parts::{Admitted, Maximum, Source, StreamParts, Sum, Weights, cut_streamed};

use crate::graph::{Op, OutputTarget, Reducer};
use crate::id::{AxisId, NodeId, TempId};
use crate::plan::Refusal;
use crate::schedule::build::{Body, BodyContext, Refused, Root, build_body, label};
use crate::schedule::{BufferRef, ScheduleKind, ScheduledGroup};
use algebra::Flat;
use std::collections::BTreeSet;

/// Until a plan is finished its temps are named by their nodes; this bit tells those between the links of a group from those
/// that hold the same node in memory.
const BETWEEN: u32 = 1 << 31;

fn between_links(id: NodeId) -> BufferRef {
    BufferRef::Temp(TempId(id.0 | BETWEEN))
}

fn is_between_links(buffer: BufferRef) -> bool {
    matches!(buffer, BufferRef::Temp(temp) if temp.0 & BETWEEN != 0)
}

/// The node that a temp holds, before the plan is finished.
pub(crate) fn node_of_temp(temp: TempId) -> NodeId {
    NodeId(temp.0 & !BETWEEN)
}

/// Why a group cannot be streamed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unstreamable {
    /// The node at which it shows.
    pub node: Option<NodeId>,
    /// What is wrong with it: continues a sentence that begins with its name.
    pub because: &'static str,
    /// What the user could write instead.
    pub remedy: Option<&'static str>,
}

/// The streamed group of these roots; `None` if they do not contain a contraction of normalised weights. `schedule` gives the
/// schedule of a link, `buffer_of` the buffer in which a root lies.
///
/// Takes time linear in what the roots compute, besides the schedules of three links.
///
/// # Errors
/// If they do, and something forbids to stream them; the reason names the node.
pub(crate) fn build_streamed(
    context: BodyContext<'_>,
    roots: &[Root],
    buffer_of: &dyn Fn(NodeId) -> (BufferRef, Vec<AxisId>),
    schedule: &dyn Fn(Body) -> ScheduledGroup,
) -> Option<Result<ScheduledGroup, Refused>> {
    let region = Region::find(context, roots)?;
    let linked = region.cut(roots).and_then(|cuts| link(&region, &cuts, buffer_of, schedule));
    match linked {
        // Without exponentials it is a norm: sums of what lies in memory have one order, however they are fused.
        Ok((_, None)) if !region.has_products() => None,
        linked => Some(linked.map(|(group, _)| group)),
    }
}

/// What the roots compute, and how it hangs together.
struct Region<'a> {
    context: BodyContext<'a>,
    computed: BTreeSet<NodeId>,
    /// Whether a node is a product other than the last, or depends on one.
    on_products: BTreeSet<NodeId>,
    /// Whether it is a statistic, or depends on one.
    on_statistics: BTreeSet<NodeId>,
    /// Whether it is the last contraction, or depends on it.
    on_last: BTreeSet<NodeId>,
    /// The contraction of the weights.
    last: NodeId,
    statistics: Vec<NodeId>,
    /// The axes that it contracts and of which there are statistics.
    streamed: Vec<AxisId>,
    /// The axes of the statistics.
    rows: Vec<AxisId>,
}

/// Where a region is cut into links.
struct Cuts {
    /// What the first link makes and the others read, over rows and streamed axes.
    tiles: Vec<NodeId>,
    /// What the second link makes and the third reads, over rows.
    of_rows: Vec<NodeId>,
    /// The roots of the second and of the third link.
    roots: [Vec<Root>; 2],
    /// What stays in memory because of the roots of the group.
    stored: Vec<NodeId>,
}

impl<'a> Region<'a> {
    fn find(context: BodyContext<'a>, roots: &[Root]) -> Option<Region<'a>> {
        let kernel = context.kernel;
        let mut computed = BTreeSet::new();
        let mut stack: Vec<NodeId> = roots.iter().map(|r| r.node(kernel)).collect();
        let (mut dots, mut statistics) = (Vec::new(), Vec::new());
        while let Some(id) = stack.pop() {
            if computed.contains(&id) || (context.memory)(id).is_some() {
                continue;
            }
            computed.insert(id);
            match &kernel.node(id).op {
                Op::Reduce { reducer: Reducer::Dot, .. } => dots.push(id),
                Op::Reduce { .. } => statistics.push(id),
                Op::CumSum { .. } => return None,
                Op::Materialize { .. } if !roots.iter().any(|r| r.node(kernel) == id) => return None,
                Op::Materialize { .. } | Op::Map { .. } | Op::View { .. } | Op::Tensor(_) => {}
                Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => {}
            }
            stack.extend(kernel.node(id).op.operands());
        }
        if dots.is_empty() || statistics.is_empty() {
            return None;
        }
        let depends = |on: &[NodeId]| {
            let mut depends: BTreeSet<NodeId> = BTreeSet::new();
            for id in &computed {
                let reads = kernel.node(*id).op.operands();
                if on.contains(id) || reads.iter().any(|o| depends.contains(o)) {
                    depends.insert(*id);
                }
            }
            depends
        };
        let on_statistics = depends(&statistics);
        let mut lasts = dots.iter().copied().filter(|d| on_statistics.contains(d));
        let (Some(last), None) = (lasts.next(), lasts.next()) else { return None };
        let on_last = depends(&[last]);
        dots.retain(|d| *d != last);
        let set = |axes: &[AxisId]| axes.iter().copied().collect::<BTreeSet<AxisId>>();
        let axes_of = |id: NodeId| match &kernel.node(id).op {
            Op::Reduce { axes, .. } => axes.clone(),
            _ => Vec::new(),
        };
        let streamed = axes_of(last);
        let rows = kernel.node(*statistics.first()?).ty.axes.clone();
        let alike = |s: &NodeId| {
            set(&axes_of(*s)) == set(&streamed) && kernel.node(*s).ty.axes == rows && !on_last.contains(s)
        };
        let of_keys = |d: &NodeId| {
            let axes = &kernel.node(*d).ty.axes;
            !on_last.contains(d) && streamed.iter().all(|a| axes.contains(a))
        };
        if !statistics.iter().all(alike) || !dots.iter().all(of_keys) {
            return None;
        }
        let on_products = depends(&dots);
        Some(Region {
            context,
            computed,
            on_products,
            on_statistics,
            on_last,
            last,
            statistics,
            streamed,
            rows,
        })
    }

    /// Whether scores are made of products.
    fn has_products(&self) -> bool {
        !self.on_products.is_empty()
    }

    /// Whether a node has a position on streamed axes.
    fn is_streamed(&self, id: NodeId) -> bool {
        self.context.kernel.node(id).ty.axes.iter().any(|a| self.streamed.contains(a))
    }

    fn refuse<T>(&self, id: NodeId, because: &str) -> Result<T, Refused> {
        let because = format!("`{}` {because}", label(self.context.kernel, id));
        Err(Refused::new(Refusal::NotStreamed, Some(id), because))
    }

    fn cut(&self, roots: &[Root]) -> Result<Cuts, Refused> {
        let kernel = self.context.kernel;
        let mut of_links = [Vec::new(), Vec::new()];
        for root in roots {
            let id = root.node(kernel);
            match (self.on_last.contains(&id), self.is_streamed(id)) {
                (true, _) => of_links[1].push(*root),
                (false, false) if self.on_statistics.contains(&id) => of_links[0].push(*root),
                (false, _) => {
                    return self.refuse(id, "is stored as well, so that all of it has to be in memory");
                }
            }
        }
        let sources = self.statistics.iter().flat_map(|s| kernel.node(*s).op.operands());
        let made: BTreeSet<NodeId> = self.computed.iter().copied().chain(sources).collect();
        let tiles: Vec<NodeId> = made.into_iter().filter(|id| self.is_tile(*id)).collect();
        let mut domain: Vec<AxisId> = self.rows.iter().chain(&self.streamed).copied().collect();
        domain.sort();
        if let Some(id) = tiles.iter().find(|id| kernel.node(**id).ty.axes != domain) {
            return self.refuse(*id, "has not all the axes of the weights");
        }
        // What the third link needs of rows: the first such nodes on every way back from its roots.
        let mut of_rows = Vec::new();
        let mut seen = BTreeSet::new();
        let mut stack: Vec<NodeId> = of_links[1].iter().map(|r| r.node(kernel)).collect();
        while let Some(id) = stack.pop() {
            if !self.computed.contains(&id) || !seen.insert(id) {
                continue;
            }
            let on_row =
                self.on_statistics.contains(&id) && !self.on_last.contains(&id) && !self.is_streamed(id);
            if on_row {
                of_rows.push(id);
            } else if !tiles.contains(&id) {
                stack.extend(kernel.node(id).op.operands());
            }
        }
        of_rows.sort();
        let stored: Vec<NodeId> =
            of_links[0].iter().filter(|r| self.is_held(**r)).map(|r| r.node(kernel)).collect();
        let fresh = of_rows.iter().filter(|id| !stored.contains(id));
        of_links[0].extend(fresh.map(|id| Root::Temp(*id)));
        Ok(Cuts { tiles, of_rows, roots: of_links, stored })
    }

    /// Whether a root leaves its value where other links can load it.
    fn is_held(&self, root: Root) -> bool {
        match root {
            Root::Temp(_) => true,
            Root::Output(k) => {
                matches!(self.context.kernel.outputs[k as usize].target, OutputTarget::Result { .. })
            }
        }
    }

    /// Whether a node is made by the first link and read by the others: the last on its way that is independent of
    /// statistics. Without products in the first link it is what statistics are taken of, computed or not.
    fn is_tile(&self, id: NodeId) -> bool {
        if self.on_statistics.contains(&id) || self.on_last.contains(&id) || !self.is_streamed(id) {
            return false;
        }
        let users = &self.context.facts.users[id.index()];
        if self.has_products() {
            let later = |u: &NodeId| self.computed.contains(u) && self.on_statistics.contains(u);
            self.on_products.contains(&id) && users.iter().any(later)
        } else {
            users.iter().any(|u| self.statistics.contains(u))
        }
    }
}

/// Schedules the links and puts them together; with the tile that is exponentiated.
fn link(
    region: &Region<'_>,
    cuts: &Cuts,
    buffer_of: &dyn Fn(NodeId) -> (BufferRef, Vec<AxisId>),
    schedule: &dyn Fn(Body) -> ScheduledGroup,
) -> Result<(ScheduledGroup, Option<usize>), Refused> {
    let context = region.context;
    let layout = |id: NodeId| (between_links(id), context.facts.layouts[id.index()].clone());
    let of_tiles = |id: NodeId| {
        if cuts.tiles.contains(&id) { Some(layout(id)) } else { (context.memory)(id) }
    };
    let of_rows = |id: NodeId| match cuts.of_rows.contains(&id) {
        true if cuts.stored.contains(&id) => Some(buffer_of(id)),
        true => Some(layout(id)),
        false => of_tiles(id),
    };
    let tiles: Vec<Root> = cuts.tiles.iter().map(|id| Root::Temp(*id)).collect();
    let body = |roots: &[Root], memory: &dyn Fn(NodeId) -> Option<(BufferRef, Vec<AxisId>)>| {
        build_body(BodyContext { memory, ..context }, roots).map(schedule)
    };
    let mut first = body(&tiles, context.memory)?;
    if !matches!(first.kind, ScheduleKind::Contraction | ScheduleKind::Pointwise) {
        let id = cuts.tiles.first().copied().unwrap_or(region.last);
        let refused = region.refuse(id, "is made of products of single vectors, which are no contraction");
        return refused
            .map_err(|r: Refused| r.unless("give the queries an axis of their own, if of extent 1"));
    }
    let mut second = body(&cuts.roots[0], &of_tiles)?;
    let third = body(&cuts.roots[1], &of_rows)?;
    if third.kind != ScheduleKind::Contraction || second.reduced.is_empty() {
        return region.refuse(region.last, "is no contraction of rows and columns");
    }
    // What is no root of the group lies between its links.
    for store in first.stores.iter_mut().chain(&mut second.stores) {
        if let BufferRef::Temp(temp) = store.buffer
            && !cuts.stored.contains(&NodeId(temp.0))
        {
            store.buffer = between_links(NodeId(temp.0));
        }
    }
    let group = join(vec![first, second, third]);
    match cut_streamed(&group) {
        Ok(parts) => Ok((group, parts.exponent)),
        Err(Unstreamable { node, because, remedy }) => {
            let refused = region.refuse(node.unwrap_or(region.last), because);
            refused.map_err(|r: Refused| if let Some(remedy) = remedy { r.unless(remedy) } else { r })
        }
    }
}

/// The links as one group.
fn join(links: Vec<ScheduledGroup>) -> ScheduledGroup {
    let flat = Flat::new(&links);
    let mut stores = Vec::new();
    for (k, link) in links.iter().enumerate() {
        for store in link.stores.iter().filter(|s| !is_between_links(s.buffer)) {
            let mut store = store.clone();
            store.value = flat.renamed[k][store.value.index()];
            stores.push(store);
        }
    }
    let (outer, mut reduced) = (links[2].outer.clone(), links[2].reduced.clone());
    for link in &links {
        let fresh = |a: &&AxisId| !outer.contains(a) && !reduced.contains(a);
        let more: Vec<AxisId> = link.outer.iter().chain(&link.reduced).filter(fresh).copied().collect();
        reduced.extend(more);
    }
    ScheduledGroup {
        id: links[2].id,
        kind: ScheduleKind::Streamed,
        outer,
        reduced,
        operands: flat.operands,
        values: flat.values,
        prologue: Vec::new(),
        passes: Vec::new(),
        stores,
        links,
    }
}
