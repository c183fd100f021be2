//! Random programs of the language, written into one crate, compiled once by rustc and verified: every instruction set
//! of this machine against the reference evaluator. `FUSE_SEED` replays a run, `FUSE_PROGRAMS` sets how many.
#![allow(clippy::print_stdout, reason = "the seed of a run is printed, to replay it")]

#[path = "support/random_source.rs"]
mod random_source;

use random_source::Program;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Builds and runs the programs; gives for each that fails what it said. A program that rustc or the macro refuses
/// fails all: the text of the build is the result of each.
fn failures(programs: &[Program]) -> BTreeMap<usize, String> {
    let mut main = String::from("#![allow(dead_code)]\n\n");
    for (i, p) in programs.iter().enumerate() {
        // A block each: an error then names the program.
        let _ = writeln!(
            main,
            "mod m{i} {{\nuse fuse::fuse;\nfuse! {{{}\n{}}}\n}}",
            random_source::ITEMS,
            p.source("k")
        );
    }
    main.push_str("fn main() {\n");
    for i in 0..programs.len() {
        let _ = writeln!(
            main,
            "    match m{i}::k::verify().run() {{ Ok(_) => println!(\"{i} ok\"), Err(e) => println!(\"{i} FAIL {{}}\", \
             e.to_string().replace('\\n', \" | \")) }}"
        );
    }
    main.push_str("}\n");
    let output = run_crate(&main).expect("a crate under the target folder, and cargo");
    let mut failed = BTreeMap::new();
    let mut seen = 0;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((i, said)) = line.split_once(' ') else { continue };
        let Ok(i) = i.parse::<usize>() else { continue };
        seen += 1;
        if let Some(what) = said.strip_prefix("FAIL ") {
            failed.insert(i, what.to_owned());
        }
    }
    if seen < programs.len() {
        for i in seen..programs.len() {
            failed.entry(i).or_insert_with(|| String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
    failed
}

/// Builds a crate of this `main.rs` offline against this workspace, and runs it.
fn run_crate(main: &str) -> std::io::Result<std::process::Output> {
    let facade = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("random-programs");
    std::fs::create_dir_all(folder.join("src"))?;
    std::fs::copy(facade.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    std::fs::write(folder.join("src/main.rs"), main)?;
    let manifest = format!(
        "[package]\nname = \"random-programs\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\nfuse = {{ package = \
         \"fuse-kernels\", path = {facade:?} }}\n\n[workspace]\n\n[profile.dev]\ndebug-assertions = false\n\n[profile.dev.package.fuse-runtime]\nopt-level = 3\noverflow-checks = false\n\n[profile.dev.package.fuse-ir]\nopt-level = 2\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest)?;
    Command::new(env!("CARGO"))
        .args(["run", "--offline", "--quiet"])
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env("CARGO_INCREMENTAL", "0")
        .env_remove("RUSTFLAGS")
        .output()
}

/// Makes a failing program smaller as long as it fails, all candidates of a round in one crate.
fn shrink(mut program: Program, mut said: String) -> (Program, String) {
    for _ in 0..6 {
        let mut candidates = program.smaller();
        candidates.sort_by_key(Program::size);
        candidates.truncate(24);
        let failed = failures(&candidates);
        let Some((i, what)) = failed.into_iter().next() else { break };
        program = candidates.swap_remove(i);
        said = what;
    }
    (program, said)
}

#[test]
fn random_programs_equal_the_reference() {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (seed, count) = (number("FUSE_SEED", 1), number("FUSE_PROGRAMS", 200));
    println!("FUSE_SEED={seed} FUSE_PROGRAMS={count}");
    let programs: Vec<Program> =
        (0..count).map(|i| random_source::generate(seed.wrapping_mul(1_000_003).wrapping_add(i))).collect();
    let failed = failures(&programs);
    if let Some((&i, said)) = failed.iter().next() {
        let original = &programs[i];
        let (small, now) = shrink(original.clone(), said.clone());
        panic!(
            "{} of {count} programs failed; the first, program seed {}:\n{}\n{said}\n\nshrunk:\n{}\n{now}",
            failed.len(),
            original.seed,
            original.source("k"),
            small.source("k"),
        );
    }
}
