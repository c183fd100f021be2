//! Layers as a user writes them, against plain f64 loops: attention in its variants, rotary positions, a cache, losses.

#[path = "support/numbers.rs"]
mod numbers;

use fuse::{Device, Error, Tensor, fuse};

fuse! {
    /// Self-attention: keys and values are read under another name than queries.
    #[kernel]
    pub fn self_attention<S, T, E, H, D, P>(
        x: Tensor<f32, S, E>, wq: Tensor<f32, E, H, D>, wk: Tensor<f32, E, H, D>, wv: Tensor<f32, E, H, D>,
        wo: Tensor<f32, H, D, P>, scale: f32,
    ) -> Tensor<f32, S, P> {
        let q = x.dot(wq, E);
        let k = x.dot(wk, E).rename(S, T);
        let v = x.dot(wv, E).rename(S, T);
        let score = select(index(S) >= index(T), q.dot(k, D) * scale, f32::NEG_INFINITY);
        score.softmax(T).dot(v, T).dot(wo, (H, D))
    }

    /// Several queries for each key.
    #[kernel(launches = 1)]
    pub fn grouped_scores<S, T, G, R, D, const H: usize = { G * R }>(
        q: Tensor<f32, H, S, D>, k: Tensor<f32, G, T, D>,
    ) -> Tensor<f32, H, S, T> {
        q.split(H, (G, R)).dot(k, D).merge((G, R), H)
    }

    /// The next keys go into a cache, of which what came before them is attended to.
    #[kernel]
    pub fn cached_scores<L, S, D>(
        cache: &mut Tensor<f32, L, D>, q: Tensor<f32, S, D>, k: Tensor<f32, S, D>, pos: i64,
    ) -> Tensor<f32, S, L> {
        cache.slice(L, pos, S) = k;
        let score = q.dot(cache, D);
        select(index(L) <= index(S) + pos, score, f32::NEG_INFINITY).softmax(L)
    }

    /// Rotary positions, then scores.
    #[kernel]
    pub fn rotated<S, T, D, E>(
        q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, cos: Tensor<f32, S, E>, sin: Tensor<f32, S, E>,
    ) -> Tensor<f32, S, T> {
        rope::<D, E>(q, cos, sin).dot(k, D)
    }

    /// Cross entropy: the logarithm of the probability of each label.
    #[kernel]
    pub fn label_loss<N, V>(logits: Tensor<f32, N, V>, label: Tensor<i64, N>) -> Tensor<f32, N> {
        -logits.log_softmax(V).gather(V, label)
    }
}

/// Values in -1..1.
fn values(n: usize, seed: u32) -> Vec<f32> {
    numbers::values(n, seed).into_iter().map(|x| x / 2.0).collect()
}

fn cpu<const R: usize>(data: &[f32], shape: [usize; R]) -> Result<Tensor<f32, R>, Error> {
    Tensor::from_vec(data.to_vec(), shape, &Device::cpu())
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
    row.iter().map(|x| (x - max).exp() / sum).collect()
}

#[track_caller]
fn near(what: &str, got: f32, want: f64) {
    assert!((f64::from(got) - want).abs() <= 1e-5 * (1.0 + want.abs()), "{what}: {got} instead of {want}");
}

#[test]
fn self_attention_is_right() -> Result<(), Error> {
    let (s, e, h, d, p) = (11, 6, 2, 4, 5);
    let x = values(s * e, 1);
    let [wq, wk, wv] = [2, 3, 4].map(|seed| values(e * h * d, seed));
    let wo = values(h * d * p, 5);
    let weights = |w: &[f32]| cpu(w, [e, h, d]);
    let got = self_attention(
        &cpu(&x, [s, e])?,
        &weights(&wq)?,
        &weights(&wk)?,
        &weights(&wv)?,
        &cpu(&wo, [h, d, p])?,
        0.5,
    )?;
    let project = |w: &[f32], i: usize, at: usize| -> f64 {
        (0..e).map(|c| f64::from(x[i * e + c]) * f64::from(w[c * h * d + at])).sum()
    };
    let got = got.to_vec()?;
    for i in 0..s {
        let mut out = vec![0.0; p];
        for head in 0..h {
            let score: Vec<f64> = (0..=i)
                .map(|t| {
                    (0..d).map(|c| project(&wq, i, head * d + c) * project(&wk, t, head * d + c)).sum::<f64>()
                        * 0.5
                })
                .collect();
            for (t, weight) in softmax(&score).into_iter().enumerate() {
                for c in 0..d {
                    let value = weight * project(&wv, t, head * d + c);
                    (0..p).for_each(|o| out[o] += value * f64::from(wo[(head * d + c) * p + o]));
                }
            }
        }
        (0..p).for_each(|o| near(&format!("at {i}, {o}"), got[i * p + o], out[o]));
    }
    Ok(())
}

