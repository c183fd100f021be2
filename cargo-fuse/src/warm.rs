//! `cargo fuse warm`: the machine code of all kernels into the folder where programs look for it, before they run.

use crate::arguments::WarmArguments;
use crate::build::check_crate;
use crate::failure::{Failure, Outcome};
use crate::kernel::select_kernels;
use crate::units::count;
use fuse_runtime::survey::Survey;
use fuse_runtime::{Precompile, Precompiled, Precompiler};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs the command.
///
/// # Errors
/// If there is no such kernel, no architecture or no NVRTC, a kernel does not compile, or the build fails.
pub(crate) fn run(arguments: &WarmArguments) -> Outcome {
    let architectures = match arguments.arch.is_empty() {
        false => arguments.arch.clone(),
        true => find_architectures()?,
    };
    let compilers: Vec<Precompiler> = architectures
        .iter()
        .map(|name| Precompiler::open(name).map_err(|error| Failure::broken(error.to_string())))
        .collect::<Result<_, _>>()?;
    let kernels = select_kernels(check_crate(&arguments.cargo)?.kernels, arguments.kernel.as_deref())?;
    let texts: Vec<(String, Precompile)> = kernels
        .iter()
        .flat_map(|kernel| {
            Precompiler::list(&kernel.program).into_iter().map(|text| (kernel.full_name(), text))
        })
        .collect();
    let mut text = String::new();
    let mut failed = Vec::new();
    for (compiler, architecture) in compilers.iter().zip(&architectures) {
        let done = compile_all(compiler, architecture, &texts);
        let of = |wanted| done.iter().filter(|done| **done == Ok(wanted)).count();
        let (compiled, kept) = (of(Precompiled::Compiled), of(Precompiled::Kept));
        let what = count(compiled, "variant", "variants");
        let folder = compiler.folder().display();
        let _ = writeln!(text, "{what} compiled for {architecture}, {kept} were there, in {folder}");
        failed.extend(done.into_iter().filter_map(Result::err));
    }
    match failed.first() {
        None => Ok(text),
        Some(first) => Err(Failure::found(first.clone()).with_text(text)),
    }
}

/// Those of the GPUs that are here.
fn find_architectures() -> Result<Vec<String>, Failure> {
    let gpus = Survey::take().gpus.unwrap_or_default();
    let mut names: Vec<String> = gpus.into_iter().flatten().map(|gpu| gpu.architecture).collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Err(Failure::broken(
            "there is no GPU here that can be used; name an architecture: `--arch sm_90`",
        ));
    }
    Ok(names)
}

/// Compiles texts on all cores; on a terminal a line says how far it is. Errors name the kernel.
fn compile_all(
    compiler: &Precompiler,
    architecture: &str,
    texts: &[(String, Precompile)],
) -> Vec<Result<Precompiled, String>> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(texts.len().max(1));
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let shows = std::io::stderr().is_terminal();
    let work = || {
        let mut done = Vec::new();
        loop {
            let k = next.fetch_add(1, Ordering::Relaxed);
            let Some((kernel, text)) = texts.get(k) else { return done };
            done.push((k, compiler.compile(text).map_err(|error| format!("kernel `{kernel}`: {error}"))));
            let number = finished.fetch_add(1, Ordering::Relaxed) + 1;
            if shows {
                let width = 24 * number / texts.len();
                let bar = format!("{}{}", "=".repeat(width), " ".repeat(24 - width));
                let _ = write!(std::io::stderr(), "\r{architecture} [{bar}] {number}/{} ", texts.len());
            }
        }
    };
    let mut done: Vec<(usize, Result<Precompiled, String>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        // A worker does nothing that panics.
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    if shows {
        let _ = writeln!(std::io::stderr());
    }
    done.sort_by_key(|(k, _)| *k);
    done.into_iter().map(|(_, result)| result).collect()
}
