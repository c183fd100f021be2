//! Expressions of a kernel: pure, over registers, parameters and the position of the thread.

use super::Kernel;
use super::ParamKind;
use crate::dtype::{DType, Value};
use crate::eval::eval_op;
use crate::id::{ArgId, ArrayId, FactId, LocalId};
use crate::scalar::ScalarOp;
use serde::{Deserialize, Serialize};
use std::ops;

/// What a thread knows of its place; u32 all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Builtin {
    /// The thread's position in its block along x, y or z (0, 1, 2).
    Thread(u8),
    /// The block's position in the grid along x, y or z.
    Block(u8),
    /// The blocks of the grid along x, y or z.
    GridDim(u8),
    /// The linear index of the thread modulo 32.
    Lane,
    /// The linear index of the thread divided by 32. The same for all lanes of a warp.
    Warp,
}

/// An expression.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Expr {
    /// A literal of a compute dtype.
    Const(Value),
    /// A let, register or loop variable in scope: its present value in this lane.
    Local(LocalId),
    /// An element of a register array. The index is made of literals, variables of loops with `Unroll::Full` and
    /// integer operations.
    Element(ArrayId, Box<Expr>),
    /// A scalar parameter.
    Param(ArgId),
    /// The thread's place.
    Builtin(Builtin),
    /// Whether a fact holds: a constant of the compiled text, bool.
    Fact(FactId),
    /// An operation as [`crate::eval::eval_op`] defines it; operands are of compute dtypes. `Cast` to a narrow float
    /// rounds and gives f32.
    Op(ScalarOp, Vec<Expr>),
    /// Several narrow values in one u32, the first in the lowest bits: two of f16, bf16, i16 or u16, or four of
    /// f8e4m3, f8e5m2, i8 or u8. The parts are of the compute dtype; floats are rounded as by `Cast`.
    Pack(DType, Vec<Expr>),
    /// The part of that number of a packed u32, widened to the compute dtype.
    Unpack(DType, u32, Box<Expr>),
}

impl Expr {
    /// An operation. Additions of 0, products with 1 and integer constants are folded.
    pub fn op(op: ScalarOp, args: Vec<Expr>) -> Expr {
        let constants: Option<Vec<Value>> =
            args.iter().map(|a| if let Expr::Const(v) = a { Some(*v) } else { None }).collect();
        if let Some(values) = constants
            && values.iter().all(|v| v.dtype().is_int())
            && let Some(to) = op.result_dtype(&values.iter().map(|v| v.dtype()).collect::<Vec<_>>())
            && (to.is_int() || to == DType::Bool)
        {
            return Expr::Const(eval_op(op, &values).0);
        }
        let is = |e: &Expr, n: i128| matches!(e, Expr::Const(v) if v.as_i128() == Some(n));
        match (op, args.as_slice()) {
            (ScalarOp::Add, [a, b]) if is(a, 0) => b.clone(),
            (ScalarOp::Add | ScalarOp::Sub, [a, b]) if is(b, 0) => a.clone(),
            (ScalarOp::Mul, [a, b]) if is(a, 1) => b.clone(),
            (ScalarOp::Mul | ScalarOp::Div, [a, b]) if is(b, 1) => a.clone(),
            (ScalarOp::Mul, [a, b]) if is(a, 0) || is(b, 0) => {
                if is(a, 0) {
                    a.clone()
                } else {
                    b.clone()
                }
            }
            (ScalarOp::And, [Expr::Const(Value::Bool(true)), e] | [e, Expr::Const(Value::Bool(true))]) => {
                e.clone()
            }
            (_, _) => Expr::Op(op, args),
        }
    }

    /// `self as dtype`.
    pub fn cast(self, dtype: DType) -> Expr {
        match self {
            Expr::Const(v) if v.dtype().is_int() && dtype.is_int() => Expr::Const(v.cast(dtype)),
            e => Expr::op(ScalarOp::Cast(dtype), vec![e]),
        }
    }

    /// `self < other`.
    pub fn lt(self, other: impl Into<Expr>) -> Expr {
        Expr::op(ScalarOp::Lt, vec![self, other.into()])
    }

    /// `self <= other`.
    pub fn le(self, other: impl Into<Expr>) -> Expr {
        Expr::op(ScalarOp::Le, vec![self, other.into()])
    }

    /// `self >= other`.
    pub fn ge(self, other: impl Into<Expr>) -> Expr {
        Expr::op(ScalarOp::Ge, vec![self, other.into()])
    }

    /// `self == other`.
    pub fn equals(self, other: impl Into<Expr>) -> Expr {
        Expr::op(ScalarOp::Eq, vec![self, other.into()])
    }

    /// `self.min(other)`, Rust's.
    pub fn min(self, other: impl Into<Expr>) -> Expr {
        Expr::op(ScalarOp::Min, vec![self, other.into()])
    }

    /// `self.max(other)`, Rust's.
    pub fn max(self, other: impl Into<Expr>) -> Expr {
        Expr::op(ScalarOp::Max, vec![self, other.into()])
    }

    /// `if self { a } else { b }`, both evaluated.
    pub fn select(self, a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
        Expr::op(ScalarOp::Select, vec![self, a.into(), b.into()])
    }

    /// An operation of one operand.
    pub fn unary(self, op: ScalarOp) -> Expr {
        Expr::op(op, vec![self])
    }

