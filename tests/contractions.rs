//! Contractions: the plans they fuse into (golden texts with launch counts and bytes) and their numbers, against plain
//! f64 loops within the bound c·ε·Σ|a·b|.

#[path = "support/devices.rs"]
mod devices;
#[path = "support/golden.rs"]
mod golden;
#[path = "support/numbers.rs"]
mod numbers;

use devices::{device, on_every_device};
use fuse::{Error, Tensor, bf16, f16, fuse};
use numbers::values;

fuse! {
    /// A matrix product.
    #[kernel(launches = 1, assume(M = 512, K = 1024, N = 4096))]
    pub fn matmul<M, K, N>(x: Tensor<f32, M, K>, w: Tensor<f32, K, N>) -> Tensor<f32, M, N> { x.dot(w, K) }

    /// Linear, bias, GELU.
    #[kernel(launches = 1, assume(M = 512, K = 1024, N = 4096))]
    pub fn linear_gelu<M, K, N>(x: Tensor<f32, M, K>, w: Tensor<f32, K, N>, b: Tensor<f32, N>) -> Tensor<f32, M, N> {
        gelu(x.dot(w, K) + b)
    }

    /// The same of half precision: panels are widened, the result is narrowed in the epilogue.
    #[kernel(launches = 1, assume(M = 4096, K = 1024, N = 4096))]
    pub fn linear_gelu_half<M, K, N>(x: Tensor<f16, M, K>, w: Tensor<f16, K, N>, b: Tensor<f16, N>) -> Tensor<f16, M, N> {
        gelu(x.dot(w, K) + b) as f16
    }

    /// Linear, GELU, dropout, residual.
    #[kernel(launches = 1, assume(M = 512, K = 1024, N = 4096))]
    pub fn linear_gelu_dropout_residual<M, K, N>(
        x: Tensor<f32, M, K>, w: Tensor<f32, K, N>, r: Tensor<f32, M, N>, p: f32, seed: u64,
    ) -> Tensor<f32, M, N> {
        gelu(x.dot(w, K)).dropout(p, seed) + r
    }

    /// Linear, batch norm, ReLU: operands of rows, columns and one number.
    #[kernel(launches = 1, assume(M = 512, K = 1024, N = 4096))]
    pub fn linear_norm_relu<M, K, N>(
        x: Tensor<f32, M, K>, w: Tensor<f32, K, N>, mean: Tensor<f32, N>, var: Tensor<f32, N>, g: Tensor<f32, N>,
        b: Tensor<f32, N>, s: Tensor<f32, M>, eps: f32,
    ) -> Tensor<f32, M, N> {
        relu(batch_norm(x.dot(w, K), mean, var, g, b, eps) * s)
    }

    /// The gated up-projection of an MLP: one matrix, two products that meet in the epilogue.
    #[kernel(launches = 1, assume(M = 512, K = 1024, F = 8192))]
    pub fn gated<M, K, F, N, const TWO: usize = 2>(x: Tensor<f32, M, K>, w: Tensor<f32, K, F>) -> Tensor<f32, M, N> {
        let h = x.dot(w, K).split(F, (TWO, N));
        silu(h.at(TWO, 0)) * h.at(TWO, 1)
    }

    /// The same with two matrices.
    #[kernel(launches = 1, assume(M = 512, K = 1024, N = 4096))]
    pub fn gated_by_two<M, K, N>(x: Tensor<f32, M, K>, gate: Tensor<f32, K, N>, up: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
        silu(x.dot(gate, K)) * x.dot(up, K)
    }

    /// Queries, keys and values of one product.
    #[kernel(launches = 1, assume(S = 512, E = 512, H = 8, D = 64))]
    pub fn qkv<S, E, H, D, const F: usize = { 3 * H * D }, const THREE: usize = 3>(
        x: Tensor<f32, S, E>, w: Tensor<f32, E, F>, heads: Axis<H>,
    ) -> (Tensor<f32, H, S, D>, Tensor<f32, H, S, D>, Tensor<f32, H, S, D>) {
        let y = x.dot(w, E).split(F, (THREE, H, D));
        (y.at(THREE, 0), y.at(THREE, 1), y.at(THREE, 2))
    }

    /// Batched, with a transposed result and a scale.
    #[kernel(launches = 1, assume(B = 16, M = 128, K = 64, N = 128))]
    pub fn batched<B, M, K, N>(x: Tensor<f32, B, M, K>, y: Tensor<f32, B, N, K>, s: f32) -> Tensor<f32, N, B, M> {
        x.dot(y, K) * s
    }

    /// Values of a row and of a batch position, computed once for each.
    #[kernel(launches = 1, assume(B = 16, M = 128, K = 64, N = 128))]
    pub fn batch_rows<B, M, K, N>(
        x: Tensor<f32, B, M, K>, y: Tensor<f32, B, K, N>, v: Tensor<f32, B, M>, s: Tensor<f32, B>, r: Tensor<f32, B, M, N>,
    ) -> Tensor<f32, B, M, N> {
        x.dot(y, K) * (v.square() + 1.0).rsqrt() * s.exp() + r
    }

    /// A prologue that is computed: dequantise, then multiply, then quantise.
    #[kernel(launches = 1, assume(M = 512, K = 512, N = 512))]
    pub fn dequantised<M, K, N>(q: Tensor<i8, M, K>, s: Tensor<f32, M>, w: Tensor<bf16, K, N>, out: f32) -> Tensor<i8, M, N> {
        ((q as f32 * s).dot(w, K) * out).round_ties_even() as i8
    }

    /// 8-bit integers accumulate in i32.
    #[kernel(launches = 1, assume(M = 512, K = 512, N = 512))]
    pub fn quantised<M, K, N>(x: Tensor<i8, M, K>, w: Tensor<i8, K, N>) -> Tensor<i32, M, N> { x.dot(w, K) }

    /// Other integers accumulate as sums do, and wrap.
    #[kernel(launches = 1)]
    pub fn integers<M, K, N>(x: Tensor<i32, M, K>, w: Tensor<i32, K, N>) -> Tensor<i64, M, N> { x.dot(w, K) + 1 }

    /// Doubles.
    #[kernel(launches = 1)]
    pub fn doubles<M, K, N>(x: Tensor<f64, M, K>, w: Tensor<f64, N, K>) -> Tensor<f64, M, N> { x.dot(w, K) }

    /// A Gram matrix: one tensor on both sides.
    #[kernel(launches = 1)]
    pub fn gram<M, N, P>(x: Tensor<f32, M, N>) -> Tensor<f32, N, P> { x.dot(x.rename(N, P), M) }

    /// A product with a vector is a reduction like any other.
    #[kernel(launches = 1, assume(M = 4096, K = 4096))]
    pub fn matvec<M, K>(x: Tensor<f32, M, K>, v: Tensor<f32, K>) -> Tensor<f32, M> { let o = x.dot(v, K); o + o }

    /// Several contracted axes, merged axes in the result.
    #[kernel(launches = 1)]
    pub fn projected<S, H, D, E, const F: usize = { H * D }>(x: Tensor<f32, S, F>, w: Tensor<f32, H, D, E>) -> Tensor<f32, S, E> {
        x.split(F, (H, D)).dot(w, (H, D))
    }

    /// Two layers: the second reads the first as a whole, so there are two launches.
    #[kernel(launches = 2, assume(M = 512, K = 1024, N = 4096, P = 1024))]
    pub fn mlp<M, K, N, P>(x: Tensor<f32, M, K>, w: Tensor<f32, K, N>, v: Tensor<f32, N, P>) -> Tensor<f32, M, P> {
        gelu(x.dot(w, K)).dot(v, N) + x.slice(K, 0, P)
    }

    /// The rows of an embedding multiplied: an indirect read in a panel.
    #[kernel(launches = 1, assume(V = 1000, E = 64, N = 256, K = 64))]
    pub fn embedded<V, E, N, K>(table: Tensor<f32, V, E>, ids: Tensor<i64, N>, w: Tensor<f32, E, K>) -> Tensor<f32, N, K> {
        table.gather(V, ids).dot(w, E)
    }

    /// Room for a second launch: few results of a long sum are shared among the blocks of a GPU.
    #[kernel(launches = 2, assume(M = 64, K = 16384, N = 64))]
    pub fn tall<M, K, N>(x: Tensor<f32, M, K>, w: Tensor<f32, K, N>, b: Tensor<f32, N>) -> Tensor<f32, M, N> {
        (x.dot(w, K) + b).max(0.0)
    }

    /// The same of f16, the weights along the sum, with a batch, a residual and two results.
    #[kernel(launches = 2, assume(B = 2, M = 64, K = 16384, N = 64))]
    pub fn tall_half<B, M, K, N>(
        x: Tensor<f16, B, M, K>, w: Tensor<f16, N, K>, r: Tensor<f16, B, M, N>,
    ) -> (Tensor<f16, B, M, N>, Tensor<f32, B, N, M>) {
        let y = x.dot(w, K);
        ((y + r) as f16, y)
    }

    /// The same of bytes.
    #[kernel(launches = 2, assume(M = 64, K = 16384, N = 64))]
    pub fn tall_bytes<M, K, N>(x: Tensor<i8, M, K>, w: Tensor<i8, N, K>) -> Tensor<i32, M, N> { x.dot(w, K) }

    /// Bytes without a sign; bytes that are computed, and read through a map with bounds.
    #[kernel(launches = 1)]
    pub fn unsigned<M, K, N>(x: Tensor<u8, M, K>, w: Tensor<u8, N, K>) -> Tensor<i32, M, N> { x.dot(w, K) }

    #[kernel(launches = 1)]
    pub fn rounded<M, K, N>(x: Tensor<f32, M, K>, w: Tensor<i8, K, N>, s: f32) -> Tensor<i32, M, N> {
        ((x * s).round() as i8).dot(w, K)
    }

    #[kernel(launches = 1)]
    pub fn window_of_bytes<L, P, R, C, N>(x: Tensor<i8, L, C>, w: Tensor<i8, R, C, N>) -> Tensor<i32, P, N> {
        x.window(L, (P, R), padding = 1).dot(w, (R, C))
    }

    /// On GPUs the factors are rounded to tf32.
    #[kernel(fast, launches = 2, assume(M = 64, K = 16384, N = 64))]
    pub fn quick<M, K, N>(x: Tensor<f32, M, K>, w: Tensor<f32, K, N>) -> Tensor<f32, M, N> { x.dot(w, K).sigmoid() }

    /// A vector over rows and one over columns, which only their names tell apart.
    #[kernel(launches = 1)]
    pub fn both_vectors<M, K, N>(
        x: Tensor<f32, M, K>, w: Tensor<f32, K, N>, r: Tensor<f32, M>, c: Tensor<f32, N>,
    ) -> (Tensor<f32, M, N>, Tensor<f32, M, N>) {
        let y = x.dot(w, K);
        (y + r, y + c)
    }
}

