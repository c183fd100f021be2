//! The `fuse!` procedural macro: tokens in, `fuse-compiler`, tokens out.
