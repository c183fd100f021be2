//! The lock file as text.
//!
//! ```text
//! version 1
//!
//! kernel demo::gated_norm
//!   for cpu, M = 1024, N = 1024
//!   1 launch, unfused 9
//!   12582912 bytes, unfused 50331648
//!   launch 1: row for each [M] over [N], 2 sweeps; reads x, w, g; writes result.0
//!   fused `x.square()` into `sum of x.square().mean(N)`: reduction prologue
//! ```

use crate::edges::list_edges;
use crate::explain::name_sides;
use crate::kernel::Kernel;
use crate::units::count;
use serde_json::Value;

/// The first lines of the file.
const HEAD: &str = "\
# What fuse! makes of each kernel. Written by `cargo fuse lock`, compared by `cargo fuse lock --check`.
version 1
";

/// A kernel as the file keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LockedKernel {
    /// With the name of its crate, and a number if there are several.
    pub(super) name: String,
    /// Target and sizes, launches, traffic and loops: a line each.
    pub(super) facts: Vec<String>,
    /// Its edges in the order of the graph.
    pub(super) edges: Vec<LockedEdge>,
}

/// An edge as the file keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LockedEdge {
    /// Whether both operations share a loop.
    pub(super) fused: bool,
    /// Both operations.
    pub(super) sides: String,
    /// The rule by which they are fused, or the reason why not.
    pub(super) why: String,
}

