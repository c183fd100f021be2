//! The CPU engine over sizes, layouts and threads: every schedule kind, at the edges of lanes, tiles and chunks.
//!
//! `verify()` runs the version of every instruction set that the processor has and compares it with the reference
//! evaluator bit for bit, so these tests only choose kernels and sizes. What a verification does not vary, the memory
//! layout of arguments and the number of threads, is compared here: the bits may depend on neither.

#[path = "support/devices.rs"]
mod devices;
#[path = "support/numbers.rs"]
mod numbers;
#[path = "support/threads.rs"]
mod threads;

use devices::{device, on_every_device};
use fuse::{Error, Tensor, fuse};
use threads::with_threads;

fuse! {
    #[kernel]
    fn affine<M, N>(x: Tensor<f32, M, N>, b: Tensor<f32, N>, s: f32) -> Tensor<f32, M, N> {
        (x * s + b).max(0.0) - x
    }

    #[kernel]
    fn to_columns<M, N>(x: Tensor<f32, M, N>, y: Tensor<f32, N, M>) -> Tensor<f32, N, M> { x - y * 2.0 }

    #[kernel]
    fn centre_rows<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M, N>, Tensor<f32, M>) {
        let centred = x - x.mean(N);
        let largest = x.max(N);
        (centred * largest, centred.square().sum(N))
    }

    #[kernel]
    fn centre_columns<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M, N>, Tensor<f32, N>) {
        let least = x.min(M);
        (x - least, x.sum(M))
    }

    #[kernel]
    fn total<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32>, Tensor<f32>) { (x.sum((M, N)), x.max((M, N))) }

    #[kernel]
    fn sum<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.sum(N) }

    #[kernel]
    fn greatest<N>(x: Tensor<i32, N>) -> Tensor<i32> { x.max(N) }

    #[kernel]
    fn softmax_rows<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.softmax(N) }

    #[kernel]
    fn first_extremes<M, N>(x: Tensor<f32, M, N>) -> (Tensor<i64, M>, Tensor<i64, N>) {
        (x.argmax(N), x.argmin(M))
    }

    #[kernel]
    fn halves<M, N>(x: Tensor<f16, M, N>) -> (Tensor<f16, N, M>, Tensor<f32, M>) {
        ((x * 0.3) as f16, x.sum(N))
    }

    #[kernel]
    fn running<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.cumsum(N) * 0.5 }

    #[kernel]
    fn mirrored<M, N, const P: usize = { N + 3 }>(x: Tensor<f32, M, N>) -> Tensor<f32, M, P> {
        let padded = x.pad(N, 1, 2, P, fill = 7.0);
        padded + padded.reverse(P)
    }

    #[kernel]
    fn heads_to_features<M, H, D, const F: usize = { H * D }>(x: Tensor<f32, H, M, D>) -> Tensor<f32, M, F> {
        x.merge((H, D), F) * 2.0
    }

    #[kernel]
    fn pixels<H, W, const C: usize = 3>(x: Tensor<f32, H, W, C>, gain: Tensor<f32, C>) -> Tensor<f32, H, W, C> {
        x * gain
    }

    #[kernel]
    fn lower_triangle<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M, N>, Tensor<bool, M>) {
        let y = select(index(M) >= index(N), x, 0.0);
        (y, (y > 0.0).any(N))
    }

    #[kernel]
    fn copies_of_numbers(x: Tensor<bool>, y: Tensor<f32>) -> (Tensor<bool>, Tensor<f32>) { (x, y) }

    #[kernel]
    fn decay<M, N>(p: &mut Tensor<f32, M, N>, g: Tensor<f32, N>) { *p -= g * p; }

    #[kernel]
    fn without_axes(x: Tensor<f32>, count: &mut Tensor<i64>, s: f32) -> (Tensor<f32>, Tensor<f32>, Tensor<f16>) {
        *count += 1;
        (x * s + 1.0, s, x as f16)
    }

    #[kernel]
    fn beside_one_element<N>(x: Tensor<f32>, y: Tensor<f32, N>) -> (Tensor<f32>, Tensor<f32, N>) {
        (x + 1.0, y * x)
    }

    #[kernel]
    fn alternate_axes<A, B, C, D>(x: Tensor<f32, A, B, C, D>) -> (Tensor<f32, B, D>, Tensor<f32, A, C>) {
        (x.sum((A, C)), x.sum((B, D)))
    }

    #[reduce(identity = (0.0, f32::NEG_INFINITY))]
    fn sum_and_largest(a: (f32, f32), b: (f32, f32)) -> (f32, f32) { (a.0 + b.0, maximum(a.1, b.1)) }

    #[kernel]
    fn reduced_pairs<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M>, Tensor<f32, M>) {
        (x, x.abs()).reduce(N, sum_and_largest)
    }

    #[reduce(identity = 0.5)]
    fn add_to_half(a: f32, b: f32) -> f32 { a + b }

    #[kernel]
    fn sums_from_half<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> { x.reduce(N, add_to_half) }
}

