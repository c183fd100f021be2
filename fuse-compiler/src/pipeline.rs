//! The stages of `fuse!`, in order.

use crate::diagnostic::Diagnostics;
use crate::expand::expand_items;
use crate::lint::lint_kernels;
use crate::lower::lower_kernels;
use crate::planning::{PlannedKernel, explain_kernels, plan_kernels};
use crate::prelude::collect_used_ops;
use crate::record::{emit_dependency, record_block, record_folder};
use crate::scalar::lower_scalar_items;
use crate::scalar_sources::{ScalarSources, collect_consts, collect_ops, collect_reducers};
use crate::syntax::{Block, parse_block};
use proc_macro2::TokenStream;
use quote::quote;

/// Expands a block. `facade` is the path of the facade crate in the user's. The expansion contains the errors; they are in
/// `diagnostics` too.
pub fn expand_block(facade: &TokenStream, tokens: TokenStream, diagnostics: &mut Diagnostics) -> TokenStream {
    let marker = emit_dependency();
    let folder = record_folder();
    let items =
        with_plans(tokens.clone(), folder.is_some(), diagnostics, |block, sources, planned, diagnostics| {
            explain_kernels(block, &planned);
            if let Some(folder) = &folder {
                record_block(folder, &tokens, block, &planned, diagnostics);
            }
            let warnings = lint_kernels(block, &planned, diagnostics);
            let items = expand_items(facade, block, sources, &planned, diagnostics);
            quote!(#warnings #items)
        });
    quote!(#marker #items)
}

/// The kernels of a block with their plans for this CPU, for tools that want them as data. What does not compile is left
/// out; the reasons are in `diagnostics`.
pub fn plan_block(tokens: TokenStream, diagnostics: &mut Diagnostics) -> Vec<PlannedKernel> {
    with_plans(tokens, false, diagnostics, |_, _, planned, _| planned)
}

/// The stages up to the plans, and what is made of them. `keep_broken` asks for kernels that break their contract, too.
pub(crate) fn with_plans<T>(
    tokens: TokenStream,
    keep_broken: bool,
    diagnostics: &mut Diagnostics,
    finish: impl FnOnce(&Block, &ScalarSources<'_>, Vec<PlannedKernel>, &mut Diagnostics) -> T,
) -> T {
    let block = parse_block(tokens.clone(), diagnostics);
    let prelude = collect_used_ops(&tokens, &block);
    let ops = collect_ops(&block, &prelude);
    let reducers = collect_reducers(&block);
    let scalars = lower_scalar_items(&ops, &reducers, &collect_consts(&block), diagnostics);
    let lowered = lower_kernels(&block, &scalars, diagnostics);
    let planned = plan_kernels(&block, lowered, keep_broken, diagnostics);
    let sources = ScalarSources { ops: &ops, reducers: &reducers, items: &scalars };
    finish(&block, &sources, planned, diagnostics)
}
