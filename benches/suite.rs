//! The cases that other libraries are measured with too, each beside the floor of its traffic and of its operations.
//!
//! ```text
//! cargo bench --bench suite                      # a table
//! cargo bench --bench suite -- --json            # a JSON line for each case
//! ```
//!
//! `--cases A,B` takes the cases whose names contain one of these, `--quiet S` waits at most that many seconds before
//! each row for idle cores (20), `--into` writes into one result instead of a new one in each call.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that speaks to its user")]
#![allow(unreachable_pub, dead_code, reason = "the benches share their modules")]

#[path = "harness/handwritten.rs"]
mod handwritten;
#[path = "harness/inputs.rs"]
mod inputs;
#[path = "harness/kernels.rs"]
mod kernels;
#[path = "harness/timing.rs"]
mod timing;
#[path = "harness/traffic.rs"]
mod traffic;

use fuse::{Device, Tensor};
use std::hint::black_box;
use std::process::ExitCode;
use traffic::Traffic;

/// What a job is asked for.
#[derive(Clone, Copy, PartialEq)]
enum Ask {
    /// One call with new results.
    Call,
    /// One call into results that are there.
    Into,
    /// The results as numbers.
    Results,
}

/// A prepared case, its inputs in place.
type Job = Box<dyn FnMut(Ask) -> Vec<Vec<f32>>>;

struct Case {
    name: &'static str,
    /// Bytes of inputs and results, each once.
    bytes: usize,
    flops: usize,
    /// Arrays that the floor moves.
    traffic: Traffic,
    /// The operations of an element, and how many elements; what memory alone decides has none.
    operations: Option<(handwritten::Loop, usize)>,
    job: fn() -> Job,
}

const IMAGES: usize = 8 * 64 * 56 * 56;

fn linear(m: usize, k: usize, n: usize, name: &'static str, job: fn() -> Job) -> Case {
    let bytes = 4 * (m * k + k * n + n + m * n);
    let flops = 2 * m * k * n + 10 * m * n;
    Case { name, bytes, flops, traffic: Traffic::floats(1, 1, m * n), operations: None, job }
}

/// Heads of a width of 64; of the products a part of one over `part` is needed.
fn attended(name: &'static str, heads: usize, length: usize, part: usize, job: fn() -> Job) -> Case {
    let elements = heads * length * 64;
    let (bytes, flops) = (16 * elements, 4 * elements * length / part);
    Case { name, bytes, flops, traffic: Traffic::floats(3, 1, elements), operations: None, job }
}

const N: usize = 1 << 24;
const M: usize = 65536 * 128;

fn cases() -> Vec<Case> {
    let case =
        |name, bytes, flops, traffic, operations, job| Case { name, bytes, flops, traffic, operations, job };
    let floats = Traffic::floats;
    let bytes = Traffic { reads: 1, writes: 1, length: N, width: 1 };
    vec![
        case(
            "pw_sigmoid_fma",
            16 * N,
            6 * N,
            floats(3, 1, N),
            Some((handwritten::sigmoid_fma, N)),
            sigmoid_fma,
        ),
        case("pw_chain12", 12 * N, 12 * N, floats(2, 1, N), Some((handwritten::chain12, N)), chain12),
        case(
            "gelu_bias_res",
            12 * N,
            10 * N,
            floats(2, 1, N),
            Some((handwritten::gelu_bias_residual, N)),
            gelu,
        ),
        case(
            "horizontal4",
            20 * N,
            14 * N,
            floats(1, 4, N),
            Some((handwritten::four_activations, N)),
            horizontal,
        ),
        case("softmax_4096x4096", 8 * N, 5 * N, floats(1, 1, N), Some((handwritten::exponential, N)), || {
            softmax(4096, 4096)
        }),
        case("softmax_65536x128", 8 * M, 5 * M, floats(1, 1, M), Some((handwritten::exponential, M)), || {
            softmax(65536, 128)
        }),
        case("layernorm_4096", 8 * N, 8 * N, floats(1, 1, N), None, layer_norm),
        case(
            "rmsnorm_silu_gate",
            12 * N,
            9 * N,
            floats(2, 1, N),
            Some((handwritten::silu_gate, N)),
            rms_gate,
        ),
        case("dequant_requant_i8", 2 * N, 6 * N, bytes, None, requantise),
        case("colsum_8192x2048", 4 * N, N, floats(1, 0, N), None, column_sum),
        case("fullsum_16M", 4 * N, N, floats(1, 0, N), None, full_sum),
        case("fullmax_16M", 4 * N, N, floats(1, 0, N), None, full_max),
        case("summax_16M", 4 * N, 2 * N, floats(1, 0, N), None, sum_and_max),
        linear(512, 1024, 4096, "linear_gelu_512x1024x4096", || linear_gelu(512, 1024, 4096)),
        linear(2048, 768, 3072, "linear_gelu_2048x768x3072", || linear_gelu(2048, 768, 3072)),
        case(
            "conv_bn_relu",
            4 * (2 * IMAGES + 64 * 64 * 9),
            2 * IMAGES * 64 * 9,
            floats(1, 1, IMAGES),
            None,
            convolution,
        ),
        attended("attn_2x8x1024x64", 16, 1024, 1, || attention([2, 8, 1024, 64])),
        attended("attn_2x8x1024x64_causal", 16, 1024, 2, || causal_attention([2, 8, 1024, 64])),
        attended("attn_1x1x4096x64", 1, 4096, 1, || attention([1, 1, 4096, 64])),
        attended("attn_1x1x4096x64_causal", 1, 4096, 2, || causal_attention([1, 1, 4096, 64])),
        case(
            "tiny10_1024",
            12 * 1024,
            10 * 1024,
            floats(2, 1, 1024),
            Some((handwritten::ten_light, 1024)),
            tiny,
        ),
    ]
}

