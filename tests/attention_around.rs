//! What is around attention: caches that grow, dequantised keys, projections before and after, heads that are merged and a
//! residual. What is one launch with it, and why the rest is not.

#[path = "support/devices.rs"]
mod devices;
#[path = "support/golden.rs"]
mod golden;
#[path = "support/numbers.rs"]
mod numbers;

use devices::{device, on_every_device};
use fuse::{Element, Error, Tensor, fuse};
use numbers::values;

fuse! {
    /// New keys and values follow those of a cache, without a copy of either.
    #[kernel(launches = 1, assume(H = 8, L = 1024, S = 16, D = 64))]
    pub fn after_cache<H, S, L, T, D>(
        q: Tensor<f32, H, S, D>, old_k: Tensor<f32, H, L, D>, old_v: Tensor<f32, H, L, D>, k: Tensor<f32, H, S, D>,
        v: Tensor<f32, H, S, D>, scale: f32,
    ) -> Tensor<f32, H, S, D> {
        let k = concat(T, (old_k, L), (k, S));
        let v = concat(T, (old_v, L), (v, S));
        let seen = index(S) + extent(L) >= index(T);
        select(seen, q.dot(k, D) * scale, f32::NEG_INFINITY).softmax(T).dot(v, T)
    }

    /// New keys and values are written into a cache, and all that it then has up to each query is attended to.
    #[kernel(assume(H = 8, L = 4096, S = 1, D = 64))]
    pub fn append<H, S, L, D>(
        old_k: &mut Tensor<f32, H, L, D>, old_v: &mut Tensor<f32, H, L, D>, q: Tensor<f32, H, S, D>,
        k: Tensor<f32, H, S, D>, v: Tensor<f32, H, S, D>, pos: i64, scale: f32,
    ) -> Tensor<f32, H, S, D> {
        old_k.slice(L, pos, S) = k;
        old_v.slice(L, pos, S) = v;
        let seen = index(L) <= index(S) + pos;
        select(seen, q.dot(old_k, D) * scale, f32::NEG_INFINITY).softmax(L).dot(old_v, L)
    }

    /// The same with no launch to put ranges of keys together, and with nothing known of how many rows are appended.
    #[kernel(launches = 1)]
    pub fn append_at_once<H, S, L, D>(
        old_k: &mut Tensor<f32, H, L, D>, old_v: &mut Tensor<f32, H, L, D>, q: Tensor<f32, H, S, D>,
        k: Tensor<f32, H, S, D>, v: Tensor<f32, H, S, D>, pos: i64, scale: f32,
    ) -> Tensor<f32, H, S, D> {
        old_k.slice(L, pos, S) = k;
        old_v.slice(L, pos, S) = v;
        let seen = index(L) <= index(S) + pos;
        select(seen, q.dot(old_k, D) * scale, f32::NEG_INFINITY).softmax(L).dot(old_v, L)
    }

    /// Its two steps, each a kernel: the rows are stored.
    #[kernel(launches = 1)]
    pub fn store_rows<H, S, L, D>(cache: &mut Tensor<f32, H, L, D>, rows: Tensor<f32, H, S, D>, pos: i64) {
        cache.slice(L, pos, S) = rows;
    }

    /// And all of the cache is attended over.
    #[kernel(assume(H = 8, L = 4096, S = 1, D = 64))]
    pub fn attend_over<H, S, L, D>(
        k: Tensor<f32, H, L, D>, v: Tensor<f32, H, L, D>, q: Tensor<f32, H, S, D>, pos: i64, scale: f32,
    ) -> Tensor<f32, H, S, D> {
        let seen = index(L) <= index(S) + pos;
        select(seen, q.dot(k, D) * scale, f32::NEG_INFINITY).softmax(L).dot(v, L)
    }

    /// The rows are narrow, turned by an angle, and go into a cache of which a window is attended over.
    #[kernel(launches = 1, assume(H = 8, L = 4096, S = 4, D = 64))]
    pub fn append_turned<H, S, L, D>(
        old_k: &mut Tensor<f16, H, L, D>, old_v: &mut Tensor<f16, H, L, D>, q: Tensor<f32, H, S, D>,
        k: Tensor<f32, H, S, D>, v: Tensor<f32, H, S, D>, turn: Tensor<f32, S, D>, pos: i64,
    ) -> Tensor<f32, H, S, D> {
        old_k.slice(L, pos, S) = (k * turn) as f16;
        old_v.slice(L, pos, S) = v as f16;
        let back = index(S) + pos - index(L);
        select((back >= 0) & (back < 100), q.dot(old_k, D), f32::NEG_INFINITY).softmax(L).dot(old_v, L)
    }

    /// What is attended over is the cache as it was, with the rows that are overwritten afterwards.
    #[kernel(assume(H = 8, L = 4096, S = 1, D = 64))]
    pub fn attend_then_store<H, S, L, D>(
        old_k: &mut Tensor<f32, H, L, D>, v: Tensor<f32, H, L, D>, q: Tensor<f32, H, S, D>,
        k: Tensor<f32, H, S, D>, pos: i64,
    ) -> Tensor<f32, H, S, D> {
        let seen = q.dot(old_k, D).softmax(L).dot(v, L);
        old_k.slice(L, pos, S) = k;
        seen
    }

    /// Two stretches that may share rows: all of the cache is written again.
    #[kernel(assume(H = 8, L = 4096, S = 1, D = 64))]
    pub fn append_twice<H, S, L, D>(
        old_k: &mut Tensor<f32, H, L, D>, v: Tensor<f32, H, L, D>, q: Tensor<f32, H, S, D>,
        k: Tensor<f32, H, S, D>, pos: i64, other: i64,
    ) -> Tensor<f32, H, S, D> {
        old_k.slice(L, pos, S) = k;
        old_k.slice(L, other, S) = -k;
        q.dot(old_k, D).softmax(L).dot(v, L)
    }

    /// Keys and values of eight bits, each row with its scale.
    #[kernel(launches = 1, assume(H = 8, S = 16, T = 1024, D = 64))]
    pub fn of_eight_bits<H, S, T, D>(
        q: Tensor<f32, H, S, D>, k: Tensor<i8, H, T, D>, v: Tensor<i8, H, T, D>, of_k: Tensor<f32, H, T>,
        of_v: Tensor<f32, H, T>, scale: f32,
    ) -> Tensor<f32, H, S, D> {
        let (k, v) = (k as f32 * of_k, v as f32 * of_v);
        (q.dot(k, D) * scale).softmax(T).dot(v, T)
    }

    /// Heads are merged, and what was attended from is added.
    #[kernel(launches = 1, assume(B = 2, H = 8, S = 512, T = 512, D = 64))]
    pub fn merged_with_residual<B, H, S, T, D, const F: usize = { H * D }>(
        q: Tensor<f32, B, H, S, D>, k: Tensor<f32, B, H, T, D>, v: Tensor<f32, B, H, T, D>, r: Tensor<f32, B, S, F>,
        scale: f32,
    ) -> Tensor<f32, B, S, F> {
        (q.dot(k, D) * scale).softmax(T).dot(v, T).merge((H, D), F) + r
    }

    /// Queries, keys and values of one product, attention, a product.
    #[kernel(assume(S = 512, E = 512, H = 8, D = 64))]
    pub fn projected<S, T, E, H, D, const F: usize = { 3 * H * D }, const THREE: usize = 3>(
        x: Tensor<f32, S, E>, w: Tensor<f32, E, F>, w_out: Tensor<f32, E, H, D>, scale: f32,
    ) -> Tensor<f32, S, E> {
        let h = x.dot(w, E).split(F, (THREE, H, D));
        let (q, k, v) = (h.at(THREE, 0), h.at(THREE, 1).rename(S, T), h.at(THREE, 2).rename(S, T));
        (q.dot(k, D) * scale).softmax(T).dot(v, T).dot(w_out, (H, D))
    }

    /// Scores of f64 are not streamed.
    #[kernel]
    pub fn of_doubles<S, T, D>(q: Tensor<f64, S, D>, k: Tensor<f64, T, D>, v: Tensor<f64, T, D>) -> Tensor<f64, S, D> {
        q.dot(k, D).softmax(T).dot(v, T)
    }
}

