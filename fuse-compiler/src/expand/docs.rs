//! Documentation of what is generated: the user's own, then the plan.

use crate::syntax::TensorFn;
use fuse_ir::dtype::DType;
use fuse_ir::program::Program;
use proc_macro2::TokenStream;
use quote::quote;

/// The user's attributes, documentation included, without `#[cfg]`, which goes to every item.
pub(super) fn user_docs(function: &TensorFn) -> TokenStream {
    let attrs = function.attrs.iter().filter(|attr| !attr.path().is_ident("cfg"));
    quote!(#(#attrs)*)
}

/// A section with the plan of each instance.
pub(super) fn plan_docs(programs: &[(&[DType], &Program)]) -> TokenStream {
    let mut text = String::from("\n# Plan\n");
    for (dtypes, program) in programs {
        if !dtypes.is_empty() {
            let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
            text.push_str(&format!("\nFor `{}`:\n", names.join("`, `")));
        }
        text.push_str(&format!(
            "\n```text\n{}\n```\n",
            program.plan.display(&program.kernel).to_string().trim_end()
        ));
    }
    let lines = text.lines().map(|line| if line.is_empty() { String::new() } else { format!(" {line}") });
    quote!(#(#[doc = #lines])*)
}
