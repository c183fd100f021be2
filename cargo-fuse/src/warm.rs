//! `cargo fuse warm`: the machine code of all kernels into the folder where programs look for it, before they run, or into a
//! file that a program carries.

use crate::arguments::WarmArguments;
use crate::build::check_crate;
use crate::failure::{Failure, Outcome};
use crate::kernel::select_kernels;
use crate::units::{Bytes, count};
use fuse_runtime::survey::Survey;
use fuse_runtime::{MachineCode, Precompile, PrecompileError, Precompiled, Precompiler};
use std::fmt::Write as _;
use std::fs;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs the command.
///
/// # Errors
/// If there is no such kernel, no architecture or no NVRTC, a kernel does not compile, a file cannot be written, or the build
/// fails.
pub(crate) fn run(arguments: &WarmArguments) -> Outcome {
    let architectures = match arguments.arch.is_empty() {
        false => arguments.arch.clone(),
        true => find_architectures()?,
    };
    let compilers: Vec<Precompiler> = architectures
        .iter()
        .map(|name| Precompiler::open(name).map_err(|error| Failure::broken(error.to_string())))
        .collect::<Result<_, _>>()?;
    match &arguments.embed {
        None => fill_cache(arguments, &compilers),
        Some(path) => write_archive(arguments, &compilers, path),
    }
}

/// A kernel's name and one of its texts.
type Text = (String, Precompile);

/// The texts of the kernels that the crate compiles.
fn list_texts(
    arguments: &WarmArguments,
    list: fn(&fuse_runtime::Program) -> Vec<Precompile>,
) -> Result<Vec<Text>, Failure> {
    let kernels = select_kernels(check_crate(&arguments.cargo)?.kernels, arguments.kernel.as_deref())?;
    let texts = kernels
        .iter()
        .flat_map(|kernel| list(&kernel.program).into_iter().map(|text| (kernel.full_name(), text)));
    Ok(texts.collect())
}

/// Compiles into the folder of compiled kernels.
fn fill_cache(arguments: &WarmArguments, compilers: &[Precompiler]) -> Outcome {
    for compiler in compilers {
        compiler.folder().map_err(|error| Failure::broken(error.to_string()))?;
    }
    let texts = list_texts(arguments, Precompiler::list)?;
    let mut said = String::new();
    let mut failed = Vec::new();
    for compiler in compilers {
        let done = compile_all(compiler.architecture(), &texts, |text| compiler.keep(text));
        let folder = compiler.folder().map(|folder| folder.display().to_string()).unwrap_or_default();
        let _ = writeln!(said, "{}, in {folder}", summarise(compiler.architecture(), &done));
        failed.extend(done.into_iter().filter_map(Result::err));
    }
    match failed.first() {
        None => Ok(said),
        Some(first) => Err(Failure::found(first.clone()).with_text(said)),
    }
}

/// Compiles into a file. What every call needs is in it, since where the program runs nothing more may be compiled.
fn write_archive(arguments: &WarmArguments, compilers: &[Precompiler], path: &Path) -> Outcome {
    // A crate that includes the file is to build before there is one.
    let mut placed = Placeholder::put(path)?;
    let texts = list_texts(arguments, Precompiler::list_for_every_call)?;
    let archive = Mutex::new(MachineCode::new());
    let mut said = String::new();
    for compiler in compilers {
        let done = compile_all(compiler.architecture(), &texts, |text| compiler.embed(text, &archive));
        let _ = writeln!(said, "{}", summarise(compiler.architecture(), &done));
        if let Some(first) = done.into_iter().find_map(Result::err) {
            // A file that lacks a kernel would be one that seems to have it.
            return Err(Failure::found(first).with_text(said));
        }
    }
    let archive = archive.into_inner().unwrap_or_else(PoisonError::into_inner);
    let bytes = archive.to_bytes();
    write_beside(path, &bytes)?;
    placed.keep();
    let what = count(archive.len(), "variant", "variants");
    let _ = writeln!(said, "{what}, {}, written to {}", Bytes(bytes.len() as u64), path.display());
    Ok(said)
}

/// An archive of nothing in the place of one that is to come, gone if none comes.
struct Placeholder(Option<PathBuf>);

impl Placeholder {
    fn put(path: &Path) -> Result<Placeholder, Failure> {
        if path.exists() {
            let bytes = fs::read(path)
                .map_err(|error| Failure::broken(format!("`{}` cannot be read: {error}", path.display())))?;
            if !MachineCode::is_archive(&bytes) {
                return Err(Failure::broken(format!(
                    "`{}` is there and holds no machine code of kernels: it is left as it is; remove it, or name another file",
                    path.display()
                )));
            }
            return Ok(Placeholder(None));
        }
        write_beside(path, &MachineCode::new().to_bytes())?;
        Ok(Placeholder(Some(path.to_owned())))
    }

    /// It has become what it stood for.
    fn keep(&mut self) {
        self.0 = None;
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // What is left of it would be said to have no code.
            let _ = fs::remove_file(path);
        }
    }
}

/// Writes a file beside and renames it, so that a build never reads half of it.
fn write_beside(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        Failure::broken(format!("`{}` cannot be written: {error}", path.display()))
    })
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

/// What was done for an architecture.
fn summarise(architecture: &str, done: &[Result<Precompiled, String>]) -> String {
    let of = |wanted| done.iter().filter(|done| **done == Ok(wanted)).count();
    let (compiled, kept) = (of(Precompiled::Compiled), of(Precompiled::Kept));
    format!("{} compiled for {architecture}, {kept} were there", count(compiled, "variant", "variants"))
}

/// Compiles texts on all cores; on a terminal a line says how far it is. Errors name the kernel.
fn compile_all(
    architecture: &str,
    texts: &[Text],
    compile: impl Fn(&Precompile) -> Result<Precompiled, PrecompileError> + Sync,
) -> Vec<Result<Precompiled, String>> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(texts.len().max(1));
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let shows = std::io::stderr().is_terminal();
    let work = || {
        let mut done = Vec::new();
        loop {
            let k = next.fetch_add(1, Ordering::Relaxed);
            let Some((kernel, text)) = texts.get(k) else { return done };
            done.push((k, compile(text).map_err(|error| format!("kernel `{kernel}`: {error}"))));
            let number = finished.fetch_add(1, Ordering::Relaxed) + 1;
            if shows {
                let _ = write!(std::io::stderr(), "\r{}", show_progress(architecture, number, texts.len()));
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

/// A bar, and how many of how many.
fn show_progress(architecture: &str, number: usize, all: usize) -> String {
    let width = 24 * number / all;
    format!("{architecture} [{}{}] {number}/{all} ", "=".repeat(width), " ".repeat(24 - width))
}

#[cfg(test)]
mod tests {
    use super::show_progress;

    #[test]
    fn a_bar_grows_with_what_is_done() {
        assert_eq!(show_progress("sm_90", 1, 4), format!("sm_90 [======{}] 1/4 ", " ".repeat(18)));
        assert_eq!(show_progress("sm_90", 4, 4), format!("sm_90 [{}] 4/4 ", "=".repeat(24)));
    }
}
