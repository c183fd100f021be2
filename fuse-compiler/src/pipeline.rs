//! The stages of `fuse!`, in order.

use crate::attribute::read_attribute;
use crate::diagnostic::{Diagnostics, Place};
use crate::expand::expand_items;
use crate::import::{
    Answer, Form, Import, ask_imports, check_exports, emit_exports, find_imports, read_answer,
};
use crate::lint::lint_kernels;
use crate::lower::lower_kernels;
use crate::planning::{PlannedKernel, explain_kernels, plan_kernels};
use crate::prelude::{collect_used_ops, says_f64};
use crate::record::{emit_dependency, record_block, record_folder};
use crate::scalar::lower_scalar_items;
use crate::scalar_sources::{
    ScalarSources, collect_consts, collect_imports, collect_ops, collect_reducers, prelude_sources,
};
use crate::syntax::{Block, Item, parse_block};
use proc_macro2::TokenStream;
use quote::quote;

/// Expands a block. `facade` is the path of the facade crate in the user's. The expansion contains the errors; they are in
/// `diagnostics` too. If the block calls items from elsewhere, the expansion asks for these instead, and
/// [`continue_block`] expands the block when they are there.
pub fn expand_block(facade: &TokenStream, tokens: TokenStream, diagnostics: &mut Diagnostics) -> TokenStream {
    start_block(facade, tokens, Form::Block, diagnostics)
}

/// Expands an item under one of the facade's attributes: a block with this item alone. `marker` is the attribute's name,
/// `arguments` are its.
pub fn expand_attribute(
    marker: &str,
    arguments: TokenStream,
    item: TokenStream,
    diagnostics: &mut Diagnostics,
) -> TokenStream {
    let (facade, tokens) = read_attribute(marker, arguments, item, diagnostics);
    start_block(&facade, tokens, Form::Attribute, diagnostics)
}

/// Takes the answer to a question for an import: asks for the next, or expands the block.
pub fn continue_block(answer: TokenStream, diagnostics: &mut Diagnostics) -> TokenStream {
    match read_answer(answer) {
        Some(Answer::Next(question)) => question,
        Some(Answer::Complete { facade, form, collected, block }) => {
            let read = |(path, at, unit): (String, TokenStream, TokenStream)| {
                Import::read(path, Place::of(&at), unit, diagnostics)
            };
            let imports: Vec<Import> = collected.into_iter().map(read).collect();
            let parsed = parse_block(block.clone(), diagnostics);
            finish_block(&facade, &block, &parsed, &imports, form, diagnostics)
        }
        // Only a call that does not come from a block.
        None => TokenStream::new(),
    }
}

fn start_block(
    facade: &TokenStream,
    tokens: TokenStream,
    form: Form,
    diagnostics: &mut Diagnostics,
) -> TokenStream {
    let block = parse_block(tokens.clone(), diagnostics);
    check_exports(&block, form, diagnostics);
    let paths = find_imports(&block);
    if paths.is_empty() {
        return finish_block(facade, &tokens, &block, &[], form, diagnostics);
    }
    // What the block brings into scope has to be there when its imports are looked for.
    let uses =
        block.items.iter().filter_map(|item| if let Item::Use(item) = item { Some(item) } else { None });
    let uses = quote!(#(#uses)*);
    if diagnostics.is_empty() {
        let question = ask_imports(facade, form, &paths, &tokens);
        return quote!(#uses #question);
    }
    // The errors end the build; the answer could not change them.
    let unknown = |(text, path): (String, syn::Path)| Import::unknown(text, Place::of(&path));
    let imports: Vec<Import> = paths.into_iter().map(unknown).collect();
    let items = finish_block(facade, &tokens, &block, &imports, form, diagnostics);
    quote!(#uses #items)
}

fn finish_block(
    facade: &TokenStream,
    tokens: &TokenStream,
    block: &Block,
    imports: &[Import],
    form: Form,
    diagnostics: &mut Diagnostics,
) -> TokenStream {
    let marker = emit_dependency();
    let folder = record_folder();
    let keep_broken = folder.is_some();
    let items =
        with_plans(tokens, block, imports, keep_broken, diagnostics, |sources, planned, diagnostics| {
            explain_kernels(block, &planned);
            if let Some(folder) = &folder {
                record_block(folder, tokens, block, &planned, diagnostics);
            }
            let warnings = lint_kernels(block, &planned, diagnostics);
            // The `use` items of a block with imports stand before the question for these.
            let items = expand_items(facade, block, sources, &planned, imports.is_empty(), diagnostics);
            let exports = emit_exports(block, imports, form, diagnostics);
            quote!(#warnings #items #exports)
        });
    quote!(#marker #items)
}

/// The kernels of a block with their plans for this CPU, for tools that want them as data. What does not compile is left
/// out; the reasons are in `diagnostics`.
pub fn plan_block(tokens: TokenStream, diagnostics: &mut Diagnostics) -> Vec<PlannedKernel> {
    let block = parse_block(tokens.clone(), diagnostics);
    with_plans(&tokens, &block, &[], false, diagnostics, |_, planned, _| planned)
}

/// The stages up to the plans, and what is made of them. `keep_broken` asks for kernels that break their contract, too.
pub(crate) fn with_plans<T>(
    tokens: &TokenStream,
    block: &Block,
    imports: &[Import],
    keep_broken: bool,
    diagnostics: &mut Diagnostics,
    finish: impl FnOnce(&ScalarSources<'_>, Vec<PlannedKernel>, &mut Diagnostics) -> T,
) -> T {
    let in_f64 = says_f64(tokens);
    let prelude =
        collect_used_ops(tokens, block, imports.iter().map(|import| import.path.as_str()), "", in_f64);
    let imported = collect_imports(imports, in_f64);
    let (mut ops, mut reducers) = (collect_ops(block, &prelude), collect_reducers(block));
    ops.extend(imported.ops.iter().cloned().chain(prelude_sources(&imported.prelude)));
    reducers.extend(imported.reducers.iter().cloned());
    let consts: Vec<_> = collect_consts(block).into_iter().chain(imported.consts.iter().cloned()).collect();
    let scalars = lower_scalar_items(&ops, &reducers, &consts, imported.poisoned.clone(), diagnostics);
    let lowered = lower_kernels(block, imports, &scalars, diagnostics);
    let planned = plan_kernels(block, lowered, keep_broken, diagnostics);
    let sources = ScalarSources { ops: &ops, reducers: &reducers, items: &scalars };
    finish(&sources, planned, diagnostics)
}
