//! The same as JSON, for other programs.

use crate::edges::list_edges;
use crate::kernel::Kernel;
use fuse_compiler::record::SourceRange;
use fuse_ir::id::NodeId;
use fuse_ir::schedule::build::label;
use serde_json::{Value, json};

/// A list of kernels. Places have lines and characters from 1, their end lies behind the last character; edges name their
/// decision by its number among those of the plan.
pub(super) fn list_kernels(kernels: &[Kernel]) -> String {
    let list: Vec<Value> = kernels.iter().map(describe_kernel).collect();
    format!("{:#}\n", Value::Array(list))
}

fn describe_kernel(kernel: &Kernel) -> Value {
    let program = &kernel.program;
    let side = |node: NodeId| json!({ "label": label(&program.kernel, node), "place": kernel.place_of(node).map(describe_place) });
    let edges: Vec<Value> = list_edges(program)
        .iter()
        .map(|edge| {
            json!({
                "producer": side(edge.producer),
                "consumer": side(edge.consumer),
                "decision": edge.decision,
            })
        })
        .collect();
    let mut plan = kernel.plan_json();
    // The plan names where its operations start; here it is known where they end, too.
    if let Some(decisions) = plan["decisions"].as_array_mut() {
        for (described, decision) in decisions.iter_mut().zip(&program.plan.decisions) {
            described["producer"] = side(decision.producer);
            described["consumer"] = side(decision.consumer);
        }
    }
    json!({
        "kernel": kernel.name(),
        "package": kernel.package,
        "crate": kernel.crate_name,
        "place": kernel.place().map(describe_place),
        "contract": program.kernel.launches.or(kernel.broken_contract),
        "contract_kept": kernel.broken_contract.is_none(),
        "plan": plan,
        "edges": edges,
    })
}

fn describe_place(place: &SourceRange) -> Value {
    json!({
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
    })
}
