//! Literals: numbers that adopt a dtype unless a suffix gives one, and truth values.

use crate::diagnostic::{Diagnostic, messages};
use fuse_ir::dtype::{DType, Value};
use proc_macro2::Span;

/// A literal before its dtype is known.
#[derive(Clone, PartialEq, Debug)]
pub enum Literal {
    /// `7`, `7u8`: adopts an integer dtype, i32 where nothing decides.
    Int {
        /// The magnitude as written.
        magnitude: u128,
        /// The dtype of the suffix.
        suffix: Option<DType>,
    },
    /// `0.5`, `0.5f32`, `1f32`: adopts f32 or f64, f64 where nothing decides.
    Float {
        /// The decimal digits without suffix: each dtype rounds them once.
        digits: String,
        /// The dtype of the suffix.
        suffix: Option<DType>,
    },
    /// `true`, `false`.
    Bool(bool),
}

impl Literal {
    /// Reads a token without its sign; strings, characters and unknown suffixes are errors.
    pub fn read(literal: &syn::Lit) -> Result<Literal, Box<Diagnostic>> {
        let invalid =
            |span: Span| Box::new(messages::unsupported_literal(span, &quote::quote!(#literal).to_string()));
        let read_suffix = |suffix: &str, span: Span| match (suffix, DType::from_name(suffix)) {
            ("", _) => Ok(None),
            (_, Some(dtype)) if !dtype.is_narrow_float() && dtype != DType::Bool => Ok(Some(dtype)),
            _ => Err(invalid(span)),
        };
        let digits = |text: &str| text.trim_start_matches('-').to_string();
        match literal {
            syn::Lit::Bool(literal) => Ok(Literal::Bool(literal.value())),
            syn::Lit::Int(literal) => {
                let suffix = read_suffix(literal.suffix(), literal.span())?;
                if suffix.is_some_and(DType::is_float) {
                    return Ok(Literal::Float { digits: digits(literal.base10_digits()), suffix });
                }
                let magnitude = literal
                    .base10_digits()
                    .trim_start_matches('-')
                    .parse()
                    .map_err(|_| invalid(literal.span()))?;
                Ok(Literal::Int { magnitude, suffix })
            }
            syn::Lit::Float(literal) => {
                let suffix = read_suffix(literal.suffix(), literal.span())?;
                Ok(Literal::Float { digits: digits(literal.base10_digits()), suffix })
            }
            other => Err(invalid(other.span())),
        }
    }

    /// The dtype of the suffix, or bool.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Literal::Int { suffix, .. } | Literal::Float { suffix, .. } => *suffix,
            Literal::Bool(_) => Some(DType::Bool),
        }
    }

    /// The value in `dtype`, of the opposite sign if a minus precedes it. `None` if the literal is not of that kind or
    /// out of range.
    pub fn value(&self, dtype: DType, negated: bool) -> Option<Value> {
        match self {
            Literal::Bool(value) => (dtype == DType::Bool && !negated).then_some(Value::Bool(*value)),
            Literal::Int { magnitude, .. } if dtype.is_int() => {
                let magnitude = i128::try_from(*magnitude).ok()?;
                let exact = if negated { -magnitude } else { magnitude };
                Value::from_i128(dtype, exact).filter(|value| value.as_i128() == Some(exact))
            }
            Literal::Int { .. } => None,
            // Each width parses the digits itself: going through f64 would round twice.
            Literal::Float { digits, .. } if dtype == DType::F64 => {
                let value: f64 = digits.parse().ok().filter(|value: &f64| value.is_finite())?;
                Some(Value::F64(if negated { -value } else { value }))
            }
            Literal::Float { digits, .. } if dtype == DType::F32 => {
                let value: f32 = digits.parse().ok().filter(|value: &f32| value.is_finite())?;
                Some(Value::F32(if negated { -value } else { value }))
            }
            Literal::Float { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Literal, Box<Diagnostic>> {
        Literal::read(&syn::parse_str(text).expect("a literal"))
    }

    #[test]
    fn literals_adopt_a_dtype_of_their_kind() {
        let half = read("0.5").expect("valid");
        assert_eq!(half.dtype(), None);
        assert_eq!(half.value(DType::F32, false), Some(Value::F32(0.5)));
        assert_eq!(half.value(DType::F64, true), Some(Value::F64(-0.5)));
        assert_eq!(half.value(DType::I32, false), None);
        assert_eq!(read("1_000").expect("valid").value(DType::F32, false), None);
        assert_eq!(read("0xff").expect("valid").value(DType::U8, false), Some(Value::U8(255)));
    }

    #[test]
    fn suffixes_decide() {
        assert_eq!(read("1f32").expect("valid").value(DType::F32, false), Some(Value::F32(1.0)));
        assert_eq!(read("7u8").expect("valid").dtype(), Some(DType::U8));
        for text in ["7u128", "1usize", "1.0f16", "'a'", "\"text\"", "b'a'"] {
            assert_eq!(read(text).map_err(|error| error.code), Err("unsupported_literal"), "{text}");
        }
    }

    #[test]
    fn integers_stay_in_range() {
        let literal = read("128").expect("valid");
        assert_eq!(literal.value(DType::I8, false), None);
        assert_eq!(literal.value(DType::I8, true), Some(Value::I8(-128)));
        assert_eq!(literal.value(DType::U8, true), None);
    }

    #[test]
    fn decimal_digits_round_once() {
        // Through f64 this would round to 16777216.
        let literal = read("16777217.0000000001").expect("valid");
        assert_eq!(literal.value(DType::F32, false), Some(Value::F32(16777218.0)));
    }
}
