//! Every scalar operation over edge values against what rustc makes of the same expression.

use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{Fault, eval_op};
use fuse_ir::scalar::ScalarOp;

/// Equal bits; a NaN equals any NaN.
#[track_caller]
fn check(op: ScalarOp, args: &[Value], want: Value) {
    let (got, fault) = eval_op(op, args);
    assert_eq!(fault, None, "{op} {args:?}");
    let equal = match (got.as_f64(), want.as_f64()) {
        (Some(g), Some(w)) => g.to_bits() == w.to_bits() || (g.is_nan() && w.is_nan()),
        _ => got == want,
    };
    assert!(equal && got.dtype() == want.dtype(), "{op} {args:?}: {got:?}, rustc {want:?}");
    let dtypes: Vec<DType> = args.iter().map(|v| v.dtype()).collect();
    assert_eq!(op.result_dtype(&dtypes), Some(got.dtype()), "{op} {args:?}");
}

const F32: [f32; 22] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    0.1,
    3.0,
    1e-45,
    f32::MIN_POSITIVE,
    1e-20,
    16777217.0,
    1e30,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    4.7,
];

macro_rules! check_floats {
    ($name:ident, $float:ident, $variant:ident) => {
        #[test]
        fn $name() {
            use ScalarOp::*;
            let values: Vec<$float> = F32.iter().map(|&x| x as $float).collect();
            let v = Value::$variant;
            for &a in &values {
                let unary: &[(ScalarOp, $float)] = &[
                    (Neg, -a),
                    (Abs, a.abs()),
                    (Signum, a.signum()),
                    (Sqrt, a.sqrt()),
                    (Rsqrt, 1.0 / a.sqrt()),
                    (Recip, 1.0 / a),
                    (Floor, a.floor()),
                    (Ceil, a.ceil()),
                    (Trunc, a.trunc()),
                    (Round, a.round()),
                    (RoundTiesEven, a.round_ties_even()),
                    (Fract, a.fract()),
                ];
                for &(op, want) in unary {
                    check(op, &[v(a)], v(want));
                }
                let tests: &[(ScalarOp, bool)] = &[
                    (IsNan, a.is_nan()),
                    (IsInfinite, a.is_infinite()),
                    (IsFinite, a.is_finite()),
                    (IsSignNegative, a.is_sign_negative()),
                ];
                for &(op, want) in tests {
                    check(op, &[v(a)], Value::Bool(want));
                }
                for &b in &values {
                    let binary: &[(ScalarOp, $float)] = &[
                        (Add, a + b),
                        (Sub, a - b),
                        (Mul, a * b),
                        (Div, a / b),
                        (Rem, a % b),
                        (DivEuclid, a.div_euclid(b)),
                        (RemEuclid, a.rem_euclid(b)),
                        (Copysign, a.copysign(b)),
                    ];
                    for &(op, want) in binary {
                        check(op, &[v(a), v(b)], v(want));
                    }
                    // Rust leaves open which of two zeros is the lesser; the others are its own.
                    if a != 0.0 || b != 0.0 {
                        check(Min, &[v(a), v(b)], v(a.min(b)));
                        check(Max, &[v(a), v(b)], v(a.max(b)));
                        let either = if a.is_nan() || b.is_nan() { $float::NAN } else { a.min(b) };
                        check(Minimum, &[v(a), v(b)], v(either));
                        let either = if a.is_nan() || b.is_nan() { $float::NAN } else { a.max(b) };
                        check(Maximum, &[v(a), v(b)], v(either));
                    } else {
                        for op in [Min, Max, Minimum, Maximum] {
                            check(op, &[v(a), v(b)], v(b));
                        }
                    }
                    let tests: &[(ScalarOp, bool)] =
                        &[(Eq, a == b), (Ne, a != b), (Lt, a < b), (Le, a <= b), (Gt, a > b), (Ge, a >= b)];
                    for &(op, want) in tests {
                        check(op, &[v(a), v(b)], Value::Bool(want));
                    }
                    for &c in &values {
                        check(MulAdd, &[v(a), v(b), v(c)], v(a.mul_add(b, c)));
                        if b <= c {
                            check(Clamp, &[v(a), v(b), v(c)], v(a.clamp(b, c)));
                        }
                    }
                }
            }
        }
    };
}

