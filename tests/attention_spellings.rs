//! One meaning, many spellings: each of these is attention in one launch. And programs that are not, with the reason.

#[path = "support/numbers.rs"]
mod numbers;

use fuse::{Device, Error, Tensor, fuse};
use numbers::values;

fuse! {
    /// Scale after the product.
    #[kernel]
    pub fn scale_after<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>, c: f32) -> Tensor<f32, S, E> {
        (q.dot(k, D) * c).softmax(T).dot(v, T)
    }

    /// Scale before it.
    #[kernel]
    pub fn scale_before<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>, c: f32) -> Tensor<f32, S, E> {
        (q * c).dot(k, D).softmax(T).dot(v, T)
    }

    /// Keys first, values first, keys scaled.
    #[kernel]
    pub fn turned_around<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>, c: f32) -> Tensor<f32, S, E> {
        v.dot((k * c).dot(q, D).softmax(T), T)
    }

    /// The softmax by hand.
    #[kernel]
    pub fn by_hand<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>, c: f32) -> Tensor<f32, S, E> {
        let s = q.dot(k, D) * c;
        let e = (s - s.max(T)).exp();
        (e / e.sum(T)).dot(v, T)
    }

    /// Divided after the second product.
    #[kernel]
    pub fn divided_last<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>, c: f32) -> Tensor<f32, S, E> {
        let s = q.dot(k, D) * c;
        let e = (s - s.max(T)).exp();
        e.dot(v, T) / e.sum(T)
    }

    /// Without a maximum.
    #[kernel]
    pub fn without_maximum<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>, c: f32) -> Tensor<f32, S, E> {
        let e = (q.dot(k, D) * c).exp();
        (e * e.sum(T).recip()).dot(v, T)
    }

    /// By the logarithm.
    #[kernel]
    pub fn by_log_softmax<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>, c: f32) -> Tensor<f32, S, E> {
        (q.dot(k, D) * c).log_softmax(T).exp().dot(v, T)
    }

    /// By the logarithm of the sum.
    #[kernel]
    pub fn by_log_sum<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>, c: f32) -> Tensor<f32, S, E> {
        let s = q.dot(k, D) * c;
        (s - s.logsumexp(T)).exp().dot(v, T)
    }

    /// A composite of the user's own.
    fn weigh<S, T, D>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T>) -> Tensor<f32, S> {
        q.dot(k, D).softmax(T).dot(v, T)
    }

    /// Through that composite, with the result transposed.
    #[kernel]
    pub fn by_composite<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>, c: f32) -> Tensor<f32, E, S> {
        weigh::<S, T, D>(q * c, k, v)
    }

    /// Queries and results with heads that are merged.
    #[kernel]
    pub fn merged_heads<S, T, H, D, E, const HD: usize = { H * D }, const HE: usize = { H * E }>(
        q: Tensor<f32, S, HD>, k: Tensor<f32, T, HD>, v: Tensor<f32, T, HE>, c: f32, heads: Axis<H>,
    ) -> Tensor<f32, S, HE> {
        let (q, k, v) = (q.split(HD, (H, D)), k.split(HD, (H, D)), v.split(HE, (H, E)));
        (q.dot(k, D) * c).softmax(T).dot(v, T).merge((H, E), HE)
    }

    /// The mask by a selection.
    #[kernel]
    pub fn mask_by_select<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>, c: f32) -> Tensor<f32, S, E> {
        select(index(T) <= index(S), q.dot(k, D) * c, f32::NEG_INFINITY).softmax(T).dot(v, T)
    }

    /// The mask added, as −∞.
    #[kernel]
    pub fn mask_by_addition<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>, c: f32) -> Tensor<f32, S, E> {
        (q.dot(k, D) * c + select(index(T) <= index(S), 0.0, f32::NEG_INFINITY)).softmax(T).dot(v, T)
    }

    /// The mask multiplied, on exponentials.
    #[kernel]
    pub fn mask_by_product<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>, c: f32) -> Tensor<f32, S, E> {
        let s = q.dot(k, D) * c;
        let e = (s - s.max(T)).exp() * select(index(T) <= index(S), 1.0, 0.0);
        (e / e.sum(T)).dot(v, T)
    }

    /// The mask as a selection among exponentials.
    #[kernel]
    pub fn mask_of_weights<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>, c: f32) -> Tensor<f32, S, E> {
        let s = q.dot(k, D) * c;
        let e = select(index(T) <= index(S), (s - s.max(T)).exp(), 0.0);
        let sum = e.sum(T);
        select(sum == 0.0, 0.0, e / sum).dot(v, T)
    }

    /// A padded key is one whose mask says so.
    #[kernel]
    pub fn mask_from_memory<S, T, D, E>(
        q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>, m: Tensor<bool, T>, c: f32,
    ) -> Tensor<f32, S, E> {
        select(m, q.dot(k, D) * c, f32::NEG_INFINITY).softmax(T).dot(v, T)
    }

    /// Normalised over the queries.
    #[kernel]
    pub fn over_queries<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>) -> Tensor<f32, S, E> {
        q.dot(k, D).softmax(S).dot(v, T)
    }

    /// The weights are a result as well.
    #[kernel]
    pub fn weights_returned<S, T, D, E>(
        q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>,
    ) -> (Tensor<f32, S, E>, Tensor<f32, S, T>) {
        let p = q.dot(k, D).softmax(T);
        (p.dot(v, T), p)
    }

    /// The scores are used twice.
    #[kernel]
    pub fn scores_used_twice<S, T, D, E>(
        q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>,
    ) -> (Tensor<f32, S, E>, Tensor<f32, T>) {
        let s = q.dot(k, D);
        (s.softmax(T).dot(v, T), s.max(S))
    }

    /// A score of which the next depends on the one before.
    #[kernel]
    pub fn cumulated<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>) -> Tensor<f32, S, E> {
        q.dot(k, D).cumsum(T).softmax(T).dot(v, T)
    }

    /// Weights are rounded once they are normalised.
    #[kernel]
    pub fn rounded<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f16, T, E>) -> Tensor<f32, S, E> {
        (q.dot(k, D).softmax(T) as f16).dot(v, T)
    }

    /// The same without rounding.
    #[kernel]
    pub fn not_rounded<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f16, T, E>) -> Tensor<f32, S, E> {
        q.dot(k, D).softmax(T).dot(v, T)
    }

    /// One query, without an axis.
    #[kernel]
    pub fn of_one_query<T, D, E>(q: Tensor<f32, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>) -> Tensor<f32, E> {
        q.dot(k, D).softmax(T).dot(v, T)
    }

    /// One query of many heads, and one head of keys: the heads are the queries.
    #[kernel]
    pub fn of_one_query_and_heads<H, T, D, E>(q: Tensor<f32, H, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>) -> Tensor<f32, H, E> {
        q.dot(k, D).softmax(T).dot(v, T)
    }

    /// Small weights are cut off.
    #[kernel]
    pub fn cut_off<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>) -> Tensor<f32, S, E> {
        (q.dot(k, D).softmax(T) - 0.01).max(0.0).dot(v, T)
    }

    /// The scale comes after the maximum.
    #[kernel]
    pub fn scaled_late<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>, c: f32) -> Tensor<f32, S, E> {
        let s = q.dot(k, D);
        let e = ((s - s.max(T)) * c).exp();
        (e / e.sum(T)).dot(v, T)
    }

    /// Weights that have to be in memory.
    #[kernel]
    pub fn materialized<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>) -> Tensor<f32, S, E> {
        q.dot(k, D).softmax(T).materialize().dot(v, T)
    }

    /// A statistic that needs whole rows.
    #[kernel]
    pub fn of_the_least<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>) -> Tensor<f32, S, E> {
        let p = q.dot(k, D).softmax(T);
        (p / p.max(T)).dot(v, T)
    }

    /// A norm between two products has statistics of rows as well, and weighs nothing.
    #[kernel]
    pub fn normed<S, T, D, E>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, E>) -> Tensor<f32, S, E> {
        standardize::<T>(q.dot(k, D), 1e-5).dot(v, T)
    }
}

