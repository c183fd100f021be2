//! The eight-bit floats of the OCP specification, for storage only: values are computed in f32.
//!
//! Narrowing rounds to nearest, ties to even, and saturates: what is beyond the largest finite value, infinity included,
//! becomes that value. NaN stays NaN.

use core::fmt;

/// Four exponent bits (bias 7), three of significand, no infinity; the largest value is 448.
#[repr(transparent)]
#[derive(Clone, Copy, Default)]
pub struct F8E4M3(
    /// The bits: sign, exponent, significand.
    pub u8,
);

/// Five exponent bits (bias 15), two of significand, with infinities; the largest finite value is 57344.
#[repr(transparent)]
#[derive(Clone, Copy, Default)]
pub struct F8E5M2(
    /// The bits: sign, exponent, significand.
    pub u8,
);

/// What both formats have as types.
macro_rules! eight_bit_type {
    ($name:ident, $narrow:ident, $widen:ident) => {
        impl $name {
            /// Rounds to nearest, ties to even, and saturates.
            #[inline(always)]
            pub fn from_f32(x: f32) -> Self {
                Self($narrow(x))
            }

            /// The value, exactly.
            #[inline(always)]
            pub fn to_f32(self) -> f32 {
                $widen(self.0)
            }

            /// The value with these bits.
            #[inline(always)]
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// The bits: sign, exponent, significand.
            #[inline(always)]
            pub const fn to_bits(self) -> u8 {
                self.0
            }
        }

        /// Equality of the values: zeros are equal, a NaN is equal to nothing.
        impl PartialEq for $name {
            #[inline(always)]
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $name {
            #[inline(always)]
            fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }

        impl From<$name> for f32 {
            #[inline(always)]
            fn from(value: $name) -> f32 {
                value.to_f32()
            }
        }
    };
}

eight_bit_type!(F8E4M3, f32_to_f8e4m3, f8e4m3_to_f32);
eight_bit_type!(F8E5M2, f32_to_f8e5m2, f8e5m2_to_f32);

/// f8e4m3 to f32: exact for every input.
#[inline(always)]
pub fn f8e4m3_to_f32(bits: u8) -> f32 {
    let sign = u32::from(bits & 0x80) << 24;
    let magnitude = u32::from(bits & 0x7f);
    // One multiplication by 2^120 corrects the bias, and makes denormals normal.
    let finite = (f32::from_bits(magnitude << 20) * f32::from_bits(0x7b80_0000)).to_bits();
    f32::from_bits(if magnitude == 0x7f { 0x7fc0_0000 } else { finite } | sign)
}

/// f8e5m2 to f32: the upper half of an f16, exact for every input.
#[inline(always)]
pub fn f8e5m2_to_f32(bits: u8) -> f32 {
    super::half_precision::f16_to_f32(u16::from(bits) << 8)
}

/// The bits of the magnitude of `x` rounded to `23 - DROPPED` bits of significand, or to multiples of 2^`LEAST` below
/// `2^NORMAL`, and bounded by `LARGEST`; NaN canonical.
#[inline(always)]
fn round_magnitude<const DROPPED: u32, const LEAST: i32, const NORMAL: i32, const LARGEST: u32>(
    magnitude: u32,
) -> u32 {
    let half = (1u32 << (DROPPED - 1)) - 1;
    let odd = (magnitude >> DROPPED) & 1;
    let normal = magnitude.wrapping_add(half).wrapping_add(odd) & !((1 << DROPPED) - 1);
    // The last place of this is 2^LEAST, so that adding it rounds.
    let unit = f32::from_bits(((LEAST + 23 + 127) as u32) << 23);
    let denormal = ((f32::from_bits(magnitude) + unit) - unit).to_bits();
    let rounded = if magnitude < ((NORMAL + 127) as u32) << 23 { denormal } else { normal };
    let rounded = if magnitude > LARGEST { LARGEST } else { rounded };
    if magnitude > 0x7f80_0000 { 0x7fc0_0000 } else { rounded }
}

/// 448 as f32 bits.
const E4M3_LARGEST: u32 = 0x43e0_0000;
/// 57344 as f32 bits.
const E5M2_LARGEST: u32 = 0x4760_0000;

/// `x` rounded to f8e4m3 and widened again.
#[inline(always)]
pub fn round_to_f8e4m3(x: f32) -> f32 {
    let bits = x.to_bits();
    let rounded = round_magnitude::<20, -9, -6, E4M3_LARGEST>(bits & 0x7fff_ffff);
    f32::from_bits(rounded | (bits & 0x8000_0000))
}

/// `x` rounded to f8e5m2 and widened again.
#[inline(always)]
pub fn round_to_f8e5m2(x: f32) -> f32 {
    let bits = x.to_bits();
    let rounded = round_magnitude::<21, -16, -14, E5M2_LARGEST>(bits & 0x7fff_ffff);
    f32::from_bits(rounded | (bits & 0x8000_0000))
}

/// f32 to f8e4m3.
#[inline(always)]
pub fn f32_to_f8e4m3(x: f32) -> u8 {
    let bits = round_to_f8e4m3(x).to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // The inverse of widening: exact, as the value has no more bits than the format.
    let narrow = (f32::from_bits(magnitude) * f32::from_bits(0x0380_0000)).to_bits() >> 20;
    let narrow = if magnitude > 0x7f80_0000 { 0x7f } else { narrow };
    (narrow | (bits >> 24) & 0x80) as u8
}

/// f32 to f8e5m2.
#[inline(always)]
pub fn f32_to_f8e5m2(x: f32) -> u8 {
    let bits = round_to_f8e5m2(x).to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // The inverse of widening (2^-112): exact, as the value has no more bits than the format.
    let narrow = (f32::from_bits(magnitude) * f32::from_bits(0x0780_0000)).to_bits() >> 21;
    let narrow = if magnitude > 0x7f80_0000 { 0x7e } else { narrow };
    (narrow | (bits >> 24) & 0x80) as u8
}
