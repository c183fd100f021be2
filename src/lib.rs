//! Fused kernels written inline in Rust.

pub use fuse_runtime::convert::{F8E4M3, F8E5M2};
pub use fuse_runtime::{Device, Element, Error, Tensor, Verify};
pub use fuse_runtime::{bf16, f16};
pub use fuse_runtime::{error, tensor, verify};

pub use fuse_runtime::{Plan, Program};

/// Kernels: see the [crate's documentation](crate).
#[macro_export]
macro_rules! fuse {
    ($($tokens:tt)*) => { $crate::__private::expand! { [$crate] $($tokens)* } };
}

/// What generated code names; not for users.
#[doc(hidden)]
pub mod __private {
    pub use fuse_macros::expand;
    pub use fuse_runtime::__private::*;
}
