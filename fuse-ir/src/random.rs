//! Random kernels and inputs for property tests, and the builder that they are made with.

mod builder;

pub use builder::KernelBuilder;