fuse! {
    /// Scores and values are cast, and so is the result.
    #[kernel(launches = 1)]
    pub fn of_cast_doubles<S, T, D>(q: Tensor<f64, S, D>, k: Tensor<f64, T, D>, v: Tensor<f64, T, D>) -> Tensor<f64, S, D> {
        (q as f32).dot(k as f32, D).softmax(T).dot(v as f32, T) as f64
    }

    /// Only what is normalised is of f64.
    #[kernel]
    pub fn of_double_weights<S, T, D>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, D>) -> Tensor<f32, S, D> {
        ((q.dot(k, D) as f64).softmax(T) as f32).dot(v, T)
    }

    /// Only what is weighed is of f64.
    #[kernel]
    pub fn of_double_values<S, T, D>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f64, T, D>) -> Tensor<f64, S, D> {
        (q.dot(k, D).softmax(T) as f64).dot(v, T)
    }
}

golden::plans! {
    "attention",
    after_cache: 1,
    append: 1,
    append_at_once: 1,
    append_turned: 1,
    attend_then_store: 2,
    of_eight_bits: 1,
    merged_with_residual: 1,
    projected: 3,
}

fn put<T: Element, const R: usize>(data: &[T], shape: [usize; R]) -> Result<Tensor<T, R>, Error> {
    Tensor::from_vec(data.to_vec(), shape, &device())
}

