//! What is known of the values of a block before any is computed: masks that are inequalities between positions decide for
//! whole blocks.
//!
//! Positions, extents and scalars have ranges over a block, comparisons of ranges are often decided, and a selection that is
//! decided is one of its sides. What comes from memory is known only where all positions of the block read one element.

use super::super::access::AccessKind;
use super::super::geometry::Block;
use super::super::launch::Launch;
use super::super::parallel::read_value;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::eval_op;
use fuse_ir::graph::MapFn;
use fuse_ir::id::ValueId;
use fuse_ir::scalar::ScalarOp;
use fuse_ir::schedule::BodyOp;
use std::ops::Range;

/// What is known of a value over a block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Known {
    /// Nothing.
    Nothing,
    /// It is this everywhere.
    Exactly(Value),
    /// An i64 between these, both included.
    Between(i64, i64),
}

impl Known {
    /// Whether it is that float everywhere.
    pub(super) fn is(self, x: f64) -> bool {
        matches!(self, Known::Exactly(value) if value.dtype().is_float() && value.as_f64() == Some(x))
    }

    /// Whether it is that bool everywhere.
    pub(super) fn is_truth(self, wanted: bool) -> bool {
        self.truth() == Some(wanted)
    }

    /// Whether it is one integer other than zero.
    pub(super) fn is_nonzero_integer(self) -> bool {
        matches!(self, Known::Exactly(value) if value.as_i128().is_some_and(|x| x != 0))
    }

    fn range(self) -> Option<(i64, i64)> {
        match self {
            Known::Between(low, high) => Some((low, high)),
            Known::Exactly(Value::I64(x)) => Some((x, x)),
            Known::Exactly(_) | Known::Nothing => None,
        }
    }

    fn truth(self) -> Option<bool> {
        if let Known::Exactly(Value::Bool(b)) = self { Some(b) } else { None }
    }
}

fn between(low: Option<i64>, high: Option<i64>) -> Known {
    match (low, high) {
        (Some(low), Some(high)) if low == high => Known::Exactly(Value::I64(low)),
        (Some(low), Some(high)) => Known::Between(low, high),
        _ => Known::Nothing,
    }
}

fn truth(known: Option<bool>) -> Known {
    known.map_or(Known::Nothing, |b| Known::Exactly(Value::Bool(b)))
}

/// What is known of each value of a plain group over a block; `given` are the values that the engine gives.
pub(super) fn find_known(launch: &Launch<'_>, block: &Block, given: &[(ValueId, Known)]) -> Vec<Known> {
    let group = &launch.exec.group;
    let mut known: Vec<Known> = Vec::with_capacity(group.values.len());
    for (k, value) in group.values.iter().enumerate() {
        let id = ValueId::from_index(k);
        known.push(match &value.op {
            BodyOp::Constant(v) => Known::Exactly(*v),
            BodyOp::Param(p) => match launch.env.scalars.get(p.index()).copied().flatten() {
                Some(v) => Known::Exactly(v.cast(value.dtype.compute())),
                None => Known::Nothing,
            },
            BodyOp::Extent(e) => Known::Exactly(Value::I64(launch.env.constant(e))),
            BodyOp::Load(_) => match launch.uniform(id) {
                Some(v) => Known::Exactly(v),
                None => known_load(launch, block, id),
            },
            BodyOp::Map { function: MapFn::Op(op), args } => match launch.uniform(id) {
                Some(v) => Known::Exactly(v),
                None => {
                    let args: Vec<Known> = args.iter().map(|a| known[a.index()]).collect();
                    known_map(*op, &args)
                }
            },
            BodyOp::Reduce { .. } => {
                given.iter().find(|(v, _)| *v == id).map_or(Known::Nothing, |(_, known)| *known)
            }
            BodyOp::Map { function: MapFn::Call { .. }, .. } | BodyOp::CumSum { .. } => Known::Nothing,
        });
    }
    known
}

fn known_load(launch: &Launch<'_>, block: &Block, id: ValueId) -> Known {
    let Some(operand) = launch.operand_of(id) else { return Known::Nothing };
    let access = launch.access(operand);
    let f = launch.forms();
    let g = f.geometry;
    let form = &f.forms[access.form];
    match access.kind {
        AccessKind::Index => {
            let start = g.at_block(form, &Block { a: 0, b: 0, ..*block });
            // The least and the greatest that a side adds.
            let side = |dims: Range<usize>, first: usize, len: usize| {
                let at = |k: usize| g.offset(form, dims.clone(), first + k);
                match g.linear_stride(form, dims.clone()) {
                    Some(_) => {
                        let (x, y) = (at(0), at(len - 1));
                        (x.min(y), x.max(y))
                    }
                    None => (0..len).map(at).fold((i64::MAX, i64::MIN), |(l, h), x| (l.min(x), h.max(x))),
                }
            };
            let a = side(g.a_dims(), block.a, block.a_len);
            let b = side(g.b_dims(), block.b, block.b_len);
            let sum = |a: i64, b: i64| start.checked_add(a)?.checked_add(b);
            between(sum(a.0, b.0), sum(a.1, b.1))
        }
        AccessKind::Memory if !access.moves_down() && !access.moves_along() && access.bounds.is_empty() => {
            let at = g.at_block(form, &Block { a: 0, b: 0, ..*block });
            if access.dtype.compute() != access.dtype {
                return Known::Nothing;
            }
            // SAFETY: the bindings vouch for every element that the plan reads.
            unsafe {
                let from = access.data.offset(at as isize * access.dtype.size() as isize);
                Known::Exactly(read_value(access.dtype, from))
            }
        }
        AccessKind::Memory | AccessKind::Mask | AccessKind::General => Known::Nothing,
    }
}

