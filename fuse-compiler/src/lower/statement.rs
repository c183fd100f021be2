//! Blocks and `let` (rules 6, 8, 19).

use super::axis::report_unknown_axis;
use super::constant::{adopt, expect_dtype};
use super::context::{Context, Variable};
use super::contract::mention_batch;
use super::expr::lower_expr;
use super::mutable::lower_assignment;
use super::operator::axis_set;
use super::site::{Site, site_of};
use super::value::Value;
use crate::diagnostic::{Place, Reported, messages};
use crate::syntax::{ElementType, GenericKind, TensorType, name_of_item, parse_tensor_type};
use fuse_ir::dtype::DType;
use fuse_ir::id::{AxisId, NodeId};
use syn::visit::{self, Visit};

/// The value of a block. After a statement with an error the next are still lowered, so that each mistake is reported.
pub(super) fn lower_block(cx: &mut Context<'_>, block: &syn::Block) -> Result<Value, Reported> {
    let depth = cx.scope.variables.len();
    let mut failed = None;
    let mut value = Value::Unit;
    for (position, statement) in block.stmts.iter().enumerate() {
        let last = position + 1 == block.stmts.len();
        match lower_statement(cx, statement, last) {
            Ok(v) => value = v,
            Err(reported) => failed = Some(reported),
        }
    }
    cx.scope.variables.truncate(depth);
    failed.map_or(Ok(value), Err)
}

fn lower_statement(cx: &mut Context<'_>, statement: &syn::Stmt, last: bool) -> Result<Value, Reported> {
    match statement {
        syn::Stmt::Local(local) => lower_let(cx, local).map(|()| Value::Unit),
        syn::Stmt::Expr(expr, semicolon) => {
            if let Some(result) = lower_assignment(cx, expr) {
                return result.map(|()| Value::Unit);
            }
            let value = lower_expr(cx, expr)?;
            let is_value = !matches!(value, Value::Unit);
            if is_value && (semicolon.is_some() || !last) {
                let missing = last && !matches!(expr, syn::Expr::If(_));
                return Err(cx.report(messages::value_not_used(Place::of(expr), missing)));
            }
            Ok(value)
        }
        syn::Stmt::Item(item) => {
            let reported = cx.report(messages::item_in_body(Place::of(item)));
            if let Some(name) = name_of_item(item) {
                cx.scope.variables.push((name.to_string(), Variable::Poisoned(reported)));
            }
            Err(reported)
        }
        syn::Stmt::Macro(found) => {
            Err(cx.report(messages::keyword_not_supported(Place::of(&found.mac.path), "a macro")))
        }
    }
}

fn lower_let(cx: &mut Context<'_>, local: &syn::Local) -> Result<(), Reported> {
    let (pattern, ty) = match &local.pat {
        syn::Pat::Type(typed) => (&*typed.pat, Some(&*typed.ty)),
        other => (other, None),
    };
    let result = match &local.init {
        Some(init) => match &init.diverge {
            Some((keyword, _)) => {
                Err(cx.report(messages::keyword_not_supported(Place::of(keyword), "`let .. else`")))
            }
            None => match lower_initializer(cx, &init.expr, ty) {
                Ok(Value::Unit) => Err(cx.report(messages::no_value(Place::of(&init.expr)))),
                result => result,
            },
        },
        None => Err(cx.report(messages::let_without_value(Place::of(local)))),
    };
    bind_pattern(cx, pattern, &result)?;
    result.map(|_| ())
}

fn lower_initializer(
    cx: &mut Context<'_>,
    init: &syn::Expr,
    ty: Option<&syn::Type>,
) -> Result<Value, Reported> {
    let value = match ty {
        None => lower_expr(cx, init)?,
        Some(syn::Type::Path(path)) if path.path.get_ident().is_some_and(|n| n != "Tensor") => {
            let Some(dtype) = path.path.get_ident().and_then(|n| cx.find_dtype(&n.to_string())) else {
                return Err(cx.report(messages::tensor_type_expected(Place::of(path))));
            };
            let value = lower_expr(cx, init)?;
            let site = site_of(cx, init);
            let node = match &value {
                Value::Untyped(untyped) => adopt(cx, untyped, dtype, &site)?,
                other => expect_dtype(cx, other, dtype, site.place, &site)?,
            };
            check_axes(cx, node, &[], Place::of(init))?;
            Value::Node(node)
        }
        Some(ty) => {
            let Some(ty) = read_type(cx, ty) else {
                // The type was reported; the value is lowered for its own errors.
                return Err(lower_expr(cx, init).err().unwrap_or_else(Reported::before));
            };
            let (dtype, axes) = resolve_type(cx, &ty)?;
            let mut outer = axis_set(&axes);
            outer.extend(cx.scope.extras.iter().copied());
            let saved = cx.scope.outer.replace(outer);
            let value = lower_expr(cx, init);
            cx.scope.outer = saved;
            let value = value?;
            let site = site_of(cx, init);
            let node = match &value {
                Value::Untyped(untyped) => adopt(cx, untyped, dtype, &site)?,
                other => expect_dtype(cx, other, dtype, site.place, &site)?,
            };
            check_axes(cx, node, &axes, Place::of(init))?;
            Value::Node(node)
        }
    };
    Ok(value)
}

/// The type of a typed `let`; its own errors are reported.
fn read_type(cx: &mut Context<'_>, ty: &syn::Type) -> Option<TensorType> {
    let function = cx.scope.function.clone()?;
    parse_tensor_type(ty, &mut function.generics.clone(), cx.diagnostics)
}

