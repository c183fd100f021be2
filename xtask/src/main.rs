//! Development tasks: `cargo xtask …`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks to its terminal")]

mod bless;
mod build_cost;
mod cuda_toolchain;
mod cuda_values;
mod gpu_check;
mod launches;
mod nvrtc;
mod ptxas;
mod registers;
mod suite;
mod ulp;
mod vectors;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <task>

tasks:
  bless [TEST…]                            rewrites the files that the tests compare with: plans, errors of the compiler
  build-cost                               what the macro costs a user's build: seconds, crates, bytes of code
  cuda-toolchain                           puts NVIDIA's compiler under `target`, from PyPI; needs python3
  cuda-values                              printed operations against the reference, on an emulator of PTX
  gpu-check [FOLDER]                       tests and a bench for a machine with a GPU and without Rust, as programs
  launches                                 kernels of tests and benches with other launches on a GPU, and why
  ptxas [SM…] [NAME…]                      what that compiler makes of the printed kernels of tests and benches, as JSON
                                           lines; `sm_90` chooses an architecture, names kernels by their start
  ulp [--stride N] [--threads N] [NAME…]   the error of every f32 function of the runtime over all inputs
  vectors                                  whether loops over the functions are vector code";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next();
    let rest: Vec<String> = arguments.collect();
    match task.as_deref() {
        Some("bless") => bless::run(&rest),
        Some("build-cost") => build_cost::run(),
        Some("cuda-toolchain") => cuda_toolchain::run(),
        Some("cuda-values") => cuda_values::run(),
        Some("gpu-check") => gpu_check::run(&rest),
        Some("launches") => launches::run(),
        Some("ptxas") => ptxas::run(&rest),
        Some("ulp") => ulp::run(&rest),
        Some("vectors") => vectors::run(),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
