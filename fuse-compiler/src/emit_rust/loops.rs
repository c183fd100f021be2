//! The loops over the positions of a slice.

use super::segment::{BLOCK, Segment, cut_into_segments};
use super::values::Values;
use fuse_ir::id::ValueId;
use fuse_ir::schedule::LANES;
use fuse_ir::stage::Stage;
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

/// What a loop reads and writes besides the values it computes. Slices are named, and as long as `len` says.
pub(super) struct Loop<'a> {
    pub(super) stage: &'a Stage,
    /// Input slices; their elements have the same names.
    pub(super) inputs: &'a [Ident],
    /// Slices, read or written, that most likely lie in memory and not in a cache: each block asks for them ahead.
    pub(super) ahead: &'a [Ident],
    /// Output slices and what goes there.
    pub(super) outputs: &'a [(ValueId, Ident)],
    /// Values that lie in an output slice, element by element, until the loop overwrites them: value and slice.
    pub(super) replaced: &'a [(Ident, Ident)],
    /// Reductions that are taken along.
    pub(super) reductions: &'a [Along],
}

/// A reduction that a loop takes along.
pub(super) struct Along {
    /// What is reduced.
    pub(super) source: ValueId,
    /// The name of the runtime's reducer.
    pub(super) reducer: &'static str,
    /// The slice of lanes: one for each position, or at most `LANES`, into which the positions go in turn.
    pub(super) lanes: Ident,
}