/// Attention of one head in f64: `d` wide, with as many rows as `q` has, and keys where `seen` says.
fn attend(
    q: &[f64],
    k: &[f64],
    v: &[f64],
    d: usize,
    scale: f64,
    seen: impl Fn(usize, usize) -> bool,
) -> Vec<f64> {
    let mut out = Vec::new();
    for (i, q) in q.chunks(d).enumerate() {
        let score = |(j, k): (usize, &[f64])| match seen(i, j) {
            true => q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>() * scale,
            false => f64::NEG_INFINITY,
        };
        let scores: Vec<f64> = k.chunks(d).enumerate().map(score).collect();
        let most = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = scores.iter().map(|x| (x - most).exp()).collect();
        let sum: f64 = weights.iter().sum();
        for c in 0..d {
            out.push(weights.iter().zip(v.chunks(d)).map(|(w, v)| w * v[c]).sum::<f64>() / sum);
        }
    }
    out
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

#[track_caller]
fn near(what: &str, got: &[f32], want: &[f64]) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        let off = (f64::from(*got) - want).abs();
        assert!(off <= 1e-5 * (1.0 + want.abs()), "{what}: {got}, not {want} at {k}");
    }
}

/// The parts of a tensor of heads.
fn heads<T: Clone>(x: &[T], h: usize) -> Vec<Vec<T>> {
    x.chunks((x.len() / h).max(1)).map(<[T]>::to_vec).collect()
}

#[test]
fn new_keys_after_a_cache_are_right() -> Result<(), Error> {
    let (h, s, d) = (2, 5, 8);
    for l in [0, 1, 59, 270] {
        let n = [s, l, l, s, s];
        let data: Vec<Vec<f32>> = n.iter().zip(1..).map(|(n, seed)| values(h * n * d, seed)).collect();
        let of = |k: usize| put(&data[k], [h, n[k], d]);
        let got = after_cache(&of(0)?, &of(1)?, &of(2)?, &of(3)?, &of(4)?, 0.5)?.to_vec()?;
        let parts: Vec<Vec<Vec<f32>>> = data.iter().map(|x| heads(x, h)).collect();
        for x in 0..h {
            let k = wide(&[parts[1].get(x).cloned().unwrap_or_default(), parts[3][x].clone()].concat());
            let v = wide(&[parts[2].get(x).cloned().unwrap_or_default(), parts[4][x].clone()].concat());
            let want = attend(&wide(&parts[0][x]), &k, &v, d, 0.5, |i, j| j <= i + l);
            near(&format!("{l} keys before, head {x}"), &got[x * s * d..][..s * d], &want);
        }
    }
    Ok(())
}

