//! A stream: what orders work on a GPU, and owns the memory of its tensors.

use super::Driver;
use super::fault::PendingFaults;
use super::gpu::{Gpu, count_gpus};
use super::handle::{CallError, DevicePointer, StreamHandle};
use super::memory::Blocks;
use super::staging::Staging;
use super::unavailable::CudaUnavailable;
use crate::error::Error;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of freed memory that a stream keeps.
const KEPT_BYTES: usize = 2 << 30;

/// A stream of a GPU.
pub(crate) struct Stream {
    pub(super) gpu: Arc<Gpu>,
    pub(super) handle: StreamHandle,
    /// 0 for the GPU's first.
    number: usize,
    blocks: Mutex<Blocks>,
    faults: Mutex<PendingFaults>,
    staging: Mutex<Staging>,
}

/// A stream as part of a device: equal to itself alone.
#[derive(Clone)]
pub(crate) struct StreamRef(pub(crate) Arc<Stream>);

/// The GPUs that were opened, each with its first stream.
static OPENED: Mutex<Vec<Arc<Stream>>> = Mutex::new(Vec::new());

/// The number of devices.
///
/// # Errors
/// Why there are none.
pub(crate) fn count_devices() -> Result<usize, CudaUnavailable> {
    count_gpus(Driver::get()?)
}

/// The GPU of that number with its first stream, the same each time.
///
/// # Errors
/// Why it cannot be used.
pub(crate) fn open_device(ordinal: usize) -> Result<StreamRef, CudaUnavailable> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stream) = opened.iter().find(|s| s.gpu.ordinal == ordinal) {
        return Ok(StreamRef(Arc::clone(stream)));
    }
    let gpu = Arc::new(Gpu::open(ordinal)?);
    let stream = Arc::new(Stream::new(gpu, 0).map_err(CudaUnavailable::start)?);
    opened.push(Arc::clone(&stream));
    Ok(StreamRef(stream))
}

impl StreamRef {
    /// Another stream of the same GPU.
    pub(crate) fn beside(&self) -> Result<StreamRef, Error> {
        static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(1);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let stream = Stream::new(Arc::clone(&self.0.gpu), number).map_err(|e| self.0.error(e, None))?;
        Ok(StreamRef(Arc::new(stream)))
    }
}

impl PartialEq for StreamRef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for StreamRef {}

impl Hash for StreamRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl fmt::Debug for StreamRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0, self.0.gpu.name)
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            0 => write!(f, "cuda:{}", self.gpu.ordinal),
            n => write!(f, "cuda:{}, stream {n}", self.gpu.ordinal),
        }
    }
}

