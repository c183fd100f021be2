//! A user's combiner over slices: the step of every reduction tree that the engine builds from it.

use super::function::FunctionContext;
use super::literal::rust_type;
use super::{Versions, emit_versions};
use fuse_ir::dtype::DType;
use fuse_ir::graph::Kernel;
use fuse_ir::id::FnId;
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

/// `left[j] = combine(left[j], right[j])` with the elements of `right` in order, `left` starting again whenever it is
/// used up: so one function folds a row into lanes, a block into columns, and lanes into one another.
pub(super) fn emit_combiner(
    private: &TokenStream,
    kernel: &Kernel,
    function: FnId,
    dtypes: &[DType],
    name: &Ident,
) -> TokenStream {
    let context = FunctionContext::new(private, kernel);
    let body = format_ident!("{name}_body");
    let parts = 0..dtypes.len();
    let types: Vec<Ident> = dtypes.iter().map(|d| rust_type(*d)).collect();
    let left: Vec<Ident> = parts.clone().map(|k| format_ident!("left{k}")).collect();
    let right: Vec<Ident> = parts.clone().map(|k| format_ident!("right{k}")).collect();
    let args: Vec<TokenStream> =
        left.iter().map(|l| quote!(#l[i])).chain(right.iter().map(|r| quote!(#r[i]))).collect();
    let combined: Vec<TokenStream> =
        parts.clone().map(|k| context.call(function, &args, k as u32, &quote!(&mut fault))).collect();
    let values: Vec<Ident> = parts.clone().map(|k| format_ident!("value{k}")).collect();
    let numbers: Vec<Literal> = parts.map(Literal::usize_unsuffixed).collect();
    let (first_left, first_right) = (&left[0], &right[0]);
    let allow = super::lint_allowances();
    let doc = format!(" The combiner `{}`, element by element.", kernel.functions[function.index()].name);
    let versions = emit_versions(private, name, Versions::Narrow, |fma| {
        quote! {
            let fault = #body::<#fma>(#(row.output(#numbers),)* #(row.input(#numbers)),*);
            row.report_faults(&[fault]);
        }
    });
    quote! {
        #[doc = #doc]
        #allow
        #[inline(always)]
        fn #body<const F: bool>(#(#left: &mut [#types],)* #(#right: &[#types]),*) -> usize {
            let mut fault = false;
            let width = #first_left.len();
            let mut start = 0;
            while start < #first_right.len() {
                let len = ::core::cmp::Ord::min(width, #first_right.len() - start);
                #(let #left = &mut #left[..len];)*
                #(let #right = &#right[start..][..len];)*
                for i in 0..len {
                    #(let #values: #types = #combined;)*
                    #(#left[i] = #values;)*
                }
                start = start.wrapping_add(len);
            }
            if fault { 0 } else { usize::MAX }
        }
        #versions
    }
}
