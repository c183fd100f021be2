//! Conversions between number formats: saturating casts that vectorise, half and eight-bit floats, whole slices.
//!
//! All scalar functions are branch-free, so a plain loop over them is vector code; the slice functions are compiled here
//! once and choose the instruction set at run time.

mod cast;
mod eight_bit;
mod from_double;
mod half_precision;
mod slice;

pub use cast::{CastTo, cast};
pub use eight_bit::{F8E4M3, F8E5M2, f8e4m3_to_f32, f8e5m2_to_f32, f32_to_f8e4m3, f32_to_f8e5m2};
pub use eight_bit::{round_to_f8e4m3, round_to_f8e5m2};
pub use from_double::{round_f64_to_bf16, round_f64_to_f8e4m3, round_f64_to_f8e5m2, round_f64_to_f16};
pub use half_precision::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, round_to_bf16, round_to_f16};
pub use slice::{narrow_bf16, narrow_f8e4m3, narrow_f8e5m2, narrow_f16};
pub use slice::{widen_bf16, widen_f8e4m3, widen_f8e5m2, widen_f16};

#[cfg(test)]
mod tests;
