//! Equations between extents: checked evaluation, and solving for the one axis that is not bound.

use crate::id::{AxisId, ParamId};
use crate::index_map::{Extent, IndexExpr};

/// What is known when an equation is looked at.
pub(super) trait Unknowns {
    /// The extent of `axis`, if it is bound.
    fn extent(&self, axis: AxisId) -> Option<i128>;
    /// The value of an integer parameter.
    fn param(&self, param: ParamId) -> i128;
}

/// What an equation `known = extent` says.
pub(super) enum Solution {
    /// Nothing yet.
    Open,
    /// Every axis is bound: the value of the right side.
    Value(i128),
    /// The one unbound axis has this extent.
    Axis(AxisId, i64),
    /// No extent of the one unbound axis solves it.
    Inexact(AxisId),
    /// The arithmetic leaves the range of numbers.
    Overflow,
}

/// `factor * unknown + offset`; a constant has factor 0.
#[derive(Clone, Copy)]
struct Linear {
    factor: i128,
    offset: i128,
}

/// Why an expression has no linear form.
enum Opaque {
    /// Two unbound axes, or one where only numbers may stand.
    Unsolvable,
    /// The arithmetic leaves the range of numbers.
    Overflow,
}

/// `extent` as a number, if all its axes are bound and it fits an i64. Division by zero or less gives 0, as in
/// [`IndexExpr::eval`].
pub(super) fn evaluate_extent(extent: &Extent, env: &impl Unknowns) -> Option<i64> {
    match linearize(extent, env, &mut None) {
        Ok(Linear { factor: 0, offset }) => i64::try_from(offset).ok(),
        Ok(_) | Err(_) => None,
    }
}

/// Looks at `known = extent`.
pub(super) fn solve_for_unknown(extent: &Extent, known: Option<i64>, env: &impl Unknowns) -> Solution {
    let mut unknown = None;
    match linearize(extent, env, &mut unknown) {
        Err(Opaque::Overflow) => Solution::Overflow,
        Err(Opaque::Unsolvable) => Solution::Open,
        Ok(Linear { factor, offset }) => match (unknown, known) {
            (None, _) => Solution::Value(offset),
            (Some(_), None) => Solution::Open,
            // The unknown cancels, or is multiplied by an extent of 0: every value would do, or none.
            (Some(_), Some(n)) if factor == 0 && offset == n.into() => Solution::Open,
            (Some(axis), Some(_)) if factor == 0 => Solution::Inexact(axis),
            (Some(axis), Some(n)) => {
                let rest = i128::from(n) - offset;
                if rest % factor != 0 {
                    return Solution::Inexact(axis);
                }
                match i64::try_from(rest / factor) {
                    Ok(solution) if solution >= 0 => Solution::Axis(axis, solution),
                    Ok(_) | Err(_) => Solution::Inexact(axis),
                }
            }
        },
    }
}

/// The expression as a linear form in the only unbound axis, which is written to `unknown`. Numbers stay below 2^100, so
/// that sums and the difference with an extent cannot overflow.
fn linearize(e: &Extent, env: &impl Unknowns, unknown: &mut Option<AxisId>) -> Result<Linear, Opaque> {
    let constant = |offset| Ok(Linear { factor: 0, offset });
    let bounded = |l: Linear| {
        let limit = 1i128 << 100;
        if l.factor.abs() < limit && l.offset.abs() < limit { Ok(l) } else { Err(Opaque::Overflow) }
    };
    match e {
        IndexExpr::Const(c) => constant((*c).into()),
        IndexExpr::Param(p) => constant(env.param(*p)),
        IndexExpr::Extent(axis) => match env.extent(*axis) {
            Some(n) => constant(n),
            None if unknown.is_none_or(|u| u == *axis) => {
                *unknown = Some(*axis);
                Ok(Linear { factor: 1, offset: 0 })
            }
            None => Err(Opaque::Unsolvable),
        },
        // Extents have no positions and no elements; the verifier of the graph says so.
        IndexExpr::Index(_) | IndexExpr::Indirect(_) => Err(Opaque::Unsolvable),
        IndexExpr::Add(a, b) => {
            let (a, b) = (linearize(a, env, unknown)?, linearize(b, env, unknown)?);
            bounded(Linear { factor: a.factor + b.factor, offset: a.offset + b.offset })
        }
        IndexExpr::Sub(a, b) => {
            let (a, b) = (linearize(a, env, unknown)?, linearize(b, env, unknown)?);
            bounded(Linear { factor: a.factor - b.factor, offset: a.offset - b.offset })
        }
        IndexExpr::Mul(a, b) => {
            let (a, b) = (linearize(a, env, unknown)?, linearize(b, env, unknown)?);
            let (scale, l) = match (a.factor, b.factor) {
                (0, _) => (a.offset, b),
                (_, 0) => (b.offset, a),
                _ => return Err(Opaque::Unsolvable),
            };
            match (scale.checked_mul(l.factor), scale.checked_mul(l.offset)) {
                (Some(factor), Some(offset)) => bounded(Linear { factor, offset }),
                _ => Err(Opaque::Overflow),
            }
        }
        IndexExpr::FloorDiv(a, b) | IndexExpr::Mod(a, b) => {
            let (a, b) = (linearize(a, env, unknown)?, linearize(b, env, unknown)?);
            if a.factor != 0 || b.factor != 0 {
                return Err(Opaque::Unsolvable);
            }
            constant(match e {
                _ if b.offset <= 0 => 0,
                IndexExpr::FloorDiv(..) => a.offset.div_euclid(b.offset),
                _ => a.offset.rem_euclid(b.offset),
            })
        }
    }
}
