//! Scalar operations as C++: what [`crate::eval::eval_op`] says, operation by operation.
//!
//! C++ leaves overflow of signed integers, division by zero, long shifts and casts of large floats undefined, and its
//! minima treat NaN and zeros in their own way. So integers are computed unsigned, and what has no operator of the same
//! meaning is a function of the prelude. Floats use plain operators: the text is compiled without contraction.

use super::operand::{Operand, rank, unsigned_type};
use crate::dtype::{DType, Value};
use crate::scalar::ScalarOp;

/// What the printing of an operation depends on.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// Approximate functions are allowed.
    pub(super) fast: bool,
    /// The variable in which faults are noted, if they are.
    pub(super) fault: Option<&'a str>,
}

/// `op` of these operands.
pub(super) fn print_operation(context: Context<'_>, op: ScalarOp, args: &[Operand]) -> Operand {
    let dtypes: Vec<DType> = args.iter().map(|a| a.dtype).collect();
    let result = op.result_dtype(&dtypes).unwrap_or(DType::F32).compute();
    let may_fault = op.may_fault(dtypes[0]) && !never_zero(&args[1]);
    let mut printed = match (op, dtypes[0]) {
        (ScalarOp::Cast(to), _) => print_cast(&args[0], to),
        (ScalarOp::Select, _) => print_select(args),
        (ScalarOp::Philox, _) => call("fuse::philox", args, result),
        (ScalarOp::Eq | ScalarOp::Ne | ScalarOp::Lt | ScalarOp::Le | ScalarOp::Gt | ScalarOp::Ge, _) => {
            print_comparison(op, args)
        }
        (_, DType::Bool) => print_of_bools(op, args),
        (_, dtype) if dtype.is_int() => print_of_integers(context, op, args, result),
        (_, _) => print_of_floats(context, op, args, result),
    };
    printed.dtype = result;
    printed.faults = args.iter().any(|a| a.faults) || (may_fault && context.fault.is_some());
    printed
}

/// A call of a function.
pub(super) fn call(name: &str, args: &[Operand], dtype: DType) -> Operand {
    let args: Vec<&str> = args.iter().map(|a| a.text.as_str()).collect();
    Operand::primary(format!("{name}({})", args.join(", ")), dtype)
}

fn infix(sign: &str, of: u8, args: &[Operand], dtype: DType) -> Operand {
    Operand::new(Operand::infix(sign, of, args[0].ranked(), args[1].ranked()), of, dtype)
}

fn never_zero(a: &Operand) -> bool {
    a.constant.and_then(Value::as_i128).is_some_and(|n| n != 0)
}

fn print_select(args: &[Operand]) -> Operand {
    let [condition, a, b] = args else { return Operand::primary("", DType::Bool) };
    if a.faults || b.faults {
        return call(&format!("fuse::select<{}>", a.dtype), args, a.dtype);
    }
    let [condition, a_text] = [condition, a].map(|x| x.at_least(rank::LOGIC_OR));
    Operand::new(format!("{condition} ? {a_text} : {}", b.at_least(rank::TERNARY)), rank::TERNARY, a.dtype)
}

fn print_comparison(op: ScalarOp, args: &[Operand]) -> Operand {
    let (sign, of) = match op {
        ScalarOp::Eq => ("==", rank::EQUALITY),
        ScalarOp::Ne => ("!=", rank::EQUALITY),
        ScalarOp::Lt => ("<", rank::ORDER),
        ScalarOp::Le => ("<=", rank::ORDER),
        ScalarOp::Gt => (">", rank::ORDER),
        _ => (">=", rank::ORDER),
    };
    infix(sign, of, args, DType::Bool)
}

fn print_of_bools(op: ScalarOp, args: &[Operand]) -> Operand {
    let evaluated = args.iter().any(|a| a.faults);
    match op {
        ScalarOp::Not => {
            Operand::new(format!("!{}", args[0].at_least(rank::PRIMARY)), rank::UNARY, DType::Bool)
        }
        ScalarOp::And if !evaluated => infix("&&", rank::LOGIC_AND, args, DType::Bool),
        ScalarOp::Or if !evaluated => infix("||", rank::LOGIC_OR, args, DType::Bool),
        ScalarOp::And => infix("&", rank::BIT_AND, args, DType::Bool),
        ScalarOp::Or => infix("|", rank::BIT_OR, args, DType::Bool),
        _ => infix("!=", rank::EQUALITY, args, DType::Bool),
    }
}

