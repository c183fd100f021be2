//! Which sentences are similar.

use crate::kernels::nearest;
use fuse::{Device, Error, Tensor};

/// Embeddings that are compared with all at a time, so that the cosines of a block fit a cache.
const BLOCK: usize = 256;

/// For each of `count` embeddings of length 1 the number of the most similar other one, and the cosine between them; nothing if
/// there is no other.
///
/// # Errors
/// If there is no memory.
pub fn find_nearest(embeddings: &[f32], count: usize, device: &Device) -> Result<Vec<(usize, f32)>, Error> {
    if count < 2 {
        return Ok(Vec::new());
    }
    let all = Tensor::from_slice(embeddings, [count, embeddings.len() / count], device)?;
    let mut pairs = Vec::with_capacity(count);
    for first in (0..count).step_by(BLOCK) {
        let some = all.slice((first..count.min(first + BLOCK), ..))?;
        let (which, cosine) = nearest(&some, &all, first as i64)?;
        pairs.extend(which.to_vec()?.into_iter().map(|k| k as usize).zip(cosine.to_vec()?));
    }
    Ok(pairs)
}
