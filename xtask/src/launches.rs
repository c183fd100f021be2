//! `cargo xtask launches`: kernels of tests and benches that take another number of launches on a GPU than on a CPU, each with
//! the reason; of all others the numbers are equal.
//!
//! A binary carries one plan, which every device follows; but a launch of it may be two kernels on a GPU. Beside that stands
//! what a plan for that GPU would be, where it differs.

use crate::suite;
use fuse_ir::graph::Kernel;
use fuse_ir::lower::{LowerOptions, lower_launch};
use fuse_ir::plan::{Decision, Plan, PlanOptions, Rule, plan_kernel};
use fuse_ir::program::Program;
use fuse_ir::schedule::ScheduleKind;
use fuse_ir::target::Target;
use std::fmt::Write as _;
use std::process::ExitCode;

/// The GPUs that plans are compared with.
const TARGETS: [&str; 2] = ["sm_80", "sm_90"];

/// Prints the exceptions.
pub(crate) fn run() -> ExitCode {
    match list_exceptions() {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// A paragraph for each kernel whose launches differ.
fn list_exceptions() -> Result<String, String> {
    let programs = suite::programs()?;
    let mut text = String::new();
    let mut equal = 0;
    for (file, program) in &programs {
        let lines = compare(program)?;
        equal += usize::from(lines.is_empty());
        if !lines.is_empty() {
            let count = program.plan.launch_count();
            let _ = writeln!(text, "{file}: `{}`: {count} on a CPU", program.kernel.name);
            lines.iter().for_each(|line| _ = writeln!(text, "    {line}"));
        }
    }
    let _ = writeln!(text, "{equal} of {} kernels take as many launches on each", programs.len());
    Ok(text)
}

/// What differs of a kernel, with the reason.
fn compare(program: &Program) -> Result<Vec<String>, String> {
    let mut lines = launches_of_two_kernels(program)?;
    for name in TARGETS {
        let target = Target::gpu(name).ok_or_else(|| format!("`{name}` is no target"))?;
        let plan = plan_kernel(&program.kernel, &target, &PlanOptions::default());
        let plan = plan.map_err(|e| format!("`{}` is not planned: {e:?}", program.kernel.name))?;
        let (of_gpu, of_cpu) = (plan.launch_count(), program.plan.launch_count());
        if of_gpu != of_cpu {
            lines.push(format!("a plan for {name} has {of_gpu}"));
            let (more, fewer) = if of_gpu > of_cpu { (&plan, &program.plan) } else { (&program.plan, &plan) };
            lines.extend(reasons(&program.kernel, more, fewer));
        }
    }
    Ok(lines)
}

/// Launches of the plan that may be more kernels on a GPU than it counts.
fn launches_of_two_kernels(program: &Program) -> Result<Vec<String>, String> {
    let options = LowerOptions { wide: false, shared_memory: u64::MAX };
    let mut lines = Vec::new();
    for (k, launch) in program.plan.launches.iter().enumerate() {
        let lowered =
            lower_launch(program, k, &options).map_err(|e| format!("`{}`: {e}", program.kernel.name))?;
        let planned = launch.parts.iter().map(|p| p.launches()).max().unwrap_or(0) as usize;
        let steps = lowered.steps.len();
        if steps != planned {
            let why = match launch.parts.first().map(|p| p.kind) {
                Some(ScheduleKind::Contraction) => {
                    "where the result is small and the sum long, blocks share the sum, and a further kernel adds their parts"
                }
                Some(ScheduleKind::Streamed) => {
                    "where there are few queries and many keys, blocks share the keys, and a further kernel puts them together"
                }
                _ => "its groups are lowered apart",
            };
            lines.push(format!("launch {k} is up to {steps} kernels on a GPU instead of {planned}: {why}"));
        }
    }
    Ok(lines)
}

/// What the plan with more launches refused and the other did not.
fn reasons(kernel: &Kernel, more: &Plan, fewer: &Plan) -> Vec<String> {
    let of = |d: &Decision| -> (Rule, _, _) { (d.rule, d.producer, d.consumer) };
    let refused = more.decisions.iter().filter(|d| d.refusal.is_some());
    let only = refused.filter(|d| !fewer.decisions.iter().any(|e| of(e) == of(d) && e.refusal == d.refusal));
    let name = |node: fuse_ir::id::NodeId| {
        kernel.origins.get(node.index()).map_or_else(|| node.to_string(), |origin| origin.label.clone())
    };
    only.map(|d| {
        let (producer, consumer) = (name(d.producer), name(d.consumer));
        format!("for {}, `{producer}` and `{consumer}` apart: {}", more.target, d.reason)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// `FUSE_BLESS=1`, which `cargo xtask bless` sets, rewrites the file.
    #[test]
    fn launches_differ_only_where_the_golden_file_says_why() {
        let text = list_exceptions().unwrap_or_else(|message| panic!("{message}"));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/launches.txt");
        if std::env::var_os("FUSE_BLESS").is_some() {
            std::fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder");
            std::fs::write(&path, &text).expect("a golden file");
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            text == golden,
            "`cargo xtask bless xtask` rewrites it\n--- golden\n{golden}\n--- now\n{text}"
        );
        // No exception without a reason.
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if line.trim_start().starts_with("a plan for") {
                assert!(lines.peek().is_some_and(|next| next.contains("apart: ")), "no reason after {line}");
            }
        }
    }
}
