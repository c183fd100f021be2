//! Every fusion pattern twice: that it fires (a golden plan with its launch count and bytes) and that it is right
//! (numbers against plain f64 loops that share nothing with the compiler).

#[path = "support/devices.rs"]
mod devices;
#[path = "support/golden.rs"]
mod golden;
#[path = "support/numbers.rs"]
mod numbers;

use devices::{device, on_every_device};
use fuse::{Error, Tensor, fuse};
use numbers::values;

fuse! {
    /// sigmoid, multiply, add.
    #[kernel(launches = 1, assume(N = 1048576))]
    pub fn sigmoid_mul_add<N>(x: Tensor<f32, N>, b: Tensor<f32, N>, c: Tensor<f32, N>) -> Tensor<f32, N> {
        x.sigmoid() * b + c
    }

    /// add, ReLU, multiply.
    #[kernel(launches = 1, assume(M = 1024, N = 1024))]
    pub fn add_relu_mul<M, N>(x: Tensor<f32, M, N>, b: Tensor<f32, N>, s: Tensor<f32, M>) -> Tensor<f32, M, N> {
        relu(x + b) * s
    }

    /// GELU, dropout, residual.
    #[kernel(launches = 1, assume(M = 1024, N = 1024))]
    pub fn gelu_dropout_residual<M, N>(x: Tensor<f32, M, N>, r: Tensor<f32, M, N>, p: f32, seed: u64) -> Tensor<f32, M, N> {
        gelu(x).dropout(p, seed) + r
    }

    /// Two siblings of one input.
    #[kernel(launches = 1, assume(N = 1048576))]
    pub fn relu_and_sigmoid<N>(x: Tensor<f32, N>) -> (Tensor<f32, N>, Tensor<f32, N>) {
        (relu(x), x.sigmoid())
    }

    /// Two siblings of one input.
    #[kernel(launches = 1, assume(N = 1048576))]
    pub fn silu_and_tanh<N>(x: Tensor<f32, N>) -> (Tensor<f32, N>, Tensor<f32, N>) {
        (silu(x), x.tanh())
    }

    /// Small kernels with nothing in common: one launch, dispatched by block range.
    #[kernel(launches = 1, assume(M = 1024, N = 512))]
    pub fn independent_small<M, N>(x: Tensor<f32, M>, y: Tensor<f32, N>) -> (Tensor<f32, M>, Tensor<f32, N>) {
        (x * 2.0, y.exp())
    }

    /// Layer norm without scale.
    #[kernel(launches = 1, assume(M = 4096, N = 1024))]
    pub fn plain_layer_norm<M, N>(x: Tensor<f32, M, N>, eps: f32) -> Tensor<f32, M, N> {
        let centred = x - x.mean(N);
        centred * (centred.square().mean(N) + eps).rsqrt()
    }

    /// Layer norm, scale, bias.
    #[kernel(launches = 1, assume(M = 4096, N = 1024))]
    pub fn scaled_layer_norm<M, N>(x: Tensor<f32, M, N>, g: Tensor<f32, N>, b: Tensor<f32, N>) -> Tensor<f32, M, N> {
        layer_norm(x, g, b, 1e-5)
    }

    /// RMS norm, then SiLU.
    #[kernel(launches = 1, assume(M = 4096, N = 1024))]
    pub fn rms_norm_silu<M, N>(x: Tensor<f32, M, N>, g: Tensor<f32, N>) -> Tensor<f32, M, N> {
        silu(rms_norm(x, g, 1e-5))
    }

    /// Softmax over the inner axis.
    #[kernel(launches = 1, assume(M = 4096, N = 1024))]
    pub fn softmax_inner<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
        x.softmax(N)
    }

    /// Softmax over the outer axis.
    #[kernel(launches = 1, assume(M = 1024, N = 4096))]
    pub fn softmax_outer<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
        x.softmax(M)
    }

    /// Softmax over two axes.
    #[kernel(launches = 1, assume(B = 4096, M = 32, N = 32))]
    pub fn softmax_two_axes<B, M, N>(x: Tensor<f32, B, M, N>) -> Tensor<f32, B, M, N> {
        x.softmax((M, N))
    }

    /// Dequantise, operate, quantise.
    #[kernel(launches = 1, assume(M = 4096, N = 4096))]
    pub fn requantise<M, N>(q: Tensor<i8, M, N>, s: Tensor<f32, N>, a: Tensor<f32, N>, b: Tensor<f32, N>) -> Tensor<i8, M, N> {
        (((q as f32 * s) * a + b) * 16.0).round_ties_even() as i8
    }

    /// Reduction, elementwise, reduction.
    #[kernel(launches = 1, assume(M = 4096, N = 1024))]
    pub fn spread<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
        (x - x.mean(N)).abs().max(N)
    }

    /// Row sums and row maxima of one input: one sweep.
    #[kernel(launches = 1, assume(M = 4096, N = 1024))]
    pub fn sum_and_max<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M>, Tensor<f32, M>) {
        (x.sum(N), x.max(N))
    }

    /// Column sums.
    #[kernel(launches = 1, assume(M = 8192, N = 2048))]
    pub fn column_sum<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, N> {
        x.sum(M)
    }

    /// Everything to one number: partial results, then a fold.
    #[kernel(launches = 2, assume(M = 4096, N = 4096))]
    pub fn full_sum<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32> {
        x.sum((M, N))
    }

    /// A global mean read by everything: the fold must end first, which a row of this length cannot own.
    #[kernel(launches = 3, assume(M = 4096, N = 4096))]
    pub fn subtract_global_mean<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
        x - x.mean((M, N))
    }

    /// The expensive value is read by two consumers over different domains: stored once, not computed twice.
    #[kernel(assume(M = 4096, N = 64, P = 64))]
    pub fn shared_expensive<M, N, P>(x: Tensor<f32, M, N>, y: Tensor<f32, M, N, P>) -> (Tensor<f32, M, N, P>, Tensor<f32, M, N>) {
        let e = x.exp().tanh().sigmoid().exp();
        (y * e, e + 1.0)
    }
}

