//! The CUDA C++ of a program, as the binary carries it.

use fuse_ir::kernel_ir;
use fuse_ir::lower::{LowerOptions, lower_launch};
use fuse_ir::print_cuda::print_cuda;
use fuse_ir::program::Program;
use proc_macro2::{Literal, TokenStream};
use quote::quote;

/// The kernels of a program as CUDA runs them, each with the numbers of its launch, its step in that and its variant of the
/// step; for 32-bit indices, those for 64-bit ones, which few calls need, are printed when one does. A launch that cannot be
/// lowered has none, and says so when it is called on a GPU.
///
/// The shared memory of a block is no part of a text: it decides at the call which variants fit.
pub(crate) fn lower_variants(program: &Program) -> Vec<([usize; 3], kernel_ir::Kernel)> {
    let options = LowerOptions { wide: false, shared_memory: u64::MAX };
    let mut kernels = Vec::new();
    for launch in 0..program.plan.launches.len() {
        let Ok(lowered) = lower_launch(program, launch, &options) else { continue };
        for (step, variants) in lowered.steps.into_iter().enumerate() {
            for (variant, lowered) in variants.into_iter().enumerate() {
                kernels.push(([launch, step, variant], lowered.kernel));
            }
        }
    }
    kernels
}

/// A list with the text of each.
pub(crate) fn emit_cuda_sources(facade: &TokenStream, program: &Program) -> TokenStream {
    let sources = lower_variants(program).into_iter().map(|(numbers, kernel)| {
        let [launch, step, variant] = numbers.map(Literal::usize_unsuffixed);
        let text = print_cuda(&kernel);
        quote! {
            #facade::__private::CudaSource { launch: #launch, step: #step, variant: #variant, text: #text }
        }
    });
    quote!(&[#(#sources),*])
}
