//! Photographs classified with EfficientNet-Lite0, a convolutional network, written in `fuse!`.

pub mod kernels;

pub mod classes;
pub mod network;
pub mod photograph;
pub mod weights;
