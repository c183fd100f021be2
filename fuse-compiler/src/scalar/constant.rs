//! Constants: `const` items and the identities of combiners, evaluated while the macro runs.

use super::check::{Surroundings, check_constant};
use super::generate::generate_function;
use super::signature::{narrow_float, read_type};
use super::tree::{Body, Rewrites};
use super::{ConstSource, Constant, ScalarItems, ScalarType, import_of};
use crate::diagnostic::{Diagnostics, Place, Reported, messages};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::id::FnId;
use std::collections::BTreeMap;
use syn::visit::Visit;

/// Evaluates the constants of a block, each after those that it names. One that depends on itself is an error.
pub(super) fn evaluate_consts(
    consts: &[ConstSource<'_>],
    items: &mut ScalarItems,
    diagnostics: &mut Diagnostics,
) {
    let by_name: BTreeMap<String, usize> =
        consts.iter().enumerate().map(|(index, source)| (source.name(), index)).collect();
    let mut order =
        Order { consts, by_name: &by_name, state: vec![State::New; consts.len()], sorted: Vec::new() };
    for index in 0..consts.len() {
        order.visit_after_dependencies(index, items, diagnostics);
    }
    for index in order.sorted {
        let ConstSource { scope, item, origin } = &consts[index];
        let name = consts[index].name();
        let value = diagnostics.report_inside(import_of(*origin, &name), |inner| {
            evaluate_const_item(Surroundings { items, scope }, item, inner)
        });
        match value {
            Ok((value, _)) => {
                let is_size = size_type(&item.ty).is_some();
                items.consts.insert(name, Constant { value, is_size, span: item.ident.span() });
            }
            Err(_) => {
                items.poisoned.insert(name);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}

struct Order<'a> {
    consts: &'a [ConstSource<'a>],
    by_name: &'a BTreeMap<String, usize>,
    state: Vec<State>,
    sorted: Vec<usize>,
}

impl Order<'_> {
    fn visit_after_dependencies(
        &mut self,
        index: usize,
        items: &mut ScalarItems,
        diagnostics: &mut Diagnostics,
    ) {
        if self.state[index] != State::New {
            return;
        }
        self.state[index] = State::Open;
        let mut names = Names::default();
        let source = &self.consts[index];
        names.visit_expr(&source.item.expr);
        let mut circular = false;
        for (name, span) in names.found {
            let Some(&next) = self.by_name.get(&format!("{}{name}", source.scope)) else { continue };
            if self.state[next] == State::Open {
                let import = source.name();
                diagnostics.report_inside(import_of(source.origin, &import), |inner| {
                    inner.report(messages::circular_constant(span, &name))
                });
                circular = true;
            }
            self.visit_after_dependencies(next, items, diagnostics);
        }
        self.state[index] = State::Done;
        if circular {
            items.poisoned.insert(self.consts[index].name());
        } else {
            self.sorted.push(index);
        }
    }
}

/// The single names that an expression mentions.
#[derive(Default)]
struct Names {
    found: Vec<(String, proc_macro2::Span)>,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        if let Some(name) = path.path.get_ident() {
            self.found.push((name.to_string(), name.span()));
        }
    }
}

/// The value of one `const` item, and what its Rust copy writes differently.
pub(super) fn evaluate_const_item(
    surroundings: Surroundings<'_>,
    item: &syn::ItemConst,
    diagnostics: &mut Diagnostics,
) -> Result<(Value, Rewrites), Reported> {
    if let Some(dtype) = narrow_float(&item.ty) {
        return Err(diagnostics.report(messages::narrow_constant(Place::of(&item.ty), dtype)));
    }
    let ty = match size_type(&item.ty) {
        Some(dtype) => ScalarType::Scalar(dtype),
        None => read_type(&item.ty, diagnostics)?,
    };
    let ScalarType::Scalar(_) = ty else {
        return Err(diagnostics.report(messages::tuple_constant(Place::of(&item.ty))));
    };
    let body = check_constant(surroundings, &item.expr, &ty, diagnostics)?;
    let values = evaluate_body(surroundings, &body, Place::of(&item.expr), diagnostics)?;
    match values.first() {
        Some(value) => Ok((*value, body.rewrites)),
        None => Err(diagnostics.report(messages::tuple_constant(Place::of(&item.ty)))),
    }
}

/// The flattened values of a constant expression.
pub(super) fn evaluate_constant(
    surroundings: Surroundings<'_>,
    expr: &syn::Expr,
    ty: &ScalarType,
    diagnostics: &mut Diagnostics,
) -> Result<Vec<Value>, Reported> {
    let body = check_constant(surroundings, expr, ty, diagnostics)?;
    evaluate_body(surroundings, &body, Place::of(expr), diagnostics)
}

fn evaluate_body(
    surroundings: Surroundings<'_>,
    body: &Body,
    place: Place,
    diagnostics: &mut Diagnostics,
) -> Result<Vec<Value>, Reported> {
    let function = generate_function("constant", body, surroundings.items, diagnostics)?;
    let mut functions = surroundings.items.functions.clone();
    functions.push(function);
    let (values, fault) = fuse_ir::eval::eval_fn(&functions, FnId::from_index(functions.len() - 1), &[]);
    match fault {
        Some(_) => Err(diagnostics.report(messages::division_by_zero_in_constant(place))),
        None => Ok(values),
    }
}

/// The dtype as which a constant of a size is read: sizes occur in constants only, for extents.
fn size_type(ty: &syn::Type) -> Option<DType> {
    let syn::Type::Path(path) = ty else { return None };
    let name = path.path.get_ident()?;
    if name == "usize" {
        Some(DType::U64)
    } else if name == "isize" {
        Some(DType::I64)
    } else {
        None
    }
}
