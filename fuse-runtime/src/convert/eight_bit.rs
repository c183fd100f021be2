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

/// What a format is to the functions that round to it.
trait Format {
    /// How many bits of an f32's significand it lacks.
    const DROPPED: u32;
    /// The exponent of its smallest normal value.
    const NORMAL: i32;
    /// Its largest finite value, as f32 bits.
    const LARGEST: u32;
    /// Its NaN, without the sign.
    const NAN: u8;
}

/// 448 is the largest value.
impl Format for F8E4M3 {
    const DROPPED: u32 = 20;
    const NORMAL: i32 = -6;
    const LARGEST: u32 = 0x43e0_0000;
    const NAN: u8 = 0x7f;
}

/// 57344 is the largest finite value.
impl Format for F8E5M2 {
    const DROPPED: u32 = 21;
    const NORMAL: i32 = -14;
    const LARGEST: u32 = 0x4760_0000;
    const NAN: u8 = 0x7e;
}

/// The f32 bits of 2^n.
const fn power_bits(n: i32) -> u32 {
    ((n + 127) as u32) << 23
}

/// The value whose last place is the smallest denormal of the format, so that adding it to a denormal rounds.
#[inline(always)]
fn rounding_unit<T: Format>() -> f32 {
    f32::from_bits(power_bits(T::NORMAL + T::DROPPED as i32))
}

/// `magnitude`, f32 bits, bounded to the format's range, and the same with half a last place of the format added, a tie
/// to even.
#[inline(always)]
fn bound_and_add_half<T: Format>(magnitude: u32) -> (u32, u32) {
    let bounded = if magnitude > T::LARGEST { T::LARGEST } else { magnitude };
    let odd = (bounded >> T::DROPPED) & 1;
    let half = (1 << (T::DROPPED - 1)) - 1;
    (bounded, bounded.wrapping_add(half).wrapping_add(odd))
}

/// `x` rounded to the format and widened again.
#[inline(always)]
fn round_to<T: Format>(x: f32) -> f32 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let (bounded, raised) = bound_and_add_half::<T>(magnitude);
    let normal = raised & !((1 << T::DROPPED) - 1);
    let unit = rounding_unit::<T>();
    let denormal = ((f32::from_bits(bounded) + unit) - unit).to_bits();
    let rounded = if bounded < power_bits(T::NORMAL) { denormal } else { normal };
    let rounded = if magnitude > 0x7f80_0000 { 0x7fc0_0000 } else { rounded };
    f32::from_bits(rounded | (bits & 0x8000_0000))
}

/// `x` rounded to the format, as its bits.
#[inline(always)]
fn narrow_to<T: Format>(x: f32) -> u8 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let (bounded, raised) = bound_and_add_half::<T>(magnitude);
    // The exponent of the smallest normal value becomes 1.
    let bias = power_bits(T::NORMAL - 1) >> T::DROPPED;
    let normal = (raised >> T::DROPPED).wrapping_sub(bias);
    let unit = rounding_unit::<T>();
    let denormal = (f32::from_bits(bounded) + unit).to_bits().wrapping_sub(unit.to_bits());
    let narrow = if bounded < power_bits(T::NORMAL) { denormal } else { normal };
    let narrow = if magnitude > 0x7f80_0000 { u32::from(T::NAN) } else { narrow };
    (narrow | ((bits >> 24) & 0x80)) as u8
}

/// `x` rounded to f8e4m3 and widened again.
#[inline(always)]
pub fn round_to_f8e4m3(x: f32) -> f32 {
    round_to::<F8E4M3>(x)
}

/// `x` rounded to f8e5m2 and widened again.
#[inline(always)]
pub fn round_to_f8e5m2(x: f32) -> f32 {
    round_to::<F8E5M2>(x)
}

/// f32 to f8e4m3.
#[inline(always)]
pub fn f32_to_f8e4m3(x: f32) -> u8 {
    narrow_to::<F8E4M3>(x)
}

/// f32 to f8e5m2.
#[inline(always)]
pub fn f32_to_f8e5m2(x: f32) -> u8 {
    narrow_to::<F8E5M2>(x)
}
