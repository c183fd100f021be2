//! Taking the memory of a call's tensors, so that safe code cannot race.

use super::Loaded;
use super::argument::{Arg, TensorArg};
use crate::error::Error;
use crate::tensor::{InUse, Storage, overlap, overlaps_itself};
use std::sync::Arc;

/// The states of all storages of a call, until it is dropped.
pub(super) struct Borrows<'a> {
    args: &'a [Arg<'a>],
    results: &'a [Arg<'a>],
    /// How many, arguments first, have been looked at and taken.
    taken: usize,
}

impl<'a> Borrows<'a> {
    /// Takes each storage once, for writing if any argument writes it. No output may share an element with another
    /// argument or with itself. Nothing stays taken after an error.
    pub(super) fn take(
        loaded: &Loaded,
        args: &'a [Arg<'a>],
        results: &'a [Arg<'a>],
    ) -> Result<Borrows<'a>, Error> {
        let mut borrows = Borrows { args, results, taken: 0 };
        for k in 0..borrows.len() {
            if let Some((tensor, written)) = borrows.first_of_storage(k) {
                let state = if written { tensor.storage.try_write() } else { tensor.storage.try_read() };
                state.map_err(|InUse { written }| Error::InUse {
                    argument: Some((loaded.kernel().name.clone(), loaded.argument_name(k))),
                    written,
                })?;
            }
            borrows.taken = k + 1;
        }
        borrows.check_overlap(loaded)?;
        Ok(borrows)
    }

    fn len(&self) -> usize {
        self.args.len() + self.results.len()
    }

    fn get(&self, k: usize) -> Option<&TensorArg<'a>> {
        let n = self.args.len();
        if k < n { &self.args[k] } else { &self.results[k - n] }.as_tensor()
    }

    /// The tensor of that number, if it is the first with its storage, and whether any with that storage is written.
    fn first_of_storage(&self, k: usize) -> Option<(&TensorArg<'a>, bool)> {
        let tensor = self.get(k)?;
        let same = |other: &&TensorArg<'_>| Arc::ptr_eq(other.storage, tensor.storage);
        if (0..k).filter_map(|j| self.get(j)).any(|other| same(&other)) {
            return None;
        }
        let written = (k..self.len()).filter_map(|j| self.get(j)).filter(same).any(|other| other.written);
        Some((tensor, written))
    }

    fn check_overlap(&self, loaded: &Loaded) -> Result<(), Error> {
        let name = |k| loaded.argument_name(k);
        for k in 0..self.len() {
            let Some(output) = self.get(k).filter(|tensor| tensor.written) else { continue };
            if overlaps_itself(output.shape, output.strides) {
                return Err(Error::SelfOverlap { kernel: loaded.kernel().name.clone(), argument: name(k) });
            }
            for j in (0..self.len()).filter(|&j| j != k) {
                let Some(other) = self.get(j) else { continue };
                if Arc::ptr_eq(other.storage, output.storage) && overlap(output.region(), other.region()) {
                    return Err(Error::Overlap {
                        kernel: loaded.kernel().name.clone(),
                        argument: name(k),
                        other: name(j),
                    });
                }
            }
        }
        Ok(())
    }
}

impl Drop for Borrows<'_> {
    fn drop(&mut self) {
        // Which storages are taken, and how, follows from the arguments alone.
        for k in 0..self.taken {
            match self.first_of_storage(k) {
                Some((tensor, true)) => tensor.storage.end_write(),
                Some((tensor, false)) => tensor.storage.end_read(),
                None => {}
            }
        }
    }
}

/// Storages whose states are taken one after the other, until it is dropped. Each may be taken once.
pub(crate) struct TakenStorages(Vec<(Arc<Storage>, bool)>);

impl TakenStorages {
    /// None yet, with room for that many.
    pub(crate) fn with_capacity(count: usize) -> TakenStorages {
        TakenStorages(Vec::with_capacity(count))
    }

    /// Takes one, for writing or for reading.
    pub(crate) fn take(&mut self, storage: Arc<Storage>, written: bool) -> Result<(), InUse> {
        if written { storage.try_write() } else { storage.try_read() }?;
        self.0.push((storage, written));
        Ok(())
    }
}

impl Drop for TakenStorages {
    fn drop(&mut self) {
        for (storage, written) in &self.0 {
            if *written { storage.end_write() } else { storage.end_read() }
        }
    }
}
