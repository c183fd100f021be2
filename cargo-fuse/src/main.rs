//! `cargo fuse`: what `fuse!` made of each kernel of a crate, and why.
//!
//! The kernels are those that rustc compiles: `cargo check` runs with `FUSE_PLAN_DIR` set, in a target folder of its own, and
//! every expansion leaves a record there. So features, cfgs, versions and blocks made by `macro_rules!` are those of the
//! build, and no source is parsed.
//!
//! ```text
//! arguments ──▶ build: cargo check, records ──▶ kernel: selected, planned again where asked ──▶ explain, emit, lock, report, warm
//! ```

mod arguments;

mod failure;

mod build;

mod kernel;

mod edges;

mod source;

mod excerpt;

mod units;

mod explain;

mod emit;

mod lock;

mod report;

mod warm;

mod format;

mod doctor;

use arguments::{Arguments, Command};
use clap::Parser;
use failure::Failure;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse_from(list_arguments()) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are asked for; all else is a wrong call.
            let wrong = error.use_stderr();
            let _ = error.print();
            return if wrong { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    let done = match arguments.command {
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Emit(arguments) => emit::run(&arguments),
        Command::Lock(arguments) => lock::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Warm(arguments) => warm::run(&arguments),
        Command::Fmt(arguments) => format::run(&arguments),
        Command::Doctor => doctor::run(),
    };
    let (text, failure) = match done {
        Ok(text) => (text, None),
        Err(failure) => (failure.text.clone(), Some(failure)),
    };
    // Whoever closes the pipe has read enough.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    match failure {
        None => ExitCode::SUCCESS,
        Some(Failure { code, message, .. }) => {
            if !message.is_empty() {
                let _ = writeln!(std::io::stderr(), "error: {message}");
            }
            ExitCode::from(code)
        }
    }
}

/// The arguments without the `fuse` that cargo passes on.
fn list_arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == "fuse") {
        arguments.remove(1);
    }
    arguments
}
