//! Attention, recognised by its structure: plans, launch counts, numbers.

use fuse::{Device, Error, Tensor, fuse};

#[path = "support/numbers.rs"]
mod numbers;
use numbers::values;

fuse! {
    #[kernel(launches = 1, assume(B = 2, H = 8, S = 1024, T = 1024, D = 64, E = 64))]
    pub fn attention<B, H, S, T, D, E>(
        q: Tensor<f32, B, H, S, D>, k: Tensor<f32, B, H, T, D>, v: Tensor<f32, B, H, T, E>, scale: f32,
    ) -> Tensor<f32, B, H, S, E> {
        (q.dot(k, D) * scale).softmax(T).dot(v, T)
    }

    #[kernel(launches = 1, assume(B = 2, H = 8, S = 1024, T = 1024, D = 64))]
    pub fn causal<B, H, S, T, D, const F: usize = { H * D }>(
        q: Tensor<f32, B, H, S, D>, k: Tensor<f32, B, H, T, D>, v: Tensor<f32, B, H, T, D>, scale: f32,
    ) -> Tensor<f32, B, S, F> {
        let score = q.dot(k, D) * scale;
        let score = select(index(S) >= index(T), score, f32::NEG_INFINITY);
        score.softmax(T).dot(v, T).merge((H, D), F)
    }
}

#[test]
fn quick() -> Result<(), Error> {
    println!("{}", attention::plan());
    println!("{}", causal::plan());
    let (b, h, s, t, d, e) = (1, 2, 37, 53, 5, 7);
    let cpu = Device::cpu();
    let q = values(b * h * s * d, 1);
    let k = values(b * h * t * d, 2);
    let v = values(b * h * t * e, 3);
    let got = attention(
        &Tensor::from_vec(q.clone(), [b, h, s, d], &cpu)?,
        &Tensor::from_vec(k.clone(), [b, h, t, d], &cpu)?,
        &Tensor::from_vec(v.clone(), [b, h, t, e], &cpu)?,
        0.3,
    )?
    .to_vec()?;
    for head in 0..b * h {
        for i in 0..s {
            let scores: Vec<f64> = (0..t)
                .map(|j| {
                    (0..d)
                        .map(|c| f64::from(q[(head * s + i) * d + c]) * f64::from(k[(head * t + j) * d + c]))
                        .sum::<f64>()
                        * 0.3
                })
                .collect();
            let m = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let l: f64 = scores.iter().map(|x| (x - m).exp()).sum();
            for c in 0..e {
                let want: f64 =
                    (0..t).map(|j| (scores[j] - m).exp() / l * f64::from(v[(head * t + j) * e + c])).sum();
                let g = f64::from(got[(head * s + i) * e + c]);
                assert!((g - want).abs() < 1e-5, "{head} {i} {c}: {g} {want}");
            }
        }
    }
    Ok(())
}
