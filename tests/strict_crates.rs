//! Crates that forbid and deny much: what `fuse!` expands to must not be what breaks their build.
//!
//! A workspace of small crates is generated and built offline: every edition, the dependency renamed, kernels public,
//! private, in a function's body, generic, with a test, under attributes, and of ops from another crate. Its target folder
//! is kept between runs.

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

/// Ops under attributes.
pub mod attributes {
    /// An op that other crates can call.
    #[DEPENDENCY::op(crate = DEPENDENCY)]
    #[must_use]
    pub fn third(x: f32) -> f32 {
        x / 3.0
    }

    /// What only this crate can call.
    #[DEPENDENCY::composite(crate = DEPENDENCY)]
    pub(crate) fn less_third<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        x - third(x)
    }

    /// A combiner.
    #[DEPENDENCY::reduce(identity = 0.0, crate = DEPENDENCY)]
    #[must_use]
    pub fn add(a: f32, b: f32) -> f32 {
        a + b
    }
}

/// A kernel of ops from elsewhere.
#[DEPENDENCY::kernel(launches = 1, test, crate = DEPENDENCY)]
pub fn imported<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
    attributes::less_third::<N>(ops::thrice(x)).reduce(N, attributes::add)
}

DEPENDENCY::fuse! {
    use ops::{scaled, thrice as three_times};

    /// The same in a block, which brings its own names into scope.
    #[kernel(launches = 1)]
    pub fn imported_by_block<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
        scaled::<N>(three_times(x)).sum(N)
    }
}

/// Twice the sums of rows, from both kernels of imported ops.
///
/// # Errors
/// If a kernel fails.
pub fn imports() -> Result<[Vec<f32>; 2], Error> {
    let x = Tensor::from_vec(vec![1.0f32, -2.0, 3.0, 4.0], [2, 2], &Device::cpu())?;
    Ok([imported(&x)?.to_vec()?, imported_by_block(&x)?.to_vec()?])
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

/// A crate of ops, strict as well, whose dependency has its own name.
const OPS: &str = r#"//! Ops for others.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unreachable_pub, unused, future_incompatible, nonstandard_style)]
#![deny(clippy::all, clippy::pedantic)]

mod inner {
    the_dsl::fuse! {
        const FACTOR: f32 = 3.0;

        #[op]
        fn times(x: f32) -> f32 { x * FACTOR }

        /// Three times as much.
        #[op]
        #[must_use]
        pub fn thrice(x: f32) -> f32 { times(x) }

        /// Two thirds.
        pub fn scaled<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 / 3.0 }

        /// Only for this crate.
        #[op]
        pub(crate) fn unused_elsewhere(x: f32) -> f32 { x }
    }
}

pub use inner::{scaled, thrice};
"#;

/// A test of each crate's own, which checks a number.
const TESTS: &str = r#"//! Runs the strict crate.
#[test]
fn everything_runs() {
    // activate = [[1, 0], [2, 2.5]], means 0.5 and 2.25, twice them, less 0.5 each.
    assert_eq!(NAME::call(), Ok(1.0 - 0.5 + 4.5 - 0.5));
    assert_eq!(NAME::activate::plan().launch_count(), 1);
    let rows = vec![-2.0, 14.0];
    assert_eq!(NAME::imports(), Ok([rows.clone(), rows]));
    assert_eq!(NAME::imported_by_block::plan().launch_count(), 1);
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
    let members = CRATES.iter().map(|(name, _, _)| *name).chain(["ops"]);
    let members: Vec<String> = members.map(|name| format!("\"{name}\"")).collect();
    write(
        &root.join("Cargo.toml"),
        &format!("[workspace]\nresolver = \"2\"\nmembers = [{}]\n", members.join(", ")),
    );
    let lock =
        fs::read_to_string(Path::new(facade).join("Cargo.lock")).expect("the workspace has a lock file");
    if !root.join("Cargo.lock").exists() {
        write(&root.join("Cargo.lock"), &lock);
    }
    let manifest = |name: &str, edition: &str, dependency: &str| {
        format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"{edition}\"\n\n[dependencies]\n\
             {dependency} = {{ package = \"fuse-kernels\", path = \"{facade}\" }}\n"
        )
    };
    write(&root.join("ops/Cargo.toml"), &manifest("ops", "2021", "the_dsl"));
    write(&root.join("ops/src/lib.rs"), OPS);
    for (name, edition, dependency) in CRATES {
        let manifest = manifest(name, edition, dependency) + "ops = { path = \"../ops\" }\n";
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
