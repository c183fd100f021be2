//! Errors of the planner.

use crate::diagnostic::Diagnostic;
use fuse_ir::plan::Decision;
use proc_macro2::Span;

/// A kernel that takes more launches than its contract says; `launches` is what it wants and what it needs.
///
/// ```text
/// #[kernel(launches = 1)] fn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32> { x.sum((M, N)) }
///                                                                           ^^^^^^^^^^^^^
/// ```
pub fn too_many_launches(
    at: Span,
    contract: Option<Span>,
    kernel: &str,
    (wanted, needed): (u32, u32),
    blocking: &[Decision],
) -> Diagnostic {
    let message = format!("`{kernel}` takes {needed} launches, but its contract is `launches = {wanted}`");
    let mut diagnostic = Diagnostic::new("too_many_launches", at, message);
    if let Some(contract) = contract {
        diagnostic = diagnostic.related(contract, "the contract");
    }
    for decision in blocking {
        diagnostic = diagnostic.note(&decision.reason);
    }
    match blocking.iter().find_map(|decision| decision.remedy.as_ref()) {
        Some(remedy) => diagnostic.help(remedy),
        None => diagnostic.help(format!("allow it with `launches = {needed}`")),
    }
}

/// A kernel without any plan.
///
/// ```text
/// #[kernel] fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { .. }     // more values than one launch can hold
///              ^
/// ```
pub fn unplannable(at: Span, kernel: &str, because: &str) -> Diagnostic {
    Diagnostic::new("unplannable", at, format!("`{kernel}` cannot be planned: {because}"))
}
