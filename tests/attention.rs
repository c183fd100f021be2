//! Attention, which nothing knows by name: products of weights that are normalised along the axis they contract. Variants as
//! users write them, with their launches, plans and numbers; spellings that mean the same, and programs that only look
//! alike.

#[path = "support/devices.rs"]
mod devices;
#[path = "support/golden.rs"]
mod golden;
#[path = "support/numbers.rs"]
mod numbers;
#[path = "support/threads.rs"]
mod threads;

use devices::{device, on_every_device};
use fuse::{Device, Error, Tensor, bf16, f16, fuse};
use numbers::values;
use threads::with_threads;

fuse! {
    /// Heads of their own queries, keys and values; values of their own width.
    #[kernel(launches = 1, assume(B = 2, H = 8, S = 1024, T = 1024, D = 64, E = 64))]
    pub fn multi_head<B, H, S, T, D, E>(
        q: Tensor<f32, B, H, S, D>, k: Tensor<f32, B, H, T, D>, v: Tensor<f32, B, H, T, E>, scale: f32,
    ) -> Tensor<f32, B, H, S, E> {
        (q.dot(k, D) * scale).softmax(T).dot(v, T)
    }

    /// Each query sees the keys up to its own position; heads are merged in the result.
    #[kernel(launches = 1, assume(B = 2, H = 8, S = 1024, T = 1024, D = 64))]
    pub fn causal<B, H, S, T, D, const F: usize = { H * D }>(
        q: Tensor<f32, B, H, S, D>, k: Tensor<f32, B, H, T, D>, v: Tensor<f32, B, H, T, D>, scale: f32,
    ) -> Tensor<f32, B, S, F> {
        let score = q.dot(k, D) * scale;
        let score = select(index(S) >= index(T), score, f32::NEG_INFINITY);
        score.softmax(T).dot(v, T).merge((H, D), F)
    }

    /// The last query sees all keys: queries that follow a cache.
    #[kernel(launches = 1, assume(H = 8, S = 128, T = 1024, D = 64))]
    pub fn causal_to_the_end<H, S, T, D>(
        q: Tensor<f32, H, S, D>, k: Tensor<f32, H, T, D>, v: Tensor<f32, H, T, D>, scale: f32,
    ) -> Tensor<f32, H, S, D> {
        let seen = index(S) + extent(T) - extent(S) >= index(T);
        select(seen, q.dot(k, D) * scale, f32::NEG_INFINITY).softmax(T).dot(v, T)
    }

    /// New queries and a long cache, with the logarithm of the sum of exponentials. Without a contract a GPU may put ranges of
    /// keys together in a second launch.
    #[kernel(assume(H = 8, S = 1, T = 8192, D = 64))]
    pub fn decode<H, S, T, D>(
        q: Tensor<f32, H, S, D>, k: Tensor<f32, H, T, D>, v: Tensor<f32, H, T, D>, scale: f32,
    ) -> (Tensor<f32, H, S, D>, Tensor<f32, H, S>) {
        let seen = index(S) + extent(T) - extent(S) >= index(T);
        let score = select(seen, q.dot(k, D) * scale, f32::NEG_INFINITY);
        (score.softmax(T).dot(v, T), score.logsumexp(T))
    }

    /// Groups of queries share keys and values.
    #[kernel(launches = 1, assume(G = 4, R = 4, S = 512, T = 512, D = 64))]
    pub fn grouped<G, R, S, T, D, const H: usize = { G * R }>(
        q: Tensor<f32, H, S, D>, k: Tensor<f32, G, T, D>, v: Tensor<f32, G, T, D>, scale: f32,
    ) -> Tensor<f32, H, S, D> {
        (q.split(H, (G, R)).dot(k, D) * scale).softmax(T).dot(v, T).merge((G, R), H)
    }

    /// All queries share keys and values.
    #[kernel(launches = 1, assume(B = 2, H = 8, S = 512, T = 512, D = 64))]
    pub fn multi_query<B, H, S, T, D>(
        q: Tensor<f32, B, H, S, D>, k: Tensor<f32, B, T, D>, v: Tensor<f32, B, T, D>, scale: f32,
    ) -> Tensor<f32, B, H, S, D> {
        (q.dot(k, D) * scale).softmax(T).dot(v, T)
    }

    /// Keys near a query only, before and after.
    #[kernel(launches = 1, assume(H = 8, S = 1024, T = 1024, D = 64))]
    pub fn windowed<H, S, T, D>(
        q: Tensor<f32, H, S, D>, k: Tensor<f32, H, T, D>, v: Tensor<f32, H, T, D>, scale: f32, width: i64,
    ) -> Tensor<f32, H, S, D> {
        let near = (index(S) - index(T) <= width) & (index(T) - index(S) <= width);
        select(near, q.dot(k, D) * scale, f32::NEG_INFINITY).softmax(T).dot(v, T)
    }

    /// Blocks of positions see the blocks of the same parity.
    #[kernel(launches = 1, assume(H = 8, S = 1024, T = 1024, D = 64))]
    pub fn block_sparse<H, S, T, D>(
        q: Tensor<f32, H, S, D>, k: Tensor<f32, H, T, D>, v: Tensor<f32, H, T, D>, scale: f32, block: i64,
    ) -> Tensor<f32, H, S, D> {
        let seen = (index(S) / block) % 2 == (index(T) / block) % 2;
        select(seen, q.dot(k, D) * scale, f32::NEG_INFINITY).softmax(T).dot(v, T)
    }

    /// A bias for each pair of positions, a soft cap, and the logarithm of the sum of exponentials as a second result.
    #[kernel(launches = 1, assume(H = 8, S = 512, T = 512, D = 64))]
    pub fn capped_with_bias<H, S, T, D>(
        q: Tensor<f32, H, S, D>, k: Tensor<f32, H, T, D>, v: Tensor<f32, H, T, D>, bias: Tensor<f32, H, S, T>,
        scale: f32, cap: f32,
    ) -> (Tensor<f32, H, S, D>, Tensor<f32, H, S>) {
        let score = cap * (q.dot(k, D) * scale / cap).tanh() + bias;
        (score.softmax(T).dot(v, T), score.logsumexp(T))
    }

    /// Each element of the batch has its own number of keys, and each head its slope.
    #[kernel(launches = 1, assume(B = 4, H = 8, S = 512, T = 512, D = 64))]
    pub fn of_lengths<B, H, S, T, D>(
        q: Tensor<f32, B, H, S, D>, k: Tensor<f32, B, H, T, D>, v: Tensor<f32, B, H, T, D>, keys: Tensor<i64, B>,
        slope: Tensor<f32, H>, scale: f32,
    ) -> Tensor<f32, B, H, S, D> {
        let score = q.dot(k, D) * scale - slope * (index(S) - index(T)).abs() as f32;
        select(index(T) < keys, score, f32::NEG_INFINITY).softmax(T).dot(v, T)
    }

    /// Half precision in and out; scores and weights are f32.
    #[kernel(launches = 1, T0 = [f16, bf16], assume(H = 8, S = 512, T = 512, D = 64))]
    pub fn half<T0: Float, H, S, T, D>(
        q: Tensor<T0, H, S, D>, k: Tensor<T0, H, T, D>, v: Tensor<T0, H, T, D>, scale: f32,
    ) -> Tensor<T0, H, S, D> {
        (q.dot(k, D) * scale).softmax(T).dot(v, T) as T0
    }

    /// Weights are dropped after they were normalised.
    #[kernel(launches = 1, assume(H = 8, S = 512, T = 512, D = 64))]
    pub fn dropped<H, S, T, D>(
        q: Tensor<f32, H, S, D>, k: Tensor<f32, H, T, D>, v: Tensor<f32, H, T, D>, scale: f32, p: f32, seed: u64,
    ) -> Tensor<f32, H, S, D> {
        (q.dot(k, D) * scale).softmax(T).dropout(p, seed).dot(v, T)
    }

    /// The weights that [`dropped`] keeps, as a matrix.
    #[kernel]
    pub fn dropped_ones<H, S, T>(ones: Tensor<f32, H, S, T>, p: f32, seed: u64) -> Tensor<f32, H, S, T> {
        ones.dropout(p, seed)
    }

    /// Positions are rotated on the way in, a residual is added on the way out.
    #[kernel(launches = 1, assume(H = 8, S = 512, T = 512, D = 64, X = 32))]
    pub fn rotated<H, S, T, D, X>(
        q: Tensor<f32, H, S, D>, k: Tensor<f32, H, T, D>, v: Tensor<f32, H, T, D>, cos: Tensor<f32, S, X>,
        sin: Tensor<f32, S, X>, cos_of_keys: Tensor<f32, T, X>, sin_of_keys: Tensor<f32, T, X>,
        r: Tensor<f32, S, H, D>, scale: f32,
    ) -> Tensor<f32, S, H, D> {
        let q = rope::<D, X>(q, cos, sin);
        let k = rope::<D, X>(k, cos_of_keys, sin_of_keys);
        (q.dot(k, D) * scale).softmax(T).dot(v, T) + r
    }

    /// A mask that divides by an element: by zero is a fault, whether or not the key is seen.
    #[kernel(launches = 1)]
    pub fn strided<H, S, T, D>(
        q: Tensor<f32, H, S, D>, k: Tensor<f32, H, T, D>, v: Tensor<f32, H, T, D>, step: Tensor<i64, T>,
    ) -> Tensor<f32, H, S, D> {
        let seen = (index(S) >= index(T)) & (index(T) % step == 0);
        select(seen, q.dot(k, D), f32::NEG_INFINITY).softmax(T).dot(v, T)
    }

    /// Given weights are normalised and used up, scores or not.
    #[kernel(launches = 1, assume(B = 16, S = 512, T = 512, E = 64))]
    pub fn pooled<B, S, T, E>(x: Tensor<f32, B, S, T>, v: Tensor<f32, B, T, E>) -> Tensor<f32, B, S, E> {
        x.softmax(T).dot(v, T)
    }
}