impl Stream {
    fn new(gpu: Arc<Gpu>, number: usize) -> Result<Stream, CallError> {
        gpu.enter()?;
        let handle = gpu.driver.create_stream()?;
        let (blocks, faults, staging) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Stream { gpu, handle, number, blocks, faults, staging })
    }

    /// Whether the other stream is one of the same GPU.
    pub(crate) fn shares_gpu(&self, other: &Stream) -> bool {
        self.gpu.ordinal == other.gpu.ordinal
    }

    pub(super) fn driver(&self) -> &'static Driver {
        self.gpu.driver
    }

    /// A failed call as the user's error; `kernel` is what was called.
    pub(super) fn error(&self, error: CallError, kernel: Option<&str>) -> Error {
        Error::CudaCall {
            device: self.to_string(),
            kernel: kernel.map(str::to_owned),
            call: error.call.to_owned(),
            error: error.name,
            code: error.code,
        }
    }

    /// Runs a call of the driver with the GPU as this thread's.
    pub(super) fn call<R>(&self, f: impl FnOnce(&Driver) -> Result<R, CallError>) -> Result<R, Error> {
        self.gpu.enter().and_then(|()| f(self.gpu.driver)).map_err(|e| self.error(e, None))
    }

    /// Gives something back to the driver. An error is left out: it is either one of a kernel before, which the next call that
    /// waits gives, or the process ends; so is that the GPU cannot be made this thread's, since handles and addresses say
    /// themselves of which GPU they are.
    pub(super) fn release(&self, f: impl FnOnce(&Driver) -> Result<(), CallError>) {
        let _ = self.gpu.enter();
        let _ = f(self.gpu.driver);
    }

    pub(super) fn with_blocks<R>(&self, f: impl FnOnce(&mut Blocks) -> R) -> R {
        f(&mut self.blocks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Memory from the driver. Where there is none, what is kept is given back first.
    pub(super) fn allocate(&self, size: usize) -> Result<DevicePointer, Error> {
        let driver = self.gpu.driver;
        let ask = || match self.gpu.has_pools {
            true => driver.allocate_async(size, self.handle),
            false => driver.allocate(size),
        };
        let outcome = self.gpu.enter().and_then(|()| match ask() {
            Err(error) if error.is_out_of_memory() => {
                self.with_blocks(Blocks::take_all).into_iter().for_each(|start| self.free(start));
                driver.synchronize(self.handle)?;
                ask()
            }
            other => other,
        });
        outcome.map_err(|error| match error.is_out_of_memory() {
            true => Error::out_of_memory(size, self, self.gpu.free_memory()),
            false => self.error(error, None),
        })
    }

    /// Keeps a block that nobody owns any more.
    pub(super) fn give_back(&self, start: DevicePointer, size: usize) {
        let left = self.with_blocks(|blocks| blocks.keep(start, size, KEPT_BYTES));
        left.into_iter().for_each(|start| self.free(start));
    }

    /// Gives memory back to the driver.
    pub(super) fn free(&self, start: DevicePointer) {
        // SAFETY: the block was the driver's, of this stream; its owner is gone, and what it queued comes before.
        self.release(|driver| unsafe {
            match self.gpu.has_pools {
                true => driver.free_async(start, self.handle),
                false => driver.free(start),
            }
        });
    }

    /// Fills memory of this stream with a byte.
    pub(super) fn fill(&self, start: DevicePointer, byte: u8, bytes: usize) -> Result<(), Error> {
        // SAFETY: callers fill within a block of this stream that they own.
        self.call(|driver| unsafe { driver.fill(start, byte, bytes, self.handle) })
    }

    /// Fills memory of this stream with zeros.
    pub(crate) fn fill_zero(&self, start: DevicePointer, bytes: usize) -> Result<(), Error> {
        self.fill(start, 0, bytes)
    }

    /// Copies from the host. A small copy is queued; for a great one this waits.
    ///
    /// # Safety
    /// The range is within a block of this stream, and the caller may write it.
    pub(crate) unsafe fn copy_from_host(&self, to: DevicePointer, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        self.call(|driver| {
            // SAFETY: by the caller.
            if unsafe { staging.copy(driver, self.handle, to, bytes)? } {
                return Ok(());
            }
            // SAFETY: by the caller; the bytes are borrowed until the copy is done.
            unsafe { driver.copy_to_device(to, bytes.as_ptr(), bytes.len(), self.handle)? };
            driver.synchronize(self.handle)
        })
    }

    /// Copies to the host, and waits for it. The bytes need not be initialised.
    ///
    /// # Safety
    /// The range is within a block of this stream, and `to` has room.
    pub(crate) unsafe fn copy_to_host(
        &self,
        to: *mut u8,
        from: DevicePointer,
        bytes: usize,
    ) -> Result<(), Error> {
        self.call(|driver| {
            if bytes > 0 {
                // SAFETY: by the caller; nothing uses the host's memory before this function is done.
                unsafe { driver.copy_to_host(to, from, bytes, self.handle)? };
            }
            driver.synchronize(self.handle)
        })
    }

    /// Copies within this stream's memory.
    ///
    /// # Safety
    /// Both ranges are within blocks of this stream, and apart.
    pub(crate) unsafe fn copy_within(
        &self,
        to: DevicePointer,
        from: DevicePointer,
        bytes: usize,
    ) -> Result<(), Error> {
        // SAFETY: by the caller.
        self.call(|driver| unsafe { driver.copy_on_device(to, from, bytes, self.handle) })
    }

    /// Copies from the memory of another stream of the same GPU: after what that stream has queued, and before what it will.
    ///
    /// # Safety
    /// Both ranges are within blocks of their streams, and the caller may read the one and write the other.
    pub(crate) unsafe fn copy_from_stream(
        &self,
        to: DevicePointer,
        other: &Stream,
        from: DevicePointer,
        bytes: usize,
    ) -> Result<(), Error> {
        self.call(|driver| {
            let event = driver.create_event()?;
            let after = || {
                driver.record_event(event, other.handle)?;
                driver.wait_event(self.handle, event)?;
                // SAFETY: by the caller.
                unsafe { driver.copy_on_device(to, from, bytes, self.handle) }
            };
            let before = || {
                driver.record_event(event, self.handle)?;
                driver.wait_event(other.handle, event)
            };
            let outcome = after().and_then(|()| {
                // A copy before which the other stream does not wait must be done before anybody queues anything there.
                before().inspect_err(|_| drop(driver.synchronize(self.handle)))
            });
            // SAFETY: this is its last use; what waits for it keeps what it needs.
            let _ = unsafe { driver.destroy_event(event) };
            outcome
        })
    }

    /// Waits, and reads words.
    pub(super) fn read_words(&self, start: DevicePointer, words: &mut [u64]) -> Result<(), Error> {
        let bytes = size_of_val(words);
        // SAFETY: callers read words of a block of this stream that they own.
        unsafe { self.copy_to_host(words.as_mut_ptr().cast(), start, bytes) }
    }

    /// Waits until everything queued is done.
    ///
    /// # Errors
    /// The first fault that a kernel noted, or a failure of the device.
    pub(crate) fn synchronize(self: &Arc<Self>) -> Result<(), Error> {
        self.call(|driver| driver.synchronize(self.handle))?;
        self.check_faults()
    }

    /// The first fault that a kernel noted since somebody last asked; the work has been waited for.
    pub(crate) fn check_faults(self: &Arc<Self>) -> Result<(), Error> {
        let found = self.with_faults(|faults| match faults.is_empty() {
            true => Ok(None),
            false => faults.collect(self),
        })?;
        found.map_or(Ok(()), Err)
    }

    pub(super) fn with_faults<R>(&self, f: impl FnOnce(&mut PendingFaults) -> R) -> R {
        f(&mut self.faults.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Blocks that somebody owns own the stream, so that only those that it keeps are left.
        let words = self.with_faults(PendingFaults::take_memory);
        let blocks = self.with_blocks(Blocks::take_all);
        blocks.into_iter().chain(words).for_each(|start| self.free(start));
        let staging = std::mem::take(self.staging.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.release(|driver| {
            let _ = driver.synchronize(self.handle);
            // SAFETY: this is the last owner, and all work is done.
            unsafe {
                staging.free(driver);
                driver.destroy_stream(self.handle)
            }
        });
    }
}
