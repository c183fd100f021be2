//! Tokens to items.

use super::attribute::{parse_kernel_args, parse_reduce_args};
use super::nesting::{MOST_NESTED, find_too_deep};
use super::signature::parse_tensor_fn;
use super::{Block, BrokenFn, ConstItem, Item, OpItem, ReduceItem};
use crate::diagnostic::{Diagnostics, Place, messages};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use syn::braced;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::visit_mut::{self, VisitMut};

/// The name by which expressions know an item that stands in a body.
pub(crate) fn name_of_item(item: &syn::Item) -> Option<&Ident> {
    match item {
        syn::Item::Const(item) => Some(&item.ident),
        syn::Item::Static(item) => Some(&item.ident),
        syn::Item::Fn(item) => Some(&item.sig.ident),
        _ => None,
    }
}

/// Takes the tokens of a block and gives its items. Mistakes are reported; an item that cannot be understood at all is
/// left out, so that the others are still checked.
pub fn parse_block(tokens: TokenStream, diagnostics: &mut Diagnostics) -> Block {
    let mut items = Vec::new();
    let mut rest = flatten_invisible_groups(tokens);
    while !rest.is_empty() {
        let end = find_item_end(&rest);
        let after = rest.split_off(end);
        let tokens = std::mem::replace(&mut rest, after);
        if let Some(span) = find_too_deep(tokens.iter().cloned()) {
            diagnostics.report(messages::nested_too_deep(span, MOST_NESTED));
            items.extend(read_broken(&tokens));
            continue;
        }
        match read_item(&tokens) {
            Ok(mut item) => {
                UngroupTypes.visit_item_mut(&mut item);
                items.extend(parse_item(item, diagnostics));
            }
            Err(_) if !is_item(&tokens) => {
                let place = Place::from(tokens[0].span()).to(tokens[tokens.len() - 1].span().into());
                diagnostics.report(messages::item_not_supported(place));
            }
            Err(error) => {
                diagnostics.report_syntax(error);
                items.extend(read_broken(&tokens));
            }
        }
    }
    Block { items: report_duplicates(items, diagnostics) }
}

/// The tokens, with what a `macro_rules!` variable stands for in the place of the group without delimiters that it is
/// put into. Only here, between and within items but not within their bodies, where no operator binds stronger.
pub(super) fn flatten_invisible_groups(tokens: TokenStream) -> Vec<TokenTree> {
    let mut flat = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
                flat.extend(flatten_invisible_groups(group.stream()));
            }
            other => flat.push(other),
        }
    }
    flat
}

/// Takes types out of the groups that a macro's variable (`$t:ty`) puts them into, so that nothing later has to look
/// through them.
struct UngroupTypes;

impl VisitMut for UngroupTypes {
    fn visit_type_mut(&mut self, ty: &mut syn::Type) {
        while let syn::Type::Group(group) = ty {
            *ty = (*group.elem).clone();
        }
        visit_mut::visit_type_mut(self, ty);
    }
}

/// One item. Its tokens are put into braces, since syn places an error at the end of its input at the closing one.
fn read_item(tokens: &[TokenTree]) -> syn::Result<syn::Item> {
    let mut group = Group::new(Delimiter::Brace, tokens.iter().cloned().collect());
    group.set_span(tokens.last().map_or_else(Span::call_site, TokenTree::span));
    let parser = |input: ParseStream<'_>| {
        let content;
        braced!(content in input);
        content.parse()
    };
    parser.parse2(TokenTree::from(group).into())
}

/// Whether tokens begin as an item does, after attributes and visibility.
fn is_item(tokens: &[TokenTree]) -> bool {
    const KEYWORDS: [&str; 18] = [
        "fn",
        "const",
        "use",
        "pub",
        "struct",
        "enum",
        "union",
        "impl",
        "trait",
        "mod",
        "static",
        "type",
        "unsafe",
        "async",
        "extern",
        "macro",
        "macro_rules",
        "auto",
    ];
    let first = tokens.iter().find(|token| matches!(token, TokenTree::Ident(_)));
    first.is_some_and(|token| KEYWORDS.iter().any(|keyword| is_ident(token, keyword)))
}

/// Where the first item ends: after a `;`, or after the braces of a body. Braces before `>` or `,` are an extent in
/// generics. What is no item ends in the same way, so that one mistake costs one item.
fn find_item_end(tokens: &[TokenTree]) -> usize {
    for (k, token) in tokens.iter().enumerate() {
        let ends = match token {
            TokenTree::Punct(punct) => punct.as_char() == ';',
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let next = tokens.get(k + 1);
                let is_value = tokens[..k].iter().any(|t| is_ident(t, "const"))
                    && !tokens[..k].iter().any(|t| is_ident(t, "fn"));
                let in_use = tokens[..k].iter().any(|t| is_ident(t, "use"));
                !is_value
                    && !in_use
                    && !matches!(next, Some(TokenTree::Punct(p)) if matches!(p.as_char(), '>' | ','))
            }
            TokenTree::Group(_) | TokenTree::Ident(_) | TokenTree::Literal(_) => false,
        };
        if ends {
            return k + 1;
        }
    }
    tokens.len()
}

fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == name)
}

