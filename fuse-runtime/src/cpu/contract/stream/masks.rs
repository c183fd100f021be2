//! Which tiles masks exclude or admit as a whole.

use super::super::super::geometry::Block;
use super::super::known::{Known, find_known};
use super::super::online::{self, Rows};
use super::{Place, Run, Thread};
use fuse_ir::dtype::Value;
use fuse_ir::graph::MapFn;
use fuse_ir::id::ValueId;
use fuse_ir::schedule::streamed::Source;
use fuse_ir::schedule::{BodyOp, LANES};
use std::sync::atomic::Ordering;

/// What masks say of a tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    /// It is excluded as a whole: all its weights are 0 and its scores change no greatest value. Then it adds nothing, unless
    /// a value is infinite or NaN, of which the product with 0 is NaN.
    Nothing,
    /// Neither is known.
    Some,
    /// It is admitted as a whole.
    All,
}

/// Whether the values of a block are finite, as far as someone has looked.
pub(super) const UNKNOWN: u8 = 0;
const FINITE: u8 = 1;
const NOT_FINITE: u8 = 2;

impl Run<'_> {
    /// What masks say of a tile as a whole.
    pub(super) fn find_seen(&self, place: Place) -> Seen {
        let parts = &self.exec.parts;
        let Some(scores) = self.scores.as_ref().filter(|_| self.exec.may_exclude) else { return Seen::Some };
        let block = Block { c: place.c, a: place.row(), a_len: place.rows, b: place.key, b_len: place.keys };
        let known = find_known(scores, &block, &[]);
        // A fault of an element is reported, whether or not it is seen.
        let faults = self.exec.scores.stages.iter().flat_map(|s| &s.faults);
        let is_safe = |v: &ValueId| match &self.exec.scores.group.value(*v).op {
            BodyOp::Map { function: MapFn::Op(_), args } => {
                args.get(1).is_some_and(|d| known[d.index()].is_nonzero_integer())
            }
            _ => false,
        };
        if !faults.into_iter().all(is_safe) {
            return Seen::Some;
        }
        let decided = |(c, wanted): &(ValueId, bool)| known[c.index()].is_truth(*wanted);
        if parts.admitted.as_ref().is_some_and(|a| a.when.iter().all(decided)) {
            return Seen::All;
        }
        let tile = |k: usize| known[parts.tiles[k].index()];
        let lowest = |k: usize| tile(k).is(f64::NEG_INFINITY);
        if !parts.exponent.is_none_or(lowest) || !parts.maxima.iter().all(|m| lowest(m.tile)) {
            return Seen::Some;
        }
        let mut of_weights = Vec::new();
        if let (Some(launch), Some(weights)) = (&self.weights, &parts.weights) {
            let zero = Known::Exactly(Value::F32(0.0));
            let mut given: Vec<(ValueId, Known)> = weights.exponential.iter().map(|v| (*v, zero)).collect();
            given.extend(weights.tiles.iter().map(|(v, k)| (*v, tile(*k))));
            of_weights = find_known(launch, &block, &given);
        }
        let nothing = |source: &Source| match source {
            Source::Exponential => true,
            Source::Tile(k) => tile(*k).is(0.0),
            Source::Weight(v) => of_weights.get(v.index()).is_some_and(|known| known.is(0.0)),
        };
        let excluded = nothing(&parts.left.0) && parts.sums.iter().all(|s| nothing(&s.source));
        if excluded { Seen::Nothing } else { Seen::Some }
    }

    /// How many of the streamed positions of a block some rows have to go through: the last ones may be excluded.
    pub(super) fn find_seen_keys(&self, thread: &mut Thread<'_>, place: Place) -> usize {
        let mut keys = place.keys;
        while keys > 0 {
            let first = (keys - 1) / LANES * LANES;
            let part = Place { key: place.key + first, keys: keys - first, ..place };
            if self.find_seen(part) != Seen::Nothing {
                break;
            }
            keys = first;
        }
        if keys == place.keys || self.has_finite_values(thread, place) { keys } else { place.keys }
    }

    /// Whether the values at the streamed positions of a block are finite. Who asks first looks.
    pub(super) fn has_finite_values(&self, thread: &mut Thread<'_>, place: Place) -> bool {
        let e = &self.e;
        if self.values.is_none() {
            return true;
        }
        let known = &self.finite[place.c * e.keys.div_ceil(e.tile_keys) + place.key / e.tile_keys];
        match known.load(Ordering::Relaxed) {
            FINITE => return true,
            NOT_FINITE => return false,
            _ => {}
        }
        let operand =
            self.panel(thread, self.index_of_values(), place.c, (0, e.columns), (place.key, place.of_block));
        let (side, depth) = (operand.side.unsigned_abs(), operand.depth.unsigned_abs());
        let (stride, rows, len, step) = if depth < side {
            (side, e.columns, place.of_block, depth)
        } else {
            (depth, place.of_block, e.columns, side)
        };
        // What lies further apart is taken as it comes.
        let finite = step <= 1 && {
            let len = if step == 0 { 1 } else { len };
            let tile = Rows { data: operand.data.cast_mut().cast(), stride, rows, len };
            // SAFETY: the operand has that many f32 elements, which nobody writes.
            unsafe { online::is_finite(self.exec.set, tile) }
        };
        known.store(if finite { FINITE } else { NOT_FINITE }, Ordering::Relaxed);
        finite
    }
}
