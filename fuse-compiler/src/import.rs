//! Ops, composites and combiners of other blocks, modules and crates, called by their ordinary Rust paths.
//!
//! An item that others may call travels as tokens. Beside its function it leaves a `macro_rules!` that puts the tokens of
//! the item, and of everything that it calls, before whatever it is given, and a module of the item's name through which
//! that macro is found:
//!
//! ```text
//! pub mod gelu { pub use __fuse_tokens_gelu_1f.. as __tokens; }
//! ```
//!
//! So `use`, globs, renames and re-exports that bring the function bring its tokens. A block that calls a path which is
//! none of its own becomes `path::__tokens! { {callback} [facade] form {pending} {collected} {block} }`; the callback
//! collects, asks the next, and expands the block at the end. A block without such calls is expanded at once.
//!
//! A macro cannot know what a name means outside its tokens. A single name that the language or the prelude has is
//! therefore theirs, unless the block defines it or names it in a `use`, and an item of such a name cannot be exported;
//! any other name that the block lacks is asked for. What rustc cannot find is its error at that name.

mod chain;
mod export;
mod scan;
mod unit;

pub(crate) use chain::{Answer, Form, ask_imports, read_answer};
pub(crate) use export::{check_exports, emit_exports};
pub(crate) use scan::find_imports;
pub(crate) use unit::Unit;

use crate::diagnostic::{Diagnostics, Place};
use proc_macro2::TokenStream;

/// An item that a block calls and that another defines.
#[derive(Clone)]
pub struct Import {
    /// The path as the block writes it.
    pub(crate) path: String,
    /// Where the block first names it.
    pub(crate) place: Place,
    /// What it is.
    pub(crate) unit: Unit,
}

impl Import {
    /// Reads what the item's macro gave.
    pub(crate) fn read(
        path: String,
        place: Place,
        tokens: TokenStream,
        diagnostics: &mut Diagnostics,
    ) -> Import {
        let unit = Unit::read(&path, place, tokens, diagnostics);
        Import { path, place, unit }
    }

    /// An item that is not looked at, since the block has errors of its own: calls of it are silent.
    pub(crate) fn unknown(path: String, place: Place) -> Import {
        Import { path, place, unit: Unit::unusable(TokenStream::new()) }
    }

    /// Visits the item and what came with it, each with the key under which the block knows it.
    pub(crate) fn for_each_unit<'a>(&'a self, visit: &mut dyn FnMut(&str, &'a Unit)) {
        self.unit.for_each(&self.path, visit);
    }
}

#[cfg(test)]
mod tests;
