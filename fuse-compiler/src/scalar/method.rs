//! The methods of the primitive types, and those that std lacks, as expressions over [`ScalarOp`]s.
//!
//! One table types and expands a method for scalar bodies and for tensor bodies alike: `x.abs()` of a tensor is the same
//! row as `x.abs()` in an op.

use fuse_ir::dtype::{DType, Value};
use fuse_ir::scalar::{Expr, ScalarOp};

/// The dtypes that a receiver may have; never a narrow float, which is widened before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// f32, f64.
    Float,
    /// Any integer.
    Int,
    /// i8 to i64.
    Signed,
    /// u8 to u64.
    Unsigned,
    /// Floats and integers.
    Number,
    /// Floats and signed integers.
    SignedNumber,
    /// Integers and bool.
    Bits,
    /// Numbers and bool.
    Scalar,
}

impl Class {
    /// Whether a dtype belongs to it.
    pub fn contains(self, dtype: DType) -> bool {
        let float = matches!(dtype, DType::F32 | DType::F64);
        match self {
            Class::Float => float,
            Class::Int => dtype.is_int(),
            Class::Signed => dtype.is_signed_int(),
            Class::Unsigned => dtype.is_unsigned_int(),
            Class::Number => float || dtype.is_int(),
            Class::SignedNumber => float || dtype.is_signed_int(),
            Class::Bits => dtype.is_int() || dtype == DType::Bool,
            Class::Scalar => float || dtype.is_int() || dtype == DType::Bool,
        }
    }

    /// How a message names it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Float => "f32 or f64",
            Class::Int => "an integer",
            Class::Signed => "a signed integer",
            Class::Unsigned => "an unsigned integer",
            Class::Number => "a number",
            Class::SignedNumber => "a float or a signed integer",
            Class::Bits => "an integer or bool",
            Class::Scalar => "a number or bool",
        }
    }
}

/// The dtype of an argument after the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Argument {
    /// The receiver's.
    Receiver,
    /// i32.
    I32,
    /// u32.
    U32,
}

/// What a method gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The receiver's dtype.
    Receiver,
    /// bool.
    Bool,
    /// u32.
    U32,
    /// The unsigned integer of the receiver's width.
    Unsigned,
    /// Two of the receiver's dtype.
    Pair,
}

/// A method with its typing and its meaning.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// The name.
    pub name: &'static str,
    /// What the receiver may be.
    pub receiver: Class,
    /// The arguments after it.
    pub arguments: &'static [Argument],
    /// The result.
    pub outcome: Outcome,
    meaning: Meaning,
}

#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// One operation on receiver and arguments.
    Op(ScalarOp),
    /// Several, for a receiver of this dtype. An operand may occur more than once.
    Several(fn(DType, &[Expr]) -> Vec<Expr>),
}

impl Method {
    /// The one operation that the method is, if it is one.
    pub fn op(&self) -> Option<ScalarOp> {
        match self.meaning {
            Meaning::Op(op) => Some(op),
            Meaning::Several(_) => None,
        }
    }

    /// The dtype of argument `index`, counted after the receiver.
    pub fn argument_dtype(&self, index: usize, receiver: DType) -> Option<DType> {
        self.arguments.get(index).map(|argument| match argument {
            Argument::Receiver => receiver,
            Argument::I32 => DType::I32,
            Argument::U32 => DType::U32,
        })
    }

    /// The dtypes of the results: one, or two for a pair.
    pub fn result_dtypes(&self, receiver: DType) -> Vec<DType> {
        match self.outcome {
            Outcome::Receiver => vec![receiver],
            Outcome::Bool => vec![DType::Bool],
            Outcome::U32 => vec![DType::U32],
            Outcome::Unsigned => vec![unsigned(receiver)],
            Outcome::Pair => vec![receiver; 2],
        }
    }

