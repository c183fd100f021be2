//! Errors in scalar functions, combiners and constants.

use super::super::{Diagnostic, Place};
use fuse_ir::dtype::DType;
use proc_macro2::Span;

/// Rule 9: an op's parameters, results and variables are f32, f64, integers or bool.
///
/// ```text
/// #[op] fn f(x: f16) -> f32 { x }
///               ^^^
/// ```
pub fn narrow_float_in_scalar(at: Place, dtype: DType) -> Diagnostic {
    Diagnostic::new(
        "narrow_float_in_scalar",
        at,
        format!("`{dtype}` cannot be the type of a value in a scalar op"),
    )
    .note(format!("`{dtype}` is for storage; values of it widen to `f32` by themselves"))
    .help("write `f32`")
}

/// Rule 10: numbers, truth values and tuples of them are all there is.
///
/// ```text
/// #[op] fn f(x: String) -> f32 { 0.0 }
///               ^^^^^^
/// ```
pub fn unsupported_scalar_type(at: Place, name: &str) -> Diagnostic {
    let error = Diagnostic::new(
        "unsupported_scalar_type",
        at,
        format!("type `{name}` is not supported in a scalar op"),
    );
    match name {
        "usize" => error.help("use `u64`, or `i64`, which is what `index` and `extent` give"),
        "isize" => error.help("use `i64`"),
        "i128" | "u128" => error.help("use a type of 64 bits"),
        _ => error.help("use f32, f64, an integer of 8 to 64 bits, bool, or a tuple of these"),
    }
}

/// Rule 10: literals are numbers and truth values.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { x + "1" }
///                                 ^^^
/// ```
pub fn unsupported_literal(at: Span, literal: &str) -> Diagnostic {
    Diagnostic::new("unsupported_literal", at, format!("literal `{literal}` is not supported"))
        .help("use a number with the suffix of a supported type or none, or `true` or `false`")
}
