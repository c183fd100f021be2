//! The README's first program and its commands, in an empty folder.

use super::crates::Crate;

const README: &str = include_str!("../../../README.md");

/// The contents of the first fenced text of a kind after a heading.
fn fenced(heading: &str, kind: &str) -> &'static str {
    let (_, after) = README.split_once(&format!("\n{heading}\n")).expect("the heading");
    let (_, text) = after.split_once(&format!("```{kind}\n")).expect("a fenced text");
    text.split_once("\n```").expect("its end").0
}

#[test]
fn the_commands_of_the_readme_run_on_its_program() {
    let demo = Crate::new("readme", "");
    demo.write("src/main.rs", fenced("## What it looks like", "rust"));
    std::fs::remove_file(demo.root().join("src/lib.rs")).expect("the library is removed");
    let commands = fenced("## `cargo fuse`", "console").lines().filter_map(|line| {
        let command = line.strip_prefix("$ cargo ").expect("a command of cargo");
        command.split('#').next().expect("a command").trim().strip_prefix("fuse ")
    });
    let commands: Vec<&str> = commands.collect();
    assert!(commands.len() >= 6, "{commands:?}");
    for command in commands {
        let ran = demo.fuse(command);
        // What this machine lacks is the doctor's to find.
        assert!(ran.code == Some(0) || command == "doctor", "{command}\n{}\n{}", ran.out, ran.err);
        assert!(!ran.out.is_empty(), "{command}");
    }
    let explained = demo.fuse("explain gated_norm").ok();
    assert!(explained.contains("kernel `demo::gated_norm`, src/main.rs:"), "{explained}");
    assert!(demo.read("fuse.lock").contains("\nkernel demo::gated_norm\n"));
    assert_eq!(demo.fuse("lock --check").ok(), "1 kernel as locked\n");
}