    /// The constant, if it is one.
    pub fn as_const(&self) -> Option<Value> {
        if let Expr::Const(v) = self { Some(*v) } else { None }
    }

    /// The parts of which it is made.
    pub fn operands(&self) -> &[Expr] {
        match self {
            Expr::Const(_) | Expr::Local(_) | Expr::Param(_) | Expr::Builtin(_) | Expr::Fact(_) => &[],
            Expr::Element(_, index) => std::slice::from_ref(index),
            Expr::Op(_, args) | Expr::Pack(_, args) => args,
            Expr::Unpack(_, _, word) => std::slice::from_ref(word),
        }
    }

    /// Calls `f` on it and on all its parts.
    pub fn for_each(&self, f: &mut impl FnMut(&Expr)) {
        f(self);
        for e in self.operands() {
            e.for_each(f);
        }
    }

    /// Its dtype; an error says what does not fit.
    pub fn dtype(&self, kernel: &Kernel) -> Result<DType, String> {
        let part_count = |dtype: DType| match dtype.size() {
            2 => Some(2),
            1 if dtype != DType::Bool => Some(4),
            _ => None,
        };
        match self {
            Expr::Const(v) if v.dtype().is_narrow_float() => Err(format!("a literal is {}", v.dtype())),
            Expr::Const(v) => Ok(v.dtype()),
            Expr::Local(id) => {
                kernel.locals.get(id.index()).map(|l| l.dtype).ok_or_else(|| format!("{id} does not exist"))
            }
            Expr::Element(id, index) => {
                let dtype = index.dtype(kernel)?;
                if !dtype.is_int() {
                    return Err(format!("an array is indexed by {dtype}"));
                }
                kernel.arrays.get(id.index()).map(|a| a.dtype).ok_or_else(|| format!("{id} does not exist"))
            }
            Expr::Param(id) => match kernel.params.get(id.index()).map(|p| p.kind) {
                Some(ParamKind::Scalar { dtype, .. }) => Ok(dtype),
                Some(ParamKind::Pointer { .. }) => Err(format!("{id} is a pointer and used as a value")),
                None => Err(format!("{id} does not exist")),
            },
            Expr::Builtin(Builtin::Thread(d) | Builtin::Block(d) | Builtin::GridDim(d)) if *d > 2 => {
                Err(format!("dimension {d} does not exist"))
            }
            Expr::Builtin(_) => Ok(DType::U32),
            Expr::Fact(id) if id.index() < kernel.facts.len() => Ok(DType::Bool),
            Expr::Fact(id) => Err(format!("{id} does not exist")),
            Expr::Op(op, args) => {
                let dtypes = args.iter().map(|a| a.dtype(kernel)).collect::<Result<Vec<_>, _>>()?;
                let dtype = op.result_dtype(&dtypes).ok_or_else(|| {
                    let names: Vec<&str> = dtypes.iter().map(|d| d.name()).collect();
                    format!("`{op}` does not take ({})", names.join(", "))
                })?;
                Ok(dtype.compute())
            }
            Expr::Pack(dtype, parts) => {
                if part_count(*dtype) != Some(parts.len()) {
                    return Err(format!("{} values of {dtype} do not pack into a u32", parts.len()));
                }
                for part in parts {
                    let found = part.dtype(kernel)?;
                    if found != dtype.compute() {
                        return Err(format!("{found} is packed as {dtype}"));
                    }
                }
                Ok(DType::U32)
            }
            Expr::Unpack(dtype, part, word) => {
                if part_count(*dtype).is_none_or(|n| *part as usize >= n) {
                    return Err(format!("a u32 has no part {part} of {dtype}"));
                }
                match word.dtype(kernel)? {
                    DType::U32 => Ok(dtype.compute()),
                    found => Err(format!("{found} is unpacked")),
                }
            }
        }
    }
}

impl From<&Expr> for Expr {
    fn from(e: &Expr) -> Self {
        e.clone()
    }
}

impl From<Builtin> for Expr {
    fn from(b: Builtin) -> Self {
        Expr::Builtin(b)
    }
}

impl From<Value> for Expr {
    fn from(v: Value) -> Self {
        Expr::Const(v)
    }
}

macro_rules! convert_literals {
    ($($type:ty => $variant:ident),*) => {
        $(impl From<$type> for Expr {
            fn from(x: $type) -> Self {
                Expr::Const(Value::$variant(x))
            }
        })*
    };
}

convert_literals!(u32 => U32, u64 => U64, i32 => I32, i64 => I64, f32 => F32, f64 => F64, bool => Bool);

macro_rules! define_operators {
    ($($trait:ident, $method:ident => $op:ident);*) => {
        $(impl<T: Into<Expr>> ops::$trait<T> for Expr {
            type Output = Expr;

            fn $method(self, other: T) -> Expr {
                Expr::op(ScalarOp::$op, vec![self, other.into()])
            }
        }

        impl<T: Into<Expr>> ops::$trait<T> for &Expr {
            type Output = Expr;

            fn $method(self, other: T) -> Expr {
                Expr::op(ScalarOp::$op, vec![self.clone(), other.into()])
            }
        })*
    };
}

define_operators!(
    Add, add => Add; Sub, sub => Sub; Mul, mul => Mul; Div, div => Div; Rem, rem => Rem;
    BitAnd, bitand => And; BitOr, bitor => Or; BitXor, bitxor => Xor; Shl, shl => Shl; Shr, shr => Shr
);
