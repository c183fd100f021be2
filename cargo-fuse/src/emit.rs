//! `cargo fuse emit`: what is generated of a kernel.

use crate::arguments::{EmitArguments, EmitKind};
use crate::build::check_crate;
use crate::failure::Outcome;
use crate::kernel::{Kernel, replan_kernels, select_kernels};
use fuse_compiler::record::GpuText;
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
    Ok(kernels.iter().map(|kernel| emit(kernel, &arguments.what)).collect::<Vec<String>>().join("\n"))
}

/// One kind of text of a kernel, with a header that says of what.
fn emit(kernel: &Kernel, what: &EmitKind) -> String {
    let texts = kernel.texts();
    let header = |what: &str| {
        format!("// {what} of `{}`, planned for {}\n", kernel.full_name(), kernel.program.plan.target)
    };
    let each_gpu = |text: fn(&GpuText) -> &str| {
        let part = |gpu: &GpuText| {
            let (launch, step, variant) = (gpu.launch + 1, gpu.step + 1, gpu.variant + 1);
            format!("\n// launch {launch}, step {step}, variant {variant}\n{}", text(gpu))
        };
        texts.gpu.iter().map(part).collect::<String>()
    };
    if what.cuda {
        header("CUDA C++") + &each_gpu(|gpu| &gpu.cuda)
    } else if what.kernel_ir {
        header("kernel IR") + &each_gpu(|gpu| &gpu.kernel_ir)
    } else if what.rust {
        header("Rust") + "\n" + &format_rust(&texts.rust)
    } else if what.graph {
        texts.graph
    } else {
        texts.plan
    }
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
