//! The steps of the reduction tree over slices, compiled once for each reducer, dtype and instruction set.
//!
//! A *step* combines data into accumulators in order: `acc[j % width] = acc[j % width] ⊕ data[j]`. With 64 accumulators
//! it is a row in lanes, with `64 · columns` a block of columns, with one it combines partial results; folding lanes is
//! steps of an accumulator's upper half into its lower half. The tree is that of [`fuse_ir::schedule`].

mod arguments;
mod builtin;

use super::instruction_set::InstructionSet;
use super::tile::{Slot, StageFn, Tile, TileShape};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::graph::Reducer;
use fuse_ir::schedule::LANES;
use std::cell::Cell;

pub(crate) use builtin::BuiltinFns;

thread_local! {
    /// Whether a user's combiner has faulted on this thread since it was last asked.
    static FAULTED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a user's combiner has faulted on this thread since the last call.
pub(crate) fn take_combiner_fault() -> bool {
    FAULTED.take()
}

/// The most components of a reduction, positions of `ArgMax` included.
pub(crate) const MAX_COMPONENTS: usize = 8;

/// Pointers to the arrays of a reduction's components.
pub(crate) type Components = [*mut u8; MAX_COMPONENTS];

/// One reduction of a group, ready to run.
#[derive(Clone, Debug)]
pub(crate) struct ReduceExec {
    /// Compute dtypes of the components of accumulators.
    pub(crate) dtypes: Vec<DType>,
    /// The identity of each component.
    pub(crate) identity: Vec<Value>,
    /// Elements are combined from first to last instead of in lanes.
    pub(crate) ordered: bool,
    /// How.
    pub(crate) step: Step,
}

/// The compiled step of a reduction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A reducer of one component that the runtime has.
    Builtin(BuiltinFns),
    /// `ArgMax` and `ArgMin`: value and position. The position of data follows from where it lies.
    Argument(arguments::ArgumentFns),
    /// A user's combiner, compiled in the user's crate.
    User(StageFn),
}

impl ReduceExec {
    /// The reduction of these sources; `None` if the runtime does not have it.
    pub(crate) fn new(
        reducer: &Reducer,
        sources: &[DType],
        combiner: Option<StageFn>,
        set: InstructionSet,
    ) -> Option<ReduceExec> {
        let first = *sources.first()?;
        if let Reducer::User { identity, ordered, .. } = reducer {
            let identity: Vec<Value> = identity.iter().zip(sources).map(|(v, d)| v.cast(*d)).collect();
            let step = Step::User(combiner?);
            if sources.len() > MAX_COMPONENTS || identity.len() != sources.len() {
                return None;
            }
            return Some(ReduceExec { dtypes: sources.to_vec(), identity, ordered: *ordered, step });
        }
        if let Reducer::ArgMax | Reducer::ArgMin = reducer {
            let greatest = *reducer == Reducer::ArgMax;
            let fns = arguments::ArgumentFns::new(greatest, first, set)?;
            let worst = builtin::extreme(first, !greatest)?;
            let identity = vec![worst, Value::I64(i64::MAX)];
            let dtypes = vec![first, DType::I64];
            return Some(ReduceExec { dtypes, identity, ordered: false, step: Step::Argument(fns) });
        }
        let (fns, identity) = BuiltinFns::new(reducer, first, set)?;
        Some(ReduceExec {
            dtypes: vec![first],
            identity: vec![identity],
            ordered: false,
            step: Step::Builtin(fns),
        })
    }

    /// The accumulators of a chunk for each outer position: lanes, or one if elements are combined in order.
    pub(crate) fn lanes(&self) -> usize {
        if self.ordered { 1 } else { LANES }
    }

    /// Sets `len` accumulators from `start` on to the identity.
    ///
    /// # Safety
    /// The arrays have that many elements.
    pub(crate) unsafe fn fill_identity(&self, acc: &Components, start: usize, len: usize) {
        for (k, value) in self.identity.iter().enumerate() {
            // SAFETY: by the contract.
            unsafe { fill(acc[k].add(start * value.dtype().compute().size()), *value, len) };
        }
    }

    /// The arrays from element `start` on.
    ///
    /// # Safety
    /// The arrays have at least `start` elements.
    pub(crate) unsafe fn offset(&self, acc: &Components, start: usize) -> Components {
        let mut moved = *acc;
        for (k, dtype) in self.dtypes.iter().enumerate() {
            // SAFETY: by the contract.
            moved[k] = unsafe { acc[k].add(start * dtype.size()) };
        }
        moved
    }

