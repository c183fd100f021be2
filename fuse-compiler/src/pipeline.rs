//! The stages of `fuse!`, in order.

use crate::diagnostic::Diagnostics;
use crate::expand::expand_broken_kernel;
use crate::syntax::parse_block;
use proc_macro2::TokenStream;

/// Expands a block. `facade` is the path of the facade crate in the user's.
pub fn expand_block(facade: &TokenStream, tokens: TokenStream) -> TokenStream {
    let mut diagnostics = Diagnostics::new();
    let block = parse_block(tokens, &mut diagnostics);
    let mut items = diagnostics.to_compile_errors();
    for function in block.functions().filter(|f| f.kernel.is_some()) {
        items.extend(expand_broken_kernel(facade, function));
    }
    items
}
