//! `cp.async`: copies in the background, in flight from the statement until the lane has waited for their group.

use super::code::{AccessCode, Src};
use super::counters::count_global;
use super::fault::FaultKind;
use super::machine::{Machine, each};
use super::memory::GlobalMemory;
use super::needs::Needs;
use super::shadow::AccessKind;
use crate::dtype::Value;
use crate::id::ArgId;
use crate::kernel_ir::WARP;
use std::collections::VecDeque;

/// Bytes of the widest access.
pub(super) const WIDEST: u64 = 16;

/// A copy in flight.
#[derive(Clone, Copy, Debug)]
struct Flight {
    to: u64,
    bytes: usize,
    data: [u8; WIDEST as usize],
    /// Buffer, byte and length of what is read.
    from: Option<(usize, u64, u64)>,
    /// The lane's group, counted from 0.
    group: u32,
    stmt: u32,
}

/// The copies of a block.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// For each cell of shared memory the thread that is copying to it, counted from 1; 0 if nobody is.
    targets: Vec<u32>,
    /// For each allocation that is copied from and written, how many copies read each cell, and the cell's size.
    sources: Vec<Option<(Vec<u32>, u64)>>,
    /// For each thread its copies, the oldest first.
    flights: Vec<VecDeque<Flight>>,
    /// For each thread the groups that it closed.
    closed: Vec<u32>,
}

impl Copies {
    pub(super) fn new(needs: &Needs, shared_bytes: usize, threads: usize, memory: &GlobalMemory) -> Self {
        if !needs.copies {
            return Copies::default();
        }
        let source = |(k, buffer): (usize, &super::memory::Buffer)| {
            let needs = &needs.buffers[k];
            let cells = buffer.bytes.len() / needs.cell as usize + 1;
            needs.watches_copies().then(|| (vec![0; cells], needs.cell))
        };
        Copies {
            targets: vec![0; (shared_bytes >> needs.shared_cell.trailing_zeros()) + 1],
            sources: memory.buffers.iter().enumerate().map(source).collect(),
            flights: vec![VecDeque::new(); threads],
            closed: vec![0; threads],
        }
    }

    /// A thread that is copying to one of these cells.
    pub(super) fn in_flight(&self, cells: std::ops::Range<usize>) -> Option<u32> {
        let targets = self.targets.get(cells)?;
        targets.iter().find(|t| **t != 0).map(|t| t - 1)
    }

    /// Whether one of these cells is being copied from.
    pub(super) fn reads(&self, buffer: usize, cells: std::ops::Range<usize>) -> bool {
        let source = self.sources.get(buffer).and_then(Option::as_ref);
        source.is_some_and(|(counts, _)| counts.get(cells).is_some_and(|c| c.iter().any(|n| *n > 0)))
    }

    pub(super) fn commit(&mut self, warp: usize, mask: u32) {
        let first = warp * WARP as usize;
        each(mask, |l| {
            if let Some(closed) = self.closed.get_mut(first + l) {
                *closed += 1;
            }
        });
    }

    fn start(&mut self, thread: usize, cells: std::ops::Range<usize>, flight: Flight) {
        self.targets[cells].fill(thread as u32 + 1);
        self.mark_source(&flight, true);
        self.flights[thread].push_back(Flight { group: self.closed[thread], ..flight });
    }

    fn mark_source(&mut self, flight: &Flight, begins: bool) {
        let Some((buffer, at, len)) = flight.from else { return };
        let Some(Some((counts, cell))) = self.sources.get_mut(buffer) else { return };
        for count in &mut counts[(at / *cell) as usize..((at + len - 1) / *cell) as usize + 1] {
            *count = if begins { *count + 1 } else { count.saturating_sub(1) };
        }
    }
}

