//! The `fuse!` procedural macro: tokens in, `fuse-compiler`, tokens out.
//!
//! Users write `fuse!` of the facade crate. That is a `macro_rules!` which passes on `$crate`, so that the expansion finds
//! the facade under whatever name the user's crate knows it.

use proc_macro::TokenStream;
use proc_macro2::TokenTree;

/// `expand! { [path of the facade] .. }`: what `fuse! { .. }` becomes.
#[proc_macro]
pub fn expand(tokens: TokenStream) -> TokenStream {
    let mut tokens = proc_macro2::TokenStream::from(tokens).into_iter();
    match tokens.next() {
        Some(TokenTree::Group(facade)) => {
            let mut diagnostics = fuse_compiler::diagnostic::Diagnostics::new();
            fuse_compiler::pipeline::expand_block(&facade.stream(), tokens.collect(), &mut diagnostics).into()
        }
        // Only a call that does not come from the facade's macro.
        Some(_) | None => TokenStream::new(),
    }
}
