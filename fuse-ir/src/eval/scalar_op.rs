//! Every [`ScalarOp`] on single values: the meaning that each backend is held to.

use super::Fault;
use super::transcendental::{binary_transcendental, unary_transcendental};
use crate::dtype::Value;
use crate::scalar::ScalarOp;

/// What `op` makes of `args`, and the fault if it faults; then the value is 0.
///
/// f32 operations happen in f32, each rounded once, as in Rust. Transcendental functions of f32 are taken in f64 and
/// rounded once, so they stand within half an ulp and a little; those of f64 are std's (`erf` and `erfc` libm's).
/// Of equal zeros of either sign the second operand is the minimum and the maximum.
///
/// # Panics
/// On operands that [`ScalarOp::result_dtype`] does not take. Verified graphs and functions have none.
pub fn eval_op(op: ScalarOp, args: &[Value]) -> (Value, Option<Fault>) {
    match (op, args) {
        (ScalarOp::Cast(to), [a]) => (a.cast(to), None),
        (ScalarOp::Select, [Value::Bool(c), a, b]) => (if *c { *a } else { *b }, None),
        (ScalarOp::Philox, [Value::U64(seed), Value::U64(stream), Value::I64(index)]) => {
            (Value::U32(philox_word(*seed, *stream, *index as u64)), None)
        }
        (_, [Value::F32(a), rest @ ..]) => (float_op_f32(op, *a, rest), None),
        (_, [Value::F64(a), rest @ ..]) => (float_op_f64(op, *a, rest), None),
        (_, [Value::I8(a), rest @ ..]) => signed_op_i8(op, *a, rest),
        (_, [Value::I16(a), rest @ ..]) => signed_op_i16(op, *a, rest),
        (_, [Value::I32(a), rest @ ..]) => signed_op_i32(op, *a, rest),
        (_, [Value::I64(a), rest @ ..]) => signed_op_i64(op, *a, rest),
        (_, [Value::U8(a), rest @ ..]) => unsigned_op_u8(op, *a, rest),
        (_, [Value::U16(a), rest @ ..]) => unsigned_op_u16(op, *a, rest),
        (_, [Value::U32(a), rest @ ..]) => unsigned_op_u32(op, *a, rest),
        (_, [Value::U64(a), rest @ ..]) => unsigned_op_u64(op, *a, rest),
        (_, [Value::Bool(a), rest @ ..]) => (bool_op(op, *a, rest), None),
        (_, _) => ill_typed(op),
    }
}

/// Only an unverified graph or function comes here; a value made up for it would hide that.
fn ill_typed(op: ScalarOp) -> ! {
    panic!("`{op}` was applied to operands that it does not take")
}

macro_rules! define_float_op {
    ($name:ident, $float:ident, $variant:ident, $bits:ident, $bits_variant:ident) => {
        /// An operation whose first operand is a float.
        fn $name(op: ScalarOp, a: $float, rest: &[Value]) -> Value {
            use ScalarOp::*;
            let operand = |i: usize| match rest.get(i) {
                Some(Value::$variant(x)) => *x,
                _ => ill_typed(op),
            };
            let b = || operand(0);
            let float = Value::$variant;
            match op {
                Add => float(a + b()),
                Sub => float(a - b()),
                Mul => float(a * b()),
                Div => float(a / b()),
                Rem => float(a % b()),
                DivEuclid => float(a.div_euclid(b())),
                RemEuclid => float(a.rem_euclid(b())),
                Neg => float(-a),
                Min => float(if b().is_nan() || a < b() { a } else { b() }),
                Max => float(if b().is_nan() || a > b() { a } else { b() }),
                Minimum => float(if a.is_nan() || a < b() { a } else { b() }),
                Maximum => float(if a.is_nan() || a > b() { a } else { b() }),
                Clamp => {
                    let (low, high) = (operand(0), operand(1));
                    let raised = if a < low { low } else { a };
                    float(if raised > high { high } else { raised })
                }
                MulAdd => float(a.mul_add(operand(0), operand(1))),
                Eq => Value::Bool(a == b()),
                Ne => Value::Bool(a != b()),
                Lt => Value::Bool(a < b()),
                Le => Value::Bool(a <= b()),
                Gt => Value::Bool(a > b()),
                Ge => Value::Bool(a >= b()),
                Abs => float(a.abs()),
                Signum => float(a.signum()),
                Copysign => float(a.copysign(b())),
                Sqrt => float(a.sqrt()),
                Rsqrt => float(1.0 / a.sqrt()),
                Recip => float(1.0 / a),
                Floor => float(a.floor()),
                Ceil => float(a.ceil()),
                Trunc => float(a.trunc()),
                Round => float(a.round()),
                RoundTiesEven => float(a.round_ties_even()),
                Fract => float(a.fract()),
                IsNan => Value::Bool(a.is_nan()),
                IsInfinite => Value::Bool(a.is_infinite()),
                IsFinite => Value::Bool(a.is_finite()),
                IsSignNegative => Value::Bool(a.is_sign_negative()),
                ToBits => Value::$bits_variant(a.to_bits()),
                Cbrt | Exp | Exp2 | ExpM1 | Ln | Log2 | Log10 | Ln1p | Sin | Cos | Tan | Asin | Acos
                | Atan | Sinh | Cosh | Tanh | Asinh | Acosh | Atanh | Sigmoid | Erf | Erfc => {
                    float(unary_transcendental(op, f64::from(a)) as $float)
                }
                Atan2 | Hypot | Powf => {
                    float(binary_transcendental(op, f64::from(a), f64::from(b())) as $float)
                }
                Powi => match rest {
                    [Value::I32(n)] => float(f64::from(a).powi(*n) as $float),
                    _ => ill_typed(op),
                },
                Not | And | Or | Xor | Shl | Shr | Select | Cast(_) | Pow | FromBits | CountOnes
                | LeadingZeros | TrailingZeros | SaturatingAdd | SaturatingSub | AbsDiff | Philox => {
                    ill_typed(op)
                }
            }
        }
    };
}

