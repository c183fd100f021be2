//! How two elements become one, for the reducers that the runtime has: the step of the reduction tree, which the engine
//! and generated loops share.

use crate::math;
use fuse_ir::schedule::{CHUNK, LANES};
use std::hint::black_box;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

pub use super::prefetch::ask_ahead;

/// A reducer over elements of a type.
pub trait Combine<T: Copy> {
    /// What changes nothing.
    const IDENTITY: T;
    /// The two as one.
    fn combine(a: T, b: T) -> T;
}

/// The sum; integers wrap.
#[derive(Clone, Copy, Debug)]
pub struct Sum;

/// The product; integers wrap.
#[derive(Clone, Copy, Debug)]
pub struct Prod;

/// The greatest; NaN if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Max;

/// The least; NaN if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Min;

/// Whether any is true.
#[derive(Clone, Copy, Debug)]
pub struct Any;

/// Whether all are true.
#[derive(Clone, Copy, Debug)]
pub struct All;

macro_rules! float_combiners {
    ($($t:ty),*) => {$(
        impl Combine<$t> for Sum {
            const IDENTITY: $t = 0.0;
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { a + b }
        }
        impl Combine<$t> for Prod {
            const IDENTITY: $t = 1.0;
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { a * b }
        }
        impl Combine<$t> for Max {
            const IDENTITY: $t = <$t>::NEG_INFINITY;
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { math::maximum(a, b) }
        }
        impl Combine<$t> for Min {
            const IDENTITY: $t = <$t>::INFINITY;
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { math::minimum(a, b) }
        }
    )*};
}

macro_rules! integer_combiners {
    ($($t:ty),*) => {$(
        impl Combine<$t> for Sum {
            const IDENTITY: $t = 0;
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { a.wrapping_add(b) }
        }
        impl Combine<$t> for Prod {
            const IDENTITY: $t = 1;
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { a.wrapping_mul(b) }
        }
        impl Combine<$t> for Max {
            const IDENTITY: $t = <$t>::MIN;
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { if a > b { a } else { b } }
        }
        impl Combine<$t> for Min {
            const IDENTITY: $t = <$t>::MAX;
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { if a < b { a } else { b } }
        }
    )*};
}

float_combiners!(f32, f64);
integer_combiners!(i8, i16, i32, i64, u8, u16, u32, u64);

impl Combine<bool> for Any {
    const IDENTITY: bool = false;
    #[inline(always)]
    fn combine(a: bool, b: bool) -> bool {
        a | b
    }
}

impl Combine<bool> for All {
    const IDENTITY: bool = true;
    #[inline(always)]
    fn combine(a: bool, b: bool) -> bool {
        a & b
    }
}

/// The reduction tree of a row, chunk by chunk: that of [`fuse_ir::schedule`].
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Tree<T, C> {
    // First, so that vectors of lanes do not straddle cache lines.
    lanes: [T; LANES],
    /// Chunks waiting for their neighbours, by level: initialised where `chunks` has a bit.
    stack: [MaybeUninit<T>; LEVELS],
    chunks: usize,
    reducer: PhantomData<C>,
}

/// Levels of a tree over as many chunks as there are addresses.
const LEVELS: usize = (usize::BITS - CHUNK.ilog2()) as usize;

impl<T: Copy, C: Combine<T>> Tree<T, C> {
    /// Of nothing yet.
    #[inline(always)]
    #[allow(clippy::new_without_default, reason = "generated code names the types")]
    pub fn new() -> Self {
        Tree {
            lanes: [C::IDENTITY; LANES],
            stack: [const { MaybeUninit::uninit() }; LEVELS],
            chunks: 0,
            reducer: PhantomData,
        }
    }

    /// The lanes of the chunk: position `i` is combined into lane `i % 64`.
    #[inline(always)]
    pub fn lanes(&mut self) -> &mut [T; LANES] {
        &mut self.lanes
    }

    /// Folds the lanes, and combines the chunk with those before it of its size: adjacent pairs, level by level.
    #[inline(always)]
    pub fn close_chunk(&mut self) {
        let mut carry = fold_lanes::<T, C>(self.lanes);
        let mut level = 0;
        while self.chunks >> level & 1 == 1 {
            // SAFETY: the bit is set.
            carry = C::combine(unsafe { self.stack[level].assume_init() }, carry);
            level += 1;
        }
        self.stack[level].write(carry);
        self.chunks += 1;
        self.lanes = [C::IDENTITY; LANES];
    }

    /// All of the row.
    #[inline(always)]
    pub fn finish(&self) -> T {
        let mut result = None;
        let mut left = self.chunks;
        while left != 0 {
            // SAFETY: the bit is set.
            let of_level = unsafe { self.stack[left.trailing_zeros() as usize].assume_init() };
            result = Some(result.map_or(of_level, |right| C::combine(of_level, right)));
            left &= left - 1;
        }
        result.unwrap_or(C::IDENTITY)
    }
}

/// The elements of a block of lanes from `start` on.
#[inline(always)]
pub fn block<T>(slice: &[T], start: usize) -> &[T; LANES] {
    slice[start..].first_chunk().expect("a whole block")
}

/// The elements of a block of lanes from `start` on.
#[inline(always)]
pub fn block_mut<T>(slice: &mut [T], start: usize) -> &mut [T; LANES] {
    slice[start..].first_chunk_mut().expect("a whole block")
}

#[inline(always)]
fn halve<T: Copy, C: Combine<T>, const N: usize, const M: usize>(a: [T; N]) -> [T; M] {
    let mut folded = [C::IDENTITY; M];
    for i in 0..M {
        folded[i] = C::combine(a[i], a[i + M]);
    }
    folded
}

/// Folds the lanes by halving. Between the halvings the lanes lie in memory: LLVM otherwise takes the whole tree for one
/// expression of scalars, of which it makes shuffles by the hundred.
#[inline(always)]
pub(crate) fn fold_lanes<T: Copy, C: Combine<T>>(lanes: [T; LANES]) -> T {
    let a: [T; 32] = halve::<T, C, 64, 32>(lanes);
    let a: [T; 16] = black_box(halve::<T, C, 32, 16>(black_box(a)));
    let a: [T; 8] = black_box(halve::<T, C, 16, 8>(a));
    let a: [T; 4] = black_box(halve::<T, C, 8, 4>(a));
    let a: [T; 2] = halve::<T, C, 4, 2>(a);
    C::combine(a[0], a[1])
}