const S: usize = 45;
const T: usize = 300;
const D: usize = 6;
const E: usize = 5;

fn cpu<const R: usize>(data: &[f32], shape: [usize; R]) -> Result<Tensor<f32, R>, Error> {
    Tensor::from_vec(data.to_vec(), shape, &Device::cpu())
}

struct Inputs {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Inputs {
    fn new() -> Inputs {
        Inputs { q: values(S * D, 1), k: values(T * D, 2), v: values(T * E, 3) }
    }

    fn tensors(&self) -> Result<[Tensor<f32, 2>; 3], Error> {
        Ok([cpu(&self.q, [S, D])?, cpu(&self.k, [T, D])?, cpu(&self.v, [T, E])?])
    }

    fn scores(&self, scale: f64, seen: impl Fn(usize, usize) -> bool) -> Vec<Vec<f64>> {
        let dot = |i: usize, j: usize| -> f64 {
            (0..D).map(|c| f64::from(self.q[i * D + c]) * f64::from(self.k[j * D + c])).sum::<f64>() * scale
        };
        let score = |i: usize, j: usize| if seen(i, j) { dot(i, j) } else { f64::NEG_INFINITY };
        (0..S).map(|i| (0..T).map(|j| score(i, j)).collect()).collect()
    }

    /// The products of weights with the values.
    fn weigh(&self, weights: &[Vec<f64>]) -> Vec<f64> {
        let at = |i: usize, c: usize| (0..T).map(|j| weights[i][j] * f64::from(self.v[j * E + c])).sum();
        (0..S * E).map(|k| at(k / E, k % E)).collect()
    }