check_floats!(f32_operations_are_rusts, f32, F32);
check_floats!(f64_operations_are_rusts, f64, F64);

macro_rules! check_integers {
    ($name:ident, $int:ident, $variant:ident, |$a:ident, $b:ident, $v:ident| $further:block) => {
        #[test]
        fn $name() {
            use ScalarOp::*;
            let values: [$int; 12] = [
                0,
                1,
                2,
                3,
                7,
                $int::MAX,
                $int::MAX - 1,
                $int::MIN,
                $int::MIN.wrapping_add(1),
                (0 as $int).wrapping_sub(1),
                (0 as $int).wrapping_sub(7),
                $int::MAX / 2 + 1,
            ];
            let $v = Value::$variant;
            for $a in values {
                let a = $a;
                check(Not, &[$v(a)], $v(!a));
                check(CountOnes, &[$v(a)], Value::U32(a.count_ones()));
                check(LeadingZeros, &[$v(a)], Value::U32(a.leading_zeros()));
                check(TrailingZeros, &[$v(a)], Value::U32(a.trailing_zeros()));
                for n in [0u32, 1, 7, 8, 31, 32, 63, 64, 65, u32::MAX] {
                    check(Shl, &[$v(a), Value::U32(n)], $v(a.wrapping_shl(n)));
                    check(Shr, &[$v(a), Value::U32(n)], $v(a.wrapping_shr(n)));
                    check(Pow, &[$v(a), Value::U32(n)], $v(a.wrapping_pow(n)));
                }
                for $b in values {
                    let b = $b;
                    let binary: &[(ScalarOp, $int)] = &[
                        (Add, a.wrapping_add(b)),
                        (Sub, a.wrapping_sub(b)),
                        (Mul, a.wrapping_mul(b)),
                        (And, a & b),
                        (Or, a | b),
                        (Xor, a ^ b),
                        (Min, a.min(b)),
                        (Max, a.max(b)),
                        (SaturatingAdd, a.saturating_add(b)),
                        (SaturatingSub, a.saturating_sub(b)),
                    ];
                    for &(op, want) in binary {
                        check(op, &[$v(a), $v(b)], $v(want));
                    }
                    if b == 0 {
                        for op in [Div, Rem, DivEuclid, RemEuclid] {
                            let fault = Some(Fault::DivisionByZero(op));
                            assert_eq!(eval_op(op, &[$v(a), $v(b)]), ($v(0), fault));
                        }
                    } else {
                        check(Div, &[$v(a), $v(b)], $v(a.wrapping_div(b)));
                        check(Rem, &[$v(a), $v(b)], $v(a.wrapping_rem(b)));
                        check(DivEuclid, &[$v(a), $v(b)], $v(a.wrapping_div_euclid(b)));
                        check(RemEuclid, &[$v(a), $v(b)], $v(a.wrapping_rem_euclid(b)));
                    }
                    let tests: &[(ScalarOp, bool)] =
                        &[(Eq, a == b), (Ne, a != b), (Lt, a < b), (Le, a <= b), (Gt, a > b), (Ge, a >= b)];
                    for &(op, want) in tests {
                        check(op, &[$v(a), $v(b)], Value::Bool(want));
                    }
                    for c in values {
                        if b <= c {
                            check(Clamp, &[$v(a), $v(b), $v(c)], $v(a.clamp(b, c)));
                        }
                    }
                    $further
                }
            }
        }
    };
}

macro_rules! check_signed {
    ($name:ident, $int:ident, $variant:ident) => {
        check_integers!($name, $int, $variant, |a, b, v| {
            check(ScalarOp::Neg, &[v(a)], v(a.wrapping_neg()));
            check(ScalarOp::Abs, &[v(a)], v(a.wrapping_abs()));
            check(ScalarOp::Signum, &[v(b)], v(b.signum()));
        });
    };
}