fn print_of_integers(context: Context<'_>, op: ScalarOp, args: &[Operand], result: DType) -> Operand {
    use ScalarOp::*;
    let dtype = args[0].dtype;
    let signed = dtype.is_signed_int();
    let kind = if signed { "signed" } else { "unsigned" };
    let helper = |name: &str| call(&format!("fuse::{name}<{dtype}>"), args, result);
    let wrapping = |sign: &str, of: u8| {
        let [a, b] = [args[0].unsigned(), args[1].unsigned()];
        let text = Operand::infix(sign, of, (&a.0, a.1), (&b.0, b.1));
        Operand::from_unsigned(text, of, dtype)
    };
    match op {
        Add => wrapping("+", rank::SUM),
        Sub => wrapping("-", rank::SUM),
        Mul => wrapping("*", rank::PRODUCT),
        And => wrapping("&", rank::BIT_AND),
        Or => wrapping("|", rank::BIT_OR),
        Xor => wrapping("^", rank::BIT_XOR),
        Neg => {
            let (text, rank_of) = args[0].unsigned();
            let zero = if dtype.size() == 8 { "0ull" } else { "0u" };
            let text = Operand::infix("-", rank::SUM, (zero, rank::PRIMARY), (&text, rank_of));
            Operand::from_unsigned(text, rank::SUM, dtype)
        }
        Not => {
            let (text, rank_of) = args[0].unsigned();
            let text = if rank_of >= rank::PRIMARY { format!("~{text}") } else { format!("~({text})") };
            Operand::from_unsigned(text, rank::UNARY, dtype)
        }
        Shl => {
            let (text, of) = args[0].unsigned();
            let count = shift_count(&args[1], dtype);
            let text = Operand::infix("<<", rank::SHIFT, (&text, of), (&count.text, count.rank));
            Operand::from_unsigned(text, rank::SHIFT, dtype)
        }
        Shr => {
            let count = shift_count(&args[1], dtype);
            let text = Operand::infix(">>", rank::SHIFT, args[0].ranked(), count.ranked());
            if dtype.size() < 4 {
                Operand::primary(format!("{dtype}({text})"), dtype)
            } else {
                Operand::new(text, rank::SHIFT, dtype)
            }
        }
        Div | Rem | DivEuclid | RemEuclid => print_division(context, op, args),
        Min => helper("min_integer"),
        Max => helper("max_integer"),
        Clamp => helper("clamp"),
        Pow => helper("pow_wrapping"),
        Abs => helper("abs_signed"),
        Signum => helper("signum_signed"),
        AbsDiff => helper("abs_diff"),
        SaturatingAdd => helper(&format!("saturating_add_{kind}")),
        SaturatingSub => helper(&format!("saturating_sub_{kind}")),
        FromBits if dtype == DType::U32 => call("__uint_as_float", args, result),
        FromBits => Operand::primary(format!("__longlong_as_double(i64({}))", args[0].text), result),
        CountOnes | LeadingZeros | TrailingZeros => print_bit_count(op, &args[0]),
        _ => call(&format!("fuse::unknown_{op}"), args, result),
    }
}

/// A shift count, masked to the width.
fn shift_count(count: &Operand, of: DType) -> Operand {
    let mask = of.size() as u32 * 8 - 1;
    match count.constant {
        Some(Value::U32(n)) => Operand::primary(format!("{}u", n & mask), DType::U32),
        _ => {
            let mask = format!("{mask}u");
            let text = Operand::infix("&", rank::BIT_AND, count.ranked(), (&mask, rank::PRIMARY));
            Operand::new(text, rank::BIT_AND, DType::U32)
        }
    }
}