const M: usize = 37;
const N: usize = 129;

fn tensor<const R: usize>(shape: [usize; R], seed: u32) -> Result<(Tensor<f32, R>, Vec<f64>), Error> {
    let data = values(shape.iter().product(), seed);
    let wide = data.iter().map(|&x| x as f64).collect();
    Ok((Tensor::from_vec(data, shape, &device())?, wide))
}

/// Asserts that every element is within `tolerance` of the reference, relative to values of about one.
#[track_caller]
fn assert_near<const R: usize>(got: &Tensor<f32, R>, want: &[f64], tolerance: f64) -> Result<(), Error> {
    let got = got.to_vec()?;
    assert_eq!(got.len(), want.len());
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        assert!((g as f64 - w).abs() <= tolerance * w.abs().max(1.0), "element {i}: {g} instead of {w}");
    }
    Ok(())
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The error function by its Taylor series (|x| < 3) in f64.
fn erf(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..200 {
        term *= -x * x / n as f64;
        sum += term / (2 * n + 1) as f64;
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2))
}

fn rows(x: &[f64], n: usize, f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    x.chunks(n).flat_map(f).collect()
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
    row.iter().map(|x| (x - max).exp() / sum).collect()
}

fn normalise(row: &[f64], eps: f64) -> Vec<f64> {
    let n = row.len() as f64;
    let mean = row.iter().sum::<f64>() / n;
    let var = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    row.iter().map(|x| (x - mean) / (var + eps).sqrt()).collect()
}

golden::plans! {
    "patterns",
    sigmoid_mul_add: 1,
    add_relu_mul: 1,
    gelu_dropout_residual: 1,
    relu_and_sigmoid: 1,
    silu_and_tanh: 1,
    independent_small: 1,
    plain_layer_norm: 1,
    scaled_layer_norm: 1,
    rms_norm_silu: 1,
    softmax_inner: 1,
    softmax_outer: 1,
    softmax_two_axes: 1,
    requantise: 1,
    spread: 1,
    sum_and_max: 1,
    column_sum: 1,
    full_sum: 2,
    subtract_global_mean: 3,
    shared_expensive: 2,
}

