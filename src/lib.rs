//! Fused kernels written inline in Rust.

pub use fuse_runtime::convert::{F8E4M3, F8E5M2};
pub use fuse_runtime::{Device, Element, Error, Graph, Tensor, Verify};
pub use fuse_runtime::{bf16, f16};
pub use fuse_runtime::{error, tensor, verify};

pub use fuse_runtime::add_machine_code;

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

/// A scalar op outside a block: `#[op]` of [`fuse!`] as an attribute.
///
/// Items under attributes and in blocks call one another by their Rust paths; what they call is fused as if it stood beside
/// them. rustfmt formats them, and `#[cfg]` works on all of them. Where the facade has another name than `fuse`, every
/// attribute says so: `#[other::op(crate = other)]`.
///
/// ```
/// use fuse::{Device, Tensor};
///
/// #[fuse::op]
/// fn clip(x: f32) -> f32 {
///     x.clamp(-1.0, 1.0)
/// }
///
/// #[fuse::kernel(launches = 1)]
/// fn activate<N>(x: Tensor<f32, N>, b: Tensor<f32, N>) -> Tensor<f32, N> {
///     clip(x + b)
/// }
///
/// # fn main() -> Result<(), fuse::Error> {
/// let dev = Device::cpu();
/// let x = Tensor::from_vec(vec![-3.0f32, 0.25], [2], &dev)?;
/// assert_eq!(activate(&x, &Tensor::full(0.5, [2], &dev)?)?.to_vec()?, [-1.0, 0.75]);
/// # Ok(())
/// # }
/// ```
pub use fuse_macros::op;

/// A composite outside a block: a plain `fn` of [`fuse!`] under an attribute. It leaves no function, since only kernels and
/// composites call it. See [`op`].
///
/// ```
/// use fuse::{Device, Tensor};
///
/// mod parts {
///     #[fuse::composite]
///     pub fn centred<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
///         x - x.mean(N)
///     }
/// }
///
/// #[fuse::kernel(launches = 1)]
/// fn centre_rows<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
///     parts::centred::<N>(x)
/// }
///
/// # fn main() -> Result<(), fuse::Error> {
/// let x = Tensor::from_vec(vec![1.0f32, 3.0], [1, 2], &Device::cpu())?;
/// assert_eq!(centre_rows(&x)?.to_vec()?, [-1.0, 1.0]);
/// # Ok(())
/// # }
/// ```
pub use fuse_macros::composite;

/// An associative combiner outside a block: `#[reduce(identity = ..)]` of [`fuse!`] as an attribute. See [`op`].
pub use fuse_macros::reduce;

/// A kernel outside a block: `#[kernel(..)]` of [`fuse!`] as an attribute. See [`op`].
pub use fuse_macros::kernel;

/// The README's example is tested like any other.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// What generated code names; not for users.
#[doc(hidden)]
pub mod __private {
    pub use fuse_macros::{expand, import};
    pub use fuse_runtime::__private::*;
}
