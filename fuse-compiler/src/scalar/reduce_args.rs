//! The arguments of `#[reduce(identity = .., ordered)]`.

use super::ReduceArgs;
use crate::diagnostic::{Diagnostics, Place, Reported, messages};
use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser};

enum Argument {
    Identity(Box<syn::Expr>),
    Ordered,
    Unknown(syn::Ident),
}

impl ReduceArgs {
    /// Reads what stands in the parentheses of the attribute, which is at `attribute`.
    pub fn read(
        tokens: TokenStream,
        attribute: Place,
        diagnostics: &mut Diagnostics,
    ) -> Result<ReduceArgs, Reported> {
        let parser = |input: ParseStream<'_>| input.parse_terminated(read_argument, syn::Token![,]);
        let arguments = parser.parse2(tokens).map_err(|error| diagnostics.report_syntax(error))?;
        let (mut identity, mut ordered, mut failed) = (None, false, None);
        for argument in arguments {
            match argument {
                Argument::Identity(expr) => identity = Some(*expr),
                Argument::Ordered => ordered = true,
                Argument::Unknown(name) => {
                    let error = messages::unknown_reduce_argument(Place::of(&name), &name.to_string());
                    failed = Some(diagnostics.report(error));
                }
            }
        }
        match (failed, identity) {
            (Some(reported), _) => Err(reported),
            (None, Some(identity)) => Ok(ReduceArgs { identity, ordered }),
            (None, None) => Err(diagnostics.report(messages::reduce_without_identity(attribute))),
        }
    }
}

fn read_argument(input: ParseStream<'_>) -> syn::Result<Argument> {
    let name: syn::Ident = input.parse()?;
    if name == "identity" {
        input.parse::<syn::Token![=]>()?;
        return Ok(Argument::Identity(Box::new(input.parse()?)));
    }
    if name == "ordered" {
        return Ok(Argument::Ordered);
    }
    // What follows an unknown name is skipped, so that the name alone is the error.
    while !input.is_empty() && !input.peek(syn::Token![,]) {
        input.parse::<proc_macro2::TokenTree>()?;
    }
    Ok(Argument::Unknown(name))
}