golden::plans! {
    "contractions",
    matmul: 1,
    linear_gelu: 1,
    linear_gelu_half: 1,
    linear_gelu_dropout_residual: 1,
    linear_norm_relu: 1,
    gated: 1,
    gated_by_two: 1,
    qkv: 1,
    batched: 1,
    batch_rows: 1,
    dequantised: 1,
    quantised: 1,
    gram: 1,
    matvec: 1,
    projected: 1,
    mlp: 2,
    embedded: 1,
}

/// A tensor on the device that the test runs on.
fn place<T: fuse::Element, const R: usize>(data: &[T], shape: [usize; R]) -> Result<Tensor<T, R>, Error> {
    Tensor::from_vec(data.to_vec(), shape, &device())
}

/// A product and the sum of the magnitudes of its terms.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: f64,
    magnitude: f64,
}

/// `Σ a(k) b(k)`.
fn dot(depth: usize, a: impl Fn(usize) -> f64, b: impl Fn(usize) -> f64) -> Sum {
    let mut sum = Sum::default();
    for k in 0..depth {
        sum.value += a(k) * b(k);
        sum.magnitude += (a(k) * b(k)).abs();
    }
    sum
}

/// ε of f32, as the bound counts it; the sums here take at most this many roundings one after the other.
const EPSILON: f64 = f32::EPSILON as f64;
const ROUNDINGS: f64 = 32.0;

