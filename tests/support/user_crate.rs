//! A crate of a user: written into a temporary folder, built offline against this workspace, and run.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate being put together.
pub(crate) struct UserCrate {
    folder: PathBuf,
    manifest: String,
    args: Vec<&'static str>,
}

/// What a build or a run printed.
pub(crate) struct Output {
    /// Whether it ended well.
    pub(crate) success: bool,
    /// Standard output of the program.
    pub(crate) stdout: String,
    /// Standard error of cargo and the program.
    pub(crate) stderr: String,
}

impl UserCrate {
    /// A crate of that name that depends on `fuse` by its own name, of edition 2024.
    pub(crate) fn new(name: &str) -> Self {
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\nfuse = {}\n\n[workspace]\n\n\
             [profile.dev.package.fuse-runtime]\nopt-level = 3\ndebug-assertions = false\noverflow-checks = false\n\n\
             [profile.dev.package.fuse-ir]\nopt-level = 2\n",
            dependency()
        );
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("user-crates").join(name);
        UserCrate { folder, manifest, args: Vec::new() }
    }

    /// Another manifest; `{fuse}` stands for the value of the dependency.
    #[allow(dead_code, reason = "each test binary uses its part of this module")]
    pub(crate) fn manifest(mut self, manifest: &str) -> Self {
        self.manifest = manifest.replace("{fuse}", &dependency());
        self
    }

    /// Writes `src/main.rs`.
    pub(crate) fn main(self, text: &str) -> Self {
        self.file("src/main.rs", text)
    }

    /// Writes a file.
    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        let path = self.folder.join(path);
        std::fs::create_dir_all(path.parent().expect("a file lies in a folder"))
            .expect("a folder under the target folder");
        std::fs::write(path, text).expect("a file of a user's crate");
        self
    }

    /// `cargo run`.
    #[allow(dead_code, reason = "each test binary uses its part of this module")]
    pub(crate) fn run(self) -> Output {
        self.cargo("run")
    }

    /// `cargo COMMAND` in the crate, offline, with a target folder that all such crates share.
    pub(crate) fn cargo(self, command: &str) -> Output {
        std::fs::create_dir_all(&self.folder).expect("a folder under the target folder");
        std::fs::write(self.folder.join("Cargo.toml"), &self.manifest).expect("a manifest");
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock");
        std::fs::copy(lock, self.folder.join("Cargo.lock")).expect("the lock file of this workspace");
        let output = Command::new(env!("CARGO"))
            .args([command, "--offline", "--quiet"])
            .args(&self.args)
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("user-target"))
            .env("CARGO_INCREMENTAL", "0")
            .env_remove("RUSTFLAGS")
            .output()
            .expect("cargo runs");
        Output {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

fn dependency() -> String {
    format!("{{ package = \"fuse-kernels\", path = {:?} }}", env!("CARGO_MANIFEST_DIR"))
}
