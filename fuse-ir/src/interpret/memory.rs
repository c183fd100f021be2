//! The buffers of a call, with a mark on every element of who wrote and who read it.

use super::{AccessError, InterpretError};
use crate::dtype::{DType, Value};
use crate::eval::{Array, Input, Inputs, Outputs};
use crate::graph::{OutputTarget, ParamKind};
use crate::id::{AxisId, GroupId, ParamId, TempId};
use crate::program::Program;
use crate::schedule::BufferRef;
use std::collections::BTreeMap;

/// When in a launch an access happens. Positions of the outer axes have no order among them; the phases of one outer
/// position do; the positions of one sweep have none again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    pub(super) launch: u32,
    pub(super) group: GroupId,
    /// The outer position, row-major; [`UNIFORM`] for what happens once.
    pub(super) outer: i64,
    /// Prologue, sweep, epilogue, sweep, epilogue and so on.
    pub(super) phase: u32,
    /// The reduced position in a sweep; −1 before and after.
    pub(super) inner: i64,
}

/// The outer position of what happens once for a launch.
pub(super) const UNIFORM: i64 = -1;

/// The reads of an element in the last launch that read it.
#[derive(Clone, Copy, Debug)]
struct Reads {
    last: Stamp,
    many_outer: bool,
    many_inner: bool,
}

#[derive(Clone, Debug)]
struct Cell {
    value: Option<Value>,
    owner: BufferRef,
    written: Option<Stamp>,
    reads: Option<Reads>,
}

#[derive(Clone, Debug)]
struct Buffer {
    memory: usize,
    dtype: DType,
    shape: Vec<usize>,
    mutable: bool,
    /// For each element whether it was written through this buffer; of parameters, in the present launch.
    written: Vec<Option<u32>>,
}

/// All buffers of a call.
pub(super) struct Memory {
    cells: Vec<Vec<Cell>>,
    buffers: BTreeMap<BufferRef, Buffer>,
}

impl Memory {
    /// Parameters with their contents, results and temporaries without any.
    pub(super) fn allocate(program: &Program, inputs: &Inputs, extents: &[i64]) -> Result<Memory, String> {
        let mut memory = Memory { cells: Vec::new(), buffers: BTreeMap::new() };
        let kernel = &program.kernel;
        for (i, (param, input)) in kernel.params.iter().zip(&inputs.0).enumerate() {
            if let (ParamKind::Tensor { mutable, .. }, Input::Tensor(array)) = (&param.kind, input) {
                let buffer = BufferRef::Param(ParamId::from_index(i));
                let contents = array.data.iter().map(|&v| Some(v)).collect();
                memory.insert(buffer, array.dtype, array.shape.clone(), *mutable, contents);
            }
        }
        let shape =
            |axes: &[AxisId]| axes.iter().map(|a| extents[a.index()] as usize).collect::<Vec<usize>>();
        let mut empty = |buffer, dtype, shape: Vec<usize>| {
            let count = shape.iter().try_fold(1usize, |n, &e| n.checked_mul(e));
            let count = count.ok_or_else(|| format!("{buffer:?} of shape {shape:?} is too large"))?;
            memory.insert(buffer, dtype, shape, true, vec![None; count]);
            Ok::<(), String>(())
        };
        for output in &kernel.outputs {
            if let OutputTarget::Result { index, axes } = &output.target {
                empty(BufferRef::Result(*index), kernel.node(output.value).ty.dtype, shape(axes))?;
            }
        }
        for (i, temp) in program.plan.temps.iter().enumerate() {
            empty(BufferRef::Temp(TempId::from_index(i)), temp.dtype, shape(&temp.axes))?;
        }
        Ok(memory)
    }

    fn insert(
        &mut self,
        buffer: BufferRef,
        dtype: DType,
        shape: Vec<usize>,
        mutable: bool,
        contents: Vec<Option<Value>>,
    ) {
        let written = vec![None; contents.len()];
        let cell = |value| Cell { value, owner: buffer, written: None, reads: None };
        self.cells.push(contents.into_iter().map(cell).collect());
        let memory = self.cells.len() - 1;
        self.buffers.insert(buffer, Buffer { memory, dtype, shape, mutable, written });
    }

    fn buffer(&self, buffer: BufferRef) -> Result<&Buffer, String> {
        self.buffers.get(&buffer).ok_or_else(|| format!("{buffer:?} does not exist"))
    }

    /// From now on `written` lives in the memory of `read`.
    pub(super) fn take_over(&mut self, written: BufferRef, read: BufferRef) -> Result<(), String> {
        let (to, from) = (self.buffer(written)?, self.buffer(read)?);
        if to.written.len() != from.written.len() || to.dtype.size() != from.dtype.size() {
            return Err(format!("{written:?} does not fit in the memory of {read:?}"));
        }
        if to.written.iter().any(Option::is_some) {
            return Err(format!("{written:?} takes over memory after it was written"));
        }
        let memory = from.memory;
        if let Some(to) = self.buffers.get_mut(&written) {
            to.memory = memory;
        }
        Ok(())
    }