/// A tensor on the CPU.
fn tensor<const R: usize>(shape: [usize; R], seed: u32, low: f32, high: f32) -> Tensor<f32, R> {
    let data = inputs::uniform(shape.iter().product(), seed, low, high);
    Tensor::from_vec(data, shape, &Device::cpu()).expect("a tensor of numbers")
}

/// A job that calls a kernel with these arguments, whose results are named.
macro_rules! job {
    ($kernel:ident, [$($argument:ident),+], [$($result:ident),+]) => {{
        #[allow(unused_parens, reason = "one result is no tuple")]
        let ($(mut $result),+) = kernels::$kernel($(&$argument),+).expect("the shapes agree");
        Box::new(move |ask| match ask {
            Ask::Call => {
                black_box(kernels::$kernel($(&$argument),+).expect("the shapes agree"));
                Vec::new()
            }
            Ask::Into => {
                kernels::$kernel::into($(&$argument,)+ $(&mut $result),+).expect("the shapes agree");
                Vec::new()
            }
            Ask::Results => vec![$(numbers(&$result.to_vec().expect("results can be read"))),+],
        })
    }};
}

/// Results as f32, whatever they are.
fn numbers<T: Copy + Into<f32>>(values: &[T]) -> Vec<f32> {
    values.iter().map(|&v| v.into()).collect()
}

fn sigmoid_fma() -> Job {
    let (x, b, c) = (tensor([N], 1, -4.0, 4.0), tensor([N], 2, -1.0, 1.0), tensor([N], 3, -1.0, 1.0));
    job!(pw_sigmoid_fma, [x, b, c], [y])
}

fn chain12() -> Job {
    let (x, z) = (tensor([N], 1, -2.0, 2.0), tensor([N], 2, -1.0, 1.0));
    job!(pw_chain12, [x, z], [y])
}

fn gelu() -> Job {
    let (x, b) = (tensor([4096, 4096], 1, -3.0, 3.0), tensor([4096], 2, -1.0, 1.0));
    let r = tensor([4096, 4096], 3, -1.0, 1.0);
    job!(gelu_bias_res, [x, b, r], [y])
}

fn horizontal() -> Job {
    let x = tensor([N], 1, -4.0, 4.0);
    job!(horizontal4, [x], [a, b, c, d])
}

fn softmax(rows: usize, columns: usize) -> Job {
    let x = tensor([rows, columns], 1, -4.0, 4.0);
    job!(softmax, [x], [y])
}

fn layer_norm() -> Job {
    let x = tensor([4096, 4096], 1, -3.0, 3.0);
    let (w, b) = (tensor([4096], 2, 0.5, 1.5), tensor([4096], 3, -0.5, 0.5));
    job!(layer_norm, [x, w, b], [y])
}

fn rms_gate() -> Job {
    let (x, w) = (tensor([4096, 4096], 1, -3.0, 3.0), tensor([4096], 2, 0.5, 1.5));
    let g = tensor([4096, 4096], 4, -4.0, 4.0);
    job!(rmsnorm_silu_gate, [x, w, g], [y])
}

fn requantise() -> Job {
    let q = Tensor::from_vec(inputs::signed_bytes(N, 1), [4096, 4096], &Device::cpu())
        .expect("a tensor of bytes");
    let s = tensor([4096], 2, 0.01, 0.05);
    let (a, b) = (tensor([4096], 3, 0.5, 1.5), tensor([4096], 4, -1.0, 1.0));
    job!(dequant_requant, [q, s, a, b], [y])
}

fn column_sum() -> Job {
    let x = tensor([8192, 2048], 1, -0.5, 1.0);
    job!(column_sum, [x], [y])
}

fn full_sum() -> Job {
    let x = tensor([N], 1, -0.5, 1.0);
    job!(full_sum, [x], [y])
}

fn full_max() -> Job {
    let x = tensor([N], 1, -0.5, 1.0);
    job!(full_max, [x], [y])
}

fn sum_and_max() -> Job {
    let x = tensor([N], 1, -0.5, 1.0);
    job!(sum_and_max, [x], [s, m])
}

