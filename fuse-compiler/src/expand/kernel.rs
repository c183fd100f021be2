//! The items of one kernel.

use super::docs;
use super::signature::{Signature, dtype_type, unraw};
use crate::emit_cuda::emit_cuda_sources;
use crate::emit_rust::{emit_functions, emit_group};
use crate::planning::PlannedKernel;
use crate::syntax::TensorFn;
use fuse_ir::dtype::DType;
use fuse_ir::program::Program;
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote};

/// The items of a kernel. `facade` is the path of the facade crate.
pub(super) fn expand_kernel(
    facade: &TokenStream,
    function: &TensorFn,
    instances: &[&PlannedKernel],
) -> TokenStream {
    let signature = Signature::new(facade, function);
    let user = docs::user_docs(function);
    let programs: Vec<_> = instances.iter().map(|i| (i.dtypes.as_slice(), &i.program)).collect();
    let plan = docs::plan_docs(&programs);
    let dtypes: Vec<Vec<DType>> = instances.iter().map(|i| i.dtypes.clone()).collect();
    let test = match &function.kernel {
        Some(args) if args.test => expand_test(facade, &signature, &dtypes),
        Some(_) | None => TokenStream::new(),
    };
    expand_interface(
        facade,
        &signature,
        &dtypes,
        &quote!(#user #plan),
        |k| instances.get(k).map_or_else(TokenStream::new, |i| expand_program(facade, i)),
        &test,
    )
}

/// The body of the hidden function: the loops, and the kernel's static.
fn expand_program(facade: &TokenStream, instance: &PlannedKernel) -> TokenStream {
    let Program { kernel, plan } = &instance.program;
    let functions = emit_functions(facade, kernel);
    let groups: Vec<_> = plan.groups().map(|group| emit_group(facade, kernel, group)).collect();
    let items = groups.iter().map(|group| &group.items);
    let tables = groups.iter().map(|group| &group.functions);
    // Ids and lengths of a plan always fit the encoding.
    let bytes = Literal::byte_string(&instance.program.to_bytes().unwrap_or_default());
    let sources = emit_cuda_sources(facade, &instance.program);
    quote!({
        #functions
        #(#items)*
        static KERNEL: #facade::__private::CompiledKernel =
            #facade::__private::CompiledKernel::new(#bytes, &[#(#tables),*], #sources);
        &KERNEL
    })
}

/// The function, the struct and, with generic dtypes, the trait. `body` is that of the hidden function of an instance.
pub(super) fn expand_interface(
    facade: &TokenStream,
    signature: &Signature<'_>,
    instances: &[Vec<DType>],
    docs: &TokenStream,
    body: impl Fn(usize) -> TokenStream,
    test: &TokenStream,
) -> TokenStream {
    let Signature { function, params, args, output, cfgs, .. } = signature;
    let (vis, name) = (&function.vis, &function.name);
    let generics = signature.generics(facade);
    let generic_arguments = signature.generic_arguments();
    let kernel_type = quote!(&'static #facade::__private::CompiledKernel);
    let (hidden, traits) = match signature.split_dtypes() {
        None => {
            let body = body(0);
            (quote!(#[doc(hidden)] fn __kernel() -> #kernel_type #body), TokenStream::new())
        }
        Some((first, others)) => {
            let trait_name = signature.dtype_trait();
            let arguments = if others.is_empty() { TokenStream::new() } else { quote!(<#(#others),*>) };
            let hidden = quote! {
                #[doc(hidden)]
                fn __kernel #generics () -> #kernel_type { <#first as #trait_name #arguments>::__kernel() }
            };
            (hidden, expand_trait(facade, signature, instances, &body))
        }
    };
    let turbofish =
        if signature.dtypes.is_empty() { TokenStream::new() } else { quote!(::#generic_arguments) };
    let into = expand_into(facade, signature, &generics, &turbofish);
    let struct_docs = format!(
        "What there is to know of the kernel `{}`, and the call that writes to given tensors.",
        unraw(name)
    );
    let mut docs = docs.clone();
    // A function without a word is an error in crates that deny it, and the plan alone is no documentation of a call.
    docs.extend(quote! {
        #[doc = ""]
        #[doc = " # Errors"]
        #[doc = " If the sizes do not fit, an output shares memory with another argument, or the kernel faults."]
    });
    let allow = quote!(#[allow(
        clippy::too_many_arguments, clippy::type_complexity, clippy::needless_pass_by_value,
        clippy::needless_pass_by_ref_mut, reason = "the signature is the kernel's"
    )]);
    quote! {
        #docs
        #(#cfgs)*
        #allow
        #vis fn #name #generics (#(#params),*) -> ::core::result::Result<#output, #facade::Error> {
            #name::__kernel #turbofish ().call(&[#(#args),*])
        }

        #[doc = #struct_docs]
        #(#cfgs)*
        #[allow(non_camel_case_types, dead_code, reason = "named like the kernel; nobody constructs it")]
        #vis struct #name {
            never: ::core::convert::Infallible,
        }

        #(#cfgs)*
        #[allow(
            dead_code, clippy::all, clippy::pedantic, clippy::nursery, non_local_definitions,
            reason = "generated for whoever needs it"
        )]
        impl #name {
            #hidden
            #into

            /// The plan: launches, decisions, bytes.
            #vis fn plan #generics () -> &'static #facade::Plan {
                Self::__kernel #turbofish ().plan()
            }

            /// The program: interface, graph and plan.
            #vis fn program #generics () -> &'static #facade::Program {
                Self::__kernel #turbofish ().program()
            }

            /// The launches as CUDA C++: of each kernel every variant, of which a launch takes the first that fits the call.
            #vis fn cuda_source #generics () -> &'static [#facade::CudaSource] {
                Self::__kernel #turbofish ().cuda_source()
            }

            /// Compares the kernel with its reference; ends with `.run()?`.
            #vis fn verify #generics () -> #facade::Verify {
                #facade::Verify::new(Self::__kernel #turbofish ())
            }
        }

        #traits
        #test
    }
}

