//! What attention keeps in memory and which tiles it computes, counted in a process of its own, one test after the other.

#[path = "support/allocations.rs"]
mod allocations;
#[path = "support/numbers.rs"]
mod numbers;

use fuse::{Device, Error, Tensor, fuse};
use std::sync::Mutex;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fuse! {
    #[kernel(launches = 1)]
    fn attention<H, S, T, D>(
        q: Tensor<f32, H, S, D>, k: Tensor<f32, H, T, D>, v: Tensor<f32, H, T, D>, scale: f32,
    ) -> Tensor<f32, H, S, D> {
        (q.dot(k, D) * scale).softmax(T).dot(v, T)
    }

    #[kernel(launches = 1)]
    fn causal<H, S, T, D>(
        q: Tensor<f32, H, S, D>, k: Tensor<f32, H, T, D>, v: Tensor<f32, H, T, D>, scale: f32,
    ) -> Tensor<f32, H, S, D> {
        select(index(S) >= index(T), q.dot(k, D) * scale, f32::NEG_INFINITY).softmax(T).dot(v, T)
    }

    #[kernel(launches = 1)]
    fn windowed<H, S, T, D>(
        q: Tensor<f32, H, S, D>, k: Tensor<f32, H, T, D>, v: Tensor<f32, H, T, D>, scale: f32, width: i64,
    ) -> Tensor<f32, H, S, D> {
        let near = (index(S) - index(T) < width) & (index(T) - index(S) < width);
        select(near, q.dot(k, D) * scale, f32::NEG_INFINITY).softmax(T).dot(v, T)
    }

    /// Blocks of positions see the blocks of the same parity.
    #[kernel(launches = 1)]
    fn block_sparse<H, S, T, D>(
        q: Tensor<f32, H, S, D>, k: Tensor<f32, H, T, D>, v: Tensor<f32, H, T, D>, scale: f32, block: i64,
    ) -> Tensor<f32, H, S, D> {
        let seen = (index(S) / block) % 2 == (index(T) / block) % 2;
        select(seen, q.dot(k, D) * scale, f32::NEG_INFINITY).softmax(T).dot(v, T)
    }
}

const D: usize = 64;
/// Rows and streamed positions of a tile.
const TILE: usize = 256;

struct Inputs {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    tensors: [Tensor<f32, 3>; 3],
}

fn inputs(n: usize) -> Result<Inputs, Error> {
    let (q, k, v) = (numbers::values(n * D, 1), numbers::values(n * D, 2), numbers::values(n * D, 3));
    let put = |x: &Vec<f32>| Tensor::from_vec(x.clone(), [1, n, D], &Device::cpu());
    Ok(Inputs { tensors: [put(&q)?, put(&k)?, put(&v)?], q, k, v })
}

/// A row of attention in f64.
fn row(inputs: &Inputs, i: usize, seen: impl Fn(usize) -> bool) -> Vec<f64> {
    let keys: Vec<usize> = (0..inputs.k.len() / D).filter(|j| seen(*j)).collect();
    let score = |j: &usize| -> f64 {
        (0..D).map(|c| f64::from(inputs.q[i * D + c]) * f64::from(inputs.k[j * D + c])).sum::<f64>() * 0.125
    };
    let scores: Vec<f64> = keys.iter().map(score).collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|x| (x - max).exp()).sum();
    let weigh = |c: usize| {
        keys.iter().zip(&scores).map(|(j, x)| (x - max).exp() / sum * f64::from(inputs.v[j * D + c])).sum()
    };
    (0..D).map(weigh).collect()
}

#[track_caller]
fn check_rows(inputs: &Inputs, got: &[f32], rows: &[usize], seen: impl Fn(usize, usize) -> bool) {
    for &i in rows {
        for (c, want) in row(inputs, i, |j| seen(i, j)).into_iter().enumerate() {
            let got = f64::from(got[i * D + c]);
            assert!(
                (got - want).abs() <= 1e-5 * (1.0 + want.abs()),
                "row {i}, column {c}: {got}, not {want}"
            );
        }
    }
}

/// No scores in memory: at most 2 MiB for each thread beside inputs and outputs, at every length. The buffer that the crate of
/// the multiplication keeps for each thread, whatever is multiplied, is there before.
#[test]
fn scores_are_never_stored() -> Result<(), Error> {
    let _alone = ONE_AT_A_TIME.lock();
    let small = inputs(32)?;
    let [q, k, v] = &small.tensors;
    rayon::broadcast(|_| attention(q, k, v, 0.125).map(|_| ())).into_iter().collect::<Result<(), Error>>()?;
    for n in [1 << 10, 1 << 12, 1 << 14] {
        let inputs = inputs(n)?;
        let [q, k, v] = &inputs.tensors;
        let (y, more) = allocations::peak(|| attention(q, k, v, 0.125));
        let y = y?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let allowed = y.len() * 4 + threads * (2 << 20);
        assert!(more <= allowed, "{more} bytes more at length {n}, {allowed} allowed");
        check_rows(&inputs, &y.to_vec()?, &[0, 1, n / 3, n / 2 + 7, n - 1], |_, _| true);
    }
    Ok(())
}

/// The tiles that a call computes.
fn count(call: impl FnOnce() -> Result<Tensor<f32, 3>, Error>) -> Result<(u64, Vec<f32>), Error> {
    let before = fuse::__private::count_tiles();
    let y = call()?.to_vec()?;
    Ok((fuse::__private::count_tiles() - before, y))
}

/// Of tiles that a mask excludes as a whole none is computed.
#[test]
fn excluded_tiles_are_passed_over() -> Result<(), Error> {
    let _alone = ONE_AT_A_TIME.lock();
    let n = 8;
    let inputs = inputs(n * TILE)?;
    let [q, k, v] = &inputs.tensors;
    let rows = [0, 1, TILE - 1, TILE, 3 * TILE + 100, n * TILE - 1];

    let (tiles, y) = count(|| attention(q, k, v, 0.125))?;
    assert_eq!(tiles, (n * n) as u64);
    check_rows(&inputs, &y, &rows, |_, _| true);

    let (tiles, y) = count(|| causal(q, k, v, 0.125))?;
    assert_eq!(tiles, (n * (n + 1) / 2) as u64);
    check_rows(&inputs, &y, &rows, |i, j| j <= i);

    // A window of less than a tile reaches into the neighbours.
    let (tiles, y) = count(|| windowed(q, k, v, 0.125, 100))?;
    assert_eq!(tiles, (3 * n - 2) as u64);
    check_rows(&inputs, &y, &rows, |i, j| i.abs_diff(j) < 100);

    let (tiles, y) = count(|| block_sparse(q, k, v, 0.125, 2 * TILE as i64))?;
    assert_eq!(tiles, (n * n / 2) as u64);
    check_rows(&inputs, &y, &rows, |i, j| i / (2 * TILE) % 2 == j / (2 * TILE) % 2);
    Ok(())
}
