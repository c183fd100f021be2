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

/// One slice of a tile: initialised elements of a compute dtype.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) data: *mut u8,
    pub(crate) len: usize,
    pub(crate) dtype: DType,
}

/// The arguments of one call of a stage.
pub struct Tile<'a> {
    len: usize,
    inputs: &'a [Slot],
    outputs: &'a mut [Slot],
    scalars: &'a [Value],
    faults: &'a mut [usize],
    slices: PhantomData<&'a mut [u8]>,
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

impl<'a> Tile<'a> {
    /// A tile of `len` positions.
    ///
    /// # Safety
    /// For `'a` every slot points to `len` initialised elements of its dtype (of [`Slot::len`] in combiners), aligned;
    /// no output overlaps another slot, and nothing else touches the outputs.
    #[inline(always)]
    pub(crate) unsafe fn new(
        len: usize,
        inputs: &'a [Slot],
        outputs: &'a mut [Slot],
        scalars: &'a [Value],
        faults: &'a mut [usize],
    ) -> Self {
        Tile { len, inputs, outputs, scalars, faults, slices: PhantomData }
    }

    /// The positions of the tile.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the tile has no positions.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The input of that number.
    ///
    /// # Panics
    /// If the stage and the engine disagree on its slots, which the program's construction excludes.
    #[inline(always)]
    pub fn input<T: Element>(&self, k: usize) -> &'a [T] {
        let slot = self.inputs[k];
        assert!(slot.dtype == T::DTYPE, "a stage reads its tile as another type");
        // SAFETY: by the contract of `new` the slot holds `len` elements of T, and no output overlaps it.
        unsafe { std::slice::from_raw_parts(slot.data.cast(), slot.len) }
    }

    /// The output of that number; once.
    ///
    /// # Panics
    /// If the stage and the engine disagree on its slots, or if it is taken twice.
    #[inline(always)]
    pub fn output<T: Element>(&mut self, k: usize) -> &'a mut [T] {
        let slot = &mut self.outputs[k];
        assert!(slot.dtype == T::DTYPE, "a stage writes its tile as another type");
        let data = std::mem::replace(&mut slot.data, std::ptr::null_mut());
        assert!(!data.is_null(), "an output is taken once");
        // SAFETY: by the contract of `new` the slot holds `len` elements of T that nothing else touches, and the null
        // left behind keeps this from being handed out again.
        unsafe { std::slice::from_raw_parts_mut(data.cast(), slot.len) }
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

    /// Reports, for each value of the stage that may fault, the first position that did, or `usize::MAX`.
    #[inline(always)]
    pub fn report_faults(&mut self, first: &[usize]) {
        for (mine, theirs) in self.faults.iter_mut().zip(first) {
            *mine = (*mine).min(*theirs);
        }
    }
}
