//! Rewrites the files that tests compare with: plans, and what rustc says of wrong programs.

use std::process::{Command, ExitCode};

/// The tests that keep files: their package and name.
const TESTS: &[(&str, &str)] = &[
    ("fuse-ir", "plan"),
    ("fuse-ir", "kernel_ir"),
    ("fuse-ir", "print_cuda"),
    ("fuse-kernels", "patterns"),
    ("fuse-kernels", "contractions"),
    ("fuse-kernels", "convolutions"),
    ("fuse-kernels", "ui"),
    ("cargo-fuse", "commands"),
    ("embed", "embed"),
    ("classify", "classify"),
    ("xtask", "xtask"),
];

/// Runs those of the tests that `names` has, or all.
pub(crate) fn run(names: &[String]) -> ExitCode {
    if let Some(unknown) = names.iter().find(|name| TESTS.iter().all(|(_, test)| test != name)) {
        let known: Vec<&str> = TESTS.iter().map(|(_, test)| *test).collect();
        eprintln!("no test `{unknown}` keeps files; those that do are {}", known.join(", "));
        return ExitCode::from(2);
    }
    for (package, test) in
        TESTS.iter().filter(|(_, test)| names.is_empty() || names.iter().any(|n| n == test))
    {
        // What keeps files here are tests within the program.
        let kind = if *package == "xtask" { "--bin" } else { "--test" };
        let status = Command::new(env!("CARGO"))
            .args(["test", "--package", package, kind, test])
            .args(if *package == "xtask" { &["launches"][..] } else { &[] })
            .env("FUSE_BLESS", "1")
            .env("TRYBUILD", "overwrite")
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(_) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("cargo does not start: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("look at the difference before you keep it: `git diff`");
    ExitCode::SUCCESS
}
