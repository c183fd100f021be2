//! What a launch costs the host: a call of a kernel beside a bare launch of a function with as many arguments.

use super::kernels::tiny10;
use cudarc::driver::sys;
use fuse::{Device, Error, Graph, Tensor};
use std::ffi::c_void;
use std::time::Instant;

/// Elements: so few that the host is what takes time.
const N: usize = 32;

/// Prints seconds of a call that writes where it is told, of one that makes its result, of a replay of a graph of ten calls,
/// and of a bare launch.
pub fn print(device: &Device) -> Result<(), Error> {
    let (x, z) = (Tensor::full(0.5f32, [N], device)?, Tensor::full(0.25f32, [N], device)?);
    let mut y = tiny10(&x, &z)?;
    let into = median(device, || tiny10::into(&x, &z, &mut y))?;
    let new = median(device, || tiny10(&x, &z).map(drop))?;
    let (graph, _results) =
        Graph::capture(device, || (0..10).map(|_| tiny10(&x, &z)).collect::<Result<Vec<_>, Error>>())?;
    let graph = median(device, || graph.replay())?;
    println!("| what the host does | µs |");
    println!("|---|---:|");
    println!("| call into a given tensor | {:.2} |", into * 1e6);
    println!("| call with a new tensor | {:.2} |", new * 1e6);
    println!("| replay of a graph of ten calls | {:.2} |", graph * 1e6);
    match bare_launch() {
        Some(bare) => {
            println!("| bare launch of an empty function with 3 arguments | {:.2} |", bare * 1e6);
            println!("| call into a given tensor, over the bare launch | {:.2} |", (into - bare) * 1e6);
        }
        None => println!("| bare launch of an empty function with 3 arguments | not measured |"),
    }
    Ok(())
}

/// Seconds of a call: the median of runs of 100, after each of which the device is waited for, which is not timed.
fn median(device: &Device, mut call: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut times = Vec::new();
    for run in 0..25 {
        let start = Instant::now();
        for _ in 0..100 {
            call()?;
        }
        let seconds = start.elapsed().as_secs_f64() / 100.0;
        device.synchronize()?;
        if run >= 5 {
            times.push(seconds);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Seconds of cudarc's launch of an empty function; `None` if one cannot be made.
fn bare_launch() -> Option<f64> {
    let ptx =
        cudarc::nvrtc::compile_ptx("extern \"C\" __global__ void empty(float* a, float* b, float* c) {}")
            .ok()?;
    let context = cudarc::driver::CudaContext::new(0).ok()?;
    let stream = context.new_stream().ok()?;
    let module = context.load_module(ptx).ok()?;
    let function = module.load_function("empty").ok()?;
    let mut times = Vec::new();
    let mut values = [0u64; 3];
    let mut pointers = values.each_mut().map(|v| std::ptr::from_mut(v).cast::<c_void>());
    for run in 0..25 {
        let start = Instant::now();
        for _ in 0..100 {
            // SAFETY: the function has three pointers as arguments, and does nothing with them.
            let code = unsafe {
                sys::cuLaunchKernel(
                    function.cu_function(),
                    1,
                    1,
                    1,
                    32,
                    1,
                    1,
                    0,
                    stream.cu_stream(),
                    pointers.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            };
            if code != sys::CUresult::CUDA_SUCCESS {
                return None;
            }
        }
        let seconds = start.elapsed().as_secs_f64() / 100.0;
        stream.synchronize().ok()?;
        if run >= 5 {
            times.push(seconds);
        }
    }
    times.sort_by(f64::total_cmp);
    Some(times[times.len() / 2])
}