#[test]
fn elementwise_chains_are_right() -> Result<(), Error> {
    let ((x, xw), (b, bw), (c, cw)) = (tensor([N], 1)?, tensor([N], 2)?, tensor([N], 3)?);
    let want: Vec<f64> = (0..N).map(|i| sigmoid(xw[i]) * bw[i] + cw[i]).collect();
    assert_near(&sigmoid_mul_add(&x, &b, &c)?, &want, 1e-6)?;

    let ((x, xw), (b, bw), (s, sw)) = (tensor([M, N], 4)?, tensor([N], 5)?, tensor([M], 6)?);
    let want: Vec<f64> = (0..M * N).map(|i| (xw[i] + bw[i % N]).max(0.0) * sw[i / N]).collect();
    assert_near(&add_relu_mul(&x, &b, &s)?, &want, 1e-6)
}

#[test]
fn gelu_dropout_residual_is_right() -> Result<(), Error> {
    let ((x, xw), (r, rw)) = (tensor([M, N], 1)?, tensor([M, N], 2)?);
    let kept: Vec<f64> = (0..M * N).map(|i| gelu(xw[i]) + rw[i]).collect();
    assert_near(&gelu_dropout_residual(&x, &r, 0.0, 7)?, &kept, 2e-6)?;
    assert_near(&gelu_dropout_residual(&x, &r, 1.0, 7)?, &rw, 0.0)?;
    let half = gelu_dropout_residual(&x, &r, 0.5, 7)?;
    let again = gelu_dropout_residual(&x, &r, 0.5, 7)?;
    assert_eq!(half.to_vec()?, again.to_vec()?, "the mask replays");
    let mut dropped = 0;
    for (i, y) in half.to_vec()?.into_iter().enumerate() {
        let (zero, doubled) = (rw[i], 2.0 * gelu(xw[i]) + rw[i]);
        let y = y as f64;
        assert!(
            (y - zero).abs() < 1e-5 || (y - doubled).abs() < 1e-5,
            "element {i} is neither dropped nor doubled"
        );
        dropped += usize::from((y - zero).abs() < (y - doubled).abs());
    }
    let share = dropped as f64 / (M * N) as f64;
    assert!((share - 0.5).abs() < 0.03, "{share} of the elements dropped");
    Ok(())
}

#[test]
fn siblings_are_right() -> Result<(), Error> {
    let (x, xw) = tensor([N], 1)?;
    let (a, b) = relu_and_sigmoid(&x)?;
    assert_near(&a, &xw.iter().map(|x| x.max(0.0)).collect::<Vec<_>>(), 0.0)?;
    assert_near(&b, &xw.iter().map(|&x| sigmoid(x)).collect::<Vec<_>>(), 1e-6)?;
    let (a, b) = silu_and_tanh(&x)?;
    assert_near(&a, &xw.iter().map(|&x| x * sigmoid(x)).collect::<Vec<_>>(), 1e-6)?;
    assert_near(&b, &xw.iter().map(|x| x.tanh()).collect::<Vec<_>>(), 1e-6)?;
    let (y, yw) = tensor([M], 2)?;
    let (a, b) = independent_small(&x, &y)?;
    assert_near(&a, &xw.iter().map(|x| x * 2.0).collect::<Vec<_>>(), 0.0)?;
    assert_near(&b, &yw.iter().map(|x| x.exp()).collect::<Vec<_>>(), 1e-6)
}

#[test]
fn norms_are_right() -> Result<(), Error> {
    let ((x, xw), (g, gw), (b, bw)) = (tensor([M, N], 1)?, tensor([N], 2)?, tensor([N], 3)?);
    assert_near(&plain_layer_norm(&x, 1e-5)?, &rows(&xw, N, |r| normalise(r, 1e-5)), 1e-5)?;
    let scaled = |r: &[f64]| normalise(r, 1e-5).iter().enumerate().map(|(i, x)| x * gw[i] + bw[i]).collect();
    assert_near(&scaled_layer_norm(&x, &g, &b)?, &rows(&xw, N, scaled), 1e-5)?;
    let rms = |r: &[f64]| {
        let scale = 1.0 / (r.iter().map(|x| x * x).sum::<f64>() / r.len() as f64 + 1e-5).sqrt();
        r.iter().enumerate().map(|(i, x)| x * scale * gw[i]).map(|y| y * sigmoid(y)).collect()
    };
    assert_near(&rms_norm_silu(&x, &g)?, &rows(&xw, N, rms), 1e-5)
}