#[test]
fn appended_keys_are_seen_and_stay() -> Result<(), Error> {
    let (h, s, l, d) = (2, 3, 300, 8);
    for pos in [0, 7, 297] {
        let [old_k, old_v] = [1, 2].map(|seed| values(h * l * d, seed));
        let [q, k, v] = [3, 4, 5].map(|seed| values(h * s * d, seed));
        let (mut cache_k, mut cache_v) = (put(&old_k, [h, l, d])?, put(&old_v, [h, l, d])?);
        let (shape, at) = ([h, s, d], pos as i64);
        let got = append(
            &mut cache_k,
            &mut cache_v,
            &put(&q, shape)?,
            &put(&k, shape)?,
            &put(&v, shape)?,
            at,
            0.5,
        )?;
        let got = got.to_vec()?;
        let replace = |old: &[f32], new: &[f32]| -> Vec<f32> {
            let mut all = old.to_vec();
            for x in 0..h {
                all[(x * l + pos) * d..][..s * d].copy_from_slice(&new[x * s * d..][..s * d]);
            }
            all
        };
        let (k, v) = (replace(&old_k, &k), replace(&old_v, &v));
        assert!(cache_k.to_vec()? == k && cache_v.to_vec()? == v, "what is cached at {pos}");
        let (q, k, v) = (heads(&wide(&q), h), heads(&wide(&k), h), heads(&wide(&v), h));
        for x in 0..h {
            let want = attend(&q[x], &k[x], &v[x], d, 0.5, |i, j| j <= i + pos);
            near(&format!("at {pos}, head {x}"), &got[x * s * d..][..s * d], &want);
        }
    }
    Ok(())
}

#[test]
fn dequantised_keys_are_right() -> Result<(), Error> {
    let (h, s, t, d) = (2, 5, 270, 8);
    let q = values(h * s * d, 1);
    let narrow = |seed| -> Vec<i8> { values(h * t * d, seed).iter().map(|x| (x * 60.0) as i8).collect() };
    let (k, v) = (narrow(2), narrow(3));
    let [of_k, of_v] = [4, 5].map(|seed| values(h * t, seed));
    let got = of_eight_bits(
        &put(&q, [h, s, d])?,
        &put(&k, [h, t, d])?,
        &put(&v, [h, t, d])?,
        &put(&of_k, [h, t])?,
        &put(&of_v, [h, t])?,
        0.0625,
    )?
    .to_vec()?;
    let whole = |x: &[i8], of: &[f32]| -> Vec<f64> {
        x.iter().enumerate().map(|(at, x)| f64::from(f32::from(*x) * of[at / d])).collect()
    };
    let (q, k, v) = (heads(&wide(&q), h), heads(&whole(&k, &of_k), h), heads(&whole(&v, &of_v), h));
    for x in 0..h {
        let want = attend(&q[x], &k[x], &v[x], d, 0.0625, |_, _| true);
        // Scores are up to a hundred, values too.
        for (got, want) in got[x * s * d..][..s * d].iter().zip(&want) {
            assert!((f64::from(*got) - want).abs() < 2e-3, "head {x}: {got}, not {want}");
        }
    }
    Ok(())
}

#[test]
fn merged_heads_and_a_residual_are_right() -> Result<(), Error> {
    let (b, h, s, t, d) = (2, 3, 37, 130, 8);
    let (q, k, v) = (values(b * h * s * d, 1), values(b * h * t * d, 2), values(b * h * t * d, 3));
    let r = values(b * s * h * d, 4);
    let got = merged_with_residual(
        &put(&q, [b, h, s, d])?,
        &put(&k, [b, h, t, d])?,
        &put(&v, [b, h, t, d])?,
        &put(&r, [b, s, h * d])?,
        0.5,
    )?
    .to_vec()?;
    let (q, k, v) = (heads(&wide(&q), b * h), heads(&wide(&k), b * h), heads(&wide(&v), b * h));
    for x in 0..b * h {
        let want = attend(&q[x], &k[x], &v[x], d, 0.5, |_, _| true);
        for i in 0..s {
            let at = ((x / h * s + i) * h + x % h) * d;
            let want: Vec<f64> = (0..d).map(|c| want[i * d + c] + f64::from(r[at + c])).collect();
            near(&format!("element {}, head {}, row {i}", x / h, x % h), &got[at..][..d], &want);
        }
    }
    Ok(())
}

