//! Whether what a group stores over a parameter and what another loads of it are never the same elements.
//!
//! Then neither has to wait for the other: the rows that are appended to a cache are stored while the rest of the cache is
//! read. It is shown by positions on one axis: those of the store are a stretch, and a bound of the load keeps it before or
//! behind that.

use crate::id::AxisId;
use crate::index_map::polynomial::ExtentFacts;
use crate::index_map::{IndexExpr, IndexMap};
use crate::schedule::{BufferRef, Operand, ScheduledGroup, Store};

/// Whether no load of `buffer` in `reader` meets a store to it in `writer`.
pub(crate) fn are_apart(
    facts: &ExtentFacts,
    reader: &ScheduledGroup,
    writer: &ScheduledGroup,
    buffer: BufferRef,
) -> bool {
    let mut stores = writer.stores.iter().filter(|s| s.buffer == buffer);
    stores.all(|store| {
        reader.operands.iter().all(|operand| match operand {
            Operand::Buffer { buffer: read, map, .. } if *read == buffer => never_meets(facts, store, map),
            Operand::Buffer { .. } | Operand::Index(_) | Operand::Mask(_) | Operand::Check { .. } => true,
        })
    })
}

fn never_meets(facts: &ExtentFacts, store: &Store, load: &IndexMap) -> bool {
    let minus = |a: &IndexExpr, b: &IndexExpr| IndexExpr::Sub(Box::new(a.clone()), Box::new(b.clone()));
    let plus = |a: &IndexExpr, b: &IndexExpr| IndexExpr::Add(Box::new(a.clone()), Box::new(b.clone()));
    let at_least = |a: &IndexExpr, b: &IndexExpr| {
        facts.normalize(&minus(a, b)).as_constant().is_some_and(|difference| difference >= 0)
    };
    load.bounds.iter().any(|bound| {
        store.indices.iter().zip(&load.indices).any(|((_, stored), (_, read))| {
            let Some((start, end)) = stretch(facts, stored) else { return false };
            // `read` lies in `least..least + extent` wherever it is read.
            let least = minus(read, &bound.expr);
            at_least(&start, &plus(&least, &bound.extent)) || at_least(&least, &end)
        })
    })
}

/// The positions of a store along an axis, from a first one to before another, if they are a stretch: `start + index(a)`, or
/// one position.
fn stretch(facts: &ExtentFacts, stored: &IndexExpr) -> Option<(IndexExpr, IndexExpr)> {
    let mut along: Vec<AxisId> = Vec::new();
    stored.for_each_leaf(&mut |leaf| {
        if let IndexExpr::Index(axis) = leaf {
            along.push(*axis);
        }
    });
    let (start, length) = match along[..] {
        [] => (stored.clone(), IndexExpr::Const(1)),
        [axis] => {
            let rest = IndexExpr::Sub(Box::new(stored.clone()), Box::new(IndexExpr::Index(axis)));
            (facts.normalize(&rest).to_expr(), IndexExpr::Extent(axis))
        }
        _ => return None,
    };
    let mut fixed = true;
    start.for_each_leaf(&mut |leaf| {
        fixed &= !matches!(leaf, IndexExpr::Index(_) | IndexExpr::Indirect(_));
    });
    let end = IndexExpr::Add(Box::new(start.clone()), Box::new(length));
    fixed.then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::id::{ParamId, ValueId};
    use crate::index_map::Bound;

    /// Axes: the parameter's, and that of what is stored. The parameter is a number of the call.
    const L: AxisId = AxisId(0);
    const S: AxisId = AxisId(1);
    const POS: IndexExpr = IndexExpr::Param(ParamId(1));

    fn store(at: IndexExpr) -> Store {
        let buffer = BufferRef::Param(ParamId(0));
        Store { value: ValueId(0), buffer, dtype: DType::F32, indices: vec![(L, at)] }
    }

    fn load(at: IndexExpr, bounds: Vec<Bound>) -> IndexMap {
        IndexMap { indices: vec![(L, at)], bounds }
    }

    #[track_caller]
    fn check(stored: IndexExpr, expr: IndexExpr, extent: IndexExpr, apart: bool) {
        let map = load(IndexExpr::Index(L), vec![Bound { expr, extent }]);
        assert_eq!(never_meets(&ExtentFacts::default(), &store(stored), &map), apart);
    }

    #[test]
    fn loads_before_and_behind_a_stretch_do_not_meet_it() {
        let index = || IndexExpr::Index(L);
        let appended = || IndexExpr::Index(S).plus(POS);
        let end = || POS.plus(IndexExpr::Extent(S));
        let rest = || IndexExpr::Extent(L).minus(end());
        check(appended(), index(), POS, true);
        check(appended(), index().minus(end()), rest(), true);
        // One position before the end, and one behind the start.
        check(appended(), index().minus(end().minus(1)), rest(), false);
        check(appended(), index(), POS.plus(1), false);
        check(appended(), index(), POS.minus(1), true);
        // The stretch itself.
        check(appended(), index().minus(POS), IndexExpr::Extent(S), false);
        // One position.
        check(POS, index(), POS, true);
        check(POS, index().minus(POS.plus(1)), rest(), true);
        check(POS, index().minus(POS), rest(), false);
    }

    #[test]
    fn what_is_not_bounded_or_no_stretch_may_meet() {
        let facts = ExtentFacts::default();
        let whole = load(IndexExpr::Index(L), Vec::new());
        assert!(!never_meets(&facts, &store(IndexExpr::Index(S).plus(POS)), &whole));
        let before = load(IndexExpr::Index(L), vec![Bound { expr: IndexExpr::Index(L), extent: POS }]);
        assert!(!never_meets(&facts, &store(IndexExpr::Index(S).times(2).plus(POS)), &before));
        assert!(!never_meets(&facts, &store(IndexExpr::Indirect(crate::id::NodeId(3))), &before));
    }
}