impl Machine<'_> {
    pub(super) fn copy_async(
        &mut self,
        stmt: u32,
        warp: usize,
        mask: u32,
        [to, from]: [&AccessCode; 2],
        pointer: ArgId,
        valid: Option<Src>,
    ) {
        self.counters.async_copies += 1;
        let bytes = to.width();
        let mut lengths = [bytes; 32];
        if let Some(valid) = valid {
            let values = *self.lanes(warp, valid);
            let mut too_long = None;
            each(mask, |l| {
                if let Value::U32(n) = values[l] {
                    lengths[l] = bytes.min(n.into());
                    if u64::from(n) > bytes {
                        too_long = too_long.or(Some((l as u32, n)));
                    }
                }
            });
            if let Some((lane, valid)) = too_long {
                self.fault(stmt, warp, lane, FaultKind::CopyTooLong { valid });
            }
        }
        let (found, target) = self.locate(stmt, warp, mask, to, bytes);
        if found != 0 {
            self.count_shared_store(found, &target, bytes);
        }
        let mut reading = 0;
        each(found, |l| reading |= u32::from(lengths[l] > 0) << l);
        let (read, source) = self.locate_source(stmt, warp, reading, from, &lengths);
        if read != 0 {
            self.counters.global_loads += count_global(read, &source, bytes);
        }
        let Some(pointer) = self.pointers[pointer.index()] else { return };
        each(found, |l| {
            let mut flight = Flight {
                to: target[l],
                bytes: bytes as usize,
                data: [0; WIDEST as usize],
                from: None,
                group: 0,
                stmt,
            };
            if read >> l & 1 == 1 {
                let (at, len) = (source[l] - pointer.bounds.0, lengths[l]);
                let one = 1 << l;
                self.watch(stmt, warp, one, (AccessKind::Read, from.memory), &source, len);
                let from = &self.memory.buffers[pointer.buffer].bytes[at as usize..(at + len) as usize];
                flight.data[..len as usize].copy_from_slice(from);
                flight.from = Some((pointer.buffer, at, len));
            }
            let one = 1 << l;
            self.watch(stmt, warp, one, (AccessKind::Write, to.memory), &target, bytes);
            let cells = self.shared_shadow.cells(target[l] as usize, bytes);
            self.copies.start(warp * WARP as usize + l, cells, flight);
        });
    }

    /// The addresses from which lanes copy: aligned to the whole copy, within bounds as far as bytes are valid.
    fn locate_source(
        &mut self,
        stmt: u32,
        warp: usize,
        mask: u32,
        from: &AccessCode,
        lengths: &[u64; 32],
    ) -> (u32, super::access::Addresses) {
        let mut at = [0; 32];
        let mut found = 0;
        let whole = from.width();
        let same = |length: u64| {
            let mut lanes = 0;
            each(mask, |l| lanes |= u32::from(lengths[l] == length) << l);
            lanes
        };
        for length in 1..=whole {
            let lanes = same(length);
            if lanes == 0 {
                continue;
            }
            let (inside, addresses) = self.locate_part(stmt, warp, lanes, from, (whole, length));
            each(lanes, |l| at[l] = addresses[l]);
            found |= inside;
        }
        (found, at)
    }

    pub(super) fn wait_async(&mut self, warp: usize, mask: u32, pending: u32) {
        each(mask, |l| {
            let thread = warp * WARP as usize + l;
            let Some(closed) = self.copies.closed.get(thread) else { return };
            let finished = closed.saturating_sub(pending);
            while let Some(flight) = self.copies.flights[thread].front().copied() {
                if flight.group >= finished {
                    break;
                }
                self.copies.flights[thread].pop_front();
                self.finish(thread, &flight);
            }
        });
    }

    fn finish(&mut self, thread: usize, flight: &Flight) {
        let cells = self.shared_shadow.cells(flight.to as usize, flight.bytes as u64);
        self.copies.targets[cells].fill(0);
        self.copies.mark_source(flight, false);
        self.finish_write(flight.stmt, thread as u32, flight.to, &flight.data[..flight.bytes]);
        let Some((buffer, at, len)) = flight.from else { return };
        let by = self.who(flight.stmt, thread / WARP as usize, thread as u32 % WARP);
        if let Some(shadow) = &mut self.shadows[buffer] {
            // The source may have been read as late as now.
            let cells = shadow.cells(at as usize, len);
            let _ = shadow.access(AccessKind::Read, cells, by);
        }
    }

    /// Ends a block: copies in flight are faults.
    pub(super) fn end_block(&mut self) {
        for thread in 0..self.copies.flights.len() {
            while let Some(flight) = self.copies.flights[thread].pop_front() {
                let (warp, lane) = (thread / WARP as usize, thread as u32 % WARP);
                self.fault(flight.stmt, warp, lane, FaultKind::Unfinished);
                let cells = self.shared_shadow.cells(flight.to as usize, flight.bytes as u64);
                self.copies.targets[cells].fill(0);
                self.copies.mark_source(&flight, false);
            }
        }
        self.copies.closed.fill(0);
    }
}
