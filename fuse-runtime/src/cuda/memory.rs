//! Blocks of device memory, kept by their stream for the next tensor.
//!
//! A stream orders all use of its blocks, so that a freed block can be handed out at once: what the new owner queues comes
//! after what the old one did. So a loop of calls allocates nothing from the driver after its first round.

use super::handle::DevicePointer;
use super::stream::Stream;
use crate::error::Error;
use std::sync::{Arc, Weak};

/// Every block starts at a multiple of this and has a multiple of it in bytes, as the driver's have.
const ALIGNMENT: usize = 256;

/// A block of a stream's memory; dropping it lets what is queued later have it.
pub(crate) struct DeviceBlock {
    stream: Arc<Stream>,
    start: DevicePointer,
    size: usize,
}

impl DeviceBlock {
    /// A block of at least `bytes`, which are not zero, with whatever contents.
    pub(crate) fn allocate(stream: &Arc<Stream>, bytes: usize) -> Result<DeviceBlock, Error> {
        let (start, size) = take_block(stream, bytes)?;
        Ok(DeviceBlock { stream: Arc::clone(stream), start, size })
    }

    pub(crate) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    pub(crate) fn start(&self) -> DevicePointer {
        self.start
    }
}

impl Drop for DeviceBlock {
    fn drop(&mut self) {
        self.stream.give_back(self.start, self.size);
    }
}

/// A block as [`DeviceBlock`] that does not keep its stream, for what the stream itself keeps. When the stream goes, whoever
/// has the block then leaves it to the stream.
pub(super) struct LentBlock {
    stream: Weak<Stream>,
    start: DevicePointer,
    size: usize,
}

impl LentBlock {
    /// As [`DeviceBlock::allocate`].
    pub(super) fn allocate(stream: &Arc<Stream>, bytes: usize) -> Result<LentBlock, Error> {
        let (start, size) = take_block(stream, bytes)?;
        Ok(LentBlock { stream: Arc::downgrade(stream), start, size })
    }

    pub(super) fn start(&self) -> DevicePointer {
        self.start
    }
}

impl Drop for LentBlock {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.upgrade() {
            stream.give_back(self.start, self.size);
        }
    }
}

/// A block of at least `bytes`, and its size.
fn take_block(stream: &Stream, bytes: usize) -> Result<(DevicePointer, usize), Error> {
    let none = |free| Error::out_of_memory(bytes, stream, free);
    let size = round_up(bytes).ok_or_else(|| none(stream.gpu.free_memory()))?;
    if let Some(start) = stream.with_blocks(|blocks| blocks.take(size)) {
        return Ok((start, size));
    }
    let start = stream.allocate(size).map_err(|e| match e {
        Error::OutOfMemory { free, .. } => none(free),
        other => other,
    })?;
    Ok((start, size))
}

/// Freed blocks, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    blocks: Vec<(usize, DevicePointer)>,
    bytes: usize,
}

impl Blocks {
    /// A block of exactly that size, the one freed last.
    fn take(&mut self, size: usize) -> Option<DevicePointer> {
        let found = self.blocks.iter().rposition(|b| b.0 == size)?;
        self.bytes -= size;
        Some(self.blocks.remove(found).1)
    }

    /// Keeps a block, and gives the oldest that leave the limit.
    pub(super) fn keep(&mut self, start: DevicePointer, size: usize, limit: usize) -> Vec<DevicePointer> {
        self.bytes += size;
        self.blocks.push((size, start));
        let mut left = Vec::new();
        while self.bytes > limit {
            let (size, start) = self.blocks.remove(0);
            self.bytes -= size;
            left.push(start);
        }
        left
    }

    /// All of them.
    pub(super) fn take_all(&mut self) -> Vec<DevicePointer> {
        self.bytes = 0;
        std::mem::take(&mut self.blocks).into_iter().map(|b| b.1).collect()
    }
}

/// The size of the block for `bytes`: a multiple of a quarter of the power of two below it.
fn round_up(bytes: usize) -> Option<usize> {
    if bytes <= 4 * ALIGNMENT {
        return Some(bytes.max(1).next_multiple_of(ALIGNMENT));
    }
    let step = 1usize << ((bytes - 1).ilog2() - 2);
    bytes.checked_next_multiple_of(step).filter(|&size| size <= isize::MAX as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_to_quarters_of_whole_lines() {
        assert_eq!([1, 256, 257, 1025, 4097].map(round_up), [256, 256, 512, 1280, 5120].map(Some));
        assert_eq!(round_up(usize::MAX), None);
        assert!((1..9000).filter_map(round_up).all(|size| size % ALIGNMENT == 0));
    }

    #[test]
    fn the_oldest_blocks_leave_first() {
        let mut blocks = Blocks::default();
        assert!(blocks.keep(1, 512, 1024).is_empty());
        assert!(blocks.keep(2, 512, 1024).is_empty());
        assert_eq!(blocks.keep(3, 512, 1024), [1]);
        assert_eq!((blocks.take(256), blocks.take(512), blocks.bytes), (None, Some(3), 512));
        assert_eq!((blocks.take_all(), blocks.bytes), (vec![2], 0));
    }
}
