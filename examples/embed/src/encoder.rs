//! The network: its sizes, its weights on a device, and the calls of the kernels.

use crate::kernels;
use fuse::{Device, Error, Tensor};

/// The sizes of an encoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Words of the vocabulary.
    pub words: usize,
    /// Tokens of the longest sentence.
    pub positions: usize,
    /// Features of a token.
    pub width: usize,
    /// Heads of attention, which divide the width.
    pub heads: usize,
    /// Features inside the MLP.
    pub inner: usize,
    /// Layers.
    pub layers: usize,
}

impl Sizes {
    /// Those of all-MiniLM-L6-v2.
    pub const MINI_LM: Sizes =
        Sizes { words: 30522, positions: 512, width: 384, heads: 12, inner: 1536, layers: 6 };
}

/// What the norms add to variances.
pub const EPSILON: f32 = 1e-12;

/// Sentences as tokens, padded to one length.
pub struct Batch {
    /// Words, by sentences and positions.
    ids: Vec<i64>,
    /// Tokens of each sentence.
    lengths: Vec<i64>,
}

impl Batch {
    /// Sentences as the numbers of their words.
    pub fn new<'a>(sentences: impl IntoIterator<Item = &'a [i64]> + Clone) -> Self {
        let longest = sentences.clone().into_iter().map(<[i64]>::len).max().unwrap_or(0);
        let mut batch = Batch { ids: Vec::new(), lengths: Vec::new() };
        for sentence in sentences {
            batch.ids.extend_from_slice(sentence);
            batch.lengths.push(sentence.len() as i64);
            batch.ids.resize(batch.lengths.len() * longest, 0);
        }
        batch
    }
}

struct Layer {
    w_in: Tensor<f32, 2>,
    b_in: Tensor<f32, 1>,
    w_out: Tensor<f32, 3>,
    b_out: Tensor<f32, 1>,
    g_attended: Tensor<f32, 1>,
    b_attended: Tensor<f32, 1>,
    w_up: Tensor<f32, 2>,
    b_up: Tensor<f32, 1>,
    w_down: Tensor<f32, 2>,
    b_down: Tensor<f32, 1>,
    g: Tensor<f32, 1>,
    b: Tensor<f32, 1>,
}

/// An encoder on a device.
pub struct Encoder {
    device: Device,
    words: Tensor<f32, 2>,
    positions: Tensor<f32, 2>,
    segment: Tensor<f32, 1>,
    g: Tensor<f32, 1>,
    b: Tensor<f32, 1>,
    layers: Vec<Layer>,
    /// What scores are multiplied by.
    scale: f32,
}

impl Encoder {
    /// The encoder whose weights `read` gives by their published names and shapes.
    ///
    /// # Errors
    /// Those of `read`, or if there is no memory.
    pub fn load(
        sizes: Sizes,
        device: &Device,
        mut read: impl FnMut(&str, &[usize]) -> Result<Vec<f32>, String>,
    ) -> Result<Self, String> {
        let Sizes { words, positions, width, heads, inner, layers } = sizes;
        let mut vector = |name: &str| tensor(read(name, &[width])?, [width], device);
        let (g, b) = (vector("embeddings.LayerNorm.weight")?, vector("embeddings.LayerNorm.bias")?);
        let mut matrix = |name: &str, rows: usize| tensor(read(name, &[rows, width])?, [rows, width], device);
        let (words, positions) = (
            matrix("embeddings.word_embeddings.weight", words)?,
            matrix("embeddings.position_embeddings.weight", positions)?,
        );
        // A sentence that stands alone is all of segment 0.
        let mut segment = read("embeddings.token_type_embeddings.weight", &[2, width])?;
        segment.truncate(width);
        let segment = tensor(segment, [width], device)?;
        let layers = (0..layers).map(|k| {
            let mut of_layer =
                |name: &str, shape: &[usize]| read(&format!("encoder.layer.{k}.{name}"), shape);
            let [mut w_in, mut b_in] = [Vec::new(), Vec::new()];
            for part in ["query", "key", "value"] {
                w_in.extend(of_layer(&format!("attention.self.{part}.weight"), &[width, width])?);
                b_in.extend(of_layer(&format!("attention.self.{part}.bias"), &[width])?);
            }
            let w_out = of_layer("attention.output.dense.weight", &[width, width])?;
            let mut vector = |name: &str, length: usize| tensor(of_layer(name, &[length])?, [length], device);
            let b_out = vector("attention.output.dense.bias", width)?;
            let g_attended = vector("attention.output.LayerNorm.weight", width)?;
            let b_attended = vector("attention.output.LayerNorm.bias", width)?;
            let b_up = vector("intermediate.dense.bias", inner)?;
            let b_down = vector("output.dense.bias", width)?;
            let (g, b) = (vector("output.LayerNorm.weight", width)?, vector("output.LayerNorm.bias", width)?);
            let mut matrix = |name: &str, shape: [usize; 2]| tensor(of_layer(name, &shape)?, shape, device);
            Ok(Layer {
                w_in: tensor(w_in, [3 * width, width], device)?,
                b_in: tensor(b_in, [3 * width], device)?,
                w_out: tensor(w_out, [width, heads, width / heads], device)?,
                b_out,
                g_attended,
                b_attended,
                w_up: matrix("intermediate.dense.weight", [inner, width])?,
                b_up,
                w_down: matrix("output.dense.weight", [width, inner])?,
                b_down,
                g,
                b,
            })
        });
        let layers = layers.collect::<Result<_, String>>()?;
        let scale = 1.0 / ((width / heads) as f32).sqrt();
        Ok(Encoder { device: device.clone(), words, positions, segment, g, b, layers, scale })
    }

    /// The embeddings of the sentences of a batch, each of length 1.
    ///
    /// # Errors
    /// If a word or a position is none, or there is no memory.
    pub fn embed(&self, batch: &Batch) -> Result<Tensor<f32, 2>, Error> {
        let count = batch.lengths.len();
        let longest = batch.ids.len().checked_div(count).unwrap_or(0);
        let ids = Tensor::from_slice(&batch.ids, [count, longest], &self.device)?;
        let tokens = Tensor::from_slice(&batch.lengths, [count], &self.device)?;
        let mut x = kernels::embed_tokens(
            &ids,
            &self.words,
            &self.positions,
            &self.segment,
            &self.g,
            &self.b,
            EPSILON,
        )?;
        for l in &self.layers {
            x = kernels::encode(
                &x,
                &tokens,
                &l.w_in,
                &l.b_in,
                &l.w_out,
                &l.b_out,
                &l.g_attended,
                &l.b_attended,
                &l.w_up,
                &l.b_up,
                &l.w_down,
                &l.b_down,
                &l.g,
                &l.b,
                self.scale,
                EPSILON,
            )?;
        }
        kernels::pool(&x, &tokens)
    }

    /// Where it computes.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

fn tensor<const R: usize>(
    data: Vec<f32>,
    shape: [usize; R],
    device: &Device,
) -> Result<Tensor<f32, R>, String> {
    Tensor::from_vec(data, shape, device).map_err(|e| e.to_string())
}
