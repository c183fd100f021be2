//! The memory of a tensor, shared by its views, with the state that keeps calls from racing.

use super::pool::Block;
use crate::error::Error;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};

/// The memory that a tensor and its views share.
///
/// # The borrow state
/// Rust's borrows guard a tensor, not the memory that its views share: two threads may each hold a view of one storage.
/// Whoever reads the memory takes the state shared, whoever writes it exclusive, for the whole of a call; on conflict
/// the call is an error. So safe code cannot race.
pub(crate) struct Storage {
    /// `None` for a tensor without elements.
    block: Option<Block>,
    /// 0: free; n > 0: read by n; [`WRITTEN`]: written.
    state: AtomicI32,
}

const WRITTEN: i32 = -1;

// SAFETY: the memory is only read under the shared state and only written under the exclusive one, and elements are
// plain data that any thread may hold.
unsafe impl Sync for Storage {}

impl Storage {
    /// Memory with whatever contents. Before anything reads an element, it must have been written.
    pub(crate) fn allocate(bytes: usize) -> Result<Storage, Error> {
        Storage::from_block(bytes, Block::allocate)
    }

    /// Memory filled with zeros.
    pub(crate) fn allocate_zeroed(bytes: usize) -> Result<Storage, Error> {
        Storage::from_block(bytes, Block::allocate_zeroed)
    }

    fn from_block(bytes: usize, allocate: impl Fn(usize) -> Option<Block>) -> Result<Storage, Error> {
        let block = match bytes {
            0 => None,
            _ => Some(allocate(bytes).ok_or(Error::OutOfMemory { bytes })?),
        };
        Ok(Storage { block, state: AtomicI32::new(0) })
    }

    /// Where the memory starts; aligned to a cache line, also if there is none.
    pub(crate) fn start(&self) -> NonNull<u8> {
        #[repr(align(64))]
        struct CacheLine;
        self.block.as_ref().map_or(NonNull::<CacheLine>::dangling().cast(), Block::start)
    }

    /// Takes the state shared; the one that is in the way always writes.
    pub(crate) fn try_read(&self) -> Result<(), InUse> {
        let share = |s: i32| if s >= 0 { s.checked_add(1) } else { None };
        match self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, share) {
            Ok(_) => Ok(()),
            Err(_) => Err(InUse { written: true }),
        }
    }

    /// Takes the state exclusive.
    pub(crate) fn try_write(&self) -> Result<(), InUse> {
        match self.state.compare_exchange(0, WRITTEN, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(s) => Err(InUse { written: s == WRITTEN }),
        }
    }

    /// Ends a successful [`Self::try_read`].
    pub(crate) fn end_read(&self) {
        self.state.fetch_sub(1, Ordering::Release);
    }

    /// Ends a successful [`Self::try_write`].
    pub(crate) fn end_write(&self) {
        self.state.store(0, Ordering::Release);
    }

    /// Reads under the state.
    pub(crate) fn read(&self) -> Result<Reading<'_>, InUse> {
        self.try_read().map(|()| Reading(self))
    }

    /// Reads under the state, after waiting while another thread writes. No thread waits for itself: nothing of a user
    /// runs while the state is taken.
    pub(crate) fn read_when_free(&self) -> Reading<'_> {
        loop {
            match self.read() {
                Ok(reading) => return reading,
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    /// Writes under the state.
    pub(crate) fn write(&self) -> Result<Writing<'_>, InUse> {
        self.try_write().map(|()| Writing(self))
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            block.free();
        }
    }
}

/// Why the state could not be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InUse {
    /// Whether the other one writes.
    pub(crate) written: bool,
}

impl From<InUse> for Error {
    fn from(in_use: InUse) -> Self {
        Error::InUse { argument: None, written: in_use.written }
    }
}

/// The shared state, until it is dropped.
pub(crate) struct Reading<'a>(&'a Storage);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.end_read();
    }
}

/// The exclusive state, until it is dropped.
pub(crate) struct Writing<'a>(&'a Storage);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.end_write();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let storage = Storage::allocate(16).expect("memory");
        let first = storage.read();
        let second = storage.read();
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(storage.write().err(), Some(InUse { written: false }));
        drop((first, second));
        let writer = storage.write();
        assert!(writer.is_ok());
        assert_eq!(storage.read().err(), Some(InUse { written: true }));
        assert_eq!(storage.write().err(), Some(InUse { written: true }));
        drop(writer);
        assert!(storage.read().is_ok());
    }
}
