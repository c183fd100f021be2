//! What masks say of a tile as a whole, as conditions of the kernel.
//!
//! Positions have ranges over a tile, comparisons of ranges are often decided, and a selection that is decided is one of its
//! sides. A tile of which all exponents are −∞ and all weights 0 adds nothing to finite values, whatever its scores.

use super::super::body::{Emitter, Scope, both};
use super::levels::{Level, Levels};
use super::{Side, Stream};
use crate::dtype::{DType, Value};
use crate::graph::MapFn;
use crate::id::{AxisId, FnId, ValueId};
use crate::index_map::IndexExpr;
use crate::kernel_ir::Expr;
use crate::scalar::ScalarOp;
use crate::schedule::streamed::{Source, StreamParts};
use crate::schedule::{BodyOp, Operand, ScheduledGroup};
use std::collections::BTreeMap;

/// Bits of positions, and of other numbers that may come in: ranges of more are not followed, so that nothing wraps.
const BITS: u32 = 40;
const MOST_BITS: u32 = 62;

/// Whether computing a value may fault.
pub(super) fn may_fault(group: &ScheduledGroup, v: ValueId, calls: &dyn Fn(FnId) -> bool) -> bool {
    match &group.value(v).op {
        BodyOp::Map { function: MapFn::Op(op), args } => {
            args.first().is_some_and(|a| op.may_fault(group.value(*a).dtype.compute()))
        }
        BodyOp::Map { function: MapFn::Call { function, .. }, .. } => calls(*function),
        BodyOp::Load(operand) => matches!(group.operands[operand.index()], Operand::Check { .. }),
        BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => false,
        BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => false,
    }
}

/// What is known of a value over a tile.
#[derive(Clone, Debug)]
enum Known {
    Nothing,
    /// An integer between these, where the condition holds.
    Range {
        low: Expr,
        high: Expr,
        bits: u32,
        when: Option<Expr>,
    },
    /// A bool: when it is true everywhere, when nowhere.
    Truth {
        always: Expr,
        never: Expr,
    },
}