impl Loop<'_> {
    pub(super) fn emit(&self, values: &mut Values<'_>) -> TokenStream {
        let segments = cut_into_segments(values.kernel, values.group, self.stage);
        match &segments[..] {
            [whole] if self.reductions.is_empty() && self.ahead.is_empty() => self.whole(values, whole),
            _ => self.blocks(values, &segments),
        }
    }

    /// One loop over all positions.
    fn whole(&self, values: &mut Values<'_>, whole: &Segment) -> TokenStream {
        let inputs = self.inputs;
        let bindings: Vec<TokenStream> = whole.values.iter().map(|&v| values.binding(v)).collect();
        let ends = self.ends(values, &format_ident!("i"), |_| true);
        let (replaced, lies_in): (Vec<&Ident>, Vec<&Ident>) =
            self.replaced.iter().map(|(v, s)| (v, s)).unzip();
        quote! {
            for i in 0..len {
                #(let #inputs = #inputs[i];)*
                #(let #replaced = #lies_in[i];)*
                #(#bindings)*
                #ends
            }
        }
    }

    /// What is done with results at a position: of the values for which `is_here` holds.
    fn ends(&self, values: &mut Values<'_>, at: &Ident, is_here: impl Fn(&ValueId) -> bool) -> TokenStream {
        let mut ends = TokenStream::new();
        for (v, output) in self.outputs.iter().filter(|(v, _)| is_here(v)) {
            let result = values.reference(*v);
            ends.extend(quote!(#output[#at] = #result;));
        }
        let private = values.private;
        for Along { source, reducer, lanes } in self.reductions.iter().filter(|r| is_here(&r.source)) {
            let (source, reducer) = (values.reference(*source), format_ident!("{reducer}"));
            ends.extend(quote!(
                #lanes[#at] = <#private::reduce::#reducer as #private::reduce::Combine<_>>::combine(#lanes[#at], #source);
            ));
        }
        ends
    }

    /// A loop over blocks of positions, in each a loop for every segment; the last takes the reductions along.
    fn blocks(&self, values: &mut Values<'_>, segments: &[Segment]) -> TokenStream {
        // A block with reductions has a position for each lane. What one loop computes has nothing to keep between loops,
        // and shorter blocks spread what they ask for more evenly.
        let is_whole = segments.len() == 1 || !self.reductions.is_empty();
        let block = Literal::usize_unsuffixed(if is_whole { LANES } else { BLOCK });
        let arrays: Vec<(ValueId, Ident)> = segments
            .iter()
            .flat_map(|s| s.keeps.iter().copied())
            .map(|v| (v, values.name_beside(v, "block")))
            .collect();
        let loops = self.segment_loops(values, segments, &arrays);
        let whole_blocks = self.whole_blocks(values, &loops);
        let inputs = self.inputs;
        let names = arrays.iter().map(|(_, name)| name);
        let types = arrays.iter().map(|(v, _)| values.rust_type(*v));
        let outputs = self.outputs.iter().map(|(_, name)| name);
        let lanes: Vec<&Ident> = self.reductions.iter().map(|r| &r.lanes).collect();
        // Whole blocks of a reduction ask themselves.
        let ahead = if self.reductions.is_empty() { self.ahead } else { &[] };
        let private = values.private;
        let asks = if ahead.is_empty() {
            TokenStream::new()
        } else {
            quote!(if F { #(#private::reduce::ask_ahead::<#block, _>(#ahead);)* })
        };
        quote! {
            #(let mut #names = [<#types as ::core::default::Default>::default(); #block];)*
            let mut start = 0;
            #whole_blocks
            while start < len {
                let n = ::core::cmp::Ord::min(len - start, #block);
                #(let #inputs = &#inputs[start..][..n];)*
                #(let #outputs = &mut #outputs[start..][..n];)*
                #(let at = if #lanes.len() > #block { start } else { 0 };
                let #lanes = &mut #lanes[at..][..n];)*
                #asks
                #loops
                start += #block;
            }
        }
    }

    /// The loops of the segments over the `n` positions of a block.
    fn segment_loops(
        &self,
        values: &mut Values<'_>,
        segments: &[Segment],
        arrays: &[(ValueId, Ident)],
    ) -> TokenStream {
        let array_of = |v: &ValueId| arrays.iter().find(|(u, _)| u == v).map(|(_, name)| name.clone());
        let inputs = self.inputs;
        let (replaced, lies_in): (Vec<&Ident>, Vec<&Ident>) =
            self.replaced.iter().map(|(v, s)| (v, s)).unzip();
        let mut loops = TokenStream::new();
        for (k, segment) in segments.iter().enumerate() {
            let (takes, taken_from): (Vec<Ident>, Vec<Ident>) =
                segment.takes.iter().filter_map(|v| Some((values.name(*v), array_of(v)?))).unzip();
            let bindings: Vec<TokenStream> = segment.values.iter().map(|&v| values.binding(v)).collect();
            let (keeps, kept_in): (Vec<Ident>, Vec<Ident>) =
                segment.keeps.iter().filter_map(|v| Some((values.name(*v), array_of(v)?))).unzip();
            // What no segment computes is an input handed on, or the same everywhere: the last one sees to it.
            let is_here = |v: &ValueId| match segments.iter().position(|s| s.values.contains(v)) {
                Some(computed) => computed == k,
                None => k + 1 == segments.len(),
            };
            let ends = self.ends(values, &format_ident!("j"), is_here);
            loops.extend(quote! {
                for j in 0..n {
                    let i = start + j;
                    #(let #inputs = #inputs[j];)*
                    #(let #replaced = #lies_in[j];)*
                    #(let #takes = #taken_from[j];)*
                    #(#bindings)*
                    #(#kept_in[j] = #keeps;)*
                    #ends
                }
            });
        }
        loops
    }

    /// The blocks with a position for every lane. Their length is a constant and the lanes are arrays of the loop's own:
    /// unrolled, they stay in registers from block to block, which a loop bound by the first cache gains half its time
    /// from. SSE2, the one instruction set without `F`, has too few registers for that; without optimisation there are no
    /// registers at all.
    fn whole_blocks(&self, values: &Values<'_>, loops: &TokenStream) -> TokenStream {
        if self.reductions.is_empty() {
            return TokenStream::new();
        }
        let private = values.private;
        let count = Literal::usize_unsuffixed(LANES);
        let (inputs, ahead) = (self.inputs, self.ahead);
        let outputs: Vec<&Ident> = self.outputs.iter().map(|(_, name)| name).collect();
        let lanes: Vec<&Ident> = self.reductions.iter().map(|r| &r.lanes).collect();
        let types: Vec<Ident> = self.reductions.iter().map(|r| values.rust_type(r.source)).collect();
        let own: Vec<Ident> = lanes.iter().map(|name| format_ident!("own_{name}")).collect();
        quote! {
            #[cfg(not(debug_assertions))]
            if F #(&& #lanes.len() == #count)* {
                #(let mut #own: [#types; #count] = *#private::reduce::block(#lanes, 0);)*
                while len - start >= #count {
                    let n = #count;
                    #(let #inputs = #private::reduce::block(#inputs, start);)*
                    #(#private::reduce::ask_ahead::<#count, _>(#ahead);)*
                    #(let #outputs = #private::reduce::block_mut(#outputs, start);)*
                    #(let #lanes = &mut #own;)*
                    #loops
                    start += #count;
                }
                #(*#private::reduce::block_mut(#lanes, 0) = #own;)*
            }
        }
    }
}
