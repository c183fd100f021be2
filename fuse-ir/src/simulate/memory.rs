//! The global memory of the simulated device.

use crate::id::ArgId;

/// An allocation.
#[derive(Clone, PartialEq, Debug)]
pub struct Buffer {
    /// Its address on the device.
    pub address: u64,
    /// What it holds.
    pub bytes: Vec<u8>,
    /// For each byte whether anybody wrote it; `None` if all are.
    pub written: Option<Vec<bool>>,
}

/// The allocations of a device, apart from one another, so that an access that leaves one meets nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct GlobalMemory {
    /// The allocations, in ascending order of their addresses.
    pub buffers: Vec<Buffer>,
    next: u64,
}

/// What every allocation's address is a multiple of, as on a device.
const ALIGNMENT: u64 = 256;

impl Default for GlobalMemory {
    fn default() -> Self {
        GlobalMemory { buffers: Vec::new(), next: 1 << 32 }
    }
}

impl GlobalMemory {
    /// An allocation that holds these bytes; its number.
    pub fn allocate(&mut self, bytes: Vec<u8>) -> usize {
        self.insert(bytes, true)
    }

    /// An allocation of which reads are faults until somebody wrote; its number.
    pub fn allocate_uninitialised(&mut self, len: usize) -> usize {
        self.insert(vec![0; len], false)
    }

    /// Writes bytes as the host does.
    pub(super) fn write(&mut self, buffer: usize, at: usize, bytes: &[u8]) {
        let buffer = &mut self.buffers[buffer];
        buffer.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        if let Some(written) = &mut buffer.written {
            written[at..at + bytes.len()].fill(true);
        }
    }

    fn insert(&mut self, bytes: Vec<u8>, initialised: bool) -> usize {
        let address = self.next;
        self.next += (bytes.len() as u64 + 1).next_multiple_of(ALIGNMENT) + ALIGNMENT;
        let written = if initialised { None } else { Some(vec![false; bytes.len()]) };
        self.buffers.push(Buffer { address, bytes, written });
        self.buffers.len() - 1
    }
}

/// What a pointer parameter gives access to in a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pointer {
    pub(super) param: ArgId,
    pub(super) buffer: usize,
    /// The address passed.
    pub(super) address: u64,
    /// The address of the allocation and of its end.
    pub(super) bounds: (u64, u64),
}

/// `N` bytes from `at` on.
pub(super) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut taken = [0; N];
    taken.copy_from_slice(&bytes[at..at + N]);
    taken
}
