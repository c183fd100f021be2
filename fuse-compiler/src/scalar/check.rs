//! Names and types of a scalar body: from syntax to the typed tree.
//!
//! Takes one body and the declarations around it, gives a [`Body`] whose every expression has a type. It accepts what
//! rustc accepts and a little more (a method on a literal, an unassigned variable): the Rust copy meets rustc's own
//! check, so that moves, mutability, exhaustiveness and lints are not repeated here.

mod call;
mod expression;
mod pattern;

pub(super) use call::copy_name;
pub(super) use expression::strip_parentheses;

use super::method::{Class, edit_distance};
use super::signature::read_type;
use super::tree::{Body, Kind, Local, LocalId, Node, Rewrite, Rewrites, Statement};
use super::types::{TypeId, TypeTable};
use super::{ScalarItems, ScalarType};
use crate::diagnostic::{Diagnostic, Diagnostics, Place, Reported, messages};
use crate::prelude::F64_SCOPE;
use crate::syntax::name_of_item;
use fuse_ir::dtype::{DType, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a body can refer to.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    /// Signatures, constants and names with errors.
    pub(super) items: &'a ScalarItems,
    /// Put before the names of callees.
    pub(super) scope: &'a str,
}

impl Surroundings<'_> {
    /// The key of the function that a call names.
    pub(super) fn callee(&self, path: &str) -> Option<String> {
        let known = |key: &String| self.items.by_name.contains_key(key) || self.items.poisoned.contains(key);
        self.keys(path).into_iter().flatten().find(known)
    }

    /// The keys that a name may have, in the order in which they are looked up. Copies of the prelude's ops for f64 see the
    /// block's items, imports see their own alone.
    pub(super) fn keys(&self, name: &str) -> [Option<String>; 2] {
        let outside = matches!(self.scope, "" | F64_SCOPE).then(|| name.to_owned());
        [Some(format!("{}{name}", self.scope)), outside]
    }
}

/// Checks the body of a function whose declared types are known.
pub(super) fn check_function(
    surroundings: Surroundings<'_>,
    item: &syn::ItemFn,
    parameters: &[ScalarType],
    result: &ScalarType,
    diagnostics: &mut Diagnostics,
) -> Result<Body, Reported> {
    let mut checker = Checker::new(surroundings, diagnostics);
    let mut patterns = Vec::new();
    for (input, ty) in item.sig.inputs.iter().zip(parameters) {
        let syn::FnArg::Typed(input) = input else { continue };
        let ty = checker.types.declared(ty);
        patterns.push(checker.pattern(&input.pat, ty)?);
    }
    let expected = checker.types.declared(result);
    let value = checker.block(&item.block, Place::of(&item.sig.ident))?;
    checker.expect(&value, expected);
    checker.finish(patterns, value)
}

/// Checks a constant expression of a declared type.
pub(super) fn check_constant(
    surroundings: Surroundings<'_>,
    expr: &syn::Expr,
    ty: &ScalarType,
    diagnostics: &mut Diagnostics,
) -> Result<Body, Reported> {
    let mut checker = Checker::new(surroundings, diagnostics);
    let expected = checker.types.declared(ty);
    let value = checker.expression(expr)?;
    checker.expect(&value, expected);
    checker.finish(Vec::new(), value)
}

/// What a name of the body stands for.
#[derive(Clone, Copy)]
enum Binding {
    Local(LocalId),
    Constant(Value),
}

/// A demand on a type, looked at when inference has ended.
struct Requirement {
    ty: TypeId,
    class: Class,
    place: Place,
    /// The operator or method that makes it.
    what: String,
}

struct Checker<'a> {
    surroundings: Surroundings<'a>,
    diagnostics: &'a mut Diagnostics,
    types: TypeTable,
    locals: Vec<Local>,
    scopes: Vec<HashMap<String, Binding>>,
    requirements: Vec<Requirement>,
    rewrites: BTreeMap<usize, (Rewrite, TypeId)>,
    /// Those of constants within the body, whose types are known.
    const_rewrites: Rewrites,
    called: BTreeSet<String>,
    failed: Option<Reported>,
}

impl<'a> Checker<'a> {
    fn new(surroundings: Surroundings<'a>, diagnostics: &'a mut Diagnostics) -> Self {
        Checker {
            surroundings,
            diagnostics,
            types: TypeTable::default(),
            locals: Vec::new(),
            scopes: vec![HashMap::new()],
            requirements: Vec::new(),
            rewrites: BTreeMap::new(),
            const_rewrites: Rewrites::new(),
            called: BTreeSet::new(),
            failed: None,
        }
    }

