//! The Rust copies of ops: their text, and that it compiles and means what the op means.

use super::lower;
use crate::scalar::{FnSource, Origin, emit_const, emit_op, lower_scalar_items};
use fuse_runtime::__private::scalar as runtime;
use quote::quote;

/// The copies of all items of a program, without the attribute that silences lints.
fn emit(source: &str) -> String {
    let file = syn::parse_file(source).expect("the test's program parses");
    let (items, _) = lower(source);
    let fuse = quote!(::fuse_runtime);
    let sources: Vec<FnSource> = file
        .items
        .iter()
        .filter_map(|item| match item {
            syn::Item::Fn(item) => Some(source_of(item, Origin::Block)),
            _ => None,
        })
        .collect();
    let copies = file.items.iter().map(|item| match item {
        syn::Item::Const(item) => emit_const(item, &items),
        syn::Item::Fn(item) => emit_op(&source_of(item, Origin::Block), &sources, &items, &fuse),
        _ => panic!("ops and constants only"),
    });
    let copies: proc_macro2::TokenStream = copies.collect();
    let mut file: syn::File = syn::parse2(copies).expect("the copies parse");
    for item in &mut file.items {
        match item {
            syn::Item::Const(item) => item.attrs.retain(|attribute| !attribute.path().is_ident("allow")),
            syn::Item::Fn(item) => item.attrs.retain(|attribute| !attribute.path().is_ident("allow")),
            _ => {}
        }
    }
    quote!(#file).to_string()
}

fn source_of(item: &syn::ItemFn, origin: Origin) -> FnSource<'_> {
    FnSource { name: item.sig.ident.to_string(), scope: String::new(), item, origin }
}

/// The copy of a program has this text; rustc compiles it, and its last function means what the lowered one means.
macro_rules! copies {
    ({ $($source:tt)* } => { $($copy:tt)* } compare $name:ident($($ty:ty),*)) => {{
        $($copy)*
        let expected: proc_macro2::TokenStream = stringify!($($copy)*).parse().expect("tokens");
        assert_eq!(emit(stringify!($($source)*)), expected.to_string());
        let (items, diagnostics) = lower(stringify!($($source)*));
        assert!(diagnostics.is_empty());
        copies!(@compare items $name ($($ty),*));
    }};
    (@compare $items:ident $name:ident ($a:ty)) => {
        super::compare(&$items, stringify!($name), |(a,): ($a,)| $name(a), super::Closeness::Near)
    };
    (@compare $items:ident $name:ident ($a:ty, $b:ty)) => {
        super::compare(&$items, stringify!($name), |(a, b): ($a, $b)| $name(a, b), super::Closeness::Near)
    };
}

#[test]
fn tokens_of_floats_stay() {
    copies!(
        { pub fn f(x: f32, y: f32) -> f32 { let mut z = x.exp() + 0.5 * y; z -= f32::max(x, -y); z % 2.0 } } =>
        { pub fn f(x: f32, y: f32) -> f32 { let mut z = x.exp() + 0.5 * y; z -= f32::max(x, -y); z % 2.0 } }
        compare f(f32, f32)
    );
}

#[test]
fn integers_wrap_in_every_build() {
    copies!(
        { fn f(x: i32, n: i64) -> i32 { let mut y = 1; y += x * 3 - -x; y <<= n; y.abs() / 2 } } =>
        { fn f(x: i32, n: i64) -> i32 {
            let mut y = 1;
            y = ::core::primitive::i32::wrapping_add(y, ::core::primitive::i32::wrapping_sub(
                ::core::primitive::i32::wrapping_mul(x, 3), ::core::primitive::i32::wrapping_neg(x)));
            y = ::core::primitive::i32::wrapping_shl(y, ::fuse_runtime::__private::scalar::shift_count(n));
            ::core::primitive::i32::wrapping_div(::core::primitive::i32::wrapping_abs(y), 2)
        } }
        compare f(i32, i64)
    );
    copies!(
        { fn f(x: u8, y: u8) -> u8 { (x + y).pow(3) ^ u8::pow(y, 2) ^ -1i8 as u8 } } =>
        { fn f(x: u8, y: u8) -> u8 {
            ::core::primitive::u8::wrapping_pow(::core::primitive::u8::wrapping_add(x, y), 3)
                ^ ::core::primitive::u8::wrapping_pow(y, 2) ^ -1i8 as u8
        } }
        compare f(u8, u8)
    );
}

