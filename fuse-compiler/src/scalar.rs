//! Scalar functions: from `#[op]`, `#[reduce]` and `const` items to [`ScalarFn`]s and values.
//!
//! An op is ordinary Rust over scalars. It is typed here as rustc types it (literals adopt a dtype, 32-bit integers and
//! f64 where nothing decides), lowered to a [`ScalarFn`] for the planner, and emitted once more as Rust, which rustc
//! checks and tests use as the oracle. What rustc says better about a body is left to it.

pub mod constant_path;
pub mod literal;
pub mod method;

mod signature;
mod types;

mod check;
mod tree;

mod generate;

mod call_order;
mod constant;

mod rust_copy;

pub use call_order::called_functions;
pub use rust_copy::{emit_const, emit_op};

use crate::diagnostic::{Diagnostics, Place, Reported, messages};
use check::Surroundings;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::id::FnId;
use fuse_ir::scalar::{Expr, ScalarFn, Stmt};
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
#[derive(Clone, Copy, Debug)]
pub enum Origin {
    /// The block itself.
    Block,
    /// Another block, module or crate: its Rust function is in scope under the name that the call uses. The place is that of
    /// the name in the block.
    Import(Place),
    /// The prelude: the Rust copy of whoever calls it carries a copy of it.
    Prelude,
}

/// A scalar function with the name by which the block knows it.
#[derive(Clone)]
pub struct FnSource<'a> {
    /// The name, or the path as written (`ops::gelu`).
    pub name: String,
    /// Put before the names that the body calls when they are looked up; empty for items of the block. An imported op
    /// `ops::gelu` whose helper `phi` travels with it has the scope `ops::gelu/`, the helper the name `ops::gelu/phi` and the
    /// same scope. What an import calls travels with it, so that the names of the block that calls it mean nothing there.
    pub scope: String,
    /// The function.
    pub item: &'a syn::ItemFn,
    /// Where it comes from.
    pub origin: Origin,
}

impl FnSource<'_> {
    /// The place and the path of the import that this belongs to.
    fn import(&self) -> Option<(Place, &str)> {
        import_of(self.origin, &self.name)
    }
}

/// The place and the path of the import that an item belongs to; its name begins with the path.
fn import_of(origin: Origin, name: &str) -> Option<(Place, &str)> {
    match origin {
        Origin::Import(place) => Some((place, name.split('/').next().unwrap_or(name))),
        Origin::Block | Origin::Prelude => None,
    }
}

/// A constant with what is put before its name.
#[derive(Clone)]
pub struct ConstSource<'a> {
    /// As for functions: empty for constants of the block.
    pub scope: String,
    /// The item.
    pub item: &'a syn::ItemConst,
    /// Where it comes from.
    pub origin: Origin,
}

impl ConstSource<'_> {
    /// The name by which the block knows it.
    fn name(&self) -> String {
        format!("{}{}", self.scope, self.item.ident)
    }
}

/// The arguments of `#[reduce(identity = .., ordered)]`, as parsed.
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
    /// Whether it is declared as `usize` or `isize`.
    pub is_size: bool,
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
    /// What callers need to know of each of [`Self::functions`].
    facts: Vec<FnFacts>,
}

#[derive(Clone, Debug)]
struct FnFacts {
    results: Vec<DType>,
    may_fault: bool,
    /// Operations as written, those of callees included at each call.
    operations: u64,
}

/// The most operations of an op with all that it calls: calls are inlined, and what is called twice at each of many levels
/// has no end.
pub const MOST_OPERATIONS_OF_OP: u64 = 1 << 16;

