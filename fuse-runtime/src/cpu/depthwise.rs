//! Depthwise convolutions: sums over taps of neighbouring positions stay in registers, each with its epilogue while they are
//! in the cache.
//!
//! A tile is some positions along the last but one outer axis, its rows, by some along the last one, its lanes, which lie in
//! vectors. Where lanes are neighbours in memory and windows do not slide along them (channels last) elements are read where
//! they lie, and positions at which windows reach over the edge read zeros instead, tap by tap; those between the edges share
//! one list of taps. Else the part of the source that a tile needs is copied into a [`boxed`] one first, padding included.
//! What neither serves is summed element by element.
//!
//! ```text
//! rows      q q q q q q ...      six rows and two vectors of lanes at once: a tap is read once for six rows,
//! lanes     c c c c c c c c      and each sum is a chain of multiply-adds in the order of the taps
//! ```
//!
//! A sum does not depend on how its tile is cut: results depend neither on the threads nor on the other extents.

mod boxed;
mod lanes;
mod windows;

use super::bindings::{Bindings, CpuFault};
use super::geometry::Block;
use super::instruction_set::InstructionSet;
use super::launch::{Launch, LaunchBuffers, Steps};
use super::parallel::{WORTH_WAKING, run_uniform};
use super::prepare::{GroupExec, PrepareError};
use super::scratch::Scratch;
use super::tile::GroupFns;
use super::worker::Worker;
use boxed::Boxed;
use fuse_ir::graph::Kernel;
use fuse_ir::id::{AxisId, ValueId};
use fuse_ir::schedule::depthwise::{DepthwiseParts, cut_depthwise};
use fuse_ir::schedule::{Operand, ScheduledGroup};
use lanes::{Lanes, Tap};
use rayon::prelude::*;
use std::ops::Range;
use windows::Windows;

/// Elements of a tile: it stays in the first cache with what the epilogue reads.
const TILE: usize = 4096;
/// Lanes of a tile if there are more: rows are long enough for the loops of the epilogue.
const LEAST_LANES: usize = 64;
/// Multiply-adds in a nanosecond on one thread, to decide whether to wake others.
const RATE: usize = 8;

/// A depthwise convolution, ready to run.
#[derive(Debug)]
pub(crate) struct DepthwiseExec {
    /// The whole group, to prepare it again for another instruction set.
    pub(crate) group: ScheduledGroup,
    pub(crate) functions: GroupFns,
    source: Operand,
    filter: Operand,
    epilogue: GroupExec,
    /// The sum in the epilogue.
    value: Option<ValueId>,
    set: InstructionSet,
}

impl DepthwiseExec {
    /// Prepares a depthwise convolution; `None` if the group is none. The functions are those of the epilogue.
    pub(crate) fn new(
        kernel: &Kernel,
        group: &ScheduledGroup,
        fns: &GroupFns,
        set: InstructionSet,
    ) -> Option<Result<DepthwiseExec, PrepareError>> {
        let DepthwiseParts { source, filter, epilogue, value } = cut_depthwise(group)?;
        let exec = GroupExec::new(kernel, &epilogue, fns, set);
        let (group, functions) = (group.clone(), *fns);
        Some(exec.map(|epilogue| DepthwiseExec { group, functions, source, filter, epilogue, value, set }))
    }

    /// The outer axes: those of neither side, rows and lanes.
    fn sides(&self) -> [&[AxisId]; 3] {
        let outer = self.group.outer.as_slice();
        let (rest, lanes) = outer.split_at(outer.len().saturating_sub(1));
        let (rest, rows) = rest.split_at(rest.len().saturating_sub(1));
        [rest, rows, lanes]
    }
}

/// How the sums of a launch are computed.
#[derive(Debug)]
enum Way {
    /// The source is read where it lies.
    Direct,
    /// It is copied first.
    Boxed(Boxed),
    /// Element by element.
    Single,
}

/// One launch.
struct Run<'a> {
    exec: &'a DepthwiseExec,
    windows: Windows,
    way: Way,
    epilogue: Launch<'a>,
    /// Rows and lanes of a tile.
    tile: (usize, usize),
}

/// What a thread works with.
struct Thread<'r> {
    epilogue: Worker<'r>,
    memory: *mut u8,
    /// Where in it the sums of a tile lie, zeros for a row of it, its taps of the filter, and the box.
    sums: usize,
    zeros: usize,
    filter: usize,
    boxed: usize,
    taps: Vec<Tap>,
    cuts: Vec<usize>,
    starts: Vec<i64>,
}