fn known_map(op: ScalarOp, args: &[Known]) -> Known {
    let exact: Option<Vec<Value>> = args
        .iter()
        .map(|known| match known {
            Known::Exactly(v) => Some(*v),
            Known::Nothing | Known::Between(..) => None,
        })
        .collect();
    if let Some(values) = exact {
        let (value, fault) = eval_op(op, &values);
        return if fault.is_none() { Known::Exactly(value) } else { Known::Nothing };
    }
    match (op, args) {
        (ScalarOp::And, &[a, b]) => match (a.truth(), b.truth()) {
            (Some(false), _) | (_, Some(false)) => truth(Some(false)),
            _ => Known::Nothing,
        },
        (ScalarOp::Or, &[a, b]) => match (a.truth(), b.truth()) {
            (Some(true), _) | (_, Some(true)) => truth(Some(true)),
            _ => Known::Nothing,
        },
        (ScalarOp::Select, &[c, a, b]) => match c.truth() {
            Some(true) => a,
            Some(false) => b,
            None if a == b => a,
            None => match (a.range(), b.range()) {
                (Some(a), Some(b)) => Known::Between(a.0.min(b.0), a.1.max(b.1)),
                _ => Known::Nothing,
            },
        },
        (_, &[a]) => a.range().map_or(Known::Nothing, |a| known_unary(op, a)),
        (_, &[a, b]) => match (a.range(), b.range()) {
            (Some(a), Some(b)) => known_binary(op, a, b),
            _ => Known::Nothing,
        },
        _ => Known::Nothing,
    }
}

fn known_unary(op: ScalarOp, (low, high): (i64, i64)) -> Known {
    match op {
        ScalarOp::Neg => between(high.checked_neg(), low.checked_neg()),
        ScalarOp::Abs if low >= 0 => Known::Between(low, high),
        ScalarOp::Abs if low != i64::MIN => between(Some(0), Some(high.max(-low))),
        ScalarOp::Cast(DType::I64) => Known::Between(low, high),
        _ => Known::Nothing,
    }
}

/// Ranges of i64. What would wrap is unknown.
fn known_binary(op: ScalarOp, a: (i64, i64), b: (i64, i64)) -> Known {
    // An order that holds for all pairs, or for none.
    let decided = |always: bool, never: bool| truth(if always { Some(true) } else { never.then_some(false) });
    match op {
        ScalarOp::Add => between(a.0.checked_add(b.0), a.1.checked_add(b.1)),
        ScalarOp::Sub => between(a.0.checked_sub(b.1), a.1.checked_sub(b.0)),
        ScalarOp::Mul => {
            let corners = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)];
            let products: Option<Vec<i64>> = corners.iter().map(|(x, y)| x.checked_mul(*y)).collect();
            let products = products.unwrap_or_default();
            between(products.iter().min().copied(), products.iter().max().copied())
        }
        ScalarOp::Div if b.0 == b.1 && b.0 > 0 => between(Some(a.0 / b.0), Some(a.1 / b.0)),
        ScalarOp::Rem if b.0 == b.1 && b.0 > 0 && a.0 >= 0 => match a.0 / b.0 == a.1 / b.0 {
            true => between(Some(a.0 % b.0), Some(a.1 % b.0)),
            false => between(Some(0), Some(b.0 - 1)),
        },
        ScalarOp::Min => between(Some(a.0.min(b.0)), Some(a.1.min(b.1))),
        ScalarOp::Max => between(Some(a.0.max(b.0)), Some(a.1.max(b.1))),
        ScalarOp::Lt => decided(a.1 < b.0, a.0 >= b.1),
        ScalarOp::Le => decided(a.1 <= b.0, a.0 > b.1),
        ScalarOp::Gt => decided(a.0 > b.1, a.1 <= b.0),
        ScalarOp::Ge => decided(a.0 >= b.1, a.1 < b.0),
        ScalarOp::Eq => decided(a.0 == a.1 && a == b, a.1 < b.0 || a.0 > b.1),
        ScalarOp::Ne => decided(a.1 < b.0 || a.0 > b.1, a.0 == a.1 && a == b),
        _ => Known::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair of ranges of small numbers against every pair of numbers in them.
    #[test]
    fn ranges_hold_what_they_say() {
        let numbers = -4i64..=4;
        let ops = [
            ScalarOp::Add,
            ScalarOp::Sub,
            ScalarOp::Mul,
            ScalarOp::Div,
            ScalarOp::Rem,
            ScalarOp::Min,
            ScalarOp::Max,
            ScalarOp::Lt,
            ScalarOp::Le,
            ScalarOp::Gt,
            ScalarOp::Ge,
            ScalarOp::Eq,
            ScalarOp::Ne,
        ];
        let ranges: Vec<(i64, i64)> =
            numbers.clone().flat_map(|low| (low..=4).map(move |high| (low, high))).collect();
        for op in ops {
            for &a in &ranges {
                for &b in &ranges {
                    let known = known_binary(op, a, b);
                    for x in a.0..=a.1 {
                        for y in b.0..=b.1 {
                            let (value, fault) = eval_op(op, &[Value::I64(x), Value::I64(y)]);
                            let holds = match known {
                                Known::Nothing => true,
                                Known::Exactly(v) => fault.is_none() && v == value,
                                Known::Between(low, high) => {
                                    matches!(value, Value::I64(z) if (low..=high).contains(&z))
                                }
                            };
                            assert!(holds, "{op:?} of {a:?} and {b:?}: {known:?} but {x}, {y} give {value}");
                        }
                    }
                }
            }
        }
    }
}