define_float_op!(float_op_f32, f32, F32, u32, U32);
define_float_op!(float_op_f64, f64, F64, u64, U64);

macro_rules! define_integer_op {
    ($name:ident, $int:ident, $variant:ident, |$op:ident, $a:ident, $b:ident| $further:expr) => {
        /// An operation whose first operand is an integer.
        fn $name(op: ScalarOp, a: $int, rest: &[Value]) -> (Value, Option<Fault>) {
            use ScalarOp::*;
            let operand = |i: usize| match rest.get(i) {
                Some(Value::$variant(x)) => *x,
                _ => ill_typed(op),
            };
            let count = || match rest {
                [Value::U32(n)] => *n,
                _ => ill_typed(op),
            };
            let b = || operand(0);
            let int = Value::$variant;
            if matches!(op, Div | Rem | DivEuclid | RemEuclid) && b() == 0 {
                return (int(0), Some(Fault::DivisionByZero(op)));
            }
            let value = match op {
                Add => int(a.wrapping_add(b())),
                Sub => int(a.wrapping_sub(b())),
                Mul => int(a.wrapping_mul(b())),
                Div => int(a.wrapping_div(b())),
                Rem => int(a.wrapping_rem(b())),
                DivEuclid => int(a.wrapping_div_euclid(b())),
                RemEuclid => int(a.wrapping_rem_euclid(b())),
                Not => int(!a),
                And => int(a & b()),
                Or => int(a | b()),
                Xor => int(a ^ b()),
                Shl => int(a.wrapping_shl(count())),
                Shr => int(a.wrapping_shr(count())),
                Min => int(a.min(b())),
                Max => int(a.max(b())),
                Clamp => {
                    let (low, high) = (operand(0), operand(1));
                    let raised = if a < low { low } else { a };
                    int(if raised > high { high } else { raised })
                }
                Eq => Value::Bool(a == b()),
                Ne => Value::Bool(a != b()),
                Lt => Value::Bool(a < b()),
                Le => Value::Bool(a <= b()),
                Gt => Value::Bool(a > b()),
                Ge => Value::Bool(a >= b()),
                Pow => int(a.wrapping_pow(count())),
                CountOnes => Value::U32(a.count_ones()),
                LeadingZeros => Value::U32(a.leading_zeros()),
                TrailingZeros => Value::U32(a.trailing_zeros()),
                SaturatingAdd => int(a.saturating_add(b())),
                SaturatingSub => int(a.saturating_sub(b())),
                Neg | Abs | Signum | AbsDiff | FromBits => {
                    let ($op, $a, $b) = (op, a, b);
                    $further
                }
                Minimum | Maximum | MulAdd | Select | Cast(_) | Copysign | Sqrt | Rsqrt | Recip | Cbrt
                | Exp | Exp2 | ExpM1 | Ln | Log2 | Log10 | Ln1p | Sin | Cos | Tan | Asin | Acos | Atan
                | Atan2 | Sinh | Cosh | Tanh | Asinh | Acosh | Atanh | Sigmoid | Erf | Erfc | Hypot
                | Powf | Powi | Floor | Ceil | Trunc | Round | RoundTiesEven | Fract | IsNan | IsInfinite
                | IsFinite | IsSignNegative | ToBits | Philox => ill_typed(op),
            };
            (value, None)
        }
    };
}

