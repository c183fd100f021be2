//! Asking for memory before it is needed.
//!
//! A block of rows is worked on several times while it lies in the cache. Meanwhile the processor's own prefetcher has
//! nothing to follow, and the next block begins with the latency of memory. So each step over the present block asks for
//! a part of the next one, of what is read and of what will be written. A loop that reads a long row once asks for it
//! itself, some lines ahead.

use super::access::{Access, AccessKind};
use super::geometry::Block;
use super::launch::Launch;

/// A cache line.
const LINE: usize = 64;
/// How far ahead of its loop memory is asked for: two pages, where the processor's own prefetcher stops.
const AHEAD: usize = 4096;
/// More than this is left to the processor: it would leave the L2 cache before it is used.
const MOST: usize = 1 << 17;

/// Memory to be asked for, in parts.
#[derive(Debug, Default)]
pub(crate) struct Prefetch {
    ranges: Vec<(*const u8, usize)>,
    /// Lines of each step.
    quota: usize,
}

impl Prefetch {
    /// Takes note of what a block touches, to be asked for in `steps` steps.
    pub(crate) fn plan(&mut self, launch: &Launch<'_>, block: &Block, steps: usize) {
        self.ranges.clear();
        let mut total = 0;
        let operands = (0..launch.exec.group.operands.len()).map(|k| launch.access(k));
        let stores = (0..launch.exec.group.stores.len()).map(|k| launch.store(k));
        for access in operands.chain(stores) {
            let bytes = block.len() * access.dtype.size();
            if let Some(start) = moving_start(launch, access, block)
                && total + bytes <= MOST
            {
                total += bytes;
                self.ranges.push((start, bytes));
            }
        }
        self.quota = (total / LINE).div_ceil(steps.max(1));
    }

    /// Asks for the next part.
    pub(crate) fn step(&mut self) {
        let mut lines = self.quota;
        while let (Some((start, bytes)), true) = (self.ranges.last_mut(), lines > 0) {
            let some = lines.min(bytes.div_ceil(LINE));
            for k in 0..some {
                prefetch::<false>(start.wrapping_add(k * LINE));
            }
            lines -= some;
            *start = start.wrapping_add(some * LINE);
            *bytes = bytes.saturating_sub(some * LINE);
            if *bytes == 0 {
                self.ranges.pop();
            }
        }
    }
}

/// Where the block begins, if it is one slice of memory and another one than the last block's.
fn moving_start(launch: &Launch<'_>, access: &Access, block: &Block) -> Option<*const u8> {
    let moves = access.moves_down() || (block.b > 0 && access.moves_along());
    if access.kind != AccessKind::Memory || !moves {
        return None;
    }
    let at = access.flat_offset(launch.forms(), block)?;
    Some(access.data.cast_const().wrapping_offset(at as isize * access.dtype.size() as isize))
}

/// Asks for the lines of `N` elements, `AHEAD` bytes before a loop that goes through memory in order comes to them. That
/// may be past the end of what it reads or writes.
#[inline(always)]
pub fn ask_ahead<const N: usize, T>(now: &[T]) {
    for line in 0..N * size_of::<T>() / LINE {
        prefetch::<true>(now.as_ptr().cast::<u8>().wrapping_add(AHEAD + line * LINE));
    }
}

/// Asks for a line: into the first cache if it is `NEAR`, else into the second.
#[inline(always)]
fn prefetch<const NEAR: bool>(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch touches no memory that the program can see, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        if NEAR { _mm_prefetch::<_MM_HINT_T0>(line.cast()) } else { _mm_prefetch::<_MM_HINT_T1>(line.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