#[test]
fn the_value_of_a_compound_assignment_comes_first() {
    copies!(
        { fn f(x: i32, n: i64) -> i32 { let mut y = x; y -= { y = 3; x }; y <<= { y += 1; n }; y } } =>
        { fn f(x: i32, n: i64) -> i32 {
            let mut y = x;
            { let value = { y = 3; x }; y = ::core::primitive::i32::wrapping_sub(y, value); };
            {
                let value = ::fuse_runtime::__private::scalar::shift_count({
                    y = ::core::primitive::i32::wrapping_add(y, 1); n });
                y = ::core::primitive::i32::wrapping_shl(y, value);
            };
            y
        } }
        compare f(i32, i64)
    );
}

#[test]
fn what_std_lacks_is_the_runtime_s() {
    copies!(
        { fn f(x: f32, y: f32) -> f32 { x.rsqrt() + f32::erf(y) + select(x > y, maximum(x, y), x.clamp(y, 1.0)).square() } } =>
        { fn f(x: f32, y: f32) -> f32 {
            ::fuse_runtime::__private::scalar::rsqrt(x) + ::fuse_runtime::__private::scalar::erf(y)
                + ::fuse_runtime::__private::scalar::square(::fuse_runtime::__private::scalar::select(
                    x > y,
                    ::fuse_runtime::__private::scalar::maximum(x, y),
                    ::fuse_runtime::__private::scalar::clamp(x, y, 1.0)))
        } }
        compare f(f32, f32)
    );
    copies!(
        { fn f(x: f64) -> f32 { (x as f16) as f32 + x as f8e4m3 as f32 } } =>
        { fn f(x: f64) -> f32 {
            (::fuse_runtime::__private::scalar::round_to_f16(x)) as f32
                + ::fuse_runtime::__private::scalar::round_to_f8e4m3(x) as f32
        } }
        compare f(f64)
    );
}

#[test]
fn constants_need_no_import() {
    copies!(
        { fn f(x: f32) -> f32 { use std::f32::consts::PI; const T: f64 = E / 2.0; let y = LN_2; x * PI * y + T as f32 + f32::consts::TAU } } =>
        { fn f(x: f32) -> f32 {
            const T: f64 = ::core::f64::consts::E / 2.0;
            let y = ::core::f32::consts::LN_2;
            x * ::core::f32::consts::PI * y + T as f32 + ::core::f32::consts::TAU
        } }
        compare f(f32)
    );
}

#[test]
fn constants_of_sizes_are_cast() {
    copies!(
        { const N: usize = 2 * M; const M: usize = 3; const R: f32 = PI * 2.0; const K: u64 = M;
          fn f(x: u64) -> u64 { let mut s = x; for i in 0..N { s ^= i; } s + K } } =>
        { const N: usize = 2 * M; const M: usize = 3; const R: f32 = ::core::f32::consts::PI * 2.0;
          const K: u64 = M as ::core::primitive::u64;
          fn f(x: u64) -> u64 {
            let mut s = x;
            for i in 0..N as ::core::primitive::u64 { s ^= i; }
            ::core::primitive::u64::wrapping_add(s, K)
        } }
        compare f(u64)
    );
}

#[test]
fn control_flow_stays() {
    copies!(
        { fn f(n: i32, y: i32) -> i32 { let p = (n, y); match p { (0, _) | (_, 0) => 0, (a, -1) => -a, (a, b) if a > b => { let mut s = 0; for i in 0..3 { s += i; } s } _ => p.0 } } } =>
        { fn f(n: i32, y: i32) -> i32 {
            let p = (n, y);
            match p {
                (0, _) | (_, 0) => 0,
                (a, -1) => ::core::primitive::i32::wrapping_neg(a),
                (a, b) if a > b => {
                    let mut s = 0;
                    for i in 0..3 { s = ::core::primitive::i32::wrapping_add(s, i); }
                    s
                }
                _ => p.0
            }
        } }
        compare f(i32, i32)
    );
}

