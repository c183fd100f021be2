//! The procedural macros: tokens in, `fuse-compiler`, tokens out. The facade crate documents them.
//!
//! Users write `fuse!` of the facade crate. That is a `macro_rules!` which passes on `$crate`, so that the expansion finds
//! the facade under whatever name the user's crate knows it.

use fuse_compiler::diagnostic::Diagnostics;
use fuse_compiler::pipeline::{continue_block, expand_attribute, expand_block};
use proc_macro::TokenStream;
use proc_macro2::TokenTree;

/// `expand! { [path of the facade] .. }`: what `fuse! { .. }` becomes.
#[proc_macro]
pub fn expand(tokens: TokenStream) -> TokenStream {
    let mut tokens = proc_macro2::TokenStream::from(tokens).into_iter();
    match tokens.next() {
        Some(TokenTree::Group(facade)) => {
            expand_block(&facade.stream(), tokens.collect(), &mut Diagnostics::new()).into()
        }
        // Only a call that does not come from the facade's macro.
        Some(_) | None => TokenStream::new(),
    }
}

/// What the macro of an imported item calls with the item and the block that asked for it.
#[proc_macro]
pub fn import(tokens: TokenStream) -> TokenStream {
    continue_block(tokens.into(), &mut Diagnostics::new()).into()
}

/// `#[op]` of a block, on a function outside of one.
#[proc_macro_attribute]
pub fn op(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand_item("op", arguments, item)
}

/// A composite outside a block.
#[proc_macro_attribute]
pub fn composite(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand_item("composite", arguments, item)
}

/// `#[reduce(..)]` of a block, on a function outside of one.
#[proc_macro_attribute]
pub fn reduce(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand_item("reduce", arguments, item)
}

/// `#[kernel(..)]` of a block, on a function outside of one.
#[proc_macro_attribute]
pub fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand_item("kernel", arguments, item)
}

fn expand_item(marker: &str, arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand_attribute(marker, arguments.into(), item.into(), &mut Diagnostics::new()).into()
}
