//! What a kernel asks to be told of its plan: `#[kernel(warn(unfused), deny(materialized))]`.
//!
//! Nothing is on unless a kernel asks. On stable Rust a macro warns by using something that is deprecated, with the text as
//! the reason; so rustc shows a warning at the operation, and `-D warnings` makes it an error as any other.

use crate::diagnostic::{Diagnostic, Diagnostics, Place, messages};
use crate::planning::PlannedKernel;
use crate::syntax::{Block, Item, TensorFn};
use fuse_ir::dtype::DType;
use fuse_ir::graph::{Kernel, Output, OutputTarget, ParamKind};
use fuse_ir::id::AxisId;
use fuse_ir::lower::coalescing::{Uncoalesced, find_uncoalesced};
use fuse_ir::plan::{Plan, Rule};
use fuse_ir::schedule::BufferRef;
use fuse_ir::schedule::build::label;
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use std::collections::BTreeSet;

/// Bytes from which an intermediate value is much, or what is moved in vain, under the assumed extents.
const MUCH: u64 = 1 << 20;

/// What may be told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lint {
    /// An edge of the dataflow that is not fused.
    Unfused,
    /// A value of 1 MiB or more between launches.
    Materialized,
    /// A read or write by which neighbouring threads of a GPU meet memory that does not lie side by side.
    Uncoalesced,
}

impl Lint {
    /// Every one, in the order of their names in messages.
    pub const ALL: [Lint; 3] = [Lint::Unfused, Lint::Materialized, Lint::Uncoalesced];

    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            Lint::Unfused => "unfused",
            Lint::Materialized => "materialized",
            Lint::Uncoalesced => "uncoalesced",
        }
    }
}

/// How it is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LintLevel {
    /// Not at all.
    Allow,
    /// As a warning.
    Warn,
    /// As an error.
    Deny,
}

/// The level of a lint of a kernel; of several the last.
fn level_of(function: &TensorFn, lint: Lint) -> LintLevel {
    let lints = function.kernel.iter().flat_map(|args| &args.lints).rev();
    lints.into_iter().find(|(of, _)| *of == lint).map_or(LintLevel::Allow, |(_, level)| *level)
}

/// Reports what kernels deny, and gives the warnings as items.
pub(crate) fn lint_kernels(
    block: &Block,
    planned: &[PlannedKernel],
    diagnostics: &mut Diagnostics,
) -> TokenStream {
    let mut warnings = TokenStream::new();
    // Instances of a kernel have much in common.
    let mut seen = BTreeSet::new();
    for kernel in planned {
        let Some(Item::Fn(function)) = block.items.get(kernel.item) else { continue };
        for lint in Lint::ALL {
            let level = level_of(function, lint);
            if level == LintLevel::Allow {
                continue;
            }
            for finding in find(lint, kernel, Place::from(function.name.span())) {
                if level == LintLevel::Deny {
                    diagnostics.report(finding);
                } else if seen
                    .insert((kernel.item, format!("{:?} {}", finding.primary.start, finding.text())))
                {
                    warnings.extend(emit_warning(lint, function, &finding));
                }
            }
        }
    }
    warnings
}