    fn locate(&self, buffer: BufferRef, position: &[i64]) -> Result<(usize, usize), AccessError> {
        let Some(b) = self.buffers.get(&buffer) else { return Err(AccessError::OutOfBounds) };
        if position.len() != b.shape.len() {
            return Err(AccessError::OutOfBounds);
        }
        let mut at = 0;
        for (&p, &extent) in position.iter().zip(&b.shape) {
            let inside = usize::try_from(p).ok().filter(|&p| p < extent);
            at = at * extent + inside.ok_or(AccessError::OutOfBounds)?;
        }
        Ok((b.memory, at))
    }

    /// The element at `position`.
    pub(super) fn read(
        &mut self,
        stamp: Stamp,
        buffer: BufferRef,
        position: &[i64],
    ) -> Result<Value, InterpretError> {
        let access =
            |kind| InterpretError::Access { group: stamp.group, buffer, position: position.to_vec(), kind };
        let (memory, at) = self.locate(buffer, position).map_err(access)?;
        let cell = &mut self.cells[memory][at];
        if cell.written.is_some_and(|w| have_no_order(w, stamp)) {
            return Err(access(AccessError::Race));
        }
        let Some(value) = cell.value else { return Err(access(AccessError::Uninitialised)) };
        if cell.owner != buffer {
            return Err(access(AccessError::Overwritten));
        }
        let mut reads = Reads { last: stamp, many_outer: false, many_inner: false };
        if let Some(before) = cell.reads.filter(|r| r.last.launch == stamp.launch) {
            let outer_differs = before.last.group != stamp.group || before.last.outer != stamp.outer;
            reads.many_outer = before.many_outer || outer_differs;
            let same_phase = before.last.phase == stamp.phase;
            reads.many_inner = same_phase && (before.many_inner || before.last.inner != stamp.inner);
        }
        cell.reads = Some(reads);
        Ok(value)
    }

    /// Writes the element at `position`.
    pub(super) fn write(
        &mut self,
        stamp: Stamp,
        buffer: BufferRef,
        position: &[i64],
        value: Value,
    ) -> Result<(), InterpretError> {
        let access =
            |kind| InterpretError::Access { group: stamp.group, buffer, position: position.to_vec(), kind };
        let (memory, at) = self.locate(buffer, position).map_err(access)?;
        let Some(b) = self.buffers.get_mut(&buffer).filter(|b| b.mutable) else {
            return Err(access(AccessError::NotMutable));
        };
        // A parameter may be written again by a later launch, anything else only once.
        let again = match buffer {
            BufferRef::Param(_) => b.written[at] == Some(stamp.launch),
            BufferRef::Result(_) | BufferRef::Temp(_) => b.written[at].is_some(),
        };
        if again {
            return Err(access(AccessError::WrittenTwice));
        }
        b.written[at] = Some(stamp.launch);
        let cell = &mut self.cells[memory][at];
        let races_with_read = cell.reads.is_some_and(|r| {
            r.last.launch == stamp.launch
                && (r.many_outer
                    || have_no_order(r.last, stamp)
                    || (r.last.phase == stamp.phase && r.many_inner))
        });
        if races_with_read || cell.written.is_some_and(|w| have_no_order(w, stamp)) {
            return Err(access(AccessError::Race));
        }
        *cell = Cell { value: Some(value), owner: buffer, written: Some(stamp), reads: cell.reads };
        Ok(())
    }

    /// The results and the `&mut` parameters.
    pub(super) fn into_outputs(self) -> Result<Outputs, InterpretError> {
        let mut outputs = Outputs::default();
        for (&id, buffer) in &self.buffers {
            let cells = &self.cells[buffer.memory];
            let array = |data| Array { dtype: buffer.dtype, shape: buffer.shape.clone(), data };
            match id {
                BufferRef::Result(result) => {
                    let missing =
                        buffer.written.iter().zip(cells).position(|(w, c)| w.is_none() || c.owner != id);
                    if let Some(element) = missing {
                        return Err(InterpretError::NotWritten { result, element });
                    }
                    outputs.results.push(array(cells.iter().filter_map(|c| c.value).collect()));
                }
                BufferRef::Param(p) => {
                    if buffer.mutable {
                        outputs.params.push((p, array(cells.iter().filter_map(|c| c.value).collect())));
                    }
                }
                BufferRef::Temp(_) => {}
            }
        }
        Ok(outputs)
    }
}

/// Whether two accesses of one launch may happen in either order.
fn have_no_order(a: Stamp, b: Stamp) -> bool {
    a.launch == b.launch
        && (a.group != b.group || a.outer != b.outer || (a.phase == b.phase && a.inner != b.inner))
}
