//! Fused kernels written inline in Rust.

pub use fuse_runtime::convert::{F8E4M3, F8E5M2};
pub use fuse_runtime::{Device, Element, Error, Graph, Tensor, Verify};
pub use fuse_runtime::{bf16, f16};
pub use fuse_runtime::{error, tensor, verify};

pub use fuse_runtime::{CudaSource, CudaUnavailable, Plan, Program};

/// A block of kernels, with the ops, composites, combiners and constants that they use.
///
/// Each `#[kernel] fn` becomes a function of its name and a struct of its name that carries `into` (the call that writes
/// to given tensors), `plan`, `program`, `cuda_source` and `verify`. Each `#[op] fn` stays a function. The block stands at module level
/// or in a function's body.
///
/// ```
/// use fuse::{Device, Tensor, fuse};
///
/// fuse! {
///     /// Rows scaled to unit length.
///     #[kernel(launches = 1)]
///     pub fn normalise<M, N>(x: Tensor<f32, M, N>, eps: f32) -> Tensor<f32, M, N> {
///         x * (x.square().sum(N) + eps).rsqrt()
///     }
/// }
///
/// # fn main() -> Result<(), fuse::Error> {
/// let x = Tensor::from_vec(vec![3.0f32, 4.0, 0.0, 2.0], [2, 2], &Device::best()?)?;
/// let y = normalise(&x, 0.0)?;
/// approx::assert_relative_eq!(y, [0.6, 0.8, 0.0, 1.0], max_relative = 1e-6);
///
/// println!("{}", normalise::plan());
/// println!("{}", normalise::verify().sizes(&[("M", 3), ("N", 100)]).run()?);
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! fuse {
    ($($tokens:tt)*) => { $crate::__private::expand! { [$crate] $($tokens)* } };
}

/// The README's example is tested like any other.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// What generated code names; not for users.
#[doc(hidden)]
pub mod __private {
    pub use fuse_macros::expand;
    pub use fuse_runtime::__private::*;
}
