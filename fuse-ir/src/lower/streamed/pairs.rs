//! What is computed for each row and key of a thread.
//!
//! A short program stands in the text once for each pair, so that all of them are in registers. Of a long one that would take
//! NVRTC longer than the rest of the kernel: it goes in turns over some keys at a time. As registers cannot be indexed at run
//! time, a turn computes the first slots of its arrays, and the arrays then move on by as many:
//!
//! ```text
//! turn 0: slots a b c d  ->  a' b  c  d   -> b  c  d  a'
//! turn 1: slots b c d a' ->  b' c  d  a'  -> c  d  a' b'
//! ```

use super::super::body::{Emitter, Scope};
use super::levels::{Level, Levels};
use super::{Spread, Stream};
use crate::id::{ArrayId, ValueId};
use crate::kernel_ir::build::{Builder, element};
use crate::kernel_ir::{Expr, Unroll};
use crate::plan::cost::value_weight;
use crate::schedule::streamed::Admitted;

/// A program of this weight or more goes in turns: above a function such as `tanh`, or a division of integers.
const HEAVY: u64 = 20;

/// A pair of a thread.
pub(super) struct Pair {
    /// The number of the row.
    pub(super) i: Expr,
    /// The number of the key, by which arrays are indexed.
    pub(super) j: Expr,
    /// Whether there is such a row, and such a key, where that is asked.
    pub(super) places: Option<(Expr, Expr)>,
}

/// What is gone through.
pub(super) struct Pairs<'p> {
    /// The first key of the tile.
    pub(super) first_key: &'p Expr,
    /// What is known of all rows, and whether positions are asked for.
    pub(super) of_row: &'p Scope,
    pub(super) has_places: bool,
    /// Whether it goes in turns.
    pub(super) rolled: bool,
    /// The arrays with a slot for each pair, and those with one for each key.
    pub(super) passing: Vec<ArrayId>,
    pub(super) of_keys: &'p [(ValueId, ArrayId)],
}

/// Keys of a turn: what follows them lies at the next slots.
fn keys_of_turn(spread: Spread) -> u32 {
    match spread {
        Spread::Scalar { .. } => 1,
        Spread::Matrix { .. } => 4,
    }
}

/// Moves the elements of an array by as many to its start, those in front to its end.
fn move_on(b: &mut Builder, array: ArrayId, by: u32) {
    let (dtype, len) = (b.kernel().array(array).dtype, b.kernel().array(array).len);
    let front = b.array("front", dtype, by, None);
    b.unrolled("slot", by, |b, slot| b.set_element(front, &slot, element(array, &slot)));
    b.unrolled("slot", len - by, |b, slot| b.set_element(array, &slot, element(array, &slot + by)));
    b.unrolled("slot", by, |b, slot| b.set_element(array, &slot + (len - by), element(front, &slot)));
}

impl Emitter<'_> {
    /// Whether what is computed for a pair is long.
    pub(super) fn is_heavy(&self, levels: &Levels<'_>, admitted: Option<&Admitted>) -> bool {
        let computed = |v: usize| admitted.is_none_or(|a| a.needed[v] && a.chosen[v].index() == v);
        let values = levels.group.values.iter().enumerate();
        let of_pairs =
            values.filter(|(k, _)| levels.level(ValueId::from_index(*k)) == Level::Pair && computed(*k));
        of_pairs.map(|(_, value)| value_weight(&self.program.kernel, value)).sum::<u64>() >= HEAVY
    }

    /// Goes through the pairs of a thread; of each row the keys in their order.
    pub(super) fn for_each_pair(
        &mut self,
        stream: &Stream<'_>,
        pairs: &Pairs<'_>,
        mut body: impl FnMut(&mut Self, Pair, Scope),
    ) {
        let spread = stream.spread;
        let [rows, keys, _] = spread.own();
        let turn_keys = if pairs.rolled { keys_of_turn(spread) } else { keys };
        let unroll = if pairs.rolled { Unroll::None } else { Unroll::Full };
        self.repeat("turn", keys / turn_keys, unroll, |em, turn| {
            em.repeat("i", rows, Unroll::Full, |em, i| {
                let mut of_row = pairs.of_row.clone();
                let is_row = pairs.has_places.then(|| em.row_scope(stream, &i, &mut of_row));
                em.repeat("j", turn_keys, Unroll::Full, |em, j| {
                    let mut scope = of_row.clone();
                    let key = if pairs.rolled { &turn * turn_keys + &j } else { j.clone() };
                    let places = is_row.as_ref().map(|is_row| {
                        let is_key = em.key_scope(stream, pairs.first_key, &key, &mut scope);
                        (is_row.clone(), is_key)
                    });
                    body(em, Pair { i: i.clone(), j, places }, scope);
                });
            });
            if pairs.rolled {
                let mut arrays = pairs.passing.clone();
                arrays.sort_unstable();
                arrays.dedup();
                arrays.into_iter().for_each(|array| move_on(&mut em.builder, array, rows * turn_keys));
                for (_, array) in pairs.of_keys {
                    move_on(&mut em.builder, *array, turn_keys);
                }
            }
        });
    }
}