impl LockedKernel {
    pub(super) fn of(name: &str, kernel: &Kernel) -> LockedKernel {
        let (plan, graph) = (&kernel.program.plan, &kernel.program.kernel);
        let sizes =
            plan.assumed.iter().map(|(axis, extent)| format!(", {} = {extent}", graph.axis(*axis).name));
        let launches = count(plan.launch_count() as usize, "launch", "launches");
        let (bytes, unfused) = (plan.assume(&plan.bytes), plan.assume(&plan.bytes_unfused));
        let mut facts = vec![
            format!("for {}{}", plan.target, sizes.collect::<String>()),
            format!("{launches}, unfused {}", plan.launches_unfused),
            format!("{bytes} bytes, unfused {unfused}"),
        ];
        let json = kernel.plan_json();
        for (k, launch) in list(&json["launches"]).iter().enumerate() {
            facts.extend(
                list(launch).iter().map(|group| format!("launch {}: {}", k + 1, describe_group(group))),
            );
        }
        let edges = list_edges(&kernel.program).into_iter().map(|edge| {
            let decision = edge.decision.and_then(|k| plan.decisions.get(k));
            let sides = |rule| name_sides(kernel, rule, edge.producer, edge.consumer);
            match decision {
                Some(decision) => LockedEdge {
                    fused: decision.refusal.is_none(),
                    sides: one_line(&sides(decision.rule)),
                    why: match decision.refusal {
                        None => decision.rule.to_string(),
                        Some(refusal) => format!("{}: {refusal}", decision.rule),
                    },
                },
                None => LockedEdge {
                    fused: false,
                    sides: one_line(&sides(fuse_ir::plan::Rule::Vertical)),
                    why: "no decision".to_owned(),
                },
            }
        });
        LockedKernel { name: name.to_owned(), facts, edges: edges.collect() }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A loop in a line, from the plan's JSON.
fn describe_group(group: &Value) -> String {
    let names = |value: &Value| {
        list(value).iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>().join(", ")
    };
    let buffers = |value: &Value| {
        let mut names: Vec<&str> = Vec::new();
        for access in list(value) {
            if let Some(name) = access["buffer"].as_str()
                && !names.contains(&name)
            {
                names.push(name);
            }
        }
        names.join(", ")
    };
    let mut text = group["kind"].as_str().unwrap_or_default().to_owned();
    let (outer, reduced) = (names(&group["outer"]), names(&group["reduced"]));
    if !outer.is_empty() {
        text += &format!(" for each [{outer}]");
    }
    if !reduced.is_empty() {
        let sweeps = usize::try_from(group["sweeps"].as_u64().unwrap_or_default()).unwrap_or_default();
        text += &format!(" over [{reduced}], {}", count(sweeps, "sweep", "sweeps"));
    }
    let (reads, writes) = (buffers(&group["reads"]), buffers(&group["writes"]));
    if !reads.is_empty() {
        text += &format!("; reads {reads}");
    }
    if !writes.is_empty() {
        text += &format!("; writes {writes}");
    }
    text
}

/// The file.
pub(super) fn print_lock(kernels: &[LockedKernel]) -> String {
    let mut text = HEAD.to_owned();
    for LockedKernel { name, facts, edges } in kernels {
        text += &format!("\nkernel {name}\n");
        for fact in facts {
            text += &format!("  {fact}\n");
        }
        for LockedEdge { fused, sides, why } in edges {
            text += &format!("  {} {sides}: {why}\n", if *fused { "fused" } else { "refused" });
        }
    }
    text
}

/// The kernels of a file.
///
/// # Errors
/// The number of the first line that is not as [`print_lock`] writes it.
pub(super) fn parse_lock(text: &str) -> Result<Vec<LockedKernel>, usize> {
    let mut kernels: Vec<LockedKernel> = Vec::new();
    let mut has_version = false;
    for (k, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
        } else if let Some(version) = line.strip_prefix("version ") {
            has_version = version == "1";
            if !has_version {
                return Err(k + 1);
            }
        } else if let (true, Some(name)) = (has_version, line.strip_prefix("kernel ")) {
            kernels.push(LockedKernel { name: name.to_owned(), facts: Vec::new(), edges: Vec::new() });
        } else if let (Some(kernel), Some(line)) = (kernels.last_mut(), line.strip_prefix("  ")) {
            let edge = [("fused ", true), ("refused ", false)]
                .into_iter()
                .find_map(|(word, fused)| Some((line.strip_prefix(word)?, fused)));
            match edge {
                None => kernel.facts.push(line.to_owned()),
                Some((rest, fused)) => {
                    // The sides are in backticks, which ends before the colon.
                    let (sides, why) = rest.rsplit_once("`: ").ok_or(k + 1)?;
                    kernel.edges.push(LockedEdge { fused, sides: format!("{sides}`"), why: why.to_owned() });
                }
            }
        } else {
            return Err(k + 1);
        }
    }
    if has_version { Ok(kernels) } else { Err(1) }
}

#[cfg(test)]
mod tests {
    use super::{LockedEdge, LockedKernel, parse_lock, print_lock};

    #[test]
    fn what_is_printed_is_parsed() {
        let edge = |fused, sides: &str, why: &str| LockedEdge { fused, sides: sides.into(), why: why.into() };
        let kernels = [
            LockedKernel {
                name: "demo::softmax::<f16> #2".into(),
                facts: vec!["for cpu, M = 1024".into(), "2 launches, unfused 9".into()],
                edges: vec![
                    edge(true, "`x: y` into `as f32`", "vertical"),
                    edge(false, "`a` into `b`", "reduction epilogue: `materialize()`"),
                ],
            },
            LockedKernel { name: "demo::other".into(), facts: vec![], edges: vec![] },
        ];
        assert_eq!(parse_lock(&print_lock(&kernels)).as_deref(), Ok(kernels.as_slice()));
    }

    #[test]
    fn other_lines_are_named() {
        for (text, line) in [
            ("", 1),
            ("version 2\n", 1),
            ("# comment\nversion 1\n\nfunction f\n", 4),
            ("kernel a\n", 1),
            ("version 1\nkernel a\n  fused without sides\n", 3),
            ("version 1\n  1 launch\n", 2),
        ] {
            assert_eq!(parse_lock(text), Err(line), "{text:?}");
        }
    }
}
