//! All passes over rows as one function: slices of each row in and out, outer values as locals.
//!
//! The function is given a few rows at a time and takes each pass over all of them before the next one: a row by itself
//! would wait for every fold of its lanes. Outer values that later passes read lie in an array over the rows meanwhile.

use super::literal::rust_type;
use super::loops::{Along, Loop};
use super::values::Values;
use super::{Versions, emit_versions};
use fuse_ir::graph::Kernel;
use fuse_ir::id::ValueId;
use fuse_ir::schedule::{BodyOp, CHUNK, ScheduledGroup};
use fuse_ir::stage::{Place, RowFunction, Stage, StagedGroup, ValuePlace, reduced_along};
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
    let inputs = row.inputs.iter().chain(&row.outer_inputs).map(|&v| (v, values.name(v)));
    let reads: Vec<(ValueId, Ident)> = inputs.collect();
    let buffers = row.buffers.iter().map(|&v| (v, "row"));
    let outputs = row.outputs.iter().chain(&row.outer_outputs).map(|&v| (v, "out"));
    let writes: Vec<(ValueId, Ident)> =
        buffers.chain(outputs).map(|(v, what)| (v, values.name_beside(v, what))).collect();
    let scalars: Vec<Ident> = row.scalars.iter().map(|(s, _)| values.scalar_name(s)).collect();
    let scalar_types: Vec<Ident> = row.scalars.iter().map(|(_, dtype)| rust_type(*dtype)).collect();
    let scalar = (0..scalars.len()).map(Literal::usize_unsuffixed);
    let prelude: Vec<TokenStream> = row.prelude.iter().map(|&v| values.binding(v)).collect();

    let mut waiting: Vec<(ValueId, Ident)> = writes[..row.buffers.len()].to_vec();
    for &(v, output) in &row.replaced {
        waiting.extend(writes.iter().find(|(u, _)| *u == output).map(|(_, slice)| (v, slice.clone())));
    }
    let carried: Vec<(ValueId, Ident)> =
        find_carried(staged, row).into_iter().map(|v| (v, values.name_beside(v, "rows"))).collect();
    let arrays = carried.iter().map(|(_, array)| array);
    let types = carried.iter().map(|(v, _)| values.rust_type(*v));
    let arrays = quote! {
        #(let mut #arrays = [<#types as ::core::default::Default>::default(); #private::ROWS_TOGETHER];)*
    };
    let mut emitter = RowEmitter { values, staged, row, reads, writes, waiting, carried };
    let with = Shared { name, allow: super::lint_allowances(), scalars, scalar_types, prelude };
    let (passes, calls): (Vec<TokenStream>, Vec<TokenStream>) =
        (0..staged.passes.len()).map(|k| emitter.pass(k, &with)).unzip();

    let body = format_ident!("{name}_body");
    let versions = emit_versions(private, name, Versions::Rows, |fma| quote!(#body::<#fma>(&mut row);));
    let doc = format!(" `{}`, {}: all passes over a few rows", kernel.name, group.id);
    let Shared { allow, scalars, scalar_types, .. } = with;
    quote! {
        #(#passes)*
        #[doc = #doc]
        #allow
        #[inline(always)]
        fn #body<const F: bool>(row: &mut #private::Rows<'_>) {
            let len = row.positions();
            #(let #scalars: #scalar_types = row.scalar(#scalar);)*
            #arrays
            #(for number in 0..row.count() {
                let mut row = row.row(number);
                #calls
            })*
        }
        #versions
    }
}

/// What the functions of all passes begin with.
struct Shared<'a> {
    /// Of the row function.
    name: &'a Ident,
    allow: TokenStream,
    scalars: Vec<Ident>,
    scalar_types: Vec<Ident>,
    prelude: Vec<TokenStream>,
}

