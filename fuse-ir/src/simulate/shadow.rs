//! Who touched what: the shadow of a memory, from which races follow whatever the order in which lanes ran.
//!
//! A cell stands for a few bytes that accesses of the launch touch together or not at all. It keeps the last write and a
//! summary of the reads, and of the atomics, since the last barrier: enough to find every conflict.
//!
//! - *Writes.* If a write was ordered before a later one, whoever conflicts with the first and comes after both conflicts
//!   with the second too: both were made by one warp in one block epoch, or by one lane.
//! - *Reads* (and atomics) of one block epoch: as long as one warp made them, those of its latest warp epoch, as one lane
//!   or two examples. If two warps made them one of each is kept: any write in this epoch conflicts with one of the two.

/// No thread.
const NOBODY: u16 = u16::MAX;

/// Accesses of one kind to a cell.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// The block, counted from 1; 0 if there was none.
    block: u32,
    /// Another block that accessed the cell before; 0 if there was none.
    earlier: u32,
    epoch: u32,
    warp_epoch: u32,
    thread: u16,
    other: u16,
    /// The statement of `thread`.
    stmt: u32,
}

const NO_MARK: Mark =
    Mark { block: 0, earlier: 0, epoch: 0, warp_epoch: 0, thread: NOBODY, other: NOBODY, stmt: 0 };

/// Who accesses, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// Counted from 1 over the launch.
    pub(super) block: u32,
    /// Block barriers so far, over all blocks.
    pub(super) epoch: u32,
    /// Barriers of the warp so far.
    pub(super) warp_epoch: u32,
    pub(super) thread: u16,
    pub(super) stmt: u32,
}

/// How memory is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AccessKind {
    /// Read.
    Read,
    /// Written.
    Write,
    /// Read, changed and written in one.
    Atomic,
}

/// An access that conflicts with another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Conflict {
    pub(super) kind: AccessKind,
    /// Counted from 1.
    pub(super) block: u32,
    /// The thread, if it is known.
    pub(super) thread: Option<u16>,
    pub(super) stmt: u32,
}

/// The shadow of an allocation, or of the shared memory of a block.
#[derive(Debug)]
pub(super) struct Shadow {
    /// Bytes of a cell, as a power of two.
    shift: u32,
    /// Whether accesses of different blocks conflict; else they are to different memory.
    across_blocks: bool,
    writes: Vec<Mark>,
    /// Empty if nothing is read that is also written.
    reads: Vec<Mark>,
    /// Empty if there are no atomics.
    atomics: Vec<Mark>,
}

impl Shadow {
    /// A shadow of `bytes` whose accesses are all multiples of `cell`, a power of two, wide and aligned to it.
    pub(super) fn new(bytes: usize, cell: u64, across_blocks: bool, reads: bool, atomics: bool) -> Self {
        let shift = cell.trailing_zeros();
        let cells = (bytes >> shift) + 1;
        let marks = |wanted: bool| if wanted { vec![NO_MARK; cells] } else { Vec::new() };
        Shadow { shift, across_blocks, writes: marks(true), reads: marks(reads), atomics: marks(atomics) }
    }

    /// The cells of `width` bytes from `at` on.
    pub(super) fn cells(&self, at: usize, width: u64) -> std::ops::Range<usize> {
        let last = at + (width as usize).max(1) - 1;
        at >> self.shift..(last >> self.shift) + 1
    }

    /// Notes an access to cells; the first conflict with an earlier one.
    pub(super) fn access(
        &mut self,
        kind: AccessKind,
        cells: std::ops::Range<usize>,
        by: Access,
    ) -> Option<Conflict> {
        let mut found = None;
        for cell in cells {
            let conflict = self.check(kind, cell, by);
            found = found.or(conflict);
            self.note(kind, cell, by);
        }
        found
    }

    fn check(&self, kind: AccessKind, cell: usize, by: Access) -> Option<Conflict> {
        let against = |marks: &[Mark], of: AccessKind| {
            let mark = marks.get(cell)?;
            let (block, thread) = self.hit(mark, by)?;
            Some(Conflict { kind: of, block, thread, stmt: mark.stmt })
        };
        let writes = || against(&self.writes, AccessKind::Write);
        let reads = || against(&self.reads, AccessKind::Read);
        let atomics = || against(&self.atomics, AccessKind::Atomic);
        match kind {
            AccessKind::Read => writes().or_else(atomics),
            AccessKind::Write => writes().or_else(reads).or_else(atomics),
            AccessKind::Atomic => writes().or_else(reads),
        }
    }

    /// Block and thread of an access of the mark that has no order with `by`.
    fn hit(&self, mark: &Mark, by: Access) -> Option<(u32, Option<u16>)> {
        if mark.block == 0 {
            return None;
        }
        if mark.block != by.block {
            return self.across_blocks.then_some((mark.block, Some(mark.thread)));
        }
        if mark.earlier != 0 && self.across_blocks {
            return Some((mark.earlier, None));
        }
        [mark.thread, mark.other].into_iter().find_map(|thread| {
            let same_warp = thread / 32 == by.thread / 32;
            let ordered = if same_warp { mark.warp_epoch != by.warp_epoch } else { mark.epoch != by.epoch };
            let conflicts = thread != NOBODY && thread != by.thread && !ordered;
            conflicts.then_some((mark.block, Some(thread)))
        })
    }

    fn note(&mut self, kind: AccessKind, cell: usize, by: Access) {
        let marks = match kind {
            AccessKind::Read => &mut self.reads,
            AccessKind::Write => &mut self.writes,
            AccessKind::Atomic => &mut self.atomics,
        };
        let Some(mark) = marks.get_mut(cell) else { return };
        let fresh = Mark {
            block: by.block,
            earlier: if mark.block == by.block { mark.earlier } else { mark.block },
            epoch: by.epoch,
            warp_epoch: by.warp_epoch,
            thread: by.thread,
            other: NOBODY,
            stmt: by.stmt,
        };
        if kind == AccessKind::Write || mark.block != by.block || mark.epoch != by.epoch {
            *mark = fresh;
            return;
        }
        let warp = |thread: u16| thread / 32;
        let several_warps = mark.other != NOBODY && warp(mark.other) != warp(mark.thread);
        if several_warps {
            return;
        }
        if warp(mark.thread) != warp(by.thread) {
            mark.other = by.thread;
        } else if mark.warp_epoch != by.warp_epoch {
            *mark = fresh;
        } else if mark.thread != by.thread {
            mark.other = by.thread;
        }
    }
}
