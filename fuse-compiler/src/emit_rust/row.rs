//! All passes over a row as one function: slices of the row in and out, outer values as locals.

use super::literal::rust_type;
use super::loops::{Along, Loop};
use super::values::Values;
use super::{Versions, emit_versions};
use fuse_ir::graph::Kernel;
use fuse_ir::id::ValueId;
use fuse_ir::schedule::{BodyOp, CHUNK, ScheduledGroup};
use fuse_ir::stage::{Place, RowFunction, Stage, StagedGroup, StagedPass, ValuePlace, reduced_along};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

/// The body of a row function and its versions.
pub(super) fn emit_row_function(
    private: &TokenStream,
    kernel: &Kernel,
    group: &ScheduledGroup,
    staged: &StagedGroup,
    row: &RowFunction,
    name: &Ident,
) -> TokenStream {
    let mut values = Values::new(private, kernel, group, &[]);
    let named = |values: &mut Values<'_>, list: &[ValueId], what: &str| -> Vec<(ValueId, Ident)> {
        list.iter().map(|&v| (v, values.name_beside(v, what))).collect()
    };
    let inputs: Vec<Ident> = row.inputs.iter().map(|&v| values.name(v)).collect();
    let outer_inputs: Vec<Ident> = row.outer_inputs.iter().map(|&v| values.name(v)).collect();
    let scalars: Vec<Ident> = row.scalars.iter().map(|(s, _)| values.scalar_name(s)).collect();
    let mut buffers = named(&mut values, &row.buffers, "row");
    let outputs = named(&mut values, &row.outputs, "out");
    let outer_outputs = named(&mut values, &row.outer_outputs, "out");
    let types = |values: &Values<'_>, list: &[ValueId]| -> Vec<Ident> {
        list.iter().map(|&v| values.rust_type(v)).collect()
    };
    let read_types = types(&values, &[&row.inputs[..], &row.outer_inputs].concat());
    let write_types = types(&values, &[&row.buffers[..], &row.outputs, &row.outer_outputs].concat());
    let scalar_types: Vec<Ident> = row.scalars.iter().map(|(_, dtype)| rust_type(*dtype)).collect();

    let prelude: Vec<TokenStream> = row.prelude.iter().map(|&v| values.binding(v)).collect();
    let own_buffers = buffers.len();
    for &(v, output) in &row.replaced {
        buffers.extend(outputs.iter().find(|(u, _)| *u == output).map(|(_, slice)| (v, slice.clone())));
    }
    let mut emitter = RowEmitter { values, staged, buffers: &buffers, outputs: &outputs };
    let mut passes = TokenStream::new();
    for &k in &staged.prologue {
        passes.extend(emitter.outer_stage(&staged.stages[k]));
    }
    for (k, pass) in staged.passes.iter().enumerate() {
        passes.extend(emitter.pass(k, pass));
    }
    let values = &mut emitter.values;
    let outer_results: Vec<TokenStream> = row.outer_outputs.iter().map(|&v| values.reference(v)).collect();

    let names = |list: &[(ValueId, Ident)]| list.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>();
    let (buffers, outputs, outer_outputs) =
        (names(&buffers[..own_buffers]), names(&outputs), names(&outer_outputs));
    let reads = [&inputs[..], &outer_inputs].concat();
    let writes = [&buffers[..], &outputs, &outer_outputs].concat();
    let whole: Vec<&Ident> = buffers.iter().chain(&outputs).collect();
    let body = format_ident!("{name}_body");
    let count = |n: usize| (0..n).map(Literal::usize_unsuffixed).collect::<Vec<_>>();
    let (input, scalar, output) = (count(reads.len()), count(scalars.len()), count(writes.len()));
    let versions = emit_versions(private, name, Versions::Rows, |fma| {
        quote!(#body::<#fma>(
            row.len(), #(row.input(#input),)* #(row.scalar(#scalar),)* #(row.output(#output),)*
        );)
    });
    let allow = super::lint_allowances();
    let doc = format!(" `{}`, {}: all passes over a row", kernel.name, group.id);
    quote! {
        #[doc = #doc]
        #allow
        #[inline(always)]
        fn #body<const F: bool>(
            len: usize,
            #(#reads: &[#read_types],)*
            #(#scalars: #scalar_types,)*
            #(#writes: &mut [#write_types],)*
        ) {
            #(let #inputs = &#inputs[..len];)*
            #(let #outer_inputs = #outer_inputs[0];)*
            #(let #whole = &mut #whole[..len];)*
            #(#prelude)*
            #passes
            #(#outer_outputs[0] = #outer_results;)*
        }
        #versions
    }
}

struct RowEmitter<'a> {
    values: Values<'a>,
    staged: &'a StagedGroup,
    /// The slices in which values wait for later passes: scratch, or an output that the last of these passes writes.
    buffers: &'a [(ValueId, Ident)],
    outputs: &'a [(ValueId, Ident)],
}

