//! The intermediate buffers of a call.

use super::argument::Arg;
use super::{Loaded, buffer_bytes};
use crate::cpu::Buffer;
use crate::error::Error;
use crate::tensor::Storage;
use fuse_ir::id::AxisId;
use fuse_ir::schedule::BufferRef;

/// The intermediate buffers of a call; most calls have none.
pub(super) struct Temps {
    temps: Vec<Temp>,
}

struct Temp {
    /// Owned memory; `None` if the buffer lies in that of another.
    storage: Option<Storage>,
    start: *mut u8,
    strides: Vec<isize>,
}

impl Temps {
    /// Allocates the buffers of the plan. A buffer that is dead when another is written, says the plan, lends its memory
    /// to that one.
    pub(super) fn allocate(loaded: &Loaded, extents: &[i64], results: &[Arg<'_>]) -> Result<Temps, Error> {
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
            let strides = contiguous_strides(extents, &temp.axes);
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
            temps.push(match lender {
                Some(start) => Temp { storage: None, start, strides },
                None => {
                    let storage = Storage::allocate(sizes[k])?;
                    Temp { start: storage.start().as_ptr(), storage: Some(storage), strides }
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
}

/// The memory of a result, if it is contiguous and has that many bytes.
fn result_memory(result: &Arg<'_>, bytes: usize) -> Option<*mut u8> {
    let tensor = result.as_tensor()?;
    let contiguous = crate::tensor::is_contiguous(tensor.shape, tensor.strides);
    let size = tensor.shape.iter().product::<usize>() * tensor.dtype.size();
    if contiguous && size >= bytes { Some(result.buffer()?.data) } else { None }
}

fn contiguous_strides(extents: &[i64], axes: &[AxisId]) -> Vec<isize> {
    let mut strides = vec![0; axes.len()];
    let mut step = 1isize;
    for (stride, axis) in strides.iter_mut().zip(axes).rev() {
        *stride = step;
        step *= extents[axis.index()].max(1) as isize;
    }
    strides
}
