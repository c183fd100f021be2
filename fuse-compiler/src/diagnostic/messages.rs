//! Every error that the macro can give, one constructor for each.
//!
//! The documentation of a constructor names the rule it enforces and shows the smallest program that breaks it.
//! Wording follows rustc's: lower case, no final full stop, code in backticks, "invalid" and never "illegal". The
//! message says what is wrong, only `help` how to mend it.

mod scalar;

pub use scalar::*;

use super::{Diagnostic, Place};

/// The names of all constructors, each the `code` of its errors, sorted.
pub const ALL: &[&str] =
    &["narrow_float_in_scalar", "syntax", "unsupported_literal", "unsupported_scalar_type"];

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
    const SOURCES: &[&str] = &[include_str!("messages.rs"), include_str!("messages/scalar.rs")];

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
