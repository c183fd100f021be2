//! Warnings at operations, as rustc shows them.

use super::crates::{Crate, check_golden};

const LIBRARY: &str = "\
fuse::fuse! {
    #[kernel(warn(unfused, materialized), T = [f32, f64])]
    pub fn cut<T: Float, M, N>(x: Tensor<T, M, N>) -> Tensor<T, M, N> {
        let y = x.exp().materialize();
        y + 1.0
    }

    #[kernel(warn(unfused, materialized))]
    pub fn whole<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.exp() + 1.0 }

    #[kernel]
    pub fn silent<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.exp().materialize() + 1.0 }
}
";

#[test]
fn lints_are_warnings_at_the_operation() {
    let demo = Crate::new("lints", LIBRARY);
    let ran = demo.cargo("check", &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    // How the warnings came about, rustc says in words of its version.
    let lines = ran.err.lines().filter(|line| !line.starts_with("  = note: "));
    check_golden("lints.txt", &lines.map(|line| format!("{}\n", line.trim_end())).collect::<String>());
    // What is not asked for is not told.
    assert!(!ran.err.contains("src/lib.rs:9") && !ran.err.contains("src/lib.rs:12"), "{}", ran.err);
}

#[test]
fn what_denies_warnings_denies_lints() {
    let demo = Crate::new("denied", &format!("#![deny(warnings)]\n{LIBRARY}"));
    let ran = demo.cargo("check", &[]);
    assert_eq!(ran.code, Some(101), "{}", ran.err);
    assert!(ran.err.contains("error: use of deprecated constant"), "{}", ran.err);
}
