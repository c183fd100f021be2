//! What of a group is computed once for the block, once for each row, once for each key, and for each pair.

use super::super::body::{Emitter, Scope, both};
use super::Stream;
use crate::dtype::{DType, Value};
use crate::graph::MapFn;
use crate::id::{ArrayId, AxisId, ValueId};
use crate::kernel_ir::build::element;
use crate::kernel_ir::{Expr, Unroll};
use crate::schedule::contraction::collect_axes;
use crate::schedule::streamed::Admitted;
use crate::schedule::{BodyOp, Operand, ScheduledGroup};

/// For what a value is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    /// Once.
    Block,
    /// For each row.
    Row,
    /// For each key of a tile.
    Key,
    /// For each row and key.
    Pair,
}

/// A pointwise group over rows and keys, by levels.
pub(super) struct Levels<'a> {
    pub(super) group: &'a ScheduledGroup,
    levels: Vec<Level>,
    /// What is known in the whole block.
    pub(super) block: Scope,
    /// What is computed of the rows of this thread for others.
    rows: Vec<(ValueId, ArrayId)>,
}

impl<'a> Levels<'a> {
    pub(super) fn level(&self, v: ValueId) -> Level {
        self.levels[v.index()]
    }

    fn of(&self, level: Level) -> Vec<ValueId> {
        (0..self.levels.len()).map(ValueId::from_index).filter(|v| self.level(*v) == level).collect()
    }

    /// The values of a level that pairs read.
    fn kept(&self, level: Level) -> Vec<ValueId> {
        let kept = &self.group.passes[0].buffered;
        let mut read: Vec<ValueId> = kept.clone();
        self.of(Level::Pair).into_iter().for_each(|v| read.extend(self.group.reads(v)));
        self.of(level).into_iter().filter(|v| read.contains(v)).collect()
    }
}