/// The values of a group over a tile, as far as someone asked.
struct OfTile<'s> {
    levels: &'s Levels<'s>,
    /// The first and the last position of the sides.
    sides: [(&'s [AxisId], Expr, Expr); 2],
    known: BTreeMap<ValueId, Known>,
}

impl Emitter<'_> {
    /// Whether tiles may be excluded; if so, the divisors that must not be zero for that.
    pub(super) fn exclusion(&self, parts: &StreamParts) -> Option<Vec<ValueId>> {
        parts.admitted.as_ref()?;
        let calls = |f| self.may_call_fault(f);
        let values = |group: &ScheduledGroup| (0..group.values.len()).map(ValueId::from_index);
        let group = &parts.scores.epilogue;
        let others =
            parts.scores.panels.iter().map(|p| &p.group).chain(parts.weights.as_ref().map(|w| &w.group));
        for other in others {
            if values(other).any(|v| may_fault(other, v, &calls)) {
                return None;
            }
        }
        let mut divisors = Vec::new();
        for v in values(group).filter(|v| may_fault(group, *v, &calls)) {
            match &group.value(v).op {
                BodyOp::Map { function: MapFn::Op(_), args } if args.len() == 2 => divisors.push(args[1]),
                _ => return None,
            }
        }
        Some(divisors)
    }

    /// When the tile of keys from `first_key` on adds nothing but the product of 0 and its values.
    pub(super) fn excludes(&mut self, stream: &mut Stream<'_>, first_key: &Expr) -> Option<Expr> {
        let found = self.find_excludes(stream, first_key);
        if found.is_none() {
            stream.state.excluded = None;
        }
        // No weight is 0 times a factor that is infinite or NaN.
        let first = stream.state.again.as_ref().map(|(_, round)| round.clone().equals(0u32));
        found.map(|e| both(first, Some(e.clone())).unwrap_or(e))
    }

    /// When masks admit all of the tile of keys from `first_key` on, which has all its keys.
    pub(super) fn admits(&mut self, stream: &Stream<'_>, first_key: &Expr) -> Option<Expr> {
        let parts = stream.parts;
        let admitted = parts.admitted.as_ref()?;
        let levels = &stream.block.scores;
        let mut all = self.have_no_zero(levels, self.exclusion(parts)?)?;
        let mut tile =
            OfTile { levels, sides: self.sides_of_tile(stream, first_key), known: BTreeMap::new() };
        for (condition, wanted) in &admitted.when {
            let Known::Truth { always, never } = self.known(&mut tile, *condition) else { return None };
            all = both(all, Some(if *wanted { always } else { never }));
        }
        let end = first_key + self.number(stream.spread.keys().into());
        let has_all = Expr::op(ScalarOp::Le, vec![end, stream.keys.clone()]);
        all = both(all, Some(has_all));
        all.map(|e| self.builder.bind("is_admitted", e))
    }

    /// When none of the divisors is zero, `None` of none; nothing if that cannot be known.
    fn have_no_zero(&mut self, levels: &Levels<'_>, divisors: Vec<ValueId>) -> Option<Option<Expr>> {
        let mut all: Option<Expr> = None;
        for v in divisors {
            let divisor = levels.block.values[v.index()].clone()?;
            let zero = Expr::Const(Value::zero(self.builder.dtype_of(&divisor)));
            all = both(all, Some(divisor.equals(zero).unary(ScalarOp::Not)));
        }
        Some(all)
    }

    /// The first and the last position of rows and keys of a tile.
    fn sides_of_tile<'s>(
        &mut self,
        stream: &Stream<'s>,
        first_key: &Expr,
    ) -> [(&'s [AxisId], Expr, Expr); 2] {
        let parts = stream.parts;
        let keys = Side { axes: &parts.streamed, first: first_key.clone(), count: stream.keys.clone() };
        let [of_rows, of_keys] =
            [(&stream.rows, stream.spread.rows()), (&keys, stream.spread.keys())].map(|(side, tile)| {
                let last = (&side.first + self.number(u64::from(tile) - 1)).min(&side.count - self.number(1));
                [side.first.clone(), last].map(|e| e.cast(DType::I64))
            });
        let name = |em: &mut Self, [first, last]: [Expr; 2]| {
            [em.builder.bind("first", first), em.builder.bind("last", last)]
        };
        let [first_row, last_row] = name(self, of_rows);
        let [first, last] = name(self, of_keys);
        [(parts.rows.as_slice(), first_row, last_row), (parts.streamed.as_slice(), first, last)]
    }

    fn find_excludes(&mut self, stream: &Stream<'_>, first_key: &Expr) -> Option<Expr> {
        let parts = stream.parts;
        let levels = &stream.block.scores;
        let mut all = self.have_no_zero(levels, self.exclusion(parts)?)?;
        let sides = self.sides_of_tile(stream, first_key);
        let mut scores = OfTile { levels, sides: sides.clone(), known: BTreeMap::new() };
        let lowest: Vec<usize> =
            parts.exponent.into_iter().chain(parts.maxima.iter().map(|m| m.tile)).collect();
        if lowest.is_empty() {
            return None;
        }
        for (k, tile) in lowest.iter().enumerate() {
            if lowest[..k].iter().any(|t| parts.tiles[*t] == parts.tiles[*tile]) {
                continue;
            }
            let is = self.is_everywhere(&mut scores, parts.tiles[*tile], f64::NEG_INFINITY, &[])?;
            all = both(all, Some(is));
        }
        let sources = parts.sums.iter().map(|s| s.source).chain([parts.left.0]);
        for source in sources {
            let is = match source {
                Source::Exponential => continue,
                Source::Tile(k) => self.is_everywhere(&mut scores, parts.tiles[k], 0.0, &[])?,
                Source::Weight(v) => {
                    let (weights, levels) = (parts.weights.as_ref()?, stream.block.weights.as_ref()?);
                    let mut of_weights = OfTile { levels, sides: sides.clone(), known: BTreeMap::new() };
                    let zeros: Vec<ValueId> = weights.exponential.into_iter().collect();
                    self.is_everywhere(&mut of_weights, v, 0.0, &zeros)?
                }
            };
            all = both(all, Some(is));
        }
        all
    }

    /// When a float is `x` at every position of a tile; `zeros` are given, and 0.
    fn is_everywhere(
        &mut self,
        tile: &mut OfTile<'_>,
        v: ValueId,
        x: f64,
        zeros: &[ValueId],
    ) -> Option<Expr> {
        if zeros.contains(&v) {
            return (x == 0.0).then_some(true.into());
        }
        let group = tile.levels.group;
        match &group.value(v).op {
            BodyOp::Constant(c) => (c.as_f64() == Some(x)).then_some(true.into()),
            BodyOp::Map { function: MapFn::Op(ScalarOp::Select), args } => {
                let &[c, a, b] = &args[..] else { return None };
                let Known::Truth { always, never } = self.known(tile, c) else { return None };
                let a = self.is_everywhere(tile, a, x, zeros);
                let b = self.is_everywhere(tile, b, x, zeros);
                let is = match (a, b) {
                    (Some(a), Some(b)) => (always & a.clone()) | (never & b.clone()) | (a & b),
                    (Some(a), None) => always & a,
                    (None, Some(b)) => never & b,
                    (None, None) => return None,
                };
                Some(self.builder.bind("is_decided", is))
            }
            BodyOp::Map { function: MapFn::Op(ScalarOp::Cast(DType::F32)), args } => {
                let same = group.value(args[0]).dtype == DType::F32;
                if same { self.is_everywhere(tile, args[0], x, zeros) } else { None }
            }
            _ => None,
        }
    }

    fn known(&mut self, tile: &mut OfTile<'_>, v: ValueId) -> Known {
        if let Some(known) = tile.known.get(&v) {
            return known.clone();
        }
        let found = self.find_known(tile, v);
        let known = match found {
            Known::Nothing => Known::Nothing,
            Known::Range { low, high, bits, when } => Known::Range {
                low: self.builder.bind("low", low),
                high: self.builder.bind("high", high),
                bits,
                when: when.map(|e| self.builder.bind("is_range", e)),
            },
            Known::Truth { always, never } => Known::Truth {
                always: self.builder.bind("always", always),
                never: self.builder.bind("never", never),
            },
        };
        tile.known.insert(v, known.clone());
        known
    }

    fn find_known(&mut self, tile: &mut OfTile<'_>, v: ValueId) -> Known {
        let levels = tile.levels;
        let group = levels.group;
        if levels.level(v) == Level::Block
            && let Some(e) = levels.block.values[v.index()].clone()
        {
            return self.known_uniform(e);
        }
        match &group.value(v).op {
            BodyOp::Load(operand) => match &group.operands[operand.index()] {
                Operand::Index(e) => self.known_index(tile, e),
                Operand::Buffer { .. } | Operand::Mask(_) | Operand::Check { .. } => Known::Nothing,
            },
            BodyOp::Map { function: MapFn::Op(op), args } => {
                let (op, args) = (*op, args.clone());
                let known: Vec<Known> = args.iter().map(|a| self.known(tile, *a)).collect();
                let integers = args.iter().all(|a| group.value(*a).dtype == DType::I64);
                known_map(op, known, integers)
            }
            BodyOp::Map { function: MapFn::Call { .. }, .. } | BodyOp::CumSum { .. } => Known::Nothing,
            BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) | BodyOp::Reduce { .. } => {
                Known::Nothing
            }
        }
    }

    /// A value that is one in the whole block.
    fn known_uniform(&mut self, e: Expr) -> Known {
        match self.builder.dtype_of(&e) {
            DType::Bool => Known::Truth { always: e.clone(), never: e.unary(ScalarOp::Not) },
            DType::I64 => {
                let most = 1i64 << BITS;
                let when = match e.as_const() {
                    Some(Value::I64(x)) if x.abs() < most => None,
                    _ => Some(e.clone().lt(most) & Expr::from(-most).lt(&e)),
                };
                Known::Range { low: e.clone(), high: e, bits: BITS, when }
            }
            _ => Known::Nothing,
        }
    }

    /// The range of an index expression of positions, added and multiplied.
    fn known_index(&mut self, tile: &OfTile<'_>, e: &IndexExpr) -> Known {
        let exact = |e: Expr| Known::Range { low: e.clone(), high: e, bits: BITS, when: None };
        let two = |em: &mut Self, op, a: &IndexExpr, b: &IndexExpr| {
            let args = vec![em.known_index(tile, a), em.known_index(tile, b)];
            known_map(op, args, true)
        };
        match e {
            IndexExpr::Const(n) if n.abs() < 1 << BITS => exact((*n).into()),
            IndexExpr::Index(axis) => {
                for (axes, first, last) in &tile.sides {
                    if axes.contains(axis) {
                        if axes.len() > 1 {
                            // Somewhere on the axis.
                            let last = self.extent(&IndexExpr::Extent(*axis)).cast(DType::I64) - 1i64;
                            return Known::Range { low: 0i64.into(), high: last, bits: BITS, when: None };
                        }
                        return Known::Range {
                            low: first.clone(),
                            high: last.clone(),
                            bits: BITS,
                            when: None,
                        };
                    }
                }
                let scope: &Scope = &tile.levels.block;
                match scope.positions.get(axis) {
                    Some(position) => exact(position.clone().cast(DType::I64)),
                    None => Known::Nothing,
                }
            }
            IndexExpr::Extent(axis) => exact(self.extent(&IndexExpr::Extent(*axis)).cast(DType::I64)),
            IndexExpr::Add(a, b) => two(self, ScalarOp::Add, a, b),
            IndexExpr::Sub(a, b) => two(self, ScalarOp::Sub, a, b),
            IndexExpr::Mul(a, b) => two(self, ScalarOp::Mul, a, b),
            IndexExpr::Const(_) | IndexExpr::Param(_) | IndexExpr::Indirect(_) => Known::Nothing,
            IndexExpr::FloorDiv(..) | IndexExpr::Mod(..) => Known::Nothing,
        }
    }
}

