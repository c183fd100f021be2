//! From lines of text to embeddings.

use crate::encoder::{Batch, Encoder};
use example_common::progress::Progress;
use tokenizers::{Tokenizer, TruncationParams};

/// Tokens that the model was made for; what follows them in a sentence is left out.
pub const MOST_TOKENS: usize = 256;
/// Sentences of a batch, at most.
const MOST_SENTENCES: usize = 32;

/// The sentences of a text, one a line; empty lines are none.
pub fn split_lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// Sentences as numbers of words.
///
/// # Errors
/// If the tokenizer is of another kind than the model's.
pub fn tokenize(tokenizer: &Tokenizer, sentences: &[&str]) -> Result<Vec<Vec<i64>>, String> {
    let mut tokenizer = tokenizer.clone();
    let truncation = TruncationParams { max_length: MOST_TOKENS, ..TruncationParams::default() };
    tokenizer.with_truncation(Some(truncation)).map_err(|e| e.to_string())?.with_padding(None);
    let encode = |sentence: &&str| {
        let encoding = tokenizer.encode(*sentence, true).map_err(|e| format!("`{sentence}`: {e}"))?;
        Ok(encoding.get_ids().iter().map(|id| i64::from(*id)).collect())
    };
    sentences.iter().map(encode).collect()
}

/// The numbers of the sentences of each batch. Those of similar length go together, so that few tokens are padding.
pub fn group_by_length(tokens: &[Vec<i64>]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..tokens.len()).collect();
    order.sort_by_key(|k| tokens[*k].len());
    order.chunks(MOST_SENTENCES).map(<[usize]>::to_vec).collect()
}

/// The embeddings of sentences, one after the other in their order, and how many numbers each has.
///
/// # Errors
/// If a word is none of the encoder's, or there is no memory.
pub fn embed_all(
    encoder: &Encoder,
    tokens: &[Vec<i64>],
    progress: &mut Progress,
) -> Result<(Vec<f32>, usize), String> {
    let (mut all, mut width) = (Vec::new(), 0);
    for batch in group_by_length(tokens) {
        let embedded = encoder.embed(&Batch::new(batch.iter().map(|k| tokens[*k].as_slice())));
        let embedded = embedded.map_err(|e| e.to_string())?;
        width = embedded.shape()[1];
        all.resize(tokens.len() * width, 0.0);
        let rows = embedded.to_vec().map_err(|e| e.to_string())?;
        for (k, row) in batch.iter().zip(rows.chunks_exact(width)) {
            all[k * width..(k + 1) * width].copy_from_slice(row);
        }
        progress.advance(batch.len());
    }
    Ok((all, width))
}
