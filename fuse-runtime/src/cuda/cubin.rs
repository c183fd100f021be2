//! From the text of a kernel to what the driver loads: carried by the program, out of the cache on disk, or compiled.

use super::Compiler;
use super::disk_cache::{DiskCache, Key};
use super::embedded::{self, Embedded};
use super::gpu::{Gpu, show_version};
use super::handle::{CompileError, Output};
use std::borrow::Cow;
use std::sync::OnceLock;

/// What the driver loads for a text under these options, to which the architecture is added.
///
/// # Errors
/// The compiler's log, a call that failed, or that there is no compiler.
pub(super) fn compile(gpu: &Gpu, text: &str, options: Vec<String>) -> Result<Code, CompileError> {
    if let Some(carried) = find_embedded(gpu, text, options.clone()) {
        return Ok(carried);
    }
    static CACHE: OnceLock<Option<DiskCache>> = OnceLock::new();
    let cache = CACHE.get_or_init(DiskCache::of_user).as_ref();
    let (compiler, output, architecture) = gpu.code().map_err(CompileError::NoCompiler)?;
    let request = Request { text, options: add_architecture(options, &architecture), output };
    let bytes = match cache.and_then(|cache| request.find(compiler, cache)) {
        Some(kept) => kept,
        None => request.compile(compiler, cache)?,
    };
    Ok(Code { bytes: Cow::Owned(bytes), compiler: compiler.version() })
}

/// What the program carries for a text under these options, to which the architecture is added.
pub(super) fn find_embedded(gpu: &Gpu, text: &str, options: Vec<String>) -> Option<Code> {
    let options = add_architecture(options, &gpu.architecture_name());
    let Embedded { code, compiler, .. } = embedded::find(text, &options)?;
    Some(Code { bytes: Cow::Borrowed(code), compiler })
}

/// What the driver loads.
pub(super) struct Code {
    pub(super) bytes: Cow<'static, [u8]>,
    /// The version of the NVRTC that made it, major and minor.
    pub(super) compiler: (i32, i32),
}

/// The options with the architecture.
pub(super) fn add_architecture(mut options: Vec<String>, architecture: &str) -> Vec<String> {
    options.push(format!("--gpu-architecture={architecture}"));
    options
}

/// A text that is to be compiled.
pub(super) struct Request<'a> {
    pub(super) text: &'a str,
    /// Those of the compiler, the architecture among them.
    pub(super) options: Vec<String>,
    pub(super) output: Output,
}

impl Request<'_> {
    /// The code that was kept for it.
    pub(super) fn find(&self, compiler: &Compiler, cache: &DiskCache) -> Option<Vec<u8>> {
        let compiler = show_version(compiler);
        cache.load(&Key { text: self.text, options: &self.options, compiler: &compiler })
    }

    /// Compiles it, and keeps the code.
    pub(super) fn compile(
        &self,
        compiler: &Compiler,
        cache: Option<&DiskCache>,
    ) -> Result<Vec<u8>, CompileError> {
        let code = compiler.compile(self.text, &self.options, self.output)?;
        if let Some(cache) = cache {
            let compiler = show_version(compiler);
            cache.store(&Key { text: self.text, options: &self.options, compiler: &compiler }, &code);
        }
        Ok(code)
    }
}
