//! What a generated loop is given: slices of one length, scalars, and a place to report faults.

use super::instruction_set::InstructionSet;
use fuse_ir::dtype::{DType, Value};
use std::marker::PhantomData;

/// A compiled stage. Calling it is unsafe because its instruction set must be there.
pub type StageFn = unsafe fn(&mut Tile<'_>);

/// The versions of one stage.
#[derive(Clone, Copy, Debug)]
pub struct StageFns {
    /// For every processor of the architecture.
    pub baseline: StageFn,
    /// For AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    pub avx2: StageFn,
    /// For AVX-512 F, BW, DQ and VL, with what AVX2 machines have.
    #[cfg(target_arch = "x86_64")]
    pub avx512: StageFn,
}

/// The compiled functions of one group, in the order of [`fuse_ir::stage::StagedGroup`].
#[derive(Clone, Copy, Debug)]
pub struct GroupFns {
    /// One for each stage.
    pub stages: &'static [StageFns],
    /// One for each of the user's combiners.
    pub combiners: &'static [StageFns],
    /// All passes over a row, see [`fuse_ir::stage::RowFunction`].
    pub rows: Option<RowFns>,
}

/// The versions of a function of rows. There is none for SSE2: its registers do not hold the lanes of a reduction, so that
/// the stages are as good, and every kernel would carry a third more code for processors that are hardly there.
#[derive(Clone, Copy, Debug)]
pub struct RowFns {
    /// For every processor of the architecture.
    #[cfg(not(target_arch = "x86_64"))]
    pub baseline: StageFn,
    /// For AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    pub avx2: StageFn,
    /// For AVX-512 F, BW, DQ and VL, with what AVX2 machines have.
    #[cfg(target_arch = "x86_64")]
    pub avx512: StageFn,
}

impl StageFns {
    /// The version for an instruction set that this processor has.
    pub(crate) fn select(&self, set: InstructionSet) -> StageFn {
        match set {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => self.avx512,
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => self.avx2,
            #[cfg(not(target_arch = "x86_64"))]
            InstructionSet::Avx512 | InstructionSet::Avx2 => self.baseline,
            InstructionSet::Baseline => self.baseline,
        }
    }
}

impl RowFns {
    /// The version for an instruction set that this processor has, if there is one.
    pub(crate) fn select(&self, set: InstructionSet) -> Option<StageFn> {
        match set {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => Some(self.avx512),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => Some(self.avx2),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Baseline => None,
            #[cfg(not(target_arch = "x86_64"))]
            InstructionSet::Avx512 | InstructionSet::Avx2 | InstructionSet::Baseline => Some(self.baseline),
        }
    }
}

/// One slice of a row, for each row of a tile: initialised elements of a compute dtype.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) data: *mut u8,
    pub(crate) len: usize,
    /// Elements from one row's slice to the next one's.
    pub(crate) row_stride: usize,
    pub(crate) dtype: DType,
}

/// The lanes of a reduction that a stage takes along.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneSlot {
    pub(crate) data: *mut u8,
    pub(crate) dtype: DType,
    /// Lanes of a row.
    pub(crate) width: usize,
    /// Which of the groups of lanes is the first row's; the rows after it go round through `groups`.
    pub(crate) first: usize,
    /// How many groups of lanes there are.
    pub(crate) groups: usize,
}

/// The arguments of one call of a stage: rows of slices.
pub struct Tile<'a> {
    rows: usize,
    len: usize,
    next: usize,
    inputs: &'a [Slot],
    outputs: &'a mut [Slot],
    lanes: &'a [LaneSlot],
    scalars: &'a [Value],
    faults: &'a mut [usize],
    slices: PhantomData<&'a mut [u8]>,
}

/// The slices of one row of a tile.
pub struct Row<'t> {
    index: usize,
    len: usize,
    inputs: &'t [Slot],
    outputs: &'t [Slot],
    lanes: &'t [LaneSlot],
    scalars: &'t [Value],
    faults: &'t mut [usize],
    /// How many outputs were handed out or passed over.
    outputs_taken: usize,
    /// How many lanes were.
    lanes_taken: usize,
}

mod private {
    pub trait Sealed {}
}

/// The types that tiles are made of: [`DType::compute`] of every dtype.
pub trait Element: Copy + private::Sealed + 'static {
    /// The dtype.
    const DTYPE: DType;
    /// The number that a [`Value`] holds, if it is of this type.
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! elements {
    ($($t:ty: $variant:ident),*) => {$(
        impl private::Sealed for $t {}
        impl Element for $t {
            const DTYPE: DType = DType::$variant;
            #[inline(always)]
            fn from_value(value: Value) -> Option<Self> {
                if let Value::$variant(x) = value { Some(x) } else { None }
            }
        }
    )*};
}