macro_rules! define_signed_op {
    ($name:ident, $int:ident, $variant:ident) => {
        define_integer_op!($name, $int, $variant, |op, a, _b| match op {
            ScalarOp::Neg => Value::$variant(a.wrapping_neg()),
            ScalarOp::Abs => Value::$variant(a.wrapping_abs()),
            ScalarOp::Signum => Value::$variant(a.signum()),
            _ => ill_typed(op),
        });
    };
}

macro_rules! define_unsigned_op {
    ($name:ident, $int:ident, $variant:ident, |$bits:ident| $from_bits:expr) => {
        define_integer_op!($name, $int, $variant, |op, a, b| match op {
            ScalarOp::AbsDiff => Value::$variant(a.abs_diff(b())),
            ScalarOp::FromBits => {
                let $bits = a;
                $from_bits
            }
            _ => ill_typed(op),
        });
    };
}

define_signed_op!(signed_op_i8, i8, I8);
define_signed_op!(signed_op_i16, i16, I16);
define_signed_op!(signed_op_i32, i32, I32);
define_signed_op!(signed_op_i64, i64, I64);
define_unsigned_op!(unsigned_op_u8, u8, U8, |_bits| ill_typed(ScalarOp::FromBits));
define_unsigned_op!(unsigned_op_u16, u16, U16, |_bits| ill_typed(ScalarOp::FromBits));
define_unsigned_op!(unsigned_op_u32, u32, U32, |bits| Value::F32(f32::from_bits(bits)));
define_unsigned_op!(unsigned_op_u64, u64, U64, |bits| Value::F64(f64::from_bits(bits)));

fn bool_op(op: ScalarOp, a: bool, rest: &[Value]) -> Value {
    use ScalarOp::*;
    let b = || match rest {
        [Value::Bool(b)] => *b,
        _ => ill_typed(op),
    };
    Value::Bool(match op {
        Not => !a,
        And => a & b(),
        Or => a | b(),
        Xor => a ^ b(),
        Eq => a == b(),
        Ne => a != b(),
        Lt => !a & b(),
        Le => a <= b(),
        Gt => a & !b(),
        Ge => a >= b(),
        Add | Sub | Mul | Div | Rem | DivEuclid | RemEuclid | Neg | Shl | Shr | Min | Max | Minimum
        | Maximum | Clamp | MulAdd | Select | Cast(_) | Abs | Signum | Copysign | Sqrt | Rsqrt | Recip
        | Cbrt | Exp | Exp2 | ExpM1 | Ln | Log2 | Log10 | Ln1p | Sin | Cos | Tan | Asin | Acos | Atan
        | Atan2 | Sinh | Cosh | Tanh | Asinh | Acosh | Atanh | Sigmoid | Erf | Erfc | Hypot | Powf | Powi
        | Pow | Floor | Ceil | Trunc | Round | RoundTiesEven | Fract | IsNan | IsInfinite | IsFinite
        | IsSignNegative | ToBits | FromBits | CountOnes | LeadingZeros | TrailingZeros | SaturatingAdd
        | SaturatingSub | AbsDiff | Philox => ill_typed(op),
    })
}

/// Word `index % 4` of Philox4x32-10 at counter `(index / 4, stream)` under the key `seed`. A negative index counts as
/// its two's complement, so every index has a word.
///
/// J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
fn philox_word(seed: u64, stream: u64, index: u64) -> u32 {
    let block = index / 4;
    let counter = [block as u32, (block >> 32) as u32, stream as u32, (stream >> 32) as u32];
    philox_block(counter, [seed as u32, (seed >> 32) as u32])[(index % 4) as usize]
}

fn philox_block(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
        }
        let a = u64::from(counter[0]) * 0xD251_1F53;
        let b = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that Random123 publishes for `philox4x32 10`.
    #[test]
    fn philox_gives_the_known_answers() {
        assert_eq!(philox_block([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox_block([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox_block([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn philox_words_follow_the_counter() {
        let (seed, stream) = (0x299f_31d0_a409_3822, 0x0370_7344_1319_8a2e);
        let block = 0x85a3_08d3_243f_6a88_u64;
        // The published counter exceeds what an index of 64 bits reaches, so its low two bits are cut off here.
        let word = |i: u64| philox_word(seed, stream, (block & (u64::MAX >> 2)) * 4 + i);
        let counter =
            [block as u32, (block >> 32) as u32 & 0x3fff_ffff, stream as u32, (stream >> 32) as u32];
        let key = [seed as u32, (seed >> 32) as u32];
        assert_eq!([word(0), word(1), word(2), word(3)], philox_block(counter, key));
        let (value, fault) = eval_op(ScalarOp::Philox, &[Value::U64(0), Value::U64(0), Value::I64(2)]);
        assert_eq!((value, fault), (Value::U32(0xbc57_ac4c), None));
    }
}
