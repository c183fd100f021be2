//! The frame of a program that speaks to its user.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that speaks to its user")]

use std::process::ExitCode;

/// Runs a program with its arguments, which are `None` if help is asked for. Errors go to standard error, and make the exit
/// status 1.
pub fn run_program<A>(
    help: &str,
    arguments: Result<Option<A>, String>,
    run: impl FnOnce(&A) -> Result<(), String>,
) -> ExitCode {
    let done = arguments.and_then(|arguments| match arguments {
        Some(arguments) => run(&arguments),
        None => {
            println!("{help}");
            Ok(())
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
