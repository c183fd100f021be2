//! The edges of a kernel's dataflow, each with the decision that bound it.
//!
//! An edge leads from an operation to one that reads it. Parameters, constants and positions are no operations, nor are
//! functions of scalars alone; a view that is not stored is part of whoever reads it. The edges are found in the graph, so
//! that a decision that the planner did not record is seen to be missing.

use fuse_ir::graph::Op;
use fuse_ir::id::NodeId;
use fuse_ir::plan::{Decision, Rule};
use fuse_ir::program::Program;
use std::collections::BTreeSet;

/// An edge of the dataflow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Edge {
    /// What is read.
    pub(crate) producer: NodeId,
    /// What reads it.
    pub(crate) consumer: NodeId,
    /// The number of the decision about it.
    pub(crate) decision: Option<usize>,
}

/// The edges, in the order of the graph.
pub(crate) fn list_edges(program: &Program) -> Vec<Edge> {
    let kernel = &program.kernel;
    let stored: BTreeSet<NodeId> = kernel
        .outputs
        .iter()
        .map(|output| output.value)
        .chain(program.plan.temps.iter().filter(|temp| !temp.streamed).map(|temp| temp.node))
        .collect();
    let inlined = |id: NodeId| matches!(kernel.node(id).op, Op::View { .. }) && !stored.contains(&id);
    let computed = mark_computed(program);
    let mut edges = Vec::new();
    for consumer in kernel.node_ids().filter(|id| computed[id.index()] && !inlined(*id)) {
        let mut seen = BTreeSet::new();
        let mut next = kernel.node(consumer).op.operands();
        next.reverse();
        while let Some(producer) = next.pop() {
            if inlined(producer) {
                next.extend(kernel.node(producer).op.operands());
            } else if computed[producer.index()] && seen.insert(producer) {
                let decisions = &program.plan.decisions;
                let decision = decisions.iter().position(|d| is_about_edge(d, producer, consumer));
                edges.push(Edge { producer, consumer, decision });
            }
        }
    }
    edges
}

/// Whether a decision is about the edge between two operations, not about siblings or memory.
fn is_about_edge(decision: &Decision, producer: NodeId, consumer: NodeId) -> bool {
    let of_edges = match decision.rule {
        Rule::Vertical | Rule::ReductionPrologue | Rule::ReductionEpilogue => true,
        Rule::ContractionPrologue | Rule::ContractionEpilogue => true,
        Rule::Recomputation => true,
        // That contractions do not stream is one decision about all that lies between them.
        Rule::Streaming => decision.refusal.is_none(),
        Rule::Siblings | Rule::Horizontal | Rule::Depthwise | Rule::InPlace => false,
    };
    of_edges && (decision.producer, decision.consumer) == (producer, consumer)
}

/// For each node whether it is an operation on elements of tensors.
fn mark_computed(program: &Program) -> Vec<bool> {
    let kernel = &program.kernel;
    // Whether a node depends on an element of a tensor.
    let mut dependent: Vec<bool> = Vec::with_capacity(kernel.nodes.len());
    let mut computed = Vec::with_capacity(kernel.nodes.len());
    for node in &kernel.nodes {
        let reads = node.op.operands().iter().any(|operand| dependent[operand.index()]);
        let (depends, is_operation) = match &node.op {
            Op::Tensor(_) => (true, false),
            Op::Scalar(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => (false, false),
            Op::Reduce { .. } | Op::CumSum { .. } => (true, true),
            // What positions decide has axes, and is computed for each.
            Op::Map { .. } => (reads, reads || !node.ty.axes.is_empty()),
            Op::View { .. } | Op::Materialize { .. } => (reads, true),
        };
        dependent.push(depends);
        computed.push(is_operation);
    }
    computed
}

#[cfg(test)]
mod tests {
    use super::{is_about_edge, list_edges};
    use fuse_compiler::diagnostic::Diagnostics;
    use fuse_compiler::pipeline::plan_block;
    use fuse_ir::program::Program;
    use proc_macro2::{TokenStream, TokenTree};
    use std::path::{Path, PathBuf};

    /// The Rust files in a folder of the repository.
    fn files(folder: &Path, found: &mut Vec<PathBuf>) {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
        entries.sort();
        for path in entries {
            // Programs that do not compile have no plans.
            if path.is_dir() && !path.ends_with("ui") {
                files(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    /// The kernels of all `fuse!` blocks of tokens.
    fn collect(tokens: TokenStream, programs: &mut Vec<Program>) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for part in tokens.windows(3) {
            if let [TokenTree::Ident(name), TokenTree::Punct(bang), TokenTree::Group(block)] = part
                && name == "fuse"
                && bang.as_char() == '!'
            {
                let planned = plan_block(block.stream(), &mut Diagnostics::new());
                programs.extend(planned.into_iter().map(|kernel| kernel.program));
            }
        }
        for token in tokens {
            if let TokenTree::Group(group) = token {
                collect(group.stream(), programs);
            }
        }
    }

    /// Kernels and edges of a folder; each edge has its decision.
    fn count(folder: &str) -> (usize, usize) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let mut paths = Vec::new();
        files(&root.join(folder), &mut paths);
        let (mut kernels, mut count) = (0, 0);
        for path in paths {
            let text = std::fs::read_to_string(&path).expect("a source");
            let mut programs = Vec::new();
            collect(text.parse().expect("tokens"), &mut programs);
            for program in programs {
                let edges = list_edges(&program);
                let missing: Vec<_> = edges.iter().filter(|edge| edge.decision.is_none()).collect();
                let shown = program.plan.display(&program.kernel);
                assert!(missing.is_empty(), "{}: {missing:?}\n{}\n{shown}", path.display(), program.kernel);
                // And each decision about two operations has its edge.
                let decisions = program.plan.decisions.iter();
                let of_edges = decisions
                    .filter(|d| d.producer != d.consumer && is_about_edge(d, d.producer, d.consumer));
                assert_eq!(of_edges.count(), edges.len(), "{}\n{shown}", path.display());
                (kernels, count) = (kernels + 1, count + edges.len());
            }
        }
        (kernels, count)
    }

    #[test]
    fn every_edge_of_the_examples_has_its_decision() {
        assert_eq!(count("examples"), (15, 211));
    }

    #[test]
    fn every_edge_of_the_kernels_of_tests_and_benches_has_its_decision() {
        let (tests, benches) = (count("tests"), count("benches"));
        assert!(tests.0 >= 150 && tests.1 >= 500, "{tests:?}");
        assert!(benches.0 >= 15 && benches.1 >= 80, "{benches:?}");
    }
}
