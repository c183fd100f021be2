//! Sentence embeddings with all-MiniLM-L6-v2, a transformer of six layers, written in `fuse!`.

pub mod kernels;

pub mod encoder;
pub mod sentences;
pub mod similar;
pub mod weights;
