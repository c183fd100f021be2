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

/// The states of the storages of several calls, each taken once, until they are dropped.
pub(crate) struct AllBorrows<'a>(Vec<(&'a Arc<Storage>, bool)>);

/// Takes the memory of calls that are made as one, for writing what any of them writes.
pub(crate) fn borrow_all<'a>(
    calls: impl Iterator<Item = (&'a Arc<Loaded>, &'a (Vec<Arg<'a>>, Vec<Arg<'a>>))>,
) -> Result<AllBorrows<'a>, Error> {
    let mut wanted: Vec<(&Arc<Storage>, bool, &Loaded, usize)> = Vec::new();
    for (loaded, (args, results)) in calls {
        for (k, arg) in args.iter().chain(results).enumerate() {
            let Some(tensor) = arg.as_tensor() else { continue };
            match wanted.iter_mut().find(|w| Arc::ptr_eq(w.0, tensor.storage)) {
                Some(found) => found.1 |= tensor.written,
                None => wanted.push((tensor.storage, tensor.written, loaded, k)),
            }
        }
    }
    let mut taken = AllBorrows(Vec::with_capacity(wanted.len()));
    for (storage, written, loaded, k) in wanted {
        let state = if written { storage.try_write() } else { storage.try_read() };
        state.map_err(|InUse { written }| Error::InUse {
            argument: Some((loaded.kernel().name.clone(), loaded.argument_name(k))),
            written,
        })?;
        taken.0.push((storage, written));
    }
    Ok(taken)
}

impl Drop for AllBorrows<'_> {
    fn drop(&mut self) {
        for (storage, written) in &self.0 {
            if *written { storage.end_write() } else { storage.end_read() }
        }
    }
}
