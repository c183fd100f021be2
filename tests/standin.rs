//! The path to a GPU through an unmodified cudarc, with stand-ins for NVIDIA's driver and NVRTC: what is passed to them, and
//! what becomes of every error that they give.
#![cfg(target_os = "linux")]

#[path = "support/allocations.rs"]
mod allocations;
#[path = "support/standin.rs"]
#[allow(dead_code, unreachable_pub, reason = "a bench has it too")]
mod standins;

mod standin {
    mod launch;

    mod launches;

    mod graphs;

    mod memory;

    mod missing;

    mod cache;

    mod embedded;

    mod faults;
}

use fuse::{Device, Error, fuse};
use standins::{Child, Found, StandIn, in_child};

fuse! {
    /// One launch.
    #[kernel(launches = 1)]
    pub fn scale<M, N>(x: Tensor<f32, M, N>, a: f32) -> Tensor<f32, M, N> { x * a }

    /// A launch for the sum, then one for the difference: with an intermediate buffer.
    #[kernel]
    pub fn centre<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x - x.mean((M, N)) }

    /// In place.
    #[kernel(launches = 1)]
    pub fn decay<N>(p: &mut Tensor<f32, N>, rate: f32) { *p -= rate * p; }

    /// Rows.
    #[kernel(launches = 1)]
    pub fn normalise<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.softmax(N) }

    /// One number.
    #[kernel]
    pub fn total<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32> { x.sum((M, N)) }

    /// With an intermediate buffer as large as its argument.
    #[kernel]
    pub fn staged<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> { (x.exp().cumsum(N) / x.sum((M, N))).sum(N) }

    /// Faults on zeros.
    #[kernel(launches = 1)]
    pub fn quotient<N>(a: Tensor<i32, N>, b: Tensor<i32, N>) -> Tensor<i32, N> { a / b }

    /// Scalars of every size.
    #[kernel(launches = 1)]
    pub fn mixed<N>(
        x: Tensor<f64, N>, a: f32, b: f64, c: i8, d: u16, e: i64, f: bool, g: f16, h: u32,
    ) -> Tensor<f64, N> {
        let sum = x + a as f64 + b + c as f64 + d as f64 + e as f64 + g as f64 + h as f64;
        if f { sum } else { x }
    }
}

/// Runs the rest of a test in a process of its own, with these libraries.
macro_rules! in_own_process {
    () => {
        in_own_process!(Found::StandIn, Found::StandIn)
    };
    ($driver:expr, $compiler:expr) => {
        if !crate::in_child() {
            crate::Child::new($driver, $compiler, &crate::only(crate::test_name!())).run();
            return Ok(());
        }
    };
}

/// The name of the test in which it stands, as this program's arguments have it.
macro_rules! test_name {
    () => {
        std::any::type_name_of_val(&|| ())
            .split_once("::")
            .unwrap_or_default()
            .1
            .trim_end_matches("::{{closure}}")
    };
}

pub(crate) use {in_own_process, test_name};

/// The arguments with which this program runs a test alone.
fn only(test: &str) -> [&str; 4] {
    [test, "--exact", "--nocapture", "--test-threads=1"]
}

/// A stream of the stand-in's own, which is gone with its tensors.
fn new_device() -> Result<Device, Error> {
    Device::cuda(0)?.new_stream()
}

/// Checks that nothing was asked for what a driver or NVRTC does not take.
#[track_caller]
fn check_use() {
    assert_eq!(StandIn::Driver.report().misuse(), [""; 0]);
    assert_eq!(StandIn::Compiler.report().misuse(), [""; 0]);
}

/// Prints a line for the process that started this one; what the test runner has begun ends before.
fn write_line(line: &str) {
    use std::io::Write;
    writeln!(std::io::stdout(), "\n{line}").expect("somebody reads it");
}

/// What there is beside the device's first stream and the modules of kernels, which live as long as the process.
const TEMPORARY: [&str; 5] = ["event", "graph", "exec", "block", "pinned"];

/// Checks that nothing is left of streams and tensors that are gone, and what [`check_use`] does.
#[track_caller]
fn check_end() {
    check_use();
    let (driver, compiler) = (StandIn::Driver.report(), StandIn::Compiler.report());
    assert_eq!(TEMPORARY.map(|kind| (kind, driver.live(kind))), TEMPORARY.map(|kind| (kind, 0)));
    assert_eq!((driver.live("stream"), driver.live("context")), (1, 1));
    assert_eq!(driver.live("module"), driver.live("function"));
    assert_eq!(compiler.live("programs"), 0);
}
