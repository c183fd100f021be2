//! `cargo xtask gpu-check [FOLDER]`: a folder that shows on a machine with a GPU, and without Rust, whether all is right there.
//!
//! It holds the tests of kernels and devices and the bench `gpu` as programs, and `run.sh`, which runs them one after the
//! other within eight minutes and prints what failed and the table. The machine needs Linux on x86-64 with glibc 2.36,
//! NVIDIA's driver, and NVRTC, which `run.sh` also finds where pip puts it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The tests that have something to do with a GPU.
const TESTS: [&str; 6] = ["devices", "patterns", "smoke", "engine", "corners", "cases"];
/// The minor version of glibc 2 that the machine has.
const GLIBC: u32 = 36;

/// The script; `TESTS` stands for the names of the tests.
const SCRIPT: &str = r#"#!/bin/sh
# Runs the tests and the bench of this folder on this machine's GPU. Ends within eight minutes.
cd "$(dirname "$0")" || exit 1
export FUSE_CACHE_DIR="${FUSE_CACHE_DIR:-$PWD/cache}"
# NVRTC where pip puts it, if the linker does not know one.
for folder in $(python3 -c 'import site, sys; print("\n".join(site.getsitepackages() + [site.getusersitepackages()] + sys.path))' 2>/dev/null); do
    for lib in "$folder"/nvidia/cu13/lib "$folder"/nvidia/cuda_nvrtc/lib; do
        [ -d "$lib" ] && LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$lib"
    done
done
export LD_LIBRARY_PATH
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null
failed=0
for test in TESTS; do
    if timeout 60 "./$test" cuda:: >"$test.log" 2>&1; then
        grep '^test result' "$test.log" | sed "s/^/$test: /"
    else
        failed=1
        echo "$test: FAILED, see $test.log"
        grep -E 'panicked|^kernel|FAILED' "$test.log" | head -20
    fi
done
timeout 110 ./gpu "$@" || failed=1
[ "$failed" = 0 ] && echo "gpu-check: all passed" || echo "gpu-check: FAILED"
exit "$failed"
"#;

/// Builds the folder.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let folder = arguments.first().map_or_else(|| PathBuf::from("target/gpu-check"), PathBuf::from);
    match build(&folder) {
        Ok(()) => {
            println!("built in {}: copy it to the machine, and run `run.sh` there", folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("gpu-check: {error}");
            ExitCode::FAILURE
        }
    }
}

fn build(folder: &Path) -> Result<(), String> {
    let written = |e: std::io::Error| format!("{}: {e}", folder.display());
    fs::create_dir_all(folder).map_err(written)?;
    let mut programs = Vec::new();
    for test in TESTS {
        programs.push((test, find_program(&["test", "--test", test, "--no-run"])?));
    }
    programs.push(("gpu", find_program(&["bench", "--bench", "gpu", "--no-run"])?));
    for (name, program) in &programs {
        let bytes = fs::read(program).map_err(|e| format!("{}: {e}", program.display()))?;
        match newest_glibc(&bytes) {
            Some(minor) if minor > GLIBC => {
                return Err(format!(
                    "`{name}` needs glibc 2.{minor}; build it where there is no newer than 2.{GLIBC}"
                ));
            }
            Some(_) | None => {}
        }
        let copy = folder.join(name);
        fs::copy(program, &copy).map_err(written)?;
        // Symbols and their names of debugging are most of a program, and need not travel.
        let _ = Command::new("strip").arg("--strip-debug").arg(&copy).status();
    }
    let script = folder.join("run.sh");
    fs::write(&script, SCRIPT.replace("TESTS", &TESTS.join(" "))).map_err(written)?;
    make_executable(&script).map_err(written)
}

#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Builds a target, and gives the program that cargo says it is.
fn find_program(arguments: &[&str]) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).output().map_err(|e| format!("cargo: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(said.into_owned());
    }
    // `Executable tests/devices.rs (target/debug/deps/devices-…)`
    let line = said.lines().rfind(|line| line.trim_start().starts_with("Executable"));
    let path = line.and_then(|line| Some(line.rsplit_once('(')?.1.trim_end_matches(')').to_owned()));
    path.map(PathBuf::from).ok_or_else(|| format!("cargo names no program:\n{said}"))
}

/// The greatest minor version of glibc 2 whose symbols a program asks for.
fn newest_glibc(program: &[u8]) -> Option<u32> {
    const NAME: &[u8] = b"GLIBC_2.";
    let versions = program.windows(NAME.len() + 3).filter(|w| w.starts_with(NAME)).filter_map(|w| {
        let digits: String =
            w[NAME.len()..].iter().map(|&b| b as char).take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_glibc_counts() {
        assert_eq!(newest_glibc(b"..GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.4\0..."), Some(34));
        assert_eq!(newest_glibc(b"nothing"), None);
    }
}
