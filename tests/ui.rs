//! What a user sees of each mistake: programs that do not compile, with what rustc says of them.
//!
//! The first line of a program lists the messages that it gives, so that none of them is without a program.
//! `cargo xtask bless` writes the `.stderr` files.

use fuse_compiler::diagnostic::{Diagnostic, Diagnostics, messages};
use fuse_compiler::pipeline::expand_block;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A program of `tests/ui`.
struct Program {
    path: PathBuf,
    source: String,
}

impl Program {
    /// The names in its first line.
    fn listed(&self) -> BTreeSet<String> {
        let first = self.source.lines().next().unwrap_or_default();
        let names = first.strip_prefix("// messages: ").expect("the first line lists the messages");
        names.split(", ").map(str::to_owned).collect()
    }

    /// What the compiler finds in its blocks, without rustc.
    fn diagnose(&self) -> Vec<Diagnostic> {
        let facade: TokenStream = "::fuse".parse().expect("a path");
        let tokens: TokenStream = self.source.parse().expect("tokens");
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut found = Vec::new();
        for part in tokens.windows(3) {
            if let [TokenTree::Ident(name), TokenTree::Punct(bang), TokenTree::Group(block)] = part
                && name == "fuse"
                && bang.as_char() == '!'
            {
                let mut diagnostics = Diagnostics::new();
                expand_block(&facade, block.stream(), &mut diagnostics);
                found.extend(diagnostics.iter().cloned());
            }
        }
        found
    }

    /// What rustc says, as kept.
    fn shown(&self) -> String {
        std::fs::read_to_string(self.path.with_extension("stderr")).unwrap_or_default()
    }
}

fn programs() -> Vec<Program> {
    programs_of("tests/ui")
}

/// Programs whose blocks call items from elsewhere, which only rustc can find.
fn programs_with_imports() -> Vec<Program> {
    programs_of("tests/ui/imports")
}

fn programs_of(folder: &str) -> Vec<Program> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(folder).expect("the folder of the programs");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "rs"));
    paths.sort();
    let read = |path: PathBuf| Program { source: std::fs::read_to_string(&path).expect("a program"), path };
    paths.into_iter().map(read).collect()
}

#[test]
fn every_message_has_a_program() {
    let mut without: BTreeSet<&str> = messages::ALL.iter().copied().collect();
    // It is about the environment and not about a program; a test of `cargo-fuse` shows it.
    without.remove("plans_not_written");
    for program in programs().into_iter().chain(programs_with_imports()) {
        for name in program.listed() {
            if name == RUSTC {
                continue;
            }
            assert!(
                messages::ALL.contains(&name.as_str()),
                "{}: no message `{name}`",
                program.path.display()
            );
            without.remove(name.as_str());
        }
    }
    assert_eq!(without.into_iter().collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn programs_give_the_messages_that_they_list() {
    for program in programs() {
        let given: BTreeSet<String> = program.diagnose().iter().map(|d| d.code.to_owned()).collect();
        assert_eq!(given, program.listed(), "{}", program.path.display());
    }
}

/// What is listed where rustc finds nothing by a name.
const RUSTC: &str = "(rustc's own)";

#[test]
fn rustc_shows_what_is_wrong_with_imports() {
    trybuild::TestCases::new().compile_fail("tests/ui/imports/*.rs");
    for program in programs_with_imports() {
        let shown = program.shown();
        let ours = shown.lines().filter(|line| line.starts_with("error: ")).count();
        let listed = program.listed().iter().filter(|name| *name != RUSTC).count();
        assert!(ours >= listed, "{}: {listed} messages are listed\n{shown}", program.path.display());
    }
}

#[test]
fn rustc_shows_the_messages_and_nothing_more() {
    // Dropping the cases runs them.
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
    for program in programs() {
        let shown = program.shown();
        let shown: BTreeSet<&str> = shown.lines().filter(|line| line.starts_with("error")).collect();
        let given = program.diagnose();
        let given: BTreeSet<String> = given.iter().map(|d| format!("error: {}", d.message)).collect();
        assert!(given.iter().eq(shown.iter()), "{}: {given:#?} {shown:#?}", program.path.display());
    }
}
