//! What the library adds to a launch: calls of a kernel beside bare launches by cudarc, in turns, on a stand-in for the driver
//! whose launches cost nothing. So it is measured without a GPU: `cargo bench --bench launch`.

#![allow(clippy::print_stdout, reason = "a program that speaks to its user")]
#![allow(unreachable_pub, dead_code, reason = "the benches and tests share their modules")]

#[path = "../tests/support/allocations.rs"]
mod allocations;
#[path = "harness/kernels.rs"]
mod kernels;
#[path = "../tests/support/standin.rs"]
mod standins;

use fuse::{Device, Error, Graph, Tensor};
use kernels::{softmax, tiny10};
use standins::{Child, Found, StandIn, in_child};
use std::ffi::c_void;
use std::time::Instant;

/// Calls of a run, and how many pairs of runs there are.
const CALLS: u32 = 1000;
const PAIRS: usize = 201;

fn main() -> Result<(), Error> {
    if !in_child() {
        print!("{}", Child::new(Found::StandIn, Found::StandIn, &["--bench"]).run());
        return Ok(());
    }
    let device = Device::cuda(0)?;
    let (x, z) = (Tensor::full(0.5f32, [32], &device)?, Tensor::full(0.25f32, [32], &device)?);
    let mut y = tiny10(&x, &z)?;
    let rows = Tensor::full(0.5f32, [4, 32], &device)?;
    let (graph, _results) =
        Graph::capture(&device, || (0..10).map(|_| tiny10(&x, &z)).collect::<Result<Vec<_>, Error>>())?;
    println!("| what the host does | ns | bare launches, ns | over them, ns | allocations |");
    println!("|---|---:|---:|---:|---:|");
    print("ten operations into a given tensor", 1, || tiny10::into(&x, &z, &mut y))?;
    print("ten operations with a new result", 1, || tiny10(&x, &z).map(drop))?;
    print("softmax with a new result", 1, || softmax(&rows).map(drop))?;
    print("replay of a graph of ten calls", 0, || graph.replay())?;
    Ok(())
}

/// Prints the medians of a call and of so many bare launches, and of their difference.
fn print(what: &str, launches: u32, mut call: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    for _ in 0..10 {
        call()?;
    }
    let mut run = || -> Result<f64, Error> {
        let start = Instant::now();
        for _ in 0..CALLS {
            call()?;
        }
        Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS))
    };
    StandIn::Driver.quiet(true);
    let before = allocations::count();
    run()?;
    let allocated = (allocations::count() - before) as f64 / f64::from(CALLS);
    let (mut calls, mut bare, mut over) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let pair = (run()?, bare_launches(launches));
        calls.push(pair.0);
        bare.push(pair.1);
        over.push(pair.0 - pair.1);
    }
    StandIn::Driver.quiet(false);
    let [calls, bare, over] = [calls, bare, over].map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[PAIRS / 2]
    });
    println!("| {what} | {calls:.0} | {bare:.0} | {over:.0} | {allocated:.2} |");
    Ok(())
}

/// Nanoseconds of so many launches by cudarc of a function with eight arguments.
fn bare_launches(launches: u32) -> f64 {
    let mut values = [0u64; 8];
    let mut pointers = values.each_mut().map(|v| std::ptr::from_mut(v).cast::<c_void>());
    let (function, stream) = (std::ptr::null_mut(), std::ptr::null_mut());
    let start = Instant::now();
    for _ in 0..CALLS * launches {
        let pointers = std::hint::black_box(&mut pointers);
        // SAFETY: the stand-in, while it is quiet, looks at none of it.
        let launched = unsafe {
            cudarc::driver::result::launch_kernel(function, (1, 1, 1), (32, 1, 1), 0, stream, pointers)
        };
        assert!(launched.is_ok(), "the stand-in takes every launch");
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}
