//! Loads, stores and atomics: addresses, bounds, alignment, the shadow and the counters.

use super::code::{AccessCode, Reg, Src};
use super::counters::{count_global, count_shared};
use super::fault::FaultKind;
use super::machine::{Machine, each};
use super::memory::{Pointer, take};
use super::shadow::AccessKind;
use crate::dtype::{DType, Value};
use crate::eval::eval_op;
use crate::kernel_ir::{AtomicOp, Memory, WARP};
use crate::scalar::ScalarOp;

/// Where each lane of a warp accesses memory: an address, or an offset in shared memory.
pub(super) type Addresses = [u64; 32];

impl Machine<'_> {
    /// The addresses of the lanes, and those lanes whose access is within bounds and aligned; the others are faults.
    pub(super) fn locate(
        &mut self,
        stmt: u32,
        warp: usize,
        mask: u32,
        access: &AccessCode,
        width: u64,
    ) -> (u32, Addresses) {
        self.locate_part(stmt, warp, mask, access, (width, width))
    }

    /// [`Machine::locate`] where addresses are multiples of `align` and only `width` bytes must be within bounds.
    pub(super) fn locate_part(
        &mut self,
        stmt: u32,
        warp: usize,
        mask: u32,
        access: &AccessCode,
        (align, width): (u64, u64),
    ) -> (u32, Addresses) {
        let mut at = [0; 32];
        let (base, low, high) = match access.memory {
            Memory::Shared(id) => {
                let (start, end) = self.views[id.index()];
                (start, start, end)
            }
            Memory::Global(id) => match self.pointers[id.index()] {
                Some(p) => (p.address, p.bounds.0, p.bounds.1),
                None => (0, 1, 0),
            },
        };
        let size = access.dtype.size() as u64;
        let index = self.lanes(warp, access.index);
        let (mut outside, mut misaligned) = (0, 0);
        each(mask, |l| {
            let index = match index[l] {
                Value::U32(n) => n.into(),
                Value::U64(n) => n,
                Value::I32(n) => i64::from(n) as u64,
                Value::I64(n) => n as u64,
                _ => 0,
            };
            let address = base.wrapping_add(index.wrapping_mul(size));
            at[l] = address;
            let inside = address >= low && address <= high && high - address >= width;
            outside |= u32::from(!inside) << l;
            misaligned |= u32::from(address & (align - 1) != 0) << l;
        });
        let misaligned = misaligned & !outside;
        if outside != 0 {
            let lane = outside.trailing_zeros();
            let (memory, at) = self.name_place(access.memory, at[lane as usize]);
            self.fault(stmt, warp, lane, FaultKind::OutOfBounds { memory, at, width });
        }
        if misaligned != 0 {
            let lane = misaligned.trailing_zeros();
            let (memory, at) = self.name_place(access.memory, at[lane as usize]);
            self.fault(stmt, warp, lane, FaultKind::Misaligned { memory, at, width: align });
        }
        (mask & !(outside | misaligned), at)
    }

    /// The name of a memory and the byte of it, for a message.
    fn name_place(&self, memory: Memory, address: u64) -> (String, i64) {
        let start = self.start_of(memory);
        (self.kernel.memory_name(memory).to_owned(), address.wrapping_sub(start) as i64)
    }

    fn start_of(&self, memory: Memory) -> u64 {
        match memory {
            Memory::Shared(id) => self.views[id.index()].0,
            Memory::Global(id) => self.pointers[id.index()].map_or(0, |p| p.address),
        }
    }

    /// Watches one access of a warp: the shadow, and for reads whether somebody wrote the bytes.
    pub(super) fn watch(
        &mut self,
        stmt: u32,
        warp: usize,
        mask: u32,
        (kind, memory): (AccessKind, Memory),
        at: &Addresses,
        width: u64,
    ) {
        match memory {
            Memory::Shared(_) => each(mask, |l| {
                self.watch_shared(stmt, warp, l as u32, (kind, memory), at[l], width);
            }),
            Memory::Global(id) => {
                let Some(pointer) = self.pointers[id.index()] else { return };
                let watched = self.shadows[pointer.buffer].is_some()
                    || self.memory.buffers[pointer.buffer].written.is_some();
                if watched {
                    each(mask, |l| {
                        self.watch_global(stmt, warp, l as u32, (kind, memory), (pointer, at[l]), width);
                    });
                }
            }
        }
    }

    fn watch_shared(
        &mut self,
        stmt: u32,
        warp: usize,
        lane: u32,
        (kind, memory): (AccessKind, Memory),
        offset: u64,
        width: u64,
    ) {
        let cells = self.shared_shadow.cells(offset as usize, width);
        if let Some(issuer) = self.copies.in_flight(cells.clone()) {
            let (memory, at) = self.name_place(memory, offset);
            let issuer = self.thread_position(issuer);
            self.fault(stmt, warp, lane, FaultKind::InFlight { memory, at, access: kind, issuer });
            return;
        }
        let written = &mut self.shared_written[cells.clone()];
        let unwritten = kind != AccessKind::Write && written.iter().any(|b| *b != self.block);
        if kind != AccessKind::Read {
            written.fill(self.block);
        }
        if unwritten {
            let (memory, at) = self.name_place(memory, offset);
            self.fault(stmt, warp, lane, FaultKind::Uninitialised { memory, at });
        }
        let by = self.who(stmt, warp, lane);
        if let Some(conflict) = self.shared_shadow.access(kind, cells, by) {
            let at = offset.wrapping_sub(self.start_of(memory)) as i64;
            self.race(by, memory, at, kind, conflict);
        }
    }

    fn watch_global(
        &mut self,
        stmt: u32,
        warp: usize,
        lane: u32,
        (kind, memory): (AccessKind, Memory),
        (pointer, address): (Pointer, u64),
        width: u64,
    ) {
        let start = (address - pointer.bounds.0) as usize;
        let mut unwritten = false;
        if let Some(written) = &mut self.memory.buffers[pointer.buffer].written {
            let written = &mut written[start..start + width as usize];
            unwritten = kind != AccessKind::Write && written.contains(&false);
            if kind != AccessKind::Read {
                written.fill(true);
            }
        }
        if unwritten {
            let (memory, at) = self.name_place(memory, address);
            self.fault(stmt, warp, lane, FaultKind::Uninitialised { memory, at });
        }
        let by = self.who(stmt, warp, lane);
        let Some(shadow) = &mut self.shadows[pointer.buffer] else { return };
        let cells = shadow.cells(start, width);
        let conflict = shadow.access(kind, cells.clone(), by);
        if let Some(conflict) = conflict {
            let at = address.wrapping_sub(pointer.address) as i64;
            self.race(by, memory, at, kind, conflict);
        }
        if kind != AccessKind::Read && self.copies.reads(pointer.buffer, cells) {
            let (memory, at) = self.name_place(memory, address);
            self.fault(stmt, warp, lane, FaultKind::SourceInFlight { memory, at });
        }
    }

    fn count_access(&mut self, mask: u32, at: &Addresses, width: u64, kind: AccessKind, memory: Memory) {
        if mask == 0 {
            return;
        }
        match (memory, kind) {
            (Memory::Shared(_), AccessKind::Read) => self.count_shared_load(mask, at, width),
            (Memory::Shared(_), AccessKind::Write | AccessKind::Atomic) => {
                self.count_shared_store(mask, at, width);
            }
            (Memory::Global(_), AccessKind::Read) => {
                self.counters.global_loads += count_global(mask, at, width);
            }
            (Memory::Global(_), AccessKind::Write) => {
                self.counters.global_stores += count_global(mask, at, width);
            }
            (Memory::Global(_), AccessKind::Atomic) => {
                self.counters.global_atomics += count_global(mask, at, width);
            }
        }
    }

    pub(super) fn count_shared_load(&mut self, mask: u32, at: &Addresses, width: u64) {
        self.counters.shared_loads[width.trailing_zeros() as usize] += count_shared(mask, at, width);
    }

    pub(super) fn count_shared_store(&mut self, mask: u32, at: &Addresses, width: u64) {
        self.counters.shared_stores[width.trailing_zeros() as usize] += count_shared(mask, at, width);
    }

    pub(super) fn load(
        &mut self,
        stmt: u32,
        warp: usize,
        mask: u32,
        access: &AccessCode,
        dst: Reg,
        fill: Value,
    ) {
        let wanted = self.predicate(warp, mask, access);
        let width = access.width();
        let (found, at) = self.locate(stmt, warp, wanted, access, width);
        self.count_access(found, &at, width, AccessKind::Read, access.memory);
        self.watch(stmt, warp, found, (AccessKind::Read, access.memory), &at, width);
        let origin = self.origin(access.memory);
        for k in 0..access.count {
            let from = k as usize * access.dtype.size();
            let mut values = *self.lanes(warp, Src::Reg(dst + k));
            each(mask & !found, |l| values[l] = fill);
            let bytes = self.bytes(access.memory);
            each(found, |l| {
                values[l] = read_value(bytes, (at[l] - origin) as usize + from, access.dtype).widened();
            });
            *self.lanes_mut(warp, dst + k) = values;
        }
        self.define(warp, mask, dst, access.count);
    }

    /// The address of the first of [`Machine::bytes`].
    fn origin(&self, memory: Memory) -> u64 {
        match memory {
            Memory::Shared(_) => 0,
            Memory::Global(id) => self.pointers[id.index()].map_or(0, |p| p.bounds.0),
        }
    }

    fn bytes(&self, memory: Memory) -> &[u8] {
        match memory {
            Memory::Shared(_) => &self.shared,
            Memory::Global(id) => match self.pointers[id.index()] {
                Some(p) => &self.memory.buffers[p.buffer].bytes,
                None => &[],
            },
        }
    }

    fn bytes_mut(&mut self, memory: Memory) -> &mut [u8] {
        match memory {
            Memory::Shared(_) => &mut self.shared,
            Memory::Global(id) => match self.pointers[id.index()] {
                Some(p) => &mut self.memory.buffers[p.buffer].bytes,
                None => &mut [],
            },
        }
    }

    pub(super) fn store(&mut self, stmt: u32, warp: usize, mask: u32, access: &AccessCode, from: Src) {
        let wanted = self.predicate(warp, mask, access);
        let width = access.width();
        let (found, at) = self.locate(stmt, warp, wanted, access, width);
        self.count_access(found, &at, width, AccessKind::Write, access.memory);
        self.watch(stmt, warp, found, (AccessKind::Write, access.memory), &at, width);
        let origin = self.origin(access.memory);
        for k in 0..access.count {
            let to = k as usize * access.dtype.size();
            let src = if let Src::Reg(first) = from { Src::Reg(first + k) } else { from };
            let values = *self.lanes(warp, src);
            let bytes = self.bytes_mut(access.memory);
            each(found, |l| {
                write_value(bytes, (at[l] - origin) as usize + to, values[l].stored(access.dtype))
            });
        }
    }

    pub(super) fn atomic(
        &mut self,
        stmt: u32,
        warp: usize,
        mask: u32,
        (op, access): (AtomicOp, &AccessCode),
        value: Src,
        old: Option<Reg>,
    ) {
        let wanted = self.predicate(warp, mask, access);
        let width = access.width();
        let (found, at) = self.locate(stmt, warp, wanted, access, width);
        self.count_access(found, &at, width, AccessKind::Atomic, access.memory);
        self.watch(stmt, warp, found, (AccessKind::Atomic, access.memory), &at, width);
        let origin = self.origin(access.memory);
        let operands = *self.lanes(warp, value);
        let mut before = [Value::zero(access.dtype); 32];
        let bytes = self.bytes_mut(access.memory);
        each(found, |l| {
            let at = (at[l] - origin) as usize;
            let present = read_value(bytes, at, access.dtype);
            before[l] = present;
            write_value(bytes, at, change(op, present, operands[l]));
        });
        if let Some(reg) = old {
            let out = self.lanes_mut(warp, reg);
            each(mask, |l| out[l] = before[l]);
        }
    }

    /// The bytes of shared memory count as written by this lane now.
    pub(super) fn finish_write(&mut self, stmt: u32, thread: u32, offset: u64, data: &[u8]) {
        let cells = self.shared_shadow.cells(offset as usize, data.len() as u64);
        self.shared_written[cells.clone()].fill(self.block);
        let by = self.who(stmt, (thread / WARP) as usize, thread % WARP);
        // Whatever touched them in between was told so when it did.
        let _ = self.shared_shadow.access(AccessKind::Write, cells, by);
        let at = offset as usize;
        self.shared[at..at + data.len()].copy_from_slice(data);
    }
}

fn change(op: AtomicOp, present: Value, operand: Value) -> Value {
    let op = match op {
        AtomicOp::Add => ScalarOp::Add,
        AtomicOp::Min => ScalarOp::Min,
        AtomicOp::Max => ScalarOp::Max,
        AtomicOp::And => ScalarOp::And,
        AtomicOp::Or => ScalarOp::Or,
        AtomicOp::Xor => ScalarOp::Xor,
        AtomicOp::Exchange => return operand,
    };
    eval_op(op, &[present, operand]).0
}

/// The element of that dtype at a byte.
fn read_value(bytes: &[u8], at: usize, dtype: DType) -> Value {
    let bits = match dtype.size() {
        1 => bytes[at].into(),
        2 => u16::from_le_bytes(take(bytes, at)).into(),
        4 => u32::from_le_bytes(take(bytes, at)).into(),
        _ => u64::from_le_bytes(take(bytes, at)),
    };
    Value::from_bits(dtype, bits)
}

/// Puts an element at a byte.
fn write_value(bytes: &mut [u8], at: usize, value: Value) {
    let size = value.dtype().size();
    bytes[at..at + size].copy_from_slice(&value.to_bits().to_le_bytes()[..size]);
}
