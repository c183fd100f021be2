//! The kernels of the other benches on a GPU: whether they are right, their time and their bandwidth beside that of a copy,
//! and what a launch costs the host.
//!
//! ```text
//! cargo bench --bench gpu               # on a machine with a GPU
//! cargo bench --bench gpu -- --small    # small sizes, to try the bench itself
//! ```
//!
//! It ends within five minutes: cases for which there is no time are left out, and said to be.

#![allow(clippy::print_stdout, reason = "a program that speaks to its user")]
#![allow(unreachable_pub, dead_code, reason = "the benches share their modules")]

#[path = "harness/inputs.rs"]
mod inputs;
#[path = "harness/kernels.rs"]
mod kernels;
#[path = "harness/launch_cost.rs"]
mod launch_cost;

use fuse::{Device, Element, Error, Tensor};
use inputs::{signed_bytes, uniform};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// When no further case is begun.
const DEADLINE: Duration = Duration::from_secs(280);

/// What the runs need.
struct Bench {
    device: Device,
    /// Rows and elements are divided by it.
    divide: usize,
    started: Instant,
    /// Bytes a second of a copy on the device, reads and writes counted.
    copy: f64,
}

/// Results as numbers, and the bytes that were moved.
type Outcome = Result<Vec<Vec<f32>>, Error>;

fn main() -> ExitCode {
    let small = std::env::args().any(|a| a == "--small");
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("{error}");
            return ExitCode::from(2);
        }
    };
    match run(device, if small { 256 } else { 1 }) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every case; whether all are right.
fn run(device: Device, divide: usize) -> Result<bool, Error> {
    let started = Instant::now();
    let copy = copy_bandwidth(&device, (64 << 20) / divide)?;
    println!("{device:?}: a copy moves {:.1} GB/s\n", copy / 1e9);
    println!("| kernel | size | right | first call ms | µs | GB/s | of copy |");
    println!("|---|---|---|---:|---:|---:|---:|");
    let bench = Bench { device, divide, started, copy };
    let right = elementwise(&bench)? & rows(&bench)? & reductions(&bench)?;
    println!();
    launch_cost::print(&bench.device)?;
    println!("\n{}", if right { "all are right" } else { "NOT all are right" });
    Ok(right)
}

/// Bytes a second of a copy of so many floats.
fn copy_bandwidth(device: &Device, count: usize) -> Result<f64, Error> {
    let x = Tensor::<f32, 1>::zeros([count], device)?;
    let mut best = f64::MAX;
    for _ in 0..5 {
        const COPIES: usize = 10;
        device.synchronize()?;
        let start = Instant::now();
        for _ in 0..COPIES {
            x.to_device(device)?;
        }
        device.synchronize()?;
        best = best.min(start.elapsed().as_secs_f64() / COPIES as f64);
    }
    Ok(8.0 * count as f64 / best)
}

impl Bench {
    fn tensor<const R: usize>(
        &self,
        on: &Device,
        shape: [usize; R],
        seed: u32,
        low: f32,
        high: f32,
    ) -> Result<Tensor<f32, R>, Error> {
        Tensor::from_vec(uniform(shape.iter().product(), seed, low, high), shape, on)
    }

    /// One line of the table. `call` is a call with its results dropped, `numbers` gives them, on the CPU if it is told so.
    fn case(
        &self,
        name: &str,
        size: &str,
        bytes: usize,
        prepare: impl Fn(&Device) -> Result<Job, Error>,
    ) -> Result<bool, Error> {
        if self.started.elapsed() > DEADLINE {
            println!("| {name} | {size} | no time | | | | |");
            return Ok(true);
        }
        let want = prepare(&Device::cpu())?(true)?;
        let mut job = prepare(&self.device)?;
        let start = Instant::now();
        let got = job(true)?;
        let first = start.elapsed().as_secs_f64();
        let right = agree(&got, &want);
        let seconds = self.time(&mut job)?;
        let bandwidth = bytes as f64 / seconds;
        println!(
            "| {name} | {size} | {} | {:.1} | {:.1} | {:.1} | {:.0} % |",
            if right { "yes" } else { "NO" },
            first * 1e3,
            seconds * 1e6,
            bandwidth / 1e9,
            100.0 * bandwidth / self.copy
        );
        Ok(right)
    }