/// Sizes at the edges of lanes (64), tiles (2048) and chunks (4096).
const EDGES: [usize; 10] = [0, 1, 3, 63, 64, 65, 127, 4095, 4096, 4097];

macro_rules! verify_at_edges {
    ($($test:ident: $kernel:ident($long:literal, $short:literal);)*) => {$(
        #[test]
        fn $test() -> Result<(), Error> {
            let mut verification = $kernel::verify();
            for n in EDGES {
                verification = verification.sizes(&[($long, n), ($short, 3)]);
            }
            verification.run()?;
            Ok(())
        }
    )*};
}

verify_at_edges! {
    affine_over_long_rows: affine("N", "M");
    affine_over_many_rows: affine("M", "N");
    transposes_of_wide_matrices: to_columns("N", "M");
    transposes_of_tall_matrices: to_columns("M", "N");
    rows_of_every_length: centre_rows("N", "M");
    many_short_rows: centre_rows("M", "N");
    columns_of_every_height: centre_columns("M", "N");
    many_low_columns: centre_columns("N", "M");
    totals: total("N", "M");
    softmax_of_long_rows: softmax_rows("N", "M");
    softmax_of_many_rows: softmax_rows("M", "N");
    extremes_of_wide_matrices: first_extremes("N", "M");
    extremes_of_tall_matrices: first_extremes("M", "N");
    half_precision_rows: halves("N", "M");
    half_precision_columns: halves("M", "N");
    running_sums: running("N", "M");
    running_sums_of_many_rows: running("M", "N");
    padding_and_mirrors: mirrored("N", "M");
    merged_axes: heads_to_features("D", "H");
    merged_axes_of_many_heads: heads_to_features("H", "D");
    three_channels: pixels("W", "H");
    masks_of_wide_matrices: lower_triangle("N", "M");
    masks_of_tall_matrices: lower_triangle("M", "N");
    in_place: decay("N", "M");
    reductions_of_pairs: reduced_pairs("N", "M");
    reductions_of_many_pairs: reduced_pairs("M", "N");
}

/// The reduction tree of language.md over a whole tensor: chunks of 4096 in 64 strided lanes that are folded by halving, the
/// chunks in adjacent pairs.
fn reduce<T: Copy>(x: &[T], identity: T, combine: impl Fn(T, T) -> T + Copy) -> T {
    let chunk = |x: &[T]| {
        let mut lanes = [identity; 64];
        for (i, &v) in x.iter().enumerate() {
            lanes[i % 64] = combine(lanes[i % 64], v);
        }
        for half in [32, 16, 8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] = combine(lanes[i], lanes[i + half]);
            }
        }
        lanes[0]
    };
    let mut level: Vec<T> = x.chunks(4096).map(chunk).collect();
    while level.len() > 1 {
        level = level
            .chunks(2)
            .map(|pair| match *pair {
                [left, right] => combine(left, right),
                _ => pair[0],
            })
            .collect();
    }
    level.first().copied().unwrap_or(identity)
}

/// Long rows in memory are read two chunks at a time, which is no other order: the same bits.
#[test]
fn chunks_that_are_read_in_pairs_keep_their_tree() -> Result<(), Error> {
    let device = device();
    for n in [4096, 8191, 8192, 8193, 3 * 4096, 5 * 4096 + 7, 16 * 4096, 1_000_003] {
        let x = numbers::values(n, 7);
        let tensor = Tensor::from_vec(x.clone(), [n], &device)?;
        let total = reduce(&x, 0.0, |a, b| a + b);
        assert_eq!(sum(&tensor)?.to_vec()?[0].to_bits(), total.to_bits(), "sum of {n}");
        let x: Vec<i32> = x.iter().map(|v| v.to_bits() as i32).collect();
        let tensor = Tensor::from_vec(x.clone(), [n], &device)?;
        assert_eq!(greatest(&tensor)?.to_vec()?, [reduce(&x, i32::MIN, i32::max)], "greatest of {n}");
    }
    Ok(())
}

