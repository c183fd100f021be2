//! The dataflow of a kernel as a drawing: a frame for each launch, in it the operations in layers, and the edges.
//!
//! Frames stand below one another in the order of the launches, groups of one launch side by side in its frame. An
//! operation that several groups compute stands in each. Layers are those of the longest path within the group.

use super::svg::{escape, shorten};
use crate::edges::Edge;
use crate::explain::name_sides;
use crate::kernel::Kernel;
use fuse_ir::id::NodeId;
use fuse_ir::plan::Rule;
use fuse_ir::schedule::build::label;
use fuse_ir::schedule::{BodyOp, BufferRef, ScheduledGroup};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Pixels of a character, of an operation and of what lies between.
const CHARACTER: usize = 7;
const NODE_HEIGHT: usize = 26;
const GAP: usize = 18;
const LAYER: usize = 58;
const FRAME: usize = 16;
const HEADER: usize = 24;
const MOST_CHARACTERS: usize = 34;

/// A group of a launch with the operations that it computes.
struct Loop {
    name: String,
    nodes: BTreeSet<NodeId>,
    /// Those that it leaves in memory.
    stored: BTreeSet<NodeId>,
}

/// Where an operation stands: its left upper corner and its width.
#[derive(Clone, Copy)]
struct Box {
    x: usize,
    y: usize,
    width: usize,
}

/// The drawing. `number` is the kernel's on the page.
pub(super) fn draw(number: usize, kernel: &Kernel, edges: &[Edge]) -> String {
    let launches = list_loops(kernel, edges);
    let mut boxes: BTreeMap<(usize, NodeId), Box> = BTreeMap::new();
    // The line of the first frame is drawn whole.
    let (mut frames, mut width, mut y) = (String::new(), 0, 1);
    let mut index = 0;
    for (k, launch) in launches.iter().enumerate() {
        let top = y;
        let (mut x, mut height) = (FRAME, 0);
        for group in launch {
            let _ = writeln!(
                frames,
                "<text class=\"group\" x=\"{x}\" y=\"{}\">{}</text>",
                top + 16,
                escape(&format!("launch {}: {}", k + 1, group.name))
            );
            let size = place_nodes(kernel, edges, group, (x, top + HEADER), &mut |node, place| {
                boxes.insert((index, node), place);
            });
            x += size.0.max(group.name.chars().count() * CHARACTER + 80) + GAP;
            height = height.max(size.1);
            index += 1;
        }
        y = top + HEADER + height + FRAME;
        width = width.max(x);
        let _ = writeln!(
            frames,
            "<rect class=\"frame\" x=\"1\" y=\"{top}\" width=\"{{width}}\" height=\"{}\" />",
            y - top
        );
        y += GAP;
    }
    // Frames are as wide as the widest.
    let frames = frames.replace("{width}", &(width.max(2) - 2).to_string());
    let loops: Vec<&Loop> = launches.iter().flatten().collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{y}\" viewBox=\"0 0 {width} {y}\" \
         role=\"group\" aria-label=\"dataflow of {}\">\n{frames}{}{}</svg>\n",
        escape(kernel.name()),
        draw_edges(number, kernel, edges, &loops, &boxes),
        draw_nodes(kernel, &boxes),
    )
}

/// The groups of each launch.
fn list_loops(kernel: &Kernel, edges: &[Edge]) -> Vec<Vec<Loop>> {
    let plan = &kernel.program.plan;
    let operations: BTreeSet<NodeId> = edges.iter().flat_map(|edge| [edge.producer, edge.consumer]).collect();
    let mut launches: Vec<Vec<Loop>> = plan
        .launches
        .iter()
        .map(|launch| launch.parts.iter().map(|group| make_loop(kernel, group, &operations)).collect())
        .collect();
    // An operation that no value of a body names is part of whoever reads it: a cast that a load does, for one. Readers come
    // later in the graph.
    for node in operations.iter().rev() {
        let is_placed = launches.iter().flatten().any(|group| group.nodes.contains(node));
        let readers: BTreeSet<NodeId> =
            edges.iter().filter(|edge| edge.producer == *node).map(|edge| edge.consumer).collect();
        if !is_placed {
            for group in launches.iter_mut().flatten().filter(|group| !group.nodes.is_disjoint(&readers)) {
                group.nodes.insert(*node);
            }
        }
    }
    launches
}

