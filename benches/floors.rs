//! Single kernels beside what they are limited by, both timed in turns: the same bytes moved by a plain parallel loop, or
//! a hand-written fused loop over the same polynomials.
//!
//! ```text
//! cargo bench --bench floors
//! ```
//!
//! `--quiet S` waits at most that many seconds before each row for idle cores (20), `--pairs K` takes K pairs (15).

#![allow(clippy::print_stdout, reason = "a program that speaks to its user")]
#![allow(unreachable_pub, dead_code, reason = "the benches share their modules")]

#[path = "harness/handwritten.rs"]
mod handwritten;
#[path = "harness/inputs.rs"]
mod inputs;
#[path = "harness/kernels.rs"]
mod kernels;
#[path = "harness/peak.rs"]
mod peak;
#[path = "harness/timing.rs"]
mod timing;
#[path = "harness/traffic.rs"]
mod traffic;

use fuse::{Device, Tensor};
use inputs::Aligned;
use std::hint::black_box;
use timing::measure_pair;
use traffic::Traffic;

const N: usize = 1 << 24;

/// How the rows are measured.
#[derive(Clone, Copy)]
struct Settings {
    pairs: usize,
    quiet: f64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let place = arguments.iter().position(|a| a == name)?;
        arguments.get(place + 1)?.parse::<f64>().ok()
    };
    let settings = Settings {
        pairs: value("--pairs").unwrap_or(15.0) as usize,
        quiet: value("--quiet").unwrap_or(20.0),
    };
    println!("{} threads\n", rayon::current_num_threads());
    println!("| kernel | ms | beside | ms | ratio |");
    println!("|---|---:|---|---:|---:|");
    elementwise(settings);
    rows(settings, 4096, 4096);
    rows(settings, 65536, 128);
    reductions(settings);
    contractions(settings, 512, 1024, 4096);
    contractions(settings, 2048, 768, 3072);
    small_calls(settings);
    println!("\n| product | 10⁹ multiply-adds/s | of the machine's |");
    println!("|---|---:|---:|");
    shares(settings, 512, 1024, 4096);
    shares(settings, 2048, 768, 3072);
}

/// A tensor on the CPU.
fn tensor<const R: usize>(shape: [usize; R], seed: u32, low: f32, high: f32) -> Tensor<f32, R> {
    let data = inputs::uniform(shape.iter().product(), seed, low, high);
    Tensor::from_vec(data, shape, &Device::cpu()).expect("a tensor of numbers")
}

/// Prints a row: `kernel` beside `floor`.
fn row(
    settings: Settings,
    name: &str,
    beside: &str,
    inner: usize,
    kernel: impl FnMut(),
    floor: impl FnMut(),
) {
    let pair = measure_pair(inner, settings.pairs, settings.quiet, kernel, floor);
    println!("| {name} | {:.4} | {beside} | {:.4} | {:.2} |", pair.a * 1e3, pair.b * 1e3, pair.ratio);
}

fn elementwise(settings: Settings) {
    let a = Aligned::copied(&inputs::uniform(N, 1, -2.0, 2.0));
    let b = Aligned::copied(&inputs::uniform(N, 2, -1.0, 1.0));
    let (x, y) = (tensor([N], 1, -2.0, 2.0), tensor([N], 2, -1.0, 1.0));

    let mut out = kernels::affine12(&x, &y).expect("the shapes agree");
    let affine = || kernels::affine12::into(&x, &y, &mut out).expect("the shapes agree");
    row(settings, "affine12 16M", "triad", 1, affine, Traffic::floats(2, 1, N).mover());

    let mut out = kernels::transcendental12(&x).expect("the shapes agree");
    let mut by_hand = Aligned::filled(N, 0.0);
    let fused = || kernels::transcendental12::into(&x, &mut out).expect("the shapes agree");
    let hand = || handwritten::run_parallel(handwritten::transcendental12, &a, &a, &a, &mut by_hand);
    row(settings, "transc12 16M", "hand-written", 1, fused, hand);
    compare("transc12", out.to_vec().expect("results can be read"), &by_hand);

    let mut out = kernels::pw_chain12(&x, &y).expect("the shapes agree");
    let fused = || kernels::pw_chain12::into(&x, &y, &mut out).expect("the shapes agree");
    let hand = || handwritten::run_parallel(handwritten::chain12, &a, &b, &a, &mut by_hand);
    row(settings, "chain12 16M", "hand-written", 1, fused, hand);
    compare("chain12", out.to_vec().expect("results can be read"), &by_hand);

    let (mut p, mut q, mut r, mut s) = kernels::horizontal4(&x).expect("the shapes agree");
    let four = || kernels::horizontal4::into(&x, &mut p, &mut q, &mut r, &mut s).expect("the shapes agree");
    row(settings, "four activations 16M", "one read, four writes", 1, four, Traffic::floats(1, 4, N).mover());
}

/// The two must compute the same: a floor that computes something else is none.
fn compare(name: &str, fused: Vec<f32>, by_hand: &[f32]) {
    for (i, (f, h)) in fused.iter().zip(by_hand).enumerate() {
        assert!((f - h).abs() <= 1e-5 * h.abs().max(1.0), "{name}: {f} beside {h} at element {i}");
    }
}

