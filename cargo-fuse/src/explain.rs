//! `cargo fuse explain`: launches, and for each edge of the dataflow the decision that bound it.

mod json;

use crate::arguments::ExplainArguments;
use crate::build::{Build, try_crate};
use crate::edges::{Edge, list_edges};
use crate::excerpt::{Mark, Message, Style, Verdict};
use crate::failure::{Failure, Outcome};
use crate::kernel::{Kernel, replan_kernels, select_kernels};
use crate::source::Sources;
use crate::units::{Bytes, Micros, count};
use fuse_ir::id::NodeId;
use fuse_ir::plan::{Decision, Plan, Rule};
use fuse_ir::schedule::build::label;
use std::fmt::Write;

/// Runs the command.
///
/// # Errors
/// If there is no such kernel, a contract is not kept, or the build fails.
pub(crate) fn run(arguments: &ExplainArguments) -> Outcome {
    let Build { mut kernels, failure, .. } = try_crate(&arguments.cargo)?;
    if let Some(failure) = &failure {
        // Of a build that fails, what may be the reason.
        kernels.retain(|kernel| kernel.broken_contract.is_some());
        if kernels.is_empty() {
            return Err(failure.clone());
        }
    }
    let kernels = select_kernels(kernels, arguments.kernel.as_deref())
        .map_err(|unknown| failure.clone().unwrap_or(unknown))?;
    let kernels = replan_kernels(kernels, &arguments.plan)?;
    let text = if arguments.json {
        json::list_kernels(&kernels)
    } else {
        let mut sources = Sources::default();
        let style = Style::of_output();
        let explain = |kernel: &Kernel| explain_kernel(kernel, arguments.refused, &mut sources, style);
        kernels.iter().map(explain).collect::<Vec<String>>().join("\n")
    };
    if let Some(failure) = failure {
        return Err(failure.with_text(text));
    }
    let broken = kernels.iter().find_map(|kernel| Some((kernel, kernel.broken_contract?)));
    match broken {
        None => Ok(text),
        Some((kernel, wanted)) => Err(Failure::found(describe_contract(kernel, wanted)).with_text(text)),
    }
}

/// That a contract is not kept.
fn describe_contract(kernel: &Kernel, wanted: u32) -> String {
    let plan = &kernel.program.plan;
    let needed = count(plan.launch_count() as usize, "launch", "launches");
    format!(
        "`{}` takes {needed} on {}, but its contract is `launches = {wanted}`",
        kernel.name(),
        plan.target
    )
}

/// A kernel's launches and decisions.
fn explain_kernel(kernel: &Kernel, refused: bool, sources: &mut Sources, style: Style) -> String {
    let plan = &kernel.program.plan;
    let mut text = String::new();
    let place = kernel
        .place()
        .map_or_else(String::new, |place| format!(", {}:{}:{}", place.file, place.line, place.column));
    let _ = writeln!(text, "kernel `{}`{place}", kernel.full_name());
    let launches = Plan { decisions: Vec::new(), ..plan.clone() };
    text.push_str(&launches.display(&kernel.program.kernel).to_string());
    if let Some(wanted) = kernel.broken_contract {
        let _ = writeln!(text, "the contract `launches = {wanted}` is not kept");
    }

    let edges = list_edges(&kernel.program);
    let taken = edges.iter().filter(|edge| find_decision(kernel, edge).is_some_and(|d| d.refusal.is_none()));
    let taken = taken.count();
    let edge_count = count(edges.len(), "dataflow edge", "dataflow edges");
    let _ = writeln!(text, "{edge_count}: {taken} fused, {} not", edges.len() - taken);

    let about_edges = edges.iter().filter_map(|edge| edge.decision);
    let others = (0..plan.decisions.len()).filter(|k| edges.iter().all(|edge| edge.decision != Some(*k)));
    for k in about_edges.chain(others) {
        let decision = &plan.decisions[k];
        if !refused || decision.refusal.is_some() {
            let message = describe_decision(kernel, decision);
            text.push('\n');
            text.push_str(&message.render(sources, &kernel.directory, style));
        }
    }
    for edge in edges.iter().filter(|edge| edge.decision.is_none()) {
        let name = |node| label(&kernel.program.kernel, node);
        let _ = writeln!(text, "\nno decision on `{}` into `{}`", name(edge.producer), name(edge.consumer));
    }
    text
}

/// The decision about an edge.
fn find_decision<'a>(kernel: &'a Kernel, edge: &Edge) -> Option<&'a Decision> {
    kernel.program.plan.decisions.get(edge.decision?)
}

