//! Asking for imports, one after the other: each answer is the next macro call.

use super::unit::text;
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};

/// How items were written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Inside `fuse!`: what is private is the block's own.
    Block,
    /// One item with an attribute: others are all that can call it.
    Attribute,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::Block => "block",
            Form::Attribute => "attribute",
        }
    }
}

/// What an answer makes of a block: either the next question, or all that was asked for.
pub(crate) enum Answer {
    /// The next macro call.
    Next(TokenStream),
    /// Everything is there.
    Complete {
        /// The path of the facade.
        facade: TokenStream,
        /// How the block was written.
        form: Form,
        /// Each path with its text and what its macro gave.
        collected: Vec<(String, TokenStream, TokenStream)>,
        /// The block.
        block: TokenStream,
    },
}

/// The macro call that asks for the first of `paths`, and through its answer for the others.
pub(crate) fn ask_imports(
    facade: &TokenStream,
    form: Form,
    paths: &[(String, syn::Path)],
    block: &TokenStream,
) -> TokenStream {
    let pending: Vec<_> = paths.iter().map(|(text, path)| (text.clone(), quote!(#path))).collect();
    ask(facade, form, &pending, &TokenStream::new(), block)
}

fn ask(
    facade: &TokenStream,
    form: Form,
    pending: &[(String, TokenStream)],
    collected: &TokenStream,
    block: &TokenStream,
) -> TokenStream {
    let Some((_, path)) = pending.first() else { return TokenStream::new() };
    let form = Ident::new(form.name(), Span::call_site());
    let span = path.clone().into_iter().last().map_or_else(Span::call_site, |token| token.span());
    let pending = pending.iter().map(|(text, path)| quote!(#text (#path)));
    // The name has the span of the path, so that rustc points there if nothing is found.
    let tokens = quote_spanned!(span=> #path::__tokens!);
    quote! {
        #tokens { { #facade::__private::import } [#facade] #form { #(#pending)* } { #collected } { #block } }
    }
}

/// Takes `{unit} [facade] form {pending} {collected} {block}`. `None` if the call comes from no block.
pub(crate) fn read_answer(tokens: TokenStream) -> Option<Answer> {
    let mut tokens = tokens.into_iter();
    let mut group = |delimiter| match tokens.next()? {
        TokenTree::Group(group) if group.delimiter() == delimiter => Some(group.stream()),
        _ => None,
    };
    let unit = group(Delimiter::Brace)?;
    let facade = group(Delimiter::Bracket)?;
    let TokenTree::Ident(form) = tokens.next()? else { return None };
    let form = if form == Form::Attribute.name() { Form::Attribute } else { Form::Block };
    let mut group = || match tokens.next()? {
        TokenTree::Group(group) => Some(group.stream()),
        _ => None,
    };
    let (mut pending, collected, block) = (read_pending(group()?), group()?, group()?);
    let (text, path) = (!pending.is_empty()).then(|| pending.remove(0))?;
    let unit = Group::new(Delimiter::Brace, unit);
    let collected = quote!(#collected #text (#path) #unit);
    if !pending.is_empty() {
        return Some(Answer::Next(ask(&facade, form, &pending, &collected, &block)));
    }
    Some(Answer::Complete { facade, form, collected: read_collected(collected), block })
}

/// `"text" (path)` repeated.
fn read_pending(tokens: TokenStream) -> Vec<(String, TokenStream)> {
    let mut tokens = tokens.into_iter();
    let mut pending = Vec::new();
    while let (Some(TokenTree::Literal(name)), Some(TokenTree::Group(path))) = (tokens.next(), tokens.next())
    {
        pending.push((text(&name), path.stream()));
    }
    pending
}

/// `"text" (path) {unit}` repeated.
fn read_collected(tokens: TokenStream) -> Vec<(String, TokenStream, TokenStream)> {
    let mut tokens = tokens.into_iter();
    let mut collected = Vec::new();
    while let (Some(TokenTree::Literal(name)), Some(TokenTree::Group(path)), Some(TokenTree::Group(unit))) =
        (tokens.next(), tokens.next(), tokens.next())
    {
        collected.push((text(&name), path.stream(), unit.stream()));
    }
    collected
}
