//! Minima and maxima: Rust's, which pass over a NaN, and IEEE 754's, which propagate it.

/// The floating-point types that kernels compute in.
pub trait Float: Copy + PartialOrd + private::Sealed {
    /// Itself, or a NaN.
    #[doc(hidden)]
    fn or_nan(self, is_nan: bool) -> Self;
}

macro_rules! float {
    ($t:ty, $bits:ty) => {
        impl Float for $t {
            #[inline(always)]
            fn or_nan(self, is_nan: bool) -> $t {
                let all: $bits = if is_nan { !0 } else { 0 };
                <$t>::from_bits(self.to_bits() | all)
            }
        }
    };
}

float!(f32, u32);
float!(f64, u64);

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

// The NaN is not `a`, which would be left where it is: LLVM makes a masked store of that if `a` lies in memory, and such
// stores are slow on some processors.

/// The larger value; NaN if either side is.
#[inline(always)]
pub fn maximum<T: Float>(a: T, b: T) -> T {
    let larger = if a > b { a } else { b };
    larger.or_nan(is_nan(a))
}

/// The smaller value; NaN if either side is.
#[inline(always)]
pub fn minimum<T: Float>(a: T, b: T) -> T {
    let smaller = if a < b { a } else { b };
    smaller.or_nan(is_nan(a))
}
