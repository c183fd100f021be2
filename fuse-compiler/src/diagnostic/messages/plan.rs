//! Errors of the planner.

use crate::diagnostic::{Diagnostic, Place};
use crate::lint::Buffer;
use fuse_ir::graph::Kernel;
use fuse_ir::id::AxisId;
use fuse_ir::lower::coalescing::Uncoalesced;
use fuse_ir::plan::Decision;
use proc_macro2::Span;
use std::path::Path;

/// A kernel keeps to its number of launches; the tuple is what it wants and what it needs.
///
/// ```text
/// #[kernel(launches = 1)] fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.exp().materialize() + 1.0 }
///                                                                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
/// ```
pub fn too_many_launches(
    at: Place,
    contract: Option<Span>,
    kernel: &str,
    (wanted, needed): (u32, u32),
    blocking: &[Decision],
) -> Diagnostic {
    let plural = if needed == 1 { "" } else { "es" };
    let message =
        format!("`{kernel}` takes {needed} launch{plural}, but its contract is `launches = {wanted}`");
    let mut diagnostic = Diagnostic::new("too_many_launches", at, message);
    if let Some(contract) = contract {
        diagnostic = diagnostic.related(contract, "the contract");
    }
    for (k, decision) in blocking.iter().enumerate() {
        // A reason that holds for several values is said once.
        if blocking[..k].iter().all(|earlier| earlier.reason != decision.reason) {
            diagnostic = diagnostic.note(&decision.reason);
        }
    }
    match blocking.iter().find_map(|decision| decision.remedy.as_ref()) {
        Some(remedy) => diagnostic.help(remedy),
        None => diagnostic.help(format!("allow it with `launches = {needed}`")),
    }
}

/// A kernel without any plan.
///
/// ```text
/// #[kernel] fn k<A, .., Q>(x: Tensor<f32, A, .., Q>) -> Tensor<f32, A, .., Q> { x * 2.0 }     // 17 axes
///                                                                               ^^^^^^^
/// ```
pub fn unplannable(at: Place, kernel: &str, because: &str) -> Diagnostic {
    Diagnostic::new("unplannable", at, format!("`{kernel}` cannot be planned: {because}"))
}

/// An edge that is not fused, of a kernel that denies or warns of it.
///
/// ```text
/// #[kernel(deny(unfused))] fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.exp().materialize() + 1.0 }
///                                                                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
/// ```
pub fn unfused(at: Place, (producer, consumer): (&str, &str), decision: &Decision) -> Diagnostic {
    let message = format!("`{producer}` is not fused into `{consumer}`");
    let mut diagnostic = Diagnostic::new("unfused", at, message).note(&decision.reason);
    if let Some(remedy) = &decision.remedy {
        diagnostic = diagnostic.help(remedy);
    }
    diagnostic
}

/// A large value between launches, of a kernel that denies or warns of it.
///
/// ```text
/// #[kernel(deny(materialized))] fn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.exp().materialize() + 1.0 }
///                                                                                       ^^^^^^^^^^^^^^^^^^^^^
/// ```
pub fn materialized(at: Place, value: &str, bytes: u64) -> Diagnostic {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    Diagnostic::new("materialized", at, format!("`{value}` lies in memory between launches"))
        .note(format!("it takes {mebibytes:.1} MiB under the assumed extents"))
        .help("`cargo fuse explain` shows why it is not fused into what reads it")
}

/// A read or write across the grain of memory, of a kernel that denies or warns of it.
///
/// ```text
/// #[kernel(deny(uncoalesced))] fn k<M, N>(x: Tensor<f32, M, N>, y: Tensor<f32, N, M>) -> Tensor<f32, M> { (x * y).sum(N) }
///                                                                                                          ^^^^^
/// ```
pub(crate) fn uncoalesced(at: Place, kernel: &Kernel, buffer: &Buffer, access: &Uncoalesced) -> Diagnostic {
    let name = &buffer.name;
    let what = if access.written { "written" } else { "read" };
    let axis = |id: AxisId| kernel.axis(id).name.as_str();
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let message = format!("`{name}` is {what} across the grain of memory");
    let note = format!(
        "threads that are neighbours along `{}` are {} elements apart in it: {:.1} MiB are moved where {:.1} MiB would do, \
         under the assumed extents",
        axis(access.along),
        access.distance,
        mebibytes(access.moved),
        mebibytes(access.least)
    );
    let help = match &buffer.declared {
        _ if access.skips => format!(
            "give what lies between those elements an axis of its own that comes before `{}`",
            axis(access.along)
        ),
        Some((dtype, axes)) => {
            let others = axes.iter().filter(|a| **a != access.steps).chain([&access.steps]);
            let list: Vec<&str> = others.map(|a| axis(*a)).collect();
            let verb = if buffer.is_result { "return" } else { "declare" };
            format!(
                "{verb} `{name}` as `Tensor<{}, {}>`, which lies along them",
                dtype.name(),
                list.join(", ")
            )
        }
        None => "`cargo fuse explain` shows why it is not fused into what reads it".to_owned(),
    };
    Diagnostic::new("uncoalesced", at, message).note(note).help(help)
}

/// What `FUSE_PLAN_DIR` names takes no files.
///
/// ```text
/// fuse! { #[kernel] fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x } }
/// ^^^^^
/// ```
pub fn plans_not_written(at: Place, folder: &Path, error: &std::io::Error) -> Diagnostic {
    let folder = folder.display();
    Diagnostic::new(
        "plans_not_written",
        at,
        format!("the plans of this block cannot be written to `{folder}`"),
    )
    .note(error.to_string())
    .help("let the environment variable `FUSE_PLAN_DIR` name a folder that can be written, or unset it")
}
