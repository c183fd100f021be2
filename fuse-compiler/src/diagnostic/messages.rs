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
    "binding_in_or_pattern",
    "cfg_inside_block",
    "circular_constant",
    "closure_in_scalar",
    "combiner_signature",
    "const_axis_not_usize",
    "const_axis_without_value",
    "dimension_not_understood",
    "division_by_zero_in_constant",
    "dtype_in_place_of_axis",
    "dtype_listed_twice",
    "dtype_outside_bound",
    "early_return_in_scalar",
    "generic_defined_twice",
    "generic_named_like_dtype",
    "generic_scalar",
    "identity_missing",
    "indexing_in_scalar",
    "invalid_assignment_target",
    "item_defined_twice",
    "item_in_scalar",
    "item_not_supported",
    "kernel_argument_expected",
    "lifetime_not_supported",
    "literal_out_of_range",
    "loop_bound_not_constant",
    "loop_jump",
    "loop_over_other_than_range",
    "macro_in_scalar",
    "mismatched_operands",
    "mismatched_types",
    "modifier_on_scalar",
    "mutable_parameter_of_composite",
    "name_of_axis",
    "narrow_float_in_scalar",
    "narrow_value_in_scalar",
    "no_dtype_listed",
    "no_result",
    "no_such_field",
    "parameter_defined_twice",
    "parameter_pattern",
    "parameter_type",
    "qualifier_not_supported",
    "recursive_op",
    "reference_in_scalar",
    "reference_result",
    "scalar_result",
    "scalar_without_result",
    "second_marker",
    "self_in_scalar",
    "self_not_supported",
    "syntax",
    "tensor_type_expected",
    "tensor_without_dtype",
    "tuple_constant",
    "unbounded_loop",
    "unknown_bound",
    "unknown_dtype",
    "unknown_function",
    "unknown_kernel_argument",
    "unknown_method",
    "unknown_reduce_argument",
    "unknown_value",
    "unsupported_expression",
    "unsupported_literal",
    "unsupported_operand",
    "unsupported_pattern",
    "unsupported_scalar_type",
    "where_not_supported",
    "wrong_argument_count",
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
