//! One stage as a function: slices in, slices out, one loop.

use super::inline::inline_chains;
use super::literal::rust_type;
use super::loops::{Along, Loop};
use super::values::Values;
use super::{Versions, emit_versions};
use fuse_ir::graph::Kernel;
use fuse_ir::id::ValueId;
use fuse_ir::schedule::{BodyOp, ScheduleKind, ScheduledGroup};
use fuse_ir::stage::{Place, Stage, StagedGroup, reduced_along};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

/// The body of a stage and its versions.
pub(super) fn emit_stage(
    private: &TokenStream,
    kernel: &Kernel,
    group: &ScheduledGroup,
    staged: &StagedGroup,
    stage: &Stage,
    (name, versions): (&Ident, Versions),
) -> TokenStream {
    let pass = staged.passes.iter().find(|p| p.sweep.iter().any(|&t| std::ptr::eq(&staged.stages[t], stage)));
    let inlined = inline_chains(kernel, group, stage);
    let (group, stage) = inlined.as_ref().map_or((group, stage), |(group, stage)| (group, stage));
    let mut values = Values::new(private, kernel, group, &stage.faults);
    let inputs: Vec<Ident> = stage.inputs.iter().map(|&v| values.name(v)).collect();
    let input_types: Vec<Ident> = stage.inputs.iter().map(|&v| values.rust_type(v)).collect();
    let scalars: Vec<Ident> = stage.scalars.iter().map(|(s, _)| values.scalar_name(s)).collect();
    let scalar_types: Vec<Ident> = stage.scalars.iter().map(|(_, dtype)| rust_type(*dtype)).collect();
    let prelude: Vec<TokenStream> = stage.prelude.iter().map(|&v| values.binding(v)).collect();
    let outputs: Vec<(ValueId, Ident)> =
        stage.outputs.iter().map(|&v| (v, values.name_beside(v, "out"))).collect();
    let output_names: Vec<&Ident> = outputs.iter().map(|(_, name)| name).collect();
    let output_types: Vec<Ident> = stage.outputs.iter().map(|&v| values.rust_type(v)).collect();
    let mut reductions = Vec::new();
    for reduction in pass.into_iter().flat_map(|p| stage.reductions.iter().map(|&r| &p.reductions[r])) {
        let v = reduction[0];
        if let Some(source) = reduced_along(group, v) {
            let (reducer, lanes) = (values.reducer(v), values.name_beside(v, "lanes"));
            reductions.push(Along { source, reducer, lanes });
        }
    }
    let lanes: Vec<&Ident> = reductions.iter().map(|r| &r.lanes).collect();
    let lane_types: Vec<Ident> = reductions.iter().map(|r| values.rust_type(r.source)).collect();
    // Loops that go through memory once: those of pointwise groups, which write it too, and those that reduce along.
    let is_load = |v: &ValueId| matches!(group.value(*v).op, BodyOp::Load(_));
    let is_pointwise = group.kind == ScheduleKind::Pointwise && stage.place == Place::Inner;
    let mut ahead = Vec::new();
    if is_pointwise || !reductions.is_empty() {
        ahead.extend(stage.inputs.iter().filter(|v| is_load(v)).map(|&v| values.name(v)));
    }
    if is_pointwise {
        ahead.extend(outputs.iter().map(|(_, name)| name.clone()));
    }
    let one_loop = Loop {
        stage,
        inputs: &inputs,
        ahead: &ahead,
        outputs: &outputs,
        replaced: &[],
        reductions: &reductions,
    };
    let loops = one_loop.emit(&mut values);
    let faults: Vec<Ident> = stage.faults.iter().map(|v| format_ident!("first_fault_{}", v.0)).collect();
    let (returns, start_faults, give_faults) = if faults.is_empty() {
        (TokenStream::new(), TokenStream::new(), TokenStream::new())
    } else {
        let n = faults.len();
        (quote!(-> [usize; #n]), quote!(#(let mut #faults = usize::MAX;)*), quote!([#(#faults),*]))
    };
    let body = format_ident!("{name}_body");
    let count = |n: usize| (0..n).map(Literal::usize_unsuffixed).collect::<Vec<_>>();
    let (input, scalar, output, lane) =
        (count(inputs.len()), count(scalars.len()), count(outputs.len()), count(lanes.len()));
    let versions = emit_versions(private, name, versions, |fma| {
        let call = quote!(#body::<#fma>(
            row.len(), #(row.input(#input),)* #(row.scalar(#scalar),)* #(row.output(#output),)*
            #(row.lanes(#lane),)*
        ));
        if faults.is_empty() {
            quote!(#call;)
        } else {
            quote!(let faults = #call; row.report_faults(&faults);)
        }
    });
    let allow = super::lint_allowances();
    let doc = format!(" `{}`, {} {}", kernel.name, group.id, stage.name);
    quote! {
        #[doc = #doc]
        #allow
        #[inline(always)]
        fn #body<const F: bool>(
            len: usize,
            #(#inputs: &[#input_types],)*
            #(#scalars: #scalar_types,)*
            #(#output_names: &mut [#output_types],)*
            #(#lanes: &mut [#lane_types],)*
        ) #returns {
            #(let #inputs = &#inputs[..len];)*
            #(let #output_names = &mut #output_names[..len];)*
            #(#prelude)*
            #start_faults
            #loops
            #give_faults
        }
        #versions
    }
}
