//! Scalar operations and scalar functions: what happens to one element.
//!
//! A [`ScalarFn`] is a user's `#[op]` after type checking: assignments to typed variables, structured control flow and
//! [`ScalarOp`]s. Tuples are flattened into several variables. Values are widened before, so that narrow floats do not
//! occur, but for a cast to one within another cast, which rounds.

use crate::dtype::{DType, Value};
use crate::id::{FnId, VarId};
use serde::{Deserialize, Serialize};
use std::fmt;

mod verify;

pub use verify::verify_function;

/// An operation on scalars. Unless the variant says otherwise all operands and the result have one dtype. "float" is
/// f32 or f64, "number" adds the integers. The meaning is Rust's (language rule 10); integers wrap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum ScalarOp {
    /// `a + b` of numbers.
    Add,
    /// `a - b` of numbers.
    Sub,
    /// `a * b` of numbers.
    Mul,
    /// `a / b` of numbers; an integer division by zero is a fault and gives 0.
    Div,
    /// `a % b` of numbers; integer by zero is a fault and gives 0.
    Rem,
    /// `a.div_euclid(b)` of numbers; integer by zero is a fault and gives 0.
    DivEuclid,
    /// `a.rem_euclid(b)` of numbers; integer by zero is a fault and gives 0.
    RemEuclid,
    /// `-a` of a float or a signed integer.
    Neg,
    /// `!a` of an integer or bool.
    Not,
    /// `a & b` of integers or bools.
    And,
    /// `a | b` of integers or bools.
    Or,
    /// `a ^ b` of integers or bools.
    Xor,
    /// `a << b` of an integer by a u32, the count masked to the width.
    Shl,
    /// `a >> b` of an integer by a u32, the count masked to the width.
    Shr,
    /// `a.min(b)`: Rust's, which ignores a NaN.
    Min,
    /// `a.max(b)`: Rust's, which ignores a NaN.
    Max,
    /// `minimum(a, b)` of floats: NaN if either is.
    Minimum,
    /// `maximum(a, b)` of floats: NaN if either is.
    Maximum,
    /// `a.clamp(lo, hi)` of numbers: `lo` below it, `hi` above it, NaN stays; bounds are not checked.
    Clamp,
    /// `a.mul_add(b, c)` of floats, one rounding.
    MulAdd,
    /// `a == b` of numbers or bools, gives bool.
    Eq,
    /// `a != b` of numbers or bools, gives bool.
    Ne,
    /// `a < b` of numbers or bools, gives bool.
    Lt,
    /// `a <= b` of numbers or bools, gives bool.
    Le,
    /// `a > b` of numbers or bools, gives bool.
    Gt,
    /// `a >= b` of numbers or bools, gives bool.
    Ge,
    /// `select(c, a, b)`: bool and two of any one dtype (narrow floats too); both sides are evaluated.
    Select,
    /// `a as T` by the rules of [`Value::cast`]; any dtype to any.
    Cast(DType),
    /// `a.abs()` of a float or signed integer (wrapping).
    Abs,
    /// `a.signum()` of a float or signed integer.
    Signum,
    /// `a.copysign(b)` of floats.
    Copysign,
    /// `a.sqrt()` of a float.
    Sqrt,
    /// `1 / a.sqrt()` of a float, computed as written.
    Rsqrt,
    /// `1 / a` of a float.
    Recip,
    /// `a.cbrt()` of a float.
    Cbrt,
    /// `a.exp()` of a float.
    Exp,
    /// `a.exp2()` of a float.
    Exp2,
    /// `a.exp_m1()` of a float.
    ExpM1,
    /// `a.ln()` of a float.
    Ln,
    /// `a.log2()` of a float.
    Log2,
    /// `a.log10()` of a float.
    Log10,
    /// `a.ln_1p()` of a float.
    Ln1p,
    /// `a.sin()` of a float.
    Sin,
    /// `a.cos()` of a float.
    Cos,
    /// `a.tan()` of a float.
    Tan,
    /// `a.asin()` of a float.
    Asin,
    /// `a.acos()` of a float.
    Acos,
    /// `a.atan()` of a float.
    Atan,
    /// `a.atan2(b)` of floats.
    Atan2,
    /// `a.sinh()` of a float.
    Sinh,
    /// `a.cosh()` of a float.
    Cosh,
    /// `a.tanh()` of a float.
    Tanh,
    /// `a.asinh()` of a float.
    Asinh,
    /// `a.acosh()` of a float.
    Acosh,
    /// `a.atanh()` of a float.
    Atanh,
    /// `1 / (1 + exp(-a))` of a float.
    Sigmoid,
    /// The error function of a float.
    Erf,
    /// `1 - erf(a)` of a float, accurate in the tail.
    Erfc,
    /// `a.hypot(b)` of floats.
    Hypot,
    /// `a.powf(b)` of floats.
    Powf,
    /// `a.powi(n)` of a float and an i32.
    Powi,
    /// `a.pow(n)` of an integer and a u32, wrapping.
    Pow,
    /// `a.floor()` of a float.
    Floor,
    /// `a.ceil()` of a float.
    Ceil,
    /// `a.trunc()` of a float.
    Trunc,
    /// `a.round()` of a float: half away from zero.
    Round,
    /// `a.round_ties_even()` of a float.
    RoundTiesEven,
    /// `a.fract()` of a float.
    Fract,
    /// `a.is_nan()` of a float, gives bool.
    IsNan,
    /// `a.is_infinite()` of a float, gives bool.
    IsInfinite,
    /// `a.is_finite()` of a float, gives bool.
    IsFinite,
    /// `a.is_sign_negative()` of a float, gives bool.
    IsSignNegative,
    /// `a.to_bits()`: f32 to u32, f64 to u64.
    ToBits,
    /// `f32::from_bits(a)` of a u32, `f64::from_bits(a)` of a u64.
    FromBits,
    /// `a.count_ones()` of an integer, gives u32.
    CountOnes,
    /// `a.leading_zeros()` of an integer, gives u32.
    LeadingZeros,
    /// `a.trailing_zeros()` of an integer, gives u32.
    TrailingZeros,
    /// `a.saturating_add(b)` of integers.
    SaturatingAdd,
    /// `a.saturating_sub(b)` of integers.
    SaturatingSub,
    /// `a.abs_diff(b)` of unsigned integers.
    AbsDiff,
    /// A word of Philox4x32-10: `(seed: u64, stream: u64, index: i64)`, gives u32 (language rule 16). Key: the seed;
    /// counter: `index / 4` in the low two words, `stream` in the high two; the word is `index % 4`.
    Philox,
}

