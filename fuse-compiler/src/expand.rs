//! Expansion: what the user's crate gets for each kernel.
//!
//! A kernel becomes a function and a braced struct of the same name that nobody can construct, which carries `into`,
//! `plan`, `program`, `cuda_source` and `verify`. Both live in different namespaces, and, unlike a module, a struct may stand in a
//! function's body and in a doctest. The compiled loops and the program's bytes lie inside one hidden method.
//!
//! ```text
//! /// (the user's docs, and the plan)
//! pub fn linear(x: &Tensor<f32, 2>, ..) -> Result<Tensor<f32, 2>, Error> { linear::__kernel().call(&[Arg::read(x), ..]) }
//! pub struct linear { never: Infallible }
//! impl linear {
//!     fn __kernel() -> &'static CompiledKernel { /* loops */ static KERNEL: CompiledKernel = ..; &KERNEL }
//!     pub fn into(x: &Tensor<f32, 2>, .., result: &mut Tensor<f32, 2>) -> Result<(), Error> { .. }
//!     pub fn plan() -> &'static Plan { .. }
//! }
//! ```
//!
//! With generic dtypes the hidden function is the method of a hidden trait, which the dtypes of the instances implement;
//! the functions are generic over it, so that `softmax::<f16>(..)` works and inference too.
//!
//! Generated names are `mixed_site`; type tokens keep the user's spans, so that rustc's own messages point well.

mod docs;
mod kernel;
mod signature;

use crate::diagnostic::Diagnostics;
use crate::planning::PlannedKernel;
use crate::scalar::{FnSource, Origin, emit_const, emit_op};
use crate::scalar_sources::ScalarSources;
use crate::syntax::{Block, BrokenFn, ConstItem, Item, TensorFn};
use fuse_ir::dtype::DType;
use kernel::expand_kernel;
use proc_macro2::TokenStream;
use quote::quote;
use signature::Signature;

/// The items of a block: errors, ops, kernels, and what is repeated as it is.
///
/// `facade` is the path of the facade crate, `repeat_uses` says whether `use` items stand among them. Kernels without a program, because they have errors, keep their signatures,
/// so that callers are not wrong too.
pub fn expand_items(
    facade: &TokenStream,
    block: &Block,
    scalars: &ScalarSources<'_>,
    planned: &[PlannedKernel],
    repeat_uses: bool,
    diagnostics: &Diagnostics,
) -> TokenStream {
    let mut items = diagnostics.to_compile_errors();
    for (k, item) in block.items.iter().enumerate() {
        items.extend(match item {
            Item::Use(item) if repeat_uses => quote!(#item),
            Item::Use(_) => TokenStream::new(),
            // A constant with errors is not repeated: rustc would find another in it.
            Item::Const(constant) if !diagnostics.is_empty() && is_poisoned(scalars, constant) => {
                TokenStream::new()
            }
            Item::Const(constant) => emit_const(&constant.item, scalars.items),
            Item::Op(_) | Item::Reduce(_) => TokenStream::new(),
            Item::Broken(function) => expand_unread(function, diagnostics),
            Item::Fn(function) if function.kernel.is_none() => TokenStream::new(),
            Item::Fn(function) => {
                let dtypes = list_instances(function);
                let of = |dtypes: &Vec<DType>| planned.iter().find(|p| p.item == k && p.dtypes == *dtypes);
                match dtypes.iter().map(of).collect::<Option<Vec<&PlannedKernel>>>() {
                    Some(instances) if diagnostics.is_empty() => expand_kernel(facade, function, &instances),
                    Some(_) | None => expand_broken_kernel(facade, function),
                }
            }
        });
    }
    let sources: Vec<FnSource<'_>> =
        scalars.ops.iter().chain(scalars.reducers.iter().map(|(_, source)| source)).cloned().collect();
    // rustc has an error of its own for a `self` that stands outside an `impl`.
    let has_self = |source: &&FnSource<'_>| source.item.sig.receiver().is_some();
    let own = sources.iter().filter(|source| matches!(source.origin, Origin::Block));
    for source in own.filter(|source| !has_self(source)) {
        items.extend(emit_op(source, &sources, scalars.items, facade));
    }
    items
}

fn is_poisoned(scalars: &ScalarSources<'_>, constant: &ConstItem) -> bool {
    scalars.items.poisoned.contains(&constant.item.ident.to_string())
}

/// What stands in the place of a kernel whose program has errors: its signatures. The bodies cannot run, since the errors
/// beside them end the build.
///
/// `facade` is the path of the facade crate.
fn expand_broken_kernel(facade: &TokenStream, function: &TensorFn) -> TokenStream {
    let signature = Signature::new(facade, function);
    let instances = list_instances(function);
    let body = quote!({ ::core::panic!("this kernel has errors") });
    kernel::expand_interface(
        facade,
        &signature,
        &instances,
        &docs::user_docs(function),
        |_| body.clone(),
        &TokenStream::new(),
    )
}

/// What stands in the place of a kernel whose signature has errors: a name, so that its callers are not wrong too. Its type
/// has a length that is an error, after which rustc asks nothing of its uses; rustc shows the same error at one place once.
fn expand_unread(function: &BrokenFn, diagnostics: &Diagnostics) -> TokenStream {
    let BrokenFn { vis, name, is_kernel } = function;
    let Some(first) = diagnostics.iter().next().filter(|_| *is_kernel) else { return TokenStream::new() };
    let error = first.to_compile_error();
    quote! {
        #[allow(non_camel_case_types, dead_code, reason = "named like the kernel")]
        #vis type #name = [(); #error];
        #[allow(non_upper_case_globals, dead_code, reason = "named like the kernel")]
        #vis const #name: #name = #error;
    }
}

/// The choices of a kernel's generic dtypes: those that its attribute lists, in every combination; where it lists none,
/// the bound's own. One empty choice for a kernel without generic dtypes.
fn list_instances(function: &TensorFn) -> Vec<Vec<DType>> {
    let mut instances = vec![Vec::new()];
    for (name, bound) in function.dtype_generics() {
        let listed = function.kernel.iter().flat_map(|args| &args.dtypes).find(|(listed, _)| listed == name);
        let dtypes: Vec<DType> = match listed {
            Some((_, dtypes)) if !dtypes.is_empty() => dtypes.iter().map(|&(dtype, _)| dtype).collect(),
            Some(_) | None => vec![bound.default_dtype()],
        };
        instances = instances
            .iter()
            .flat_map(|chosen: &Vec<DType>| {
                dtypes.iter().map(move |&dtype| chosen.iter().copied().chain([dtype]).collect())
            })
            .collect();
    }
    instances
}
