//! Crates of users, and the program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A crate in a folder of its own, removed at the end of its test.
pub(crate) struct Crate {
    root: PathBuf,
}

impl Crate {
    /// A crate named `demo` with this library. `test` names the folder.
    pub(crate) fn new(test: &str, library: &str) -> Crate {
        // What is checked alone needs no GPUs.
        let demo = Crate::with_dependency(test, ", default-features = false");
        demo.write("src/lib.rs", library);
        demo
    }

    /// A crate named `demo` with this program, which can use GPUs.
    pub(crate) fn program(test: &str, program: &str) -> Crate {
        let demo = Crate::with_dependency(test, "");
        demo.write("src/main.rs", program);
        demo
    }

    /// A folder with nothing in it.
    pub(crate) fn empty(test: &str) -> Crate {
        let root = std::env::temp_dir().join(format!("cargo-fuse-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).expect("the folder can be made");
        Crate { root }
    }

    fn with_dependency(test: &str, options: &str) -> Crate {
        let demo = Crate::empty(test);
        // To cargo a package at the root of a workspace is the same wherever that lies, so that in one target folder the crates
        // must differ in something else.
        let version = test.bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        demo.write(
            "Cargo.toml",
            &format!(
                "[package]\nname = \"demo\"\nversion = \"0.0.{version}\"\nedition = \"2024\"\n\n\
                 [features]\nextra = []\n\n[workspace]\n\n[dependencies]\n\
                 fuse = {{ package = \"fuse-kernels\", path = \"{}\"{options} }}\n",
                workspace().display()
            ),
        );
        demo.write("Cargo.lock", &lock_file());
        demo
    }

    /// Writes a file of the crate.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
        fs::write(path, text).expect("the file can be written");
    }

    /// The text of a file of the crate.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).expect("the file can be read")
    }

    /// The folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs `cargo fuse` with arguments that blanks separate.
    pub(crate) fn fuse(&self, line: &str) -> Ran {
        self.fuse_with(line, &[])
    }

    /// The same with variables of the environment.
    pub(crate) fn fuse_with(&self, line: &str, variables: &[(&str, &Path)]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-fuse"));
        command.arg("fuse").args(line.split_whitespace()).envs(variables.iter().copied());
        // A folder that is not named would be one for each crate.
        if ["explain", "emit", "lock", "report", "warm"].iter().any(|builds| line.starts_with(builds)) {
            command.arg("--target-dir").arg(target());
        }
        self.run(command, &target())
    }

    /// Runs cargo itself.
    pub(crate) fn cargo(&self, line: &str, variables: &[(&str, &Path)]) -> Ran {
        let mut command = Command::new(env!("CARGO"));
        command.args(line.split_whitespace()).envs(variables.iter().copied());
        // The folder in which `cargo fuse` builds.
        self.run(command, &target().join("fuse"))
    }

    fn run(&self, command: Command, target: &Path) -> Ran {
        self.run_in("", command, target)
    }

    /// Runs a command line of cargo in a folder of this one; `cargo fuse` is the program that is tested.
    pub(crate) fn shell(&self, folder: &str, line: &str) -> Ran {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("cargo"), "{line}");
        let words: Vec<&str> = words.collect();
        let program =
            if words.first() == Some(&"fuse") { env!("CARGO_BIN_EXE_cargo-fuse") } else { env!("CARGO") };
        let mut command = Command::new(program);
        command.args(&words);
        // The folder in which `cargo fuse` builds is that in which a program is built.
        let target = if words.first() == Some(&"fuse") { target() } else { target().join("fuse") };
        if words.first() == Some(&"fuse") && !["fmt", "doctor"].contains(&words[1]) {
            command.arg("--target-dir").arg(&target);
        }
        self.run_in(folder, command, &target)
    }

    fn run_in(&self, folder: &str, mut command: Command, target: &Path) -> Ran {
        let output = command
            .current_dir(self.root.join(folder))
            .env("CARGO_TARGET_DIR", target)
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TERM_QUIET", "true")
            .env("CARGO_TERM_COLOR", "never")
            // What this build was started with does not concern those crates.
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .output()
            .expect("the program starts");
        Ran::of(&output)
    }
}

impl Drop for Crate {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// What a program said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: &Output) -> Ran {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// What it printed; it succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}\n{}", self.out, self.err);
        self.out
    }

    /// Its exit status and the last line that it complained with.
    #[track_caller]
    pub(crate) fn failure(&self) -> (i32, &str) {
        let last = self.err.lines().last().unwrap_or_default();
        (self.code.expect("an exit status"), last.strip_prefix("error: ").unwrap_or(last))
    }
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cargo-fuse")
}

/// What the workspace has chosen of its dependencies, so that nothing is asked for.
pub(crate) fn lock_file() -> String {
    fs::read_to_string(workspace().join("Cargo.lock")).expect("the workspace has a lock file")
}

/// The folder of the workspace.
pub(crate) fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

/// Asserts that `text` equals the file `tests/golden/NAME`, or writes it there if blessing.
#[track_caller]
pub(crate) fn check_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("FUSE_BLESS").is_some() {
        fs::write(&path, text).expect("a golden file");
        return;
    }
    let want = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == want,
        "{name} differs; `cargo xtask bless` rewrites it\n--- golden\n{want}\n--- now\n{text}"
    );
}
