//! Numeric functions that generated CPU code calls: branch-free, so that a plain loop over them vectorises.
//!
//! Every f32 function has the form `NAME::<F>(x)`. `F` says that the target has a fused multiply-add (and with it, on
//! x86-64, SSE4.1): the caller compiles one copy of its loop per instruction set and passes the constant down, because
//! `f32::mul_add` without the instruction is a call into libm and costs more than the whole function here.
//!
//! All of them are within 2 ulp of the true value for every one of the 2^32 arguments, with `F` and without
//! (`cargo xtask ulp` measures it, `docs/accuracy.md` has the table). Results do not depend on the vector width: with
//! the same `F` every instruction set gives the same bits.
//!
//! Three rules keep the loops vector code. Integer arithmetic is `wrapping_*`, since overflow checks stop
//! vectorisation. A choice is a select between two computed values, never a branch. Only operations that SSE2 has are
//! used: 64-bit integers are added, masked, shifted left by constants and shifted right logically, never compared.
//!
//! The polynomials are minimax fits by Remez exchange in 50 digits (weight: relative error of the whole function),
//! with the coefficients then rounded to the format they are used in; each states the error of the fit.
//!
//! The f64 functions (`NAME_f64`) are std's, and `libm`'s where std has none.

mod arithmetic;
mod double;
mod error_function;
mod exponential;
mod hyperbolic;
mod inverse_trigonometric;
mod logarithm;
mod order;
mod power;
mod rounding;
mod trigonometric;

pub use arithmetic::{abs, copysign, fma, fma_f64, hypot, mul_add, rsqrt, signum};
pub use double::*;
pub use error_function::{erf, erfc};
#[cfg(target_arch = "x86_64")]
pub(crate) use exponential::exp_avx512;
pub use exponential::{exp, exp_m1, exp2, sigmoid};
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh, tanh};
pub use inverse_trigonometric::{acos, asin, atan, atan2};
pub use logarithm::{ln, ln_1p, log2, log10};
pub use order::{Float, max_rust, maximum, min_rust, minimum};
pub use power::{cbrt, powf, powi};
pub use rounding::{ceil, floor, fract, round, round_ties_even, trunc};
pub use trigonometric::{cos, sin, tan};

#[cfg(test)]
mod tests;