fn rows(settings: Settings, m: usize, n: usize) {
    let (x, w, b) = (tensor([m, n], 1, -3.0, 3.0), tensor([n], 2, 0.5, 1.5), tensor([n], 3, -0.5, 0.5));
    let copy = || Traffic::floats(1, 1, m * n).mover();

    let mut out = kernels::softmax(&x).expect("the shapes agree");
    let softmax = || kernels::softmax::into(&x, &mut out).expect("the shapes agree");
    row(settings, &format!("softmax {m}x{n}"), "copy", 1, softmax, copy());
    let layer_norm = || kernels::layer_norm::into(&x, &w, &b, &mut out).expect("the shapes agree");
    row(settings, &format!("layer norm {m}x{n}"), "copy", 1, layer_norm, copy());
    let rms_norm = || kernels::rms_norm::into(&x, &w, &mut out).expect("the shapes agree");
    row(settings, &format!("rms norm {m}x{n}"), "copy", 1, rms_norm, copy());
}

fn reductions(settings: Settings) {
    let matrix = tensor([8192, 2048], 1, -0.5, 1.0);
    let mut columns = kernels::column_sum(&matrix).expect("the shapes agree");
    let read = || Traffic::floats(1, 0, N).mover();
    let sum = || kernels::column_sum::into(&matrix, &mut columns).expect("the shapes agree");
    row(settings, "column sum 8192x2048", "read", 1, sum, read());

    let x = tensor([N], 1, -0.5, 1.0);
    let mut one = kernels::full_sum(&x).expect("the shapes agree");
    let sum = || kernels::full_sum::into(&x, &mut one).expect("the shapes agree");
    row(settings, "sum 16M", "read", 1, sum, read());
    let (mut s, mut m) = kernels::sum_and_max(&x).expect("the shapes agree");
    let both = || kernels::sum_and_max::into(&x, &mut s, &mut m).expect("the shapes agree");
    row(settings, "sum and max 16M", "read", 1, both, read());
}

/// What an epilogue costs over the product alone.
fn contractions(settings: Settings, m: usize, k: usize, n: usize) {
    let (x, w) = (tensor([m, k], 1, -1.0, 1.0), tensor([k, n], 2, -0.03125, 0.03125));
    let b = tensor([n], 3, -0.5, 0.5);
    let mut out = kernels::matmul(&x, &w).expect("the shapes agree");
    let mut product = kernels::matmul(&x, &w).expect("the shapes agree");
    let linear = || kernels::linear_gelu::into(&x, &w, &b, &mut out).expect("the shapes agree");
    let alone = || kernels::matmul::into(&x, &w, &mut product).expect("the shapes agree");
    row(settings, &format!("linear gelu {m}x{k}x{n}"), "product alone", 1, linear, alone);
}

/// What a product reaches of the multiply-adds that all cores do in registers.
fn shares(settings: Settings, m: usize, k: usize, n: usize) {
    let (x, w) = (tensor([m, k], 1, -1.0, 1.0), tensor([k, n], 2, -0.03125, 0.03125));
    let mut out = kernels::matmul(&x, &w).expect("the shapes agree");
    let count = m * k * n;
    let product = || kernels::matmul::into(&x, &w, &mut out).expect("the shapes agree");
    let pair = measure_pair(1, settings.pairs, settings.quiet, product, || peak::multiply_and_add(count));
    println!("| {m}x{k}x{n} | {:.1} | {:.0} % |", count as f64 / pair.a / 1e9, 100.0 / pair.ratio);
}

/// What a call costs where there is next to nothing to compute.
fn small_calls(settings: Settings) {
    println!("\n| small call | µs | beside | µs |");
    println!("|---|---:|---|---:|");
    let print = |name: &str, kernel: &mut dyn FnMut(), beside: &str, floor: &mut dyn FnMut()| {
        let pair = measure_pair(1000, settings.pairs, settings.quiet, kernel, floor);
        println!("| {name} | {:.3} | {beside} | {:.3} |", pair.a * 1e6, pair.b * 1e6);
    };
    for n in [1024, 1] {
        let (x, z) = (tensor([n], 1, -2.0, 2.0), tensor([n], 2, -1.0, 1.0));
        let mut out = kernels::tiny10(&x, &z).expect("the shapes agree");
        let a = Aligned::copied(&inputs::uniform(n, 1, -2.0, 2.0));
        let b = Aligned::copied(&inputs::uniform(n, 2, -1.0, 1.0));
        let mut by_hand = Aligned::filled(n, 0.0);
        let mut hand = || {
            handwritten::ten_light(black_box(&a), &b, &a, &mut by_hand);
            black_box(&mut by_hand);
        };
        let mut call = || {
            black_box(kernels::tiny10(&x, &z).expect("the shapes agree"));
        };
        print(&format!("ten operations on {n}, new result"), &mut call, "hand-written", &mut hand);
        let mut into = || kernels::tiny10::into(&x, &z, &mut out).expect("the shapes agree");
        print(&format!("ten operations on {n}, into"), &mut into, "hand-written", &mut hand);
    }
}
