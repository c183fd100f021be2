//! Memory blocks of tensors, aligned to cache lines, and the caches that keep freed ones.
//!
//! A kernel called in a loop allocates its result each time. The system's allocator gives a large block back to the
//! kernel when it is freed, so that each call would pay a page fault for every 4 KiB it writes, which costs more than
//! most kernels; and its aligned allocations are slow for small blocks. Freed blocks are therefore kept:
//!
//! * below 1 MiB in a list of the thread that frees them, at most 32 blocks and 8 MiB;
//! * from 1 MiB in one list of the process, at most 512 MiB, or `FUSE_POOL_MIB` mebibytes if that is set in the
//!   environment; 0 keeps none, of either kind.
//!
//! Sizes are rounded up to four steps in each power of two, so that tensors of nearly one size share blocks.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Every block starts at a multiple of this: a cache line, and the widest vector.
pub(crate) const ALIGNMENT: usize = 64;

/// Blocks of this size and more are kept by the process, smaller ones by a thread.
const SHARED_FROM: usize = 1 << 20;
/// The least block.
const LEAST: usize = 256;
const THREAD_BLOCKS: usize = 32;
const THREAD_BYTES: usize = 8 << 20;
const PROCESS_BYTES: usize = 512 << 20;

/// An owned block. It is freed by [`Block::free`], not by dropping it.
pub(super) struct Block {
    start: NonNull<u8>,
    size: usize,
    /// What the system gave: up to [`ALIGNMENT`] bytes before `start`. Asking the system for the alignment itself would
    /// cost zeroed blocks their laziness: std then fills them, and touches every page.
    base: NonNull<u8>,
}

// SAFETY: a block is owned memory without ties to a thread.
unsafe impl Send for Block {}

impl Block {
    /// A block of at least `bytes`, which are not zero. Its contents are whatever was there before. `None` if there is
    /// no memory.
    pub(super) fn allocate(bytes: usize) -> Option<Block> {
        let size = round_up(bytes)?;
        take_cached(size).or_else(|| Block::from_system(size, false))
    }

    /// A block of at least `bytes`, which are not zero, filled with zeros. `None` if there is no memory.
    pub(super) fn allocate_zeroed(bytes: usize) -> Option<Block> {
        let size = round_up(bytes)?;
        match take_cached(size) {
            Some(block) => {
                // SAFETY: the block has `size >= bytes` bytes and is owned.
                unsafe { block.start.as_ptr().write_bytes(0, bytes) };
                Some(block)
            }
            // Fresh pages are zero already.
            None => Block::from_system(size, true),
        }
    }

    /// Where it starts.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Keeps the block for the next allocation, or gives it back to the system.
    pub(super) fn free(self) {
        let limit = process_limit();
        if limit == 0 {
            self.give_back();
        } else if self.size < SHARED_FROM {
            let kept =
                THREAD_CACHE.try_with(|cache| cache.try_borrow_mut().map(|mut c| c.keep(&self)).is_ok());
            // While a thread ends its cache is gone.
            if kept != Ok(true) {
                self.give_back();
            }
        } else {
            PROCESS_CACHE.lock().unwrap_or_else(PoisonError::into_inner).keep(&self, usize::MAX, limit);
        }
    }

    fn layout(size: usize) -> Option<Layout> {
        Layout::from_size_align(size.checked_add(ALIGNMENT)?, 1).ok()
    }

    fn from_system(size: usize, zeroed: bool) -> Option<Block> {
        let layout = Block::layout(size)?;
        // SAFETY: the size is at least `LEAST`, so that the layout is not empty.
        let base = NonNull::new(unsafe { if zeroed { alloc_zeroed(layout) } else { alloc(layout) } })?;
        // SAFETY: at most `ALIGNMENT` bytes further; the layout has so many more than `size`.
        let start = unsafe { base.add(base.align_offset(ALIGNMENT).min(ALIGNMENT)) };
        Some(Block { start, size, base })
    }

    fn give_back(self) {
        if let Some(layout) = Block::layout(self.size) {
            // SAFETY: the block was allocated with this layout, and `self` owns it.
            unsafe { dealloc(self.base.as_ptr(), layout) };
        }
    }
}

/// Freed blocks, the oldest first.
struct Cache {
    blocks: Vec<Block>,
    bytes: usize,
}

impl Cache {
    const fn new() -> Cache {
        Cache { blocks: Vec::new(), bytes: 0 }
    }