#[test]
fn grouped_queries_and_rotations_are_right() -> Result<(), Error> {
    let (s, t, g, r, d) = (5, 40, 2, 3, 6);
    let (q, k) = (values(g * r * s * d, 1), values(g * t * d, 2));
    let got = grouped_scores(&cpu(&q, [g * r, s, d])?, &cpu(&k, [g, t, d])?)?;
    assert_eq!(got.shape(), [g * r, s, t]);
    for (at, got) in got.to_vec()?.into_iter().enumerate() {
        let (head, i, j) = (at / (s * t), at / t % s, at % t);
        let terms =
            (0..d).map(|c| f64::from(q[(head * s + i) * d + c]) * f64::from(k[(head / r * t + j) * d + c]));
        near(&format!("grouped at {at}"), got, terms.sum());
    }
    let (q, cos, sin) = (values(s * d, 3), values(s * d / 2, 4), values(s * d / 2, 5));
    let got = rotated(
        &cpu(&q, [s, d])?,
        &cpu(&k[..t * d], [t, d])?,
        &cpu(&cos, [s, d / 2])?,
        &cpu(&sin, [s, d / 2])?,
    )?;
    for (at, got) in got.to_vec()?.into_iter().enumerate() {
        let (i, j) = (at / t, at % t);
        let turn = |c: usize| {
            let (e, other) = (c % (d / 2), f64::from(q[i * d + (c + d / 2) % d]));
            let turned = if c < d / 2 { -other } else { other };
            f64::from(q[i * d + c]) * f64::from(cos[i * d / 2 + e]) + turned * f64::from(sin[i * d / 2 + e])
        };
        near(&format!("rotated at {at}"), got, (0..d).map(|c| turn(c) * f64::from(k[j * d + c])).sum());
    }
    Ok(())
}

#[test]
fn a_cache_is_written_and_read() -> Result<(), Error> {
    let (l, s, d, pos) = (9, 2, 4, 3);
    let (old, q, k) = (values(l * d, 1), values(s * d, 2), values(s * d, 3));
    let mut cache = cpu(&old, [l, d])?;
    let got = cached_scores(&mut cache, &cpu(&q, [s, d])?, &cpu(&k, [s, d])?, pos as i64)?.to_vec()?;
    let mut want = old;
    want[pos * d..(pos + s) * d].copy_from_slice(&k);
    assert_eq!(cache.to_vec()?, want);
    for i in 0..s {
        let dot =
            |j: usize| (0..d).map(|c| f64::from(q[i * d + c]) * f64::from(want[j * d + c])).sum::<f64>();
        let row = softmax(&(0..=i + pos).map(dot).collect::<Vec<_>>());
        for j in 0..l {
            near(&format!("at {i}, {j}"), got[i * l + j], row.get(j).copied().unwrap_or(0.0));
        }
    }
    Ok(())
}

#[test]
fn a_loss_gathers_its_labels() -> Result<(), Error> {
    let (n, v) = (7, 11);
    let (logits, labels) = (values(n * v, 1), (0..n as i64).map(|i| i * 5 % 11).collect::<Vec<_>>());
    let got = label_loss(&cpu(&logits, [n, v])?, &Tensor::from_vec(labels.clone(), [n], &Device::cpu())?)?
        .to_vec()?;
    for ((row, label), got) in logits.chunks(v).zip(labels).zip(got) {
        let row: Vec<f64> = row.iter().map(|&x| x.into()).collect();
        near(&format!("label {label}"), got, -softmax(&row)[label as usize].ln());
    }
    Ok(())
}
