//! What an expression of a tensor body stands for.

use crate::diagnostic::Place;
use crate::scalar::constant_path::PathConstant;
use crate::scalar::literal::Literal;
use fuse_ir::id::NodeId;
use fuse_ir::scalar::ScalarOp;
use std::rc::Rc;

/// The value of an expression.
#[derive(Clone)]
pub(super) enum Value {
    /// A tensor or, without axes, a scalar.
    Node(NodeId),
    /// Literals and arithmetic on them, which adopt the dtype of what they meet.
    Untyped(Rc<Untyped>),
    /// A tuple.
    Tuple(Vec<Value>),
    /// `()`.
    Unit,
}

/// An expression of literals before its dtype is known. It is computed in the dtype that it adopts, as in Rust.
#[derive(Debug)]
pub(super) enum Untyped {
    /// A literal without suffix.
    Literal {
        /// Its token.
        literal: Literal,
        /// Whether a minus precedes it.
        negated: bool,
        /// Where it stands.
        place: Place,
    },
    /// A float constant of std.
    Constant {
        /// In both widths.
        constant: PathConstant,
        /// Where it stands.
        place: Place,
    },
    /// An operation on such expressions.
    Op {
        /// Which.
        op: ScalarOp,
        /// On what.
        args: Vec<Rc<Untyped>>,
        /// The operator.
        place: Place,
    },
}

impl Untyped {
    /// Whether it adopts float dtypes; else it adopts integers.
    pub(super) fn is_float(&self) -> bool {
        match self {
            Untyped::Literal { literal, .. } => matches!(literal, Literal::Float { .. }),
            Untyped::Constant { .. } => true,
            Untyped::Op { args, .. } => args.iter().any(|a| a.is_float()),
        }
    }

    /// Where it stands; of an operation the operator.
    pub(super) fn place(&self) -> Place {
        match self {
            Untyped::Literal { place, .. } | Untyped::Constant { place, .. } | Untyped::Op { place, .. } => {
                *place
            }
        }
    }
}