    /// Seconds of a call, the median of five runs of as many calls as take 20 ms.
    fn time(&self, job: &mut Job) -> Result<f64, Error> {
        let mut run = |calls: usize| {
            self.device.synchronize()?;
            let start = Instant::now();
            for _ in 0..calls {
                job(false)?;
            }
            self.device.synchronize()?;
            Ok::<f64, Error>(start.elapsed().as_secs_f64() / calls as f64)
        };
        let once = run(3)?;
        let calls = ((0.02 / once) as usize).clamp(1, 2000);
        let mut times = (0..5).map(|_| run(calls)).collect::<Result<Vec<f64>, Error>>()?;
        times.sort_by(f64::total_cmp);
        Ok(times[2])
    }
}

/// A call with its inputs in place; it gives the results as numbers if they are asked for.
type Job = Box<dyn FnMut(bool) -> Outcome>;

fn numbers<T: Element + Into<f32>, const R: usize>(tensor: &Tensor<T, R>) -> Result<Vec<f32>, Error> {
    Ok(tensor.to_vec()?.into_iter().map(Into::into).collect())
}

/// Whether all numbers are equal up to the last bits of transcendental functions.
fn agree(got: &[Vec<f32>], want: &[Vec<f32>]) -> bool {
    let near = |(&g, &w): (&f32, &f32)| {
        g.to_bits() == w.to_bits() || (g - w).abs() <= 4e-6 * w.abs().max(1e-3) || (g.is_nan() && w.is_nan())
    };
    got.len() == want.len()
        && got.iter().zip(want).all(|(g, w)| g.len() == w.len() && g.iter().zip(w).all(near))
}

/// A job of one result.
macro_rules! job {
    ($kernel:ident($($arg:ident),*)) => {
        Ok(Box::new(move |wanted| {
            let y = kernels::$kernel($(&$arg),*)?;
            if wanted { Ok(vec![numbers(&y)?]) } else { Ok(Vec::new()) }
        }))
    };
}