#[test]
fn softmax_is_right_over_inner_outer_and_two_axes() -> Result<(), Error> {
    let (x, xw) = tensor([M, N], 1)?;
    assert_near(&softmax_inner(&x)?, &rows(&xw, N, softmax), 1e-6)?;
    let mut want = vec![0.0; M * N];
    for n in 0..N {
        let column: Vec<f64> = (0..M).map(|m| xw[m * N + n]).collect();
        for (m, y) in softmax(&column).into_iter().enumerate() {
            want[m * N + n] = y;
        }
    }
    assert_near(&softmax_outer(&x)?, &want, 1e-6)?;
    let (x, xw) = tensor([3, 7, 11], 2)?;
    assert_near(&softmax_two_axes(&x)?, &rows(&xw, 77, softmax), 1e-6)
}

#[test]
fn requantise_is_right() -> Result<(), Error> {
    let q: Vec<i8> = (0..M * N).map(|i| (i * 37 % 256) as u8 as i8).collect();
    let ((s, sw), (a, aw), (b, bw)) = (tensor([N], 1)?, tensor([N], 2)?, tensor([N], 3)?);
    let got = requantise(&Tensor::from_vec(q.clone(), [M, N], &device())?, &s, &a, &b)?.to_vec()?;
    for (i, got) in got.into_iter().enumerate() {
        let n = i % N;
        // Each step in f32, as the language rounds; the last rounding is the only one that shows.
        let y = ((q[i] as f32 * sw[n] as f32) * aw[n] as f32 + bw[n] as f32) * 16.0;
        assert_eq!(got, y.round_ties_even() as i8, "element {i}");
    }
    Ok(())
}

#[test]
fn reductions_are_right() -> Result<(), Error> {
    let (x, xw) = tensor([M, N], 1)?;
    let mean = |r: &[f64]| r.iter().sum::<f64>() / r.len() as f64;
    let deviation = |r: &[f64]| vec![r.iter().map(|x| (x - mean(r)).abs()).fold(0.0, f64::max)];
    assert_near(&spread(&x)?, &rows(&xw, N, deviation), 1e-5)?;
    let (sum, max) = sum_and_max(&x)?;
    assert_near(&sum, &rows(&xw, N, |r| vec![r.iter().sum()]), 1e-5)?;
    assert_near(&max, &rows(&xw, N, |r| vec![r.iter().copied().fold(f64::MIN, f64::max)]), 0.0)?;
    let columns: Vec<f64> = (0..N).map(|n| (0..M).map(|m| xw[m * N + n]).sum()).collect();
    assert_near(&column_sum(&x)?, &columns, 1e-5)?;
    let total: f64 = xw.iter().sum();
    assert!((full_sum(&x)?.item()? as f64 - total).abs() < 1e-3);
    let centred: Vec<f64> = xw.iter().map(|x| x - total / (M * N) as f64).collect();
    assert_near(&subtract_global_mean(&x)?, &centred, 1e-5)
}

#[test]
fn values_stored_for_two_consumers_are_right() -> Result<(), Error> {
    let ((x, xw), (y, yw)) = (tensor([5, 7], 1)?, tensor([5, 7, 9], 2)?);
    let e: Vec<f64> = xw.iter().map(|x| sigmoid(x.exp().tanh()).exp()).collect();
    let (a, b) = shared_expensive(&x, &y)?;
    assert_near(&a, &yw.iter().enumerate().map(|(i, y)| y * e[i / 9]).collect::<Vec<_>>(), 1e-5)?;
    assert_near(&b, &e.iter().map(|e| e + 1.0).collect::<Vec<_>>(), 1e-5)
}

on_every_device!(
    elementwise_chains_are_right,
    gelu_dropout_residual_is_right,
    siblings_are_right,
    norms_are_right,
    softmax_is_right_over_inner_outer_and_two_axes,
    requantise_is_right,
    reductions_are_right,
    values_stored_for_two_consumers_are_right,
);
