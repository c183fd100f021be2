//! The Rust copy of an op: the user's tokens at the user's spans, so that rustc checks what the user wrote.
//!
//! Only what would mean something else in Rust is written differently: integer operators wrap in every build, methods
//! that std lacks are the runtime's, and float constants are found without an import. The copy is public as the user
//! declared it, and the oracle of the op's tests.

use super::check::{
    Surroundings, address, check_constant, check_function, copy_name, is_std_import, strip_parentheses,
};
use super::signature::{narrow_float, read_signature, read_type};
use super::tree::{Rewrite, Rewrites};
use super::{FnSource, Origin, ScalarItems};
use crate::diagnostic::{Diagnostics, Reported};
use fuse_ir::dtype::DType;
use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use std::collections::{BTreeMap, BTreeSet};
use syn::parse_quote_spanned;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};

/// Emits the Rust function of an op or a combiner. `sources` are all that were lowered, `fuse` is the path of the facade.
///
/// Ops of the prelude that it calls are copied into its body, where their names are in scope. An op with errors keeps its
/// signature, so that its callers compile.
pub fn emit_op(
    source: &FnSource<'_>,
    sources: &[FnSource<'_>],
    items: &ScalarItems,
    fuse: &TokenStream,
) -> TokenStream {
    let Ok((mut item, called)) = rewrite_op(source, items, fuse) else { return emit_signature(source.item) };
    let mut open: Vec<String> = called.into_iter().collect();
    let mut copies = BTreeMap::new();
    while let Some(key) = open.pop() {
        let callee =
            sources.iter().find(|other| other.name == key && matches!(other.origin, Origin::Prelude));
        let Some(callee) = callee.filter(|_| !copies.contains_key(&key)) else { continue };
        let Ok((mut copy, called)) = rewrite_op(callee, items, fuse) else { continue };
        copy.vis = syn::Visibility::Inherited;
        copy.sig.ident = ident(&copy_name(&key), copy.sig.ident.span());
        copies.insert(key, syn::Stmt::Item(syn::Item::Fn(copy)));
        open.extend(called);
    }
    item.block.stmts.splice(0..0, copies.into_values());
    let allow = lint_levels();
    quote!(#allow #item)
}

/// Emits a `const` item. One with errors is left out of the expansion by the caller.
pub fn emit_const(item: &syn::ItemConst, items: &ScalarItems) -> TokenStream {
    let mut copy = item.clone();
    let mut ignored = Diagnostics::new();
    let is_size = items.consts.get(&item.ident.to_string()).is_some_and(|constant| constant.is_size);
    let ty = match items.consts.get(&item.ident.to_string()) {
        Some(constant) => Ok(super::ScalarType::Scalar(constant.value.dtype())),
        None => read_type(&item.ty, &mut ignored),
    };
    let body = ty.and_then(|ty| {
        let surroundings = Surroundings { items, scope: "" };
        check_constant(surroundings, &copy.expr, &ty, &mut ignored)
    });
    if let Ok(body) = body {
        let mut rewrites = body.rewrites;
        // rustc evaluates constants with overflow checks, and a size is computed from sizes.
        rewrites.retain(|_, (rewrite, _)| match rewrite {
            Rewrite::FloatConstant { .. } => true,
            Rewrite::ConstantAs => !is_size,
            Rewrite::Wrapping { .. }
            | Rewrite::WrappingShift { .. }
            | Rewrite::Method { .. }
            | Rewrite::Function { .. }
            | Rewrite::Callee { .. }
            | Rewrite::RoundTo(_) => false,
        });
        Rewriter { rewrites: &rewrites, fuse: &TokenStream::new() }.visit_expr_mut(&mut copy.expr);
    }
    let allow = lint_levels();
    quote!(#allow #copy)
}

/// The lints of a copy: only kernels may use the op, and Clippy's advice would change what NaN does.
fn lint_levels() -> TokenStream {
    // At a place of the macro's own, so that lints about `allow` do not meet it.
    quote_spanned!(Span::mixed_site()=> #[allow(clippy::all, dead_code)])
}

/// The copy of one op, and the keys of the ops that it calls.
fn rewrite_op(
    source: &FnSource<'_>,
    items: &ScalarItems,
    fuse: &TokenStream,
) -> Result<(syn::ItemFn, BTreeSet<String>), Reported> {
    let mut ignored = Diagnostics::new();
    let mut item = source.item.clone();
    StripImports.visit_block_mut(&mut item.block);
    // The rewrites are known by the addresses of the copy's expressions, which stay where they are from here on.
    let (parameters, result) = read_signature(&item, &mut ignored)?;
    let surroundings = Surroundings { items, scope: &source.scope };
    let body = check_function(surroundings, &item, &parameters, &result, &mut ignored)?;
    Rewriter { rewrites: &body.rewrites, fuse }.visit_block_mut(&mut item.block);
    Ok((item, body.called))
}

/// The function without its body; types that Rust has not are written as what they widen to.
fn emit_signature(item: &syn::ItemFn) -> TokenStream {
    struct Widen;
    impl VisitMut for Widen {
        fn visit_type_mut(&mut self, ty: &mut syn::Type) {
            if narrow_float(ty).is_some() {
                *ty = parse_quote_spanned!(ty.span()=> ::core::primitive::f32);
            }
            visit_mut::visit_type_mut(self, ty);
        }
    }
    let mut item = item.clone();
    Widen.visit_signature_mut(&mut item.sig);
    let syn::ItemFn { attrs, vis, sig, .. } = &item;
    quote! {
        #[allow(unused)]
        #(#attrs)* #vis #sig {
            ::core::unreachable!()
        }
    }
}

/// Removes `use` of std: constants are written with their whole path, so that what imports them would be unused.
struct StripImports;

impl VisitMut for StripImports {
    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        let is_import = |statement: &syn::Stmt| matches!(statement, syn::Stmt::Item(syn::Item::Use(item)) if is_std_import(item));
        block.stmts.retain(|statement| !is_import(statement));
        visit_mut::visit_block_mut(self, block);
    }
}

struct Rewriter<'a> {
    rewrites: &'a Rewrites,
    fuse: &'a TokenStream,
}

impl VisitMut for Rewriter<'_> {
    fn visit_expr_mut(&mut self, expr: &mut syn::Expr) {
        let rewrite = self.rewrites.get(&address(expr));
        visit_mut::visit_expr_mut(self, expr);
        if let Some((rewrite, dtype)) = rewrite
            && let Some(replacement) = self.rewrite(rewrite, *dtype, expr)
        {
            *expr = replacement;
        }
    }
}

