//! What is said of depthwise convolutions: a schedule of their own, which no edge of the graph shows.

use crate::plan::partition::{Partition, Problem};
use crate::plan::{Decision, Rule};
use crate::schedule::contraction::collect_axes;
use crate::schedule::depthwise::depthwise_of;
use crate::schedule::{BodyOp, ScheduleKind};

/// A decision for each group that is a depthwise convolution.
pub(super) fn explain_windows(problem: &Problem<'_>, partition: &Partition) -> Vec<Decision> {
    let mut decisions = Vec::new();
    for (_, group) in partition.live().filter(|(_, g)| g.lowered.group.kind == ScheduleKind::Depthwise) {
        let (scheduled, price) = (&group.lowered.group, group.lowered.price);
        let Some(found) = depthwise_of(scheduled) else { continue };
        let Some(node) = scheduled.value(found.value).node else { continue };
        let axes = collect_axes(&scheduled.operands, &scheduled.values, &scheduled.reduced);
        let filter = scheduled
            .values
            .iter()
            .position(|v| matches!(v.op, BodyOp::Load(operand) if operand == found.filter));
        let of_filter = filter.map(|k| &axes[k]);
        let slides = scheduled.outer.iter().filter(|a| of_filter.is_none_or(|own| !own.contains(a)));
        let names: Vec<&str> = slides.map(|a| problem.kernel.axis(*a).name.as_str()).collect();
        decisions.push(Decision {
            rule: Rule::Depthwise,
            producer: node,
            consumer: node,
            refusal: None,
            reason: format!(
                "one filter for all of [{}], under which windows overlap: sums of neighbours stay in registers over all taps",
                names.join(", ")
            ),
            remedy: None,
            bytes: (price.bytes, price.bytes),
            seconds: (price.seconds, price.seconds),
        });
    }
    decisions
}
