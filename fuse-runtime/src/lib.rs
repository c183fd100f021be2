//! Tensors, devices, kernel launching, and what generated CPU code calls.

pub mod device;
pub mod element;
pub mod error;
pub mod tensor;

pub mod convert;
pub mod math;
pub mod random;

pub use device::Device;
pub use element::Element;
pub use error::Error;
pub use tensor::Tensor;
