//! Each command of `cargo fuse`, run on small crates that are made in temporary folders and depend on this workspace.
//!
//! The crates share a target folder, which is kept between runs, so that what they depend on is built once.

#![allow(clippy::print_stdout, reason = "a test that skips says so")]

#[path = "commands/crates.rs"]
mod crates;
#[path = "../../tests/support/standin.rs"]
#[allow(dead_code, unreachable_pub, reason = "tests of the path to a GPU have it too")]
mod standins;

#[path = "commands/emit.rs"]
mod emit;
#[path = "commands/explain.rs"]
mod explain;
#[path = "commands/failures.rs"]
mod failures;
#[path = "commands/format.rs"]
mod format;
#[path = "commands/lints.rs"]
mod lints;
#[path = "commands/lock.rs"]
mod lock;
#[path = "commands/readme.rs"]
mod readme;
#[path = "commands/report.rs"]
mod report;
#[path = "commands/warm.rs"]
mod warm;