    /// A block of exactly that size; the one freed last, which is most likely in the processor's cache.
    fn take(&mut self, size: usize) -> Option<Block> {
        let found = self.blocks.iter().rposition(|b| b.size == size)?;
        self.bytes -= size;
        Some(self.blocks.remove(found))
    }

    /// Takes over `block`, and gives the oldest back to the system until the limits hold.
    fn keep(&mut self, block: &Block, most_blocks: usize, most_bytes: usize) {
        self.bytes += block.size;
        self.blocks.push(Block { start: block.start, size: block.size, base: block.base });
        while self.bytes > most_bytes || self.blocks.len() > most_blocks {
            let oldest = self.blocks.remove(0);
            self.bytes -= oldest.size;
            oldest.give_back();
        }
    }
}

/// The cache of a thread; its blocks go back to the system when the thread ends.
struct ThreadCache(Cache);

impl ThreadCache {
    fn keep(&mut self, block: &Block) {
        self.0.keep(block, THREAD_BLOCKS, THREAD_BYTES);
    }
}

impl Drop for ThreadCache {
    fn drop(&mut self) {
        for block in self.0.blocks.drain(..) {
            block.give_back();
        }
    }
}

thread_local! {
    static THREAD_CACHE: RefCell<ThreadCache> = const { RefCell::new(ThreadCache(Cache::new())) };
}

static PROCESS_CACHE: Mutex<Cache> = Mutex::new(Cache::new());

fn take_cached(size: usize) -> Option<Block> {
    if size < SHARED_FROM {
        THREAD_CACHE.try_with(|cache| cache.try_borrow_mut().ok()?.0.take(size)).ok().flatten()
    } else {
        PROCESS_CACHE.lock().unwrap_or_else(PoisonError::into_inner).take(size)
    }
}

/// How many bytes the process keeps.
fn process_limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let mebibytes =
            std::env::var("FUSE_POOL_MIB").ok().and_then(|text| text.trim().parse::<usize>().ok());
        mebibytes.map_or(PROCESS_BYTES, |n| n.saturating_mul(1 << 20))
    })
}

/// The size of the block for `bytes`: a multiple of a quarter of the power of two below it.
fn round_up(bytes: usize) -> Option<usize> {
    if bytes <= LEAST {
        return Some(LEAST);
    }
    let step = 1usize << ((bytes - 1).ilog2() - 2);
    let size = bytes.checked_next_multiple_of(step)?;
    (size <= isize::MAX as usize - ALIGNMENT).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_to_quarters() {
        let round = |n| round_up(n).unwrap_or(0);
        assert_eq!([1, 256, 257, 320, 321, 4096, 4097].map(round), [256, 256, 320, 320, 384, 4096, 5120]);
        assert_eq!(round_up(usize::MAX), None);
        for bytes in 257..5000 {
            let size = round(bytes);
            assert!(
                size >= bytes && size % ALIGNMENT == 0 && size <= bytes + bytes / 4 + 1,
                "{bytes}: {size}"
            );
        }
    }

    #[test]
    fn a_freed_block_is_used_again() {
        let first = Block::allocate(4096).expect("memory");
        let start = first.start();
        first.free();
        let second = Block::allocate(4000).expect("memory");
        assert_eq!(second.start(), start);
        assert_eq!(start.as_ptr() as usize % ALIGNMENT, 0);
        second.free();
    }

    #[test]
    fn a_cache_stays_within_its_limits() {
        let mut cache = Cache::new();
        for _ in 0..10 {
            let block = Block::from_system(1024, false).expect("memory");
            cache.keep(&block, 4, 3000);
            assert!(cache.bytes <= 3000 && cache.blocks.len() <= 4);
            assert_eq!(cache.bytes, cache.blocks.iter().map(|b| b.size).sum::<usize>());
        }
        while let Some(block) = cache.take(1024) {
            block.give_back();
        }
        assert_eq!(cache.bytes, 0);
    }

    #[test]
    fn zeroed_blocks_are_zero_when_recycled() {
        let block = Block::allocate(512).expect("memory");
        // SAFETY: the block has 512 bytes.
        unsafe { block.start().as_ptr().write_bytes(7, 512) };
        block.free();
        let block = Block::allocate_zeroed(512).expect("memory");
        // SAFETY: the block has 512 bytes, all written.
        let bytes = unsafe { std::slice::from_raw_parts(block.start().as_ptr(), 512) };
        assert!(bytes.iter().all(|&b| b == 0));
        block.free();
    }
}
