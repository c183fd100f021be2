//! Ops that call each other, constants and combiners.

use super::{lower, lower_valid, same_as_rustc};
use crate::diagnostic::Diagnostics;
use crate::scalar::{FnSource, Origin, ScalarType, called_functions, lower_scalar_items};
use fuse_ir::dtype::{DType, Value};

#[test]
fn ops_call_each_other_in_any_order() {
    same_as_rustc!(Near:
        fn swish(x: f32) -> f32 { x * gate(x, 1.0) }
        fn gate(x: f32, beta: f32) -> f32 { (beta * x).sigmoid() }
        fn f(x: f32) -> f32 { swish(x) + gate(0.5, x) }
    );
    same_as_rustc!(Bits:
        fn split(x: f32) -> (f32, f32) { (x.trunc(), x.fract()) }
        fn f(x: f32) -> f32 { let (a, b) = split(x * 3.0); a - split(b).1 }
    );
    same_as_rustc!(Bits:
        fn order(p: (f32, i32)) -> (f32, i32) { let (x, n) = p; (x, n ^ 1) }
        fn f(x: f32, n: i32) -> (f32, i32) { order((x, n)) }
    );
}

#[test]
fn callees_come_first() {
    let items = lower_valid(
        "fn a(x: f32) -> f32 { b(x) + c(x) } fn b(x: f32) -> f32 { c(x) } fn c(x: f32) -> f32 { x }",
    );
    let names: Vec<&str> = items.functions.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(names, ["c", "b", "a"]);
    for (index, function) in items.functions.iter().enumerate() {
        assert_eq!(items.by_name[&function.name].id.index(), index);
    }
}

#[test]
fn signatures_are_flattened() {
    let items = lower_valid("fn f(p: (f32, (i64, bool)), n: u8) -> (f64, i32) { (n as f64, 1) }");
    let signature = &items.by_name["f"];
    assert_eq!(signature.params, [DType::F32, DType::I64, DType::Bool, DType::U8]);
    assert_eq!(signature.results, [DType::F64, DType::I32]);
    assert_eq!(signature.parameters.len(), 2);
    assert_eq!(signature.result.to_string(), "(f64, i32)");
}

#[test]
fn constants_depend_on_each_other_in_any_order() {
    let items = lower_valid(
        "const B: f32 = A * 2.0 - f32::EPSILON; const A: f32 = 0.25 + PI; const N: usize = 3 * M; const M: usize = 4; \
         const ON: bool = M > 3 && !false; const BIG: i64 = 1 << 40; const LEAST: i8 = -128;",
    );
    let value = |name: &str| items.consts[name].value;
    assert_eq!(value("B"), Value::F32((0.25 + std::f32::consts::PI) * 2.0 - f32::EPSILON));
    assert_eq!(value("N"), Value::U64(12));
    assert_eq!(value("ON"), Value::Bool(true));
    assert_eq!(value("BIG"), Value::I64(1 << 40));
    assert_eq!(value("LEAST"), Value::I8(-128));
    assert!(items.consts["N"].is_size && !items.consts["B"].is_size);
}

#[test]
fn constants_reach_bodies() {
    let items =
        lower_valid("const ALPHA: f32 = 0.01; fn f(x: f32) -> f32 { if x > 0.0 { x } else { ALPHA * x } }");
    super::compare(&items, "f", |(x,): (f32,)| if x > 0.0 { x } else { 0.01 * x }, super::Closeness::Bits);
}

#[test]
fn combiners_have_a_signature_and_an_identity() {
    let items = lower_valid(
        "#[reduce(identity = (f32::NEG_INFINITY, -1))] \
         fn best(a: (f32, i64), b: (f32, i64)) -> (f32, i64) { if b.0 > a.0 { b } else { a } } \
         #[reduce(identity = ZERO)] fn add(a: f64, b: f64) -> f64 { a + b } const ZERO: f64 = -0.0;",
    );
    let best = &items.reducers["best"];
    assert_eq!(best.identity, [Value::F32(f32::NEG_INFINITY), Value::I64(-1)]);
    assert_eq!(best.combine, items.by_name["best"].id);
    assert_eq!(best.element.to_string(), "(f32, i64)");
    let args = [Value::F32(1.0), Value::I64(3), Value::F32(2.0), Value::I64(4)];
    let (values, _) = fuse_ir::eval::eval_fn(&items.functions, best.combine, &args);
    assert_eq!(values, [Value::F32(2.0), Value::I64(4)]);
    let add = &items.reducers["add"];
    assert_eq!(add.element, ScalarType::Scalar(DType::F64));
    assert!(matches!(add.identity[..], [Value::F64(zero)] if zero == 0.0 && zero.is_sign_negative()));
}

#[test]
fn an_imported_op_brings_its_own_helpers() {
    let parse = |text: &str| syn::parse_str::<syn::ItemFn>(text).expect("an op");
    let own = parse("fn phi(x: f32) -> f32 { 1.0 }");
    let imported = parse("fn gelu(x: f32) -> f32 { x * phi(x) }");
    let helper = parse("fn phi(x: f32) -> f32 { 2.0 }");
    let user = parse("fn f(x: f32) -> f32 { ops::gelu(x) + phi(x) }");
    let source = |name: &str, scope: &str, item, origin| FnSource {
        name: name.into(),
        scope: scope.into(),
        item,
        origin,
    };
    let sources = [
        source("f", "", &user, Origin::Block),
        source("phi", "", &own, Origin::Block),
        source("ops::gelu", "ops::gelu/", &imported, Origin::Import(proc_macro2::Span::call_site().into())),
        source("ops::gelu/phi", "ops::gelu/", &helper, Origin::Import(proc_macro2::Span::call_site().into())),
    ];
    let mut diagnostics = Diagnostics::new();
    let items = lower_scalar_items(&sources, &[], &[], Default::default(), &mut diagnostics);
    assert!(diagnostics.is_empty());
    let (values, _) = fuse_ir::eval::eval_fn(&items.functions, items.by_name["f"].id, &[Value::F32(3.0)]);
    assert_eq!(values, [Value::F32(7.0)]);
    let called: Vec<String> = called_functions(&user).into_iter().map(|(name, _)| name).collect();
    assert_eq!(called, ["ops::gelu", "phi"]);
}

#[test]
fn an_error_in_an_op_is_not_repeated_by_its_callers() {
    let (items, diagnostics) = lower(
        "fn f(x: f16) -> f32 { 1.0 } fn g(x: f32) -> f32 { f(x) + f(x).y() } fn h(x: f32) -> f32 { g(x) }",
    );
    assert_eq!(diagnostics.iter().map(|error| error.code).collect::<Vec<_>>(), ["narrow_float_in_scalar"]);
    assert!(items.poisoned.contains("f"));
    assert!(items.by_name.contains_key("g") && items.by_name.contains_key("h"));
}