fn linear_gelu(m: usize, k: usize, n: usize) -> Job {
    let (x, w) = (tensor([m, k], 1, -1.0, 1.0), tensor([k, n], 2, -0.03125, 0.03125));
    let b = tensor([n], 3, -0.5, 0.5);
    job!(linear_gelu, [x, w, b], [y])
}

fn convolution() -> Job {
    let (x, w) = (tensor([8, 64, 56, 56], 1, -1.0, 1.0), tensor([64, 64, 3, 3], 2, -0.0625, 0.0625));
    let (gamma, beta) = (tensor([64], 3, 0.5, 1.5), tensor([64], 4, -0.5, 0.5));
    let (mean, var) = (tensor([64], 5, -0.5, 0.5), tensor([64], 6, 0.5, 1.5));
    job!(conv_bn_relu, [x, w, gamma, beta, mean, var], [y])
}

/// Queries, keys and values of one shape.
fn heads(shape: [usize; 4]) -> [Tensor<f32, 4>; 3] {
    [1, 2, 3].map(|seed| tensor(shape, seed, -2.0, 2.0))
}

fn attention(shape: [usize; 4]) -> Job {
    let [q, k, v] = heads(shape);
    job!(attention, [q, k, v], [y])
}

fn causal_attention(shape: [usize; 4]) -> Job {
    let [q, k, v] = heads(shape);
    job!(causal_attention, [q, k, v], [y])
}

fn tiny() -> Job {
    let (x, z) = (tensor([1024], 1, -2.0, 2.0), tensor([1024], 2, -1.0, 1.0));
    job!(tiny10, [x, z], [y])
}

/// What the command line asks for.
struct Options {
    json: bool,
    into: bool,
    quiet: f64,
    cases: Vec<String>,
}

fn options() -> Options {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|a| a == name);
    let value = |name: &str| {
        let place = arguments.iter().position(|a| a == name)?;
        arguments.get(place + 1).cloned()
    };
    Options {
        json: has("--json"),
        into: has("--into"),
        quiet: value("--quiet").and_then(|v| v.parse().ok()).unwrap_or(20.0),
        cases: value("--cases").unwrap_or_default().split(',').map(String::from).collect(),
    }
}

/// Whether the command line has nothing but options that there are; cargo adds `--bench`.
fn is_understood() -> bool {
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        let has_value = match argument.as_str() {
            "--json" | "--into" | "--bench" => false,
            "--quiet" | "--cases" => true,
            _ => return false,
        };
        if has_value && rest.next().is_none() {
            return false;
        }
    }
    true
}

fn main() -> ExitCode {
    if !is_understood() {
        eprintln!("usage: suite [--json] [--into] [--quiet SECONDS] [--cases NAME,NAME]");
        return ExitCode::from(2);
    }
    let options = options();
    let ask = if options.into { Ask::Into } else { Ask::Call };
    if !options.json {
        println!("| case | ms | best ms | floor ms | by | % of floor | GB/s |");
        println!("|---|---:|---:|---:|---|---:|---:|");
    }
    for case in cases() {
        if !options.cases.iter().any(|c| case.name.contains(c.as_str())) {
            continue;
        }
        let inner = if case.name.starts_with("tiny") { 1000 } else { 1 };
        let mut job = (case.job)();
        let timed = timing::measure(inner, options.quiet, || {
            job(ask);
        });
        if options.json {
            let (magnitude, signed) = inputs::checksum(&job(Ask::Results));
            let peer = if options.into { "fuse_into" } else { "fuse" };
            println!(
                "{{\"case\": \"{}\", \"peer\": \"{peer}\", \"median_s\": {:e}, \"min_s\": {:e}, \"bytes_min\": {}, \
                 \"flops\": {}, \"checksum\": {magnitude:e}, \"checksum2\": {signed:e}, \"runs\": {}, \
                 \"first_s\": {:e}, \"other_cpu\": {:.4}}}",
                case.name,
                timed.median,
                timed.min,
                case.bytes,
                case.flops,
                timed.runs,
                timed.first,
                timed.other_cpu
            );
            continue;
        }
        let floor = floor(&case, inner, options.quiet);
        println!(
            "| {} | {:.4} | {:.4} | {:.4} | {} | {:.0} | {:.1} |",
            case.name,
            timed.median * 1e3,
            timed.min * 1e3,
            floor.0 * 1e3,
            floor.1,
            100.0 * floor.0 / timed.median,
            case.bytes as f64 / timed.median / 1e9
        );
    }
    ExitCode::SUCCESS
}

/// Seconds that no implementation of this case gets below, and what sets them: its bytes, moved by a plain parallel loop,
/// or its operations, on data in the first cache, on all cores.
fn floor(case: &Case, inner: usize, quiet: f64) -> (f64, &'static str) {
    let mut mover = case.traffic.mover();
    let memory = timing::measure(inner, quiet, &mut mover).median;
    let threads = if case.traffic.length < 1 << 16 { 1 } else { rayon::current_num_threads() };
    let operations =
        case.operations.map_or(0.0, |(body, n)| handwritten::cost(body) * n as f64 / threads as f64);
    if operations > memory { (operations, "operations") } else { (memory, "memory") }
}