    /// The results for a receiver of this dtype; `operands` are the receiver and the arguments. An operand may occur more
    /// than once in the results unless the method is one [`Self::op`].
    pub fn expand(&self, receiver: DType, operands: Vec<Expr>) -> Vec<Expr> {
        match self.meaning {
            Meaning::Op(op) => vec![Expr::Op(op, operands)],
            Meaning::Several(build) => build(receiver, &operands),
        }
    }
}

/// The method of that name, also for the calls `maximum(a, b)` and `f32::max(a, b)`, whose first argument is the receiver.
pub fn find_method(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}

/// The operation that a method is, for methods that are one.
pub fn method_op(name: &str) -> Option<ScalarOp> {
    find_method(name)?.op()
}

/// The name of a method that is spelled almost like `name`, for help lines.
pub fn similar_method(name: &str) -> Option<&'static str> {
    let well_known = match name {
        "log" => Some("ln"),
        "ln1p" | "log1p" => Some("ln_1p"),
        "expm1" => Some("exp_m1"),
        "inv_sqrt" | "inverse_sqrt" | "rsqrtf" => Some("rsqrt"),
        "reciprocal" => Some("recip"),
        "pow" => Some("powf"),
        "ceiling" => Some("ceil"),
        "logistic" => Some("sigmoid"),
        "isnan" => Some("is_nan"),
        "isinf" => Some("is_infinite"),
        "isfinite" => Some("is_finite"),
        _ => None,
    };
    well_known.or_else(|| {
        let closest = METHODS.iter().min_by_key(|method| edit_distance(method.name, name))?;
        (edit_distance(closest.name, name) <= name.len().min(6) / 3).then_some(closest.name)
    })
}

/// The number of letters to insert, remove, replace or swap with their neighbour to make one name the other.
pub(super) fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

fn unsigned(dtype: DType) -> DType {
    match dtype {
        DType::F32 | DType::I32 | DType::U32 => DType::U32,
        DType::F64 | DType::I64 | DType::U64 => DType::U64,
        DType::F16 | DType::Bf16 | DType::I16 | DType::U16 => DType::U16,
        DType::F8E4M3 | DType::F8E5M2 | DType::I8 | DType::U8 | DType::Bool => DType::U8,
    }
}

fn unary(op: ScalarOp, a: Expr) -> Expr {
    Expr::Op(op, vec![a])
}

fn binary(op: ScalarOp, a: &Expr, b: &Expr) -> Expr {
    Expr::Op(op, vec![a.clone(), b.clone()])
}

/// An integer constant; the table asks for integers of integer dtypes only.
fn int(dtype: DType, value: i128) -> Expr {
    Expr::Constant(Value::from_i128(dtype, value).unwrap_or(Value::zero(dtype)))
}

/// A constant of the receiver's float dtype.
fn float(dtype: DType, f32: f32, f64: f64) -> Expr {
    Expr::Constant(if dtype == DType::F64 { Value::F64(f64) } else { Value::F32(f32) })
}

fn smallest_normal(dtype: DType) -> Expr {
    float(dtype, f32::MIN_POSITIVE, f64::MIN_POSITIVE)
}

/// The bits of `a` turned by `count` towards `near`: the counts are masked, so that a count of zero gives `a`.
fn rotate(dtype: DType, a: &Expr, count: &Expr, near: ScalarOp, far: ScalarOp) -> Vec<Expr> {
    let bits = unary(ScalarOp::Cast(unsigned(dtype)), a.clone());
    let rest = binary(ScalarOp::Sub, &int(DType::U32, 8 * dtype.size() as i128), count);
    let turned = binary(ScalarOp::Or, &binary(near, &bits, count), &binary(far, &bits, &rest));
    vec![unary(ScalarOp::Cast(dtype), turned)]
}

macro_rules! arguments {
    (($($argument:ident),*)) => {
        &[$(Argument::$argument),*]
    };
}

