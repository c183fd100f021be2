//! `cargo xtask cuda-values`: every scalar operation, as printed CUDA, against the reference over edge values.
//!
//! The printed kernels go through NVRTC to PTX, which an emulator runs: the environment variable `FUSE_CUDAEMU` names its
//! folder (with a Python module `cudaemu`, and an interpreter `venv/bin/python` that has numpy). What the hardware
//! approximates, the emulator rounds; so the error of CUDA's own functions is not measured here, their use is.

mod kernels;
mod memory;
mod values;

use crate::cuda_toolchain::{self, Toolchain};
use crate::nvrtc;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::kernel_ir::Kernel;
use fuse_ir::print_cuda::{compile_options, entry_name, print_cuda};
use kernels::{Job, Output};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The architecture for whose PTX operations are run.
const ARCHITECTURE: &str = "compute_80";

/// Those for which conversions and accesses are run as well: they have other instructions for narrow floats.
const OTHERS: [&str; 2] = ["compute_75", "compute_90"];

/// Threads of a block.
const BLOCK: usize = 64;

/// Runs the task.
pub(crate) fn run() -> ExitCode {
    match check_all() {
        Ok((values, wrong)) if wrong.is_empty() => {
            println!("{values} values are as the reference has them");
            ExitCode::SUCCESS
        }
        Ok((values, wrong)) => {
            wrong.iter().take(100).for_each(|line| println!("{line}"));
            println!("{} of {values} values are wrong", wrong.len());
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn check_all() -> Result<(usize, Vec<String>), String> {
    let emulator = std::env::var_os("FUSE_CUDAEMU").map(PathBuf::from);
    let emulator = emulator.ok_or("`FUSE_CUDAEMU` does not name the folder of a PTX emulator")?;
    let toolchain = cuda_toolchain::find()?;
    let folder = std::env::temp_dir().join(format!("fuse-cuda-values-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let mut jobs: Vec<(&str, Job)> = kernels::all_jobs().into_iter().map(|job| (ARCHITECTURE, job)).collect();
    for architecture in OTHERS.into_iter().chain([ARCHITECTURE]) {
        jobs.extend(memory::all_jobs().into_iter().map(|job| (architecture, job)));
    }
    let mut lines = String::new();
    for (number, (architecture, job)) in jobs.iter().enumerate() {
        lines.push_str(&prepare(&toolchain, &folder, number, architecture, job)?);
    }
    let list = folder.join("jobs");
    std::fs::write(&list, lines).map_err(|e| e.to_string())?;
    run_emulator(&emulator, &list)?;
    let mut total = 0;
    let mut wrong = Vec::new();
    for (number, (architecture, job)) in jobs.iter().enumerate() {
        for (k, output) in job.outputs.iter().enumerate() {
            let bytes = std::fs::read(folder.join(format!("{number}.out{k}"))).map_err(|e| e.to_string())?;
            total += output.expected.len();
            compare(output, &bytes, architecture, &mut wrong);
        }
    }
    std::fs::remove_dir_all(&folder).map_err(|e| e.to_string())?;
    Ok((total, wrong))
}

/// Compiles a kernel and writes its arguments; gives the emulator's line for it.
fn prepare(
    toolchain: &Toolchain,
    folder: &Path,
    number: usize,
    architecture: &str,
    job: &Job,
) -> Result<String, String> {
    let save = |name: &str, bytes: &[u8]| {
        let path = folder.join(format!("{number}.{name}"));
        std::fs::write(&path, bytes).map(|()| path).map_err(|e| e.to_string())
    };
    let ptx = save("ptx", &compile(toolchain, &job.kernel, architecture)?)?;
    let mut line = format!("{} {} ", ptx.display(), entry_name(&job.kernel));
    line.push_str(&format!("{} {BLOCK} 0", job.threads.div_ceil(BLOCK)));
    for (k, input) in job.inputs.iter().enumerate() {
        let bytes: Vec<u8> = input.iter().flat_map(|v| values::to_bytes(*v)).collect();
        line.push_str(&format!(" @{}", save(&format!("in{k}"), &bytes)?.display()));
    }
    for (k, output) in job.outputs.iter().enumerate() {
        let bytes = vec![0xa5; output.expected.len() * output.dtype.size()];
        line.push_str(&format!(" @{}", save(&format!("out{k}"), &bytes)?.display()));
    }
    line.push_str(&format!(" u32:{}\n", job.threads));
    Ok(line)
}

fn run_emulator(emulator: &Path, jobs: &Path) -> Result<(), String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cuda_values/emulate.py");
    let python = emulator.join("venv/bin/python");
    let ran = Command::new(python).arg(script).arg(emulator).arg(jobs).output();
    let ran = ran.map_err(|e| format!("the emulator does not start: {e}"))?;
    match ran.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&ran.stderr).into_owned()),
    }
}

/// Notes what an output has that it should not have.
fn compare(output: &Output, bytes: &[u8], architecture: &str, wrong: &mut Vec<String>) {
    for (i, (bytes, want)) in bytes.chunks(output.dtype.size()).zip(&output.expected).enumerate() {
        let found = values::from_bytes(output.dtype, bytes);
        if !values::agree(found, *want, output.ulps) {
            let (what, arguments) = (&output.what, &output.arguments[i]);
            wrong.push(format!("{architecture} {what}({arguments}) is {found}, should be {want}"));
        }
    }
}

fn compile(toolchain: &Toolchain, kernel: &Kernel, architecture: &str) -> Result<Vec<u8>, String> {
    let mut options = compile_options(kernel, &[]);
    options.push(format!("--gpu-architecture={architecture}"));
    let source = print_cuda(kernel);
    let (mut ptx, _) = toolchain
        .nvrtc
        .compile(&source, &options, nvrtc::Output::Ptx)
        .map_err(|log| format!("`{}` does not compile:\n{log}\n{source}", kernel.name))?;
    // NVRTC ends the text with a zero.
    ptx.retain(|&byte| byte != 0);
    Ok(ptx)
}

/// A value of a dtype as text.
fn show(values: &[Value]) -> String {
    values.iter().map(|v| format!("{v}{}", v.dtype())).collect::<Vec<_>>().join(", ")
}

/// The compute dtypes that a register may have.
const REGISTERS: [DType; 11] = [
    DType::F32,
    DType::F64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::Bool,
];
