//! Scalar operations as Rust expressions, with the meaning that [`ScalarOp`] states.
//!
//! Three things keep the loops vector code: integer arithmetic is `wrapping_*`, choices are `if` expressions between two
//! values, and everything that std leaves to a library call goes to the runtime's own functions.

use super::literal::rust_type;
use fuse_ir::dtype::DType;
use fuse_ir::scalar::ScalarOp;
use proc_macro2::{TokenStream, TokenTree};
use quote::{format_ident, quote};

/// `op` of the operands, whose dtypes are `dtypes` (compute types). A division that may fault gives 0; recording the
/// fault is the caller's.
pub(super) fn emit_op(
    private: &TokenStream,
    op: ScalarOp,
    dtypes: &[DType],
    args: &[TokenStream],
) -> TokenStream {
    let float = dtypes[0].is_float();
    let f32_operand = dtypes[0].compute() == DType::F32;
    let ty = rust_type(dtypes[0]);
    let operand = |k: usize| atom(&args[k]);
    let a = operand(0);
    // Operand counts are the verifier's business; a missing operand would be a bug there.
    let b = if args.len() > 1 { operand(1) } else { TokenStream::new() };
    let c = if args.len() > 2 { operand(2) } else { TokenStream::new() };
    let math = |name: &str, fused: bool| {
        let (f32_name, f64_name) = (format_ident!("{name}"), format_ident!("{name}_f64"));
        match (f32_operand, fused) {
            (true, true) => quote!(#private::math::#f32_name::<F>),
            (true, false) => quote!(#private::math::#f32_name),
            (false, _) => quote!(#private::math::#f64_name),
        }
    };
    let unary = |name: &str| {
        let f = math(name, true);
        let x = &args[0];
        quote!(#f(#x))
    };
    let binary = |name: &str| {
        let f = math(name, true);
        let (x, y) = (&args[0], &args[1]);
        quote!(#f(#x, #y))
    };
    let integer = |name: &str| {
        let f = format_ident!("{name}");
        let (x, y) = (&args[0], &args[1]);
        quote!(#private::integer::#f(#x, #y))
    };
    match op {
        ScalarOp::Add if float => quote!(#a + #b),
        ScalarOp::Sub if float => quote!(#a - #b),
        ScalarOp::Mul if float => quote!(#a * #b),
        ScalarOp::Div if float => quote!(#a / #b),
        ScalarOp::Rem if float => quote!(#a % #b),
        ScalarOp::DivEuclid if float => quote!(#a.div_euclid(#b)),
        ScalarOp::RemEuclid if float => quote!(#a.rem_euclid(#b)),
        ScalarOp::Add => quote!(#a.wrapping_add(#b)),
        ScalarOp::Sub => quote!(#a.wrapping_sub(#b)),
        ScalarOp::Mul => quote!(#a.wrapping_mul(#b)),
        ScalarOp::Div => integer("div"),
        ScalarOp::Rem => integer("rem"),
        ScalarOp::DivEuclid => integer("div_euclid"),
        ScalarOp::RemEuclid => integer("rem_euclid"),
        ScalarOp::Neg if float => quote!(-#a),
        ScalarOp::Neg => quote!(#a.wrapping_neg()),
        ScalarOp::Not => quote!(!#a),
        ScalarOp::And => quote!(#a & #b),
        ScalarOp::Or => quote!(#a | #b),
        ScalarOp::Xor => quote!(#a ^ #b),
        ScalarOp::Shl => quote!(#a.wrapping_shl(#b)),
        ScalarOp::Shr => quote!(#a.wrapping_shr(#b)),
        ScalarOp::Min if float => quote!(#private::math::min_rust(#a, #b)),
        ScalarOp::Max if float => quote!(#private::math::max_rust(#a, #b)),
        ScalarOp::Min => quote!(::core::cmp::Ord::min(#a, #b)),
        ScalarOp::Max => quote!(::core::cmp::Ord::max(#a, #b)),
        ScalarOp::Minimum => quote!(#private::math::minimum(#a, #b)),
        ScalarOp::Maximum => quote!(#private::math::maximum(#a, #b)),
        ScalarOp::Clamp => quote!(#private::clamp(#a, #b, #c)),
        // std's is a call into libm where the instruction is not there.
        ScalarOp::MulAdd if f32_operand => quote!(#private::math::mul_add::<F>(#a, #b, #c)),
        ScalarOp::MulAdd => quote!(#ty::mul_add(#a, #b, #c)),
        ScalarOp::Eq => quote!(#a == #b),
        ScalarOp::Ne => quote!(#a != #b),
        ScalarOp::Lt => quote!(#a < #b),
        ScalarOp::Le => quote!(#a <= #b),
        ScalarOp::Gt => quote!(#a > #b),
        ScalarOp::Ge => quote!(#a >= #b),
        ScalarOp::Select => {
            let (condition, yes, no) = (&args[0], &args[1], &args[2]);
            quote!(if #condition { #yes } else { #no })
        }
        ScalarOp::Cast(to) => emit_cast(private, dtypes[0], to, &args[0]),
        ScalarOp::Abs if float => {
            let f = math("abs", false);
            quote!(#f(#a))
        }
        ScalarOp::Abs => quote!(#a.wrapping_abs()),
        ScalarOp::Signum if float => {
            let f = math("signum", false);
            quote!(#f(#a))
        }
        ScalarOp::Signum => quote!(#a.signum()),
        ScalarOp::Copysign => {
            let f = math("copysign", false);
            quote!(#f(#a, #b))
        }
        ScalarOp::Sqrt => quote!(#ty::sqrt(#a)),
        ScalarOp::Rsqrt => quote!(1.0 / #ty::sqrt(#a)),
        ScalarOp::Recip => quote!(1.0 / #a),
        ScalarOp::Cbrt => unary("cbrt"),
        ScalarOp::Exp => unary("exp"),
        ScalarOp::Exp2 => unary("exp2"),
        ScalarOp::ExpM1 => unary("exp_m1"),
        ScalarOp::Ln => unary("ln"),
        ScalarOp::Log2 => unary("log2"),
        ScalarOp::Log10 => unary("log10"),
        ScalarOp::Ln1p => unary("ln_1p"),
        ScalarOp::Sin => unary("sin"),
        ScalarOp::Cos => unary("cos"),
        ScalarOp::Tan => unary("tan"),
        ScalarOp::Asin => unary("asin"),
        ScalarOp::Acos => unary("acos"),
        ScalarOp::Atan => unary("atan"),
        ScalarOp::Atan2 => binary("atan2"),
        ScalarOp::Sinh => unary("sinh"),
        ScalarOp::Cosh => unary("cosh"),
        ScalarOp::Tanh => unary("tanh"),
        ScalarOp::Asinh => unary("asinh"),
        ScalarOp::Acosh => unary("acosh"),
        ScalarOp::Atanh => unary("atanh"),
        ScalarOp::Sigmoid => unary("sigmoid"),
        ScalarOp::Erf => unary("erf"),
        ScalarOp::Erfc => unary("erfc"),
        ScalarOp::Hypot => binary("hypot"),
        ScalarOp::Powf => binary("powf"),
        ScalarOp::Powi => binary("powi"),
        ScalarOp::Pow => quote!(#a.wrapping_pow(#b)),
        ScalarOp::Floor => unary("floor"),
        ScalarOp::Ceil => unary("ceil"),
        ScalarOp::Trunc => unary("trunc"),
        ScalarOp::Round => unary("round"),
        ScalarOp::RoundTiesEven => unary("round_ties_even"),
        ScalarOp::Fract => unary("fract"),
        ScalarOp::IsNan => quote!(#a.is_nan()),
        ScalarOp::IsInfinite => quote!(#a.is_infinite()),
        ScalarOp::IsFinite => quote!(#a.is_finite()),
        ScalarOp::IsSignNegative => quote!(#a.is_sign_negative()),
        ScalarOp::ToBits => quote!(#a.to_bits()),
        ScalarOp::FromBits => {
            let to = rust_type(if dtypes[0] == DType::U64 { DType::F64 } else { DType::F32 });
            quote!(#to::from_bits(#a))
        }
        ScalarOp::CountOnes => quote!(#a.count_ones()),
        ScalarOp::LeadingZeros => quote!(#a.leading_zeros()),
        ScalarOp::TrailingZeros => quote!(#a.trailing_zeros()),
        ScalarOp::SaturatingAdd => quote!(#a.saturating_add(#b)),
        ScalarOp::SaturatingSub => quote!(#a.saturating_sub(#b)),
        ScalarOp::AbsDiff => quote!(#a.abs_diff(#b)),
        ScalarOp::Philox => {
            let (seed, stream, index) = (&args[0], &args[1], &c);
            quote!(#private::random::philox(#seed, #stream, #index as u64))
        }
    }
}

/// `x as to`; narrow floats stay in f32, rounded.
pub(super) fn emit_cast(private: &TokenStream, from: DType, to: DType, x: &TokenStream) -> TokenStream {
    if to.is_narrow_float() {
        let round = if from == DType::F64 {
            format_ident!("round_f64_to_{}", to.name())
        } else {
            format_ident!("round_to_{}", to.name())
        };
        let x = if from.compute() == DType::F32 || from == DType::F64 {
            x.clone()
        } else {
            quote!(#private::convert::cast::<f32, _>(#x))
        };
        return quote!(#private::convert::#round(#x));
    }
    if from.compute() == to {
        return x.clone();
    }
    let ty = rust_type(to);
    quote!(#private::convert::cast::<#ty, _>(#x))
}

/// The expression with parentheses around it, unless it is one token.
fn atom(tokens: &TokenStream) -> TokenStream {
    let mut trees = tokens.clone().into_iter();
    match (trees.next(), trees.next()) {
        (Some(TokenTree::Ident(_) | TokenTree::Literal(_) | TokenTree::Group(_)), None) => tokens.clone(),
        _ => quote!((#tokens)),
    }
}