    fn finish(mut self, parameters: Vec<super::tree::Pattern>, value: Node) -> Result<Body, Reported> {
        for requirement in std::mem::take(&mut self.requirements) {
            let Requirement { ty, class, place, what } = requirement;
            if self.types.is_poisoned(ty) {
                continue;
            }
            let resolved = self.types.resolve(ty);
            let fits = match resolved {
                ScalarType::Scalar(dtype) => class.contains(dtype),
                ScalarType::Tuple(_) => false,
            };
            if !fits {
                let name = if self.types.is_open_literal(ty) {
                    self.types.describe(ty)
                } else {
                    resolved.to_string()
                };
                self.report(messages::unsupported_operand(place, &what, &name, class.name()));
            }
        }
        if let Some(reported) = self.failed {
            return Err(reported);
        }
        let mut rewrites = self.const_rewrites;
        for (address, (rewrite, ty)) in self.rewrites {
            // What has a rewrite is a scalar by now, or the function that rewrites it looks at no dtype.
            let dtype = self.types.resolve_scalar(ty).unwrap_or(DType::Bool);
            rewrites.insert(address, (rewrite, dtype));
        }
        let (types, locals, called) = (self.types, self.locals, self.called);
        Ok(Body { types, locals, parameters, value, rewrites, called })
    }

    fn report(&mut self, diagnostic: Diagnostic) -> Reported {
        let reported = self.diagnostics.report(diagnostic);
        self.failed = Some(reported);
        reported
    }

    /// A node in place of one with an error that has been reported: the check goes on to find others, and then fails.
    fn poisoned(&mut self, place: Place) -> Node {
        self.failed.get_or_insert(Reported::before());
        Node { ty: self.types.poisoned(), place, kind: Kind::Tuple(Vec::new()) }
    }

    /// The check of an expression, which is a poisoned node if it has an error.
    fn expression(&mut self, expr: &syn::Expr) -> Result<Node, Reported> {
        match self.check_expression(expr) {
            Ok(node) => Ok(node),
            Err(reported) => {
                self.failed = Some(reported);
                Ok(self.poisoned(Place::of(expr)))
            }
        }
    }

    /// Demands a type of an expression; the mismatch is reported at it.
    fn expect(&mut self, node: &Node, expected: TypeId) {
        if !self.types.unify(expected, node.ty) {
            let (expected, found) = (self.types.describe(expected), self.types.describe(node.ty));
            self.report(messages::mismatched_types(value_place(node), &expected, &found));
        }
    }

    /// Demands that a type be of a class: at once where that can be told, so that what follows stays silent.
    fn require(&mut self, ty: TypeId, class: Class, place: Place, what: &str) -> Result<(), Reported> {
        if self.types.excludes(ty, class) {
            let name = self.types.describe(ty);
            return Err(self.report(messages::unsupported_operand(place, what, &name, class.name())));
        }
        self.requirements.push(Requirement { ty, class, place, what: what.to_string() });
        Ok(())
    }

    fn declare(&mut self, name: &str, ty: TypeId) -> LocalId {
        let local = LocalId(self.locals.len() as u32);
        self.locals.push(Local { name: name.to_string(), ty });
        self.bind(name, Binding::Local(local));
        local
    }

