//! Reductions as a schedule runs them: element by element into the lanes of a chunk, chunks into a binary counter.

use crate::dtype::{DType, Value};
use crate::eval::Precision;
use crate::eval::reduce::Combiner;
use crate::graph::Reducer;
use crate::scalar::ScalarFn;
use crate::schedule::{CHUNK, LANES};

/// A reduction in progress.
pub(super) struct Accumulator<'a> {
    combiner: Combiner<'a>,
    lanes: Vec<Vec<Value>>,
    /// Elements of the present chunk.
    filled: usize,
    /// Partial results of chunks: entry `k` holds 2^k of them, or none.
    counter: Vec<Option<Vec<Value>>>,
}

impl<'a> Accumulator<'a> {
    /// One that has seen nothing.
    pub(super) fn new(reducer: &'a Reducer, sources: &[DType], functions: &'a [ScalarFn]) -> Self {
        let combiner = Combiner::new(reducer, sources, functions, Precision::Exact);
        let ordered = matches!(reducer, Reducer::User { ordered: true, .. });
        let lanes = vec![combiner.identity().to_vec(); if ordered { 1 } else { LANES }];
        Accumulator { combiner, lanes, filled: 0, counter: Vec::new() }
    }

    /// Takes the element at `position` of the row. Positions come in order.
    pub(super) fn push(&mut self, element: &mut Vec<Value>, position: usize) {
        let lane = self.filled % self.lanes.len();
        self.combiner.lift(element, position);
        self.combiner.combine(&mut self.lanes[lane], element);
        self.filled += 1;
        if self.filled == CHUNK {
            let partial = self.close_chunk();
            self.count(partial);
        }
    }

    /// The result of the chunk so far; the lanes start anew.
    fn close_chunk(&mut self) -> Vec<Value> {
        self.filled = 0;
        let identity = self.combiner.identity().to_vec();
        let lanes = self.lanes.len();
        let mut row = std::mem::replace(&mut self.lanes, vec![identity.clone(); lanes]);
        while row.len() > 1 {
            let upper = row.split_off(row.len() / 2);
            for (left, right) in row.iter_mut().zip(&upper) {
                self.combiner.combine(left, right);
            }
        }
        row.pop().unwrap_or(identity)
    }

    /// Takes the result of the next chunk.
    pub(super) fn count(&mut self, mut partial: Vec<Value>) {
        for slot in &mut self.counter {
            match slot.take() {
                Some(mut left) => {
                    self.combiner.combine(&mut left, &partial);
                    partial = left;
                }
                None => {
                    *slot = Some(partial);
                    return;
                }
            }
        }
        self.counter.push(Some(partial));
    }

    /// The reduction of all that came.
    pub(super) fn finish(self) -> (Vec<Value>, Combiner<'a>) {
        let (total, combiner) = self.into_partial();
        (combiner.finish(&total), combiner)
    }

    /// What all that came amounts to before it is finished, for a later fold.
    pub(super) fn into_partial(mut self) -> (Vec<Value>, Combiner<'a>) {
        if self.filled > 0 {
            let partial = self.close_chunk();
            self.count(partial);
        }
        // The least entry holds the latest chunks, so each further one stands to its left.
        let mut total: Option<Vec<Value>> = None;
        for mut left in std::mem::take(&mut self.counter).into_iter().flatten() {
            if let Some(right) = total {
                self.combiner.combine(&mut left, &right);
            }
            total = Some(left);
        }
        (total.unwrap_or_else(|| self.combiner.identity().to_vec()), self.combiner)
    }
}
