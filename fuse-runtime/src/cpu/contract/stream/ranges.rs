//! Ranges of streamed positions: what each leaves of its rows, put together in order.
//!
//! A range has the greatest exponents of its rows and sums and products less those. The greater of two is the greatest of
//! both, and what is less the other one is scaled (Dao et al., "Flash-Decoding for long-context inference", 2023). Where the
//! ranges are cut depends on the streamed positions alone, and they are put together from the first to the last, whoever
//! computed them: so the threads change no bit.

use super::super::online::{self, Join, Rows};
use super::{Run, Thread};
use rayon::prelude::*;

/// Bytes for each thread in which ranges that run side by side may leave what they computed.
const ASIDE: usize = 512 << 10;

impl Run<'_> {
    /// Whether the ranges of a task run side by side: there are too few tasks, of few rows.
    pub(super) fn splits(&self, tasks: usize, threads: usize) -> bool {
        let bytes = tasks.saturating_mul(self.e.ranges).saturating_mul(self.layout.state);
        self.e.ranges > 1 && tasks < 2 * threads && threads > 1 && bytes <= threads * ASIDE
    }

    /// All tasks, their ranges side by side.
    pub(super) fn run_ranges(&self, tasks: usize) {
        let (ranges, len) = (self.e.ranges, self.layout.state / size_of::<f32>());
        let mut states = vec![0.0f32; tasks * ranges * len];
        states.par_chunks_mut(len).with_max_len(1).enumerate().for_each(|(k, state)| {
            self.with_thread(|thread| {
                self.run_keys(thread, self.place_of(k / ranges), k % ranges);
                // SAFETY: the state is the thread's own, and as long.
                state.copy_from_slice(unsafe { thread.row_array(self.layout.sum, len) });
            });
        });
        states.par_chunks(ranges * len).with_max_len(1).enumerate().for_each(|(task, states)| {
            self.with_thread(|thread| {
                let task = self.place_of(task);
                for (range, state) in states.chunks(len).enumerate() {
                    if range > 0 {
                        self.put_aside(thread);
                    }
                    // SAFETY: as above.
                    unsafe { thread.row_array(self.layout.sum, len) }.copy_from_slice(state);
                    if range > 0 {
                        self.add_earlier(thread, task.rows);
                    }
                }
                self.finish_task(thread, task);
            });
        });
    }

    /// Keeps what the ranges so far left of their rows.
    pub(super) fn put_aside(&self, thread: &mut Thread<'_>) {
        let layout = &self.layout;
        // SAFETY: both lie in the scratch and are apart, as there are several ranges.
        unsafe {
            let (from, to) = (thread.at::<u8>(layout.sum), thread.at::<u8>(layout.earlier));
            std::ptr::copy_nonoverlapping(from, to, layout.state);
        }
    }

    /// Adds what was put aside to what the last range left.
    pub(super) fn add_earlier(&self, thread: &mut Thread<'_>, rows: usize) {
        let (layout, parts) = (&self.layout, &self.exec.parts);
        let earlier = |at: usize| layout.earlier + (at - layout.sum);
        // SAFETY: the arrays are the thread's own, have that many rows, and differ from one another.
        unsafe {
            let of = |at: usize| thread.row_array(at, rows);
            let (factors, of_earlier) = (of(layout.factors), of(layout.of_tile));
            let greatest = of(layout.greatest);
            online::join_greatest(self.exec.set, of(earlier(layout.greatest)), greatest, of_earlier, factors);
            for at in &layout.maxima {
                for (m, before) in of(*at).iter_mut().zip(&*of(earlier(*at))) {
                    *m = crate::math::maximum(*before, *m);
                }
            }
            for (sum, at) in parts.sums.iter().zip(&layout.sums) {
                let (before, now) = (of(earlier(*at)), of(*at));
                for (k, (x, before)) in now.iter_mut().zip(&*before).enumerate() {
                    *x = if sum.scaled { before * of_earlier[k] + *x * factors[k] } else { before + *x };
                }
            }
            if !parts.left.1 {
                of_earlier.fill(1.0);
                factors.fill(1.0);
            }
            let columns = self.e.columns;
            let products = |at: usize| Rows { data: thread.at(at), stride: columns, rows, len: columns };
            let (before, now) = (products(layout.earlier), products(layout.sum));
            online::join_rows(self.exec.set, Join { before, now, of_before: of_earlier, of_now: factors });
        }
    }
}