/// A decision as a message at its operations.
pub(crate) fn describe_decision(kernel: &Kernel, decision: &Decision) -> Message {
    let Decision { rule, producer, consumer, refusal, reason, remedy, bytes, seconds } = decision;
    let target = &kernel.program.plan.target;
    let kind = match refusal {
        None => rule.to_string(),
        Some(refusal) => format!("{rule}: {refusal}"),
    };
    let (fused, apart) = ((Bytes(bytes.0), Micros(seconds.0)), (Bytes(bytes.1), Micros(seconds.1)));
    let modelled =
        format!("modelled for {target}: fused {}, {}; apart {}, {}", fused.0, fused.1, apart.0, apart.1);
    if producer == consumer && *rule == Rule::Vertical {
        // Of a kernel with a contract, what the contract costs.
        return Message {
            verdict: Verdict::Contract,
            title: reason.clone(),
            marks: mark_sides(kernel, *rule, *producer, *consumer),
            notes: Vec::new(),
            help: remedy.clone(),
        };
    }
    Message {
        verdict: if refusal.is_none() { Verdict::Fused } else { Verdict::Refused },
        title: format!("{} ({kind})", name_sides(kernel, *rule, *producer, *consumer)),
        marks: mark_sides(kernel, *rule, *producer, *consumer),
        notes: vec![reason.clone(), modelled],
        help: remedy.clone(),
    }
}

/// Both sides of a decision by their names.
pub(crate) fn name_sides(kernel: &Kernel, rule: Rule, producer: NodeId, consumer: NodeId) -> String {
    let name = |node| format!("`{}`", label(&kernel.program.kernel, node));
    if producer == consumer {
        return name(producer);
    }
    let word = match rule {
        Rule::Siblings | Rule::Horizontal => "beside",
        Rule::Vertical | Rule::ReductionPrologue | Rule::ReductionEpilogue => "into",
        Rule::ContractionPrologue | Rule::ContractionEpilogue | Rule::Streaming => "into",
        Rule::Recomputation | Rule::Depthwise | Rule::InPlace => "into",
    };
    format!("{} {word} {}", name(producer), name(consumer))
}

/// Where both sides stand, the consumer first. Steps of one operation of the user's stand in one place.
fn mark_sides(kernel: &Kernel, rule: Rule, producer: NodeId, consumer: NodeId) -> Vec<Mark> {
    let mark = |node, label: &str| {
        kernel.place_of(node).map(|place| Mark { place: place.clone(), label: label.to_owned() })
    };
    let (first, second) = match rule {
        Rule::Siblings | Rule::Horizontal => ("one", "the other"),
        Rule::Vertical | Rule::ReductionPrologue | Rule::ReductionEpilogue => ("computed here", "read here"),
        Rule::ContractionPrologue | Rule::ContractionEpilogue | Rule::Streaming => {
            ("computed here", "read here")
        }
        Rule::Recomputation | Rule::Depthwise | Rule::InPlace => ("computed here", "read here"),
    };
    if producer == consumer {
        return mark(consumer, "").into_iter().collect();
    }
    if kernel.place_of(producer) == kernel.place_of(consumer) {
        return mark(consumer, "both are steps of this").into_iter().collect();
    }
    mark(consumer, second).into_iter().chain(mark(producer, first)).collect()
}

#[cfg(test)]
mod tests {
    use super::{describe_contract, describe_decision, explain_kernel};
    use crate::arguments::PlanArguments;
    use crate::excerpt::{Style, Verdict};
    use crate::kernel::{Kernel, replan_kernels};
    use crate::source::Sources;

    const CUT: &str =
        "#[kernel] fn cut<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.exp().materialize() + 1.0 }";

    /// The kernel of a block, planned on a GPU under a contract.
    fn plan_under_contract(source: &str, launches: u32) -> Kernel {
        let mut kernel = Kernel::of_source(source);
        kernel.program.kernel.launches = Some(launches);
        let arguments = PlanArguments { target: Some("sm_80".into()), assume: vec![("N".into(), 64)] };
        replan_kernels(vec![kernel], &arguments).expect("a plan").remove(0)
    }

    #[test]
    fn a_contract_that_is_not_kept_is_said() {
        let kernel = plan_under_contract(CUT, 1);
        assert_eq!(kernel.broken_contract, Some(1));
        assert_eq!(
            describe_contract(&kernel, 1),
            "`cut` takes 2 launches on sm_80, but its contract is `launches = 1`"
        );
        let text = explain_kernel(&kernel, true, &mut Sources::default(), Style::Plain);
        assert!(
            text.contains("\nplan of `cut` for sm_80: 2 launches, unfused 3\nassuming N = 64\n"),
            "{text}"
        );
        assert!(text.contains("\nthe contract `launches = 1` is not kept\n"), "{text}");
        let refused =
            "refused: `x.exp().materialize()` into `x.exp().materialize() + 1.0` (vertical: `materialize()`)";
        assert!(text.contains(refused) && !text.contains("fused: `x.exp()` into"), "{text}");
    }

    #[test]
    fn what_a_contract_costs_is_no_fusion() {
        let source = "#[kernel(assume(M = 100000))] fn c<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x - x.mean((M, N)) }";
        let kernel = plan_under_contract(source, 2);
        assert_eq!(kernel.broken_contract, None);
        let messages =
            kernel.program.plan.decisions.iter().map(|decision| describe_decision(&kernel, decision));
        let contract: Vec<String> = messages
            .filter(|message| message.verdict == Verdict::Contract)
            .map(|message| message.title)
            .collect();
        assert_eq!(contract.len(), 1);
        assert!(contract[0].starts_with("`launches = 2` is kept at "), "{contract:?}");
    }
}
