//! `cargo xtask build-cost`: what the macro costs a user's build, measured on crates made for it under `target/`.
//!
//! A hello-world crate from nothing in the dev profile (seconds, crates), then a crate of 100 kernels against the
//! hello-world crate in dev and release (seconds, bytes of code).

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

const HELLO: &str = "
fuse::fuse! {
    #[kernel]
    pub fn scale<N>(x: Tensor<f32, N>, s: f32) -> Tensor<f32, N> { x * s }
}

fn main() -> Result<(), fuse::Error> {
    let x = fuse::Tensor::from_vec(vec![1.0, 2.0], [2], &fuse::Device::cpu())?;
    println!(\"{:?}\", scale(&x, 2.0)?.to_vec()?);
    Ok(())
}
";

/// Measures and prints.
pub(crate) fn run() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("build-cost: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), String> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask lies in the workspace")?.to_path_buf();
    let folder = root.join("target/build-cost");
    let _ = std::fs::remove_dir_all(&folder);
    let hello = write_crate(&root, &folder.join("hello"), HELLO)?;
    let (seconds, text) = build(&hello, &folder.join("target"), &[])?;
    println!("hello world, clean debug build: {seconds:.1} s, {} crates", text.matches("Compiling").count());

    let kernels = write_crate(&root, &folder.join("kernels"), &many_kernels(100))?;
    for profile in [&[][..], &["--release"][..]] {
        // The dependencies first, so that only the crates themselves are timed.
        build(&hello, &folder.join("target"), profile)?;
        let name = if profile.is_empty() { "debug" } else { "release" };
        touch(&hello)?;
        let (without, _) = build(&hello, &folder.join("target"), profile)?;
        let (with, _) = build(&kernels, &folder.join("target"), profile)?;
        let binary = |package: &str| folder.join("target").join(name).join(package);
        let mebibytes = |package: &str| Ok::<_, String>(code_bytes(&binary(package))? as f64 / 1048576.0);
        let (code, own) = (mebibytes("kernels")?, mebibytes("hello")?);
        println!(
            "100 kernels, {name}: {:.1} s more, {:.2} MiB of code more than the {own:.2} MiB of hello world",
            with - without,
            code - own,
        );
    }
    Ok(())
}

/// A crate of `count` kernels of five kinds, each called once, so that none is dropped.
fn many_kernels(count: usize) -> String {
    let mut block = String::new();
    let mut calls = String::new();
    for k in 0..count {
        let body = match k % 5 {
            0 => format!("gelu(x * {k}.0) + 1.0"),
            1 => format!("silu(x + {k}.0) * x"),
            2 => format!("(x * {k}.5).softmax(N)"),
            3 => format!("(x - x.mean(N)) * (x.var(N) + {k}.0).rsqrt()"),
            _ => format!("((x * {k}.0).tanh() * 0.5 + x).max(0.0)"),
        };
        let _ = writeln!(
            block,
            "    #[kernel]\n    pub fn k{k}<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {{ {body} }}"
        );
        let _ = writeln!(calls, "    x = k{k}(&x)?;");
    }
    format!(
        "fuse::fuse! {{\n{block}}}\n\nfn main() -> Result<(), fuse::Error> {{\n    let mut x = \
         fuse::Tensor::from_vec(vec![1.0f32; 4], [2, 2], &fuse::Device::cpu())?;\n{calls}    println!(\"{{:?}}\", x.to_vec()?);\n    \
         Ok(())\n}}\n"
    )
}

fn write_crate(root: &Path, folder: &Path, main: &str) -> Result<PathBuf, String> {
    let name = folder.file_name().and_then(|n| n.to_str()).ok_or("a crate has a name")?;
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\nfuse = {{ package = \
         \"fuse-kernels\", path = {root:?} }}\n\n[workspace]\n"
    );
    let write = |path: PathBuf, text: &str| {
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    };
    std::fs::create_dir_all(folder.join("src")).map_err(|e| e.to_string())?;
    write(folder.join("Cargo.toml"), &manifest)?;
    write(folder.join("src/main.rs"), main)?;
    std::fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).map_err(|e| e.to_string())?;
    Ok(folder.to_path_buf())
}

fn touch(folder: &Path) -> Result<(), String> {
    let path = folder.join("src/main.rs");
    let text = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
    std::fs::write(path, text).map_err(|e| e.to_string())
}

/// Builds; gives seconds and what cargo said.
fn build(folder: &Path, target: &Path, args: &[&str]) -> Result<(f64, String), String> {
    let start = Instant::now();
    let output = Command::new(env!("CARGO"))
        .arg("build")
        .args(args)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", target)
        .env_remove("RUSTFLAGS")
        .output()
        .map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok((start.elapsed().as_secs_f64(), text)) } else { Err(text) }
}

/// The size of `.text` of a 64-bit ELF file.
fn code_bytes(path: &Path) -> Result<u64, String> {
    let file = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let mut out = [0; 8];
        out[..bytes].copy_from_slice(file.get(at..at + bytes)?);
        Some(u64::from_le_bytes(out))
    };
    let find = || -> Option<u64> {
        let (sections, size) = (number(0x28, 8)? as usize, number(0x3a, 2)? as usize);
        let (count, names) = (number(0x3c, 2)? as usize, number(0x3e, 2)? as usize);
        let strings = number(sections + names * size + 0x18, 8)? as usize;
        (0..count).map(|s| sections + s * size).find_map(|header| {
            let name = strings + number(header, 4)? as usize;
            if file.get(name..name + 6)? == b".text\0" { number(header + 0x20, 8) } else { None }
        })
    };
    find().ok_or_else(|| format!("{}: no `.text`", path.display()))
}
