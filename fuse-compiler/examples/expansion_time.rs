//! How long the macro takes: `cargo run -p fuse-compiler --example expansion_time` in the dev profile, as a user's
//! build runs it, for kernels of 10, 100 and 1000 operations. This workspace optimises `fuse-ir` in that profile, which a
//! user's build does not: `--config 'profile.dev.package.fuse-ir.opt-level=0'` measures what it sees.
#![allow(clippy::print_stdout, reason = "it prints a table")]

use fuse_compiler::diagnostic::Diagnostics;
use fuse_compiler::pipeline::expand_block;
use proc_macro2::TokenStream;
use std::time::Instant;

fn main() {
    let chain = |operations: usize| {
        let lines: String = (0..operations).map(|k| format!("let x = x * {k}.5 + 0.25;\n")).collect();
        format!("#[kernel] pub fn chain<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {{ {lines} x }}")
    };
    let norms = |operations: usize| {
        let lines: String =
            (0..operations / 10).map(|_| "let x = (x - x.mean(N)) * (x.var(N) + 0.5).rsqrt();\n").collect();
        format!("#[kernel] pub fn norms<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {{ {lines} x }}")
    };
    println!("| operations | chain, ms | norms, ms |\n|---:|---:|---:|");
    for operations in [10, 100, 1000] {
        let [a, b] = [chain(operations / 2), norms(operations)].map(|source| milliseconds(&source));
        println!("| {operations} | {a:.1} | {b:.1} |");
    }
}

/// The least of five expansions.
fn milliseconds(source: &str) -> f64 {
    let facade: TokenStream = "::fuse".parse().expect("a path");
    let tokens: TokenStream = source.parse().expect("a block");
    let time = |_| {
        let start = Instant::now();
        let expansion = expand_block(&facade, tokens.clone(), &mut Diagnostics::new());
        assert!(!expansion.to_string().contains("compile_error"), "{expansion}");
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..5).map(time).fold(f64::INFINITY, f64::min)
}