    fn bind(&mut self, name: &str, binding: Binding) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_string(), binding);
        }
    }

    fn lookup(&self, name: &str) -> Option<Binding> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied())
    }

    /// The variable or constant whose name is most like this one.
    fn similar_value(&self, name: &str) -> Option<String> {
        let locals = self.scopes.iter().flat_map(|scope| scope.keys());
        closest_name(name, locals.chain(self.surroundings.items.consts.keys()).map(String::as_str))
    }

    /// The value of a constant of the body or of the block.
    fn constant(&self, name: &str) -> Option<Value> {
        match self.lookup(name) {
            Some(Binding::Constant(value)) => Some(value),
            Some(Binding::Local(_)) => None,
            None => {
                let keys = self.surroundings.keys(name).into_iter().flatten();
                let mut found = keys.filter_map(|key| self.surroundings.items.consts.get(&key));
                found.next().map(|constant| constant.value)
            }
        }
    }

    /// A block; `owner` stands for it where it has no tokens of its own.
    fn block(&mut self, block: &syn::Block, owner: Place) -> Result<Node, Reported> {
        self.scopes.push(HashMap::new());
        let node = self.block_in_scope(block, owner);
        self.scopes.pop();
        node
    }

    fn block_in_scope(&mut self, block: &syn::Block, owner: Place) -> Result<Node, Reported> {
        // Items are in scope in the whole block, before and after their declaration.
        for statement in &block.stmts {
            if let syn::Stmt::Item(item) = statement {
                self.item(item);
            }
        }
        let mut statements = Vec::new();
        let mut tail = None;
        for (index, statement) in block.stmts.iter().enumerate() {
            let last = index + 1 == block.stmts.len();
            match statement {
                syn::Stmt::Local(local) => match self.local(local) {
                    Ok(statement) => statements.push(statement),
                    Err(reported) => self.failed = Some(reported),
                },
                syn::Stmt::Item(_) => {}
                syn::Stmt::Expr(expr, None) if last => tail = Some(Box::new(self.expression(expr)?)),
                syn::Stmt::Expr(expr, _) => {
                    let node = self.expression(expr)?;
                    statements.push(Statement::Expr(Box::new(node)));
                }
                syn::Stmt::Macro(statement) => {
                    self.report(messages::macro_in_scalar(&statement.mac.path));
                }
            }
        }
        let ty = match &tail {
            Some(node) => node.ty,
            None => self.types.unit(),
        };
        let place = if block.stmts.is_empty() { owner } else { Place::of(block) };
        Ok(Node { ty, place, kind: Kind::Block { statements, tail } })
    }

    /// `let pattern: type = value;`
    fn local(&mut self, local: &syn::Local) -> Result<Statement, Reported> {
        let (pattern, declared) = match &local.pat {
            syn::Pat::Type(typed) => (&*typed.pat, Some(&*typed.ty)),
            pattern => (pattern, None),
        };
        // The pattern's names are declared even where the rest has errors, so that their uses stay silent.
        let mut error = None;
        let ty = match declared {
            Some(syn::Type::Infer(_)) | None => self.types.unknown(),
            Some(declared) => match read_type(declared, self.diagnostics) {
                Ok(ty) => self.types.declared(&ty),
                Err(reported) => {
                    error = Some(reported);
                    self.types.poisoned()
                }
            },
        };
        let mut value = None;
        if let Some(init) = &local.init {
            let node = self.expression(&init.expr)?;
            if declared.is_some() {
                self.expect(&node, ty);
            } else {
                self.types.unify(ty, node.ty);
            }
            value = Some(Box::new(node));
            if let Some((else_token, _)) = &init.diverge {
                error = Some(
                    self.report(messages::unsupported_expression(else_token.span.into(), "`let … else`")),
                );
            }
        }
        let pattern = Box::new(self.pattern(pattern, ty)?);
        match error {
            Some(reported) => Err(reported),
            None => Ok(Statement::Let { pattern, value }),
        }
    }

    /// `const` inside a body, and `use` of std's float constants, which need none.
    fn item(&mut self, item: &syn::Item) {
        match item {
            syn::Item::Const(item) => {
                let name = item.ident.to_string();
                let value = super::constant::evaluate_const_item(self.surroundings, item, self.diagnostics);
                match value {
                    Ok((value, rewrites)) => {
                        self.const_rewrites.extend(rewrites);
                        self.bind(&name, Binding::Constant(value));
                    }
                    Err(reported) => {
                        self.failed = Some(reported);
                        let ty = self.types.poisoned();
                        self.declare(&name, ty);
                    }
                }
            }
            syn::Item::Use(item) if is_std_import(item) => {}
            other => {
                self.report(messages::item_in_scalar(Place::of(other)));
                // Its uses stay silent.
                if let Some(name) = name_of_item(other) {
                    let ty = self.types.poisoned();
                    self.declare(&name.to_string(), ty);
                }
            }
        }
    }
}

/// By what [`Body::rewrites`] knows an expression.
pub(super) fn address(expr: &syn::Expr) -> usize {
    std::ptr::from_ref(expr).addr()
}

/// Whether a `use` brings std's names, which a body has without it.
pub(super) fn is_std_import(item: &syn::ItemUse) -> bool {
    matches!(&item.tree, syn::UseTree::Path(path) if path.ident == "std" || path.ident == "core")
}

/// The candidate that a name may be a slip for: one letter in three may differ.
fn closest_name<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    candidates
        .map(|candidate| (edit_distance(candidate, name), candidate))
        .filter(|(distance, _)| *distance <= name.len().min(9) / 3)
        .min()
        .map(|(_, candidate)| candidate.to_string())
}

/// The place of the value that a node gives: of a block its tail.
fn value_place(node: &Node) -> Place {
    match &node.kind {
        Kind::Block { tail: Some(tail), .. } => value_place(tail),
        _ => node.place,
    }
}