/// The name of a function or constant that syn does not understand.
fn read_broken(tokens: &[TokenTree]) -> Option<Item> {
    let keyword = tokens.iter().position(|token| is_ident(token, "fn"));
    let keyword = keyword.or_else(|| tokens.iter().position(|token| is_ident(token, "const")))?;
    let TokenTree::Ident(name) = tokens.get(keyword + 1)? else { return None };
    let attributes = tokens[..keyword].iter().filter_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
            group.stream().into_iter().next()
        }
        _ => None,
    });
    let is_kernel = attributes.into_iter().any(|first| is_ident(&first, "kernel"));
    let public = tokens[..keyword].iter().position(|token| is_ident(token, "pub"));
    let vis = public.map(|start| tokens[start..keyword].iter().cloned().collect());
    let vis = vis.and_then(|tokens| syn::parse2(tokens).ok()).unwrap_or(syn::Visibility::Inherited);
    Some(Item::Broken(Box::new(BrokenFn { vis, name: name.clone(), is_kernel })))
}

/// Which kind of function an attribute makes.
enum Marker {
    Op,
    Reduce(syn::Attribute),
    Kernel(syn::Attribute),
}

fn parse_item(item: syn::Item, diagnostics: &mut Diagnostics) -> Option<Item> {
    match item {
        syn::Item::Fn(function) => Some(parse_function(function, diagnostics)),
        syn::Item::Const(item) => {
            report_cfg(&item.attrs, diagnostics);
            Some(Item::Const(Box::new(ConstItem { item })))
        }
        syn::Item::Use(item) => Some(Item::Use(item)),
        syn::Item::Verbatim(tokens)
            if read_broken(&tokens.clone().into_iter().collect::<Vec<_>>()).is_some() =>
        {
            let end = Place::of(&tokens).end;
            diagnostics.report_syntax(syn::Error::new(end, "expected the body of the function"));
            read_broken(&tokens.into_iter().collect::<Vec<_>>())
        }
        other => {
            diagnostics.report(messages::item_not_supported(Place::of(&other)));
            None
        }
    }
}

fn parse_function(mut function: syn::ItemFn, diagnostics: &mut Diagnostics) -> Item {
    let mut marker: Option<(Marker, Span)> = None;
    let mut kept = Vec::new();
    for attribute in std::mem::take(&mut function.attrs) {
        let name = attribute.path().segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
        let found = match name.as_str() {
            "op" => {
                if !matches!(attribute.meta, syn::Meta::Path(_)) {
                    diagnostics.report(messages::argument_of_op(Place::of(&attribute)));
                }
                Marker::Op
            }
            "reduce" => Marker::Reduce(attribute.clone()),
            "kernel" => Marker::Kernel(attribute.clone()),
            _ => {
                kept.push(attribute);
                continue;
            }
        };
        if marker.is_some() {
            diagnostics.report(messages::second_marker(Place::of(&attribute)));
        } else {
            marker = Some((found, attribute.span()));
        }
    }
    InnerCfg { diagnostics }.visit_item_fn(&function);
    if !matches!(marker, Some((Marker::Kernel(_), _))) {
        report_cfg(&kept, diagnostics);
    }
    function.attrs = kept;
    let broken = |is_kernel| {
        let (vis, name) = (function.vis.clone(), function.sig.ident.clone());
        Item::Broken(Box::new(BrokenFn { vis, name, is_kernel }))
    };
    match marker {
        Some((Marker::Op, _)) => Item::Op(Box::new(OpItem { function })),
        Some((Marker::Reduce(attribute), span)) => match parse_reduce_args(&attribute, diagnostics) {
            Some((identity, ordered)) => {
                Item::Reduce(Box::new(ReduceItem { function, identity, ordered, span }))
            }
            None => broken(false),
        },
        Some((Marker::Kernel(attribute), span)) => {
            let broken = broken(true);
            let args = parse_kernel_args(&attribute, span, diagnostics);
            parse_tensor_fn(function, Some(args), diagnostics).map_or(broken, |f| Item::Fn(Box::new(f)))
        }
        None => {
            let broken = broken(false);
            parse_tensor_fn(function, None, diagnostics).map_or(broken, |f| Item::Fn(Box::new(f)))
        }
    }
}

/// A `#[cfg]` is not evaluated before the macro sees its tokens: only a kernel can carry it on.
fn report_cfg(attrs: &[syn::Attribute], diagnostics: &mut Diagnostics) {
    for attribute in attrs {
        if attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr") {
            diagnostics.report(messages::cfg_inside_block(Place::of(&attribute)));
        }
    }
}

/// Finds `#[cfg]` on parameters, generics and statements, which would be seen as if it were true.
struct InnerCfg<'a> {
    diagnostics: &'a mut Diagnostics,
}

impl<'ast> Visit<'ast> for InnerCfg<'_> {
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        report_cfg(std::slice::from_ref(attribute), self.diagnostics);
    }
}

/// The items without those of a name that an earlier one has: rustc would report them again.
fn report_duplicates(items: Vec<Item>, diagnostics: &mut Diagnostics) -> Vec<Item> {
    let mut seen: Vec<proc_macro2::Ident> = Vec::new();
    let mut kept = Vec::new();
    for item in items {
        let name = match &item {
            Item::Op(op) => Some(&op.function.sig.ident),
            Item::Reduce(reduce) => Some(&reduce.function.sig.ident),
            Item::Const(constant) => Some(&constant.item.ident),
            Item::Fn(function) => Some(&function.name),
            Item::Broken(function) => Some(&function.name),
            Item::Use(_) => None,
        };
        if let Some(name) = name {
            if let Some(first) = seen.iter().find(|s| *s == name) {
                diagnostics.report(messages::item_defined_twice(name, first.span()));
                continue;
            }
            seen.push(name.clone());
        }
        kept.push(item);
    }
    kept
}
