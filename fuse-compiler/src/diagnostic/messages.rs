//! Every error that the macro can give, one constructor for each.
//!
//! The documentation of a constructor names the rule it enforces and shows the smallest program that breaks it.
//! Wording follows rustc's: lower case, no final full stop, code in backticks, "invalid" and never "illegal". The
//! message says what is wrong, only `help` how to mend it.

mod axes;
mod plan;
mod scalar;
mod syntax;
mod tensor;

pub use axes::*;
pub use plan::*;
pub use scalar::*;
pub use syntax::*;
pub use tensor::*;

use super::{Diagnostic, Place};

/// The names of all constructors, each the `code` of its errors, sorted.
pub const ALL: &[&str] = &[
    "argument_count",
    "argument_given_twice",
    "argument_name_expected",
    "argument_not_understood",
    "argument_of_attribute_expected",
    "argument_of_op",
    "argument_repeated",
    "argument_shape",
    "argument_without_axis",
    "assignment_in_expression",
    "assignment_without_star",
    "attribute_on_other_item",
    "axes_differ",
    "axes_not_bound",
    "axis_assumed_twice",
    "axis_expected",
    "axis_in_function_call",
    "axis_in_place_of_dtype",
    "axis_in_place_of_value",
    "axis_listed_twice",
    "axis_missing",
    "axis_must_be_named",
    "axis_not_declared",
    "axis_parameter",
    "axis_there_already",
    "axis_twice_in_type",
    "axis_with_default",
    "axis_with_two_sources",
    "axis_without_source",
    "binding_in_or_pattern",
    "branches_differ",
    "branches_have_other_axes",
    "callee_not_a_name",
    "cast_to_bool",
    "cast_to_other_type",
    "cfg_inside_block",
    "circular_constant",
    "closure_in_scalar",
    "combiner_arity",
    "combiner_expected",
    "combiner_signature",
    "concat_part",
    "condition_has_axes",
    "const_axis_not_usize",
    "const_axis_without_value",
    "contracted_axis_missing",
    "cumsum_over_several_axes",
    "dimension_divided_by_zero",
    "dimension_not_understood",
    "division_by_zero_in_constant",
    "dtype_in_place_of_axis",
    "dtype_listed_twice",
    "dtype_outside_bound",
    "dtype_outside_bound_of_call",
    "early_return_in_scalar",
    "exported_name_is_known",
    "expression_not_supported",
    "extent_cannot_fit",
    "extent_not_a_size",
    "extent_of_itself",
    "function_called_as_method",
    "generic_defined_twice",
    "generic_named_like_dtype",
    "generic_scalar",
    "identity_missing",
    "import_of_other_version",
    "index_expression",
    "indexing_in_scalar",
    "invalid_assignment_target",
    "item_defined_twice",
    "item_in_body",
    "item_in_scalar",
    "item_not_supported",
    "kernel_argument_expected",
    "kernel_called",
    "keyword_not_supported",
    "let_without_value",
    "lifetime_not_supported",
    "literal_of_other_kind",
    "literal_out_of_range",
    "literal_out_of_range_of_tensor",
    "literals_of_two_kinds",
    "loop_bound_not_constant",
    "loop_jump",
    "loop_over_other_than_range",
    "macro_in_scalar",
    "marker_argument",
    "materialized",
    "method_called_as_function",
    "method_not_defined",
    "method_of_tuple",
    "mismatched_operands",
    "mismatched_types",
    "modifier_on_scalar",
    "mutable_let",
    "mutable_parameter_not_assigned",
    "mutable_parameter_of_composite",
    "name_of_axis",
    "narrow_constant",
    "narrow_float_in_scalar",
    "narrow_value_in_scalar",
    "narrowing_store",
    "negative_padding",
    "negative_position",
    "nested_too_deep",
    "no_dtype_listed",
    "no_fields",
    "no_result",
    "no_such_component",
    "no_such_field",
    "no_value",
    "not_a_mutable_parameter",
    "not_assignable",
    "not_expressible",
    "op_in_place_of_combiner",
    "op_too_large",
    "operands_differ",
    "operation_not_defined",
    "order_not_observable",
    "other_dtype_expected",
    "outer_product",
    "padding_without_fill",
    "parameter_defined_twice",
    "parameter_pattern",
    "parameter_type",
    "part_out_of_bounds",
    "path_outside_block",
    "pattern_not_supported",
    "plans_not_written",
    "position_not_integer",
    "position_not_uniform",
    "positional_after_named",
    "probability_out_of_range",
    "qualifier_not_supported",
    "recursive_call",
    "recursive_op",
    "reduction_not_defined",
    "reduction_without_axes",
    "reference_in_scalar",
    "reference_result",
    "result_count",
    "result_dtype",
    "result_not_declared",
    "results_in_other_order",
    "scalar_expected",
    "scalar_result",
    "scalar_without_result",
    "second_marker",
    "self_in_scalar",
    "self_not_supported",
    "split_into_unknown_extents",
    "stored_axes_differ",
    "syntax",
    "tensor_type_expected",
    "tensor_without_dtype",
    "too_many_generics",
    "too_many_launches",
    "too_many_operations",
    "too_many_results",
    "tuple_constant",
    "tuple_in_place_of_tensor",
    "tuple_pattern_differs",
    "turbofish_not_expected",
    "unbounded_loop",
    "uncoalesced",
    "unfused",
    "unknown_argument",
    "unknown_attribute",
    "unknown_bound",
    "unknown_combiner",
    "unknown_constant_of_generic",
    "unknown_dtype",
    "unknown_function",
    "unknown_kernel_argument",
    "unknown_lint",
    "unknown_method",
    "unknown_name",
    "unknown_reduce_argument",
    "unknown_tensor_function",
    "unknown_tensor_method",
    "unknown_value",
    "unplannable",
    "unsupported_expression",
    "unsupported_literal",
    "unsupported_operand",
    "unsupported_pattern",
    "unsupported_scalar_type",
    "use_instead",
    "value_called",
    "value_not_used",
    "where_not_supported",
    "window_axes",
    "window_step",
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
        include_str!("messages/axes.rs"),
        include_str!("messages/plan.rs"),
        include_str!("messages/scalar.rs"),
        include_str!("messages/syntax.rs"),
        include_str!("messages/tensor.rs"),
    ];

    /// The functions that give a diagnostic and are not given one.
    fn constructors() -> Vec<syn::ItemFn> {
        let is_diagnostic = |ty: &syn::Type| quote::ToTokens::to_token_stream(ty).to_string() == "Diagnostic";
        let is_constructor = |f: &syn::ItemFn| {
            let gives = matches!(&f.sig.output, syn::ReturnType::Type(_, ty) if is_diagnostic(ty));
            let given = |arg: &syn::FnArg| matches!(arg, syn::FnArg::Typed(arg) if is_diagnostic(&arg.ty));
            !matches!(f.vis, syn::Visibility::Inherited) && gives && !f.sig.inputs.iter().any(given)
        };
        let items = SOURCES.iter().flat_map(|source| syn::parse_file(source).expect("own source").items);
        items
            .filter_map(|item| match item {
                syn::Item::Fn(function) => is_constructor(&function).then_some(function),
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
