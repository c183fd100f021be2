//! `cargo fuse emit`: what is generated of a kernel.

use crate::arguments::{EmitArguments, EmitKind};
use crate::build::check_crate;
use crate::failure::{Failure, Outcome};
use crate::kernel::{Kernel, replan_kernels, select_kernels};
use fuse_compiler::record::GpuText;
use fuse_runtime::Precompiler;
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs the command.
///
/// # Errors
/// If there is no such kernel, or the build fails.
pub(crate) fn run(arguments: &EmitArguments) -> Outcome {
    let build = check_crate(&arguments.cargo)?;
    let kernels = select_kernels(build.kernels, Some(&arguments.kernel))?;
    let kernels = replan_kernels(kernels, &arguments.plan)?;
    let texts: Vec<String> = match &arguments.what.ptx {
        Some(architecture) => print_ptx(&kernels, architecture)?,
        None => kernels.iter().map(|kernel| emit(kernel, &arguments.what)).collect(),
    };
    Ok(texts.join("\n"))
}

/// The PTX of each kernel.
fn print_ptx(kernels: &[Kernel], architecture: &str) -> Result<Vec<String>, Failure> {
    let compiler = Precompiler::open(architecture).map_err(|error| Failure::broken(error.to_string()))?;
    let print = |kernel: &Kernel| {
        let mut text = header(&format!("PTX for {architecture}"), kernel);
        for variant in Precompiler::list(&kernel.program) {
            let ptx = compiler
                .print_ptx(&variant)
                .map_err(|error| Failure::found(format!("kernel `{}`: {error}", kernel.full_name())))?;
            text += &format!("\n// {}\n{}\n", variant.entry, ptx.trim_end());
        }
        Ok(text)
    };
    kernels.iter().map(print).collect()
}

/// A line that says what follows.
fn header(what: &str, kernel: &Kernel) -> String {
    format!("// {what} of `{}`, planned for {}\n", kernel.full_name(), kernel.program.plan.target)
}

/// One kind of text of a kernel, with a header that says of what.
fn emit(kernel: &Kernel, what: &EmitKind) -> String {
    let texts = kernel.texts();
    if what.cuda {
        header("CUDA C++", kernel) + "\n" + &list_variants(&texts.gpu, |gpu| &gpu.cuda)
    } else if what.kernel_ir {
        header("kernel IR", kernel) + "\n" + &list_variants(&texts.gpu, |gpu| &gpu.kernel_ir)
    } else if what.rust {
        header("Rust", kernel) + "\n" + &format_rust(&texts.rust)
    } else if what.graph {
        texts.graph
    } else {
        texts.plan
    }
}

/// A text of each variant of each launch, with its numbers.
pub(crate) fn list_variants(variants: &[GpuText], text: fn(&GpuText) -> &str) -> String {
    let part = |gpu: &GpuText| {
        let (launch, step, variant) = (gpu.launch + 1, gpu.step + 1, gpu.variant + 1);
        format!("// launch {launch}, step {step}, variant {variant}\n{}\n", text(gpu).trim_end())
    };
    variants.iter().map(part).collect::<Vec<String>>().join("\n")
}

/// The Rust as rustfmt writes it; where there is none, as it is.
pub(crate) fn format_rust(text: &str) -> String {
    let formatted = || {
        let mut rustfmt = Command::new("rustfmt")
            .args(["--edition", "2024", "--config", "max_width=110"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut input = rustfmt.stdin.take()?;
        let text = text.to_owned();
        // It may write before it has read everything.
        let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
        let output = rustfmt.wait_with_output().ok()?;
        writer.join().ok()?.ok()?;
        if !output.status.success() { None } else { String::from_utf8(output.stdout).ok() }
    };
    formatted().unwrap_or_else(|| text.to_owned() + "\n")
}