    /// The data of the sources from element `start` on; a position that follows from the place has no data.
    ///
    /// # Safety
    /// The arrays have at least `start` elements.
    pub(crate) unsafe fn offset_data(&self, data: &Components, start: usize) -> Components {
        let mut moved = *data;
        for (k, dtype) in self.dtypes.iter().enumerate() {
            if !data[k].is_null() {
                // SAFETY: by the contract.
                moved[k] = unsafe { data[k].add(start * dtype.size()) };
            }
        }
        moved
    }

    /// Combines `len` elements of data in order into `width` accumulators. `position` is the reduced position of the
    /// first element, `columns` how many elements in a row have the same position.
    ///
    /// # Safety
    /// The arrays have that many elements and do not overlap.
    pub(crate) unsafe fn step(
        &self,
        acc: &Components,
        width: usize,
        data: &Components,
        len: usize,
        position: i64,
        columns: usize,
    ) {
        // SAFETY: by the contract.
        unsafe {
            match &self.step {
                Step::Builtin(fns) if width == LANES => (fns.lanes)(acc[0], data[0], len),
                Step::Builtin(fns) => (fns.step)(acc[0], width, data[0], len),
                Step::Argument(fns) => {
                    (fns.step)(acc[0], acc[1].cast(), width, data[0], len, position, columns);
                }
                Step::User(_) => self.combine(acc, width, data, len),
            }
        }
    }

    /// Combines accumulators with accumulators: `acc[j % width] ⊕= other[j]`.
    ///
    /// # Safety
    /// The arrays have that many elements and do not overlap.
    pub(crate) unsafe fn combine(&self, acc: &Components, width: usize, other: &Components, len: usize) {
        // SAFETY: by the contract.
        unsafe {
            match &self.step {
                Step::Builtin(fns) => (fns.step)(acc[0], width, other[0], len),
                Step::Argument(fns) => {
                    (fns.combine)(acc[0], acc[1].cast(), width, other[0], other[1].cast(), len);
                }
                Step::User(combiner) => {
                    let slot = |data: *mut u8, len, dtype| Slot { data, len, row_stride: 0, dtype };
                    let mut inputs = [slot(std::ptr::null_mut(), 0, DType::Bool); MAX_COMPONENTS];
                    let mut outputs = inputs;
                    for (k, &dtype) in self.dtypes.iter().enumerate() {
                        inputs[k] = slot(other[k], len, dtype);
                        outputs[k] = slot(acc[k], width, dtype);
                    }
                    let n = self.dtypes.len();
                    let mut fault = [usize::MAX];
                    let shape = TileShape { rows: 1, len };
                    let mut tile = Tile::new(shape, &inputs[..n], &mut outputs[..n], &[], &[], &mut fault);
                    combiner(&mut tile);
                    if fault[0] != usize::MAX {
                        FAULTED.set(true);
                    }
                }
            }
        }
    }

    /// Folds the lanes of `columns` outer positions (lane-major) by halving; the results are the first `columns`.
    /// `lanes` is [`Self::lanes`], or a lower power of two if no position goes to the others: identities change nothing.
    ///
    /// # Safety
    /// The arrays have `lanes * columns` elements.
    pub(crate) unsafe fn fold(&self, acc: &Components, lanes: usize, columns: usize) {
        let mut half = lanes / 2;
        // SAFETY: halves of the accumulators do not overlap.
        unsafe {
            if let (Step::Builtin(fns), LANES, 1) = (&self.step, lanes, columns) {
                return (fns.fold)(acc[0]);
            }
            while half > 0 {
                let upper = self.offset(acc, half * columns);
                self.combine(acc, half * columns, &upper, half * columns);
                half /= 2;
            }
        }
    }
}

/// Sets `len` elements of the value's compute type.
///
/// # Safety
/// `to` has that many elements.
pub(crate) unsafe fn fill(to: *mut u8, value: Value, len: usize) {
    macro_rules! fill {
        ($x:expr, $t:ty) => {
            // SAFETY: by the contract of `fill`.
            unsafe { std::slice::from_raw_parts_mut(to.cast::<$t>(), len) }.fill($x)
        };
    }
    match value {
        Value::F32(x) | Value::F16(x) | Value::Bf16(x) | Value::F8E4M3(x) | Value::F8E5M2(x) => fill!(x, f32),
        Value::F64(x) => fill!(x, f64),
        Value::I8(x) => fill!(x, i8),
        Value::I16(x) => fill!(x, i16),
        Value::I32(x) => fill!(x, i32),
        Value::I64(x) => fill!(x, i64),
        Value::U8(x) => fill!(x, u8),
        Value::U16(x) => fill!(x, u16),
        Value::U32(x) => fill!(x, u32),
        Value::U64(x) => fill!(x, u64),
        Value::Bool(x) => fill!(x, bool),
    }
}
