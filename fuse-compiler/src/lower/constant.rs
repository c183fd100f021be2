//! Literals and constants: values that adopt a dtype or bring their own.

use super::call::is_similar;
use super::context::Context;
use super::operator::map;
use super::site::Site;
use super::value::{Untyped, Value};
use crate::diagnostic::{Place, Reported, messages};
use crate::scalar::constant_path::{PathConstant, constant_path};
use crate::scalar::literal::Literal;
use fuse_ir::dtype::{self, DType};
use fuse_ir::id::NodeId;
use std::rc::Rc;

/// A literal; one with a suffix has that dtype.
pub(super) fn lower_literal(
    cx: &mut Context<'_>,
    literal: &syn::Lit,
    site: &Site,
) -> Result<Value, Reported> {
    let literal = match Literal::read(literal) {
        Ok(literal) => literal,
        Err(diagnostic) => return Err(cx.report(*diagnostic)),
    };
    match literal.dtype() {
        Some(dtype) => match literal.value(dtype, false) {
            Some(value) => Ok(Value::Node(cx.graph.constant(value, site))),
            None => Err(cx.report(messages::literal_out_of_range_of_tensor(site.place, dtype))),
        },
        None => Ok(Value::Untyped(Rc::new(Untyped::Literal { literal, negated: false, place: site.place }))),
    }
}

/// A path that is no variable: a constant of the block or of std.
pub(super) fn lower_constant_path(
    cx: &mut Context<'_>,
    path: &syn::Path,
    site: &Site,
) -> Result<Value, Reported> {
    if let Some(name) = path.get_ident() {
        let key = cx.key(&name.to_string());
        if let Some(constant) = cx.scalars.consts.get(&key) {
            return Ok(Value::Node(cx.graph.constant(constant.value, site)));
        }
        if cx.scalars.poisoned.contains(&key) || cx.library.broken.borrow().contains_key(&key) {
            return Err(Reported::before());
        }
    }
    if let [generic, name] = &path.segments.iter().collect::<Vec<_>>()[..]
        && let Some(&dtype) = cx.scope.dtypes.get(&generic.ident.to_string())
    {
        return match generic_constant(dtype, &name.ident.to_string()) {
            Some(value) => Ok(Value::Node(cx.graph.constant(value, site))),
            None => Err(cx.report(messages::unknown_constant_of_generic(
                site.place,
                &generic.ident,
                &name.ident,
                dtype,
            ))),
        };
    }
    match constant_path(path) {
        Some(PathConstant::Typed(value)) => Ok(Value::Node(cx.graph.constant(value, site))),
        Some(constant) => Ok(Value::Untyped(Rc::new(Untyped::Constant { constant, place: site.place }))),
        None => match path.get_ident() {
            Some(name) => {
                let text = name.to_string();
                let mut known = cx.scope.variables.iter().map(|(n, _)| n).chain(cx.scalars.consts.keys());
                let similar = known.rfind(|known| is_similar(known, &text)).cloned();
                Err(cx.report(messages::unknown_name(name, similar.as_deref())))
            }
            None => Err(cx.report(messages::path_outside_block(site.place, &site.origin.label))),
        },
    }
}

/// `T::INFINITY` and its like, for the dtype that a generic one stands for.
fn generic_constant(dtype: DType, name: &str) -> Option<dtype::Value> {
    if dtype.is_narrow_float() {
        let value = match name {
            "INFINITY" => f64::INFINITY,
            "NEG_INFINITY" => f64::NEG_INFINITY,
            "NAN" => f64::NAN,
            _ => return None,
        };
        return dtype::Value::from_f64(dtype, value);
    }
    let path: syn::Path = syn::parse_str(&format!("{}::{name}", dtype.name())).ok()?;
    constant_path(&path)?.value(dtype)
}

/// The dtype that an expression of literals has where nothing decides: f32, or i64 as `index(N)` has.
pub(super) fn default_dtype(untyped: &Untyped) -> DType {
    if untyped.is_float() { DType::F32 } else { DType::I64 }
}

/// Computes an expression of literals in `dtype`.
pub(super) fn adopt(
    cx: &mut Context<'_>,
    untyped: &Untyped,
    dtype: DType,
    site: &Site,
) -> Result<NodeId, Reported> {
    let value = match untyped {
        Untyped::Literal { literal, negated, place } => {
            // A narrow float takes the literal that f32 has, rounded.
            let value = literal.value(dtype.compute(), *negated).map(|v| v.cast(dtype));
            value.ok_or_else(|| {
                let fits_kind = match literal {
                    Literal::Int { .. } => dtype.is_int(),
                    Literal::Float { .. } => dtype.is_float(),
                    Literal::Bool(_) => false,
                };
                if fits_kind {
                    messages::literal_out_of_range_of_tensor(*place, dtype)
                } else {
                    messages::literal_of_other_kind(*place, untyped.is_float(), dtype)
                }
            })
        }
        Untyped::Constant { constant, place } => {
            let value = constant.value(dtype.compute()).map(|v| v.cast(dtype));
            value.ok_or_else(|| messages::literal_of_other_kind(*place, true, dtype))
        }
        Untyped::Op { op, args, .. } => {
            let compute = dtype.compute();
            let args: Vec<NodeId> =
                args.iter().map(|a| adopt(cx, a, compute, site)).collect::<Result<_, _>>()?;
            let node = map(cx, *op, &args, untyped.place(), site)?;
            return Ok(cx.graph.cast(node, dtype, site));
        }
    };
    match value {
        Ok(value) => Ok(cx.graph.constant(value, site)),
        Err(diagnostic) => Err(cx.report(diagnostic)),
    }
}

/// The value as a node; literals take their default dtype.
pub(super) fn expect_node(cx: &mut Context<'_>, value: &Value, site: &Site) -> Result<NodeId, Reported> {
    match value {
        Value::Node(node) => Ok(*node),
        Value::Untyped(untyped) => adopt(cx, untyped, default_dtype(untyped), site),
        Value::Tuple(_) => Err(cx.report(messages::tuple_in_place_of_tensor(site.place))),
        Value::Unit => Err(cx.report(messages::no_value(site.place))),
    }
}

/// The value as a node of this dtype: literals adopt it, narrow floats widen to f32, anything else is an error.
pub(super) fn expect_dtype(
    cx: &mut Context<'_>,
    value: &Value,
    dtype: DType,
    place: Place,
    site: &Site,
) -> Result<NodeId, Reported> {
    let node = match value {
        Value::Untyped(untyped) => return adopt(cx, untyped, dtype, site),
        other => expect_node(cx, other, &Site { place, origin: site.origin.clone() })?,
    };
    let found = cx.graph.dtype(node);
    if found == dtype {
        return Ok(node);
    }
    if found.is_narrow_float() && dtype == DType::F32 {
        return Ok(cx.graph.widen(node, site));
    }
    Err(cx.report(messages::other_dtype_expected(place, dtype, found)))
}
