//! How closely each memory is watched: what a launch does with it decides.

use super::code::{AccessCode, Code, Coded, Step};
use super::copies::WIDEST;
use super::memory::{Buffer, GlobalMemory, Pointer};
use super::shadow::{AccessKind, Shadow};
use crate::kernel_ir::Memory;

/// What a launch does with each allocation, from which follows how it is watched.
#[derive(Debug)]
pub(super) struct Needs {
    /// The narrowest access to shared memory.
    pub(super) shared_cell: u64,
    pub(super) shared_atomics: bool,
    pub(super) copies: bool,
    pub(super) buffers: Vec<BufferNeeds>,
}

#[derive(Clone, Debug)]
pub(super) struct BufferNeeds {
    /// The narrowest access.
    pub(super) cell: u64,
    reads: bool,
    writes: bool,
    atomics: bool,
    /// Copies in the background read it.
    copied: bool,
}

impl BufferNeeds {
    fn is_written(&self) -> bool {
        self.writes || self.atomics
    }

    /// Whether writes may meet copies from it.
    pub(super) fn watches_copies(&self) -> bool {
        self.copied && self.is_written()
    }
}

impl Needs {
    pub(super) fn of(code: &Code, pointers: &[Option<Pointer>], buffers: usize) -> Self {
        let nothing =
            BufferNeeds { cell: WIDEST, reads: false, writes: false, atomics: false, copied: false };
        let mut needs = Needs {
            shared_cell: WIDEST,
            shared_atomics: false,
            copies: false,
            buffers: vec![nothing; buffers],
        };
        needs.collect(&code.body, pointers);
        needs
    }

    fn collect(&mut self, steps: &[Coded], pointers: &[Option<Pointer>]) {
        for Coded { step, .. } in steps {
            match step {
                Step::Load { access, .. } | Step::LoadMatrix { access, .. } => {
                    self.add(access, AccessKind::Read, access.width(), pointers);
                }
                Step::Store { access, .. } => {
                    self.add(access, AccessKind::Write, access.width(), pointers);
                }
                Step::Atomic { access, .. } => {
                    self.add(access, AccessKind::Atomic, access.width(), pointers);
                }
                Step::CopyAsync { to, from, valid, .. } => {
                    self.copies = true;
                    self.add(to, AccessKind::Write, to.width(), pointers);
                    // A part of the bytes may be read.
                    let width = if valid.is_some() { from.dtype.size() as u64 } else { from.width() };
                    if let Some(buffer) = self.add(from, AccessKind::Read, width, pointers) {
                        buffer.copied = true;
                    }
                }
                Step::If { then, otherwise, .. } => {
                    self.collect(then, pointers);
                    self.collect(otherwise, pointers);
                }
                Step::Loop { body, .. } => self.collect(body, pointers),
                _ => {}
            }
        }
    }

    fn add(
        &mut self,
        access: &AccessCode,
        kind: AccessKind,
        width: u64,
        pointers: &[Option<Pointer>],
    ) -> Option<&mut BufferNeeds> {
        match access.memory {
            Memory::Shared(_) => {
                self.shared_cell = self.shared_cell.min(width);
                self.shared_atomics |= kind == AccessKind::Atomic;
                None
            }
            Memory::Global(id) => {
                let pointer = pointers.get(id.index()).copied().flatten()?;
                let buffer = &mut self.buffers[pointer.buffer];
                buffer.cell = buffer.cell.min(width);
                match kind {
                    AccessKind::Read => buffer.reads = true,
                    AccessKind::Write => buffer.writes = true,
                    AccessKind::Atomic => buffer.atomics = true,
                }
                Some(buffer)
            }
        }
    }

    /// The shadows of what is written; what is only read needs none.
    pub(super) fn shadows(&self, memory: &GlobalMemory) -> Vec<Option<Shadow>> {
        let shadow = |(needs, buffer): (&BufferNeeds, &Buffer)| {
            let of = || Shadow::new(buffer.bytes.len(), needs.cell, true, needs.reads, needs.atomics);
            needs.is_written().then(of)
        };
        self.buffers.iter().zip(&memory.buffers).map(shadow).collect()
    }
}
