//! What the bodies of a block call that the block has not.

use crate::lower::{is_language_function, is_similar, path_text, ungroup};
use crate::prelude::{find_item, item_name};
use crate::syntax::{Block, Item};
use fuse_ir::dtype::DType;
use std::collections::BTreeSet;
use syn::visit::{self, Visit};

/// The paths that have to be asked for, in the order of their first call, each with its text.
pub(crate) fn find_imports(block: &Block) -> Vec<(String, syn::Path)> {
    let own: BTreeSet<String> = block.items.iter().filter_map(item_name).collect();
    let named: BTreeSet<String> = block.items.iter().flat_map(names_of_use).collect();
    let mut calls = Calls::default();
    for item in &block.items {
        calls.visit_body_of(item);
    }
    let mut seen = BTreeSet::new();
    let mut found = calls.found;
    found.retain(|path| {
        let text = path_text(path);
        let is_import = match text.split_once("::") {
            None => {
                !own.contains(&text)
                    && (named.contains(&text) || !is_known(&text) && !is_misspelt(&text, &own))
            }
            // `f32::max`, `T::from`, `std::mem::swap` are none.
            Some((first, _)) => !starts_like_a_type(first) && !matches!(first, "std" | "core" | "alloc"),
        };
        is_import && seen.insert(text)
    });
    found.into_iter().map(|path| (path_text(&path), path)).collect()
}

/// The texts of the paths that an item calls.
pub(super) fn called_paths(item: &Item) -> BTreeSet<String> {
    let mut calls = Calls::default();
    calls.visit_body_of(item);
    calls.found.iter().map(path_text).collect()
}

/// Whether a single name means something in every block.
pub(super) fn is_known(name: &str) -> bool {
    is_language_function(name) || find_item(name).is_some() || starts_like_a_type(name)
}

fn starts_like_a_type(name: &str) -> bool {
    DType::from_name(name).is_some() || name.starts_with(|c: char| c.is_uppercase())
}

/// Whether a name is probably meant to be one that the block knows: a letter is missing, or two are exchanged. Names that
/// differ in a number are meant.
fn is_misspelt(name: &str, own: &BTreeSet<String>) -> bool {
    let letters = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    let sorted = |name: &str| {
        let mut bytes = name.as_bytes().to_vec();
        bytes.sort_unstable();
        bytes
    };
    let close = |known: &str| {
        is_similar(known, name) && letters(known) != letters(name) || sorted(known) == sorted(name)
    };
    own.iter().any(|known| close(known)) || crate::prelude::items().any(|item| close(item.name))
}

/// The names that a `use` of the block brings, those of a glob aside.
fn names_of_use(item: &Item) -> Vec<String> {
    fn collect(tree: &syn::UseTree, names: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => collect(&path.tree, names),
            syn::UseTree::Name(name) => names.push(name.ident.to_string()),
            syn::UseTree::Rename(rename) => names.push(rename.rename.to_string()),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| collect(tree, names)),
            syn::UseTree::Glob(_) => {}
        }
    }
    let mut names = Vec::new();
    if let Item::Use(item) = item {
        collect(&item.tree, &mut names);
    }
    names
}

/// The paths that bodies call, without generic arguments. What a body binds itself, by a parameter, `let` or `fn`, is
/// nothing from elsewhere.
#[derive(Default)]
struct Calls {
    found: Vec<syn::Path>,
    found_in_body: Vec<syn::Path>,
    bound: BTreeSet<String>,
}

impl Calls {
    fn visit_body_of(&mut self, item: &Item) {
        match item {
            Item::Op(op) => {
                self.visit_signature(&op.function.sig);
                self.visit_block(&op.function.block);
            }
            Item::Reduce(reduce) => {
                self.visit_signature(&reduce.function.sig);
                self.visit_block(&reduce.function.block);
                self.visit_expr(&reduce.identity);
            }
            Item::Fn(function) => {
                self.bound.extend(function.params.iter().map(|param| param.name.to_string()));
                self.visit_block(&function.body);
            }
            Item::Const(_) | Item::Use(_) | Item::Broken(_) => {}
        }
        let bound = std::mem::take(&mut self.bound);
        let found = std::mem::take(&mut self.found_in_body);
        self.found.extend(found.into_iter().filter(|path| !bound.contains(&path_text(path))));
    }

    fn add(&mut self, callee: &syn::Expr) {
        let syn::Expr::Path(callee) = ungroup(callee) else { return };
        if callee.qself.is_none() {
            let mut path = callee.path.clone();
            path.segments.iter_mut().for_each(|segment| segment.arguments = syn::PathArguments::None);
            self.found_in_body.push(path);
        }
    }
}

impl<'ast> Visit<'ast> for Calls {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.bound.insert(pattern.ident.to_string());
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.bound.insert(function.sig.ident.to_string());
        visit::visit_item_fn(self, function);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        self.add(&call.func);
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        // `x.reduce(N, best)` names its combiner without calling it.
        if let Some(combiner) = call.args.iter().nth(1).filter(|_| call.method == "reduce") {
            self.add(combiner);
        }
        visit::visit_expr_method_call(self, call);
    }
}