/// Types and lowers the scalar items of a block: constants, ops and combiners, in any order.
///
/// Takes the sources that the block uses, those of the prelude and of other modules included, and the names of items that
/// are known to have errors. Errors are reported for each item on its own, those within imports where the block names
/// these; the result holds whatever could be made.
pub fn lower_scalar_items(
    ops: &[FnSource<'_>],
    reducers: &[(ReduceArgs, FnSource<'_>)],
    consts: &[ConstSource<'_>],
    poisoned: BTreeSet<String>,
    diagnostics: &mut Diagnostics,
) -> ScalarItems {
    let mut items = ScalarItems { poisoned, ..ScalarItems::default() };
    constant::evaluate_consts(consts, &mut items, diagnostics);
    let sources: Vec<&FnSource<'_>> = ops.iter().chain(reducers.iter().map(|(_, source)| source)).collect();
    for (index, source) in sources.iter().enumerate() {
        let declared =
            diagnostics.report_inside(source.import(), |inner| declare_function(source, index, inner));
        match declared {
            Ok(signature) => {
                items.by_name.entry(source.name.clone()).or_insert(signature);
            }
            Err(_) => {
                items.poisoned.insert(source.name.clone());
            }
        }
    }
    for index in call_order::sort_by_calls(&sources, &mut items, diagnostics) {
        let source = sources[index];
        diagnostics.report_inside(source.import(), |inner| define_function(source, index, &mut items, inner));
    }
    for (args, source) in reducers {
        // A combiner whose declaration has errors, or that calls itself, is reported and poisoned already.
        let Some(signature) = items.by_name.get(&source.name) else { continue };
        let declared = diagnostics
            .report_inside(source.import(), |inner| declare_reducer(args, source, signature, &items, inner));
        match declared {
            Ok(reducer) => {
                items.reducers.insert(source.name.clone(), reducer);
            }
            Err(_) => {
                items.poisoned.insert(source.name.clone());
            }
        }
    }
    items
}

/// The signature of a function; its id is its position among the sources until its body is lowered.
fn declare_function(
    source: &FnSource<'_>,
    index: usize,
    diagnostics: &mut Diagnostics,
) -> Result<FnSig, Reported> {
    let (parameters, result) = signature::read_signature(source.item, diagnostics)?;
    Ok(FnSig {
        id: FnId::from_index(index),
        params: parameters.iter().flat_map(ScalarType::flatten).collect(),
        results: result.flatten(),
        parameters,
        result,
        span: source.item.sig.ident.span(),
    })
}

/// Lowers the body of a function whose callees are lowered, and gives it its id.
fn define_function(
    source: &FnSource<'_>,
    index: usize,
    items: &mut ScalarItems,
    diagnostics: &mut Diagnostics,
) {
    // Of two functions of one name the first counts; rustc reports the second.
    let Some(signature) = items.by_name.get(&source.name).filter(|sig| sig.id.index() == index).cloned()
    else {
        return;
    };
    let surroundings = Surroundings { items, scope: &source.scope };
    let name = source.item.sig.ident.to_string();
    let body = check::check_function(
        surroundings,
        source.item,
        &signature.parameters,
        &signature.result,
        diagnostics,
    );
    let function = body.and_then(|body| generate::generate_function(&name, &body, items, diagnostics));
    let counted = function.and_then(|function| match count_operations(&function, items) {
        too_many if too_many > MOST_OPERATIONS_OF_OP => {
            Err(diagnostics.report(messages::op_too_large(signature.span, &name, MOST_OPERATIONS_OF_OP)))
        }
        operations => Ok((function, operations)),
    });
    let (function, operations) = counted.unwrap_or_else(|_| (function_of_zeros(&name, &signature), 0));
    let may_fault = function_may_fault(&function, items);
    let id = FnId::from_index(items.functions.len());
    items.facts.push(FnFacts { results: signature.results.clone(), may_fault, operations });
    items.functions.push(function);
    items.by_name.insert(source.name.clone(), FnSig { id, ..signature });
}

/// What stands for a function whose body has errors, so that its callers can be looked at.
fn function_of_zeros(name: &str, signature: &FnSig) -> ScalarFn {
    let parameter = |(index, &dtype)| fuse_ir::scalar::Variable { name: format!("argument_{index}"), dtype };
    ScalarFn {
        name: name.to_string(),
        parameters: signature.params.len() as u32,
        variables: signature.params.iter().enumerate().map(parameter).collect(),
        body: Vec::new(),
        results: signature.results.iter().map(|&dtype| Expr::Constant(Value::zero(dtype))).collect(),
    }
}

/// The operations of a function whose callees' facts are known.
fn count_operations(function: &ScalarFn, items: &ScalarItems) -> u64 {
    fn in_expr(expr: &Expr, items: &ScalarItems) -> u64 {
        let of = |args: &[Expr]| args.iter().fold(0u64, |sum, arg| sum.saturating_add(in_expr(arg, items)));
        match expr {
            Expr::Constant(_) | Expr::Variable(_) => 0,
            Expr::Op(_, args) => of(args).saturating_add(1),
            Expr::Call { function, args, .. } => {
                let callee = items.facts.get(function.index()).map_or(0, |facts| facts.operations);
                of(args).saturating_add(callee).saturating_add(1)
            }
        }
    }
    fn in_statements(statements: &[Stmt], items: &ScalarItems) -> u64 {
        let of = |statement: &Stmt| match statement {
            Stmt::Assign { value, .. } => in_expr(value, items),
            Stmt::If { condition, then, otherwise } => in_expr(condition, items)
                .saturating_add(in_statements(then, items))
                .saturating_add(in_statements(otherwise, items)),
            Stmt::For { body, .. } => in_statements(body, items),
        };
        statements.iter().fold(0u64, |sum, statement| sum.saturating_add(of(statement)))
    }
    let results = function.results.iter().fold(0u64, |sum, expr| sum.saturating_add(in_expr(expr, items)));
    in_statements(&function.body, items).saturating_add(results)
}

/// Whether evaluating a function may fault; its callees' facts are known.
fn function_may_fault(function: &ScalarFn, items: &ScalarItems) -> bool {
    let dtype = |expr: &Expr| function.expr_dtype(&items.functions, expr).unwrap_or(DType::Bool);
    fn in_statements(statements: &[Stmt], in_expr: &impl Fn(&Expr) -> bool) -> bool {
        statements.iter().any(|statement| match statement {
            Stmt::Assign { value, .. } => in_expr(value),
            Stmt::If { condition, then, otherwise } => {
                in_expr(condition) || in_statements(then, in_expr) || in_statements(otherwise, in_expr)
            }
            Stmt::For { body, .. } => in_statements(body, in_expr),
        })
    }
    let in_expr = |expr: &Expr| generate::may_fault(expr, items, &dtype);
    in_statements(&function.body, &in_expr) || function.results.iter().any(in_expr)
}

/// Checks that a combiner takes two elements and gives one, and evaluates its identity.
fn declare_reducer(
    args: &ReduceArgs,
    source: &FnSource<'_>,
    signature: &FnSig,
    items: &ScalarItems,
    diagnostics: &mut Diagnostics,
) -> Result<ReducerSig, Reported> {
    let element = signature.result.clone();
    if signature.parameters != [element.clone(), element.clone()] {
        let place = Place::of(&source.item.sig.inputs);
        return Err(diagnostics.report(messages::combiner_signature(place, &element.to_string())));
    }
    let surroundings = Surroundings { items, scope: &source.scope };
    let identity = constant::evaluate_constant(surroundings, &args.identity, &element, diagnostics)?;
    Ok(ReducerSig { combine: signature.id, element, identity, ordered: args.ordered, span: signature.span })
}

#[cfg(test)]
mod tests;
