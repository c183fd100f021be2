//! Transcendental functions in f64, from which those of f32 are rounded.

use crate::scalar::ScalarOp;

/// A function of one operand; NaN for an operation that is none.
pub(super) fn unary_transcendental(op: ScalarOp, a: f64) -> f64 {
    use ScalarOp::*;
    match op {
        Cbrt => a.cbrt(),
        Exp => a.exp(),
        Exp2 => a.exp2(),
        ExpM1 => a.exp_m1(),
        Ln => a.ln(),
        Log2 => a.log2(),
        Log10 => a.log10(),
        Ln1p => a.ln_1p(),
        Sin => a.sin(),
        Cos => a.cos(),
        Tan => a.tan(),
        Asin => a.asin(),
        Acos => a.acos(),
        Atan => a.atan(),
        Sinh => a.sinh(),
        Cosh => a.cosh(),
        Tanh => a.tanh(),
        // std's own formulas of these three lose digits near 0 and 1; libm's do not.
        Asinh => libm::asinh(a),
        // Of large negative arguments libm makes numbers.
        Acosh => {
            if a < 1.0 {
                f64::NAN
            } else {
                libm::acosh(a)
            }
        }
        Atanh => libm::atanh(a),
        Sigmoid => 1.0 / (1.0 + (-a).exp()),
        Erf => libm::erf(a),
        Erfc => libm::erfc(a),
        Add | Sub | Mul | Div | Rem | DivEuclid | RemEuclid | Neg | Not | And | Or | Xor | Shl | Shr
        | Min | Max | Minimum | Maximum | Clamp | MulAdd | Eq | Ne | Lt | Le | Gt | Ge | Select | Cast(_)
        | Abs | Signum | Copysign | Sqrt | Rsqrt | Recip | Atan2 | Hypot | Powf | Powi | Pow | Floor
        | Ceil | Trunc | Round | RoundTiesEven | Fract | IsNan | IsInfinite | IsFinite | IsSignNegative
        | ToBits | FromBits | CountOnes | LeadingZeros | TrailingZeros | SaturatingAdd | SaturatingSub
        | AbsDiff | Philox => f64::NAN,
    }
}

/// A function of two operands; NaN for an operation that is none.
pub(super) fn binary_transcendental(op: ScalarOp, a: f64, b: f64) -> f64 {
    if op == ScalarOp::Atan2 {
        a.atan2(b)
    } else if op == ScalarOp::Hypot {
        a.hypot(b)
    } else if op == ScalarOp::Powf {
        a.powf(b)
    } else {
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acosh_is_nan_below_one() {
        for a in [-32767.5, -8388607.5, -16777216.0, -1.0, 0.0, 0.9999999, f64::NEG_INFINITY, f64::NAN] {
            assert!(unary_transcendental(ScalarOp::Acosh, a).is_nan(), "{a}");
        }
        assert_eq!(unary_transcendental(ScalarOp::Acosh, 1.0), 0.0);
    }
}