/// The stages of a pass over outer positions: before its sweep, and after it.
fn outer_stages(staged: &StagedGroup, k: usize) -> (Vec<&Stage>, Vec<&Stage>) {
    let stages = |list: &[usize]| list.iter().map(|&t| &staged.stages[t]).collect();
    (if k == 0 { stages(&staged.prologue) } else { Vec::new() }, stages(&staged.passes[k].epilogue))
}

/// The outer values that a pass computes.
fn computed_in(staged: &StagedGroup, k: usize) -> Vec<ValueId> {
    let (before, after) = outer_stages(staged, k);
    let of_stages = before.into_iter().chain(after).flat_map(|s| s.values.iter().copied());
    of_stages.chain(staged.passes[k].reductions.iter().flatten().copied()).collect()
}

/// What a pass reads that is no value of its own, and outer values that it stores.
fn needed_in(staged: &StagedGroup, row: &RowFunction, k: usize) -> Vec<ValueId> {
    let (before, after) = outer_stages(staged, k);
    let sweep = staged.passes[k].sweep.iter().map(|&t| &staged.stages[t]);
    let read = before.into_iter().chain(after).chain(sweep).flat_map(|s| s.inputs.iter().copied());
    let stored = if k + 1 == staged.passes.len() { &row.outer_outputs[..] } else { &[] };
    read.chain(stored.iter().copied()).collect()
}

/// The outer values that a later pass than their own needs.
fn find_carried(staged: &StagedGroup, row: &RowFunction) -> Vec<ValueId> {
    let passes = staged.passes.len();
    let later = |k: usize, v: &ValueId| (k + 1..passes).any(|l| needed_in(staged, row, l).contains(v));
    let mut carried: Vec<ValueId> =
        (0..passes).flat_map(|k| computed_in(staged, k).into_iter().filter(move |v| later(k, v))).collect();
    carried.sort();
    carried.dedup();
    carried
}

struct RowEmitter<'a> {
    values: Values<'a>,
    staged: &'a StagedGroup,
    row: &'a RowFunction,
    /// The input slices of a row in order: inner loads, outer loads.
    reads: Vec<(ValueId, Ident)>,
    /// The output slices in order: scratch, inner and outer outputs.
    writes: Vec<(ValueId, Ident)>,
    /// The slices in which values wait for later passes: scratch, or an output that the last of these passes writes.
    waiting: Vec<(ValueId, Ident)>,
    /// Outer values that later passes need, and their arrays.
    carried: Vec<(ValueId, Ident)>,
}