#[test]
fn numbers_are_copied() -> Result<(), Error> {
    let device = device();
    for flag in [true, false] {
        let (x, y) = copies_of_numbers(&Tensor::scalar(flag, &device)?, &Tensor::scalar(1.5, &device)?)?;
        assert_eq!((x.item()?, y.item()?), (flag, 1.5));
    }
    copies_of_numbers::verify().run()?;
    Ok(())
}

fn numbers<const R: usize>(shape: [usize; R]) -> Result<Tensor<f32, R>, Error> {
    let count: usize = shape.iter().product();
    let data = (0..count).map(|k| ((k * 7919) % 1009) as f32 / 97.0 - 5.0).collect();
    Tensor::from_vec(data, shape, &device())
}

/// The same elements as a matrix of row-major memory, but laid out otherwise: transposed, with gaps between the rows, and
/// every second element of a larger one.
fn other_layouts(x: &Tensor<f32, 2>) -> Result<Vec<Tensor<f32, 2>>, Error> {
    let ([m, n], data, device) = (x.shape(), x.to_vec()?, device());
    let element = |i: usize, j: usize| if i < m && j < n { data[i * n + j] } else { -77.0 };
    let fill = |rows: usize, columns: usize, of: &dyn Fn(usize, usize) -> f32| {
        let all = (0..rows * columns).map(|k| of(k / columns.max(1), k % columns.max(1))).collect();
        Tensor::from_vec(all, [rows, columns], &device)
    };
    Ok(vec![
        fill(n, m, &|i, j| element(j, i))?.transpose(0, 1)?,
        fill(m + 2, n + 5, &|i, j| if i < 1 || j < 2 { -77.0 } else { element(i - 1, j - 2) })?
            .slice((1..m + 1, 2..n + 2))?,
        fill(m, 2 * n, &|i, j| if j % 2 == 0 { element(i, j / 2) } else { -77.0 })?.step_by(1, 2)?,
    ])
}

fn bits(x: &Tensor<f32, 2>) -> Result<Vec<u32>, Error> {
    Ok(x.to_vec()?.into_iter().map(f32::to_bits).collect())
}