#[test]
fn projections_before_and_after_are_right() -> Result<(), Error> {
    let (s, e, h, d) = (37, 20, 2, 8);
    let (x, w, w_out) = (values(s * e, 1), values(e * 3 * h * d, 2), values(e * h * d, 3));
    let got =
        projected(&put(&x, [s, e])?, &put(&w, [e, 3 * h * d])?, &put(&w_out, [e, h, d])?, 0.125)?.to_vec()?;
    let (x, w, w_out) = (wide(&x), wide(&w), wide(&w_out));
    let f = 3 * h * d;
    let made: Vec<f64> =
        (0..s * f).map(|at| (0..e).map(|c| x[at / f * e + c] * w[c * f + at % f]).sum()).collect();
    let part = |which: usize, head: usize| -> Vec<f64> {
        (0..s * d).map(|at| made[at / d * f + (which * h + head) * d + at % d]).collect()
    };
    let attended: Vec<Vec<f64>> =
        (0..h).map(|x| attend(&part(0, x), &part(1, x), &part(2, x), d, 0.125, |_, _| true)).collect();
    let want: Vec<f64> = (0..s * e)
        .map(|at| {
            let term = |k: usize| attended[k / d][at / e * d + k % d] * w_out[at % e * h * d + k];
            (0..h * d).map(term).sum()
        })
        .collect();
    for (got, want) in got.iter().zip(&want) {
        assert!((f64::from(*got) - want).abs() < 2e-4 * (1.0 + want.abs()), "{got}, not {want}");
    }
    Ok(())
}

/// Bytes and seconds, fused and apart, of the refusals of a plan whose reasons have both names.
fn refusals(plan: &fuse::Plan, from: &str, into: &str) -> Vec<[f64; 4]> {
    let named = |reason: &str| reason.contains(from) && reason.contains(into);
    let found = plan.decisions.iter().filter(|d| d.refusal.is_some() && named(&d.reason));
    found.map(|d| [d.bytes.0 as f64, d.bytes.1 as f64, d.seconds.0, d.seconds.1]).collect()
}

/// The projections stay apart, and the plan says what that costs.
#[test]
fn projections_stay_apart_with_bytes_and_time() {
    let plan = projected::plan();
    for (from, into) in [("`x.dot(w, E)`", "[T]"), (".dot(v, T)`", "reduces [H, D]")] {
        let found = refusals(plan, from, into);
        assert!(!found.is_empty(), "nothing about {from} and {into} in\n{plan}");
        assert!(found.iter().flatten().all(|cost| *cost > 0.0), "{found:?}");
    }
}

/// What is appended is attended to where it comes from, and stored by the same launch: the bits are those of two kernels, one
/// after the other, wherever the rows lie and whether or not ranges of keys have blocks of their own.
#[test]
fn an_append_is_one_launch_with_the_bits_of_two() -> Result<(), Error> {
    for (h, s, l, d, pos) in [(1, 1, 1, 4, 0), (2, 3, 70, 8, 0), (2, 3, 70, 8, 67), (2, 1, 1500, 16, 1100)] {
        let caches = [1, 2].map(|seed| values(h * l * d, seed));
        let [q, k, v] = [3, 4, 5].map(|seed| put(&values(h * s * d, seed), [h, s, d]));
        let (q, k, v, at) = (q?, k?, v?, pos as i64);
        let cache = || Ok::<_, Error>((put(&caches[0], [h, l, d])?, put(&caches[1], [h, l, d])?));
        let (mut want_k, mut want_v) = cache()?;
        store_rows(&mut want_k, &k, at)?;
        store_rows(&mut want_v, &v, at)?;
        let want = attend_over(&want_k, &want_v, &q, at, 0.5)?.to_vec()?;
        let (mut own_k, mut own_v) = cache()?;
        let got = append(&mut own_k, &mut own_v, &q, &k, &v, at, 0.5)?.to_vec()?;
        assert_eq!(got, want, "{l} rows, at {pos}");
        assert!(own_k.to_vec()? == want_k.to_vec()? && own_v.to_vec()? == want_v.to_vec()?, "at {pos}");
        let (mut own_k, mut own_v) = cache()?;
        let got = append_at_once(&mut own_k, &mut own_v, &q, &k, &v, at, 0.5)?.to_vec()?;
        let off = got.iter().zip(&want).map(|(got, want)| (got - want).abs()).fold(0.0, f32::max);
        assert!(off <= 1e-6, "{l} rows, at {pos}: off by {off}");
        assert!(own_k.to_vec()? == want_k.to_vec()? && own_v.to_vec()? == want_v.to_vec()?, "at {pos}");
    }
    Ok(())
}

