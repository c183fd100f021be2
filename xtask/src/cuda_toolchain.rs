//! `cargo xtask cuda-toolchain`: NVIDIA's compiler and disassembler under the target folder, from PyPI; no GPU, driver or
//! toolkit is needed to check that printed CUDA compiles.

use crate::nvrtc::Nvrtc;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The packages: NVRTC contains the assembler `ptxas`, `nvdisasm` reads what it makes.
const PACKAGES: [&str; 2] = ["nvidia-cuda-nvrtc==13.*", "nvidia-cuda-nvdisasm==13.*"];

/// What `cargo xtask cuda-toolchain` installed.
pub(crate) struct Toolchain {
    /// The compiler.
    pub(crate) nvrtc: Nvrtc,
    /// The disassembler.
    pub(crate) nvdisasm: PathBuf,
}

/// Installs the toolchain unless it is there.
pub(crate) fn run() -> ExitCode {
    let installed = match find() {
        Ok(toolchain) => Ok(toolchain),
        Err(_) => install().and_then(|()| find()),
    };
    match installed {
        Ok(toolchain) => {
            let (major, minor) = toolchain.nvrtc.version();
            println!("NVRTC {major}.{minor} in `{}`", folder().display());
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The folder: beside what cargo builds.
fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    target.join("cuda-toolchain")
}

/// The toolchain, if it is installed.
///
/// # Errors
/// What is missing, and the command that installs it.
pub(crate) fn find() -> Result<Toolchain, String> {
    let missing = |what: &str| {
        format!("{what} is not under `{}`; `cargo xtask cuda-toolchain` installs it", folder().display())
    };
    let packages = only_child(&folder().join("lib"), "python3").ok_or_else(|| missing("Python"))?;
    let packages = packages.join("site-packages/nvidia");
    let cuda = only_child(&packages, "cu").ok_or_else(|| missing("CUDA"))?;
    let builtins = only_child(&cuda.join("lib"), "libnvrtc-builtins.so").ok_or_else(|| missing("NVRTC"))?;
    let compiler = only_child(&cuda.join("lib"), "libnvrtc.so").ok_or_else(|| missing("NVRTC"))?;
    let nvdisasm = cuda.join("bin/nvdisasm");
    if !nvdisasm.exists() {
        return Err(missing("nvdisasm"));
    }
    Ok(Toolchain { nvrtc: Nvrtc::load(&builtins, &compiler)?, nvdisasm })
}

/// The first entry of a folder whose name starts so, in the order of names.
fn only_child(folder: &Path, start: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    let names = entries.filter_map(|entry| entry.ok().map(|e| e.path()));
    names.filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(start))).min()
}

fn install() -> Result<(), String> {
    let folder = folder();
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    finish(Command::new(&python).args(["-m", "venv"]).arg(&folder), "python3 -m venv")?;
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]).args(PACKAGES);
    finish(&mut pip, "pip install")
}

fn finish(command: &mut Command, name: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{name}` ends with {status}")),
        Err(error) => Err(format!("`{name}` does not start: {error}")),
    }
}
