//! Crates that forbid and deny much: what `fuse!` expands to must not be what breaks their build.
//!
//! A workspace of small crates is generated and built offline: every edition, the dependency renamed, kernels public,
//! private, in a function's body, generic, and with a test. Its target folder is kept between runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates: name, edition, and the name of the dependency.
const CRATES: [(&str, &str, &str); 4] = [
    ("strict2018", "2018", "fuse"),
    ("strict2021", "2021", "fuse"),
    ("strict2024", "2024", "fuse"),
    ("renamed", "2021", "other_name"),
];

/// The library; `DEPENDENCY` stands for the name of the dependency.
const LIBRARY: &str = r#"//! A strict crate.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unreachable_pub, missing_debug_implementations)]
#![deny(unused, future_incompatible, nonstandard_style, rust_2018_idioms, single_use_lifetimes)]
#![deny(clippy::all, clippy::pedantic, clippy::unwrap_used, clippy::print_stdout)]

use DEPENDENCY::{f16, Device, Error, Tensor};

DEPENDENCY::fuse! {
    /// An op.
    #[op]
    fn halve(x: f32) -> f32 { 0.5 * x }

    /// A public kernel.
    #[kernel(test)]
    pub fn activate<M, N>(x: Tensor<f32, M, N>, b: Tensor<f32, N>) -> Tensor<f32, M, N> {
        halve(x + b).max(0.0)
    }

    /// A generic kernel with two results.
    #[kernel(T = [f32, f16], test)]
    pub fn normalise<T: Float, M, N>(x: Tensor<T, M, N>) -> (Tensor<T, M, N>, Tensor<f32, M>) {
        let mean = (x as f32).mean(N);
        ((x as f32 - mean) as T, mean)
    }

    /// A kernel that writes its argument.
    #[kernel]
    pub fn step<N>(p: &mut Tensor<f32, N>, g: Tensor<f32, N>, lr: f32) {
        *p -= lr * g;
    }

    #[kernel]
    fn private<N>(x: Tensor<i32, N>) -> Tensor<i32, N> { x * x + 1 }
}

mod inner {
    DEPENDENCY::fuse! {
        /// A kernel of the crate.
        #[kernel]
        pub(crate) fn twice<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x + x }
    }
}

/// Calls everything.
///
/// # Errors
/// If a kernel fails.
pub fn call() -> Result<f32, Error> {
    DEPENDENCY::fuse! {
        /// A kernel in a function's body.
        #[kernel]
        fn total<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.sum(N) }
    }
    let device = Device::cpu();
    let x = Tensor::from_vec(vec![1.0f32, -2.0, 3.0, 4.0], [2, 2], &device)?;
    let b = Tensor::full(1.0f32, [2], &device)?;
    let y = activate(&x, &b)?;
    let (mut y, mean) = normalise(&y)?;
    normalise::into(&x, &mut y, &mut Tensor::zeros([2], &device)?)?;
    let narrow = Tensor::<f16, 2>::zeros([2, 2], &device)?;
    let _ = normalise::<f16>(&narrow)?;
    let mut p = inner::twice(&mean)?;
    step(&mut p, &b, 0.5)?;
    let _ = private(&Tensor::from_vec(vec![1, 2], [2], &device)?)?;
    total(&p)?.item()
}
"#;

/// A test of each crate's own, which checks a number.
const TESTS: &str = r#"//! Runs the strict crate.
#[test]
fn everything_runs() {
    // activate = [[1, 0], [2, 2.5]], means 0.5 and 2.25, twice them, less 0.5 each.
    assert_eq!(NAME::call(), Ok(1.0 - 0.5 + 4.5 - 0.5));
    assert_eq!(NAME::activate::plan().launch_count(), 1);
}
"#;

fn write(path: &Path, text: &str) {
    let parent = path.parent().expect("a file has a folder");
    fs::create_dir_all(parent).expect("the folder can be made");
    // Files keep their times where nothing changes, so that cargo builds no more than it must.
    if fs::read_to_string(path).ok().as_deref() != Some(text) {
        fs::write(path, text).expect("the file can be written");
    }
}

fn generate(root: &Path) {
    let facade = env!("CARGO_MANIFEST_DIR");
    let members: Vec<String> = CRATES.iter().map(|(name, _, _)| format!("\"{name}\"")).collect();
    write(
        &root.join("Cargo.toml"),
        &format!("[workspace]\nresolver = \"2\"\nmembers = [{}]\n", members.join(", ")),
    );
    let lock =
        fs::read_to_string(Path::new(facade).join("Cargo.lock")).expect("the workspace has a lock file");
    if !root.join("Cargo.lock").exists() {
        write(&root.join("Cargo.lock"), &lock);
    }
    for (name, edition, dependency) in CRATES {
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"{edition}\"\n\n[dependencies]\n\
             {dependency} = {{ package = \"fuse-kernels\", path = \"{facade}\" }}\n"
        );
        write(&root.join(name).join("Cargo.toml"), &manifest);
        write(&root.join(name).join("src/lib.rs"), &LIBRARY.replace("DEPENDENCY", dependency));
        write(&root.join(name).join("tests/run.rs"), &TESTS.replace("NAME", name));
    }
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--offline", "--quiet"])
        .current_dir(root)
        .env("CARGO_TARGET_DIR", root.join("target"))
        // What this build was started with does not concern those crates.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "cargo {}:\n{}{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

#[test]
fn strict_crates_build_and_run() -> Result<(), String> {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("strict-crates");
    generate(&root);
    cargo(&root, &["test", "--workspace"])?;
    // Where clippy is not installed there is nothing to ask it.
    if cargo(&root, &["clippy", "--version"]).is_ok() {
        cargo(&root, &["clippy", "--workspace"])?;
    }
    Ok(())
}