golden::plans! {
    "attention",
    multi_head: 1,
    causal: 1,
    causal_to_the_end: 1,
    decode: 1,
    grouped: 1,
    multi_query: 1,
    windowed: 1,
    block_sparse: 1,
    capped_with_bias: 1,
    of_lengths: 1,
    dropped: 1,
    rotated: 1,
    pooled: 1,
}

fn tensor<const R: usize>(data: &[f32], shape: [usize; R]) -> Result<Tensor<f32, R>, Error> {
    Tensor::from_vec(data.to_vec(), shape, &device())
}

/// One head: queries by keys by widths.
#[derive(Clone, Copy)]
struct Head<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    d: usize,
    e: usize,
}

/// What a row of attention gives in f64, with how far f32 may be from it: scores are off by c·ε·Σ|q·k|, which moves a weight by
/// as much relatively, and products of weights and values by c·ε·Σ|w·v|.
struct Row {
    out: Vec<f64>,
    bound: Vec<f64>,
    log_sum: f64,
}

impl<'a> Head<'a> {
    /// The head `x` of tensors of heads, by the extents of queries, keys, and their and the values' width.
    fn of([q, k, v]: [&'a [f32]; 3], x: usize, [s, t, d, e]: [usize; 4]) -> Head<'a> {
        Head { q: &q[x * s * d..][..s * d], k: &k[x * t * d..][..t * d], v: &v[x * t * e..][..t * e], d, e }
    }

    /// The row `i`, where `score` makes the score of the key `j` of the product.
    fn row(
        &self,
        i: usize,
        scale: f64,
        score: impl Fn(usize, f64) -> f64,
        keep: impl Fn(usize) -> f64,
    ) -> Row {
        let keys = self.v.len() / self.e;
        let terms = |j: usize| {
            (0..self.d).map(move |c| f64::from(self.q[i * self.d + c]) * f64::from(self.k[j * self.d + c]))
        };
        let scores: Vec<f64> = (0..keys).map(|j| score(j, terms(j).sum::<f64>() * scale)).collect();
        let moved = (0..keys).map(|j| terms(j).map(f64::abs).sum::<f64>() * scale.abs()).fold(0.0, f64::max);
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shift = if max == f64::NEG_INFINITY { 0.0 } else { max };
        let sum: f64 = scores.iter().map(|x| (x - shift).exp()).sum();
        let weight = |j: usize| if sum == 0.0 { 0.0 } else { (scores[j] - shift).exp() / sum * keep(j) };
        let epsilon = f64::from(f32::EPSILON);
        let column = |c: usize, f: &dyn Fn(f64) -> f64| -> f64 {
            (0..keys).map(|j| weight(j) * f(f64::from(self.v[j * self.e + c]))).sum()
        };
        let relative = epsilon * (16.0 * moved + 8.0 * shift.abs() + 32.0);
        Row {
            out: (0..self.e).map(|c| column(c, &|v| v)).collect(),
            bound: (0..self.e).map(|c| relative * column(c, &f64::abs) + 1e-30).collect(),
            log_sum: shift + sum.ln(),
        }
    }

    #[track_caller]
    fn check(&self, what: &str, got: &[f32], scale: f64, score: impl Fn(usize, usize, f64) -> f64) {
        for (i, got) in got.chunks(self.e).enumerate() {
            self.row(i, scale, |j, s| score(i, j, s), |_| 1.0).check(&format!("{what}, row {i}"), got);
        }
    }
}

impl Row {
    #[track_caller]
    fn check(&self, what: &str, got: &[f32]) {
        for (c, ((got, want), bound)) in got.iter().zip(&self.out).zip(&self.bound).enumerate() {
            let off = (f64::from(*got) - want).abs();
            assert!(off <= *bound, "{what}, column {c}: {got} is off {want} by {off:e}, more than {bound:e}");
        }
    }
}

const UNSEEN: f64 = f64::NEG_INFINITY;

/// Sizes below, at and above those of tiles, none a multiple of much.
const SIZES: [(usize, usize, usize); 6] =
    [(1, 1, 1), (5, 3, 4), (37, 53, 16), (70, 259, 33), (257, 256, 8), (300, 515, 64)];

/// Those of the device: what is simulated or emulated takes its time.
fn sizes() -> &'static [(usize, usize, usize)] {
    if device() == Device::cpu() { &SIZES } else { &SIZES[..4] }
}

#[test]
fn heads_are_right() -> Result<(), Error> {
    for &(s, t, d) in sizes() {
        let (b, h, e) = (2, 3, d.div_ceil(2));
        let (q, k, v) = (values(b * h * s * d, 1), values(b * h * t * d, 2), values(b * h * t * e, 3));
        let scale = 1.0 / (d as f32).sqrt();
        let got = multi_head(
            &tensor(&q, [b, h, s, d])?,
            &tensor(&k, [b, h, t, d])?,
            &tensor(&v, [b, h, t, e])?,
            scale,
        )?
        .to_vec()?;
        for x in 0..b * h {
            let head = Head::of([&q, &k, &v], x, [s, t, d, e]);
            head.check(
                &format!("{s} x {t} x {d}, head {x}"),
                &got[x * s * e..][..s * e],
                scale.into(),
                |_, _, x| x,
            );
        }
    }
    Ok(())
}

#[test]
fn causal_masks_are_right() -> Result<(), Error> {
    for &(s, t, d) in sizes() {
        let (b, h) = (1, 2);
        let (q, k, v) = (values(b * h * s * d, 4), values(b * h * t * d, 5), values(b * h * t * d, 6));
        let (qs, ks, vs) = ([b, h, s, d], [b, h, t, d], [b, h, t, d]);
        let got = causal(&tensor(&q, qs)?, &tensor(&k, ks)?, &tensor(&v, vs)?, 0.25)?.to_vec()?;
        let of = |x: usize| Head::of([&q, &k, &v], x, [s, t, d, d]);
        for x in 0..h {
            for i in 0..s {
                let row = of(x).row(i, 0.25, |j, z| if i >= j { z } else { UNSEEN }, |_| 1.0);
                row.check(&format!("causal {s} x {t}, head {x}, row {i}"), &got[(i * h + x) * d..][..d]);
            }
        }
        let (qs, ks) = ([h, s, d], [h, t, d]);
        let got = causal_to_the_end(&tensor(&q, qs)?, &tensor(&k, ks)?, &tensor(&v, ks)?, 0.25)?.to_vec()?;
        for x in 0..h {
            let seen = |i: usize, j: usize, z: f64| if i + t >= j + s { z } else { UNSEEN };
            of(x).check(&format!("to the end {s} x {t}"), &got[x * s * d..][..s * d], 0.25, seen);
        }
        for width in [0, 2, 300] {
            let got =
                windowed(&tensor(&q, qs)?, &tensor(&k, ks)?, &tensor(&v, ks)?, 0.25, width)?.to_vec()?;
            for x in 0..h {
                let near =
                    |i: usize, j: usize, z: f64| if i.abs_diff(j) as i64 <= width { z } else { UNSEEN };
                of(x).check(&format!("window {width} of {s} x {t}"), &got[x * s * d..][..s * d], 0.25, near);
            }
        }
    }
    Ok(())
}

#[test]
fn blocks_of_positions_are_right() -> Result<(), Error> {
    for &(s, t, d) in sizes() {
        let (q, k, v) = (values(s * d, 1), values(t * d, 2), values(t * d, 3));
        let (qs, ks) = ([1, s, d], [1, t, d]);
        for block in [3, 64] {
            let got =
                block_sparse(&tensor(&q, qs)?, &tensor(&k, ks)?, &tensor(&v, ks)?, 0.25, block)?.to_vec()?;
            let n = block as usize;
            let seen = |i: usize, j: usize, z: f64| if i / n % 2 == j / n % 2 { z } else { UNSEEN };
            Head::of([&q, &k, &v], 0, [s, t, d, d]).check(&format!("{s} x {t} by {n}"), &got, 0.25, seen);
        }
    }
    Ok(())
}

#[test]
fn shared_keys_are_right() -> Result<(), Error> {
    let (g, r, s, t, d) = (2, 3, 67, 300, 16);
    let (q, k, v) = (values(g * r * s * d, 1), values(g * t * d, 2), values(g * t * d, 3));
    let (qs, ks) = ([g * r, s, d], [g, t, d]);
    let got = grouped(&tensor(&q, qs)?, &tensor(&k, ks)?, &tensor(&v, ks)?, 0.5)?.to_vec()?;
    let also = multi_query(&tensor(&q, [g, r, s, d])?, &tensor(&k, ks)?, &tensor(&v, ks)?, 0.5)?.to_vec()?;
    for x in 0..g * r {
        let (own, y) = (&q[x * s * d..][..s * d], x / r);
        let head = Head { q: own, k: &k[y * t * d..][..t * d], v: &v[y * t * d..][..t * d], d, e: d };
        head.check(&format!("group {y}"), &got[x * s * d..][..s * d], 0.5, |_, _, z| z);
        head.check(&format!("query {y}"), &also[x * s * d..][..s * d], 0.5, |_, _, z| z);
    }
    Ok(())
}

#[test]
fn biases_caps_and_log_sums_are_right() -> Result<(), Error> {
    for &(s, t, d) in sizes() {
        let h = 2;
        let (q, k, v) = (values(h * s * d, 1), values(h * t * d, 2), values(h * t * d, 3));
        let bias = values(h * s * t, 4);
        let (qs, ks) = ([h, s, d], [h, t, d]);
        let (got, log_sums) = capped_with_bias(
            &tensor(&q, qs)?,
            &tensor(&k, ks)?,
            &tensor(&v, ks)?,
            &tensor(&bias, [h, s, t])?,
            0.5,
            3.0,
        )?;
        let (got, log_sums) = (got.to_vec()?, log_sums.to_vec()?);
        for x in 0..h {
            let head = Head::of([&q, &k, &v], x, [s, t, d, d]);
            for i in 0..s {
                let score = |j: usize, z: f64| 3.0 * (z / 3.0).tanh() + f64::from(bias[(x * s + i) * t + j]);
                let row = head.row(i, 0.5, score, |_| 1.0);
                row.check(&format!("{s} x {t}, row {i}"), &got[(x * s + i) * d..][..d]);
                let off = (f64::from(log_sums[x * s + i]) - row.log_sum).abs();
                assert!(off < 1e-5 * (1.0 + row.log_sum.abs()), "log sum of row {i} is off by {off:e}");
            }
        }
    }
    Ok(())
}

#[test]
fn lengths_and_slopes_are_right() -> Result<(), Error> {
    let (b, h, s, t, d) = (4, 2, 40, 270, 8);
    let (q, k, v) = (values(b * h * s * d, 1), values(b * h * t * d, 2), values(b * h * t * d, 3));
    let (lengths, slopes) = ([0, 1, 260, 270], [0.125f32, 0.0625]);
    let (qs, ks) = ([b, h, s, d], [b, h, t, d]);
    let got = of_lengths(
        &tensor(&q, qs)?,
        &tensor(&k, ks)?,
        &tensor(&v, ks)?,
        &Tensor::from_vec(lengths.to_vec(), [b], &device())?,
        &tensor(&slopes, [h])?,
        0.5,
    )?
    .to_vec()?;
    for x in 0..b * h {
        let head = Head::of([&q, &k, &v], x, [s, t, d, d]);
        let score = |i: usize, j: usize, z: f64| match (j as i64) < lengths[x / h] {
            true => z - f64::from(slopes[x % h]) * i.abs_diff(j) as f64,
            false => UNSEEN,
        };
        head.check(&format!("element {}", x / h), &got[x * s * d..][..s * d], 0.5, score);
    }
    assert!(got[..h * s * d].iter().all(|x| *x == 0.0), "no keys give zeros");
    Ok(())
}

#[test]
fn halves_are_right() -> Result<(), Error> {
    let (h, s, t, d) = (2, 70, 300, 24);
    let (q, k, v) = (values(h * s * d, 1), values(h * t * d, 2), values(h * t * d, 3));
    macro_rules! check {
        ($t:ty, $epsilon:expr) => {{
            let narrow = |x: &[f32]| x.iter().map(|x| <$t>::from_f32(*x)).collect::<Vec<$t>>();
            let wide = |x: &[f32]| x.iter().map(|x| <$t>::from_f32(*x).to_f32()).collect::<Vec<f32>>();
            let put = |x: &[f32], n| Tensor::from_vec(narrow(x), [h, n, d], &device());
            let got = half::<$t>(&put(&q, s)?, &put(&k, t)?, &put(&v, t)?, 0.25)?.to_vec()?;
            let (q, k, v) = (wide(&q), wide(&k), wide(&v));
            for x in 0..h {
                let head = Head::of([&q, &k, &v], x, [s, t, d, d]);
                for i in 0..s {
                    let mut row = head.row(i, 0.25, |_, z| z, |_| 1.0);
                    row.bound.iter_mut().zip(&row.out).for_each(|(b, x)| *b += x.abs() * $epsilon);
                    let got: Vec<f32> = got[(x * s + i) * d..][..d].iter().map(|x| x.to_f32()).collect();
                    row.check(&format!("{} row {i}", stringify!($t)), &got);
                }
            }
        }};
    }
    check!(f16, 0.5f64.powi(11));
    check!(bf16, 0.5f64.powi(8));
    Ok(())
}

#[test]
fn dropped_weights_are_replayed() -> Result<(), Error> {
    let (h, s, t, d) = (2, 37, 300, 8);
    let (q, k, v) = (values(h * s * d, 1), values(h * t * d, 2), values(h * t * d, 3));
    let (qs, ks) = ([h, s, d], [h, t, d]);
    for p in [0.0, 0.25, 1.0] {
        let got = dropped(&tensor(&q, qs)?, &tensor(&k, ks)?, &tensor(&v, ks)?, 0.5, p, 7)?.to_vec()?;
        let kept = dropped_ones(&tensor(&vec![1.0; h * s * t], [h, s, t])?, p, 7)?.to_vec()?;
        for x in 0..h {
            let head = Head::of([&q, &k, &v], x, [s, t, d, d]);
            for i in 0..s {
                let row = head.row(i, 0.5, |_, z| z, |j| kept[(x * s + i) * t + j].into());
                row.check(&format!("p = {p}, row {i}"), &got[(x * s + i) * d..][..d]);
            }
        }
    }
    Ok(())
}

#[test]
fn prologues_and_epilogues_are_right() -> Result<(), Error> {
    let (h, s, t, d) = (2, 21, 270, 8);
    let n = d / 2;
    let (q, k, v, r) =
        (values(h * s * d, 1), values(h * t * d, 2), values(h * t * d, 3), values(s * h * d, 4));
    let [cos, sin, cos_of_keys, sin_of_keys] =
        [(s, 5), (s, 6), (t, 7), (t, 8)].map(|(l, seed)| values(l * n, seed));
    let got = rotated(
        &tensor(&q, [h, s, d])?,
        &tensor(&k, [h, t, d])?,
        &tensor(&v, [h, t, d])?,
        &tensor(&cos, [s, n])?,
        &tensor(&sin, [s, n])?,
        &tensor(&cos_of_keys, [t, n])?,
        &tensor(&sin_of_keys, [t, n])?,
        &tensor(&r, [s, h, d])?,
        0.25,
    )?
    .to_vec()?;
    let turn = |x: &[f32], cos: &[f32], sin: &[f32]| -> Vec<f32> {
        let at = |k: usize| {
            let (i, c) = (k / d % (cos.len() / n), k % d);
            let other = x[k - c + (c + n) % d];
            let turned = if c < n { -other } else { other };
            x[k] * cos[i * n + c % n] + turned * sin[i * n + c % n]
        };
        (0..x.len()).map(at).collect()
    };
    let (q, k) = (turn(&q, &cos, &sin), turn(&k, &cos_of_keys, &sin_of_keys));
    for x in 0..h {
        let head = Head::of([&q, &k, &v], x, [s, t, d, d]);
        for i in 0..s {
            let mut row = head.row(i, 0.25, |_, z| z, |_| 1.0);
            for c in 0..d {
                let more = f64::from(r[(i * h + x) * d + c]);
                row.out[c] += more;
                row.bound[c] = 4.0 * row.bound[c] + f64::from(f32::EPSILON) * more.abs();
            }
            row.check(&format!("head {x}, row {i}"), &got[(i * h + x) * d..][..d]);
        }
    }
    Ok(())
}

#[test]
fn given_weights_are_normalised() -> Result<(), Error> {
    for &(s, t, e) in sizes() {
        let (x, v) = (values(s * t, 1), values(t * e, 2));
        let got = pooled(&tensor(&x, [1, s, t])?, &tensor(&v, [1, t, e])?)?.to_vec()?;
        let nothing = vec![0.0; s.max(t)];
        let head = Head { q: &nothing, k: &nothing, v: &v, d: 1, e };
        head.check("pooled", &got, 1.0, |i, j, _| x[i * t + j].into());
    }
    Ok(())
}

/// Rule 12 of the language: rows without keys give zeros, a NaN its row, no queries nothing.
#[test]
fn edges_are_as_the_language_says() -> Result<(), Error> {
    let (h, s, t, d) = (1, 9, 7, 4);
    let (q, k, v) = (values(h * s * d, 1), values(h * t * d, 2), values(h * t * d, 3));
    let (qs, ks) = ([h, s, d], [h, t, d]);
    // The first two queries see no key.
    let got = causal_to_the_end(&tensor(&q, qs)?, &tensor(&k, ks)?, &tensor(&v, ks)?, 1.0)?.to_vec()?;
    assert!(got[..2 * d].iter().all(|x| *x == 0.0) && got[2 * d..].iter().all(|x| *x != 0.0), "{got:?}");

    let mut with_nan = q.clone();
    with_nan[3 * d + 1] = f32::NAN;
    let got = windowed(&tensor(&with_nan, qs)?, &tensor(&k, ks)?, &tensor(&v, ks)?, 1.0, 100)?.to_vec()?;
    for (i, row) in got.chunks(d).enumerate() {
        assert!(row.iter().all(|x| x.is_nan() == (i == 3)), "row {i}: {row:?}");
    }
    // A key that is not seen does not matter, whatever it is; a value that is not finite makes its column NaN, since 0 times
    // it is.
    let (mut k, mut v) = (k, v);
    k[6 * d] = f32::NAN;
    let got = windowed(&tensor(&q, qs)?, &tensor(&k, ks)?, &tensor(&v, ks)?, 1.0, 1)?.to_vec()?;
    for (i, row) in got.chunks(d).enumerate() {
        let sees = (5..=7).contains(&i);
        assert!(row.iter().all(|x| x.is_nan() == sees), "row {i}: {row:?}");
    }
    k[6 * d] = 0.0;
    v[6 * d + 2] = f32::INFINITY;
    let got = windowed(&tensor(&q, qs)?, &tensor(&k, ks)?, &tensor(&v, ks)?, 1.0, 1)?.to_vec()?;
    for (i, row) in got.chunks(d).enumerate() {
        assert!(row[0].is_finite() && !row[2].is_finite(), "row {i}: {row:?}");
    }

    let none = windowed(&tensor(&[], [h, 0, d])?, &tensor(&k, ks)?, &tensor(&v, ks)?, 1.0, 1)?;
    assert_eq!(none.shape(), [h, 0, d]);
    let empty = tensor(&[], [h, 0, d])?;
    let got = windowed(&tensor(&q, qs)?, &empty, &empty, 1.0, 1)?.to_vec()?;
    assert_eq!(got, vec![0.0; s * d], "no keys");
    let (out, log_sums) = capped_with_bias(
        &tensor(&[], [h, s, 0])?,
        &tensor(&[], [h, t, 0])?,
        &tensor(&[], [h, t, 0])?,
        &tensor(&vec![0.0; s * t], [h, s, t])?,
        1.0,
        1.0,
    )?;
    assert_eq!((out.shape(), log_sums.shape()), ([h, s, 0], [h, s]));
    let want = (t as f32).ln();
    assert!(
        log_sums.to_vec()?.iter().all(|x| (x - want).abs() < 1e-6),
        "no width: the sum is over equal scores"
    );
    Ok(())
}

#[test]
fn faults_of_keys_that_are_not_seen_are_reported() -> Result<(), Error> {
    let (h, s, d) = (1, 600, 2);
    let shape = [h, s, d];
    let [q, k, v] = [1, 2, 3].map(|seed| tensor(&values(h * s * d, seed), shape));
    let (q, k, v) = (q?, k?, v?);
    let mut steps = vec![2i64; s];
    let run =
        |steps: &[i64]| strided(&q, &k, &v, &Tensor::from_vec(steps.to_vec(), [s], &device())?)?.to_vec();
    assert!(run(&steps)?.iter().all(|x| x.is_finite()));
    steps[s - 1] = 0;
    let error = run(&steps).expect_err("the last key divides by zero, and the last query alone sees it");
    assert!(error.to_string().contains("zero"), "{error}");
    Ok(())
}

/// Tiles that a mask excludes are passed over only where the values are finite: the result is that of all tiles.
#[test]
fn excluded_tiles_change_nothing() -> Result<(), Error> {
    let (s, d) = (700, 8);
    let (q, k, mut v) = (values(s * d, 1), values(s * d, 2), values(s * d, 3));
    let shape = [1, s, d];
    v[(s - 1) * d + 3] = f32::NAN;
    let got = windowed(&tensor(&q, shape)?, &tensor(&k, shape)?, &tensor(&v, shape)?, 1.0, 20)?.to_vec()?;
    for (at, x) in got.iter().enumerate() {
        assert_eq!(x.is_nan(), at % d == 3, "at {at}: {x}");
    }
    Ok(())
}

/// Weights are normalised when all of a row is known; what that would lose of products is not lost.
#[test]
fn extreme_values_are_kept() -> Result<(), Error> {
    let (h, s, t, d) = (1, 3, 600, 2);
    let (q, k) = (values(h * s * d, 1), values(h * t * d, 2));
    for size in [3e38, 1e-38] {
        let v = vec![size; h * t * d];
        let got =
            windowed(&tensor(&q, [h, s, d])?, &tensor(&k, [h, t, d])?, &tensor(&v, [h, t, d])?, 1.0, 1000)?
                .to_vec()?;
        for x in got {
            assert!((x / size - 1.0).abs() < 1e-5, "{x}, not {size}");
        }
    }
    Ok(())
}

#[test]
fn results_do_not_depend_on_threads() -> Result<(), Error> {
    let (b, h, s, d) = (2, 3, 700, 16);
    let tensors = [1, 2, 3].map(|seed| tensor(&values(b * h * s * d, seed), [b, h, s, d]));
    let [q, k, v] = tensors;
    let (q, k, v) = (q?, k?, v?);
    let run = || causal(&q, &k, &v, 0.25)?.to_vec();
    let bits = |x: Vec<f32>| x.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    let one = bits(with_threads(1, run)?);
    for threads in [2, 5] {
        assert!(one == bits(with_threads(threads, run)?), "{threads} threads give other bits");
    }
    Ok(())
}

/// Few queries and many keys: ranges of keys run side by side, on the CPU and, where no contract forbids it, on GPUs.
#[test]
fn few_queries_of_many_keys_are_right() -> Result<(), Error> {
    let lengths: &[usize] = if device() == Device::cpu() { &[1023, 1024, 1025, 5000] } else { &[700, 1100] };
    for &t in lengths {
        // One block is few on every device.
        let (h, s, d) = (if device() == Device::cpu() { 2 } else { 1 }, 3, 16);
        let (q, k, v) = (values(h * s * d, 1), values(h * t * d, 2), values(h * t * d, 3));
        let (got, log_sums) =
            decode(&tensor(&q, [h, s, d])?, &tensor(&k, [h, t, d])?, &tensor(&v, [h, t, d])?, 0.5)?;
        let (got, log_sums) = (got.to_vec()?, log_sums.to_vec()?);
        for x in 0..h {
            let head = Head::of([&q, &k, &v], x, [s, t, d, d]);
            for i in 0..s {
                let row = head.row(i, 0.5, |j, z| if i + t >= j + s { z } else { UNSEEN }, |_| 1.0);
                row.check(&format!("{t} keys, row {i}"), &got[(x * s + i) * d..][..d]);
                let off = (f64::from(log_sums[x * s + i]) - row.log_sum).abs();
                assert!(off < 1e-5 * (1.0 + row.log_sum.abs()), "log sum of row {i} is off by {off:e}");
            }
        }
    }
    Ok(())
}

/// The ranges follow from the number of keys alone: threads change no bit.
#[test]
fn ranges_of_keys_do_not_depend_on_threads() -> Result<(), Error> {
    let (s, t, d) = (3, 5000, 16);
    let tensors = [(s, 1), (t, 2), (t, 3)].map(|(n, seed)| tensor(&values(n * d, seed), [1, n, d]));
    let [q, k, v] = tensors;
    let (q, k, v) = (q?, k?, v?);
    let bits = |x: Vec<f32>| x.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    let run = || {
        let (out, log_sums) = decode(&q, &k, &v, 0.25)?;
        Ok::<_, Error>((bits(out.to_vec()?), bits(log_sums.to_vec()?)))
    };
    let one = with_threads(1, run)?;
    for threads in [2, 5, 16] {
        assert!(one == with_threads(threads, run)?, "{threads} threads give other bits");
    }
    Ok(())
}

#[test]
fn extreme_values_of_ranges_are_kept() -> Result<(), Error> {
    let (h, s, d) = (1, 3, 2);
    let t = if device() == Device::cpu() { 2500 } else { 700 };
    let (q, k) = (values(h * s * d, 1), values(h * t * d, 2));
    for size in [3e38, 1e-38] {
        let v = tensor(&vec![size; h * t * d], [h, t, d])?;
        let got = decode(&tensor(&q, [h, s, d])?, &tensor(&k, [h, t, d])?, &v, 1.0)?.0.to_vec()?;
        for x in got {
            assert!((x / size - 1.0).abs() < 1e-5, "{x}, not {size}");
        }
    }
    // A value that is infinite makes its column so, whichever range it is in; a NaN score its row.
    let mut v = vec![1.0; h * t * d];
    v[(t - 4) * d + 1] = f32::INFINITY;
    let mut with_nan = q.clone();
    with_nan[d] = f32::NAN;
    let got = decode(&tensor(&with_nan, [h, s, d])?, &tensor(&k, [h, t, d])?, &tensor(&v, [h, t, d])?, 1.0)?
        .0
        .to_vec()?;
    assert!(got[0].is_finite() && got[1].is_infinite(), "{got:?}");
    assert!(got[2].is_nan() && got[3].is_nan() && got[4].is_finite(), "{got:?}");
    Ok(())
}

/// `verify()` of kernels, each a test of its own, so that they run side by side.
macro_rules! every_backend_agrees {
    ($($kernel:ident $(<$dtype:ty>)?)*) => {
        mod every_backend_agrees {
            use fuse::Error;

            $(#[test]
            fn $kernel() -> Result<(), Error> {
                super::$kernel::verify$(::<$dtype>)?().run().map(|_| ())
            })*
        }
    };
}

every_backend_agrees! {
    decode multi_head causal causal_to_the_end grouped multi_query windowed block_sparse capped_with_bias of_lengths
    half<fuse::f16> dropped rotated pooled
}

on_every_device! {
    few_queries_of_many_keys_are_right,
    extreme_values_of_ranges_are_kept,
    blocks_of_positions_are_right,
    halves_are_right,
    heads_are_right,
    causal_masks_are_right,
    biases_caps_and_log_sums_are_right,
    given_weights_are_normalised,
    excluded_tiles_change_nothing,
    shared_keys_are_right,
    lengths_and_slopes_are_right,
    dropped_weights_are_replayed,
    prologues_and_epilogues_are_right,
    edges_are_as_the_language_says,
    extreme_values_are_kept,
    faults_of_keys_that_are_not_seen_are_reported,
}