fn make_loop(kernel: &Kernel, group: &ScheduledGroup, operations: &BTreeSet<NodeId>) -> Loop {
    let computed = group.values.iter().filter(|value| match value.op {
        BodyOp::Map { .. } | BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => true,
        BodyOp::Load(_) | BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => false,
    });
    let mut nodes: BTreeSet<NodeId> =
        computed.filter_map(|value| value.node).filter(|node| operations.contains(node)).collect();
    let mut stored = BTreeSet::new();
    for store in &group.stores {
        stored.extend(group.value(store.value).node);
        // The value of a cut is that of its source.
        if let BufferRef::Temp(temp) = store.buffer
            && let Some(temp) = kernel.program.plan.temps.get(temp.index())
        {
            stored.insert(temp.node);
        }
    }
    // What is stored stands in the drawing even if nothing reads it and it reads nothing.
    nodes.extend(stored.iter().copied());
    let axes = |axes: &[fuse_ir::id::AxisId]| {
        axes.iter().map(|axis| kernel.program.kernel.axis(*axis).name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let mut name = format!("{} {:?}", group.id, group.kind).to_lowercase();
    if !group.outer.is_empty() {
        name += &format!(" for each [{}]", axes(&group.outer));
    }
    if !group.reduced.is_empty() {
        name += &format!(" over [{}]", axes(&group.reduced));
    }
    Loop { name, nodes, stored }
}

/// Gives each operation of a group its place below `corner`, and tells the size of all.
fn place_nodes(
    kernel: &Kernel,
    edges: &[Edge],
    group: &Loop,
    corner: (usize, usize),
    put: &mut dyn FnMut(NodeId, Box),
) -> (usize, usize) {
    let mut layers: BTreeMap<NodeId, usize> = BTreeMap::new();
    // Operands come before users.
    for node in &group.nodes {
        let reads = edges.iter().filter(|edge| edge.consumer == *node);
        let layer = reads.filter_map(|edge| layers.get(&edge.producer)).max().map_or(0, |layer| layer + 1);
        layers.insert(*node, layer);
    }
    let mut ends: BTreeMap<usize, usize> = BTreeMap::new();
    for (node, layer) in &layers {
        let end = ends.entry(*layer).or_default();
        let width = show_label(kernel, *node).chars().count() * CHARACTER + 16;
        put(*node, Box { x: corner.0 + *end, y: corner.1 + layer * LAYER, width });
        *end += width + GAP;
    }
    let width = ends.values().max().map_or(0, |end| end - GAP);
    let height = layers.values().max().map_or(0, |layer| layer * LAYER + NODE_HEIGHT);
    (width, height)
}

fn show_label(kernel: &Kernel, node: NodeId) -> String {
    shorten(&label(&kernel.program.kernel, node), MOST_CHARACTERS)
}

fn draw_nodes(kernel: &Kernel, boxes: &BTreeMap<(usize, NodeId), Box>) -> String {
    let mut text = String::new();
    for ((_, node), Box { x, y, width }) in boxes {
        let full = escape(&label(&kernel.program.kernel, *node));
        let _ = writeln!(
            text,
            "<g class=\"node\"><title>{full}</title><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" \
             height=\"{NODE_HEIGHT}\" rx=\"4\" /><text x=\"{}\" y=\"{}\">{}</text></g>",
            x + 8,
            y + 17,
            escape(&show_label(kernel, *node))
        );
    }
    text
}

/// The edges: within each group that computes both sides, and from where a value is stored to each group that loads it.
fn draw_edges(
    number: usize,
    kernel: &Kernel,
    edges: &[Edge],
    loops: &[&Loop],
    boxes: &BTreeMap<(usize, NodeId), Box>,
) -> String {
    let mut text = String::new();
    for Edge { producer, consumer, decision } in edges {
        let found = decision.and_then(|k| Some((k, kernel.program.plan.decisions.get(k)?)));
        let fused = found.is_some_and(|(_, decision)| decision.refusal.is_none());
        let rule = found.map_or(Rule::Vertical, |(_, decision)| decision.rule);
        let sides = name_sides(kernel, rule, *producer, *consumer);
        let (class, word) = if fused { ("fused", "fused") } else { ("refused", "refused") };
        let mut paths = String::new();
        for (k, _) in loops.iter().enumerate().filter(|(_, group)| group.nodes.contains(consumer)) {
            let holder = || (0..loops.len()).find(|holder| loops[*holder].stored.contains(producer));
            // A cut within one group is an edge out of memory all the same.
            let from = if boxes.contains_key(&(k, *producer)) { Some(k) } else { holder() };
            let ends =
                from.and_then(|from| Some((boxes.get(&(from, *producer))?, boxes.get(&(k, *consumer))?)));
            if let Some((from, to)) = ends {
                let (x1, y1) = (from.x + from.width / 2, from.y + NODE_HEIGHT);
                let (x2, y2) = (to.x + to.width / 2, to.y);
                let (c1, c2) = (y1 + LAYER / 2, y2.saturating_sub(LAYER / 2));
                let path = format!("M {x1} {y1} C {x1} {c1} {x2} {c2} {x2} {y2}");
                let _ =
                    write!(paths, "<path class=\"hit\" d=\"{path}\" /><path class=\"line\" d=\"{path}\" />");
            }
        }
        let about = decision.map_or_else(String::new, |k| format!(" data-decision=\"k{number}-d{k}\""));
        let text_of = escape(&format!("{word}: {sides} ({rule})"));
        let _ = writeln!(
            text,
            "<g class=\"edge {class}\" tabindex=\"0\" role=\"button\" aria-label=\"{text_of}\"{about}>\
             <title>{text_of}</title>{paths}</g>"
        );
    }
    text
}