elements!(f32: F32, f64: F64, i8: I8, i16: I16, i32: I32, i64: I64, u8: U8, u16: U16, u32: U32, u64: U64, bool: Bool);

/// What a stage or a combiner is called with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileShape {
    pub(crate) rows: usize,
    pub(crate) len: usize,
}

impl<'a> Tile<'a> {
    /// A tile.
    ///
    /// # Safety
    /// For `'a` every slot points to rows of [`Slot::len`] initialised elements of its dtype, aligned, and every lane
    /// slot to `groups * width`; no output or lanes overlap another slot, and nothing else touches them.
    #[inline(always)]
    pub(crate) unsafe fn new(
        shape: TileShape,
        inputs: &'a [Slot],
        outputs: &'a mut [Slot],
        lanes: &'a [LaneSlot],
        scalars: &'a [Value],
        faults: &'a mut [usize],
    ) -> Self {
        let TileShape { rows, len } = shape;
        Tile { rows, len, next: 0, inputs, outputs, lanes, scalars, faults, slices: PhantomData }
    }

    /// The next row, as long as there is one.
    #[inline(always)]
    pub fn next_row(&mut self) -> Option<Row<'_>> {
        if self.next == self.rows {
            return None;
        }
        let index = self.next;
        self.next += 1;
        Some(Row {
            index,
            len: self.len,
            inputs: self.inputs,
            outputs: self.outputs,
            lanes: self.lanes,
            scalars: self.scalars,
            faults: self.faults,
            outputs_taken: 0,
            lanes_taken: 0,
        })
    }
}

impl<'t> Row<'t> {
    /// The positions of the row.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the row has no positions.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The input of that number: an element for each position, or one for the row.
    ///
    /// # Panics
    /// If the stage and the engine disagree on its slots, which the program's construction excludes.
    #[inline(always)]
    pub fn input<T: Element>(&self, k: usize) -> &'t [T] {
        let slot = self.inputs[k];
        assert!(slot.dtype == T::DTYPE, "a stage reads its tile as another type");
        // SAFETY: by the contract of `Tile::new` the row holds `len` elements of T, and no output overlaps it.
        unsafe {
            let data = slot.data.cast::<T>().add(self.index * slot.row_stride);
            std::slice::from_raw_parts(data, slot.len)
        }
    }

    /// The output of that number; outputs are taken in order.
    ///
    /// # Panics
    /// If the stage and the engine disagree on its slots, or if it is taken twice.
    #[inline(always)]
    pub fn output<T: Element>(&mut self, k: usize) -> &'t mut [T] {
        let slot = self.outputs[k];
        assert!(slot.dtype == T::DTYPE, "a stage writes its tile as another type");
        assert!(k >= self.outputs_taken, "outputs are taken once, in order");
        self.outputs_taken = k + 1;
        // SAFETY: by the contract of `Tile::new` the row holds `len` elements of T that nothing else touches, and it is
        // not handed out again during this borrow of the tile.
        unsafe {
            let data = slot.data.cast::<T>().add(self.index * slot.row_stride);
            std::slice::from_raw_parts_mut(data, slot.len)
        }
    }

    /// The lanes of the reduction of that number; lanes are taken in order.
    ///
    /// # Panics
    /// If the stage and the engine disagree on its slots, or if they are taken twice.
    #[inline(always)]
    pub fn lanes<T: Element>(&mut self, k: usize) -> &'t mut [T] {
        let slot = self.lanes[k];
        assert!(slot.dtype == T::DTYPE, "a stage reduces in another type");
        assert!(k >= self.lanes_taken, "lanes are taken once, in order");
        self.lanes_taken = k + 1;
        let group = (slot.first + self.index) % slot.groups;
        // SAFETY: as for `output`.
        unsafe { std::slice::from_raw_parts_mut(slot.data.cast::<T>().add(group * slot.width), slot.width) }
    }

    /// The scalar of that number.
    ///
    /// # Panics
    /// If the stage and the engine disagree on its slots.
    #[inline(always)]
    pub fn scalar<T: Element>(&self, k: usize) -> T {
        match T::from_value(self.scalars[k]) {
            Some(x) => x,
            None => panic!("a stage reads its scalar as another type"),
        }
    }

    /// Reports, for each value of the stage that may fault, the first position of the row that did, or `usize::MAX`.
    #[inline(always)]
    pub fn report_faults(&mut self, first: &[usize]) {
        for (mine, theirs) in self.faults.iter_mut().zip(first) {
            let at = (self.index * self.len).saturating_add(*theirs);
            *mine = (*mine).min(at);
        }
    }
}
