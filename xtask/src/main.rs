//! Development tasks: `cargo xtask …`.
fn main() {}
