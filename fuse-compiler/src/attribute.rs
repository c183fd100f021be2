//! The attribute forms: `#[fuse::op]`, `#[fuse::composite]`, `#[fuse::reduce(..)]` and `#[fuse::kernel(..)]` on an item
//! outside a block.

use crate::diagnostic::{Diagnostics, Place, messages};
use crate::syntax::find_too_deep;
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote;

/// The path of the facade, and the item as a block has it.
///
/// An attribute is not told by which path it was called, so that the facade is `::fuse` unless the argument `crate = path`
/// says otherwise.
pub(crate) fn read_attribute(
    marker: &str,
    arguments: TokenStream,
    item: TokenStream,
    diagnostics: &mut Diagnostics,
) -> (TokenStream, TokenStream) {
    let mut facade = quote!(::fuse);
    let mut rest = Vec::new();
    for argument in split_at_commas(arguments) {
        match &argument[..] {
            [TokenTree::Ident(name), TokenTree::Punct(equals), path @ ..]
                if name == "crate" && equals.as_char() == '=' && !path.is_empty() =>
            {
                facade = path.iter().cloned().collect();
            }
            _ => rest.push(TokenStream::from_iter(argument)),
        }
    }
    // What is nested too deep is reported by the block, without syn.
    if find_too_deep(item.clone()).is_none()
        && let Ok(other) = syn::parse2::<syn::Item>(item.clone())
        && !matches!(other, syn::Item::Fn(_) | syn::Item::Verbatim(_))
    {
        diagnostics.report(messages::attribute_on_other_item(Place::of(&other), marker));
        return (facade, TokenStream::new());
    }
    if let Some(first) = rest.first().filter(|_| matches!(marker, "op" | "composite")) {
        diagnostics.report(messages::marker_argument(Place::of(first), marker));
    }
    let name = Ident::new(marker, Span::call_site());
    let block = match marker {
        "composite" => item,
        "op" => quote!(#[op] #item),
        _ if rest.is_empty() => quote!(#[#name] #item),
        _ => quote!(#[#name(#(#rest),*)] #item),
    };
    (facade, block)
}

fn split_at_commas(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut parts = vec![Vec::new()];
    for token in tokens {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ',' => parts.push(Vec::new()),
            token => parts.last_mut().into_iter().for_each(|part| part.push(token.clone())),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}
