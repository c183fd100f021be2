//! From the text of a kernel to what the driver loads: out of the cache on disk, or compiled.

use super::disk_cache::{DiskCache, Key};
use super::gpu::Gpu;
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
    let mut options = options;
    options.push(format!("--gpu-architecture={architecture}"));
    let compiler = gpu.compiler_version();
    let key = Key { text, options: &options, compiler: &compiler };
    if let Some(code) = cache.and_then(|cache| cache.load(&key)) {
        return Ok(code);
    }
    let code = gpu.compiler.compile(text, &options, output)?;
    if let Some(cache) = cache {
        cache.store(&key, &code);
    }
    Ok(code)
}
