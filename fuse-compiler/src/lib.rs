//! Syntax, checks and expansion of the `fuse!` macro.

// Positions of spans are read through the compiler's own type.
extern crate proc_macro;

pub mod diagnostic;

mod attribute;

pub mod scalar;
pub mod syntax;

pub mod prelude;

pub mod import;

pub mod scalar_sources;

pub mod lower;

pub mod planning;

pub mod lint;

mod emit_cuda;

pub mod emit_rust;
pub mod expand;

pub mod record;

pub mod pipeline;