impl ScalarOp {
    /// The number of operands.
    pub fn arity(self) -> usize {
        use ScalarOp::*;
        match self {
            Neg | Not | Cast(_) | Abs | Signum | Sqrt | Rsqrt | Recip | Cbrt | Exp | Exp2 | ExpM1 | Ln
            | Log2 | Log10 | Ln1p | Sin | Cos | Tan | Asin | Acos | Atan | Sinh | Cosh | Tanh | Asinh
            | Acosh | Atanh | Sigmoid | Erf | Erfc | Floor | Ceil | Trunc | Round | RoundTiesEven | Fract
            | IsNan | IsInfinite | IsFinite | IsSignNegative | ToBits | FromBits | CountOnes
            | LeadingZeros | TrailingZeros => 1,
            Add | Sub | Mul | Div | Rem | DivEuclid | RemEuclid | And | Or | Xor | Shl | Shr | Min | Max
            | Minimum | Maximum | Eq | Ne | Lt | Le | Gt | Ge | Copysign | Atan2 | Hypot | Powf | Powi
            | Pow | SaturatingAdd | SaturatingSub | AbsDiff => 2,
            Clamp | MulAdd | Select | Philox => 3,
        }
    }

    /// The dtype of the result for operands of these dtypes; `None` if the operation does not take them.
    pub fn result_dtype(self, args: &[DType]) -> Option<DType> {
        use ScalarOp::*;
        let float = |d: DType| matches!(d, DType::F32 | DType::F64);
        let number = |d: DType| float(d) || d.is_int();
        let first = *args.first()?;
        let same = args.iter().all(|&d| d == first);
        if args.len() != self.arity() {
            return None;
        }
        let when = |ok: bool, d: DType| if ok { Some(d) } else { None };
        match self {
            Add | Sub | Mul | Div | Rem | DivEuclid | RemEuclid | Min | Max | Clamp => {
                when(same && number(first), first)
            }
            Neg | Abs | Signum => when(float(first) || first.is_signed_int(), first),
            Not | And | Or | Xor => when(same && (first.is_int() || first == DType::Bool), first),
            Shl | Shr | Pow => when(first.is_int() && args[1] == DType::U32, first),
            Minimum | Maximum | MulAdd | Copysign | Atan2 | Hypot | Powf => when(same && float(first), first),
            Eq | Ne | Lt | Le | Gt | Ge => when(same && (number(first) || first == DType::Bool), DType::Bool),
            Select => when(first == DType::Bool && args[1] == args[2], args[1]),
            Cast(to) => Some(to),
            Sqrt | Rsqrt | Recip | Cbrt | Exp | Exp2 | ExpM1 | Ln | Log2 | Log10 | Ln1p | Sin | Cos | Tan
            | Asin | Acos | Atan | Sinh | Cosh | Tanh | Asinh | Acosh | Atanh | Sigmoid | Erf | Erfc
            | Floor | Ceil | Trunc | Round | RoundTiesEven | Fract => when(float(first), first),
            Powi => when(float(first) && args[1] == DType::I32, first),
            IsNan | IsInfinite | IsFinite | IsSignNegative => when(float(first), DType::Bool),
            ToBits => match first {
                DType::F32 => Some(DType::U32),
                DType::F64 => Some(DType::U64),
                _ => None,
            },
            FromBits => match first {
                DType::U32 => Some(DType::F32),
                DType::U64 => Some(DType::F64),
                _ => None,
            },
            CountOnes | LeadingZeros | TrailingZeros => when(first.is_int(), DType::U32),
            SaturatingAdd | SaturatingSub => when(same && first.is_int(), first),
            AbsDiff => when(same && first.is_unsigned_int(), first),
            Philox => when(args == [DType::U64, DType::U64, DType::I64], DType::U32),
        }
    }

