//! The arguments of `#[kernel(..)]` and `#[reduce(..)]`.

use super::KernelArgs;
use crate::diagnostic::{Diagnostics, Place, messages};
use crate::lint::{Lint, LintLevel};
use fuse_ir::dtype::DType;
use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{Token, bracketed, parenthesized};

/// Reads `#[kernel]` or `#[kernel(launches = 1, assume(M = 4096), T = [f32, f16], explain, fast, test, warn(unfused))]`.
pub(super) fn parse_kernel_args(
    attribute: &syn::Attribute,
    span: Span,
    diagnostics: &mut Diagnostics,
) -> KernelArgs {
    let mut args = KernelArgs {
        span,
        launches: None,
        assume: Vec::new(),
        dtypes: Vec::new(),
        explain: false,
        fast: false,
        test: false,
        lints: Vec::new(),
    };
    match &attribute.meta {
        syn::Meta::Path(_) => return args,
        syn::Meta::List(_) => {}
        syn::Meta::NameValue(_) => {
            diagnostics.report(messages::kernel_argument_expected(Place::of(attribute)));
            return args;
        }
    }
    let parser = |input: ParseStream<'_>| -> syn::Result<()> {
        while !input.is_empty() {
            parse_kernel_arg(input, &mut args, diagnostics)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    };
    if let Err(error) = attribute.parse_args_with(parser) {
        diagnostics.report_syntax(error);
    }
    args
}

fn parse_kernel_arg(
    input: ParseStream<'_>,
    args: &mut KernelArgs,
    diagnostics: &mut Diagnostics,
) -> syn::Result<()> {
    let name = input.call(Ident::parse_any)?;
    match name.to_string().as_str() {
        "launches" => {
            input.parse::<Token![=]>()?;
            let number: syn::LitInt = input.parse()?;
            args.launches = Some((number.base10_parse()?, number.span()));
        }
        "assume" => {
            let content;
            parenthesized!(content in input);
            while !content.is_empty() {
                let axis: Ident = content.parse()?;
                content.parse::<Token![=]>()?;
                let number: syn::LitInt = content.parse()?;
                args.assume.push((axis, number.base10_parse()?));
                if !content.is_empty() {
                    content.parse::<Token![,]>()?;
                }
            }
        }
        "explain" => args.explain = true,
        "fast" => args.fast = true,
        "test" => args.test = true,
        "allow" | "warn" | "deny" if input.peek(syn::token::Paren) => {
            let level = match name.to_string().as_str() {
                "allow" => LintLevel::Allow,
                "warn" => LintLevel::Warn,
                _ => LintLevel::Deny,
            };
            let content;
            parenthesized!(content in input);
            for name in Punctuated::<Ident, Token![,]>::parse_terminated(&content)? {
                match Lint::ALL.into_iter().find(|lint| name == lint.name()) {
                    Some(lint) => args.lints.push((lint, level)),
                    None => {
                        diagnostics.report(messages::unknown_lint(&name));
                    }
                }
            }
        }
        text if input.peek(Token![=])
            && (input.peek2(syn::token::Bracket) || text.starts_with(|c: char| c.is_uppercase())) =>
        {
            input.parse::<Token![=]>()?;
            let content;
            bracketed!(content in input);
            let names = Punctuated::<Ident, Token![,]>::parse_terminated(&content)?;
            let mut dtypes: Vec<(DType, Span)> = Vec::new();
            for n in names {
                match DType::from_name(&n.to_string()) {
                    Some(d) if dtypes.iter().any(|(seen, _)| *seen == d) => {
                        diagnostics.report(messages::dtype_listed_twice(&n));
                    }
                    Some(d) => dtypes.push((d, n.span())),
                    None => {
                        diagnostics.report(messages::unknown_dtype(&n));
                    }
                }
            }
            args.dtypes.push((name, dtypes));
        }
        _ => {
            diagnostics.report(messages::unknown_kernel_argument(&name));
            // What belongs to the unknown argument is skipped, so that it is reported once.
            while !input.is_empty() && !input.peek(Token![,]) {
                input.parse::<proc_macro2::TokenTree>()?;
            }
        }
    }
    Ok(())
}

/// Reads `#[reduce(identity = .., ordered)]`.
pub(super) fn parse_reduce_args(
    attribute: &syn::Attribute,
    diagnostics: &mut Diagnostics,
) -> Option<(syn::Expr, bool)> {
    let span = attribute.path().segments.last().map_or_else(Span::call_site, |s| s.ident.span());
    let mut identity = None;
    let mut ordered = false;
    if matches!(attribute.meta, syn::Meta::List(_)) {
        let parser = |input: ParseStream<'_>| -> syn::Result<()> {
            while !input.is_empty() {
                let name: Ident = input.parse()?;
                if name == "identity" {
                    input.parse::<Token![=]>()?;
                    identity = Some(input.parse::<syn::Expr>()?);
                } else if name == "ordered" {
                    ordered = true;
                } else {
                    diagnostics.report(messages::unknown_reduce_argument(&name));
                    while !input.is_empty() && !input.peek(Token![,]) {
                        input.parse::<proc_macro2::TokenTree>()?;
                    }
                }
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        if let Err(error) = attribute.parse_args_with(parser) {
            diagnostics.report_syntax(error);
            return None;
        }
    }
    if identity.is_none() {
        diagnostics.report(messages::identity_missing(span));
    }
    Some((identity?, ordered))
}
