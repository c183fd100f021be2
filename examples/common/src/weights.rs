//! Published weights: where they lie, and how they are read.

use crate::progress::Progress;
use safetensors::{Dtype, SafeTensors};
use std::path::{Path, PathBuf};

/// Where the files of Python packages are put that are not part of the repository.
const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/models");

/// The folder of files that are not part of the repository; `FUSE_MODELS` names another.
pub fn models_folder() -> PathBuf {
    std::env::var_os("FUSE_MODELS").map_or_else(|| PathBuf::from(MODELS), PathBuf::from)
}

/// Reads a file. `how` says how it is got.
///
/// # Errors
/// If it cannot be read.
pub fn read_file(path: &Path, how: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| format!("cannot read `{}`: {e}\n{how}", path.display()))
}

/// Reads a network from a safetensors file, with a bar. `load` makes it of tensors of f32 that it asks for by name and shape.
///
/// # Errors
/// If the file is missing or is not of the network `name`.
pub fn read_network<N>(
    path: &Path,
    (name, how): (&str, &str),
    load: impl FnOnce(&mut dyn FnMut(&str, &[usize]) -> Result<Vec<f32>, String>) -> Result<N, String>,
) -> Result<N, String> {
    let bytes = read_file(path, how)?;
    let wrong = |what: String| format!("`{}` is not {name}: {what}", path.display());
    let file = SafeTensors::deserialize(&bytes).map_err(|e| wrong(e.to_string()))?;
    let mut progress = Progress::new("reading weights", bytes.len() >> 20);
    let mut read = 0;
    let network = load(&mut |name, shape| {
        let tensor = file.tensor(name).map_err(|e| wrong(e.to_string()))?;
        if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
            let (dtype, found) = (tensor.dtype(), tensor.shape());
            return Err(wrong(format!("`{name}` is {dtype:?} {found:?} instead of F32 {shape:?}")));
        }
        let before = read >> 20;
        read += tensor.data().len();
        progress.advance((read >> 20) - before);
        Ok(floats(tensor.data()))
    })?;
    // What the network does not use was not read.
    progress.finish();
    Ok(network)
}

/// Floats as they lie in such files.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}