impl Rewriter<'_> {
    /// What stands in place of an expression whose parts are rewritten; `None` if it stays.
    fn rewrite(&self, rewrite: &Rewrite, dtype: DType, expr: &syn::Expr) -> Option<syn::Expr> {
        match rewrite {
            Rewrite::Wrapping { name, .. } if dtype.is_int() => match expr {
                syn::Expr::Binary(binary) => {
                    let right = strip_parentheses(&binary.right).to_token_stream();
                    Some(wrapping_operator(binary, name, dtype, right))
                }
                syn::Expr::Unary(unary) => {
                    let operand = strip_parentheses(&unary.expr);
                    Some(primitive_call(dtype, name, unary.op.span(), quote!(#operand)))
                }
                _ => None,
            },
            Rewrite::WrappingShift { name, .. } => {
                let syn::Expr::Binary(binary) = expr else { return None };
                let right = strip_parentheses(&binary.right).to_token_stream();
                let count = self.runtime_call("shift_count", binary.op.span(), right);
                Some(wrapping_operator(binary, name, dtype, count.to_token_stream()))
            }
            Rewrite::Wrapping { .. } => None,
            Rewrite::Method { method, .. } => {
                let (span, operands) = call_parts(expr)?;
                if let Some(name) = wrapping_method(method.name).filter(|_| dtype.is_int()) {
                    return Some(primitive_call(dtype, name, span, operands));
                }
                is_runtime_method(method.name).then(|| self.runtime_call(method.name, span, operands))
            }
            Rewrite::Function { name } => {
                let (span, operands) = call_parts(expr)?;
                Some(self.runtime_call(name, span, operands))
            }
            Rewrite::Callee { name } => {
                let (span, operands) = call_parts(expr)?;
                let name = ident(name, span);
                Some(parse_quote_spanned!(span=> #name(#operands)))
            }
            Rewrite::FloatConstant { name } => {
                let (module, name) = (ident(dtype.name(), expr.span()), ident(name, expr.span()));
                Some(parse_quote_spanned!(expr.span()=> ::core::#module::consts::#name))
            }
            Rewrite::ConstantAs => {
                let ty = ident(dtype.name(), expr.span());
                Some(parse_quote_spanned!(expr.span()=> #expr as ::core::primitive::#ty))
            }
            Rewrite::RoundTo(narrow) => {
                let syn::Expr::Cast(cast) = expr else { return None };
                let operand = strip_parentheses(&cast.expr);
                let name = format!("round_to_{narrow}");
                Some(self.runtime_call(&name, cast.as_token.span, quote!(#operand)))
            }
        }
    }

    fn runtime_call(&self, name: &str, span: Span, operands: TokenStream) -> syn::Expr {
        let (fuse, name) = (self.fuse, ident(name, span));
        parse_quote_spanned!(span=> #fuse::__private::scalar::#name(#operands))
    }
}

/// `T::name(left, right)`, or the assignment of it for a compound operator.
fn wrapping_operator(binary: &syn::ExprBinary, name: &str, dtype: DType, right: TokenStream) -> syn::Expr {
    use syn::BinOp::*;
    let (left, span) = (strip_parentheses(&binary.left), binary.op.span());
    let value = primitive_call(dtype, name, span, quote!(#left, #right));
    match binary.op {
        AddAssign(_) | SubAssign(_) | MulAssign(_) | DivAssign(_) | RemAssign(_) | ShlAssign(_)
        | ShrAssign(_)
            if has_block(&right) =>
        {
            // The value is evaluated before the target is read: it may set it.
            let operand = syn::Ident::new("value", Span::mixed_site());
            let value = primitive_call(dtype, name, span, quote!(#left, #operand));
            parse_quote_spanned!(span=> { let #operand = #right; #left = #value; })
        }
        AddAssign(_) | SubAssign(_) | MulAssign(_) | DivAssign(_) | RemAssign(_) | ShlAssign(_)
        | ShrAssign(_) => parse_quote_spanned!(span=> #left = #value),
        _ => value,
    }
}

/// Whether the tokens have a block, in which alone assignments stand.
fn has_block(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace || has_block(&group.stream()),
        TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

fn primitive_call(dtype: DType, name: &str, span: Span, operands: TokenStream) -> syn::Expr {
    let (ty, name) = (ident(dtype.name(), span), ident(name, span));
    parse_quote_spanned!(span=> ::core::primitive::#ty::#name(#operands))
}

/// The place of a call's name, and receiver and arguments as a list.
fn call_parts(expr: &syn::Expr) -> Option<(Span, TokenStream)> {
    match expr {
        syn::Expr::MethodCall(call) => {
            let receiver = strip_parentheses(&call.receiver);
            let arguments = call.args.iter();
            Some((call.method.span(), quote!(#receiver #(, #arguments)*)))
        }
        syn::Expr::Call(call) => {
            let arguments = &call.args;
            Some((call.func.span(), quote!(#arguments)))
        }
        _ => None,
    }
}

/// The wrapping form of a method of the integers that panics on overflow in some builds.
fn wrapping_method(name: &str) -> Option<&'static str> {
    match name {
        "abs" => Some("wrapping_abs"),
        "pow" => Some("wrapping_pow"),
        "div_euclid" => Some("wrapping_div_euclid"),
        "rem_euclid" => Some("wrapping_rem_euclid"),
        _ => None,
    }
}

/// Whether a method is the runtime's: std lacks it, has it unstable, or panics where the language does not.
fn is_runtime_method(name: &str) -> bool {
    matches!(name, "rsqrt" | "sigmoid" | "erf" | "erfc" | "square" | "minimum" | "maximum" | "clamp")
}

fn ident(name: &str, span: Span) -> syn::Ident {
    syn::Ident::new(name, span)
}