macro_rules! check_unsigned {
    ($name:ident, $int:ident, $variant:ident) => {
        check_integers!($name, $int, $variant, |a, b, v| {
            check(ScalarOp::AbsDiff, &[v(a), v(b)], v(a.abs_diff(b)));
        });
    };
}

check_signed!(i8_operations_are_rusts, i8, I8);
check_signed!(i16_operations_are_rusts, i16, I16);
check_signed!(i32_operations_are_rusts, i32, I32);
check_signed!(i64_operations_are_rusts, i64, I64);
check_unsigned!(u8_operations_are_rusts, u8, U8);
check_unsigned!(u16_operations_are_rusts, u16, U16);
check_unsigned!(u32_operations_are_rusts, u32, U32);
check_unsigned!(u64_operations_are_rusts, u64, U64);

#[test]
fn bool_operations_are_rusts() {
    use ScalarOp::*;
    let v = Value::Bool;
    for a in [false, true] {
        check(Not, &[v(a)], v(!a));
        for b in [false, true] {
            let binary: &[(ScalarOp, bool)] = &[
                (And, a && b),
                (Or, a || b),
                (Xor, a != b),
                (Eq, a == b),
                (Ne, a != b),
                (Lt, !a && b),
                (Le, !a || b),
                (Gt, a && !b),
                (Ge, a || !b),
            ];
            for &(op, want) in binary {
                check(op, &[v(a), v(b)], v(want));
            }
        }
        check(Select, &[v(a), Value::F16(1.0), Value::F16(2.0)], Value::F16(if a { 1.0 } else { 2.0 }));
    }
}

#[test]
fn bits_are_rusts() {
    for &x in &F32 {
        check(ScalarOp::ToBits, &[Value::F32(x)], Value::U32(x.to_bits()));
        check(ScalarOp::FromBits, &[Value::U32(x.to_bits())], Value::F32(x));
        let x = f64::from(x) * 1.1;
        check(ScalarOp::ToBits, &[Value::F64(x)], Value::U64(x.to_bits()));
        check(ScalarOp::FromBits, &[Value::U64(x.to_bits())], Value::F64(x));
    }
}

#[test]
fn casts_are_rusts() {
    let to = |v: Value, d: DType, want: Value| check(ScalarOp::Cast(d), &[v], want);
    for &x in &F32 {
        let v = Value::F32(x);
        to(v, DType::I8, Value::I8(x as i8));
        to(v, DType::I64, Value::I64(x as i64));
        to(v, DType::U16, Value::U16(x as u16));
        to(v, DType::U64, Value::U64(x as u64));
        to(v, DType::F64, Value::F64(x.into()));
        let d = f64::from(x) * 1.000_000_01;
        to(Value::F64(d), DType::F32, Value::F32(d as f32));
        to(Value::F64(d), DType::I32, Value::I32(d as i32));
    }
    for x in [0, 1, -1, i64::MAX, i64::MIN, 16_777_217, 0x1234_5678_9abc_def0] {
        let v = Value::I64(x);
        to(v, DType::F32, Value::F32(x as f32));
        to(v, DType::F64, Value::F64(x as f64));
        to(v, DType::U8, Value::U8(x as u8));
        to(v, DType::I32, Value::I32(x as i32));
        to(v, DType::U64, Value::U64(x as u64));
        to(Value::U64(x as u64), DType::F32, Value::F32(x as u64 as f32));
        to(Value::U64(x as u64), DType::I64, Value::I64(x));
    }
    to(Value::Bool(true), DType::F32, Value::F32(1.0));
    to(Value::Bool(true), DType::I8, Value::I8(1));
    to(Value::F16(2.5), DType::F32, Value::F32(2.5));
    to(Value::F32(f32::NAN), DType::F8E4M3, Value::F8E4M3(f32::NAN));
}