/// What is known of an operation; of integers only of i64.
fn known_map(op: ScalarOp, args: Vec<Known>, integers: bool) -> Known {
    match (op, &args[..]) {
        (ScalarOp::And, [Known::Truth { always: a, never: x }, Known::Truth { always: b, never: y }]) => {
            Known::Truth { always: a.clone() & b, never: x.clone() | y }
        }
        (ScalarOp::Or, [Known::Truth { always: a, never: x }, Known::Truth { always: b, never: y }]) => {
            Known::Truth { always: a.clone() | b, never: x.clone() & y }
        }
        (ScalarOp::And, [Known::Truth { never, .. }, _] | [_, Known::Truth { never, .. }]) => {
            Known::Truth { always: false.into(), never: never.clone() }
        }
        (ScalarOp::Or, [Known::Truth { always, .. }, _] | [_, Known::Truth { always, .. }]) => {
            Known::Truth { always: always.clone(), never: false.into() }
        }
        (ScalarOp::Not, [Known::Truth { always, never }]) => {
            Known::Truth { always: never.clone(), never: always.clone() }
        }
        (ScalarOp::Cast(DType::I64), [known @ Known::Range { .. }]) if integers => known.clone(),
        (ScalarOp::Neg, [Known::Range { low, high, bits, when }]) if integers => {
            let negated = |e: &Expr| e.clone().unary(ScalarOp::Neg);
            Known::Range { low: negated(high), high: negated(low), bits: *bits, when: when.clone() }
        }
        (ScalarOp::Abs, [Known::Range { low, high, bits, when }]) if integers => {
            let negated = low.clone().unary(ScalarOp::Neg);
            // Where a range has 0 inside, that is the least.
            let least = low.clone().max(high.clone().unary(ScalarOp::Neg)).max(0i64);
            Known::Range { low: least, high: high.clone().max(negated), bits: *bits, when: when.clone() }
        }
        (_, [a @ Known::Range { .. }, b @ Known::Range { .. }]) if integers => known_binary(op, a, b),
        _ => Known::Nothing,
    }
}

