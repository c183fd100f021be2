//! Extents in generics: `3`, `{ H * D }`.

use super::{Dimension, DimensionOp};
use crate::diagnostic::{Diagnostics, Place, messages};
use syn::spanned::Spanned;

/// Reads the default of a const generic. `None` after a report.
pub(super) fn parse_dimension(expr: &syn::Expr, diagnostics: &mut Diagnostics) -> Option<Dimension> {
    match expr {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }) => match number.base10_parse() {
            Ok(n) => Some(Dimension::Number(n, number.span())),
            Err(_) => {
                diagnostics.report(messages::dimension_not_understood(Place::of(number)));
                None
            }
        },
        syn::Expr::Path(path) if path.path.get_ident().is_some() => {
            path.path.get_ident().cloned().map(Dimension::Name)
        }
        syn::Expr::Paren(paren) => parse_dimension(&paren.expr, diagnostics),
        syn::Expr::Group(group) => parse_dimension(&group.expr, diagnostics),
        syn::Expr::Block(block) if block.block.stmts.len() == 1 => match &block.block.stmts[0] {
            syn::Stmt::Expr(inner, None) => parse_dimension(inner, diagnostics),
            other => {
                diagnostics.report(messages::dimension_not_understood(Place::of(&other)));
                None
            }
        },
        syn::Expr::Binary(binary) => {
            let op = match binary.op {
                syn::BinOp::Add(_) => DimensionOp::Add,
                syn::BinOp::Sub(_) => DimensionOp::Sub,
                syn::BinOp::Mul(_) => DimensionOp::Mul,
                syn::BinOp::Div(_) => DimensionOp::Div,
                other => {
                    diagnostics.report(messages::dimension_not_understood(Place::of(&other)));
                    return None;
                }
            };
            let left = Box::new(parse_dimension(&binary.left, diagnostics)?);
            let right = Box::new(parse_dimension(&binary.right, diagnostics)?);
            if op == DimensionOp::Div && matches!(*right, Dimension::Number(0, _)) {
                diagnostics.report(messages::dimension_divided_by_zero(Place::of(&binary.right)));
                return None;
            }
            Some(Dimension::Binary { op, left, right, span: binary.op.span() })
        }
        other => {
            diagnostics.report(messages::dimension_not_understood(Place::of(&other)));
            None
        }
    }
}