/// What there is to tell of a kernel. What has no place stands at the kernel's name.
fn find(lint: Lint, kernel: &PlannedKernel, name: Place) -> Vec<Diagnostic> {
    let (graph, plan): (_, &Plan) = (&kernel.program.kernel, &kernel.program.plan);
    match lint {
        Lint::Unfused => {
            let of_edges = |rule| match rule {
                Rule::Vertical | Rule::ReductionPrologue | Rule::ReductionEpilogue => true,
                Rule::ContractionPrologue | Rule::ContractionEpilogue => true,
                Rule::Streaming | Rule::Recomputation => true,
                Rule::Siblings | Rule::Horizontal | Rule::Depthwise | Rule::InPlace => false,
            };
            let refused = plan.decisions.iter().filter(|d| d.refusal.is_some() && of_edges(d.rule));
            let tell = |decision: &fuse_ir::plan::Decision| {
                let at = kernel.place_of(decision.consumer).unwrap_or(name);
                let sides = (label(graph, decision.producer), label(graph, decision.consumer));
                messages::unfused(at, (&sides.0, &sides.1), decision)
            };
            refused.map(tell).collect()
        }
        Lint::Materialized => {
            // What streams is used up tile by tile.
            let stored = plan.temps.iter().filter(|temp| !temp.streamed);
            let large = stored.filter_map(|temp| {
                let extent = |axis| plan.assumed.iter().find(|(a, _)| *a == axis).map_or(1, |(_, n)| *n);
                let elements = temp.axes.iter().fold(1u64, |n, axis| n.saturating_mul(extent(*axis)));
                let bytes = elements.saturating_mul(temp.dtype.size() as u64);
                (bytes >= MUCH).then_some((temp.node, bytes))
            });
            let tell = |(node, bytes)| {
                messages::materialized(kernel.place_of(node).unwrap_or(name), &label(graph, node), bytes)
            };
            large.map(tell).collect()
        }
        Lint::Uncoalesced => {
            let much = |access: &Uncoalesced| access.moved - access.least >= MUCH;
            let tell = |access: Uncoalesced| {
                let at = access.node.and_then(|node| kernel.place_of(node)).unwrap_or(name);
                messages::uncoalesced(at, graph, &Buffer::of(graph, plan, access.buffer), &access)
            };
            find_uncoalesced(&kernel.program).into_iter().filter(much).map(tell).collect()
        }
    }
}

/// A buffer as the user knows it.
pub(crate) struct Buffer {
    /// Its name.
    pub(crate) name: String,
    /// Its dtype and axes, where the user declares these.
    pub(crate) declared: Option<(DType, Vec<AxisId>)>,
    /// Whether it is a result.
    pub(crate) is_result: bool,
}

impl Buffer {
    fn of(graph: &Kernel, plan: &Plan, buffer: BufferRef) -> Buffer {
        match buffer {
            BufferRef::Param(param) => {
                let param = graph.param(param);
                let declared = match &param.kind {
                    ParamKind::Tensor { dtype, axes, .. } => Some((*dtype, axes.clone())),
                    ParamKind::Scalar { .. } | ParamKind::Axis { .. } => None,
                };
                Buffer { name: param.name.clone(), declared, is_result: false }
            }
            BufferRef::Result(number) => {
                let of = |output: &Output| match &output.target {
                    OutputTarget::Result { index, axes } if *index == number => {
                        Some((graph.node(output.value).ty.dtype, axes.clone()))
                    }
                    OutputTarget::Result { .. } | OutputTarget::Param { .. } => None,
                };
                let several = number > 0
                    || graph.outputs.iter().any(
                        |output| matches!(output.target, OutputTarget::Result { index, .. } if index > 0),
                    );
                let name = if several { format!("result{number}") } else { "result".to_owned() };
                Buffer { name, declared: graph.outputs.iter().find_map(of), is_result: true }
            }
            BufferRef::Temp(temp) => {
                let name = plan.temps.get(temp.index()).map(|temp| label(graph, temp.node));
                Buffer { name: name.unwrap_or_default(), declared: None, is_result: false }
            }
        }
    }
}

/// An item that uses what is deprecated at the place of a finding.
fn emit_warning(lint: Lint, function: &TensorFn, finding: &Diagnostic) -> TokenStream {
    let cfgs = function.attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
    let text = finding.text();
    let name = |span: Span| Ident::new(lint.name(), span);
    let (defined, used) =
        (name(Span::call_site()), name(Span::call_site().located_at(finding.primary.start)));
    quote! {
        #(#cfgs)*
        const _: () = {
            #[deprecated(note = #text)]
            #[allow(non_upper_case_globals, dead_code, reason = "named like the lint")]
            const #defined: () = ();
            #used
        };
    }
}
