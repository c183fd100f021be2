//! The README's commands and code, in an empty folder: from nothing to a fused kernel, its plan and its report.
//!
//! Every command of the README is run here or named with what keeps it from being run; its programs are tests of their own as
//! well (`Readme` in `src/lib.rs`).

use super::crates::{Crate, Ran, lock_file, workspace};

const README: &str = include_str!("../../../README.md");

/// A fenced text of the README.
struct Fenced {
    kind: &'static str,
    text: &'static str,
}

/// The fenced texts after a heading, in order.
fn fenced(heading: &str) -> Vec<Fenced> {
    let (_, after) = README.split_once(&format!("\n{heading}\n")).expect("the heading");
    let section = after.split_once("\n## ").map_or(after, |(section, _)| section);
    let inside = section.split("```").skip(1).step_by(2);
    let read = |text: &'static str| {
        let (kind, text) = text.split_once('\n').expect("a fenced text starts with its kind");
        Fenced { kind, text }
    };
    inside.map(read).collect()
}

/// The commands of a text and what is shown below each. What stands behind `#` is for the reader.
fn commands(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => {
                let command = command.split('#').next().unwrap_or_default().trim();
                commands.extend(command.split(" && ").map(|one| (one, Vec::new())));
            }
            (None, Some((_, shown))) => shown.push(line),
            (None, None) => panic!("`{line}` stands before a command"),
        }
    }
    commands
}

/// What is not run here.
const ELSEWHERE: [&str; 7] = [
    // Of this repository: by its own checks.
    "cargo run --release --example develop",
    "cargo test --workspace",
    // They fetch the weights of published networks.
    "cargo run --release -p embed -- TEXT",
    "cargo run --release -p classify -- PHOTO",
    // Installs the program that is tested.
    "cargo install --path cargo-fuse",
    // Need NVRTC: `warm.rs`.
    "cargo fuse warm --arch sm_90",
    "cargo fuse warm --arch sm_80 --arch sm_90 --embed src/machine_code.fuse",
];

#[test]
fn from_nothing_to_a_fused_kernel_its_plan_and_its_report() {
    let place = Crate::empty("readme");
    let mut folder = String::new();
    for Fenced { kind, text } in fenced("## What it looks like") {
        match kind {
            "rust" => place.write(&format!("{folder}/src/main.rs"), text),
            "console" => {
                for (command, shown) in commands(text) {
                    match command.strip_prefix("cd ") {
                        Some(inner) => folder = inner.to_owned(),
                        None => run(&place, &folder, command, &shown),
                    }
                }
            }
            other => panic!("nothing is known of a text of kind `{other}`"),
        }
    }
    // The plan as it is shown, decisions left out.
    let printed = place.shell(&folder, "cargo run").ok();
    let shown = fenced("## What it becomes");
    let shown = shown.iter().find(|fenced| fenced.kind == "text").expect("the plan");
    assert!(printed.contains(shown.text.trim_end()), "{printed}\n{}", shown.text);

    let of_fuse = fenced("## `cargo fuse`");
    let console = of_fuse.iter().find(|fenced| fenced.kind == "console").expect("the commands");
    let own: Vec<_> =
        commands(console.text).into_iter().filter(|(command, _)| !ELSEWHERE.contains(command)).collect();
    assert!(own.len() >= 7, "{own:?}");
    for (command, shown) in own {
        run(&place, &folder, command, &shown);
    }
    let explained = place.shell(&folder, "cargo fuse explain gated_norm").ok();
    assert!(explained.contains("kernel `demo::gated_norm`, src/main.rs:"), "{explained}");
    assert!(explained.contains("1 launch"), "{explained}");
    assert!(place.read(&format!("{folder}/fuse.lock")).contains("\nkernel demo::gated_norm\n"));
    assert_eq!(place.shell(&folder, "cargo fuse lock --check").ok(), "1 kernel as locked\n");
    let said = place.shell(&folder, "cargo fuse report").ok();
    let page = said.trim_end().strip_prefix("1 kernel in ").expect("the page is named");
    let page = std::fs::read_to_string(page).expect("the page is there");
    assert!(page.contains("gated_norm") && page.contains("class=\"edge"), "no graph in the page");
}

/// Runs a command as the README has it, where this repository lies elsewhere and nothing may be fetched.
fn run(place: &Crate, folder: &str, command: &str, shown: &[&str]) {
    let local = workspace().display().to_string();
    let ran = place.shell(folder, &command.replace("../fuse-kernels", &local));
    if command.starts_with("cargo add ") {
        place.write(&format!("{folder}/Cargo.lock"), &lock_file());
    }
    let Ran { code, out, err } = &ran;
    // What this machine lacks is the doctor's to find.
    assert!(*code == Some(0) || command == "cargo fuse doctor", "{command}\n{out}\n{err}");
    let is_silent = ["cargo new", "cargo add"].iter().any(|start| command.starts_with(start));
    assert!(is_silent || !out.is_empty(), "{command} prints nothing");
    for line in shown {
        assert!(out.lines().any(|printed| printed == *line), "{command} does not print\n{line}\nbut\n{out}");
    }
}

#[test]
fn every_command_is_run_or_said_to_be_run_elsewhere() {
    let consoles = README.split("\n```console\n").skip(1).filter_map(|rest| rest.split_once("\n```"));
    let all: Vec<&str> = consoles.flat_map(|(text, _)| commands(text)).map(|(command, _)| command).collect();
    for elsewhere in ELSEWHERE {
        assert!(all.contains(&elsewhere), "the README no longer has `{elsewhere}`");
    }
    let run_here = |heading| fenced(heading).into_iter().filter(|fenced| fenced.kind == "console");
    let here = ["## What it looks like", "## `cargo fuse`"].into_iter().flat_map(run_here);
    let here: Vec<&str> = here.flat_map(|fenced| commands(fenced.text)).map(|(command, _)| command).collect();
    for command in all {
        assert!(here.contains(&command) || ELSEWHERE.contains(&command), "nothing runs `{command}`");
    }
}

/// The kernel of the README's refused fusion, at the lines that are shown.
#[test]
fn the_refused_fusion_is_shown_as_it_is() {
    let of_fuse = fenced("## `cargo fuse`");
    let shown = of_fuse.iter().find(|fenced| fenced.kind == "text").expect("the refused fusion").text;
    let line = |number: &str| {
        let start = format!("{number} | ");
        shown.lines().find_map(|line| line.strip_prefix(start.as_str())).expect("a line of the source")
    };
    let head = "\n".repeat(8)
        + "fuse::fuse! {\n    #[kernel]\n    pub fn softened<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {\n";
    let source = format!("{head}{}\n{}\n    }}\n}}\n", line("12"), line("13"));
    let demo = Crate::new("readme-refused", &source);
    let explained = demo.fuse("explain --refused").ok();
    let printed: Vec<&str> = explained.lines().map(str::trim_end).collect();
    let wanted: Vec<&str> = shown.lines().map(str::trim_end).collect();
    assert!(printed.windows(wanted.len()).any(|lines| lines == wanted), "{explained}");
}