impl RowEmitter<'_> {
    /// Outer values, one after the other.
    fn outer(&mut self, stages: &[&Stage]) -> TokenStream {
        stages.iter().flat_map(|s| &s.values).map(|&v| self.values.binding(v)).collect()
    }

    /// A pass over a row as a function, whose slices are known not to overlap, and its call.
    fn pass(&mut self, k: usize, with: &Shared<'_>) -> (TokenStream, TokenStream) {
        let (before, after) = outer_stages(self.staged, k);
        let needed = needed_in(self.staged, self.row, k);
        let (sweep, slices) = self.sweep(k);
        let (prologue, epilogue) = (self.outer(&before), self.outer(&after));
        let (mut params, mut given, mut bindings) =
            (TokenStream::new(), TokenStream::new(), TokenStream::new());
        let inner_reads = self.row.inputs.len();
        for (n, (v, name)) in self.reads.iter().enumerate() {
            let (ty, slot) = (self.values.rust_type(*v), Literal::usize_unsuffixed(n));
            if n < inner_reads && slices.contains(name) {
                params.extend(quote!(#name: &[#ty],));
                given.extend(quote!(row.input(#slot),));
                bindings.extend(quote!(let #name = &#name[..len];));
            } else if n >= inner_reads && needed.contains(v) {
                params.extend(quote!(#name: #ty,));
                given.extend(quote!(row.input(#slot)[0],));
            }
        }
        let computed = computed_in(self.staged, k);
        let (mut results, mut types, mut arrays) = (Vec::new(), Vec::new(), Vec::new());
        for (v, array) in self.carried.clone() {
            let (name, ty) = (self.values.name(v), self.values.rust_type(v));
            if computed.contains(&v) {
                results.push(name);
                types.push(ty);
                arrays.push(array);
            } else if needed.contains(&v) {
                params.extend(quote!(#name: #ty,));
                given.extend(quote!(#array[number],));
            }
        }
        let is_last = k + 1 == self.staged.passes.len();
        let inner_writes = self.row.buffers.len() + self.row.outputs.len();
        let mut stores = TokenStream::new();
        for (n, (v, name)) in self.writes.clone().iter().enumerate() {
            let (ty, slot) = (self.values.rust_type(*v), Literal::usize_unsuffixed(n));
            if n < inner_writes && slices.contains(name) {
                bindings.extend(quote!(let #name = &mut #name[..len];));
            } else if n >= inner_writes && is_last {
                let result = self.values.reference(*v);
                stores.extend(quote!(#name[0] = #result;));
            } else {
                continue;
            }
            params.extend(quote!(#name: &mut [#ty],));
            given.extend(quote!(row.output(#slot),));
        }
        let function = format_ident!("{}_pass{k}", with.name);
        let Shared { allow, scalars, scalar_types, prelude, .. } = with;
        let pass = quote! {
            #allow
            #[inline(always)]
            fn #function<const F: bool>(len: usize, #(#scalars: #scalar_types,)* #params) -> (#(#types,)*) {
                #bindings
                #(#prelude)*
                #prologue
                #sweep
                #epilogue
                #stores
                (#(#results,)*)
            }
        };
        let call = quote!((#(#arrays[number],)*) = #function::<F>(len, #(#scalars,)* #given););
        (pass, call)
    }

    /// The loop of a pass over a row with its reductions, and the slices that it uses.
    fn sweep(&mut self, k: usize) -> (TokenStream, Vec<Ident>) {
        let (private, group, pass) = (self.values.private, self.values.group, &self.staged.passes[k]);
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
        let waits = self.waiting.iter().filter(|(v, _)| kept.buffered.contains(v));
        let own = self.row.buffers.len()..self.row.buffers.len() + self.row.outputs.len();
        let outputs = self.writes[own].iter().filter(|(v, _)| stored(v));
        let writes: Vec<(ValueId, Ident)> = waits.chain(outputs).cloned().collect();
        let mut slices: Vec<Ident> = writes.iter().map(|(_, slice)| slice.clone()).collect();
        let mut from_buffers = TokenStream::new();
        let (mut inputs, mut replaced) = (Vec::new(), Vec::new());
        for &v in &reads {
            let name = self.values.name(v);
            match self.waiting.iter().find(|(u, _)| *u == v) {
                Some((_, slice)) if slices.contains(slice) => {
                    replaced.push((name, slice.clone()));
                    continue;
                }
                Some((_, slice)) => {
                    from_buffers.extend(quote!(let #name = &*#slice;));
                    slices.push(slice.clone());
                }
                None => slices.push(name.clone()),
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

        let written: Vec<&Ident> = writes.iter().map(|(_, name)| name).collect();
        if reductions.is_empty() {
            return (quote!({ #from_buffers #(let #written = &mut *#written;)* #loops }), slices);
        }
        let chunk = Literal::usize_unsuffixed(CHUNK);
        let lanes: Vec<&Ident> = reductions.iter().map(|r| &r.lanes).collect();
        let trees: Vec<Ident> =
            pass.reductions.iter().map(|r| self.values.name_beside(r[0], "tree")).collect();
        let types = reductions.iter().map(|r| self.values.rust_type(r.source));
        let reducers = reductions.iter().map(|r| format_ident!("{}", r.reducer));
        let mut sweep = quote! {
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
        (sweep, slices)
    }
}