    /// Whether it may fault on operands of this dtype.
    pub fn may_fault(self, dtype: DType) -> bool {
        use ScalarOp::*;
        matches!(self, Div | Rem | DivEuclid | RemEuclid) && dtype.is_int()
    }

    /// Whether its value may differ between backends within a stated ulp: the transcendental functions.
    pub fn is_transcendental(self) -> bool {
        use ScalarOp::*;
        match self {
            Cbrt | Exp | Exp2 | ExpM1 | Ln | Log2 | Log10 | Ln1p | Sin | Cos | Tan | Asin | Acos | Atan
            | Atan2 | Sinh | Cosh | Tanh | Asinh | Acosh | Atanh | Sigmoid | Erf | Erfc | Hypot | Powf
            | Powi => true,
            Add | Sub | Mul | Div | Rem | DivEuclid | RemEuclid | Neg | Not | And | Or | Xor | Shl | Shr
            | Min | Max | Minimum | Maximum | Clamp | MulAdd | Eq | Ne | Lt | Le | Gt | Ge | Select
            | Cast(_) | Abs | Signum | Copysign | Sqrt | Rsqrt | Recip | Pow | Floor | Ceil | Trunc
            | Round | RoundTiesEven | Fract | IsNan | IsInfinite | IsFinite | IsSignNegative | ToBits
            | FromBits | CountOnes | LeadingZeros | TrailingZeros | SaturatingAdd | SaturatingSub
            | AbsDiff | Philox => false,
        }
    }
}

/// The name in dumps: `mul_add`; a cast shows its target.
impl fmt::Display for ScalarOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ScalarOp::Cast(to) = self {
            return write!(f, "cast<{to}>");
        }
        let mut name = String::new();
        for c in format!("{self:?}").chars() {
            if c.is_ascii_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(c.to_ascii_lowercase());
        }
        f.write_str(&name)
    }
}

/// A variable of a scalar function.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Variable {
    /// The user's name, or one that the compiler made.
    pub name: String,
    /// Its dtype: never a narrow float.
    pub dtype: DType,
}

/// An expression of a scalar function. Evaluation has no side effects but faults.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Expr {
    /// A literal or constant.
    Constant(Value),
    /// The variable's present value.
    Variable(VarId),
    /// An operation; all operands are evaluated.
    Op(ScalarOp, Vec<Expr>),
    /// A call of an earlier function of the kernel; `result` picks one of a tuple.
    Call {
        /// Which function.
        function: FnId,
        /// One expression for each flattened parameter.
        args: Vec<Expr>,
        /// Which of its results.
        result: u32,
    },
}

/// A statement of a scalar function.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Stmt {
    /// `variable = value`; the first assignment in the order of execution declares it.
    Assign {
        /// What is set.
        variable: VarId,
        /// To what.
        value: Expr,
    },
    /// Only the branch taken is executed: `if`, `match`, `&&` and `||` become this where a side may fault.
    If {
        /// A bool.
        condition: Expr,
        /// Executed if it is true.
        then: Vec<Stmt>,
        /// Executed if it is false.
        otherwise: Vec<Stmt>,
    },
    /// `for variable in start..end` with constant bounds.
    For {
        /// The loop variable, an integer.
        variable: VarId,
        /// The first value.
        start: i64,
        /// The exclusive end.
        end: i64,
        /// Executed for each.
        body: Vec<Stmt>,
    },
}

/// A function over scalars: a user's `#[op]`, or the combiner of a `#[reduce]`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ScalarFn {
    /// The user's name.
    pub name: String,
    /// The first of [`Self::variables`] are the parameters.
    pub parameters: u32,
    /// Parameters, then locals. Every local is assigned before it is read on each path.
    pub variables: Vec<Variable>,
    /// What is executed.
    pub body: Vec<Stmt>,
    /// One expression for each result; a function of one value has one.
    pub results: Vec<Expr>,
}
