//! Tensors, devices, kernel launching, and what generated CPU code calls.

pub mod convert;
pub mod math;
pub mod random;
