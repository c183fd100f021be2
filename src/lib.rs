//! Fused kernels written inline in Rust.