/// Positions outside the cache are an error before anything is written.
#[test]
fn an_append_past_the_end_changes_nothing() -> Result<(), Error> {
    let (h, s, l, d) = (1, 2, 5, 4);
    let old = values(h * l * d, 1);
    let row = put(&values(h * s * d, 2), [h, s, d])?;
    for at in [-1, 4] {
        let (mut k, mut v) = (put(&old, [h, l, d])?, put(&old, [h, l, d])?);
        assert!(append(&mut k, &mut v, &row, &row, &row, at, 1.0).is_err(), "at {at}");
        assert!(k.to_vec()? == old && v.to_vec()? == old, "at {at}");
    }
    Ok(())
}

/// Rows that are computed before they are stored and narrowed are those that are attended over.
#[test]
fn rows_that_are_computed_are_appended() -> Result<(), Error> {
    let (h, s, l, d) = (2, 3, 300, 8);
    let half = |x: &f32| f64::from(fuse::f16::from_f32(*x).to_f32());
    for pos in [0, 150, 297] {
        let [old_k, old_v] = [1, 2].map(|seed| values(h * l * d, seed));
        let [q, k, v] = [3, 4, 5].map(|seed| values(h * s * d, seed));
        let turn = values(s * d, 6);
        let narrow = |x: &[f32]| x.iter().map(|x| fuse::f16::from_f32(*x)).collect::<Vec<_>>();
        let (mut cache_k, mut cache_v) = (put(&narrow(&old_k), [h, l, d])?, put(&narrow(&old_v), [h, l, d])?);
        let at = |x: &[f32]| put(x, [h, s, d]);
        let (of_turn, start) = (put(&turn, [s, d])?, pos as i64);
        let got = append_turned(&mut cache_k, &mut cache_v, &at(&q)?, &at(&k)?, &at(&v)?, &of_turn, start)?;
        let got = got.to_vec()?;
        let turned: Vec<f32> = k.iter().enumerate().map(|(at, k)| k * turn[at % (s * d)]).collect();
        let replace = |old: &[f32], new: &[f32]| -> Vec<f64> {
            let mut all: Vec<f64> = old.iter().map(half).collect();
            for x in 0..h {
                let new = new[x * s * d..][..s * d].iter().map(half);
                all[(x * l + pos) * d..][..s * d].iter_mut().zip(new).for_each(|(to, new)| *to = new);
            }
            all
        };
        let (k, v) = (replace(&old_k, &turned), replace(&old_v, &v));
        let same = |cache: &Tensor<fuse::f16, 3>, want: &[f64]| -> Result<bool, Error> {
            Ok(cache.to_vec()?.iter().map(|x| f64::from(x.to_f32())).eq(want.iter().copied()))
        };
        assert!(same(&cache_k, &k)? && same(&cache_v, &v)?, "what is cached at {pos}");
        let (q, k, v) = (heads(&wide(&q), h), heads(&k, h), heads(&v, h));
        for x in 0..h {
            let want = attend(&q[x], &k[x], &v[x], d, 1.0, |i, j| j <= i + pos && i + pos < j + 100);
            near(&format!("at {pos}, head {x}"), &got[x * s * d..][..s * d], &want);
        }
    }
    Ok(())
}

/// Where rows are read that are then overwritten, the store waits; the plan says so, and what that costs.
#[test]
fn what_is_read_before_it_is_overwritten_takes_two_launches() -> Result<(), Error> {
    let found = refusals(attend_then_store::plan(), "`old_k` is overwritten by a later launch", "");
    assert!(!found.is_empty(), "nothing is refused in\n{}", attend_then_store::plan());
    assert!(found.iter().flatten().all(|cost| *cost > 0.0), "{found:?}");
    let (h, s, l, d, pos) = (2, 2, 90, 8, 40);
    let [old_k, v] = [1, 2].map(|seed| values(h * l * d, seed));
    let [q, k] = [3, 4].map(|seed| values(h * s * d, seed));
    let mut cache = put(&old_k, [h, l, d])?;
    let (of_q, of_k) = (put(&q, [h, s, d])?, put(&k, [h, s, d])?);
    let got = attend_then_store(&mut cache, &put(&v, [h, l, d])?, &of_q, &of_k, pos as i64)?.to_vec()?;
    let mut stored = old_k.clone();
    for x in 0..h {
        let [q, k, v] = [(&q, s), (&old_k, l), (&v, l)].map(|(of, n)| wide(&of[x * n * d..][..n * d]));
        near(&format!("head {x}"), &got[x * s * d..][..s * d], &attend(&q, &k, &v, d, 1.0, |_, _| true));
    }
    for x in 0..h {
        stored[(x * l + pos) * d..][..s * d].copy_from_slice(&k[x * s * d..][..s * d]);
    }
    assert_eq!(cache.to_vec()?, stored);
    Ok(())
}