impl RowEmitter<'_> {
    /// Outer values, one after the other.
    fn outer_stage(&mut self, stage: &Stage) -> TokenStream {
        stage.values.iter().map(|&v| self.values.binding(v)).collect()
    }

    fn pass(&mut self, k: usize, pass: &StagedPass) -> TokenStream {
        let (private, group) = (self.values.private, self.values.group);
        let empty = Stage::default();
        let stage = pass.sweep.first().map_or(&empty, |&t| &self.staged.stages[t]);
        let mut reductions = Vec::new();
        for reduction in &pass.reductions {
            if let Some(source) = reduced_along(group, reduction[0]) {
                let lanes = self.values.name_beside(reduction[0], "lanes");
                reductions.push(Along { source, reducer: self.values.reducer(reduction[0]), lanes });
            }
        }
        // What the loop reads from memory or from buffers of earlier passes.
        let place = |v: ValueId| self.staged.places[v.index()];
        let is_load = |v: ValueId| matches!(group.value(v).op, BodyOp::Load(_));
        let sources = reductions.iter().map(|r| r.source).filter(|&v| is_load(v));
        let mut reads: Vec<ValueId> = stage.inputs.iter().copied().chain(sources).collect();
        reads.retain(|&v| place(v) == ValuePlace::At(Place::Inner));
        reads.sort();
        reads.dedup();
        let kept = &group.passes[k];
        let stored = |v: &ValueId| kept.stores.iter().any(|&s| group.stores[s as usize].value == *v);
        let buffers = self.buffers.iter().filter(|(v, _)| kept.buffered.contains(v));
        let outputs = self.outputs.iter().filter(|(v, _)| stored(v));
        let writes: Vec<(ValueId, Ident)> = buffers.chain(outputs).cloned().collect();
        let mut from_buffers = TokenStream::new();
        let (mut inputs, mut replaced) = (Vec::new(), Vec::new());
        for &v in &reads {
            let name = self.values.name(v);
            match self.buffers.iter().find(|(u, _)| *u == v) {
                Some((_, slice)) if writes.iter().any(|(_, written)| written == slice) => {
                    replaced.push((name, slice.clone()));
                    continue;
                }
                Some((_, slice)) => from_buffers.extend(quote!(let #name = &*#slice;)),
                None => {}
            }
            inputs.push(name);
        }
        // The first pass brings what it reads from memory, for the others too; and what is written comes before it is.
        let mut ahead: Vec<Ident> = if k == 0 { inputs.clone() } else { Vec::new() };
        let is_here = |slice: &Ident| replaced.iter().any(|(_, lies_in)| lies_in == slice);
        ahead.extend(writes.iter().map(|(_, slice)| slice.clone()).filter(|slice| !is_here(slice)));
        let one_loop = Loop {
            stage,
            inputs: &inputs,
            ahead: &ahead,
            outputs: &writes,
            replaced: &replaced,
            reductions: &reductions,
        };
        let loops = one_loop.emit(&mut self.values);

        let written = writes.iter().map(|(_, name)| name);
        let mut sweep = quote!({ #from_buffers #(let #written = &mut *#written;)* #loops });
        if !reductions.is_empty() {
            let chunk = Literal::usize_unsuffixed(CHUNK);
            let written = writes.iter().map(|(_, name)| name);
            let lanes: Vec<&Ident> = reductions.iter().map(|r| &r.lanes).collect();
            let trees: Vec<Ident> =
                pass.reductions.iter().map(|r| self.values.name_beside(r[0], "tree")).collect();
            let types = reductions.iter().map(|r| self.values.rust_type(r.source));
            let reducers = reductions.iter().map(|r| format_ident!("{}", r.reducer));
            sweep = quote! {
                #(let mut #trees = #private::reduce::Tree::<#types, #private::reduce::#reducers>::new();)*
                let mut first = 0;
                while first < len {
                    #from_buffers
                    let size = ::core::cmp::Ord::min(len - first, #chunk);
                    #(let #inputs = &#inputs[first..][..size];)*
                    #(let #written = &mut #written[first..][..size];)*
                    {
                        let len = size;
                        #(let #lanes = #trees.lanes();)*
                        #loops
                    }
                    #(#trees.close_chunk();)*
                    first += #chunk;
                }
            };
            for (reduction, tree) in pass.reductions.iter().zip(&trees) {
                for &v in reduction {
                    let (name, ty) = (self.values.name(v), self.values.rust_type(v));
                    sweep.extend(quote!(let #name: #ty = #tree.finish();));
                }
            }
        }
        for &t in &pass.epilogue {
            sweep.extend(self.outer_stage(&self.staged.stages[t]));
        }
        sweep
    }
}
