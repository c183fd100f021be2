//! Vectors of f32 as the instruction sets have them, for the loops that are written by hand.
//!
//! Such a loop is generic over its vector and compiled inside a function that has the instruction set.

/// A vector of f32.
///
/// # Safety
/// Every method needs the instruction set of the vector; those with a pointer touch `WIDTH` elements there, or the first ones
/// that they are told to.
pub(crate) trait Vector: Copy {
    /// Lanes.
    const WIDTH: usize;
    /// Some of the lanes.
    type Lanes: Copy;

    /// The first `count` lanes.
    unsafe fn first(count: usize) -> Self::Lanes;
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    /// Zeros in the other lanes.
    unsafe fn load_lanes(from: *const f32, lanes: Self::Lanes) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn store_lanes(self, to: *mut f32, lanes: Self::Lanes);
    unsafe fn add(self, other: Self) -> Self;
    /// `self * factor + addend`, rounded once where the instruction set has that.
    unsafe fn multiply_add(self, factor: Self, addend: Self) -> Self;
}

/// Four lanes for any processor; compilers make vectors of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain([f32; 4]);

impl Vector for Plain {
    const WIDTH: usize = 4;
    type Lanes = usize;

    #[inline(always)]
    unsafe fn first(count: usize) -> usize {
        count
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Plain([x; 4])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: by the contract, as in every method.
        unsafe { Plain(from.cast::<[f32; 4]>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn load_lanes(from: *const f32, lanes: usize) -> Self {
        let mut lane = [0.0; 4];
        for (k, x) in lane.iter_mut().enumerate().take(lanes) {
            // SAFETY: as above.
            *x = unsafe { *from.add(k) };
        }
        Plain(lane)
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as above.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_lanes(self, to: *mut f32, lanes: usize) {
        for (k, x) in self.0.into_iter().enumerate().take(lanes) {
            // SAFETY: as above.
            unsafe { *to.add(k) = x };
        }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Plain(std::array::from_fn(|k| self.0[k] + other.0[k]))
    }
    #[inline(always)]
    unsafe fn multiply_add(self, factor: Self, addend: Self) -> Self {
        // Without the instruction a fused multiplication is a call.
        let fused = cfg!(target_arch = "aarch64");
        let one = |k: usize| match fused {
            true => self.0[k].mul_add(factor.0[k], addend.0[k]),
            false => self.0[k] * factor.0[k] + addend.0[k],
        };
        Plain(std::array::from_fn(one))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::instruction_set::first_lanes;
    use super::Vector;
    use std::arch::x86_64::*;

    impl Vector for __m512 {
        const WIDTH: usize = 16;
        type Lanes = __mmask16;

        #[inline(always)]
        unsafe fn first(count: usize) -> __mmask16 {
            first_lanes(count)
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: by the contract, as in every method.
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn load_lanes(from: *const f32, lanes: __mmask16) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_maskz_loadu_ps(lanes, from) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: as above.
            unsafe { _mm512_storeu_ps(to, self) }
        }
        #[inline(always)]
        unsafe fn store_lanes(self, to: *mut f32, lanes: __mmask16) {
            // SAFETY: as above.
            unsafe { _mm512_mask_storeu_ps(to, lanes, self) }
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_add_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn multiply_add(self, factor: Self, addend: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_fmadd_ps(self, factor, addend) }
        }
    }

    impl Vector for __m256 {
        const WIDTH: usize = 8;
        type Lanes = __m256i;

        #[inline(always)]
        unsafe fn first(count: usize) -> __m256i {
            /// A window of eight that begins `count` before the middle begins with `count` bits of sign.
            const SIGNS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
            // SAFETY: the window lies in the array for every count of lanes.
            unsafe { _mm256_loadu_si256(SIGNS.as_ptr().add(8 - count).cast()) }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: by the contract, as in every method.
            unsafe { _mm256_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn load_lanes(from: *const f32, lanes: __m256i) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_maskload_ps(from, lanes) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: as above.
            unsafe { _mm256_storeu_ps(to, self) }
        }
        #[inline(always)]
        unsafe fn store_lanes(self, to: *mut f32, lanes: __m256i) {
            // SAFETY: as above.
            unsafe { _mm256_maskstore_ps(to, lanes, self) }
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_add_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn multiply_add(self, factor: Self, addend: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_fmadd_ps(self, factor, addend) }
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::super::instruction_set::InstructionSet;
    use super::*;
    use std::arch::x86_64::{__m256, __m512};

    /// # Safety
    /// The processor has the instruction set.
    unsafe fn check<V: Vector>() {
        let from: Vec<f32> = (1..=V::WIDTH).map(|k| k as f32).collect();
        for count in 0..=V::WIDTH {
            let mut to = vec![-1.0; V::WIDTH];
            // SAFETY: by the contract; only the first lanes are touched.
            unsafe {
                let lanes = V::first(count);
                let x = V::load_lanes(from[..count].as_ptr(), lanes);
                let y = x.multiply_add(V::splat(2.0), V::splat(0.5)).add(V::load(from.as_ptr()));
                y.store_lanes(to.as_mut_ptr(), lanes);
            }
            let want = |k: usize| if k < count { 3.0 * from[k] + 0.5 } else { -1.0 };
            assert!((0..V::WIDTH).all(|k| to[k] == want(k)), "{count}: {to:?}");
        }
    }

    #[test]
    fn only_the_lanes_that_are_named_are_touched() {
        let sets = InstructionSet::available();
        // SAFETY: the processor has the instruction sets.
        unsafe {
            check::<Plain>();
            if sets.contains(&InstructionSet::Avx2) {
                check::<__m256>();
            }
            if sets.contains(&InstructionSet::Avx512) {
                check::<__m512>();
            }
        }
    }
}
