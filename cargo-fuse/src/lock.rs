//! `cargo fuse lock`: the plan of every kernel in a file that diffs, and what differs from it.
//!
//! The file says of each kernel what a change of the code may cost: launches, bytes under the assumed extents, the loops and
//! which of its edges are fused. It says nothing that changes without that, such as lines of the source and modelled times.

mod compare;
mod file;

use crate::arguments::LockArguments;
use crate::build::{Build, check_crate};
use crate::excerpt::Style;
use crate::failure::{Failure, Outcome};
use crate::kernel::Kernel;
use crate::source::Sources;
use crate::units::count;
use compare::compare_kernels;
use file::{LockedKernel, parse_lock, print_lock};
use std::collections::BTreeMap;
use std::path::Path;

/// Runs the command.
///
/// # Errors
/// If the file differs from the kernels, cannot be read or written, or the build fails.
pub(crate) fn run(arguments: &LockArguments) -> Outcome {
    // A lock file is of the workspace, unless packages are named.
    let mut cargo = arguments.cargo.clone();
    cargo.workspace |= cargo.package.is_empty();
    let Build { workspace_root, kernels, .. } = check_crate(&cargo)?;
    let path = arguments.file.clone().unwrap_or_else(|| workspace_root.join("fuse.lock"));
    let kernels = name_kernels(kernels);
    let locked: Vec<LockedKernel> =
        kernels.iter().map(|(name, kernel)| LockedKernel::of(name, kernel)).collect();
    if arguments.check {
        return check(&path, &locked, &kernels);
    }
    std::fs::write(&path, print_lock(&locked))
        .map_err(|error| Failure::broken(format!("`{}` cannot be written: {error}", path.display())))?;
    Ok(format!("{} written to {}\n", count(locked.len(), "kernel", "kernels"), path.display()))
}

/// The kernels by their names. Those of one name, in several modules of a crate, are numbered in the order of the source.
fn name_kernels(kernels: Vec<Kernel>) -> BTreeMap<String, Kernel> {
    let mut named: BTreeMap<String, Kernel> = BTreeMap::new();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for kernel in kernels {
        let name = kernel.full_name();
        let number = counts.entry(name.clone()).or_default();
        *number += 1;
        let name = if *number == 1 { name } else { format!("{name} #{number}") };
        named.insert(name, kernel);
    }
    named
}

fn check(path: &Path, now: &[LockedKernel], kernels: &BTreeMap<String, Kernel>) -> Outcome {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::broken(format!("`{}` cannot be read: {error}; `cargo fuse lock` writes it", path.display()))
    })?;
    let before = parse_lock(&text).map_err(|line| {
        Failure::broken(format!(
            "line {line} of `{}` is not as this version writes it; `cargo fuse lock` writes it anew",
            path.display()
        ))
    })?;
    let mut sources = Sources::default();
    let text = compare_kernels(&before, now, kernels, &mut sources, Style::of_output());
    if text.is_empty() {
        return Ok(format!("{} as locked\n", count(now.len(), "kernel", "kernels")));
    }
    let message =
        format!("`{}` is out of date; if that is meant, `cargo fuse lock` updates it", path.display());
    Err(Failure::found(message).with_text(text))
}