#[test]
fn results_do_not_depend_on_the_layout_of_arguments() -> Result<(), Error> {
    for shape in [[1, 1], [3, 65], [65, 3], [70, 130], [2, 4097], [4097, 2]] {
        let x = numbers(shape)?;
        let b = numbers([shape[1]])?;
        for other in other_layouts(&x)? {
            assert_eq!(bits(&affine(&x, &b, 0.5)?)?, bits(&affine(&other, &b, 0.5)?)?, "{shape:?}");
            assert_eq!(bits(&centre_rows(&x)?.0)?, bits(&centre_rows(&other)?.0)?, "{shape:?}");
            assert_eq!(bits(&centre_columns(&x)?.0)?, bits(&centre_columns(&other)?.0)?, "{shape:?}");
            assert_eq!(bits(&running(&x)?)?, bits(&running(&other)?)?, "{shape:?}");
            assert_eq!(total(&x)?.0.item()?.to_bits(), total(&other)?.0.item()?.to_bits(), "{shape:?}");
            assert_eq!(first_extremes(&x)?.0.to_vec()?, first_extremes(&other)?.0.to_vec()?, "{shape:?}");
            let y = x.transpose(0, 1)?;
            assert_eq!(
                bits(&to_columns(&x, &y)?)?,
                bits(&to_columns(&other, &other.transpose(0, 1)?)?)?,
                "{shape:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn results_do_not_depend_on_threads() -> Result<(), Error> {
    // Large enough that several threads are worth it, and few rows or columns enough that chunks are split over them.
    for shape in [[300, 5000], [3, 600_000], [600_000, 3], [40_000, 40]] {
        let x = numbers(shape)?;
        let one = with_threads(1, || centre_rows(&x))?;
        let four = with_threads(4, || centre_rows(&x))?;
        assert_eq!(bits(&one.0)?, bits(&four.0)?, "rows of {shape:?}");
        let one = with_threads(1, || centre_columns(&x))?;
        let four = with_threads(4, || centre_columns(&x))?;
        assert_eq!(bits(&one.0)?, bits(&four.0)?, "columns of {shape:?}");
        let one = with_threads(1, || total(&x))?;
        let four = with_threads(4, || total(&x))?;
        assert_eq!(one.0.item()?.to_bits(), four.0.item()?.to_bits(), "the total of {shape:?}");
    }
    Ok(())
}

fuse! {
    #[kernel(test)]
    fn pass_through(p: Tensor<bool>, q: Tensor<f32>) -> (Tensor<bool>, Tensor<f32>, Tensor<f32>) { (p, q, q * 2.0 + 1.0) }
}

#[test]
fn kernels_of_rank_zero_store_what_they_load() -> Result<(), Error> {
    let device = device();
    let (p, q) = (Tensor::scalar(true, &device)?, Tensor::scalar(3.5, &device)?);
    let (same, number, twice) = pass_through(&p, &q)?;
    assert_eq!((same.item()?, number.item()?, twice.item()?), (true, 3.5, 8.0));
    Ok(())
}

#[test]
fn kernels_without_axes() -> Result<(), Error> {
    let device = device();
    let mut count = Tensor::scalar(i64::MAX, &device)?;
    let (scaled, s, half) = without_axes(&Tensor::scalar(3.0, &device)?, &mut count, 0.5)?;
    assert_eq!((scaled.item()?, s.item()?, half.item()?.to_f32()), (2.5, 0.5, 3.0));
    assert_eq!(count.item()?, i64::MIN);
    without_axes::verify().run()?;
    for n in [0, 1, 3] {
        let (one, many) = beside_one_element(&Tensor::scalar(3.0, &device)?, &numbers([n])?)?;
        assert_eq!(one.item()?, 4.0);
        assert_eq!(many.to_vec()?, numbers([n])?.to_vec()?.iter().map(|y| y * 3.0).collect::<Vec<_>>());
    }
    Ok(())
}

#[test]
fn sums_over_several_axes_of_nothing() -> Result<(), Error> {
    for shape in [[2, 3, 0, 4], [0, 3, 2, 4], [2, 0, 3, 2], [2, 3, 4, 0], [0, 0, 2, 3], [0, 0, 0, 0]] {
        let (b_d, a_c) = alternate_axes(&numbers(shape)?)?;
        assert_eq!(bits(&b_d)?, vec![0; shape[1] * shape[3]], "{shape:?}");
        assert_eq!(bits(&a_c)?, vec![0; shape[0] * shape[2]], "{shape:?}");
    }
    Ok(())
}

fuse! {
    #[kernel]
    fn unchanged<N>(x: Tensor<f8e5m2, N>) -> (Tensor<f8e5m2, N>, Tensor<f8e5m2, N>) { (x, x.reverse(N)) }
}

#[test]
fn infinities_of_f8e5m2_stay_where_no_cast_is_written() -> Result<(), Error> {
    let bits: Vec<u8> = (0..=255).collect();
    let data: Vec<fuse::F8E5M2> = bits.iter().map(|&b| fuse::F8E5M2::from_bits(b)).collect();
    let (same, reversed) = unchanged(&Tensor::from_vec(data, [256], &device())?)?;
    // Of the NaNs only the kind is kept.
    let class = |b: u8| if b & 0x7f > 0x7c { 0x7f } else { b };
    let got = |x: Tensor<fuse::F8E5M2, 1>| -> Result<Vec<u8>, Error> {
        Ok(x.to_vec()?.into_iter().map(|x| class(x.to_bits())).collect())
    };
    assert_eq!(got(same)?, bits.iter().map(|&b| class(b)).collect::<Vec<_>>());
    assert_eq!(got(reversed)?, bits.iter().rev().map(|&b| class(b)).collect::<Vec<_>>());
    Ok(())
}

/// An identity that is not neutral shows how many accumulators there are: always 64, whatever the layout and length.
#[test]
fn a_users_reducer_starts_in_every_lane() -> Result<(), Error> {
    for n in [1, 3, 15, 16, 40, 64, 100] {
        let data: Vec<f32> = (0..5 * n).map(|k| (k % 7) as f32).collect();
        let want: Vec<f32> = data.chunks(n).map(|row| row.iter().sum::<f32>() + 32.0).collect();
        let rows = Tensor::<f32, 2>::from_vec(data.clone(), [5, n], &device())?;
        assert_eq!(sums_from_half(&rows)?.to_vec()?, want, "rows of {n}");
        let columns: Vec<f32> = (0..5 * n).map(|k| data[k % 5 * n + k / 5]).collect();
        let columns = Tensor::<f32, 2>::from_vec(columns, [n, 5], &device())?;
        assert_eq!(sums_from_half(&columns.transpose(0, 1)?)?.to_vec()?, want, "columns of {n}");
    }
    Ok(())
}

on_every_device!(
    numbers_are_copied,
    results_do_not_depend_on_the_layout_of_arguments,
    kernels_of_rank_zero_store_what_they_load,
    kernels_without_axes,
    sums_over_several_axes_of_nothing,
    infinities_of_f8e5m2_stay_where_no_cast_is_written,
    a_users_reducer_starts_in_every_lane,
);
