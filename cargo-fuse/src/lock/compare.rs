//! What differs between the lock file and the kernels: lost fusions first, each with the rule that decided.

use super::file::{LockedEdge, LockedKernel};
use crate::edges::list_edges;
use crate::excerpt::{Message, Style, Verdict};
use crate::explain::describe_decision;
use crate::kernel::Kernel;
use crate::source::Sources;
use crate::units::count;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The differences as text; empty if there are none. `kernels` are those of `now` by their names.
pub(super) fn compare_kernels(
    before: &[LockedKernel],
    now: &[LockedKernel],
    kernels: &BTreeMap<String, Kernel>,
    sources: &mut Sources,
    style: Style,
) -> String {
    let mut text = String::new();
    for old in before {
        let Some(new) = now.iter().find(|new| new.name == old.name) else {
            let _ = writeln!(text, "kernel `{}` is locked and no longer there", old.name);
            continue;
        };
        if new != old {
            let _ = writeln!(text, "kernel `{}`", new.name);
            text += &compare_kernel(old, new, |edge, was_fused| {
                let kernel = kernels.get(&new.name)?;
                Some(describe_refusal(kernel, edge, was_fused)?.render(sources, &kernel.directory, style))
            });
        }
    }
    for new in now.iter().filter(|new| before.iter().all(|old| old.name != new.name)) {
        let _ = writeln!(text, "kernel `{}` is not locked", new.name);
    }
    text
}

/// The message about the edge of that number, which is refused.
fn describe_refusal(kernel: &Kernel, edge: usize, was_fused: bool) -> Option<Message> {
    let edge = list_edges(&kernel.program).get(edge)?.decision?;
    let message = describe_decision(kernel, kernel.program.plan.decisions.get(edge)?);
    let verdict = if was_fused { Verdict::Lost } else { message.verdict };
    Some(Message { verdict, ..message })
}

/// The differences of a kernel: fusions that are lost and edges that are new and refused, in full; then what is better or
/// only other. `explain` gives the message about a refused edge of `new` by its number, and whether it was fused.
fn compare_kernel(
    old: &LockedKernel,
    new: &LockedKernel,
    mut explain: impl FnMut(usize, bool) -> Option<String>,
) -> String {
    let mut text = String::new();
    // Operations may have one text; so edges of one name are counted.
    let mut left: Vec<&LockedEdge> = old.edges.iter().collect();
    let mut take = |wanted: &dyn Fn(&LockedEdge) -> bool| {
        left.iter().position(|edge| wanted(edge)).map(|k| left.remove(k))
    };
    let mut changed = Vec::new();
    for (k, edge) in new.edges.iter().enumerate() {
        if take(&|old| old == edge).is_none() {
            changed.push((k, edge));
        }
    }
    let mut others = String::new();
    let mut new_and_fused = 0;
    for (k, edge) in changed {
        let was = take(&|old| old.sides == edge.sides);
        let LockedEdge { fused, sides, why } = edge;
        match was {
            None if *fused => new_and_fused += 1,
            Some(was) if *fused && was.fused => {
                let _ = writeln!(others, "  fused otherwise: {sides}: {why}; was {}", was.why);
            }
            Some(was) if *fused => {
                let _ = writeln!(others, "  fused now: {sides}: {why}; was refused, {}", was.why);
            }
            Some(was) if !was.fused => {
                let _ = writeln!(others, "  refused otherwise: {sides}: {why}; was {}", was.why);
            }
            Some(_) | None => {
                let (was_fused, word) = if was.is_some() { (true, "lost") } else { (false, "refused") };
                match explain(k, was_fused) {
                    Some(message) => text += &message,
                    None => {
                        let _ = writeln!(text, "{word}: {sides} ({why})");
                    }
                }
            }
        }
    }
    if new_and_fused > 0 || !left.is_empty() {
        let gone = left.iter().filter(|edge| edge.fused).count();
        let new_edges = count(new_and_fused, "edge is new and fused", "edges are new and fused");
        let _ =
            writeln!(others, "  {new_edges}; {gone} fused and {} refused ones are gone", left.len() - gone);
    }
    for fact in old.facts.iter().filter(|fact| !new.facts.contains(fact)) {
        let _ = writeln!(others, "  - {fact}");
    }
    for fact in new.facts.iter().filter(|fact| !old.facts.contains(fact)) {
        let _ = writeln!(others, "  + {fact}");
    }
    if text.is_empty() && others.is_empty() {
        others += "  the same in another order\n";
    }
    text + &others
}

#[cfg(test)]
mod tests {
    use super::{LockedEdge, LockedKernel, compare_kernel};

    fn kernel(facts: &[&str], edges: &[(bool, &str, &str)]) -> LockedKernel {
        let edge = |&(fused, sides, why): &(bool, &str, &str)| LockedEdge {
            fused,
            sides: sides.into(),
            why: why.into(),
        };
        LockedKernel {
            name: "demo::k".into(),
            facts: facts.iter().map(|&fact| fact.into()).collect(),
            edges: edges.iter().map(edge).collect(),
        }
    }

    #[test]
    fn lost_fusions_come_first() {
        let old = kernel(
            &["1 launch, unfused 3", "8 bytes, unfused 16"],
            &[
                (true, "`a` into `b`", "vertical"),
                (true, "`b` into `c`", "vertical"),
                (false, "`d` into `e`", "cycle"),
            ],
        );
        let new = kernel(
            &["2 launches, unfused 3", "8 bytes, unfused 16"],
            &[
                (false, "`a` into `b`", "vertical: `materialize()`"),
                (true, "`d` into `e`", "vertical"),
                (true, "`e` into `f`", "vertical"),
                (false, "`f` into `g`", "vertical: registers"),
            ],
        );
        let explain =
            |edge: usize, was_fused: bool| was_fused.then(|| format!("the message of edge {edge}\n"));
        let text = compare_kernel(&old, &new, explain);
        let expected = "\
the message of edge 0
refused: `f` into `g` (vertical: registers)
  fused now: `d` into `e`: vertical; was refused, cycle
  1 edge is new and fused; 1 fused and 0 refused ones are gone
  - 1 launch, unfused 3
  + 2 launches, unfused 3
";
        assert_eq!(text, expected);
    }

    #[test]
    fn edges_of_one_name_are_counted() {
        let edge = (true, "`x` into `x`", "vertical");
        let (one, two) = (kernel(&[], &[edge]), kernel(&[], &[edge, edge]));
        let compare = |old, new| compare_kernel(old, new, |_, _| None);
        let more = "  1 edge is new and fused; 0 fused and 0 refused ones are gone\n";
        assert_eq!(compare(&one, &two), more);
        let less = "  0 edges are new and fused; 1 fused and 0 refused ones are gone\n";
        assert_eq!(compare(&two, &one), less);
        let refused = kernel(&[], &[edge, (false, "`x` into `x`", "vertical: cycle")]);
        assert_eq!(compare(&two, &refused), "lost: `x` into `x` (vertical: cycle)\n");
    }
}