fn elementwise(b: &Bench) -> Result<bool, Error> {
    let mut right = true;
    for n in [1 << 10, (1 << 24) / b.divide] {
        let size = n.to_string();
        right &= b.case("pw_sigmoid_fma", &size, 16 * n, |on| {
            let (x, y, z) = (
                b.tensor(on, [n], 1, -4.0, 4.0)?,
                b.tensor(on, [n], 2, -1.0, 1.0)?,
                b.tensor(on, [n], 3, 0.0, 1.0)?,
            );
            job!(pw_sigmoid_fma(x, y, z))
        })?;
        right &= b.case("pw_chain12", &size, 12 * n, |on| {
            let (x, z) = (b.tensor(on, [n], 1, -2.0, 2.0)?, b.tensor(on, [n], 2, -1.0, 1.0)?);
            job!(pw_chain12(x, z))
        })?;
        right &= b.case("affine12", &size, 12 * n, |on| {
            let (x, z) = (b.tensor(on, [n], 1, -2.0, 2.0)?, b.tensor(on, [n], 2, -1.0, 1.0)?);
            job!(affine12(x, z))
        })?;
        right &= b.case("horizontal4", &size, 20 * n, |on| {
            let x = b.tensor(on, [n], 1, -4.0, 4.0)?;
            Ok(Box::new(move |wanted| {
                let (p, q, r, s) = kernels::horizontal4(&x)?;
                match wanted {
                    true => Ok(vec![numbers(&p)?, numbers(&q)?, numbers(&r)?, numbers(&s)?]),
                    false => Ok(Vec::new()),
                }
            }))
        })?;
    }
    let (m, n) = (4096 / b.divide.min(256), 4096);
    right &= b.case("gelu_bias_res", &format!("{m}x{n}"), 12 * m * n, |on| {
        let (x, r) = (b.tensor(on, [m, n], 1, -4.0, 4.0)?, b.tensor(on, [m, n], 2, -1.0, 1.0)?);
        let c = b.tensor(on, [n], 3, -1.0, 1.0)?;
        job!(gelu_bias_res(x, c, r))
    })?;
    right &= b.case("dequant_requant", &format!("{m}x{n}"), 2 * m * n, |on| {
        let q = Tensor::from_vec(signed_bytes(m * n, 1), [m, n], on)?;
        let (s, a, c) = (
            b.tensor(on, [n], 2, 0.0, 0.01)?,
            b.tensor(on, [n], 3, 0.5, 1.0)?,
            b.tensor(on, [n], 4, 0.0, 1.0)?,
        );
        job!(dequant_requant(q, s, a, c))
    })?;
    // Across the grain: the transposed view is read through shared memory.
    right &= b.case("transposed affine", &format!("{n}x{m}"), 12 * m * n, |on| {
        let (x, r) =
            (b.tensor(on, [n, m], 1, -4.0, 4.0)?.transpose(0, 1)?, b.tensor(on, [m, n], 2, -1.0, 1.0)?);
        let c = b.tensor(on, [n], 3, -1.0, 1.0)?;
        job!(gelu_bias_res(x, c, r))
    })?;
    Ok(right)
}

fn rows(b: &Bench) -> Result<bool, Error> {
    let mut right = true;
    for (m, n) in [(65536, 128), (4096, 4096), (256, 65536)] {
        let m = (m / b.divide).max(2);
        let size = format!("{m}x{n}");
        right &= b.case("softmax", &size, 8 * m * n, |on| {
            let x = b.tensor(on, [m, n], 1, -4.0, 4.0)?;
            job!(softmax(x))
        })?;
        right &= b.case("layer_norm", &size, 8 * m * n, |on| {
            let (x, w, c) = (
                b.tensor(on, [m, n], 1, -4.0, 4.0)?,
                b.tensor(on, [n], 2, 0.5, 1.0)?,
                b.tensor(on, [n], 3, 0.0, 1.0)?,
            );
            job!(layer_norm(x, w, c))
        })?;
        right &= b.case("rmsnorm_silu_gate", &size, 12 * m * n, |on| {
            let (x, g) = (b.tensor(on, [m, n], 1, -4.0, 4.0)?, b.tensor(on, [m, n], 2, -2.0, 2.0)?);
            let w = b.tensor(on, [n], 3, 0.5, 1.0)?;
            job!(rmsnorm_silu_gate(x, w, g))
        })?;
    }
    Ok(right)
}

fn reductions(b: &Bench) -> Result<bool, Error> {
    let (m, n) = (8192 / b.divide.min(128), 2048);
    let mut right = b.case("column_sum", &format!("{m}x{n}"), 4 * m * n, |on| {
        let x = b.tensor(on, [m, n], 1, -1.0, 1.0)?;
        job!(column_sum(x))
    })?;
    let n = (1 << 24) / b.divide;
    right &= b.case("full_sum", &n.to_string(), 4 * n, |on| {
        let x = b.tensor(on, [n], 1, -1.0, 1.0)?;
        job!(full_sum(x))
    })?;
    right &= b.case("sum_and_max", &n.to_string(), 4 * n, |on| {
        let x = b.tensor(on, [n], 1, -1.0, 1.0)?;
        Ok(Box::new(move |wanted| {
            let (sum, max) = kernels::sum_and_max(&x)?;
            if wanted { Ok(vec![numbers(&sum)?, numbers(&max)?]) } else { Ok(Vec::new()) }
        }))
    })?;
    Ok(right)
}
