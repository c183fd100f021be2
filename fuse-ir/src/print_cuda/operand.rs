//! Pieces of C++ text with what is needed to put them together: type, precedence, constant.

use crate::dtype::{DType, Value};

/// How tightly an expression binds, by the operator at its top.
pub(super) mod rank {
    pub(in super::super) const TERNARY: u8 = 1;
    pub(in super::super) const LOGIC_OR: u8 = 2;
    pub(in super::super) const LOGIC_AND: u8 = 3;
    pub(in super::super) const BIT_OR: u8 = 4;
    pub(in super::super) const BIT_XOR: u8 = 5;
    pub(in super::super) const BIT_AND: u8 = 6;
    pub(in super::super) const EQUALITY: u8 = 7;
    pub(in super::super) const ORDER: u8 = 8;
    pub(in super::super) const SHIFT: u8 = 9;
    pub(in super::super) const SUM: u8 = 10;
    pub(in super::super) const PRODUCT: u8 = 11;
    pub(in super::super) const UNARY: u8 = 12;
    pub(in super::super) const PRIMARY: u8 = 13;
}

/// An expression of C++ whose type is that of `dtype`, or converts to it without change of value.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub(super) text: String,
    pub(super) rank: u8,
    pub(super) dtype: DType,
    /// The value, if it is a literal.
    pub(super) constant: Option<Value>,
    /// For integers that are computed modulo 2^32 or 2^64: the same low bits as an unsigned expression, with its rank.
    pub(super) wrapped: Option<(String, u8)>,
    /// Whether evaluating it may note a fault.
    pub(super) faults: bool,
}

impl Operand {
    pub(super) fn new(text: impl Into<String>, rank: u8, dtype: DType) -> Self {
        Operand { text: text.into(), rank, dtype, constant: None, wrapped: None, faults: false }
    }

    pub(super) fn primary(text: impl Into<String>, dtype: DType) -> Self {
        Operand::new(text, rank::PRIMARY, dtype)
    }

    /// Two operands with a sign between them. Mixed precedences that a reader must look up get parentheses.
    pub(super) fn infix(sign: &str, of: u8, a: (&str, u8), b: (&str, u8)) -> String {
        let (left, right) = match of {
            rank::SUM | rank::PRODUCT => (of, of + 1),
            rank::EQUALITY | rank::ORDER => (rank::SUM, rank::SUM),
            rank::LOGIC_AND | rank::LOGIC_OR => (of, of),
            rank::BIT_AND | rank::BIT_OR | rank::BIT_XOR => (of, rank::UNARY),
            _ => (rank::UNARY, rank::UNARY),
        };
        // Below an `||` an `&&` gets parentheses, and so does a shift or sum beside a bit operation.
        let bitwise = matches!(of, rank::BIT_AND | rank::BIT_OR | rank::BIT_XOR);
        let left = |r: u8| r >= left && !(bitwise && r != of && r < rank::UNARY);
        let mixed = |r: u8| of == rank::LOGIC_OR && r == rank::LOGIC_AND;
        let put = |(text, r): (&str, u8), fits: bool| {
            if fits && !mixed(r) { text.to_owned() } else { format!("({text})") }
        };
        format!("{} {sign} {}", put(a, left(a.1)), put(b, b.1 >= right))
    }

    /// The text with parentheses unless it binds at least as tightly.
    pub(super) fn at_least(&self, rank: u8) -> String {
        if self.rank >= rank { self.text.clone() } else { format!("({})", self.text) }
    }

    /// Text and rank.
    pub(super) fn ranked(&self) -> (&str, u8) {
        (&self.text, self.rank)
    }

    /// An unsigned expression with the same low bits, of the type that integers of this width are computed in.
    pub(super) fn unsigned(&self) -> (String, u8) {
        if let Some(wrapped) = &self.wrapped {
            return wrapped.clone();
        }
        let of = unsigned_type(self.dtype);
        if self.dtype.name() == of {
            return (self.text.clone(), self.rank);
        }
        match self.constant.and_then(Value::as_i128) {
            Some(n) if n >= 0 => {
                (if of == "u64" { format!("{n}ull") } else { format!("{n}u") }, rank::PRIMARY)
            }
            _ => (format!("{of}({})", self.text), rank::PRIMARY),
        }
    }

    /// The integer of `dtype` whose low bits an unsigned expression has.
    pub(super) fn from_unsigned(text: String, rank: u8, dtype: DType) -> Self {
        if dtype.name() == unsigned_type(dtype) {
            return Operand::new(text, rank, dtype);
        }
        let typed = format!("{dtype}({text})");
        Operand { wrapped: Some((text, rank)), ..Operand::primary(typed, dtype) }
    }
}

/// The unsigned type in which integers of a width are added and multiplied: narrow ones in 32 bits, since C++ would
/// compute them as int, whose overflow is undefined.
pub(super) fn unsigned_type(dtype: DType) -> &'static str {
    if dtype.size() == 8 { "u64" } else { "u32" }
}
