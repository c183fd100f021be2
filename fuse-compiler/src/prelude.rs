//! Ops and composites that every block can call, written in the language itself.
//!
//! They are looked up by name when a block calls them and parsed then; what the block defines itself goes first. Each is
//! written for f32. Called with f64, a copy with `f64` in place of `f32` is used.

mod activations;
mod layers;
mod losses;
mod norms;

use crate::diagnostic::Diagnostics;
use crate::syntax::{Block, Item, TensorFn, parse_block};
use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// Something that every block can call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreludeItem {
    /// The name.
    pub name: &'static str,
    /// What it is.
    pub kind: PreludeKind,
    /// Formula and shapes, in Markdown.
    pub docs: &'static str,
    /// The item, in the language.
    pub source: &'static str,
}

/// What an item of the prelude is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PreludeKind {
    /// A scalar op, lifted elementwise.
    Op,
    /// A composite over tensors.
    Composite,
}

/// The groups of items, in the order of the documentation.
pub const GROUPS: &[(&str, &[PreludeItem])] = &[
    ("Activations", activations::ITEMS),
    ("Layers", layers::ITEMS),
    ("Normalisation", norms::ITEMS),
    ("Losses and distances", losses::ITEMS),
];

/// Every item.
pub fn items() -> impl Iterator<Item = &'static PreludeItem> {
    GROUPS.iter().flat_map(|(_, items)| items.iter())
}

/// The item of that name.
pub fn find_item(name: &str) -> Option<&'static PreludeItem> {
    items().find(|item| item.name == name)
}

/// The precision for which a copy of an item is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Precision {
    /// As written.
    F32,
    /// With `f64` in place of `f32`.
    F64,
}

/// The name under which the f64 copy of an op is known.
pub fn name_in_f64(name: &str) -> String {
    format!("{F64_SCOPE}{name}")
}

/// Put before the names of f64 copies.
pub(crate) const F64_SCOPE: &str = "f64/";

/// An op of the prelude that a block calls, itself or through others.
#[derive(Clone)]
pub struct UsedOp {
    /// The name by which callers know it: `gelu`, or `f64/gelu`.
    pub name: String,
    /// Put before the names that its body calls: empty, or `f64/`, and in an import its scope.
    pub scope: String,
    /// The function.
    pub item: syn::ItemFn,
}

/// Whether tokens name the dtype f64: what never does needs no f64 copies.
pub fn says_f64(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == "f64",
        TokenTree::Group(group) => says_f64(&group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// The ops of the prelude that a block needs, callees too, with copies for f64 if `in_f64`. What the block defines or imports
/// under their names goes first. `scope` is put before their names: an import has its own.
pub fn collect_used_ops<'a>(
    tokens: &TokenStream,
    block: &Block,
    imported: impl IntoIterator<Item = &'a str>,
    scope: &str,
    in_f64: bool,
) -> Vec<UsedOp> {
    let mut names = BTreeSet::new();
    collect_names(tokens.clone(), &mut names);
    let imported = imported.into_iter().map(str::to_owned);
    let own: BTreeSet<String> = block.items.iter().filter_map(item_name).chain(imported).collect();
    let mut used: BTreeMap<&'static str, &'static PreludeItem> = BTreeMap::new();
    let mut open: Vec<String> = names.iter().filter(|n| !own.contains(*n)).cloned().collect();
    while let Some(name) = open.pop() {
        let Some(item) = find_item(&name) else { continue };
        if used.insert(item.name, item).is_none() {
            let mut called = BTreeSet::new();
            collect_names(tokens_of(item, Precision::F32), &mut called);
            open.extend(called.into_iter().filter(|n| !own.contains(n)));
        }
    }
    let precisions: &[Precision] = if in_f64 { &[Precision::F32, Precision::F64] } else { &[Precision::F32] };
    let mut ops = Vec::new();
    for item in used.values().filter(|item| item.kind == PreludeKind::Op) {
        for &precision in precisions {
            let Some(function) = parse_op(item, precision) else { continue };
            let (name, scope) = match precision {
                Precision::F32 => (format!("{scope}{}", item.name), scope.to_owned()),
                Precision::F64 => (name_in_f64(&format!("{scope}{}", item.name)), name_in_f64(scope)),
            };
            ops.push(UsedOp { name, scope, item: function });
        }
    }
    ops
}

/// The name of an item of a block.
pub(crate) fn item_name(item: &Item) -> Option<String> {
    match item {
        Item::Op(op) => Some(op.function.sig.ident.to_string()),
        Item::Reduce(reduce) => Some(reduce.function.sig.ident.to_string()),
        Item::Const(constant) => Some(constant.item.ident.to_string()),
        Item::Fn(function) => Some(function.name.to_string()),
        Item::Broken(function) => Some(function.name.to_string()),
        Item::Use(_) => None,
    }
}

/// All identifiers: a name that is no call does no harm, the op is then unused.
pub(crate) fn collect_names(tokens: TokenStream, names: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                names.insert(ident.to_string());
            }
            TokenTree::Group(group) => collect_names(group.stream(), names),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// The tokens of an item for one precision. The source is part of the compiler: a test parses every item.
fn tokens_of(item: &PreludeItem, precision: Precision) -> TokenStream {
    let tokens: TokenStream = item.source.parse().unwrap_or_default();
    match precision {
        Precision::F32 => tokens,
        Precision::F64 => tokens.into_iter().map(widen_token).collect(),
    }
}

fn widen_token(token: TokenTree) -> TokenTree {
    match token {
        TokenTree::Ident(ident) if ident == "f32" => Ident::new("f64", ident.span()).into(),
        TokenTree::Group(group) => {
            let inner = group.stream().into_iter().map(widen_token).collect();
            let mut widened = Group::new(group.delimiter(), inner);
            widened.set_span(group.span());
            widened.into()
        }
        TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => token,
    }
}

fn parse_op(item: &PreludeItem, precision: Precision) -> Option<syn::ItemFn> {
    syn::parse2(tokens_of(item, precision)).ok()
}

/// The composite of that name.
pub(crate) fn parse_composite(name: &str, precision: Precision) -> Option<TensorFn> {
    let item = find_item(name).filter(|item| item.kind == PreludeKind::Composite)?;
    let mut diagnostics = Diagnostics::new();
    let block = parse_block(tokens_of(item, precision), &mut diagnostics);
    block
        .items
        .into_iter()
        .find_map(|item| if let Item::Fn(function) = item { Some(*function) } else { None })
}

/// Items of one group, written as they stand in a block.
macro_rules! prelude_items {
    ($($(#[doc = $docs:literal])+ $name:ident: $kind:ident { $($source:tt)+ })+) => {
        pub(super) const ITEMS: &[crate::prelude::PreludeItem] = &[$(
            crate::prelude::PreludeItem {
                name: stringify!($name),
                kind: crate::prelude::PreludeKind::$kind,
                docs: concat!($($docs, "\n"),+),
                source: stringify!($($source)+),
            },
        )+];
    };
}
use prelude_items;

#[cfg(test)]
mod tests;
