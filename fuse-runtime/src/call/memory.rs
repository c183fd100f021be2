//! The intermediate buffers of a call.

use super::argument::Arg;
use super::{Loaded, buffer_bytes};
use crate::cpu::Buffer;
use crate::device::{Device, Kind};
use crate::error::Error;
use crate::lowered::Place;
use crate::tensor::Storage;
use fuse_ir::lower::is_streamed;
use fuse_ir::program::Program;
use fuse_ir::schedule::{BufferRef, ScheduledGroup};
use std::ptr::NonNull;

/// The intermediate buffers of a call; most calls have none.
pub(super) struct Temps {
    temps: Vec<Temp>,
}

struct Temp {
    /// Owned memory; `None` if the buffer lies in that of another.
    storage: Option<Storage>,
    /// Where it starts, on its device.
    start: *mut u8,
    shape: Vec<usize>,
    strides: Vec<isize>,
}

impl Temps {
    /// Allocates the buffers of the plan. A buffer that is dead when another is written, says the plan, lends its memory
    /// to that one.
    pub(super) fn allocate(
        loaded: &Loaded,
        extents: &[i64],
        results: &[Arg<'_>],
        device: &Device,
    ) -> Result<Temps, Error> {
        let plan = &loaded.plan;
        let mut temps: Vec<Temp> = Vec::with_capacity(plan.temps.len());
        if plan.temps.is_empty() {
            return Ok(Temps { temps });
        }
        let sizes = plan
            .temps
            .iter()
            .map(|temp| buffer_bytes(extents, &temp.axes, temp.dtype))
            .collect::<Result<Vec<usize>, Error>>()?;
        for (k, temp) in plan.temps.iter().enumerate() {
            let shape: Vec<usize> = temp.axes.iter().map(|axis| extents[axis.index()] as usize).collect();
            let strides = contiguous_strides(&shape);
            // The buffer whose memory this one uses: an earlier temp that it takes over, or a result that takes it over.
            let lender = plan.in_place.iter().find_map(|(_, written, read)| match (written, read) {
                (BufferRef::Temp(w), BufferRef::Temp(r)) if w.index() == k && r.index() < k => {
                    (sizes[r.index()] >= sizes[k]).then(|| temps[r.index()].start)
                }
                (BufferRef::Result(w), BufferRef::Temp(r)) if r.index() == k => {
                    result_memory(results.get(*w as usize)?, sizes[k])
                }
                _ => None,
            });
            // Of what a streamed launch makes there are tiles only, in the scratch of its threads or in shared memory.
            let tiles_only =
                temp.streamed && (matches!(device.kind, Kind::Cpu) || is_in_tiles(loaded.plan.program(), k));
            let lender = lender.or(tiles_only.then_some(NonNull::dangling().as_ptr()));
            temps.push(match lender {
                Some(start) => Temp { storage: None, start, shape, strides },
                None => {
                    let storage = Storage::allocate(sizes[k], device)?;
                    Temp { start: storage.start().as_ptr(), storage: Some(storage), shape, strides }
                }
            });
        }
        Ok(Temps { temps })
    }

    /// The buffers as the engine sees them.
    pub(super) fn buffers(&self) -> Vec<Buffer<'_>> {
        debug_assert!(
            self.temps.iter().all(|t| t.storage.as_ref().is_none_or(|s| s.start().as_ptr() == t.start))
        );
        self.temps.iter().map(|temp| Buffer { data: temp.start, strides: &temp.strides }).collect()
    }

    /// The buffers as lowered kernels see them.
    pub(super) fn places(&self) -> Vec<Place<'_>> {
        fn place(t: &Temp) -> Place<'_> {
            Place { address: t.start as u64, shape: &t.shape, strides: &t.strides }
        }
        self.temps.iter().map(place).collect()
    }

    /// The memory that the buffers own, for whoever keeps it.
    pub(super) fn into_storages(self) -> Vec<Storage> {
        self.temps.into_iter().filter_map(|temp| temp.storage).collect()
    }

    /// The memory that the buffers own.
    pub(super) fn storages(&self) -> impl Iterator<Item = &Storage> {
        self.temps.iter().filter_map(|temp| temp.storage.as_ref())
    }
}

/// Whether the launch that makes a buffer between its links has one kernel, which keeps tiles of it.
fn is_in_tiles(program: &Program, temp: usize) -> bool {
    let is = |buffer: BufferRef| matches!(buffer, BufferRef::Temp(t) if t.index() == temp);
    let makes = |group: &&ScheduledGroup| group.links.iter().flat_map(|l| &l.stores).any(|s| is(s.buffer));
    program.plan.groups().find(makes).is_some_and(|group| is_streamed(program, group))
}

/// The memory of a result, if it is contiguous and has that many bytes.
fn result_memory(result: &Arg<'_>, bytes: usize) -> Option<*mut u8> {
    let tensor = result.as_tensor()?;
    let contiguous = crate::tensor::is_contiguous(tensor.shape, tensor.strides);
    let size = tensor.shape.iter().product::<usize>() * tensor.dtype.size();
    if contiguous && size >= bytes { Some(result.buffer()?.data) } else { None }
}

fn contiguous_strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1isize;
    for (stride, &n) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step *= n.max(1) as isize;
    }
    strides
}