/// Runs a depthwise convolution; returns its first fault.
pub(crate) fn run_depthwise(exec: &DepthwiseExec, bindings: &Bindings<'_>) -> Option<CpuFault> {
    let sides = exec.sides();
    let windows = Windows::new(&exec.group, (&exec.source, &exec.filter), sides, bindings)?;
    let [rest, rows, lanes] = [windows.rest(), windows.rows, windows.lanes];
    if rest == 0 || rows == 0 || lanes == 0 {
        return None;
    }
    let mut tile = choose_tile(&windows);
    let way = if windows.is_direct() {
        Way::Direct
    } else {
        let boxed = Boxed::find(&windows, &mut tile);
        boxed.map_or(Way::Single, Way::Boxed)
    };
    let mut buffers = Box::<LaunchBuffers>::default();
    let steps = Steps { outer: 1, rows: 1, a: tile.0, b: tile.1 };
    let mut epilogue = Launch::with_sides(&exec.epilogue, bindings, &mut buffers, sides, steps)?;
    run_uniform(&mut epilogue);
    let run = Run { exec, windows, way, epilogue, tile };
    run.run_tasks();
    let first = run.epilogue.fault.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    first.map(|(_, fault)| fault)
}

/// Rows and lanes of a tile: few enough that every thread has some.
fn choose_tile(windows: &Windows) -> (usize, usize) {
    let (rest, rows, lanes) = (windows.rest(), windows.rows, windows.lanes);
    let mut wide = (TILE / rows).max(LEAST_LANES).next_multiple_of(LEAST_LANES).min(lanes).min(TILE);
    let mut high = (TILE / wide).clamp(1, rows);
    let wanted = if windows.work() / RATE < WORTH_WAKING { 1 } else { 4 * rayon::current_num_threads() };
    while rest * rows.div_ceil(high) * lanes.div_ceil(wide) < wanted {
        if wide >= 2 * LEAST_LANES {
            wide = (wide / 2).next_multiple_of(LEAST_LANES);
        } else if high > 8 {
            high = high.div_ceil(2);
        } else {
            break;
        }
    }
    (high, wide)
}