fn known_binary(op: ScalarOp, a: &Known, b: &Known) -> Known {
    let Known::Range { low: a, high: x, bits: m, when: first } = a else { return Known::Nothing };
    let Known::Range { low: b, high: y, bits: n, when: second } = b else { return Known::Nothing };
    let when = both(first.clone(), second.clone());
    let range = |low: Expr, high: Expr, bits: u32, when: Option<Expr>| match bits <= MOST_BITS {
        true => Known::Range { low, high, bits, when },
        false => Known::Nothing,
    };
    let truth = |always: Expr, never: Expr| {
        let also = |e: Expr| both(when.clone(), Some(e)).unwrap_or(false.into());
        Known::Truth { always: also(always), never: also(never) }
    };
    let not = |e: Expr| e.unary(ScalarOp::Not);
    let div = |e: &Expr, by: &Expr| Expr::op(ScalarOp::Div, vec![e.clone(), by.clone()]);
    let rem = |e: &Expr, by: &Expr| Expr::op(ScalarOp::Rem, vec![e.clone(), by.clone()]);
    let most = *m.max(n) + 1;
    match op {
        ScalarOp::Add => range(a + b, x + y, most, when),
        ScalarOp::Sub => range(a - y, x - b, most, when),
        ScalarOp::Mul => {
            let corners = [a * b, a * y, x * b, x * y];
            let [p, q, r, s] = corners;
            let low = p.clone().min(&q).min(&r).min(&s);
            range(low, p.max(q).max(r).max(s), m + n, when)
        }
        ScalarOp::Min => range(a.clone().min(b), x.clone().min(y), most, when),
        ScalarOp::Max => range(a.clone().max(b), x.clone().max(y), most, when),
        // By one number that is positive.
        ScalarOp::Div => {
            let positive = b.clone().equals(y) & Expr::from(0i64).lt(b);
            let by = b.clone().max(1i64);
            range(div(a, &by), div(x, &by), *m, both(when, Some(positive)))
        }
        ScalarOp::Rem => {
            let positive = b.clone().equals(y) & Expr::from(0i64).lt(b) & a.clone().ge(0i64);
            let by = b.clone().max(1i64);
            let one = div(a, &by).equals(div(x, &by));
            let low = one.clone().select(rem(a, &by), 0i64);
            let high = one.select(rem(x, &by), by - 1i64);
            range(low, high, *n, both(when, Some(positive)))
        }
        ScalarOp::Lt => truth(x.clone().lt(b), a.clone().ge(y)),
        ScalarOp::Le => truth(x.clone().le(b), y.clone().lt(a)),
        ScalarOp::Gt => truth(y.clone().lt(a), x.clone().le(b)),
        ScalarOp::Ge => truth(a.clone().ge(y), x.clone().lt(b)),
        ScalarOp::Eq => {
            let one = a.clone().equals(x) & b.clone().equals(y) & a.clone().equals(b);
            truth(one, x.clone().lt(b) | y.clone().lt(a))
        }
        ScalarOp::Ne => {
            let one = a.clone().equals(x) & b.clone().equals(y);
            let same = a.clone().equals(b);
            truth(x.clone().lt(b) | y.clone().lt(a) | (one.clone() & not(same.clone())), one & same)
        }
        _ => Known::Nothing,
    }
}
