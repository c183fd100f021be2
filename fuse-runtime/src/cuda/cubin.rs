//! From the text of a kernel to what the driver loads: out of the cache on disk, or compiled.

use super::Compiler;
use super::disk_cache::{DiskCache, Key};
use super::gpu::{Gpu, show_version};
use super::handle::{CompileError, Output};
use std::sync::OnceLock;

/// What the driver loads for a text under these options, to which the architecture is added.
///
/// # Errors
/// The compiler's log, or a call that failed.
pub(super) fn compile(gpu: &Gpu, text: &str, options: Vec<String>) -> Result<Vec<u8>, CompileError> {
    static CACHE: OnceLock<Option<DiskCache>> = OnceLock::new();
    let cache = CACHE.get_or_init(DiskCache::of_user).as_ref();
    // A GPU is only opened if its architecture can be compiled for.
    let (output, architecture) = gpu.code().unwrap_or((Output::Cubin, String::new()));
    let request = Request { text, options: add_architecture(options, &architecture), output };
    if let Some(code) = cache.and_then(|cache| request.find(gpu.compiler, cache)) {
        return Ok(code);
    }
    request.compile(gpu.compiler, cache)
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
