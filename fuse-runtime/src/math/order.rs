//! Minima and maxima: Rust's, which pass over a NaN, and IEEE 754's, which propagate it.

/// The floating-point types that kernels compute in.
pub trait Float: Copy + PartialOrd + private::Sealed {}

impl Float for f32 {}
impl Float for f64 {}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// Whether `x` is a NaN, as one unordered comparison.
#[inline(always)]
#[allow(
    clippy::eq_op,
    reason = "a value that differs from itself is the NaN test that works on the trait bound"
)]
fn is_nan<T: Float>(x: T) -> bool {
    x != x
}

/// The larger value; of a NaN and a number the number, as `f32::max`.
#[inline(always)]
pub fn max_rust<T: Float>(a: T, b: T) -> T {
    let larger = if a > b { a } else { b };
    if is_nan(b) { a } else { larger }
}

/// The smaller value; of a NaN and a number the number, as `f32::min`.
#[inline(always)]
pub fn min_rust<T: Float>(a: T, b: T) -> T {
    let smaller = if a < b { a } else { b };
    if is_nan(b) { a } else { smaller }
}

/// The larger value; NaN if either side is.
#[inline(always)]
pub fn maximum<T: Float>(a: T, b: T) -> T {
    let larger = if a > b { a } else { b };
    if is_nan(a) { a } else { larger }
}

/// The smaller value; NaN if either side is.
#[inline(always)]
pub fn minimum<T: Float>(a: T, b: T) -> T {
    let smaller = if a < b { a } else { b };
    if is_nan(a) { a } else { smaller }
}