#[track_caller]
fn check(what: &str, got: f64, sum: Sum, f: impl Fn(f64) -> f64, steepness: f64) {
    let want = f(sum.value);
    let bound = ROUNDINGS * EPSILON * (steepness * sum.magnitude + want.abs() + 1e-30);
    assert!(
        (got - want).abs() <= bound,
        "{what}: {got} instead of {want}, {:e} apart, {bound:e} allowed",
        (got - want).abs()
    );
}

fn erf(x: f64) -> f64 {
    if x.abs() > 2.0 {
        let a = x.abs();
        let fraction = (1..200).rev().fold(a, |f, n| a + f64::from(n) / 2.0 / f);
        return x.signum() * (1.0 - (-a * a).exp() / std::f64::consts::PI.sqrt() / fraction);
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / n as f64;
        sum += term / (2 * n + 1) as f64;
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x / 2f64.sqrt()))
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// Sizes that are odd, one, and larger than a tile in one or the other direction.
const SIZES: [(usize, usize, usize); 9] = [
    (1, 1, 1),
    (3, 5, 7),
    (1, 33, 65),
    (65, 33, 1),
    (37, 1, 129),
    (300, 17, 40),
    (20, 70, 1100),
    (9, 1100, 13),
    (64, 64, 64),
];

on_every_device! {
    products_of_all_sizes,
    empty_axes_give_nothing_or_zeros,
    epilogues_read_rows_columns_and_scalars,
    parts_of_a_product_meet_in_the_epilogue,
    queries_keys_and_values,
    batches_and_transposed_results,
    values_of_rows_are_those_of_their_batch,
    strided_and_transposed_operands,
    half_precision_accumulates_in_f32,
    integers_are_exact_and_wrap,
    prologues_are_computed_in_panels,
    doubles_grams_and_vectors,
    split_axes_layers_and_gathers,
    the_same_bits_on_each_device,
    special_values_pass_through,
    long_sums_of_few_results,
    fast_products_are_those_of_tf32,
    bytes_of_every_kind,
}

#[test]
fn products_of_all_sizes() -> Result<(), Error> {
    for (m, k, n) in SIZES {
        let (x, w) = (values(m * k, 1), values(k * n, 2));
        let got = matmul(&place(&x, [m, k])?, &place(&w, [k, n])?)?.to_vec()?;
        for i in 0..m {
            for j in 0..n {
                let sum = dot(k, |q| x[i * k + q].into(), |q| w[q * n + j].into());
                check(&format!("{m}x{k}x{n} at {i}, {j}"), got[i * n + j].into(), sum, |x| x, 1.0);
            }
        }
    }
    Ok(())
}

