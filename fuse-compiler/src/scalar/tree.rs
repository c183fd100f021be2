//! The typed tree of a scalar body: names resolved, sugar kept, types by id until inference ends.

use super::literal::Literal;
use super::method::Method;
use super::types::{TypeId, TypeTable};
use crate::diagnostic::Place;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::scalar::ScalarOp;
use std::collections::{BTreeMap, BTreeSet};

/// A variable that the user declared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LocalId(pub(super) u32);

/// A declared variable.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) name: String,
    pub(super) ty: TypeId,
}

/// A checked body.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) types: TypeTable,
    pub(super) locals: Vec<Local>,
    /// One pattern for each parameter.
    pub(super) parameters: Vec<Pattern>,
    pub(super) value: Node,
    pub(super) rewrites: Rewrites,
    /// The keys of the ops that it calls.
    pub(super) called: BTreeSet<String>,
}

/// What the Rust copy writes differently, by the address of the [`syn::Expr`], with the dtype that it concerns.
pub(super) type Rewrites = BTreeMap<usize, (Rewrite, DType)>;

/// What the Rust copy writes in place of an expression.
#[derive(Clone, Debug)]
pub(super) enum Rewrite {
    /// `T::name(left, right)` in place of an operator on integers; on floats it stays.
    Wrapping { name: &'static str },
    /// The same with the count of a shift cast to u32.
    WrappingShift { name: &'static str },
    /// A method, or a call of a method by path: integers wrap, and what std lacks is the runtime's.
    Method { method: &'static Method },
    /// A function of the runtime.
    Function { name: &'static str },
    /// An op that is known to the copy by another name than the call's.
    Callee { name: String },
    /// A float constant that was found without an import.
    FloatConstant { name: String },
    /// A constant that is declared as a size, cast.
    ConstantAs,
    /// Rounded to a narrow float and widened to f32.
    RoundTo(DType),
}

/// An expression.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) ty: TypeId,
    pub(super) place: Place,
    pub(super) kind: Kind,
}

/// What an expression is.
#[derive(Debug)]
pub(super) enum Kind {
    Literal {
        literal: Literal,
        negated: bool,
    },
    /// A std float constant in both widths.
    FloatConstant {
        f32: f32,
        f64: f64,
    },
    Value(Value),
    Local(LocalId),
    /// `_` left of `=`.
    Discard,
    Tuple(Vec<Node>),
    Field(Box<Node>, usize),
    Op(ScalarOp, Vec<Node>),
    /// `<<` and `>>`: the count of any integer type is cast to u32.
    Shift(ScalarOp, Box<Node>, Box<Node>),
    /// `&&` if `and`, else `||`.
    ShortCircuit {
        and: bool,
        left: Box<Node>,
        right: Box<Node>,
    },
    Cast(Box<Node>, DType),
    /// `x as f16 as f32`: rounded to the narrow type.
    RoundTo(Box<Node>, DType),
    Method(&'static Method, Vec<Node>),
    /// An op by its key in the block.
    Call {
        name: String,
        args: Vec<Node>,
    },
    If {
        condition: Box<Node>,
        then: Box<Node>,
        otherwise: Option<Box<Node>>,
    },
    Match {
        scrutinee: Box<Node>,
        arms: Vec<Arm>,
    },
    Block {
        statements: Vec<Statement>,
        tail: Option<Box<Node>>,
    },
    Assign {
        target: Box<Node>,
        value: Box<Node>,
    },
    /// `target op= value` on a scalar: the value is evaluated first.
    AssignOp {
        op: ScalarOp,
        target: Box<Node>,
        value: Box<Node>,
    },
    For {
        variable: Box<Pattern>,
        start: Box<Node>,
        end: Box<Node>,
        inclusive: bool,
        body: Box<Node>,
    },
}

/// A statement.
#[derive(Debug)]
pub(super) enum Statement {
    Let { pattern: Box<Pattern>, value: Option<Box<Node>> },
    Expr(Box<Node>),
}

/// `pattern if guard => body`.
#[derive(Debug)]
pub(super) struct Arm {
    pub(super) pattern: Pattern,
    pub(super) guard: Option<Node>,
    pub(super) body: Node,
}

/// A pattern with the type of what it matches.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) ty: TypeId,
    pub(super) kind: PatternKind,
}

/// What a pattern is.
#[derive(Debug)]
pub(super) enum PatternKind {
    Wildcard,
    Binding {
        local: LocalId,
        inner: Option<Box<Pattern>>,
    },
    Tuple(Vec<Pattern>),
    /// Equal to a constant.
    Constant(Node),
    /// Within constant bounds.
    Range {
        start: Option<Node>,
        end: Option<Node>,
        inclusive: bool,
    },
    Or(Vec<Pattern>),
}
