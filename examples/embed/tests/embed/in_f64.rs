//! The encoder in plain loops over f64, written from its definition, for one sentence at a time.

use crate::numbers;
use embed::encoder::Sizes;
use std::collections::HashMap;

/// Weights by their names.
#[derive(Default)]
pub(crate) struct Weights {
    of: HashMap<String, Vec<f32>>,
}

impl Weights {
    /// Weights as a trained network has them: such that features keep their size.
    pub(crate) fn random(&mut self, name: &str, shape: &[usize]) -> Vec<f32> {
        let seed = self.of.len() as u32 + 1;
        let values = numbers::values(shape.iter().product(), seed);
        let scale = match shape {
            [_] => 0.25,
            _ => 1.0 / (shape[shape.len() - 1] as f32).sqrt(),
        };
        let gain = if name.ends_with("LayerNorm.weight") { 1.0 } else { 0.0 };
        let values: Vec<f32> = values.into_iter().map(|x| gain + x * scale).collect();
        let previous = self.of.insert(name.to_owned(), values.clone());
        assert!(previous.is_none(), "`{name}` is read twice");
        values
    }

    fn get(&self, name: &str) -> Vec<f64> {
        self.of[name].iter().map(|x| f64::from(*x)).collect()
    }

    /// `w x + b`, where `w` has a row for each output.
    fn linear(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let (w, b) = (self.get(&format!("{name}.weight")), self.get(&format!("{name}.bias")));
        let dot = |row: &[f64]| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
        w.chunks(x.len()).zip(b).map(|(row, b)| dot(row) + b).collect()
    }

    fn norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let (g, b) = (self.get(&format!("{name}.weight")), self.get(&format!("{name}.bias")));
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        let normal = x.iter().map(|x| (x - mean) / (variance + 1e-12).sqrt());
        normal.zip(g).zip(b).map(|((x, g), b)| x * g + b).collect()
    }

    /// The embedding of a sentence.
    pub(crate) fn embed(&self, sizes: Sizes, sentence: &[i64]) -> Vec<f64> {
        let e = sizes.width;
        let tables = ["word", "position", "token_type"]
            .map(|name| self.get(&format!("embeddings.{name}_embeddings.weight")));
        let mut x: Vec<Vec<f64>> = Vec::new();
        for (position, word) in sentence.iter().enumerate() {
            let sum =
                |k: usize| tables[0][*word as usize * e + k] + tables[1][position * e + k] + tables[2][k];
            x.push(self.norm("embeddings.LayerNorm", &(0..e).map(sum).collect::<Vec<_>>()));
        }
        for layer in 0..sizes.layers {
            let name = |part: &str| format!("encoder.layer.{layer}.{part}");
            let project = |part: &str| -> Vec<Vec<f64>> {
                x.iter().map(|x| self.linear(&name(&format!("attention.self.{part}")), x)).collect()
            };
            let attended = attend(&project("query"), &project("key"), &project("value"), sizes.heads);
            for (x, attended) in x.iter_mut().zip(&attended) {
                let out = add(&self.linear(&name("attention.output.dense"), attended), x);
                let y = self.norm(&name("attention.output.LayerNorm"), &out);
                let up: Vec<f64> =
                    self.linear(&name("intermediate.dense"), &y).into_iter().map(gelu).collect();
                let down = add(&self.linear(&name("output.dense"), &up), &y);
                *x = self.norm(&name("output.LayerNorm"), &down);
            }
        }
        let mean: Vec<f64> = (0..e).map(|k| x.iter().map(|x| x[k]).sum::<f64>() / x.len() as f64).collect();
        let length = mean.iter().map(|x| x * x).sum::<f64>().sqrt();
        mean.into_iter().map(|x| x / length).collect()
    }
}

fn add(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// Each head's mean of values, weighted by the softmax of products of queries and keys.
fn attend(q: &[Vec<f64>], k: &[Vec<f64>], v: &[Vec<f64>], heads: usize) -> Vec<Vec<f64>> {
    let d = q[0].len() / heads;
    let of_query = |q: &Vec<f64>| {
        let mut out = Vec::new();
        for h in 0..heads {
            let range = h * d..(h + 1) * d;
            let score =
                |k: &Vec<f64>| -> f64 { range.clone().map(|c| q[c] * k[c]).sum::<f64>() / (d as f64).sqrt() };
            let weights: Vec<f64> = k.iter().map(|k| score(k).exp()).collect();
            let sum: f64 = weights.iter().sum();
            out.extend(range.map(|c| weights.iter().zip(v).map(|(w, v)| w * v[c]).sum::<f64>() / sum));
        }
        out
    };
    q.iter().map(of_query).collect()
}

/// `x Φ(x)`, with the error function by its series, which the arguments here are small enough for.
fn gelu(x: f64) -> f64 {
    let z = x / 2f64.sqrt();
    assert!(z.abs() < 5.0, "{x} is too large for the series");
    let (mut term, mut sum) = (z, z);
    for n in 1..200 {
        term *= -z * z / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    0.5 * x * (1.0 + sum * 2.0 / std::f64::consts::PI.sqrt())
}
