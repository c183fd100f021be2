//! Conversions of whole slices, compiled here once and dispatched to the best instruction set at run time.

use super::eight_bit::{F8E4M3, F8E5M2};
use super::half_precision::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use half::{bf16, f16};

/// Declares a slice conversion: the same loop for the baseline and, on x86-64, for AVX2 and AVX-512.
macro_rules! convert_slices {
    ($(#[doc = $doc:literal] $name:ident: $from:ty => $to:ty, |$x:ident| $value:expr;)*) => {$(
        #[doc = $doc]
        ///
        /// Converts as many elements as both slices have.
        pub fn $name(from: &[$from], to: &mut [$to]) {
            #[inline(always)]
            fn convert(from: &[$from], to: &mut [$to]) {
                for (to, from) in to.iter_mut().zip(from) {
                    let $x = *from;
                    *to = $value;
                }
            }
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
                fn convert_avx512(from: &[$from], to: &mut [$to]) {
                    convert(from, to);
                }
                #[target_feature(enable = "avx2,fma")]
                fn convert_avx2(from: &[$from], to: &mut [$to]) {
                    convert(from, to);
                }
                if has_avx512() {
                    // SAFETY: the features were detected.
                    return unsafe { convert_avx512(from, to) };
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the features were detected.
                    return unsafe { convert_avx2(from, to) };
                }
            }
            convert(from, to);
        }
    )*};
}

/// Whether the AVX-512 subset that the loops here are compiled for is there.
#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
}

convert_slices! {
    #[doc = "Widens bf16 to f32, exactly."]
    widen_bf16: bf16 => f32, |x| bf16_to_f32(x.to_bits());
    #[doc = "Rounds f32 to bf16, ties to even."]
    narrow_bf16: f32 => bf16, |x| bf16::from_bits(f32_to_bf16(x));
    #[doc = "Widens f8e4m3 to f32, exactly."]
    widen_f8e4m3: F8E4M3 => f32, |x| x.to_f32();
    #[doc = "Rounds f32 to f8e4m3, ties to even, saturating."]
    narrow_f8e4m3: f32 => F8E4M3, |x| F8E4M3::from_f32(x);
    #[doc = "Widens f8e5m2 to f32, exactly."]
    widen_f8e5m2: F8E5M2 => f32, |x| x.to_f32();
    #[doc = "Rounds f32 to f8e5m2 as a cast does; but infinities, which only loads bring here, stay."]
    narrow_f8e5m2: f32 => F8E5M2, |x| {
        let infinity = 0x7c | (x.to_bits() >> 24) as u8 & 0x80;
        F8E5M2::from_bits(if x.is_infinite() { infinity } else { F8E5M2::from_f32(x).to_bits() })
    };
}

/// Widens f16 to f32, exactly.
///
/// Converts as many elements as both slices have.
pub fn widen_f16(from: &[f16], to: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("f16c") && is_x86_feature_detected!("avx") {
        // SAFETY: the features were detected.
        return unsafe { f16c::widen(from, to) };
    }
    for (to, from) in to.iter_mut().zip(from) {
        *to = f16_to_f32(from.to_bits());
    }
}

/// Rounds f32 to f16, ties to even; what is too large becomes infinite.
///
/// Converts as many elements as both slices have.
pub fn narrow_f16(from: &[f32], to: &mut [f16]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("f16c") && is_x86_feature_detected!("avx") {
        // SAFETY: the features were detected.
        return unsafe { f16c::narrow(from, to) };
    }
    for (to, from) in to.iter_mut().zip(from) {
        *to = f16::from_bits(f32_to_f16(*from));
    }
}

/// f16 by the F16C instructions, eight at a time. Load and store bound the loop, so AVX-512 would gain nothing.
#[cfg(target_arch = "x86_64")]
mod f16c {
    use super::{f16, f16_to_f32, f32_to_f16};
    use core::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps, _mm256_cvtps_ph,
        _mm256_loadu_ps, _mm256_storeu_ps,
    };

    const LANES: usize = 8;

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn widen(from: &[f16], to: &mut [f32]) {
        let whole = from.len().min(to.len()) / LANES * LANES;
        let (from_chunks, _) = from.as_chunks::<LANES>();
        let (to_chunks, _) = to.as_chunks_mut::<LANES>();
        for (to, from) in to_chunks.iter_mut().zip(from_chunks) {
            // SAFETY: both are arrays of eight; f16 is 16 bits without padding, and the accesses need no alignment.
            unsafe {
                let halves = _mm_loadu_si128(from.as_ptr().cast());
                _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtph_ps(halves));
            }
        }
        for (to, from) in to[whole..].iter_mut().zip(&from[whole..]) {
            *to = f16_to_f32(from.to_bits());
        }
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn narrow(from: &[f32], to: &mut [f16]) {
        let whole = from.len().min(to.len()) / LANES * LANES;
        let (to_chunks, _) = to.as_chunks_mut::<LANES>();
        let (from_chunks, _) = from.as_chunks::<LANES>();
        for (to, from) in to_chunks.iter_mut().zip(from_chunks) {
            // SAFETY: both are arrays of eight; f16 is 16 bits without padding, and the accesses need no alignment.
            unsafe {
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.as_ptr()));
                _mm_storeu_si128(to.as_mut_ptr().cast(), halves);
            }
        }
        for (to, from) in to[whole..].iter_mut().zip(&from[whole..]) {
            *to = f16::from_bits(f32_to_f16(*from));
        }
    }
}
