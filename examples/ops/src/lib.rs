//! A library of ops: what other crates call in their kernels by ordinary paths, fused as if it stood there.
//!
//! Only what is public can be called from elsewhere. Helpers and constants that it needs travel with it, and stay private.
//!
//! ```
//! use example_ops::squareplus;
//! use fuse::{Device, Tensor, fuse};
//!
//! fuse! {
//!     #[kernel(launches = 1)]
//!     fn activate<M, N>(x: Tensor<f32, M, N>, b: Tensor<f32, N>) -> Tensor<f32, M, N> {
//!         example_ops::share::<N>(squareplus(x + b))
//!     }
//! }
//!
//! # fn main() -> Result<(), fuse::Error> {
//! let dev = Device::cpu();
//! let y = activate(&Tensor::full(0.0f32, [1, 4], &dev)?, &Tensor::zeros([4], &dev)?)?;
//! assert_eq!(y.to_vec()?, [0.25; 4]);
//! # Ok(())
//! # }
//! ```

use fuse::fuse;

fuse! {
    /// How far [`squareplus()`] is above the kink.
    const ROUNDING: f32 = 4.0;

    /// The length of the leg of a hyperbola.
    #[op]
    fn leg(x: f32) -> f32 { (x * x + ROUNDING).sqrt() }

    /// A smooth `max(x, 0)` without exponentials: `(x + sqrt(x² + 4)) / 2`.
    #[op]
    pub fn squareplus(x: f32) -> f32 { 0.5 * (x + leg(x)) }

    /// The share of each element in the sum along `N`.
    pub fn share<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x / x.sum(N) }

    /// The point between two, in the dtype that both have.
    pub fn halfway<T: Number, N>(a: Tensor<T, N>, b: Tensor<T, N>) -> Tensor<T, N> { (a + b) * 0.5 }

    /// A value that is kept in memory, for whoever wants it there.
    pub fn kept<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { (x * 2.0).materialize() + 1.0 }

    /// The smaller of two values with its position; of equal ones the first.
    #[reduce(identity = (f32::INFINITY, i64::MAX))]
    pub fn nearest(a: (f32, i64), b: (f32, i64)) -> (f32, i64) {
        if a.0 < b.0 || (a.0 == b.0 && a.1 <= b.1) { a } else { b }
    }
}

/// The same outside of blocks: every item under an attribute, formatted by rustfmt.
pub mod curves {
    /// A step from 0 to 1 with slopes of 0 at its ends.
    #[fuse::op]
    pub fn smooth_step(x: f32) -> f32 {
        let t = x.clamp(0.0, 1.0);
        t * t * (3.0 - 2.0 * t)
    }

    /// A step along a row from its least to its greatest value, through `silu` of the prelude.
    #[fuse::composite]
    pub fn stretch<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let low = x.min(N);
        smooth_step((x - low) / (x.max(N) - low)) + silu(x)
    }
}

/// What a caller may want all of: `use example_ops::prelude::*;`.
pub mod prelude {
    pub use crate::curves::{smooth_step, stretch};
    pub use crate::squareplus as soft_ramp;
    pub use crate::{halfway, nearest, share};
}