impl Run<'_> {
    fn run_tasks(&self) {
        let w = &self.windows;
        let tasks = w.rest() * w.rows.div_ceil(self.tile.0) * w.lanes.div_ceil(self.tile.1);
        let threads = if w.work() / RATE < WORTH_WAKING { 1 } else { rayon::current_num_threads() };
        if threads < 2 || tasks < 2 {
            return self.run_range(0..tasks);
        }
        let parts = tasks.min(threads * 8);
        (0..parts).into_par_iter().with_max_len(1).for_each(|part| {
            self.run_range(tasks * part / parts..tasks * (part + 1) / parts);
        });
    }

    /// Tiles one after the other: those of the same lanes follow one another, since their windows overlap.
    fn run_range(&self, tasks: Range<usize>) {
        let mut scratch = Scratch::take();
        let mut bytes = 0;
        let mut take = |elements: usize| {
            let at = bytes;
            bytes += (4 * elements).next_multiple_of(64);
            at
        };
        let (w, (high, wide)) = (&self.windows, self.tile);
        let packed = if w.filter_is_packed() { w.taps() * wide } else { 0 };
        let boxed = if let Way::Boxed(boxed) = &self.way { boxed.len() } else { 0 };
        let places = [take(high * wide), take(wide), take(packed), take(boxed)];
        let memory = scratch.reserve(bytes);
        let [sums, zeros, filter, boxed] = places;
        // SAFETY: the zeros lie in the scratch.
        unsafe { std::ptr::write_bytes(memory.add(zeros), 0, 4 * wide) };
        let mut thread = Thread {
            epilogue: Worker::new(&self.epilogue, false),
            memory,
            sums,
            zeros,
            filter,
            boxed,
            taps: Vec::with_capacity(w.taps()),
            cuts: Vec::new(),
            starts: Vec::new(),
        };
        let down = w.rows.div_ceil(high);
        for task in tasks {
            let (b, rest) = (task / (w.rest() * down) * wide, task % (w.rest() * down));
            let (c, a) = (rest / down, rest % down * high);
            let tile = Block { c, a, a_len: high.min(w.rows - a), b, b_len: wide.min(w.lanes - b) };
            self.sum_tile(&mut thread, &tile);
            if let Some(value) = self.exec.value {
                // SAFETY: the sums lie in the scratch.
                let data = unsafe { thread.memory.add(thread.sums) };
                thread.epilogue.give_tile(value, data, tile.b_len);
            }
            thread.epilogue.run_sweeps(&tile);
        }
        thread.epilogue.finish();
        scratch.keep();
    }

    fn sum_tile(&self, thread: &mut Thread<'_>, tile: &Block) {
        // SAFETY: the scratch was laid out for tiles of this size; the bindings vouch for every element that the plan reads.
        unsafe {
            let sums = thread.memory.add(thread.sums).cast::<f32>();
            match &self.way {
                Way::Direct => self.sum_direct(thread, tile, sums),
                Way::Boxed(boxed) => {
                    let memory = thread.memory.add(thread.boxed).cast::<f32>();
                    boxed.fill(&self.windows, tile, memory);
                    let (start, step) = self.filter(thread, tile);
                    thread.taps.clear();
                    thread.taps.extend((0..self.windows.taps()).map(|t| Tap {
                        source: memory.add(boxed.places[t]),
                        step: boxed.step,
                        filter: start.offset(step.of(&self.windows, t)),
                    }));
                    self.sum_rows(thread, tile, (0, tile.a_len), sums);
                }
                Way::Single => self.windows.sum_single(tile, sums),
            }
        }
    }

    /// Rows with one list of taps.
    ///
    /// # Safety
    /// The taps are readable for that many rows and lanes; the sums are those of the tile.
    unsafe fn sum_rows(
        &self,
        thread: &Thread<'_>,
        tile: &Block,
        (first, end): (usize, usize),
        sums: *mut f32,
    ) {
        // SAFETY: by the contract.
        unsafe {
            let lanes = Lanes {
                taps: &thread.taps,
                shared: self.windows.filter.lane == 0,
                rows: end - first,
                lanes: tile.b_len,
                sums: sums.add(first * tile.b_len),
            };
            lanes::sum(self.exec.set, &lanes);
        }
    }

    /// # Safety
    /// As of [`Self::sum_tile`].
    unsafe fn sum_direct(&self, thread: &mut Thread<'_>, tile: &Block, sums: *mut f32) {
        let w = &self.windows;
        // A filter of its own for each row is read row by row.
        let at_once = if w.filter.row == 0 { tile.a_len } else { 1 };
        // SAFETY: by the contract.
        unsafe {
            let zeros = thread.memory.add(thread.zeros).cast::<f32>().cast_const();
            for row in (0..tile.a_len).step_by(at_once) {
                let part = Block { a: tile.a + row, a_len: at_once, ..*tile };
                let (filter, step) = self.filter(thread, &part);
                // Where there is no element under a tap the address is not one either.
                let source = w.source_data.wrapping_offset(w.source.at(&w.rest_extents, &part) as isize);
                let mut cuts = std::mem::take(&mut thread.cuts);
                w.find_starts(&part, &mut thread.starts);
                w.find_cuts(&thread.starts, part.a_len, &mut cuts);
                for pair in cuts.windows(2) {
                    let (first, end) = (pair[0], pair[1]);
                    let start = source.wrapping_offset(first as isize * w.source.row as isize);
                    thread.taps.clear();
                    thread.taps.extend((0..w.taps()).map(|t| {
                        let inside = w.is_inside(&thread.starts, first, t);
                        let filter = filter.offset(step.of(w, t));
                        match inside {
                            true => Tap {
                                source: start.wrapping_offset(w.source.taps[t] as isize),
                                step: w.source.row as isize,
                                filter,
                            },
                            false => Tap { source: zeros, step: 0, filter },
                        }
                    }));
                    self.sum_rows(thread, tile, (row + first, row + end), sums);
                }
                thread.cuts = cuts;
            }
        }
    }

    /// Where the taps of a tile lie: in memory, or packed so that lanes are neighbours.
    ///
    /// # Safety
    /// As of [`Self::sum_tile`].
    unsafe fn filter(&self, thread: &Thread<'_>, tile: &Block) -> (*const f32, FilterStep) {
        let w = &self.windows;
        // SAFETY: by the contract; the packed taps lie in the scratch.
        unsafe {
            let from = w.filter_data.offset(w.filter.at(&w.rest_extents, tile) as isize);
            if !w.filter_is_packed() {
                return (from, FilterStep::Memory);
            }
            let to = thread.memory.add(thread.filter).cast::<f32>();
            for (t, &at) in w.filter.taps.iter().enumerate() {
                for j in 0..tile.b_len {
                    let x = *from.offset((at + j as i64 * w.filter.lane) as isize);
                    *to.add(t * tile.b_len + j) = x;
                }
            }
            (to.cast_const(), FilterStep::Packed(tile.b_len))
        }
    }
}

/// Where the taps of a filter lie from its first on.
#[derive(Clone, Copy)]
enum FilterStep {
    Memory,
    /// That many lanes apart.
    Packed(usize),
}

impl FilterStep {
    fn of(self, windows: &Windows, tap: usize) -> isize {
        match self {
            FilterStep::Memory => windows.filter.taps[tap] as isize,
            FilterStep::Packed(lanes) => (tap * lanes) as isize,
        }
    }
}
