//! What a block asks for, and what an item leaves for others.

use super::{Form, Import, check_exports, emit_exports, find_imports};
use crate::diagnostic::{Diagnostics, Place};
use crate::pipeline::expand_block;
use crate::syntax::{Block, parse_block};
use proc_macro2::TokenStream;
use quote::quote;

fn parse(source: &str) -> Block {
    let mut diagnostics = Diagnostics::new();
    let block = parse_block(source.parse().expect("tokens"), &mut diagnostics);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    block
}

#[track_caller]
fn check_imports(body: &str, imports: &[&str]) {
    let block = parse(&format!(
        "use ops::{{relu6 as relu, many::*}};
         #[op] fn own(x: f32) -> f32 {{ x }}
         #[kernel] fn other<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {{ x }}
         #[kernel] fn k<T: Float, N>(x: Tensor<T, N>) -> Tensor<T, N> {{ {body} }}"
    ));
    let found: Vec<String> = find_imports(&block).into_iter().map(|(text, _)| text).collect();
    assert_eq!(found, imports, "{body}");
}

#[test]
fn what_is_asked_for() {
    check_imports("own(gelu(x)) + exp(x) + select(x > 0.0, x, f32::max(x, T::EPSILON)) + T::from(x)", &[]);
    check_imports(
        "ops::gelu(x) + self::gelu(x) + ops::gelu(x) + ::ops::f(x)",
        &["ops::gelu", "self::gelu", "::ops::f"],
    );
    check_imports("ops::layer_norm::<N>(x, eps = far(1.0))", &["ops::layer_norm", "far"]);
    check_imports("(x, index(N)).reduce(N, closest).0 + x.reduce(N, ops::best)", &["closest", "ops::best"]);
    // What the block names in a `use` goes before the prelude.
    check_imports("relu(x) + gelu(x)", &["relu"]);
    // Kernels, what is probably misspelt, and what is not of Rust's world of ops have messages of their own.
    check_imports("other(x) + geluu(x) + gleu(x) + owm(x) + scatter(x) + Some(x) + std::mem::take(x)", &[]);
    // Numbers are meant.
    check_imports("gelu2(x) + own3(x)", &["gelu2", "own3"]);
}

fn exports(source: &str, form: Form) -> String {
    emit_exports(&parse(source), &[], form, &Diagnostics::new()).to_string()
}

#[test]
fn blocks_without_imports_and_exports_are_not_larger() {
    let private = "#[op] fn f(x: f32) -> f32 { x } fn g<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { f(x) }
        const C: f32 = 1.0; #[kernel] pub fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g(x) }";
    assert_eq!(exports(private, Form::Block), "");
    let expanded = expand_block(&quote!(::fuse), private.parse().expect("tokens"), &mut Diagnostics::new());
    assert!(!expanded.to_string().contains("__tokens"));
}

#[test]
fn an_item_travels_with_what_it_needs() {
    let text = exports(
        "const USED: f32 = 1.0; const UNUSED: f32 = 2.0;
         #[op] fn helper(x: f32) -> f32 { x * USED } #[op] fn other(x: f32) -> f32 { x * UNUSED }
         /// Documented.
         #[op] pub fn f(x: f32) -> f32 { helper(x) }",
        Form::Block,
    );
    for part in ["macro_export", "USED", "helper", "pub mod f"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for part in ["UNUSED", "other", "Documented"] {
        assert!(!text.contains(part), "{part}: {text}");
    }
    let restricted = exports("#[op] pub(super) fn f(x: f32) -> f32 { x }", Form::Block);
    assert!(restricted.contains("pub (super) mod f") && !restricted.contains("macro_export"), "{restricted}");
    let private = exports("#[op] fn f(x: f32) -> f32 { x }", Form::Attribute);
    assert!(private.contains("mod f") && !private.contains("pub mod f"), "{private}");
}

#[test]
fn exported_names_are_not_the_languages() {
    let codes = |source: &str, form| {
        let mut diagnostics = Diagnostics::new();
        check_exports(&parse(source), form, &mut diagnostics);
        diagnostics.iter().map(|error| error.code).collect::<Vec<_>>()
    };
    for name in ["gelu", "layer_norm", "exp", "select", "softmax", "dropout", "scatter"] {
        let source = format!("#[op] pub fn {name}(x: f32) -> f32 {{ x }}");
        assert_eq!(codes(&source, Form::Block), ["exported_name_is_known"], "{name}");
        assert_eq!(codes(&source.replace("pub ", ""), Form::Block), [""; 0], "{name}");
        assert_eq!(codes(&source.replace("pub ", ""), Form::Attribute), ["exported_name_is_known"], "{name}");
    }
    assert_eq!(codes("#[op] pub fn gelu2(x: f32) -> f32 { x }", Form::Block), [""; 0]);
}

/// What another version of the language wrote may have errors that its home did not see.
#[test]
fn an_error_within_an_import_stands_at_the_call_and_names_both_places() {
    let at: TokenStream = "ops::f".parse().expect("tokens");
    let place = Place::of(&at);
    let unit = |items: &str| -> TokenStream {
        format!("\"{}\" f {{ {items} }} {{}}", env!("CARGO_PKG_VERSION")).parse().expect("tokens")
    };
    let errors = |items: &str| {
        let mut diagnostics = Diagnostics::new();
        let import = Import::read("ops::f".into(), place, unit(items), &mut diagnostics);
        let kernel = "#[kernel] fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { ops::f(x) }";
        let tokens: TokenStream = kernel.parse().expect("tokens");
        let block = parse_block(tokens.clone(), &mut diagnostics);
        crate::pipeline::with_plans(&tokens, &block, &[import], false, &mut diagnostics, |_, _, _| ());
        for error in diagnostics.iter() {
            assert_eq!(error.primary.start.source_text().as_deref(), Some("ops"));
            assert!(error.text().contains("note: this arises in the body of `ops::f`: "), "{}", error.text());
        }
        diagnostics.iter().map(|error| error.code).collect::<Vec<_>>()
    };
    assert_eq!(errors("#[op] fn f(x: f32) -> f32 { x }"), [""; 0]);
    assert_eq!(errors("#[op] fn f(x: f32) -> f32 { x + 1 }"), ["mismatched_operands"]);
    assert_eq!(errors("#[op] fn f(x: f16) -> f32 { 1.0 }"), ["narrow_float_in_scalar"]);
    assert_eq!(
        errors("#[op] fn f(x: f32) -> f32 { g(x) } #[op] fn g(x: f32) -> f32 { g(x) }"),
        ["recursive_op"]
    );
    assert_eq!(errors("const C: f32 = 1; #[op] fn f(x: f32) -> f32 { x + C }"), ["mismatched_types"]);
    assert_eq!(errors("struct S; #[op] fn f(x: f32) -> f32 { x }"), ["item_not_supported"]);
    assert_eq!(errors("fn f<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x + y }"), ["unknown_name"]);
}
