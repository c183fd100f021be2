//! Pinned memory of the host, through which small copies to a GPU go, so that nobody waits for them.
//!
//! A copy from ordinary memory of the host is only done with it when the work before is done, for which the caller would
//! wait. So its bytes are put aside into a slot first, and the slot is used again when the copy from it has happened.

use super::Driver;
use super::handle::{CallError, DevicePointer, Event, StreamHandle};

/// Bytes of a slot; greater copies wait.
const SLOT: usize = 256 << 10;
/// How many slots a stream has at most.
const SLOTS: usize = 8;

/// The slots of a stream.
#[derive(Debug, Default)]
pub(super) struct Staging {
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    /// The address of its bytes.
    start: usize,
    /// Happens when the last copy from it is done.
    done: Event,
}

impl Staging {
    /// Queues a copy from the host; gives false if it is too large, or there is no slot for it.
    ///
    /// # Safety
    /// The range exists on the device, and the caller may write it in the stream's order.
    pub(super) unsafe fn copy(
        &mut self,
        driver: &Driver,
        stream: StreamHandle,
        to: DevicePointer,
        bytes: &[u8],
    ) -> Result<bool, CallError> {
        if bytes.len() > SLOT {
            return Ok(false);
        }
        let Some(slot) = self.free_slot(driver)? else { return Ok(false) };
        let start = std::ptr::with_exposed_provenance_mut::<u8>(slot.start);
        // SAFETY: the slot has room, and no copy from it is under way; it lives as long as the stream. The rest by the caller.
        unsafe {
            start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            driver.copy_to_device(to, start, bytes.len(), stream)?;
        }
        let recorded = driver.record_event(slot.done, stream);
        if recorded.is_err() {
            // Without the event the slot would be free before its copy is done.
            let _ = driver.synchronize(stream);
        }
        recorded.map(|()| true)
    }

    /// A slot from which no copy is under way; `None` if there is none, and no memory for another.
    fn free_slot(&mut self, driver: &Driver) -> Result<Option<&Slot>, CallError> {
        for k in 0..self.slots.len() {
            if driver.query_event(self.slots[k].done)? {
                return Ok(Some(&self.slots[k]));
            }
        }
        if self.slots.len() == SLOTS {
            return Ok(None);
        }
        let done = driver.create_event()?;
        match driver.allocate_pinned(SLOT) {
            Ok(start) => {
                self.slots.push(Slot { start: start.expose_provenance(), done });
                Ok(self.slots.last())
            }
            Err(error) => {
                // SAFETY: nothing has used it.
                let _ = unsafe { driver.destroy_event(done) };
                if error.is_out_of_memory() { Ok(None) } else { Err(error) }
            }
        }
    }

    /// Gives the slots back. Errors are left out: the process is ending, or the device is lost.
    ///
    /// # Safety
    /// All work of the stream is done.
    pub(super) unsafe fn free(self, driver: &Driver) {
        for slot in self.slots {
            // SAFETY: no copy is under way, by the caller, and the slot is gone.
            unsafe {
                let _ = driver.destroy_event(slot.done);
                let _ = driver.free_pinned(std::ptr::with_exposed_provenance_mut(slot.start));
            }
        }
    }
}