#[test]
fn empty_axes_give_nothing_or_zeros() -> Result<(), Error> {
    let y = matmul(&place::<f32, 2>(&[], [3, 0])?, &place::<f32, 2>(&[], [0, 4])?)?;
    assert_eq!((y.shape(), y.to_vec()?), ([3, 4], vec![0.0; 12]));
    let y = matmul(&place::<f32, 2>(&[], [0, 5])?, &place(&[1.0; 20], [5, 4])?)?;
    assert_eq!(y.shape(), [0, 4]);
    let y = linear_gelu(
        &place::<f32, 2>(&[], [2, 0])?,
        &place::<f32, 2>(&[], [0, 3])?,
        &place(&[1.0, -2.0, 0.0], [3])?,
    )?
    .to_vec()?;
    for (j, x) in [1.0, -2.0, 0.0].into_iter().enumerate() {
        assert!((f64::from(y[j]) - gelu(x)).abs() < 1e-6 && y[j] == y[3 + j], "{y:?}");
    }
    assert_eq!(
        dequantised(
            &place::<i8, 2>(&[], [2, 0])?,
            &place(&[1.0; 2], [2])?,
            &place::<bf16, 2>(&[], [0, 3])?,
            2.0
        )?
        .to_vec()?,
        [0; 6]
    );
    assert_eq!(matvec(&place::<f32, 2>(&[], [3, 0])?, &place::<f32, 1>(&[], [0])?)?.to_vec()?, [0.0; 3]);
    Ok(())
}

#[test]
fn epilogues_read_rows_columns_and_scalars() -> Result<(), Error> {
    for (m, k, n) in SIZES {
        let (x, w, b, s) = (values(m * k, 1), values(k * n, 2), values(n, 3), values(m, 4));
        let (xt, wt) = (place(&x, [m, k])?, place(&w, [k, n])?);
        let sum = |i: usize, j: usize| dot(k, |q| x[i * k + q].into(), |q| w[q * n + j].into());
        let shift = |s: Sum, by: f32| Sum {
            value: s.value + f64::from(by),
            magnitude: s.magnitude + f64::from(by.abs()),
        };

        let got = linear_gelu(&xt, &wt, &place(&b, [n])?)?.to_vec()?;
        let var: Vec<f32> = values(n, 5).iter().map(|x| x * x + 0.5).collect();
        let (b_t, s_t) = (place(&b, [n])?, place(&s, [m])?);
        let normed =
            linear_norm_relu(&xt, &wt, &b_t, &place(&var, [n])?, &b_t, &b_t, &s_t, 1e-5)?.to_vec()?;
        let r = values(m * n, 6);
        let dropped = linear_gelu_dropout_residual(&xt, &wt, &place(&r, [m, n])?, 0.0, 7)?.to_vec()?;
        let (by_row, by_column) = both_vectors(&xt, &wt, &s_t, &b_t)?;
        let (by_row, by_column) = (by_row.to_vec()?, by_column.to_vec()?);
        for (at, got) in got.into_iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let what = format!("{m}x{k}x{n} at {i}, {j}");
            check(&what, got.into(), shift(sum(i, j), b[j]), gelu, 1.2);
            let (bj, vj, si) = (f64::from(b[j]), f64::from(var[j]), f64::from(s[i]));
            let norm = |x: f64| (((x - bj) / (vj + 1e-5).sqrt() * bj + bj) * si).max(0.0);
            let steep = (bj / vj.sqrt() * si).abs().max(1.0);
            let terms = Sum { magnitude: sum(i, j).magnitude + 2.0 + bj.abs() + si.abs(), ..sum(i, j) };
            check(&what, normed[at].into(), terms, norm, 2.0 * steep);
            let kept = |x: f64| gelu(x) + f64::from(r[at]);
            check(&what, dropped[at].into(), shift(sum(i, j), 0.0), kept, 1.2 + 2.0);
            check(&what, by_row[at].into(), shift(sum(i, j), s[i]), |x| x, 1.0);
            check(&what, by_column[at].into(), shift(sum(i, j), b[j]), |x| x, 1.0);
        }
    }
    Ok(())
}

#[test]
fn parts_of_a_product_meet_in_the_epilogue() -> Result<(), Error> {
    for (m, k, n) in SIZES {
        let (x, w) = (values(m * k, 1), values(k * 2 * n, 2));
        let got = gated(&place(&x, [m, k])?, &place(&w, [k, 2 * n])?)?.to_vec()?;
        let part = |i: usize, j: usize, p: usize| {
            dot(k, |q| x[i * k + q].into(), |q| w[q * 2 * n + p * n + j].into())
        };
        let take =
            |p: usize| -> Vec<f32> { (0..k * n).map(|at| w[at / n * 2 * n + p * n + at % n]).collect() };
        let two = gated_by_two(&place(&x, [m, k])?, &place(&take(0), [k, n])?, &place(&take(1), [k, n])?)?
            .to_vec()?;
        for i in 0..m {
            for j in 0..n {
                let (gate, up) = (part(i, j, 0), part(i, j, 1));
                let terms = Sum {
                    value: gate.value,
                    magnitude: 1.2 * (gate.magnitude * up.value.abs() + up.magnitude * gate.value.abs()),
                };
                let f = |g: f64| silu(g) * up.value;
                check(&format!("gated {m}x{k}x{n} at {i}, {j}"), got[i * n + j].into(), terms, f, 1.0);
                check(&format!("two {m}x{k}x{n} at {i}, {j}"), two[i * n + j].into(), terms, f, 1.0);
            }
        }
    }
    Ok(())
}

