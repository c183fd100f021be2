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
    /// The lanes as one, by halving.
    #[inline(always)]
    fn fold(lanes: [T; LANES]) -> T
    where
        Self: Sized,
    {
        fold_in_memory::<T, Self>(lanes)
    }
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

/// With a function for four at a time, where there is one.
macro_rules! float_combiners {
    ($t:ty $(, $four:ident)?) => {
        impl Combine<$t> for Sum {
            const IDENTITY: $t = 0.0;
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { a + b }
            float_combiners! { @fold $t, add $(, $four)? }
        }
        impl Combine<$t> for Prod {
            const IDENTITY: $t = 1.0;
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { a * b }
            float_combiners! { @fold $t, multiply $(, $four)? }
        }
        impl Combine<$t> for Max {
            const IDENTITY: $t = <$t>::NEG_INFINITY;
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { math::maximum(a, b) }
            float_combiners! { @fold $t, maximum $(, $four)? }
        }
        impl Combine<$t> for Min {
            const IDENTITY: $t = <$t>::INFINITY;
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { math::minimum(a, b) }
            float_combiners! { @fold $t, minimum $(, $four)? }
        }
    };
    (@fold $t:ty, $op:ident) => {};
    (@fold $t:ty, $op:ident, $four:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        fn fold(lanes: [$t; LANES]) -> $t { $four::fold(lanes, $four::$op) }
    };
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

float_combiners!(f32, four);
float_combiners!(f64);
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
        let mut carry = C::fold(self.lanes);
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
fn fold_in_memory<T: Copy, C: Combine<T>>(lanes: [T; LANES]) -> T {
    let a: [T; 32] = halve::<T, C, 64, 32>(lanes);
    let a: [T; 16] = black_box(halve::<T, C, 32, 16>(black_box(a)));
    let a: [T; 8] = black_box(halve::<T, C, 16, 8>(a));
    let a: [T; 4] = black_box(halve::<T, C, 8, 4>(a));
    let a: [T; 2] = halve::<T, C, 4, 2>(a);
    C::combine(a[0], a[1])
}

/// Four f32 at a time, with what every x86-64 has: LLVM keeps such vectors in registers and leaves them together.
#[cfg(target_arch = "x86_64")]
mod four {
    use super::LANES;
    use std::arch::x86_64::*;

    #[inline(always)]
    pub(super) fn add(a: __m128, b: __m128) -> __m128 {
        // SAFETY: every x86-64 has SSE2, as in all functions here.
        unsafe { _mm_add_ps(a, b) }
    }

    #[inline(always)]
    pub(super) fn multiply(a: __m128, b: __m128) -> __m128 {
        // SAFETY: as above.
        unsafe { _mm_mul_ps(a, b) }
    }

    /// `math::maximum`: the instruction gives its second operand where one is NaN.
    #[inline(always)]
    pub(super) fn maximum(a: __m128, b: __m128) -> __m128 {
        // SAFETY: as above.
        unsafe { _mm_or_ps(_mm_max_ps(a, b), _mm_cmpunord_ps(a, a)) }
    }

    /// `math::minimum`.
    #[inline(always)]
    pub(super) fn minimum(a: __m128, b: __m128) -> __m128 {
        // SAFETY: as above.
        unsafe { _mm_or_ps(_mm_min_ps(a, b), _mm_cmpunord_ps(a, a)) }
    }

    /// Folds the lanes by halving.
    #[inline(always)]
    pub(super) fn fold(lanes: [f32; LANES], combine: impl Fn(__m128, __m128) -> __m128) -> f32 {
        // SAFETY: as above; each vector is read from four numbers.
        unsafe {
            let mut vectors = [_mm_setzero_ps(); LANES / 4];
            for (vector, four) in vectors.iter_mut().zip(lanes.as_chunks::<4>().0) {
                *vector = _mm_loadu_ps(four.as_ptr());
            }
            let mut half = vectors.len() / 2;
            while half > 0 {
                for i in 0..half {
                    vectors[i] = combine(vectors[i], vectors[i + half]);
                }
                half /= 2;
            }
            let two = combine(vectors[0], _mm_movehl_ps(vectors[0], vectors[0]));
            _mm_cvtss_f32(combine(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_folded_by_halving_whatever_they_hold() {
        fn check<C: Combine<f32>>(lanes: [f32; LANES]) {
            let mut by_halves = lanes;
            let mut half = LANES / 2;
            while half > 0 {
                for i in 0..half {
                    by_halves[i] = C::combine(by_halves[i], by_halves[i + half]);
                }
                half /= 2;
            }
            assert_eq!(C::fold(lanes).to_bits(), by_halves[0].to_bits(), "{lanes:?}");
        }
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 1e-42, f32::MAX];
        for case in 0..500usize {
            let mut lanes = [0.0; LANES];
            for (k, lane) in lanes.iter_mut().enumerate() {
                let number = ((case * 64 + k) as u32).wrapping_mul(0x9E37_79B9);
                *lane = (number >> 8) as f32 / 8192.0 - 1000.0;
                if case % 2 == 1 && number.is_multiple_of(11) {
                    *lane = special[case / 2 % special.len()];
                }
            }
            check::<Sum>(lanes);
            check::<Prod>(lanes);
            check::<Max>(lanes);
            check::<Min>(lanes);
        }
    }
}