    fn attention(&self, scale: f64, seen: impl Fn(usize, usize) -> bool) -> Vec<f64> {
        self.weigh(&self.scores(scale, seen).into_iter().map(|row| softmax(&row)).collect::<Vec<_>>())
    }
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
    row.iter().map(|x| (x - max).exp() / sum).collect()
}

#[track_caller]
fn near(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        let off = (f64::from(*got) - want).abs();
        assert!(off <= tolerance * (1.0 + want.abs()), "{what}: {got} instead of {want} at {k}");
    }
}

const NEAR: f64 = 1e-5;

#[test]
fn every_spelling_is_one_launch_and_right() -> Result<(), Error> {
    let inputs = Inputs::new();
    let [q, k, v] = inputs.tensors()?;
    let all = inputs.attention(0.5, |_, _| true);
    let before = inputs.attention(0.5, |i, j| j <= i);
    macro_rules! check {
        ($($kernel:ident: $want:expr),* $(,)?) => {$(
            assert_eq!($kernel::plan().launch_count(), 1, "launches of {}", stringify!($kernel));
            near(stringify!($kernel), &$kernel(&q, &k, &v, 0.5)?.to_vec()?, &$want, NEAR);
            $kernel::verify().run()?;
        )*};
    }
    check! {
        scale_after: all,
        scale_before: all,
        turned_around: all,
        by_hand: all,
        divided_last: all,
        without_maximum: all,
        by_log_softmax: all,
        by_log_sum: all,
        mask_by_select: before,
        mask_by_addition: before,
        mask_by_product: before,
        mask_of_weights: before,
    }
    let got = by_composite(&q, &k, &v, 0.5)?.to_vec()?;
    let turned: Vec<f64> = (0..S * E).map(|k| all[k % S * E + k / S]).collect();
    near("by_composite", &got, &turned, NEAR);

    let masked: Vec<bool> = (0..T).map(|j| j % 3 != 1).collect();
    let got = mask_from_memory(&q, &k, &v, &Tensor::from_vec(masked.clone(), [T], &Device::cpu())?, 0.5)?;
    near("mask_from_memory", &got.to_vec()?, &inputs.attention(0.5, |_, j| masked[j]), NEAR);

    // Two heads: the widths of the inputs cut in half.
    let (q, k, v) = (values(S * 6, 1), values(T * 6, 2), values(T * 8, 3));
    let got = merged_heads(&cpu(&q, [S, 6])?, &cpu(&k, [T, 6])?, &cpu(&v, [T, 8])?, 0.5, 2)?.to_vec()?;
    for i in 0..S {
        for head in 0..2 {
            let dot = |j: usize| {
                let at = |c: usize| f64::from(q[i * 6 + head * 3 + c]) * f64::from(k[j * 6 + head * 3 + c]);
                (0..3).map(at).sum::<f64>() * 0.5
            };
            let weights = softmax(&(0..T).map(dot).collect::<Vec<_>>());
            for c in 0..4 {
                let want: f64 = (0..T).map(|j| weights[j] * f64::from(v[j * 8 + head * 4 + c])).sum();
                near("merged_heads", &[got[i * 8 + head * 4 + c]], &[want], NEAR);
            }
        }
    }
    Ok(())
}