/// Where two stretches may overlap all of the cache is stored, which waits for what reads it.
#[test]
fn stretches_that_may_overlap_take_several_launches() -> Result<(), Error> {
    assert!(append_twice::plan().launch_count() > 1, "{}", append_twice::plan());
    let (h, s, l, d) = (1, 2, 20, 4);
    let [old_k, v] = [1, 2].map(|seed| values(h * l * d, seed));
    let [q, k] = [3, 4].map(|seed| values(h * s * d, seed));
    for (pos, other) in [(3, 4), (3, 12), (12, 3)] {
        let mut cache = put(&old_k, [h, l, d])?;
        let (of_q, of_k) = (put(&q, [h, s, d])?, put(&k, [h, s, d])?);
        let of_v = put(&v, [h, l, d])?;
        let got = append_twice(&mut cache, &of_v, &of_q, &of_k, pos as i64, other as i64)?.to_vec()?;
        let mut all = old_k.clone();
        all[pos * d..][..s * d].copy_from_slice(&k);
        all[other * d..][..s * d].iter_mut().zip(&k).for_each(|(to, k)| *to = -k);
        assert_eq!(cache.to_vec()?, all, "at {pos} and {other}");
        near("scores", &got, &attend(&wide(&q), &wide(&all), &wide(&v), d, 1.0, |_, _| true));
    }
    Ok(())
}

/// Scores of f64 are right, in several launches, and the plan says why.
#[test]
fn doubles_are_right_and_say_why_they_are_not_streamed() -> Result<(), Error> {
    let (s, t, d) = (7, 300, 4);
    let [q, k, v] = [(s, 1), (t, 2), (t, 3)].map(|(n, seed)| wide(&values(n * d, seed)));
    let got = of_doubles(&put(&q, [s, d])?, &put(&k, [t, d])?, &put(&v, [t, d])?)?.to_vec()?;
    for (got, want) in got.iter().zip(attend(&q, &k, &v, d, 1.0, |_, _| true)) {
        assert!((got - want).abs() < 1e-13 * (1.0 + want.abs()), "{got}, not {want}");
    }
    let text = of_doubles::plan().to_string();
    assert!(text.contains("is not one contraction of f32"), "{text}");
    Ok(())
}

/// Where f64 prevents the single launch, the plan says at which operation, and what would make it one; the cast does.
#[test]
fn doubles_say_what_would_stream_them() {
    let remedies = [
        (of_doubles::plan(), "is not one contraction of f32", "cast queries, keys and values to f32"),
        (of_double_weights::plan(), "only f32 is streamed", "cast the scores to f32"),
        (of_double_values::plan(), "only f32 is streamed", "leave the weights in f32"),
    ];
    for (plan, reason, remedy) in remedies {
        let mut refused = plan.decisions.iter().filter(|d| d.refusal.is_some());
        let found = refused.find(|d| d.reason.contains(reason)).and_then(|d| d.remedy.as_ref());
        assert!(found.is_some_and(|r| r.contains(remedy)), "{remedy}: {found:?}\n{plan}");
    }
    assert_eq!(of_cast_doubles::plan().launch_count(), 1);
}

on_every_device! {
    new_keys_after_a_cache_are_right,
    appended_keys_are_seen_and_stay,
    an_append_is_one_launch_with_the_bits_of_two,
    an_append_past_the_end_changes_nothing,
    rows_that_are_computed_are_appended,
    what_is_read_before_it_is_overwritten_takes_two_launches,
    stretches_that_may_overlap_take_several_launches,
    dequantised_keys_are_right,
    merged_heads_and_a_residual_are_right,
    projections_before_and_after_are_right,
    doubles_are_right_and_say_why_they_are_not_streamed,
}