macro_rules! methods {
    ($($receiver:ident $arguments:tt -> $outcome:ident { $($name:ident = $meaning:expr),* $(,)? })*) => {
        &[$($(Method {
            name: stringify!($name),
            receiver: Class::$receiver,
            arguments: arguments!($arguments),
            outcome: Outcome::$outcome,
            meaning: $meaning,
        },)*)*]
    };
}

use Meaning::{Op, Several};

static METHODS: &[Method] = methods! {
    Float() -> Receiver {
        sqrt = Op(ScalarOp::Sqrt),
        rsqrt = Op(ScalarOp::Rsqrt),
        recip = Op(ScalarOp::Recip),
        cbrt = Op(ScalarOp::Cbrt),
        exp = Op(ScalarOp::Exp),
        exp2 = Op(ScalarOp::Exp2),
        exp_m1 = Op(ScalarOp::ExpM1),
        ln = Op(ScalarOp::Ln),
        log2 = Op(ScalarOp::Log2),
        log10 = Op(ScalarOp::Log10),
        ln_1p = Op(ScalarOp::Ln1p),
        sin = Op(ScalarOp::Sin),
        cos = Op(ScalarOp::Cos),
        tan = Op(ScalarOp::Tan),
        asin = Op(ScalarOp::Asin),
        acos = Op(ScalarOp::Acos),
        atan = Op(ScalarOp::Atan),
        sinh = Op(ScalarOp::Sinh),
        cosh = Op(ScalarOp::Cosh),
        tanh = Op(ScalarOp::Tanh),
        asinh = Op(ScalarOp::Asinh),
        acosh = Op(ScalarOp::Acosh),
        atanh = Op(ScalarOp::Atanh),
        sigmoid = Op(ScalarOp::Sigmoid),
        erf = Op(ScalarOp::Erf),
        erfc = Op(ScalarOp::Erfc),
        floor = Op(ScalarOp::Floor),
        ceil = Op(ScalarOp::Ceil),
        trunc = Op(ScalarOp::Trunc),
        round = Op(ScalarOp::Round),
        round_ties_even = Op(ScalarOp::RoundTiesEven),
        fract = Op(ScalarOp::Fract),
        // The constants are those of std, which rounds 180 / π once in f32.
        to_degrees = Several(|dtype, x| {
            vec![binary(ScalarOp::Mul, &x[0], &float(dtype, 57.295_78, 180.0 / std::f64::consts::PI))]
        }),
        to_radians = Several(|dtype, x| {
            let factor = float(dtype, std::f32::consts::PI / 180.0, std::f64::consts::PI / 180.0);
            vec![binary(ScalarOp::Mul, &x[0], &factor)]
        }),
    }
    Float() -> Pair {
        sin_cos = Several(|_, x| vec![unary(ScalarOp::Sin, x[0].clone()), unary(ScalarOp::Cos, x[0].clone())]),
    }
    Float() -> Bool {
        is_nan = Op(ScalarOp::IsNan),
        is_infinite = Op(ScalarOp::IsInfinite),
        is_finite = Op(ScalarOp::IsFinite),
        is_sign_negative = Op(ScalarOp::IsSignNegative),
        is_sign_positive = Several(|_, x| vec![unary(ScalarOp::Not, unary(ScalarOp::IsSignNegative, x[0].clone()))]),
        is_normal = Several(|dtype, x| {
            let size = unary(ScalarOp::Abs, x[0].clone());
            let finite = unary(ScalarOp::IsFinite, x[0].clone());
            vec![binary(ScalarOp::And, &finite, &binary(ScalarOp::Ge, &size, &smallest_normal(dtype)))]
        }),
        is_subnormal = Several(|dtype, x| {
            let size = unary(ScalarOp::Abs, x[0].clone());
            let nonzero = binary(ScalarOp::Ne, &x[0], &float(dtype, 0.0, 0.0));
            vec![binary(ScalarOp::And, &nonzero, &binary(ScalarOp::Lt, &size, &smallest_normal(dtype)))]
        }),
    }
    Float() -> Unsigned {
        to_bits = Op(ScalarOp::ToBits),
    }
    Float(Receiver) -> Receiver {
        minimum = Op(ScalarOp::Minimum),
        maximum = Op(ScalarOp::Maximum),
        copysign = Op(ScalarOp::Copysign),
        atan2 = Op(ScalarOp::Atan2),
        hypot = Op(ScalarOp::Hypot),
        powf = Op(ScalarOp::Powf),
        log = Several(|_, x| {
            let [value, base] = [&x[0], &x[1]].map(|operand| unary(ScalarOp::Ln, operand.clone()));
            vec![binary(ScalarOp::Div, &value, &base)]
        }),
    }
    Float(I32) -> Receiver {
        powi = Op(ScalarOp::Powi),
    }
    Float(Receiver, Receiver) -> Receiver {
        mul_add = Op(ScalarOp::MulAdd),
    }
    SignedNumber() -> Receiver {
        abs = Op(ScalarOp::Abs),
        signum = Op(ScalarOp::Signum),
    }
    Number() -> Receiver {
        square = Several(|_, x| vec![binary(ScalarOp::Mul, &x[0], &x[0])]),
    }
    Number(Receiver) -> Receiver {
        min = Op(ScalarOp::Min),
        max = Op(ScalarOp::Max),
        div_euclid = Op(ScalarOp::DivEuclid),
        rem_euclid = Op(ScalarOp::RemEuclid),
    }
    Number(Receiver, Receiver) -> Receiver {
        clamp = Op(ScalarOp::Clamp),
    }
    Int() -> Receiver {
        wrapping_neg = Several(|dtype, x| vec![binary(ScalarOp::Sub, &int(dtype, 0), &x[0])]),
    }
    Int(Receiver) -> Receiver {
        wrapping_add = Op(ScalarOp::Add),
        wrapping_sub = Op(ScalarOp::Sub),
        wrapping_mul = Op(ScalarOp::Mul),
        wrapping_div = Op(ScalarOp::Div),
        wrapping_rem = Op(ScalarOp::Rem),
        wrapping_div_euclid = Op(ScalarOp::DivEuclid),
        wrapping_rem_euclid = Op(ScalarOp::RemEuclid),
        saturating_add = Op(ScalarOp::SaturatingAdd),
        saturating_sub = Op(ScalarOp::SaturatingSub),
    }
    Int(U32) -> Receiver {
        pow = Op(ScalarOp::Pow),
        wrapping_pow = Op(ScalarOp::Pow),
        wrapping_shl = Op(ScalarOp::Shl),
        wrapping_shr = Op(ScalarOp::Shr),
        rotate_left = Several(|dtype, x| rotate(dtype, &x[0], &x[1], ScalarOp::Shl, ScalarOp::Shr)),
        rotate_right = Several(|dtype, x| rotate(dtype, &x[0], &x[1], ScalarOp::Shr, ScalarOp::Shl)),
    }
    Int() -> U32 {
        count_ones = Op(ScalarOp::CountOnes),
        leading_zeros = Op(ScalarOp::LeadingZeros),
        trailing_zeros = Op(ScalarOp::TrailingZeros),
        count_zeros = Several(|_, x| vec![unary(ScalarOp::CountOnes, unary(ScalarOp::Not, x[0].clone()))]),
        leading_ones = Several(|_, x| vec![unary(ScalarOp::LeadingZeros, unary(ScalarOp::Not, x[0].clone()))]),
        trailing_ones = Several(|_, x| vec![unary(ScalarOp::TrailingZeros, unary(ScalarOp::Not, x[0].clone()))]),
    }
    Int(Receiver) -> Unsigned {
        abs_diff = Several(|dtype, x| {
            if dtype.is_unsigned_int() {
                return vec![binary(ScalarOp::AbsDiff, &x[0], &x[1])];
            }
            // The difference of the larger and the smaller wraps into the unsigned type, where it is right.
            let [a, b] = [&x[0], &x[1]].map(|operand| unary(ScalarOp::Cast(unsigned(dtype)), operand.clone()));
            let less = binary(ScalarOp::Lt, &x[0], &x[1]);
            vec![Expr::Op(ScalarOp::Select, vec![less, binary(ScalarOp::Sub, &b, &a), binary(ScalarOp::Sub, &a, &b)])]
        }),
    }
    Signed() -> Unsigned {
        unsigned_abs = Several(|dtype, x| {
            vec![unary(ScalarOp::Cast(unsigned(dtype)), unary(ScalarOp::Abs, x[0].clone()))]
        }),
    }
    Signed() -> Receiver {
        wrapping_abs = Op(ScalarOp::Abs),
    }
    Signed() -> Bool {
        is_positive = Several(|dtype, x| vec![binary(ScalarOp::Gt, &x[0], &int(dtype, 0))]),
        is_negative = Several(|dtype, x| vec![binary(ScalarOp::Lt, &x[0], &int(dtype, 0))]),
    }
    Unsigned() -> Bool {
        is_power_of_two = Several(|_, x| {
            vec![binary(ScalarOp::Eq, &unary(ScalarOp::CountOnes, x[0].clone()), &int(DType::U32, 1))]
        }),
    }
    Unsigned(Receiver) -> Receiver {
        div_ceil = Several(|dtype, x| {
            let rest = binary(ScalarOp::Ne, &binary(ScalarOp::Rem, &x[0], &x[1]), &int(dtype, 0));
            vec![binary(ScalarOp::Add, &binary(ScalarOp::Div, &x[0], &x[1]), &unary(ScalarOp::Cast(dtype), rest))]
        }),
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row must be typed as [`ScalarOp::result_dtype`] types it, for every dtype of its receiver class.
    #[test]
    fn rows_are_well_typed() {
        fn dtype_of(expr: &Expr, operands: &[DType]) -> DType {
            match expr {
                Expr::Constant(value) => value.dtype(),
                Expr::Variable(variable) => operands[variable.index()],
                Expr::Op(op, args) => {
                    let args: Vec<DType> = args.iter().map(|arg| dtype_of(arg, operands)).collect();
                    op.result_dtype(&args).unwrap_or_else(|| panic!("{op:?} of {args:?}"))
                }
                Expr::Call { .. } => panic!("the table calls no functions"),
            }
        }
        for method in METHODS {
            for receiver in DType::ALL.into_iter().filter(|&dtype| method.receiver.contains(dtype)) {
                let mut dtypes = vec![receiver];
                dtypes.extend((0..method.arguments.len()).filter_map(|i| method.argument_dtype(i, receiver)));
                let operands =
                    (0..dtypes.len()).map(|i| Expr::Variable(fuse_ir::id::VarId::from_index(i))).collect();
                let results = method.expand(receiver, operands);
                let found: Vec<DType> = results.iter().map(|result| dtype_of(result, &dtypes)).collect();
                assert_eq!(found, method.result_dtypes(receiver), "{} of {receiver}", method.name);
            }
        }
    }

    #[test]
    fn names_are_unique() {
        for method in METHODS {
            assert_eq!(
                METHODS.iter().filter(|other| other.name == method.name).count(),
                1,
                "{}",
                method.name
            );
        }
    }

    #[test]
    fn misspelled_names_find_the_right_one() {
        assert_eq!(similar_method("rsqt"), Some("rsqrt"));
        assert_eq!(similar_method("expm1"), Some("exp_m1"));
        assert_eq!(similar_method("sigmoids"), Some("sigmoid"));
        assert_eq!(similar_method("tnah"), Some("tanh"));
        assert_eq!(similar_method("collect"), None);
    }
}
