//! Tokens to items.

use super::attribute::{parse_kernel_args, parse_reduce_args};
use super::signature::parse_tensor_fn;
use super::{Block, ConstItem, Item, OpItem, ReduceItem};
use crate::diagnostic::{Diagnostics, Place, messages};
use proc_macro2::{Span, TokenStream};
use syn::parse::Parser;
use syn::spanned::Spanned;

/// Takes the tokens of a block and gives its items. Mistakes are reported; an item that cannot be understood at all is
/// left out, so that the others are still checked.
pub fn parse_block(tokens: TokenStream, diagnostics: &mut Diagnostics) -> Block {
    let parser = |input: syn::parse::ParseStream<'_>| -> syn::Result<Vec<syn::Item>> {
        let mut items = Vec::new();
        while !input.is_empty() {
            items.push(input.parse()?);
        }
        Ok(items)
    };
    let parsed = match parser.parse2(tokens) {
        Ok(items) => items,
        Err(error) => {
            diagnostics.report_syntax(error);
            Vec::new()
        }
    };
    let mut items = Vec::new();
    for item in parsed {
        if let Some(item) = parse_item(item, diagnostics) {
            items.push(item);
        }
    }
    report_duplicates(&items, diagnostics);
    Block { items }
}

/// Which kind of function an attribute makes.
enum Marker {
    Op,
    Reduce(syn::Attribute),
    Kernel(syn::Attribute),
}

fn parse_item(item: syn::Item, diagnostics: &mut Diagnostics) -> Option<Item> {
    match item {
        syn::Item::Fn(function) => parse_function(function, diagnostics),
        syn::Item::Const(item) => {
            report_cfg(&item.attrs, diagnostics);
            Some(Item::Const(Box::new(ConstItem { item })))
        }
        syn::Item::Use(item) => Some(Item::Use(item)),
        other => {
            diagnostics.report(messages::item_not_supported(Place::of(&other)));
            None
        }
    }
}

fn parse_function(mut function: syn::ItemFn, diagnostics: &mut Diagnostics) -> Option<Item> {
    let mut marker: Option<(Marker, Span)> = None;
    let mut kept = Vec::new();
    for attribute in std::mem::take(&mut function.attrs) {
        let name = attribute.path().segments.last().map(|s| s.ident.to_string()).unwrap_or_default();
        let found = match name.as_str() {
            "op" => Marker::Op,
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
    if !matches!(marker, Some((Marker::Kernel(_), _))) {
        report_cfg(&kept, diagnostics);
    }
    function.attrs = kept;
    match marker {
        Some((Marker::Op, _)) => Some(Item::Op(Box::new(OpItem { function }))),
        Some((Marker::Reduce(attribute), span)) => {
            let (identity, ordered) = parse_reduce_args(&attribute, diagnostics)?;
            Some(Item::Reduce(Box::new(ReduceItem { function, identity, ordered, span })))
        }
        Some((Marker::Kernel(attribute), span)) => {
            let args = parse_kernel_args(&attribute, span, diagnostics);
            let function = parse_tensor_fn(function, Some(args), diagnostics)?;
            Some(Item::Fn(Box::new(function)))
        }
        None => parse_tensor_fn(function, None, diagnostics).map(|f| Item::Fn(Box::new(f))),
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

fn report_duplicates(items: &[Item], diagnostics: &mut Diagnostics) {
    let mut seen: Vec<&proc_macro2::Ident> = Vec::new();
    for item in items {
        let name = match item {
            Item::Op(op) => &op.function.sig.ident,
            Item::Reduce(reduce) => &reduce.function.sig.ident,
            Item::Const(constant) => &constant.item.ident,
            Item::Fn(function) => &function.name,
            Item::Use(_) => continue,
        };
        match seen.iter().find(|s| **s == name) {
            Some(first) => {
                diagnostics.report(messages::item_defined_twice(name, first.span()));
            }
            None => seen.push(name),
        }
    }
}
