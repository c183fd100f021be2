//! The CUDA C++ of a program, as the binary carries it.

use fuse_ir::lower::{LowerOptions, lower_launch};
use fuse_ir::print_cuda::print_cuda;
use fuse_ir::program::Program;
use proc_macro2::{Literal, TokenStream};
use quote::quote;

/// A list with the text of each variant of each kernel of each launch, for 32-bit indices; those for 64-bit ones, which few
/// calls need, are printed when one does. A launch that cannot be lowered has none, and says so when it is called on a GPU.
///
/// The shared memory of a block is no part of a text: it decides at the call which variants fit.
pub(crate) fn emit_cuda_sources(facade: &TokenStream, program: &Program) -> TokenStream {
    let options = LowerOptions { wide: false, shared_memory: u64::MAX };
    let mut sources = Vec::new();
    for launch in 0..program.plan.launches.len() {
        let Ok(lowered) = lower_launch(program, launch, &options) else { continue };
        for (step, variants) in lowered.steps.iter().enumerate() {
            for (variant, kernel) in variants.iter().enumerate() {
                let numbers = [launch, step, variant].map(Literal::usize_unsuffixed);
                let [launch, step, variant] = numbers;
                let text = print_cuda(&kernel.kernel);
                sources.push(quote! {
                    #facade::__private::CudaSource { launch: #launch, step: #step, variant: #variant, text: #text }
                });
            }
        }
    }
    quote!(&[#(#sources),*])
}