#[test]
fn queries_keys_and_values() -> Result<(), Error> {
    for (s, e, h, d) in [(1, 1, 1, 1), (5, 7, 3, 4), (70, 40, 2, 33)] {
        let f = 3 * h * d;
        let (x, w) = (values(s * e, 1), values(e * f, 2));
        let (q, k, v) = qkv(&place(&x, [s, e])?, &place(&w, [e, f])?, h)?;
        for (part, got) in [q, k, v].into_iter().enumerate() {
            assert_eq!(got.shape(), [h, s, d]);
            for (at, got) in got.to_vec()?.into_iter().enumerate() {
                let (head, row, column) = (at / (s * d), at / d % s, at % d);
                let sum =
                    dot(e, |c| x[row * e + c].into(), |c| w[c * f + part * h * d + head * d + column].into());
                check(&format!("part {part} at {at}"), got.into(), sum, |x| x, 1.0);
            }
        }
    }
    Ok(())
}

#[test]
fn batches_and_transposed_results() -> Result<(), Error> {
    for (b, m, k, n) in [(1, 1, 1, 1), (3, 5, 7, 4), (2, 130, 33, 70)] {
        let (x, y) = (values(b * m * k, 1), values(b * n * k, 2));
        let got = batched(&place(&x, [b, m, k])?, &place(&y, [b, n, k])?, 0.5)?;
        assert_eq!(got.shape(), [n, b, m]);
        for (at, got) in got.to_vec()?.into_iter().enumerate() {
            let (j, c, i) = (at / (b * m), at / m % b, at % m);
            let sum = dot(k, |q| x[(c * m + i) * k + q].into(), |q| y[(c * n + j) * k + q].into());
            check(&format!("{b}x{m}x{k}x{n} at {at}"), got.into(), sum, |x| 0.5 * x, 0.5);
        }
    }
    Ok(())
}

#[test]
fn values_of_rows_are_those_of_their_batch() -> Result<(), Error> {
    for (b, m, k, n) in [(1, 1, 1, 1), (3, 1, 5, 9), (5, 3, 7, 4), (2, 530, 3, 130), (2, 70, 3, 600)] {
        let (x, y, r) = (values(b * m * k, 1), values(b * k * n, 2), values(b * m * n, 5));
        let (v, s) = (values(b * m, 3), values(b, 4));
        let got = batch_rows(
            &place(&x, [b, m, k])?,
            &place(&y, [b, k, n])?,
            &place(&v, [b, m])?,
            &place(&s, [b])?,
            &place(&r, [b, m, n])?,
        )?;
        for (at, got) in got.to_vec()?.into_iter().enumerate() {
            let (c, i, j) = (at / (m * n), at / n % m, at % n);
            let sum = dot(k, |q| x[(c * m + i) * k + q].into(), |q| y[(c * k + q) * n + j].into());
            let factor = f64::from(s[c]).exp() / (f64::from(v[c * m + i]).powi(2) + 1.0).sqrt();
            let rest = f64::from(r[at]);
            let sum = Sum { magnitude: sum.magnitude + rest.abs() / factor, ..sum };
            check(&format!("{b}x{m}x{k}x{n} at {at}"), got.into(), sum, |x| factor * x + rest, factor);
        }
    }
    Ok(())
}

#[test]
fn strided_and_transposed_operands() -> Result<(), Error> {
    let (m, k, n) = (37, 29, 70);
    let (x, w) = (values(k * m, 1), values(n * k * 2, 2));
    // `x` transposed, every other column of `w` transposed.
    let xt = place(&x, [k, m])?.transpose(0, 1)?;
    let wt = place(&w, [n, 2 * k])?.slice((0..n, 0..k))?.transpose(0, 1)?;
    let got = matmul(&xt, &wt)?.to_vec()?;
    for i in 0..m {
        for j in 0..n {
            let sum = dot(k, |q| x[q * m + i].into(), |q| w[j * 2 * k + q].into());
            check(&format!("at {i}, {j}"), got[i * n + j].into(), sum, |x| x, 1.0);
        }
    }
    // A row that repeats: stride 0.
    let row = place(&x[..k], [1, k])?.broadcast_to([m, k])?;
    let got = matmul(&row, &wt)?.to_vec()?;
    for i in 0..m {
        for j in 0..n {
            let sum = dot(k, |q| x[q].into(), |q| w[j * 2 * k + q].into());
            check(&format!("row at {i}, {j}"), got[i * n + j].into(), sum, |x| x, 1.0);
        }
    }
    Ok(())
}

#[test]
fn half_precision_accumulates_in_f32() -> Result<(), Error> {
    let (m, k, n) = (33, 2500, 40);
    let half = |v: Vec<f32>| -> Vec<f16> { v.into_iter().map(f16::from_f32).collect() };
    let (x, w, b) = (half(values(m * k, 1)), half(values(k * n, 2)), half(values(n, 3)));
    let got = linear_gelu_half(&place(&x, [m, k])?, &place(&w, [k, n])?, &place(&b, [n])?)?.to_vec()?;
    for i in 0..m {
        for j in 0..n {
            let mut sum = dot(k, |q| x[i * k + q].to_f64(), |q| w[q * n + j].to_f64());
            sum.value += b[j].to_f64();
            let want = gelu(sum.value);
            // One rounding to f16, and what the sum in f32 may be off.
            let bound = want.abs() / 2048.0 + 1.2 * ROUNDINGS * EPSILON * sum.magnitude + 1e-7;
            assert!(
                (got[i * n + j].to_f64() - want).abs() <= bound,
                "at {i}, {j}: {} instead of {want}",
                got[i * n + j]
            );
        }
    }
    Ok(())
}