#[test]
fn callees_of_the_prelude_are_copied_along() {
    let parse = |text: &str| syn::parse_str::<syn::ItemFn>(text).expect("an op");
    let user = parse("pub fn f(x: f32) -> f32 { gelu(x) + own(x) }");
    let own = parse("fn own(x: f32) -> f32 { x }");
    let gelu = parse("pub fn gelu(x: f32) -> f32 { x * phi(x) }");
    let phi = parse("pub fn phi(x: f32) -> f32 { x.erf() }");
    let unused = parse("pub fn relu(x: f32) -> f32 { x }");
    let sources = [
        source_of(&user, Origin::Block),
        source_of(&own, Origin::Block),
        source_of(&gelu, Origin::Prelude),
        source_of(&phi, Origin::Prelude),
        source_of(&unused, Origin::Prelude),
    ];
    let mut diagnostics = crate::diagnostic::Diagnostics::new();
    let items = lower_scalar_items(&sources, &[], &[], Default::default(), &mut diagnostics);
    let copy: syn::ItemFn =
        syn::parse2(emit_op(&sources[0], &sources, &items, &quote!(::fuse))).expect("a function");
    let body = &copy.block;
    let expected = quote!({
        fn gelu(x: f32) -> f32 {
            x * phi(x)
        }
        fn phi(x: f32) -> f32 {
            ::fuse::__private::scalar::erf(x)
        }
        gelu(x) + own(x)
    });
    assert_eq!(quote!(#body).to_string(), expected.to_string());
}

#[test]
fn callees_of_the_prelude_come_in_the_precision_of_the_call() {
    let parse = |text: &str| syn::parse_str::<syn::ItemFn>(text).expect("an op");
    let user = parse("fn f(x: f32, y: f64) -> f64 { gelu(y) + gelu(x) as f64 + y * own(y) }");
    let own = parse("fn own(x: f64) -> f64 { let y = x * 2.0; phi(y) }");
    let gelu =
        [parse("fn gelu(x: f32) -> f32 { x * phi(x) }"), parse("fn gelu(x: f64) -> f64 { x * phi(x) }")];
    let phi = [parse("fn phi(x: f32) -> f32 { x - 1.0 }"), parse("fn phi(x: f64) -> f64 { x - 1.0 }")];
    let double = |name: &str, item| FnSource {
        name: format!("f64/{name}"),
        scope: "f64/".into(),
        ..source_of(item, Origin::Prelude)
    };
    let sources = [
        source_of(&user, Origin::Block),
        source_of(&own, Origin::Block),
        source_of(&gelu[0], Origin::Prelude),
        source_of(&phi[0], Origin::Prelude),
        double("gelu", &gelu[1]),
        double("phi", &phi[1]),
    ];
    let mut diagnostics = crate::diagnostic::Diagnostics::new();
    let items = lower_scalar_items(&sources, &[], &[], Default::default(), &mut diagnostics);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let expected = quote! {
        fn f(x: f32, y: f64) -> f64 {
            fn gelu_f64(x: f64) -> f64 { x * phi_f64(x) }
            fn phi_f64(x: f64) -> f64 { x - 1.0 }
            fn gelu(x: f32) -> f32 { x * phi(x) }
            fn phi(x: f32) -> f32 { x - 1.0 }
            gelu_f64(y) + gelu(x) as f64 + y * own(y)
        }
    };
    let mut copy: syn::ItemFn =
        syn::parse2(emit_op(&sources[0], &sources, &items, &quote!(::fuse))).expect("a function");
    copy.attrs.clear();
    assert_eq!(quote!(#copy).to_string(), expected.to_string());
    let args = [fuse_ir::dtype::Value::F32(3.0), fuse_ir::dtype::Value::F64(4.0)];
    let (values, _) = fuse_ir::eval::eval_fn(&items.functions, items.by_name["f"].id, &args);
    assert_eq!(values, [fuse_ir::dtype::Value::F64(4.0 * 3.0 + 3.0 * 2.0 + 4.0 * 7.0)]);
}

#[test]
fn an_op_with_an_error_keeps_its_signature() {
    let expected = |text: &str| text.parse::<proc_macro2::TokenStream>().expect("tokens").to_string();
    assert_eq!(
        emit("/// Doc.\npub fn f(x: f32) -> f32 { x.nothing() }"),
        expected("/// Doc.\npub fn f(x: f32) -> f32 { ::core::unreachable!() }")
    );
    assert_eq!(
        emit("fn f(x: f16, n: i32) -> (f32, bf16) { x }"),
        expected(
            "fn f(x: ::core::primitive::f32, n: i32) -> (f32, ::core::primitive::f32) { ::core::unreachable!() }"
        )
    );
}
