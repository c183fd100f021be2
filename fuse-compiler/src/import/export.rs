//! What an item leaves for those that call it from elsewhere.

use super::chain::Form;
use super::scan::{called_paths, is_known};
use super::{Import, Unit};
use crate::diagnostic::{Diagnostics, Location, messages};
use crate::prelude::{collect_names, item_name};
use crate::record::hash;
use crate::syntax::{Block, Item};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The items of a block that others can call: those that are not private, and each that stands alone under an attribute.
fn exported(block: &Block, form: Form) -> impl Iterator<Item = (&Item, &syn::Visibility, &Ident)> {
    block.items.iter().filter_map(move |item| {
        let (vis, name) = match item {
            Item::Op(op) => (&op.function.vis, &op.function.sig.ident),
            Item::Reduce(reduce) => (&reduce.function.vis, &reduce.function.sig.ident),
            Item::Fn(function) if function.kernel.is_none() => (&function.vis, &function.name),
            Item::Broken(function) if !function.is_kernel => (&function.vis, &function.name),
            Item::Fn(_) | Item::Broken(_) | Item::Const(_) | Item::Use(_) => return None,
        };
        let is_exported = form == Form::Attribute || !matches!(vis, syn::Visibility::Inherited);
        is_exported.then_some((item, vis, name))
    })
}

/// Reports exported items whose names mean something else in every block: a call would reach that, and silently.
pub(crate) fn check_exports(block: &Block, form: Form, diagnostics: &mut Diagnostics) {
    for (_, _, name) in exported(block, form) {
        if is_known(&name.to_string()) {
            diagnostics.report(messages::exported_name_is_known(name));
        }
    }
}

/// The macros and modules of a block's exported items. If the block has errors, they make their callers silent.
pub(crate) fn emit_exports(
    block: &Block,
    imports: &[Import],
    form: Form,
    diagnostics: &Diagnostics,
) -> TokenStream {
    let mut items = TokenStream::new();
    for (item, vis, name) in exported(block, form) {
        let unit = match (diagnostics.is_empty(), item_name(item)) {
            (true, Some(entry)) => print_unit(name, &entry, block, imports),
            (true, None) | (false, _) => Unit::print_unusable(),
        };
        items.extend(emit_export(vis, name, &unit));
    }
    items
}

/// An item with the items of its block and the imports that it needs.
fn print_unit(name: &Ident, entry: &str, block: &Block, imports: &[Import]) -> TokenStream {
    let by_name: BTreeMap<String, &Item> =
        block.items.iter().filter_map(|item| Some((item_name(item)?, item))).collect();
    let mut needed = BTreeSet::new();
    let mut open = vec![entry.to_owned()];
    while let Some(name) = open.pop() {
        let Some(item) = by_name.get(&name).filter(|_| !needed.contains(&name)) else { continue };
        let mut names = BTreeSet::new();
        collect_names(print_item(item), &mut names);
        open.extend(names);
        needed.insert(name);
    }
    // In the order of the block, so that the text does not depend on names.
    let needed = |item: &&Item| item_name(item).is_some_and(|name| needed.contains(&name));
    let items: Vec<&Item> = block.items.iter().filter(needed).collect();
    let paths: BTreeSet<String> = items.iter().flat_map(|item| called_paths(item)).collect();
    let imports = imports.iter().filter(|import| paths.contains(&import.path));
    let tokens: TokenStream = items.into_iter().map(print_item).collect();
    Unit::print(name, &tokens, imports.map(|import| (import.path.as_str(), &import.unit)))
}

/// An item as a block has it, without attributes and visibility, which mean nothing to callers.
fn print_item(item: &Item) -> TokenStream {
    match item {
        Item::Op(op) => {
            let (signature, body) = (&op.function.sig, &op.function.block);
            quote!(#[op] #signature #body)
        }
        Item::Reduce(reduce) => {
            let (signature, body) = (&reduce.function.sig, &reduce.function.block);
            let identity = &reduce.identity;
            let ordered = reduce.ordered.then(|| quote!(, ordered));
            quote!(#[reduce(identity = #identity #ordered)] #signature #body)
        }
        Item::Const(constant) => {
            let syn::ItemConst { ident, ty, expr, .. } = &constant.item;
            quote!(const #ident: #ty = #expr;)
        }
        Item::Fn(function) => {
            let (signature, body) = (&function.signature, &function.body);
            signature.as_ref().map_or_else(TokenStream::new, |signature| quote!(#signature #body))
        }
        Item::Use(_) | Item::Broken(_) => TokenStream::new(),
    }
}

fn emit_export(vis: &syn::Visibility, name: &Ident, unit: &TokenStream) -> TokenStream {
    let is_public = matches!(vis, syn::Visibility::Public(_));
    let hidden = format_ident!("__fuse_tokens_{name}_{:016x}", unique(name, unit), span = Span::call_site());
    let export = is_public.then(|| quote!(#[macro_export]));
    let inner = if is_public { quote!(pub) } else { quote!(pub(crate)) };
    // The module has the span of the item's name, so that a clash of names is shown there.
    quote! {
        #[doc(hidden)]
        #[allow(unused_macros, non_local_definitions, reason = "for whoever calls the item from elsewhere")]
        #export
        macro_rules! #hidden {
            ({ $($callback:tt)* } $($rest:tt)*) => { $($callback)*! { { #unit } $($rest)* } };
        }
        #[doc(hidden)]
        #[allow(unused_imports, unreachable_pub, dead_code, reason = "for whoever calls the item from elsewhere")]
        #vis mod #name {
            #inner use #hidden as __tokens;
        }
    }
}

/// A number that no other item has: exported macros lie at the root of their crate, and one place in the source may be
/// expanded more than once.
fn unique(name: &Ident, unit: &TokenStream) -> u64 {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed).to_string();
    let place = Location::of(name.span()).map_or_else(String::new, |place| place.to_string());
    let crate_name = std::env::var("CARGO_CRATE_NAME").unwrap_or_default();
    hash(&[&crate_name, &place, &count, &unit.to_string()])
}