#[test]
fn integers_are_exact_and_wrap() -> Result<(), Error> {
    for (m, k, n) in SIZES {
        let byte = |seed: u32| -> Vec<i8> {
            (0u32..).map(|i| (i.wrapping_mul(seed * 7919 + 13) >> 3) as i8).take(m.max(n) * k).collect()
        };
        let (x, w) = (byte(3)[..m * k].to_vec(), byte(5)[..k * n].to_vec());
        let got = quantised(&place(&x, [m, k])?, &place(&w, [k, n])?)?.to_vec()?;
        let wide = |v: &[i8]| -> Vec<i32> { v.iter().map(|&x| i32::from(x) * 16_000_000).collect() };
        let wrapped = integers(&place(&wide(&x), [m, k])?, &place(&wide(&w), [k, n])?)?.to_vec()?;
        for i in 0..m {
            for j in 0..n {
                let want: i32 = (0..k).map(|q| i32::from(x[i * k + q]) * i32::from(w[q * n + j])).sum();
                assert_eq!(got[i * n + j], want, "{m}x{k}x{n} at {i}, {j}");
                let big = i64::from(want).wrapping_mul(256_000_000_000_000);
                assert_eq!(wrapped[i * n + j], big.wrapping_add(1), "{m}x{k}x{n} at {i}, {j}");
            }
        }
    }
    Ok(())
}

