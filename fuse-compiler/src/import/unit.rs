//! An item as it travels: its tokens, those of the items of its block that it calls, and the imports of these.

use super::super::diagnostic::{Diagnostics, Place, messages};
use crate::syntax::{Block, parse_block};
use proc_macro2::{Group, Ident, Literal, TokenStream, TokenTree};
use quote::quote;

/// The version whose tokens this one reads: another may mean something else by them.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// An exported item with all that it needs.
#[derive(Clone)]
pub(crate) struct Unit {
    /// Its name where it is defined.
    name: String,
    /// It, and the items of its block that it calls. Empty if it has errors.
    pub(crate) block: Block,
    /// What `block` is read from.
    pub(crate) items: TokenStream,
    /// What these import, each with the path as they write it.
    imports: Vec<(String, Unit)>,
    /// Whether it could be read and its block has no errors.
    usable: bool,
    /// As it came.
    tokens: TokenStream,
}

impl Unit {
    /// The tokens of an item for others: `"version" name { items } { "path" { unit } .. }`.
    pub(super) fn print<'a>(
        name: &Ident,
        items: &TokenStream,
        imports: impl Iterator<Item = (&'a str, &'a Unit)>,
    ) -> TokenStream {
        let imports = imports.map(|(path, unit)| {
            let tokens = &unit.tokens;
            quote!(#path { #tokens })
        });
        quote!(#VERSION #name { #items } { #(#imports)* })
    }

    /// What stands for an item whose block has errors, which are reported there.
    pub(super) fn print_unusable() -> TokenStream {
        quote!(#VERSION)
    }

    /// Reads the tokens of an item. Errors stand at `place`, where the block names `path`.
    pub(super) fn read(path: &str, place: Place, tokens: TokenStream, diagnostics: &mut Diagnostics) -> Unit {
        let mut parts = tokens.clone().into_iter();
        let version = match parts.next() {
            Some(TokenTree::Literal(version)) => text(&version),
            _ => String::new(),
        };
        if version != VERSION {
            diagnostics.report(messages::import_of_other_version(place, path, &version, VERSION));
            return Unit::unusable(tokens);
        }
        let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(items)), Some(TokenTree::Group(imports))) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Unit::unusable(tokens);
        };
        let items = items.stream();
        let block = diagnostics.report_inside(Some((place, path)), |inner| parse_block(items.clone(), inner));
        let imports = read_imports(path, place, &imports, diagnostics);
        Unit { name: name.to_string(), block, items, imports, usable: true, tokens }
    }

    /// An item of which nothing is known, and whose calls are silent.
    pub(super) fn unusable(tokens: TokenStream) -> Unit {
        let block = Block { items: Vec::new() };
        Unit {
            name: String::new(),
            block,
            items: TokenStream::new(),
            imports: Vec::new(),
            usable: false,
            tokens,
        }
    }

    /// Whether its calls have a meaning.
    pub(crate) fn is_usable(&self) -> bool {
        self.usable
    }

    /// What is put before the names that the bodies of an item known as `key` call.
    pub(crate) fn scope(key: &str) -> String {
        format!("{key}/")
    }

    /// The key of one of its items, if it is itself known as `key`.
    pub(crate) fn key_of(&self, key: &str, item: &str) -> String {
        if item == self.name { key.to_owned() } else { format!("{}{item}", Unit::scope(key)) }
    }

    /// The paths of what its items import.
    pub(crate) fn import_paths(&self) -> impl Iterator<Item = &str> {
        self.imports.iter().map(|(path, _)| path.as_str())
    }

    /// Visits it, known as `key`, and what it imports.
    pub(super) fn for_each<'a>(&'a self, key: &str, visit: &mut dyn FnMut(&str, &'a Unit)) {
        visit(key, self);
        for (path, unit) in &self.imports {
            unit.for_each(&format!("{}{path}", Unit::scope(key)), visit);
        }
    }
}

fn read_imports(
    path: &str,
    place: Place,
    imports: &Group,
    diagnostics: &mut Diagnostics,
) -> Vec<(String, Unit)> {
    let mut read = Vec::new();
    let mut tokens = imports.stream().into_iter();
    while let (Some(TokenTree::Literal(name)), Some(TokenTree::Group(unit))) = (tokens.next(), tokens.next())
    {
        read.push((text(&name), Unit::read(path, place, unit.stream(), diagnostics)));
    }
    read
}

/// The text of a string literal without escapes, as paths and versions are.
pub(super) fn text(literal: &Literal) -> String {
    literal.to_string().trim_matches('"').to_owned()
}