fn print_division(context: Context<'_>, op: ScalarOp, args: &[Operand]) -> Operand {
    let dtype = args[0].dtype;
    let signed = dtype.is_signed_int();
    let remainder = matches!(op, ScalarOp::Rem | ScalarOp::RemEuclid);
    let euclid = signed && matches!(op, ScalarOp::DivEuclid | ScalarOp::RemEuclid);
    // What C++ defines: a divisor that is a literal, neither 0 nor -1.
    if never_zero(&args[1]) && args[1].constant.and_then(Value::as_i128) != Some(-1) && !euclid {
        let text = infix(if remainder { "%" } else { "/" }, rank::PRODUCT, args, dtype);
        if dtype.size() < 4 {
            return Operand::primary(format!("{dtype}({})", text.text), dtype);
        }
        return text;
    }
    let name = match (euclid, remainder, signed) {
        (true, false, _) => "div_euclid",
        (true, true, _) => "rem_euclid",
        (false, false, true) => "div_signed",
        (false, true, true) => "rem_signed",
        (false, false, false) => "div_unsigned",
        (false, true, false) => "rem_unsigned",
    };
    let mut args = args.to_vec();
    if let Some(fault) = context.fault
        && !never_zero(&args[1])
    {
        args[1].text = format!("fuse::divisor<{dtype}>({}, {fault})", args[1].text);
    }
    call(&format!("fuse::{name}<{dtype}>"), &args, dtype)
}

fn print_bit_count(op: ScalarOp, a: &Operand) -> Operand {
    let (bits, text) = (a.dtype.size() * 8, &a.text);
    // Narrow ones without the sign's copies.
    let narrow = format!("u32(u{bits}({text}))");
    let text = match (op, bits) {
        (ScalarOp::CountOnes, 64) => format!("u32(__popcll({text}))"),
        (ScalarOp::CountOnes, _) => format!("u32(__popc({narrow}))"),
        (ScalarOp::LeadingZeros, 64) => format!("u32(__clzll({text}))"),
        (ScalarOp::LeadingZeros, 32) => format!("u32(__clz({text}))"),
        (ScalarOp::LeadingZeros, _) => format!("(u32(__clz({narrow})) - {}u)", 32 - bits),
        (_, 64) => format!("u32(__clzll(__brevll({text})))"),
        (_, 32) => format!("u32(__clz(__brev({text})))"),
        (_, _) => format!("u32(__clz(__brev({narrow} | {}u)))", 1u32 << bits),
    };
    Operand::primary(text, DType::U32)
}

fn print_of_floats(context: Context<'_>, op: ScalarOp, args: &[Operand], result: DType) -> Operand {
    use ScalarOp::*;
    let dtype = args[0].dtype;
    let single = dtype == DType::F32;
    // C's functions, which have an `f` at the end for f32; qualified, so that a user's name does not hide them.
    let library = |name: &str| call(&format!("::{name}{}", if single { "f" } else { "" }), args, result);
    let helper = |name: &str| call(&format!("fuse::{name}_{dtype}"), args, result);
    let generic = |name: &str| call(&format!("fuse::{name}<{dtype}>"), args, result);
    let either =
        |of_single: &str, of_double: &str| call(if single { of_single } else { of_double }, args, result);
    if context.fast && single {
        // Those whose relative error is bounded and whose special values are right: that of `__logf` grows without bound
        // towards 1, and `__powf` of a negative number is NaN.
        let name = match op {
            Exp => Some("__expf"),
            Exp2 => Some("fuse::exp2_fast"),
            Sigmoid => Some("fuse::sigmoid_fast"),
            _ => None,
        };
        if let Some(name) = name {
            return call(name, args, result);
        }
    }
    match op {
        Add => infix("+", rank::SUM, args, result),
        Sub => infix("-", rank::SUM, args, result),
        Mul => infix("*", rank::PRODUCT, args, result),
        Div => infix("/", rank::PRODUCT, args, result),
        Rem => library("fmod"),
        DivEuclid => helper("div_euclid"),
        RemEuclid => helper("rem_euclid"),
        Neg => Operand::new(format!("-{}", args[0].at_least(rank::PRIMARY)), rank::UNARY, result),
        Min if is_library_minimum(args, true) => library("fmin"),
        Max if is_library_minimum(args, false) => library("fmax"),
        Min => generic("min_rust"),
        Max => generic("max_rust"),
        Minimum => generic("minimum"),
        Maximum => generic("maximum"),
        Clamp => generic("clamp"),
        MulAdd => either("__fmaf_rn", "__fma_rn"),
        Abs => library("fabs"),
        Signum => helper("signum"),
        Copysign => library("copysign"),
        Sqrt => either("__fsqrt_rn", "__dsqrt_rn"),
        Rsqrt => {
            let root = either("__fsqrt_rn", "__dsqrt_rn");
            call(if single { "__frcp_rn" } else { "__drcp_rn" }, &[root], result)
        }
        Recip => either("__frcp_rn", "__drcp_rn"),
        Cbrt => library("cbrt"),
        Exp => library("exp"),
        Exp2 => library("exp2"),
        ExpM1 => library("expm1"),
        Ln => library("log"),
        Log2 => library("log2"),
        Log10 => library("log10"),
        Ln1p => library("log1p"),
        Sin => library("sin"),
        Cos => library("cos"),
        Asin => library("asin"),
        Acos => library("acos"),
        Atan => library("atan"),
        Cosh => library("cosh"),
        Tanh => library("tanh"),
        Erf => library("erf"),
        // CUDA's functions of these in f32 are not within 2 ulp.
        Tan | Sinh | Asinh | Acosh | Atanh | Erfc if single => helper(&op.to_string()),
        Atan2 | Hypot | Powf if single => helper(&op.to_string()),
        Tan | Sinh | Asinh | Acosh | Atanh | Erfc | Atan2 | Hypot => library(&op.to_string()),
        Powf => library("pow"),
        Sigmoid | Powi => helper(&op.to_string()),
        Floor => library("floor"),
        Ceil => library("ceil"),
        Trunc => library("trunc"),
        Round => library("round"),
        RoundTiesEven => library("rint"),
        Fract | IsNan | IsInfinite | IsFinite | IsSignNegative => helper(&op.to_string()),
        ToBits if single => call("__float_as_uint", args, result),
        ToBits => Operand::primary(format!("u64(__double_as_longlong({}))", args[0].text), result),
        _ => call(&format!("fuse::unknown_{op}"), args, result),
    }
}