/// std's own f32 functions are within an ulp; what is rounded from f64 may differ from them by that, no more. Those of
/// the inverse hyperbolic functions overflow early, so they are taken from f64 here too.
#[test]
fn transcendental_functions_are_near_rusts() {
    use ScalarOp::*;
    type Unary = (ScalarOp, fn(f32) -> f32, fn(f64) -> f64);
    let unary: [Unary; 22] = [
        (Cbrt, f32::cbrt, f64::cbrt),
        (Exp, f32::exp, f64::exp),
        (Exp2, f32::exp2, f64::exp2),
        (ExpM1, f32::exp_m1, f64::exp_m1),
        (Ln, f32::ln, f64::ln),
        (Log2, f32::log2, f64::log2),
        (Log10, f32::log10, f64::log10),
        (Ln1p, f32::ln_1p, f64::ln_1p),
        (Sin, f32::sin, f64::sin),
        (Cos, f32::cos, f64::cos),
        (Tan, f32::tan, f64::tan),
        (Asin, f32::asin, f64::asin),
        (Acos, f32::acos, f64::acos),
        (Atan, f32::atan, f64::atan),
        (Sinh, f32::sinh, f64::sinh),
        (Cosh, f32::cosh, f64::cosh),
        (Tanh, f32::tanh, f64::tanh),
        (Asinh, |x| f64::from(x).asinh() as f32, libm::asinh),
        (Acosh, |x| f64::from(x).acosh() as f32, libm::acosh),
        (Atanh, |x| f64::from(x).atanh() as f32, libm::atanh),
        (Sigmoid, |x| 1.0 / (1.0 + (-x).exp()), |x| 1.0 / (1.0 + (-x).exp())),
        (Erf, libm::erff, libm::erf),
    ];
    for x in F32.into_iter().chain([0.25, -0.75, 88.0, -103.0, 10.0, -3.3]) {
        for (op, single, double) in unary {
            let (got, _) = eval_op(op, &[Value::F32(x)]);
            let Value::F32(got) = got else { panic!("{op} gives {got:?}") };
            near(op, x, got, single(x));
            let (got, _) = eval_op(op, &[Value::F64(x.into())]);
            let Some(got) = got.as_f64() else { panic!("{op} gives {got:?}") };
            near(op, x, got as f32, double(x.into()) as f32);
        }
        near(Erfc, x, float(Erfc, &[Value::F32(x)]), libm::erfc(x.into()) as f32);
        for y in [0.0f32, -0.0, 1.0, -2.5, 0.5, f32::INFINITY, f32::NAN] {
            let args = [Value::F32(x), Value::F32(y)];
            near(Atan2, x, float(Atan2, &args), x.atan2(y));
            near(Hypot, x, float(Hypot, &args), x.hypot(y));
            near(Powf, x, float(Powf, &args), x.powf(y));
        }
        for n in [0, 1, 2, -1, 3, -3, 17] {
            let exact = f64::from(x).powi(n) as f32;
            near(Powi, x, float(Powi, &[Value::F32(x), Value::I32(n)]), exact);
        }
    }
    check(Powi, &[Value::F32(-2.0), Value::I32(2)], Value::F32(4.0));
    check(Exp, &[Value::F32(f32::NEG_INFINITY)], Value::F32(0.0));
    check(Tanh, &[Value::F32(1e4)], Value::F32(1.0));
}

fn float(op: ScalarOp, args: &[Value]) -> f32 {
    match eval_op(op, args) {
        (Value::F32(x), None) => x,
        other => panic!("{op} gives {other:?}"),
    }
}

#[track_caller]
fn near(op: ScalarOp, x: f32, got: f32, want: f32) {
    let apart = (i64::from(got.to_bits() as i32) - i64::from(want.to_bits() as i32)).abs();
    let equal = got == want || (got.is_nan() && want.is_nan()) || apart <= 4;
    assert!(equal, "{op} of {x:e}: {got:e}, std {want:e}");
}
