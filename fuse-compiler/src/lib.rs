//! Syntax, checks and expansion of the `fuse!` macro.