/// The call that writes where it is told; nothing for a kernel that has no results.
fn expand_into(
    facade: &TokenStream,
    signature: &Signature<'_>,
    generics: &TokenStream,
    turbofish: &TokenStream,
) -> TokenStream {
    let Signature { function, params, args, result_params, result_args, .. } = signature;
    if result_params.is_empty() {
        return TokenStream::new();
    }
    let vis = &function.vis;
    quote! {
        /// The kernel, written to the tensors given last.
        ///
        /// # Errors
        /// As the kernel itself, and if a tensor has not the shape of its result.
        #vis fn into #generics (
            #(#params,)* #(#result_params),*
        ) -> ::core::result::Result<(), #facade::Error> {
            Self::__kernel #turbofish ().call_into(&[#(#args),*], &[#(#result_args),*])
        }
    }
}

/// The trait that the dtypes of the instances implement.
fn expand_trait(
    facade: &TokenStream,
    signature: &Signature<'_>,
    instances: &[Vec<DType>],
    body: &impl Fn(usize) -> TokenStream,
) -> TokenStream {
    let Some((_, others)) = signature.split_dtypes() else { return TokenStream::new() };
    let trait_name = signature.dtype_trait();
    let (vis, cfgs) = (&signature.function.vis, &signature.cfgs);
    let name = unraw(&signature.function.name);
    let parameters = if others.is_empty() { TokenStream::new() } else { quote!(<#(#others),*>) };
    let mut firsts: Vec<&str> = Vec::new();
    for dtype in instances.iter().filter_map(|dtypes| dtypes.first()) {
        if !firsts.contains(&dtype.name()) {
            firsts.push(dtype.name());
        }
    }
    let message = format!("kernel `{name}` has no instance for `{{Self}}`");
    let label = format!("the instances are {}", firsts.join(", "));
    let note = format!("`#[kernel({} = [..])]` lists the instances", signature.dtypes[0]);
    let implementations = instances.iter().enumerate().map(|(k, dtypes)| {
        let mut types = dtypes.iter().map(|&dtype| dtype_type(facade, dtype, Span::mixed_site()));
        let first = types.next();
        let arguments = if others.is_empty() { TokenStream::new() } else { quote!(<#(#types),*>) };
        let body = body(k);
        quote! {
            #(#cfgs)*
            #[allow(non_local_definitions, reason = "generated beside its trait")]
            impl #trait_name #arguments for #first {
                fn __kernel() -> &'static #facade::__private::CompiledKernel #body
            }
        }
    });
    quote! {
        #[doc(hidden)]
        #(#cfgs)*
        #[allow(non_camel_case_types, reason = "hidden")]
        #[diagnostic::on_unimplemented(message = #message, label = #label, note = #note)]
        #vis trait #trait_name #parameters: #facade::Element {
            fn __kernel() -> &'static #facade::__private::CompiledKernel;
        }
        #(#implementations)*
    }
}

/// `#[kernel(test)]`: a test that verifies every instance.
fn expand_test(facade: &TokenStream, signature: &Signature<'_>, instances: &[Vec<DType>]) -> TokenStream {
    let name = &signature.function.name;
    let cfgs = &signature.cfgs;
    let test_name: Ident = format_ident!("{}_agrees_with_its_reference", unraw(name), span = name.span());
    let runs = instances.iter().map(|dtypes| {
        let types = dtypes.iter().map(|&dtype| dtype_type(facade, dtype, Span::mixed_site()));
        let turbofish = if dtypes.is_empty() { TokenStream::new() } else { quote!(::<#(#types),*>) };
        quote! {
            if let ::core::result::Result::Err(error) = #name::verify #turbofish ().run() {
                ::core::panic!("{}", error);
            }
        }
    });
    quote! {
        #[cfg(test)]
        #(#cfgs)*
        #[::core::prelude::v1::test]
        #[allow(unnameable_test_items, reason = "a kernel in a function's body is verified by its caller")]
        fn #test_name() {
            #(#runs)*
        }
    }
}