/// Without a maximum small exponentials lose no more than they do apart.
#[test]
fn small_exponentials_keep_their_values() -> Result<(), Error> {
    let (q, k, v) = (vec![1.0; S * D], vec![-1.0; T * D], vec![1e-6; T * E]);
    let (q, k, v) = (cpu(&q, [S, D])?, cpu(&k, [T, D])?, cpu(&v, [T, E])?);
    // Scores of -84: exponentials of 3e-37, products of 3e-43.
    for x in without_maximum(&q, &k, &v, 14.0)?.to_vec()? {
        assert!((x / 1e-6 - 1.0).abs() < 1e-5, "{x}");
    }
    Ok(())
}

/// The refusals of a plan, as it prints them.
fn refusals(plan: &str) -> Vec<&str> {
    plan.lines().filter(|line| line.trim_start().starts_with("refused")).collect()
}

#[test]
fn what_only_looks_alike_takes_more_launches_and_says_why() {
    macro_rules! check {
        ($($kernel:ident: $why:literal),* $(,)?) => {$(
            let plan = $kernel::plan();
            assert!(plan.launch_count() > 1, "launches of {}", stringify!($kernel));
            let text = plan.to_string();
            let found = refusals(&text).iter().any(|line| line.contains($why));
            assert!(found, "{} does not say `{}`:\n{text}", stringify!($kernel), $why);
        )*};
    }
    check! {
        over_queries: "reduces [S] for each [T]",
        weights_returned: "`p` is a result as well, so that all of it has to be in memory",
        scores_used_twice: "`s` is read by `s.max(S)` as well, so that all of it has to be in memory",
        cumulated: "cumsum(T)",
        rounded: "rounds weights that are normalised when all of the row is known; leave the weights in f32",
        cut_off: "makes of statistics of a row what is not the weight times a factor",
        scaled_late: "scales scores after their maximum was taken away; scale the scores before their maximum is taken",
        materialized: "`materialize()` asks for the value in memory",
        of_one_query: "give the queries an axis of their own",
        of_the_least: "is a maximum of values that depend on other statistics",
    }
}

#[test]
fn of_a_norm_nothing_is_said_about_weights() {
    let text = normed::plan().to_string();
    assert!(!text.contains("streaming"), "{text}");
    assert!(!refusals(&text).is_empty(), "{text}");
}

#[test]
fn what_only_looks_alike_is_right() -> Result<(), Error> {
    let inputs = Inputs::new();
    let [q, k, v] = inputs.tensors()?;
    let scores = inputs.scores(1.0, |_, _| true);
    let weights: Vec<Vec<f64>> = scores.iter().map(|row| softmax(row)).collect();
    let want = inputs.weigh(&weights);
    // Differences of scores up to 20 take part: an error of a score is one of the exponent.
    let near = |what: &str, got: &[f32], want: &[f64]| near(what, got, want, 1e-4);

    let columns: Vec<Vec<f64>> =
        (0..T).map(|j| softmax(&(0..S).map(|i| scores[i][j]).collect::<Vec<_>>())).collect();
    let turned: Vec<Vec<f64>> = (0..S).map(|i| (0..T).map(|j| columns[j][i]).collect()).collect();
    near("over_queries", &over_queries(&q, &k, &v)?.to_vec()?, &inputs.weigh(&turned));

    let (out, p) = weights_returned(&q, &k, &v)?;
    near("weights_returned", &out.to_vec()?, &want);
    near("weights", &p.to_vec()?, &weights.concat());

    let (out, greatest) = scores_used_twice(&q, &k, &v)?;
    near("scores_used_twice", &out.to_vec()?, &want);
    let of_keys: Vec<f64> = (0..T).map(|j| (0..S).map(|i| scores[i][j]).fold(f64::MIN, f64::max)).collect();
    near("greatest", &greatest.to_vec()?, &of_keys);

    let cut: Vec<Vec<f64>> =
        weights.iter().map(|row| row.iter().map(|p| (p - f64::from(0.01f32)).max(0.0)).collect()).collect();
    near("cut_off", &cut_off(&q, &k, &v)?.to_vec()?, &inputs.weigh(&cut));
    near("materialized", &materialized(&q, &k, &v)?.to_vec()?, &want);
    let scaled: Vec<Vec<f64>> = inputs.scores(0.5, |_, _| true).iter().map(|row| softmax(row)).collect();
    near("scaled_late", &scaled_late(&q, &k, &v, 0.5)?.to_vec()?, &inputs.weigh(&scaled));
    Ok(())
}