/// Whether C's `fmin` (or `fmax`) is Rust's for these operands. They differ for zeros of opposite signs only: Rust takes
/// the second, C the one whose sign says so.
fn is_library_minimum(args: &[Operand], minimum: bool) -> bool {
    let number = |a: &Operand| a.constant.and_then(Value::as_f64);
    match (number(&args[0]), number(&args[1])) {
        (Some(a), _) if a != 0.0 => true,
        (_, Some(b)) => b != 0.0 || b.is_sign_negative() == minimum,
        (_, None) => false,
    }
}

fn print_cast(a: &Operand, to: DType) -> Operand {
    let (from, text) = (a.dtype, &a.text);
    let target = to.compute();
    if to.is_narrow_float() {
        let single = match from {
            DType::F32 => text.clone(),
            DType::F64 => format!("fuse::round_to_odd({text})"),
            _ => format!("f32({text})"),
        };
        return Operand::primary(format!("fuse::round_{to}({single})"), target);
    }
    match (from, to) {
        (from, to) if from == to => a.clone(),
        (DType::Bool, to) => Operand::primary(format!("{to}({text})"), to),
        (from, DType::Bool) => {
            let zero = if from.is_float() { "0.0" } else { "0" };
            let suffix = if from == DType::F32 { "f" } else { "" };
            let zero = format!("{zero}{suffix}");
            let text = Operand::infix("!=", rank::EQUALITY, a.ranked(), (&zero, rank::PRIMARY));
            Operand::new(text, rank::EQUALITY, to)
        }
        (from, to) if from.is_float() && to.is_int() => print_cast_to_integer(a, to),
        // The low bits are what it is made of.
        (from, to) if from.is_int() && to.is_int() && to.size() <= from.size() => match &a.wrapped {
            Some((text, of)) if unsigned_type(from) == unsigned_type(to) => {
                Operand::from_unsigned(text.clone(), *of, to)
            }
            _ => Operand::primary(format!("{to}({text})"), to),
        },
        (_, to) => Operand::primary(format!("{to}({text})"), to),
    }
}

fn print_cast_to_integer(a: &Operand, to: DType) -> Operand {
    let (from, text) = (a.dtype, &a.text);
    let wide = match (to.is_signed_int(), to.size()) {
        (true, 8) => "i64",
        (true, _) => "i32",
        (false, 8) => "u64",
        (false, _) => "u32",
    };
    let converted = format!("fuse::{from}_to_{wide}({text})");
    let kind = if to.is_signed_int() { "signed" } else { "unsigned" };
    let text = if to.size() < 4 { format!("fuse::narrow_{kind}<{to}>({converted})") } else { converted };
    Operand::primary(text, to)
}

/// The unsigned type of the same width in memory.
pub(super) fn memory_bits(size: usize) -> &'static str {
    match size {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        _ => unsigned_type(DType::U64),
    }
}