impl Emitter<'_> {
    /// The levels of a group over rows and keys on these axes, what the block has in common computed. What may fault is
    /// computed for pairs, of which there may be none.
    pub(super) fn level<'a>(
        &mut self,
        group: &'a ScheduledGroup,
        [rows, keys]: [&[AxisId]; 2],
        place: &Scope,
    ) -> Levels<'a> {
        let axes = collect_axes(&group.operands, &group.values, &[]);
        let mut levels: Vec<Level> = Vec::with_capacity(group.values.len());
        for (k, own) in axes.iter().enumerate() {
            let v = ValueId::from_index(k);
            let on = |side: &[AxisId]| side.iter().any(|a| own.contains(a));
            let of_pairs = group.reads(v).iter().any(|r| levels[r.index()] == Level::Pair);
            levels.push(match (on(rows), on(keys)) {
                _ if of_pairs || self.is_of_pairs(group, v) => Level::Pair,
                (false, false) => Level::Block,
                // A position takes no longer to compute than to keep.
                _ if is_position(group, v) => Level::Pair,
                (true, false) => Level::Row,
                (false, true) => Level::Key,
                (true, true) => Level::Pair,
            });
        }
        let mut block = place.enter(group);
        let levels = Levels { group, levels, block: Scope::default(), rows: Vec::new() };
        self.compute_all(group, &levels.of(Level::Block), &mut block);
        Levels { block, ..levels }
    }

    /// Whether a value is given for pairs, or may fault.
    fn is_of_pairs(&self, group: &ScheduledGroup, v: ValueId) -> bool {
        match &group.value(v).op {
            BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => true,
            BodyOp::Load(_) => super::masks::may_fault(group, v, &|_| true),
            BodyOp::Map { .. } => super::masks::may_fault(group, v, &|f| self.may_call_fault(f)),
            BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => false,
        }
    }

    /// Computes what groups need of the rows of this thread.
    pub(super) fn level_rows(&mut self, stream: &mut Stream<'_>) {
        let rows = stream.spread.own()[0];
        let mut scores = std::mem::take(&mut stream.block.scores.rows);
        scores.extend(self.declare_level(&stream.block.scores, Level::Row, rows));
        stream.block.scores.rows = scores;
        if let Some(weights) = &stream.block.weights {
            let list = self.declare_level(weights, Level::Row, rows);
            if let Some(weights) = &mut stream.block.weights {
                weights.rows = list;
            }
        }
        let levels = [Some(&stream.block.scores), stream.block.weights.as_ref()];
        for levels in levels.into_iter().flatten().filter(|l| !l.rows.is_empty()) {
            self.repeat("i", rows, Unroll::Full, |em, i| {
                let mut scope = levels.block.clone();
                let inside = em.row_scope(stream, &i, &mut scope);
                scope.active = both(scope.active, Some(inside));
                em.compute_all(levels.group, &levels.of(Level::Row), &mut scope);
                em.keep_level(&levels.rows, &i, &scope);
            });
        }
    }

    /// Computes what a group needs of the keys of this thread.
    pub(super) fn level_keys(
        &mut self,
        stream: &Stream<'_>,
        levels: &Levels<'_>,
        first_key: &Expr,
    ) -> Vec<(ValueId, ArrayId)> {
        let keys = stream.spread.own()[1];
        let list = self.declare_level(levels, Level::Key, keys);
        if list.is_empty() {
            return list;
        }
        self.repeat("j", keys, Unroll::Full, |em, j| {
            let mut scope = levels.block.clone();
            let inside = em.key_scope(stream, first_key, &j, &mut scope);
            scope.active = both(scope.active, Some(inside));
            em.compute_all(levels.group, &levels.of(Level::Key), &mut scope);
            em.keep_level(&list, &j, &scope);
        });
        list
    }

    /// The position of a key of this thread, and whether there is one.
    pub(super) fn key_scope(
        &mut self,
        stream: &Stream<'_>,
        first_key: &Expr,
        j: &Expr,
        scope: &mut Scope,
    ) -> Expr {
        let own = self.widen(stream.spread.key(j));
        let key = self.builder.bind("key", first_key + own);
        self.decompose(key.clone(), &stream.parts.streamed, scope);
        let rows = scope.place.clone().unwrap_or(Expr::from(0u64));
        scope.place = Some(rows * stream.keys.clone().cast(DType::U64) + key.clone().cast(DType::U64));
        self.builder.bind("is_key", key.lt(&stream.keys))
    }

    fn declare_level(&mut self, levels: &Levels<'_>, level: Level, count: u32) -> Vec<(ValueId, ArrayId)> {
        let mut list = Vec::new();
        for v in levels.kept(level) {
            let name = self.name_value(levels.group, v);
            let dtype = levels.group.value(v).dtype.compute();
            list.push((v, self.builder.array(&name, dtype, count, Some(Value::zero(dtype)))));
        }
        list
    }

    fn keep_level(&mut self, list: &[(ValueId, ArrayId)], slot: &Expr, scope: &Scope) {
        for (v, array) in list {
            let e = self.value(scope, *v);
            self.builder.set_element(*array, slot, e);
        }
    }

    /// What is known of the pair of a row and a key: given values aside. The scope knows their positions.
    pub(super) fn know_pair(
        &mut self,
        levels: &Levels<'_>,
        keys: &[(ValueId, ArrayId)],
        [i, j]: [&Expr; 2],
        scope: &mut Scope,
    ) {
        scope.values.clone_from(&levels.block.values);
        for (v, array) in &levels.rows {
            scope.values[v.index()] = Some(element(*array, i));
        }
        for (v, array) in keys {
            scope.values[v.index()] = Some(element(*array, j));
        }
    }

    /// Computes what is left for the pair where masks admit all of the tile: selections are what they select.
    pub(super) fn compute_admitted(&mut self, levels: &Levels<'_>, admitted: &Admitted, scope: &mut Scope) {
        for v in levels.of(Level::Pair) {
            let chosen = admitted.chosen[v.index()];
            if chosen != v {
                scope.values[v.index()] = scope.values[chosen.index()].clone();
            } else if admitted.needed[v.index()] {
                self.compute_all(levels.group, &[v], scope);
            }
        }
    }

    /// Whether that asks for positions: something is loaded there, or may fault.
    pub(super) fn has_places(&self, levels: &Levels<'_>, admitted: &Admitted) -> bool {
        levels.of(Level::Pair).into_iter().any(|v| {
            let computed = admitted.needed[v.index()] && admitted.chosen[v.index()] == v;
            let given = matches!(levels.group.value(v).op, BodyOp::Reduce { .. });
            let loads = matches!(levels.group.value(v).op, BodyOp::Load(_));
            computed && !given && (loads || self.is_of_pairs(levels.group, v))
        })
    }

    /// Computes what is left for the pair.
    pub(super) fn compute_pair(&mut self, levels: &Levels<'_>, scope: &mut Scope) {
        self.compute_all(levels.group, &levels.of(Level::Pair), scope);
    }
}

/// Whether a value is a position or a test of one.
fn is_position(group: &ScheduledGroup, v: ValueId) -> bool {
    match &group.value(v).op {
        BodyOp::Load(operand) => {
            matches!(&group.operands[operand.index()], Operand::Index(_) | Operand::Mask(_))
        }
        BodyOp::Map { function: MapFn::Op(_) | MapFn::Call { .. }, .. } => false,
        BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => false,
        BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => false,
    }
}