/// dtype and axes of a type of the function in scope.
pub(super) fn resolve_type(cx: &mut Context<'_>, ty: &TensorType) -> Result<(DType, Vec<AxisId>), Reported> {
    let dtype = resolve_element(cx, &ty.element)?;
    let mut axes = Vec::new();
    for name in &ty.axes {
        match cx.find_axis(name) {
            Some(axis) => axes.push(axis),
            None => return Err(report_unknown_axis(cx, name)),
        }
    }
    Ok((dtype, axes))
}

/// The dtype that a type names.
pub(super) fn resolve_element(cx: &mut Context<'_>, element: &ElementType) -> Result<DType, Reported> {
    match element {
        ElementType::DType(dtype, _) => Ok(*dtype),
        ElementType::Generic(name) => match cx.find_dtype(&name.to_string()) {
            Some(dtype) => Ok(dtype),
            None => Err(cx.report(messages::unknown_dtype(name))),
        },
    }
}

/// Rule 5: the axes are those declared; in a composite also those of its arguments that pass through.
pub(super) fn check_axes(
    cx: &mut Context<'_>,
    node: NodeId,
    declared: &[AxisId],
    place: Place,
) -> Result<(), Reported> {
    let found = cx.graph.axes(node);
    let missing: Vec<AxisId> = declared.iter().copied().filter(|a| !found.contains(a)).collect();
    let is_extra = |a: &AxisId| !declared.contains(a) && !cx.scope.extras.contains(a);
    let surplus: Vec<AxisId> = found.iter().copied().filter(is_extra).collect();
    if missing.is_empty() && surplus.is_empty() {
        return Ok(());
    }
    let names = |axes: &[AxisId]| axes.iter().map(|&a| cx.graph.axis_name(a).to_owned()).collect::<Vec<_>>();
    let diagnostic = messages::axes_differ(
        place,
        &cx.graph.axes_text(declared),
        &cx.graph.axes_text(found),
        &names(&missing),
        &names(&surplus),
    );
    let diagnostic = if missing.is_empty() { diagnostic } else { mention_batch(cx, node, diagnostic) };
    Err(cx.report(diagnostic))
}

/// Binds the names of a pattern; to nothing known if the value could not be made, so that its uses are silent.
fn bind_pattern(
    cx: &mut Context<'_>,
    pattern: &syn::Pat,
    value: &Result<Value, Reported>,
) -> Result<(), Reported> {
    match pattern {
        syn::Pat::Wild(_) => Ok(()),
        syn::Pat::Paren(paren) => bind_pattern(cx, &paren.pat, value),
        syn::Pat::Ident(ident) if ident.by_ref.is_none() && ident.subpat.is_none() => {
            let name = &ident.ident;
            if let Some(mutability) = &ident.mutability {
                // The assignments that it is for are silent.
                let reported = cx.report(messages::mutable_let(Place::of(mutability), name));
                cx.scope.variables.push((name.to_string(), Variable::Poisoned(reported)));
                return Err(reported);
            }
            let declared = cx.scope.function.clone();
            let generic = declared.as_ref().and_then(|f| f.generic(&name.to_string()));
            if let Some(generic) = generic
                && !matches!(generic.kind, GenericKind::DType(_))
            {
                let reported = cx.report(messages::name_of_axis(name, generic.name.span()));
                cx.scope.variables.push((name.to_string(), Variable::Poisoned(reported)));
                return Err(reported);
            }
            if let Ok(Value::Node(node)) = value {
                let origin = &mut cx.graph.kernel.origins[node.index()];
                origin.name.get_or_insert_with(|| name.to_string());
            }
            let variable = match value {
                Ok(value) => Variable::Value(value.clone()),
                Err(reported) => Variable::Poisoned(*reported),
            };
            cx.scope.variables.push((name.to_string(), variable));
            Ok(())
        }
        syn::Pat::Tuple(tuple) => {
            let parts: Vec<Result<Value, Reported>> = match value {
                Ok(Value::Tuple(values)) if values.len() == tuple.elems.len() => {
                    values.iter().cloned().map(Ok).collect()
                }
                Ok(_) => {
                    let reported = cx.report(messages::tuple_pattern_differs(Place::of(tuple)));
                    vec![Err(reported); tuple.elems.len()]
                }
                Err(reported) => vec![Err(*reported); tuple.elems.len()],
            };
            let mut failed = Ok(());
            for (pattern, value) in tuple.elems.iter().zip(&parts) {
                if let Err(reported) = bind_pattern(cx, pattern, value) {
                    failed = Err(reported);
                }
            }
            parts.iter().find_map(|p| p.as_ref().err()).map_or(failed, |r| Err(*r))
        }
        other => {
            let reported = match value {
                Ok(_) => cx.report(messages::pattern_not_supported(Place::of(other))),
                Err(reported) => *reported,
            };
            let mut names = PatternNames(Vec::new());
            names.visit_pat(other);
            let poisoned = names.0.into_iter().map(|name| (name, Variable::Poisoned(reported)));
            cx.scope.variables.extend(poisoned);
            Err(reported)
        }
    }
}

/// The names that a pattern binds.
struct PatternNames(Vec<String>);

impl<'ast> Visit<'ast> for PatternNames {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.0.push(pattern.ident.to_string());
        visit::visit_pat_ident(self, pattern);
    }
}

/// Names the nodes of a value after a parameter or `let` in messages.
pub(super) fn site_with_name(mut site: Site, name: &str) -> Site {
    site.origin.name = Some(name.to_owned());
    site
}