#[test]
fn prologues_are_computed_in_panels() -> Result<(), Error> {
    for (m, k, n) in SIZES {
        let q: Vec<i8> = (0..m * k).map(|i| (i * 37 % 251) as u8 as i8).collect();
        let (s, w) = (values(m, 1), values(k * n, 2).into_iter().map(bf16::from_f32).collect::<Vec<_>>());
        let got = dequantised(&place(&q, [m, k])?, &place(&s, [m])?, &place(&w, [k, n])?, 0.01)?.to_vec()?;
        for (i, &scale) in s.iter().enumerate() {
            for j in 0..n {
                let sum = dot(k, |c| f64::from(q[i * k + c]) * f64::from(scale), |c| w[c * n + j].to_f64());
                let exact = (sum.value * 0.01).clamp(-128.0, 127.0);
                // Rounding to a whole number decides by less than the bound only near a half.
                assert!(
                    (f64::from(got[i * n + j]) - exact).abs() <= 0.5 + 1e-4 * (1.0 + sum.magnitude * 0.01),
                    "{m}x{k}x{n} at {i}, {j}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn doubles_grams_and_vectors() -> Result<(), Error> {
    for (m, k, n) in SIZES {
        let wide = |v: Vec<f32>| -> Vec<f64> { v.into_iter().map(|x| f64::from(x) / 3.0).collect() };
        let (x, w) = (wide(values(m * k, 1)), wide(values(k * n, 2)));
        let got = doubles(&place(&x, [m, k])?, &place(&w, [n, k])?)?.to_vec()?;
        for i in 0..m {
            for j in 0..n {
                let sum = dot(k, |q| x[i * k + q], |q| w[j * k + q]);
                assert!(
                    (got[i * n + j] - sum.value).abs() <= 2.0 * k as f64 * f64::EPSILON * sum.magnitude,
                    "{m}x{k}x{n} at {i}, {j}"
                );
            }
        }
        let x = values(m * k, 3);
        let got = gram(&place(&x, [m, k])?)?.to_vec()?;
        for i in 0..k {
            for j in 0..k {
                let sum = dot(m, |q| x[q * k + i].into(), |q| x[q * k + j].into());
                check(&format!("gram of {m}x{k} at {i}, {j}"), got[i * k + j].into(), sum, |x| x, 1.0);
            }
        }
        let v = values(k, 4);
        let got = matvec(&place(&x, [m, k])?, &place(&v, [k])?)?.to_vec()?;
        for i in 0..m {
            let sum = dot(k, |q| x[i * k + q].into(), |q| v[q].into());
            check(&format!("vector {m}x{k} at {i}"), got[i].into(), sum, |x| 2.0 * x, 2.0);
        }
    }
    Ok(())
}

#[test]
fn split_axes_layers_and_gathers() -> Result<(), Error> {
    let (s, h, d, e) = (17, 3, 5, 40);
    let (x, w) = (values(s * h * d, 1), values(h * d * e, 2));
    let got = projected(&place(&x, [s, h * d])?, &place(&w, [h, d, e])?)?.to_vec()?;
    for (at, got) in got.into_iter().enumerate() {
        let sum = dot(h * d, |q| x[at / e * h * d + q].into(), |q| w[q * e + at % e].into());
        check(&format!("projected at {at}"), got.into(), sum, |x| x, 1.0);
    }
    let (m, k, n, p) = (20, 30, 50, 10);
    let (x, w, v) = (values(m * k, 1), values(k * n, 2), values(n * p, 3));
    let got = mlp(&place(&x, [m, k])?, &place(&w, [k, n])?, &place(&v, [n, p])?)?.to_vec()?;
    for i in 0..m {
        let hidden: Vec<Sum> =
            (0..n).map(|j| dot(k, |q| x[i * k + q].into(), |q| w[q * n + j].into())).collect();
        for j in 0..p {
            let mut sum = dot(n, |q| gelu(hidden[q].value), |q| v[q * p + j].into());
            sum.magnitude += hidden
                .iter()
                .enumerate()
                .map(|(q, h)| 1.2 * h.magnitude * f64::from(v[q * p + j]).abs())
                .sum::<f64>();
            check(
                &format!("mlp at {i}, {j}"),
                got[i * p + j].into(),
                sum,
                |y| y + f64::from(x[i * k + j]),
                1.0,
            );
        }
    }
    let (v, e, k) = (11, 8, 33);
    let (table, w) = (values(v * e, 1), values(e * k, 2));
    let ids: Vec<i64> = vec![10, 0, 3, 3, 7];
    let got = embedded(&place(&table, [v, e])?, &place(&ids, [5])?, &place(&w, [e, k])?)?.to_vec()?;
    for (at, got) in got.into_iter().enumerate() {
        let row = ids[at / k] as usize;
        let sum = dot(e, |q| table[row * e + q].into(), |q| w[q * k + at % k].into());
        check(&format!("embedded at {at}"), got.into(), sum, |x| x, 1.0);
    }
    // On a GPU a fault shows when its results are asked for.
    let error = embedded(&place(&table, [v, e])?, &place(&[0, 11], [2])?, &place(&w, [e, k])?)
        .and_then(|y| y.to_vec())
        .expect_err("11 is out of range");
    assert!(error.to_string().contains("11"), "{error}");
    Ok(())
}

#[test]
fn the_same_bits_every_time() -> Result<(), Error> {
    let (m, k, n) = (300, 1500, 600);
    let (x, w, b) =
        (place(&values(m * k, 1), [m, k])?, place(&values(k * n, 2), [k, n])?, place(&values(n, 3), [n])?);
    let first = linear_gelu(&x, &w, &b)?.to_vec()?;
    for _ in 0..5 {
        assert_eq!(linear_gelu(&x, &w, &b)?.to_vec()?, first);
    }
    Ok(())
}

#[test]
fn the_same_bits_on_each_device() -> Result<(), Error> {
    let (m, k, n) = (70, 300, 136);
    let (x, w, b) =
        (place(&values(m * k, 1), [m, k])?, place(&values(k * n, 2), [k, n])?, place(&values(n, 3), [n])?);
    assert_eq!(linear_gelu(&x, &w, &b)?.to_vec()?, linear_gelu(&x, &w, &b)?.to_vec()?);
    Ok(())
}

#[test]
fn special_values_pass_through() -> Result<(), Error> {
    let x = place(&[1.0, f32::NAN, f32::INFINITY, 1.0, 0.0, 1.0], [3, 2])?;
    let got = matmul(&x, &place(&[1.0, 2.0, 3.0, 0.0], [2, 2])?)?.to_vec()?;
    assert!(got[0].is_nan() && got[1].is_nan());
    assert_eq!(got[2..4], [f32::INFINITY, f32::INFINITY]);
    assert_eq!(got[4..], [3.0, 0.0]);
    Ok(())
}

/// One product of a zero and a negative number is -0.0, their sum from zero on is 0.0: no order promises which.
#[test]
fn verification_takes_zeros_of_either_sign() -> Result<(), Error> {
    let (x, w) = (place(&[0.0], [1, 1])?, place(&[-1.0], [1, 1])?);
    assert_eq!(matmul(&x, &w)?.to_vec()?, [0.0]);
    let small = matmul::verify().sizes(&[("M", 1), ("K", 1), ("N", 1)]);
    (1..200).fold(small, |verify, seed| verify.seed(seed)).run()?;
    Ok(())
}

#[test]
fn kernels_verify_themselves() -> Result<(), Error> {
    matmul::verify().run()?;
    linear_gelu::verify().run()?;
    linear_gelu_half::verify().run()?;
    gated::verify().run()?;
    qkv::verify().run()?;
    batched::verify().run()?;
    batch_rows::verify().run()?;
    quantised::verify().run()?;
    integers::verify().run()?;
    doubles::verify().run()?;
    matvec::verify().run()?;
    both_vectors::verify().run()?;
    mlp::verify().run()?;
    tall::verify().run()?;
    tall_half::verify().run()?;
    quick::verify().run()?;
    Ok(())
}

#[test]
fn long_sums_of_few_results() -> Result<(), Error> {
    for (m, k, n) in [(1, 1024, 40), (4, 1100, 33), (20, 1100, 33), (33, 2060, 3), (9, 513, 9)] {
        let (x, w, b) = (values(m * k, 1), values(k * n, 2), values(n, 3));
        let got = tall(&place(&x, [m, k])?, &place(&w, [k, n])?, &place(&b, [n])?)?.to_vec()?;
        for (at, got) in got.into_iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let sum = dot(k, |q| x[i * k + q].into(), |q| w[q * n + j].into());
            let relu = |x: f64| (x + f64::from(b[j])).max(0.0);
            let sum = Sum { magnitude: sum.magnitude + f64::from(b[j].abs()), ..sum };
            check(&format!("{m}x{k}x{n} at {at}"), got.into(), sum, relu, 1.0);
        }

        let byte = |x: &f32| (x * 1e4) as i32 as i8;
        let (x, w): (Vec<i8>, Vec<i8>) = (x.iter().map(byte).collect(), w.iter().map(byte).collect());
        let got = tall_bytes(&place(&x, [m, k])?, &place(&w, [n, k])?)?.to_vec()?;
        for (at, got) in got.into_iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let want: i32 = (0..k).map(|q| i32::from(x[i * k + q]) * i32::from(w[j * k + q])).sum();
            assert_eq!(got, want, "{m}x{k}x{n} at {at}");
        }
    }
    for (c, m, k, n) in [(1, 4, 1032, 16), (2, 2, 1100, 9), (2, 12, 1040, 24), (3, 9, 520, 8)] {
        let half =
            |n: usize, seed: u32| -> Vec<f16> { values(n, seed).into_iter().map(f16::from_f32).collect() };
        let (x, w, r) = (half(c * m * k, 1), half(n * k, 2), half(c * m * n, 3));
        let (sum, plain) = tall_half(&place(&x, [c, m, k])?, &place(&w, [n, k])?, &place(&r, [c, m, n])?)?;
        let (sum, plain) = (sum.to_vec()?, plain.to_vec()?);
        for (at, got) in sum.into_iter().enumerate() {
            let (batch, i, j) = (at / (m * n), at / n % m, at % n);
            let x_at = |q: usize| x[(batch * m + i) * k + q].to_f64();
            let product = dot(k, x_at, |q| w[j * k + q].to_f64());
            let what = format!("{c}x{m}x{k}x{n} at {at}");
            check(&what, plain[(batch * n + j) * m + i].into(), product, |x| x, 1.0);
            let want = product.value + r[at].to_f64();
            let bound = ROUNDINGS * EPSILON * product.magnitude + want.abs() / 2048.0 + 1e-7;
            assert!((got.to_f64() - want).abs() <= bound, "{what}: {got} instead of {want}");
        }
    }
    Ok(())
}

#[test]
fn fast_products_are_those_of_tf32() -> Result<(), Error> {
    for (m, k, n) in [(20, 1100, 33), (70, 40, 72), (3, 300, 40)] {
        let (x, w) = (values(m * k, 1), values(k * n, 2));
        let got = quick(&place(&x, [m, k])?, &place(&w, [k, n])?)?.to_vec()?;
        for (at, got) in got.into_iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let sum = dot(k, |q| x[i * k + q].into(), |q| w[q * n + j].into());
            let want = 1.0 / (1.0 + (-sum.value).exp());
            // Each factor is off by one in 2^10 at most where bits are cut off; the sigmoid's slope is at most a fourth.
            let bound = (2.0 / 1024.0 + ROUNDINGS * EPSILON) * sum.magnitude / 4.0 + 128.0 * EPSILON;
            assert!((f64::from(got) - want).abs() <= bound, "{m}x{k}x{n} at {at}: {got} instead of {want}");
        }
    }
    Ok(())
}

#[test]
fn bytes_of_every_kind() -> Result<(), Error> {
    for (m, k, n) in [(1, 1, 1), (7, 33, 18), (70, 40, 33), (3, 300, 20), (5, 0, 4)] {
        let numbers = |count: usize, seed: u32| values(count, seed).into_iter().map(|x| (x * 1e4) as i32);
        let x: Vec<u8> = numbers(m * k, 1).map(|x| x as u8).collect();
        let w: Vec<u8> = numbers(n * k, 2).map(|x| x as u8).collect();
        let got = unsigned(&place(&x, [m, k])?, &place(&w, [n, k])?)?.to_vec()?;
        for (at, got) in got.into_iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let want: i32 = (0..k).map(|q| i32::from(x[i * k + q]) * i32::from(w[j * k + q])).sum();
            assert_eq!(got, want, "{m}x{k}x{n} at {at}");
        }

        let x = values(m * k, 3);
        let w: Vec<i8> = numbers(n * k, 4).map(|x| x as i8).collect();
        let got = rounded(&place(&x, [m, k])?, &place(&w, [k, n])?, 60.0)?.to_vec()?;
        for (at, got) in got.into_iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let byte = |q: usize| i32::from((x[i * k + q] * 60.0).round() as i8);
            let want: i32 = (0..k).map(|q| byte(q) * i32::from(w[q * n + j])).sum();
            assert_eq!(got, want, "{m}x{k}x{n} at {at}");
        }
    }
    for (l, r, c, n) in [(5, 3, 4, 7), (40, 3, 16, 20), (9, 1, 3, 1)] {
        let bytes = |count: usize, seed: u32| -> Vec<i8> {
            values(count, seed).into_iter().map(|x| (x * 1e4) as i32 as i8).collect()
        };
        let (x, w) = (bytes(l * c, 1), bytes(r * c * n, 2));
        let got = window_of_bytes(&place(&x, [l, c])?, &place(&w, [r, c, n])?)?;
        let places = l + 2 - r + 1;
        assert_eq!(got.shape(), [places, n]);
        for (at, got) in got.to_vec()?.into_iter().enumerate() {
            let (p, j) = (at / n, at % n);
            let term = |q: usize| match (p + q / c).checked_sub(1) {
                Some(row) if row < l => i32::from(x[row * c + q % c]) * i32::from(w[q * n + j]),
                _ => 0,
            };
            let want: i32 = (0..r * c).map(term).sum();
            assert_eq!(got, want, "{l}x{r}x{c}x{n} at {at}");
        }
    }
    Ok(())
}
