//! Comparing tensors: exactly by `==`, and within a tolerance by the traits of the `approx` crate, so that
//! `assert_relative_eq!(y, want, max_relative = 1e-5)` is how a test reads. Both compare with tensors of the same rank,
//! whose shapes must be equal, and with slices, arrays and vectors in row-major order.

use super::Tensor;
use crate::convert::{F8E4M3, F8E5M2};
use crate::element::Element;
use ::approx::{AbsDiffEq, RelativeEq, UlpsEq};
use half::{bf16, f16};

/// A float that can be compared within a tolerance: the narrow floats as the f32 they stand for.
pub trait Approximate: Element {
    /// What it is compared as, and the type of tolerances.
    type Wide: AbsDiffEq<Epsilon = Self::Wide> + RelativeEq + UlpsEq + Copy;

    /// The value, exactly.
    fn widen(self) -> Self::Wide;
}

macro_rules! approximate {
    ($($type:ty as $wide:ty: $widen:expr;)*) => { $(
        impl Approximate for $type {
            type Wide = $wide;

            fn widen(self) -> $wide {
                $widen(self)
            }
        }
    )* };
}

approximate! {
    f32 as f32: |x| x;
    f64 as f64: |x| x;
    f16 as f32: f16::to_f32;
    bf16 as f32: bf16::to_f32;
    F8E4M3 as f32: F8E4M3::to_f32;
    F8E5M2 as f32: F8E5M2::to_f32;
}

impl<T: Element, const R: usize> Tensor<T, R> {
    /// The elements, once no other thread's call writes them: a comparison has no way to give an error. `None` if a GPU
    /// does not give them; what it does not give is equal to nothing.
    fn elements_when_free(&self) -> Option<Vec<T>> {
        let _reading = self.storage.read_when_free();
        self.read_elements().ok()
    }
}

fn all<T: Copy>(a: Option<&[T]>, b: Option<&[T]>, equal: impl Fn(T, T) -> bool) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return false };
    a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| equal(a, b))
}

/// The traits for one kind of right side: how its elements are taken, and when its shape fits.
macro_rules! comparisons {
    ($([$($generics:tt)*] $right:ty, |$left:ident, $other:ident| $fits:expr, $elements:expr;)*) => { $(
        impl<T: Element, $($generics)*> PartialEq<$right> for Tensor<T, R> {
            fn eq(&self, $other: &$right) -> bool {
                let $left = self;
                $fits && all(self.elements_when_free().as_deref(), $elements, |a, b| a == b)
            }
        }

        impl<T: Approximate, $($generics)*> AbsDiffEq<$right> for Tensor<T, R> {
            type Epsilon = T::Wide;

            fn default_epsilon() -> T::Wide {
                T::Wide::default_epsilon()
            }

            fn abs_diff_eq(&self, $other: &$right, epsilon: T::Wide) -> bool {
                let $left = self;
                $fits && all(self.elements_when_free().as_deref(), $elements, |a, b| {
                    a.widen().abs_diff_eq(&b.widen(), epsilon)
                })
            }
        }

        impl<T: Approximate, $($generics)*> RelativeEq<$right> for Tensor<T, R> {
            fn default_max_relative() -> T::Wide {
                T::Wide::default_max_relative()
            }

            fn relative_eq(&self, $other: &$right, epsilon: T::Wide, max_relative: T::Wide) -> bool {
                let $left = self;
                $fits && all(self.elements_when_free().as_deref(), $elements, |a, b| {
                    a.widen().relative_eq(&b.widen(), epsilon, max_relative)
                })
            }
        }

        impl<T: Approximate, $($generics)*> UlpsEq<$right> for Tensor<T, R> {
            fn default_max_ulps() -> u32 {
                T::Wide::default_max_ulps()
            }

            fn ulps_eq(&self, $other: &$right, epsilon: T::Wide, max_ulps: u32) -> bool {
                let $left = self;
                $fits && all(self.elements_when_free().as_deref(), $elements, |a, b| {
                    a.widen().ulps_eq(&b.widen(), epsilon, max_ulps)
                })
            }
        }
    )* };
}

comparisons! {
    [const R: usize] Tensor<T, R>, |left, right| left.shape == right.shape, right.elements_when_free().as_deref();
    [const R: usize] [T], |_left, right| true, Some(right);
    [const R: usize] &[T], |_left, right| true, Some(right);
    [const R: usize] Vec<T>, |_left, right| true, Some(right);
    [const R: usize, const N: usize] [T; N], |_left, right| true, Some(right);
}
