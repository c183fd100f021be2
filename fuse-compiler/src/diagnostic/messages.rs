//! Every error that the macro can give, one constructor for each.
//!
//! The documentation of a constructor names the rule it enforces and shows the smallest program that breaks it.
//! Wording follows rustc's: lower case, no final full stop, code in backticks, "invalid" and never "illegal". The
//! message says what is wrong, only `help` how to mend it.

mod scalar;
mod syntax;

pub use scalar::*;
pub use syntax::*;

use super::{Diagnostic, Place};

/// The names of all constructors, each the `code` of its errors, sorted.
pub const ALL: &[&str] = &[
    "axis_assumed_twice",
    "axis_in_place_of_dtype",
    "axis_must_be_named",
    "axis_not_declared",
    "axis_parameter",
    "axis_twice_in_type",
    "axis_with_default",
    "cfg_inside_block",
    "const_axis_not_usize",
    "const_axis_without_value",
    "dimension_not_understood",
    "dtype_in_place_of_axis",
    "dtype_listed_twice",
    "dtype_outside_bound",
    "generic_defined_twice",
    "generic_named_like_dtype",
    "identity_missing",
    "item_defined_twice",
    "item_not_supported",
    "kernel_argument_expected",
    "lifetime_not_supported",
    "mutable_parameter_of_composite",
    "name_of_axis",
    "narrow_float_in_scalar",
    "no_dtype_listed",
    "no_result",
    "parameter_defined_twice",
    "parameter_pattern",
    "parameter_type",
    "qualifier_not_supported",
    "reference_result",
    "scalar_result",
    "second_marker",
    "self_not_supported",
    "syntax",
    "tensor_type_expected",
    "tensor_without_dtype",
    "unknown_bound",
    "unknown_dtype",
    "unknown_kernel_argument",
    "unknown_reduce_argument",
    "unsupported_literal",
    "unsupported_scalar_type",
    "where_not_supported",
];

/// What syn found while parsing; its wording is kept.
///
/// ```text
/// fuse! { #[op] fn f(x f32) -> f32 { x } }
///                      ^^^
/// ```
pub fn syntax(error: &syn::Error) -> Diagnostic {
    Diagnostic::new("syntax", Place::from(error.span()), error.to_string())
}

#[cfg(test)]
mod tests {
    use super::ALL;
    use std::collections::BTreeSet;

    /// The files that hold constructors.
    const SOURCES: &[&str] = &[
        include_str!("messages.rs"),
        include_str!("messages/scalar.rs"),
        include_str!("messages/syntax.rs"),
    ];

    fn constructors() -> Vec<syn::ItemFn> {
        let items = SOURCES.iter().flat_map(|source| syn::parse_file(source).expect("own source").items);
        items
            .filter_map(|item| match item {
                syn::Item::Fn(function) if matches!(function.vis, syn::Visibility::Public(_)) => {
                    Some(function)
                }
                _ => None,
            })
            .collect()
    }

    #[test]
    fn all_names_every_constructor() {
        let found: BTreeSet<String> = constructors().iter().map(|f| f.sig.ident.to_string()).collect();
        let listed: BTreeSet<String> = ALL.iter().map(|name| name.to_string()).collect();
        assert_eq!(found, listed);
        assert!(ALL.is_sorted(), "keep `ALL` sorted, so that additions merge");
    }

    #[test]
    fn every_constructor_shows_a_program_and_sets_its_code() {
        for function in constructors() {
            let name = function.sig.ident.to_string();
            let documentation = quote::ToTokens::to_token_stream(&function.attrs[0]).to_string();
            assert!(documentation.starts_with("# [doc"), "{name}");
            let text: String =
                function.attrs.iter().map(|a| quote::ToTokens::to_token_stream(a).to_string()).collect();
            assert!(text.contains("```text"), "`{name}` shows no program that triggers it");
            let body = quote::ToTokens::to_token_stream(&function.block).to_string();
            assert!(body.contains(&format!("\"{name}\"")), "`{name}` does not set its code");
        }
    }
}
