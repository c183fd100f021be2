//! The memory of a tensor, shared by its views, with the state that keeps calls from racing.

use super::pool::Block;
use crate::cuda::DeviceBlock;
use crate::device::{Device, Kind};
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
    /// Where it is.
    device: Device,
    memory: Memory,
    bytes: usize,
    /// 0: free; n > 0: read by n; [`WRITTEN`]: written.
    state: AtomicI32,
}

const WRITTEN: i32 = -1;

/// What the memory is.
enum Memory {
    /// That of a tensor without elements.
    Nothing,
    /// The host's: of the CPU and the simulator.
    Host(Block),
    /// A GPU's.
    Device(DeviceBlock),
}

// SAFETY: the memory is only read under the shared state and only written under the exclusive one, and elements are
// plain data that any thread may hold.
unsafe impl Sync for Storage {}

impl Storage {
    /// Memory with whatever contents. Before anything reads an element, it must have been written.
    pub(crate) fn allocate(bytes: usize, device: &Device) -> Result<Storage, Error> {
        Storage::new(bytes, device, Block::allocate)
    }

    /// Memory filled with zeros.
    pub(crate) fn allocate_zeroed(bytes: usize, device: &Device) -> Result<Storage, Error> {
        let storage = Storage::new(bytes, device, Block::allocate_zeroed)?;
        if let Memory::Device(block) = &storage.memory {
            block.stream().fill_zero(block.start(), bytes)?;
        }
        Ok(storage)
    }

    fn new(
        bytes: usize,
        device: &Device,
        allocate: impl Fn(usize) -> Option<Block>,
    ) -> Result<Storage, Error> {
        let memory = match (bytes, &device.kind) {
            (0, _) => Memory::Nothing,
            (_, Kind::Cpu | Kind::Simulator) => {
                Memory::Host(allocate(bytes).ok_or_else(|| Error::out_of_memory(bytes, device, None))?)
            }
            (_, Kind::Cuda(stream)) => Memory::Device(DeviceBlock::allocate(&stream.0, bytes)?),
        };
        Ok(Storage { device: device.clone(), memory, bytes, state: AtomicI32::new(0) })
    }

    /// Where it is.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// How many bytes there are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the host can read and write it in place.
    pub(crate) fn is_host(&self) -> bool {
        !matches!(self.memory, Memory::Device(_))
    }

    /// Where the memory starts; aligned to a cache line, also if there is none. Of a GPU's memory it is an address that
    /// means nothing to the host.
    pub(crate) fn start(&self) -> NonNull<u8> {
        #[repr(align(64))]
        struct CacheLine;
        let nothing = NonNull::<CacheLine>::dangling().cast();
        match &self.memory {
            Memory::Nothing => nothing,
            Memory::Host(block) => block.start(),
            Memory::Device(block) => {
                NonNull::new(std::ptr::without_provenance_mut(block.start() as usize)).unwrap_or(nothing)
            }
        }
    }

    /// The address of the first byte on its device.
    pub(crate) fn address(&self) -> u64 {
        self.start().as_ptr() as u64
    }

    /// Copies bytes out, from `offset` on, and waits for them; those that leave the memory are left out. The caller has taken
    /// the state.
    ///
    /// # Errors
    /// What goes wrong on a device.
    pub(crate) fn copy_to_host(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        // SAFETY: the slice has as much room.
        unsafe { self.read_bytes(offset, bytes.as_mut_ptr(), bytes.len()) }
    }

    /// As [`Self::copy_to_host`], to memory that need not be initialised.
    ///
    /// # Safety
    /// `to` has room for `count` bytes.
    pub(crate) unsafe fn read_bytes(&self, offset: usize, to: *mut u8, count: usize) -> Result<(), Error> {
        let offset = offset.min(self.bytes);
        let count = count.min(self.bytes - offset);
        match &self.memory {
            Memory::Nothing => Ok(()),
            Memory::Host(block) => {
                // SAFETY: as many bytes are within the block, and nothing writes them: the state is taken.
                unsafe { to.copy_from_nonoverlapping(block.start().as_ptr().add(offset), count) };
                Ok(())
            }
            Memory::Device(block) => {
                // SAFETY: likewise, in the stream's order.
                unsafe { block.stream().copy_to_host(to, block.start() + offset as u64, count) }
            }
        }
    }

    /// Copies bytes in, from `offset` on; those that leave the memory are left out. The caller has taken the state for
    /// writing.
    ///
    /// # Errors
    /// What goes wrong on a device.
    pub(crate) fn copy_from_host(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let offset = offset.min(self.bytes);
        let bytes = &bytes[..bytes.len().min(self.bytes - offset)];
        match &self.memory {
            Memory::Nothing => Ok(()),
            Memory::Host(block) => {
                let start = block.start().as_ptr();
                // SAFETY: as many bytes are within the block, and nothing else uses them: the state is taken.
                unsafe { start.add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
                Ok(())
            }
            Memory::Device(block) => {
                // SAFETY: likewise, in the stream's order.
                unsafe { block.stream().copy_from_host(block.start() + offset as u64, bytes) }
            }
        }
    }

    /// Copies the bytes of another storage from `offset` on to the start of this one, without waiting. The caller has taken
    /// both states. Gives false if both are not of one GPU.
    ///
    /// # Errors
    /// What goes wrong on a device.
    pub(crate) fn copy_on_device(&self, other: &Storage, offset: usize, count: usize) -> Result<bool, Error> {
        let (Memory::Device(to), Memory::Device(from)) = (&self.memory, &other.memory) else {
            return Ok(false);
        };
        if !to.stream().shares_gpu(from.stream()) || count > self.bytes || offset + count > other.bytes {
            return Ok(false);
        }
        let source = from.start() + offset as u64;
        // SAFETY: the ranges are within two blocks of one GPU, and the states are taken.
        unsafe {
            match self.device == other.device {
                true => to.stream().copy_within(to.start(), source, count)?,
                false => to.stream().copy_from_stream(to.start(), from.stream(), source, count)?,
            }
        }
        Ok(true)
    }

    /// The first fault that a kernel noted; of a GPU whose work has been waited for.
    pub(crate) fn check_faults(&self) -> Result<(), Error> {
        match &self.memory {
            Memory::Nothing | Memory::Host(_) => Ok(()),
            Memory::Device(block) => block.stream().check_faults(),
        }
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
        if let Memory::Host(block) = std::mem::replace(&mut self.memory, Memory::Nothing) {
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
        let storage = Storage::allocate(16, &Device::cpu()).expect("memory");
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
