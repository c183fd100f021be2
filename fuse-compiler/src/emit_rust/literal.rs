//! Types and literals of Rust for dtypes and values.

use fuse_ir::dtype::{DType, Value};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote;

/// The Rust type that a dtype is computed in.
pub(super) fn rust_type(dtype: DType) -> Ident {
    Ident::new(dtype.compute().name(), Span::call_site())
}

/// The value as an expression of its compute type, with its type's suffix where Rust has one.
pub(super) fn literal(value: Value) -> TokenStream {
    match value {
        Value::F32(x) | Value::F16(x) | Value::Bf16(x) | Value::F8E4M3(x) | Value::F8E5M2(x) => {
            if x.is_finite() {
                signed(x.is_sign_negative(), Literal::f32_suffixed(x.abs()))
            } else if x == f32::INFINITY {
                quote!(f32::INFINITY)
            } else if x == f32::NEG_INFINITY {
                quote!(f32::NEG_INFINITY)
            } else {
                let bits = x.to_bits();
                quote!(f32::from_bits(#bits))
            }
        }
        Value::F64(x) => {
            if x.is_finite() {
                signed(x.is_sign_negative(), Literal::f64_suffixed(x.abs()))
            } else if x == f64::INFINITY {
                quote!(f64::INFINITY)
            } else if x == f64::NEG_INFINITY {
                quote!(f64::NEG_INFINITY)
            } else {
                let bits = x.to_bits();
                quote!(f64::from_bits(#bits))
            }
        }
        Value::I8(i8::MIN) => quote!(i8::MIN),
        Value::I16(i16::MIN) => quote!(i16::MIN),
        Value::I32(i32::MIN) => quote!(i32::MIN),
        Value::I64(i64::MIN) => quote!(i64::MIN),
        Value::I8(x) => signed(x < 0, Literal::i8_suffixed(x.wrapping_abs())),
        Value::I16(x) => signed(x < 0, Literal::i16_suffixed(x.wrapping_abs())),
        Value::I32(x) => signed(x < 0, Literal::i32_suffixed(x.wrapping_abs())),
        Value::I64(x) => signed(x < 0, Literal::i64_suffixed(x.wrapping_abs())),
        Value::U8(x) => quote!(#x),
        Value::U16(x) => quote!(#x),
        Value::U32(x) => quote!(#x),
        Value::U64(x) => quote!(#x),
        Value::Bool(x) => quote!(#x),
    }
}

/// Negative numbers are a minus and a literal: a literal token with a sign is no valid Rust.
fn signed(negative: bool, magnitude: Literal) -> TokenStream {
    if negative { quote!((-#magnitude)) } else { quote!(#magnitude) }
}
