//! Faults that other fusion compilers shipped, each as a small case with the right answer. [`CASES`] has a row for each
//! kind: the test here that shows it, or why it waits.

#[path = "support/devices.rs"]
mod devices;
use devices::{device, on_every_device};
use fuse::{Error, Tensor, bf16, f16, fuse};

/// A row of the list.
enum Case {
    /// The tests that show it.
    Shown(&'static [&'static str]),
    /// What it needs that the language does not have yet.
    Waits(&'static str),
}

use Case::{Shown, Waits};

const CASES: [(&str, Case); 28] = [
    ("in place, index-unequal", Shown(&["in_place_reads_old_values_where_indices_differ"])),
    ("in place, two readers", Shown(&["in_place_beside_a_reader_of_the_old_value"])),
    ("in place that never happens", Shown(&["in_place_reuse_is_recorded"])),
    ("broadcast axis", Shown(&["vectors_of_one_length_land_on_their_axes"])),
    ("epilogue on a vector product", Shown(&["an_epilogue_on_a_vector_product_is_right_in_every_row"])),
    ("two branches, broadcast operands", Shown(&["two_branches_with_broadcast_operands"])),
    (
        "scatter/reduce then gather",
        Shown(&["a_sum_is_complete_before_it_is_read", "segment_sums_are_complete_before_they_are_gathered"]),
    ),
    ("gather after elementwise", Shown(&["a_gather_reads_what_elementwise_operations_give"])),
    ("nested concat and masks", Shown(&["nested_concat_and_masks"])),
    ("dropout", Shown(&["dropout_mask_has_no_pattern_and_replays"])),
    ("NaN in max/min/clamp", Shown(&["nan_in_max_min_and_clamp"])),
    ("narrow accumulation", Shown(&["narrow_types_accumulate_wide"])),
    ("integers", Shown(&["integers_are_64_bit_where_indices_are_and_wrap"])),
    ("rounding policy", Shown(&["narrow_types_compute_in_f32"])),
    ("variance by cancellation", Shown(&["variance_does_not_cancel"])),
    ("zero size and rank 0", Shown(&["zero_sizes_and_rank_zero", "maximum_of_an_empty_axis_is_an_error"])),
    ("index and grid limits", Shown(&["offsets_past_32_bits", "seventy_thousand_rows"])),
    ("strides, offsets, padding", Shown(&["strided_views_are_read_as_they_lie"])),
    ("idle threads in reductions", Shown(&["softmax_of_odd_lengths_repeats_bit_for_bit"])),
    ("too much fusion", Shown(&["a_long_chain_with_many_live_values"])),
    ("stale cache", Waits("nothing is cached on disk before there is a CUDA backend")),
    ("masked attention", Shown(&["softmax_of_masked_rows"])),
    ("zero-length attention", Shown(&["attention_over_no_queries_and_no_keys"])),
    ("epilogue and split accumulation", Shown(&["an_epilogue_is_applied_once_however_long_the_sum"])),
    ("user logic", Shown(&["logic_short_circuits"])),
    ("library functions", Shown(&["library_functions_at_their_edges"])),
    ("type confusion", Shown(&["type_confusion_is_a_compile_error"])),
    ("one bad launch", Shown(&["a_failing_call_does_not_harm_the_next"])),
];

#[test]
fn every_case_is_shown_or_waits() {
    let source = include_str!("cases.rs");
    let mut shown = 0;
    for (kind, case) in &CASES {
        match case {
            Shown(tests) => {
                for test in *tests {
                    assert!(source.contains(&format!("#[test]\nfn {test}()")), "{kind}: no test `{test}`");
                }
                shown += 1;
            }
            Waits(reason) => assert!(!reason.is_empty(), "{kind}"),
        }
    }
    assert_eq!((shown, CASES.len()), (27, 28));
}

fn cpu<T: fuse::Element, const R: usize>(data: Vec<T>, shape: [usize; R]) -> Result<Tensor<T, R>, Error> {
    Tensor::from_vec(data, shape, &device())
}

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 * 0.25 - 3.0).collect()
}

fuse! {
    #[kernel]
    fn reverse_in_place<N>(a: &mut Tensor<f32, N>) { *a = a.reverse(N); }

    #[kernel]
    fn add_transpose<N, M, T>(x: &mut Tensor<f32, N, M>) {
        *x = x + x.rename(N, T).rename(M, N).rename(T, M);
    }

    #[kernel]
    fn double_shifted<N, const P: usize = { N - 1 }>(x: &mut Tensor<f32, N>) {
        x.slice(N, 1, P) = 2.0 * x.slice(N, 0, P);
    }

    #[kernel]
    fn relu_and_old<A, B, C>(t0: &mut Tensor<f32, B, C>, t1: Tensor<f32, A, B, C>) -> Tensor<f32, A, B, C> {
        let sum = t0 + t1;
        *t0 = relu(t0);
        sum
    }

    #[kernel(launches = 1)]
    fn affine_in_place<N>(x: &mut Tensor<f32, N>) { *x = x * 2.0 + 1.0; }
}

#[test]
fn in_place_reads_old_values_where_indices_differ() -> Result<(), Error> {
    let n = 1 << 20;
    let mut a = cpu((0..n).map(|i| i as f32).collect(), [n])?;
    reverse_in_place(&mut a)?;
    assert!(a.to_vec()?.into_iter().enumerate().all(|(i, x)| x == (n - 1 - i) as f32));

    let mut x = cpu(ramp(49), [7, 7])?;
    let old = x.to_vec()?;
    add_transpose(&mut x)?;
    let want: Vec<f32> = (0..49).map(|i| old[i] + old[i % 7 * 7 + i / 7]).collect();
    assert_eq!(x.to_vec()?, want);

    let mut x = cpu(ramp(1001), [1001])?;
    let old = x.to_vec()?;
    double_shifted(&mut x)?;
    let want: Vec<f32> = (0..1001).map(|i| if i == 0 { old[0] } else { 2.0 * old[i - 1] }).collect();
    assert_eq!(x.to_vec()?, want);
    Ok(())
}

#[test]
fn in_place_beside_a_reader_of_the_old_value() -> Result<(), Error> {
    let mut t0 = cpu(ramp(20), [10, 2])?;
    let t1 = cpu(ramp(40), [2, 10, 2])?;
    let old = t0.to_vec()?;
    let sum = relu_and_old(&mut t0, &t1)?;
    let want: Vec<f32> = ramp(40).iter().enumerate().map(|(i, t1)| old[i % 20] + t1).collect();
    assert_eq!(sum.to_vec()?, want);
    assert_eq!(t0.to_vec()?, old.iter().map(|x| x.max(0.0)).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn in_place_reuse_is_recorded() -> Result<(), Error> {
    assert_eq!(affine_in_place::plan().in_place.len(), 1, "{}", affine_in_place::plan());
    let mut x = cpu(ramp(100), [100])?;
    affine_in_place(&mut x)?;
    assert_eq!(x.to_vec()?, ramp(100).iter().map(|x| x * 2.0 + 1.0).collect::<Vec<_>>());
    Ok(())
}

fuse! {
    fn batch_norm_of<C>(x: Tensor<f32, C>, m: Tensor<f16, C>, v: Tensor<f16, C>, g: Tensor<f16, C>, b: Tensor<f16, C>) -> Tensor<f32, C> {
        (x - m) / (v + 1e-5).sqrt() * g + b
    }

    #[kernel(launches = 1)]
    fn two_branches<B, C, H, W>(
        x: Tensor<f16, B, C, H, W>, y: Tensor<f16, B, C, H, W>,
        m: Tensor<f16, C>, v: Tensor<f16, C>, g: Tensor<f16, C>, b: Tensor<f16, C>,
    ) -> (Tensor<f16, B, C, H, W>, Tensor<f16, B, C, H, W>) {
        (batch_norm_of(x as f32, m, v, g, b) as f16, batch_norm_of(y as f32, m, v, g, b) as f16)
    }
}

#[test]
fn two_branches_with_broadcast_operands() -> Result<(), Error> {
    let (batch, channels, side) = (2, 256, 16);
    let n = batch * channels * side * side;
    let make = |n: usize, scale: f32, shift: f32| -> Vec<f16> {
        (0..n).map(|i| f16::from_f32((i * 7919 % 1009) as f32 / 1009.0 * scale + shift)).collect()
    };
    let (x, y) = (make(n, 4.0, -2.0), make(n, 3.0, -1.0));
    let (m, v, g, b) = (
        make(channels, 1.0, 0.0),
        make(channels, 1.0, 0.5),
        make(channels, 2.0, -1.0),
        make(channels, 1.0, -0.5),
    );
    let shape = [batch, channels, side, side];
    let per_channel = |data: &[f16]| cpu(data.to_vec(), [channels]);
    let (got_x, got_y) = two_branches(
        &cpu(x.clone(), shape)?,
        &cpu(y.clone(), shape)?,
        &per_channel(&m)?,
        &per_channel(&v)?,
        &per_channel(&g)?,
        &per_channel(&b)?,
    )?;
    for (input, got) in [(x, got_x), (y, got_y)] {
        for (i, got) in got.to_vec()?.into_iter().enumerate() {
            let c = i / (side * side) % channels;
            let want = (input[i].to_f32() - m[c].to_f32()) / (v[c].to_f32() + 1e-5).sqrt() * g[c].to_f32()
                + b[c].to_f32();
            assert_eq!(got, f16::from_f32(want), "element {i}");
        }
    }
    Ok(())
}

fuse! {
    #[kernel]
    fn share_of_total<N>(f: Tensor<f32, N>) -> Tensor<f32, N> { f / f.sum(N) }
}

#[test]
fn a_sum_is_complete_before_it_is_read() -> Result<(), Error> {
    for n in [1024, 100_000] {
        let got = share_of_total(&cpu(vec![1.0; n], [n])?)?;
        assert!(got.to_vec()?.into_iter().all(|x| x == 1.0 / n as f32), "{n}");
    }
    Ok(())
}

fuse! {
    #[kernel]
    fn share_of_segment<N, S>(f: Tensor<f32, N>, id: Tensor<i64, N>, segments: Axis<S>) -> Tensor<f32, N> {
        let sums = select(id == index(S), f, 0.0).sum(N);
        f / sums.gather(S, id)
    }
}

#[test]
fn segment_sums_are_complete_before_they_are_gathered() -> Result<(), Error> {
    let got = share_of_segment(&cpu(vec![1.0; 1024], [1024])?, &cpu(vec![0; 1024], [1024])?, 1)?.to_vec()?;
    assert_eq!(got, vec![1.0 / 1024.0; 1024]);
    let ids: Vec<i64> = (0..1000).map(|i| i * i % 7).collect();
    let got = share_of_segment(&cpu(vec![0.5; 1000], [1000])?, &cpu(ids.clone(), [1000])?, 7)?.to_vec()?;
    for (i, got) in got.into_iter().enumerate() {
        let members = ids.iter().filter(|id| **id == ids[i]).count();
        assert_eq!(got, 0.5 / (0.5 * members as f32), "element {i}");
    }
    Ok(())
}

fuse! {
    #[kernel(launches = 1)]
    fn row_after_increment<V, E>(x: Tensor<f16, V, E>, id: Tensor<i64>) -> Tensor<f16, E> {
        ((x + 1.0) as f16).gather(V, id)
    }

    #[kernel(launches = 1)]
    fn looked_up<V, E, N>(table: Tensor<f32, V, E>, ids: Tensor<i32, N>) -> Tensor<f32, N, E> {
        embedding::<V>(table, ids)
    }
}

#[test]
fn a_gather_reads_what_elementwise_operations_give() -> Result<(), Error> {
    let x = cpu((0..16).map(|i| f16::from_f32(i as f32)).collect(), [4, 4])?;
    let got = row_after_increment(&x, &cpu(vec![2], [])?)?.to_vec()?;
    assert_eq!(got, [9.0, 10.0, 11.0, 12.0].map(f16::from_f32));
    Ok(())
}

#[test]
fn an_index_out_of_range_is_the_error_of_its_call() -> Result<(), Error> {
    let table = cpu(ramp(12), [4, 3])?;
    let error = looked_up(&table, &cpu(vec![1, 4, -2], [3])?).expect_err("4 is out of range");
    let Error::Fault(fault) = &error else { panic!("{error}") };
    assert_eq!(fault.kernel, "looked_up");
    let text = error.to_string();
    for part in ["`V`", "4", "looked_up", "cases.rs"] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    let got = looked_up(&table, &cpu(vec![3, 0], [2])?)?.to_vec()?;
    assert_eq!(got, [ramp(12)[9..].to_vec(), ramp(12)[..3].to_vec()].concat());
    Ok(())
}

fuse! {
    #[kernel]
    fn masked_norm_and_rest<A, B, R, const N: usize = { A + B }, const P: usize = { N + R }>(
        x: Tensor<f32, N>, g: Tensor<f32, N>, v0: Tensor<bool, A>, v1: Tensor<bool, B>, r: Tensor<f32, R>,
    ) -> Tensor<f32, P> {
        let mask = concat(N, (v0, A), (v1, B));
        concat(P, (rms_norm(x * select(mask, 1.0, 0.0), g, 1e-6), N), (r, R))
    }
}

#[test]
fn nested_concat_and_masks() -> Result<(), Error> {
    let (a, b, r) = (5, 6, 4);
    let n = a + b;
    let mask: Vec<bool> = (0..n).map(|i| i % 3 != 1).collect();
    let (x, rest) = (ramp(n), ramp(r));
    let got = masked_norm_and_rest(
        &cpu(x.clone(), [n])?,
        &cpu(vec![1.0; n], [n])?,
        &cpu(mask[..a].to_vec(), [a])?,
        &cpu(mask[a..].to_vec(), [b])?,
        &cpu(rest.clone(), [r])?,
    )?
    .to_vec()?;
    let masked: Vec<f64> = x.iter().zip(&mask).map(|(&x, &m)| if m { x as f64 } else { 0.0 }).collect();
    let scale = 1.0 / (masked.iter().map(|x| x * x).sum::<f64>() / n as f64 + 1e-6).sqrt();
    for (i, got) in got.into_iter().enumerate() {
        let want = if i < n { masked[i] * scale } else { rest[i - n] as f64 };
        assert!((got as f64 - want).abs() < 1e-6, "element {i}: {got} instead of {want}");
    }
    Ok(())
}

fuse! {
    /// The mask of the transposed tensor twice: in the layout of the input and in its own.
    #[kernel]
    fn drop_transposed<A, B, C>(x: Tensor<f32, A, B, C>, seed: u64) -> (Tensor<f32, A, B, C>, Tensor<f32, C, A, B>) {
        let y = x.dropout(0.5, seed);
        (y, y)
    }

    #[kernel]
    fn drop_after<A, B, C>(x: Tensor<f32, A, B, C>, seed: u64) -> Tensor<f32, A, B, C> {
        (x + 1.0).dropout(0.5, seed).materialize() * 0.5
    }
}

#[test]
fn dropout_mask_has_no_pattern_and_replays() -> Result<(), Error> {
    let shape = [8, 64, 512];
    let n: usize = shape.iter().product();
    let x = cpu(vec![1.0; n], shape)?;
    let (plain, transposed) = drop_transposed(&x, 42)?;
    let mask: Vec<bool> = plain.to_vec()?.into_iter().map(|y| y != 0.0).collect();
    let other = transposed.to_vec()?;
    for (i, &kept) in mask.iter().enumerate() {
        let (ab, c) = (i / shape[2], i % shape[2]);
        assert_eq!(
            other[c * shape[0] * shape[1] + ab] != 0.0,
            kept,
            "the mask is keyed by the logical index"
        );
    }
    let equal = mask.windows(2).filter(|w| w[0] == w[1]).count() as f64 / n as f64;
    assert!((equal - 0.5).abs() < 0.005, "neighbours are equal in {equal}");
    let groups: Vec<&[bool]> = mask.chunks(4).collect();
    let repeated = groups.windows(2).filter(|w| w[0] == w[1]).count() as f64 / groups.len() as f64;
    assert!((repeated - 1.0 / 16.0).abs() < 0.005, "groups of four repeat in {repeated}");
    let again: Vec<bool> =
        drop_after(&cpu(vec![0.0; n], shape)?, 42)?.to_vec()?.into_iter().map(|y| y != 0.0).collect();
    assert!(again == mask, "another kernel draws the same mask");
    Ok(())
}

fuse! {
    #[op]
    fn clamp01(x: f32) -> f32 { x.clamp(0.0, 1.0) }

    #[op]
    fn one_max(x: f32) -> f32 { 1.0f32.max(x) }

    #[kernel(T = [f32, f16, bf16])]
    fn scalar_nan<T: Float, N>(x: Tensor<T, N>) -> (Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>) {
        (relu(x), clamp01(x), x.max(1.0), one_max(x), maximum(x, 1.0))
    }

    #[kernel(T = [f32, f16, bf16])]
    fn axis_nan<T: Float, N>(x: Tensor<T, N>) -> (Tensor<f32>, Tensor<f32>, Tensor<i64>) {
        (x.max(N), x.min(N), x.argmax(N))
    }
}

#[test]
fn nan_in_max_min_and_clamp() -> Result<(), Error> {
    let expect = |outputs: [Vec<f32>; 5]| {
        let [relu, clamp, max, one_max, maximum] = outputs;
        assert_eq!(relu[1], 0.0, "relu is `x.max(0.0)`, Rust's, which ignores NaN");
        assert!(clamp[1].is_nan());
        assert_eq!((max[1], one_max[1]), (1.0, 1.0));
        assert!(maximum[1].is_nan());
    };
    let (a, b, c, d, e) = scalar_nan(&cpu(vec![1.0f32, f32::NAN, 3.0], [3])?)?;
    expect([a.to_vec()?, b.to_vec()?, c.to_vec()?, d.to_vec()?, e.to_vec()?]);
    let half = |x: f32| f16::from_f32(x);
    let (a, b, c, d, e) = scalar_nan(&cpu(vec![half(1.0), half(f32::NAN), half(3.0)], [3])?)?;
    expect([a.to_vec()?, b.to_vec()?, c.to_vec()?, d.to_vec()?, e.to_vec()?]);
    let brain = |x: f32| bf16::from_f32(x);
    let (a, b, c, d, e) = scalar_nan(&cpu(vec![brain(1.0), brain(f32::NAN), brain(3.0)], [3])?)?;
    expect([a.to_vec()?, b.to_vec()?, c.to_vec()?, d.to_vec()?, e.to_vec()?]);

    let (max, min, arg) = axis_nan(&cpu(vec![1.0f32, f32::NAN, 3.0], [3])?)?;
    assert!(max.item()?.is_nan() && min.item()?.is_nan());
    assert_eq!(arg.item()?, 1, "the first NaN wins");
    Ok(())
}

fuse! {
    #[kernel(T = [f16, bf16])]
    fn narrow_sum<T: Float, N>(x: Tensor<T, N>) -> Tensor<T> { x.sum(N) as T }

    #[kernel]
    fn narrow_columns<N, M>(x: Tensor<bf16, N, M>) -> Tensor<bf16, M> { x.sum(N) as bf16 }

    #[kernel]
    fn narrow_mean<N>(x: Tensor<f16, N>) -> Tensor<f16> { x.mean(N) as f16 }
}

#[test]
fn narrow_types_accumulate_wide() -> Result<(), Error> {
    assert_eq!(narrow_sum(&cpu(vec![f16::ONE; 4096], [4096])?)?.item()?.to_f32(), 4096.0);
    assert_eq!(
        narrow_columns(&cpu(vec![bf16::ONE; 8192], [4096, 2])?)?.to_vec()?,
        vec![bf16::from_f32(4096.0); 2]
    );
    let big = [60000.0, 60000.0, -60000.0].map(f16::from_f32).to_vec();
    assert_eq!(narrow_sum(&cpu(big, [3])?)?.item()?, f16::from_f32(60000.0));
    assert_eq!(narrow_mean(&cpu(vec![f16::ONE; 65520], [65520])?)?.item()?, f16::ONE);
    Ok(())
}

fuse! {
    #[kernel]
    fn large_indices<N>(n: Axis<N>) -> Tensor<i64, N> { index(N) * 1_500_000_000 }

    #[kernel]
    fn add_integers<N>(x: Tensor<i32, N>, y: Tensor<i32, N>) -> Tensor<i32, N> { x + y }
}

#[test]
fn integers_are_64_bit_where_indices_are_and_wrap() -> Result<(), Error> {
    assert_eq!(large_indices(9)?.to_vec()?[8], 12_000_000_000);
    let x = cpu(vec![i32::MAX], [1])?;
    assert_eq!(add_integers(&x, &x)?.to_vec()?, [-2]);
    Ok(())
}

fuse! {
    #[kernel]
    fn scale_of<N>(x: Tensor<bf16, N>) -> Tensor<f32> { 448.0 / maximum(x.abs().max(N), 1e-12) }
}

#[test]
fn narrow_types_compute_in_f32() -> Result<(), Error> {
    let x = cpu([1.0, -4.28125, 2.0].map(bf16::from_f32).to_vec(), [3])?;
    assert_eq!(scale_of(&x)?.item()?, 448.0 / 4.28125);
    Ok(())
}

fuse! {
    #[kernel(launches = 1)]
    fn row_variance<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> { x.var(N) }
}

#[test]
fn variance_does_not_cancel() -> Result<(), Error> {
    let (m, n) = (3, 1000);
    let data: Vec<f32> = (0..m * n).map(|i| 10_000.0 + (i % 7) as f32 * 0.01).collect();
    let got = row_variance(&cpu(data.clone(), [m, n])?)?.to_vec()?;
    for (row, got) in data.chunks(n).zip(got) {
        let mean = row.iter().map(|&x| x as f64).sum::<f64>() / n as f64;
        let want = row.iter().map(|&x| (x as f64 - mean).powi(2)).sum::<f64>() / n as f64;
        assert!((got as f64 - want).abs() < 0.02 * want, "{got} instead of {want}");
    }
    Ok(())
}

fuse! {
    #[kernel]
    fn sum_second<A, B, C, D>(x: Tensor<f32, A, B, C, D>) -> Tensor<f32, A, C, D> { x.sum(B) }

    #[kernel]
    fn sum_middle<A, B, C>(x: Tensor<f32, A, B, C>) -> Tensor<f32, A, C> { x.sum(B) }

    #[kernel]
    fn max_last<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> { x.max(N) }

    #[kernel]
    fn times_one<N>(x: Tensor<f32, N>, y: Tensor<f32>) -> Tensor<f32, N> { x * y }

    #[kernel]
    fn sums_both_ways<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M>, Tensor<f32, N>) { (x.sum(N), x.sum(M)) }
}

#[test]
fn zero_sizes_and_rank_zero() -> Result<(), Error> {
    let y = sum_second(&cpu(vec![], [3, 4, 0, 5])?)?;
    assert_eq!((y.shape(), y.to_vec()?), ([3, 0, 5], vec![]));
    assert_eq!(sum_middle(&cpu(vec![], [3, 0, 2])?)?.to_vec()?, [0.0; 6]);
    let y = times_one(&cpu(vec![], [0])?, &cpu(vec![2.0], [])?)?;
    assert_eq!((y.shape(), y.to_vec()?), ([0], vec![]));
    let (rows, columns) = sums_both_ways(&cpu(vec![], [5, 0])?)?;
    assert_eq!((rows.to_vec()?, columns.shape()), (vec![0.0; 5], [0]));
    Ok(())
}

#[test]
fn maximum_of_an_empty_axis_is_an_error() -> Result<(), Error> {
    let error = max_last(&cpu(vec![], [3, 0])?).expect_err("there is no greatest of nothing").to_string();
    assert!(error.contains("max_last") && error.contains("max") && error.contains("`N`"), "{error}");
    Ok(())
}

fuse! {
    #[kernel]
    fn increment<N>(x: Tensor<u8, N>) -> Tensor<u8, N> { x + 1 }

    #[kernel]
    fn row_sums<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> { x.sum(N) }
}

#[test]
fn offsets_past_32_bits() -> Result<(), Error> {
    // Zeroed memory of this size is not touched by making it; the kernel reads its far end.
    let n = (1usize << 32) + 7;
    let x = Tensor::<u8, 1>::zeros([n], &device())?;
    let end = increment(&x.slice(n - 20..n)?)?;
    assert_eq!(end.to_vec()?, [1; 20]);
    Ok(())
}

#[test]
fn seventy_thousand_rows() -> Result<(), Error> {
    let got = row_sums(&cpu((0..140_000).map(|i| i as f32).collect(), [70_000, 2])?)?.to_vec()?;
    assert!(got.into_iter().enumerate().all(|(i, s)| s == (4 * i + 1) as f32));
    Ok(())
}

fuse! {
    #[kernel]
    fn scale_rows<M, N>(x: Tensor<f32, M, N>, s: Tensor<f32, M>) -> Tensor<f32, M, N> { x * s }

    #[kernel]
    fn add_five<A, B, C, D, E>(x: Tensor<f16, A, B, C, D, E>, y: Tensor<f16, A, B, C, D, E>) -> Tensor<f16, A, B, C, D, E> {
        (x + y) as f16
    }

    #[kernel]
    fn add_vector<M, N>(x: Tensor<f32, M, N>, y: Tensor<f32, M>) -> Tensor<f32, M, N> { x + y }
}

#[test]
fn strided_views_are_read_as_they_lie() -> Result<(), Error> {
    let x = cpu(ramp(80), [8, 10])?;
    let s = cpu(ramp(8), [8])?;
    let sliced = x.slice((0..8, 2..7))?;
    let want: Vec<f32> = (0..40).map(|i| ramp(80)[i / 5 * 10 + 2 + i % 5] * ramp(8)[i / 5]).collect();
    assert_eq!(scale_rows(&sliced, &s)?.to_vec()?, want);
    let twice = sliced.slice((1..6, 1..4))?;
    let want: Vec<f32> =
        (0..15).map(|i| ramp(80)[(i / 3 + 1) * 10 + 3 + i % 3] * ramp(8)[i / 3 + 1]).collect();
    assert_eq!(scale_rows(&twice, &s.slice(1..6)?)?.to_vec()?, want);

    let shape = [2, 3, 4, 5, 6];
    let data: Vec<f16> = (0..720).map(|i| f16::from_f32(i as f32)).collect();
    let x = cpu(data.clone(), shape)?;
    let mut turned = vec![f16::ZERO; 720];
    for (i, &value) in data.iter().enumerate() {
        // Axes 0 and 4 swapped.
        let at = [i / 360, i / 120 % 3, i / 30 % 4, i / 6 % 5, i % 6];
        turned[(((at[4] * 3 + at[1]) * 4 + at[2]) * 5 + at[3]) * 2 + at[0]] = value;
    }
    let y = cpu(turned, [6, 3, 4, 5, 2])?;
    let got = add_five(&x, &y.transpose(0, 4)?)?.to_vec()?;
    assert_eq!(got, data.iter().map(|x| f16::from_f32(2.0 * x.to_f32())).collect::<Vec<_>>());

    assert_eq!(
        add_vector(&cpu(vec![1.0, 2.0, 3.0], [3, 1])?, &cpu(vec![1.0; 3], [3])?)?.to_vec()?,
        [2.0, 3.0, 4.0]
    );
    Ok(())
}

fuse! {
    #[kernel(launches = 1)]
    fn row_softmax<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.softmax(N) }

    #[kernel(launches = 1)]
    fn causal_softmax<S, T>(x: Tensor<f32, S, T>, from: i64) -> Tensor<f32, S, T> {
        select(index(S) - from >= index(T), x, f32::NEG_INFINITY).softmax(T)
    }
}

#[test]
fn softmax_of_odd_lengths_repeats_bit_for_bit() -> Result<(), Error> {
    for n in [1, 31, 34, 1000] {
        let rows = 13;
        let data: Vec<f32> = (0..rows * n).map(|i| (i * 7919 % 1009) as f32 / 100.0 - 5.0).collect();
        let x = cpu(data.clone(), [rows, n])?;
        let first = row_softmax(&x)?.to_vec()?;
        for (row, got) in data.chunks(n).zip(first.chunks(n)) {
            let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max) as f64;
            let sum: f64 = row.iter().map(|&x| (x as f64 - max).exp()).sum();
            for (x, got) in row.iter().zip(got) {
                assert!((*got as f64 - (*x as f64 - max).exp() / sum).abs() < 1e-6);
            }
        }
        for _ in 0..100 {
            assert_eq!(row_softmax(&x)?.to_vec()?, first, "length {n}");
        }
    }
    Ok(())
}

#[test]
fn softmax_of_masked_rows() -> Result<(), Error> {
    for n in [1, 33, 96] {
        let data: Vec<f32> = (0..n * n).map(|i| (i * 31 % 17) as f32 / 4.0).collect();
        // Shifted by one, so that the first row admits nothing.
        let got = causal_softmax(&cpu(data, [n, n])?, 1)?.to_vec()?;
        for (s, row) in got.chunks(n).enumerate() {
            let sum: f32 = row.iter().sum();
            let want = if s == 0 { 0.0 } else { 1.0 };
            assert!((sum - want).abs() < 1e-5, "row {s} of {n} sums to {sum}");
            assert!(row[s..].iter().all(|&x| x == 0.0), "row {s} of {n} admits what is masked");
        }
    }
    Ok(())
}

#[test]
fn a_long_chain_with_many_live_values() -> Result<(), Error> {
    let n = 1000;
    let got = live_values(&cpu(ramp(n), [n])?)?.to_vec()?;
    for (x, got) in ramp(n).into_iter().zip(got) {
        assert_eq!(got, live_reference(x));
    }
    assert!(live_values::plan().launch_count() >= 1);
    Ok(())
}

/// A kernel and the same as a plain function: `count` values made one from the other, all alive until they are summed
/// from the first to the last.
macro_rules! live_values {
    ($first:ident; $($v:ident = $from:ident),*; $last:ident) => {
        fuse! {
            #[kernel]
            fn live_values<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
                let $first = x * 0.5;
                $(let $v = $from * 0.875 + 0.25;)*
                let total = $first;
                $(let total = total * 0.5 + $v * $last;)*
                total
            }
        }

        fn live_reference(x: f32) -> f32 {
            let $first = x * 0.5;
            $(let $v = $from * 0.875 + 0.25;)*
            let total = $first;
            $(let total = total * 0.5 + $v * $last;)*
            total
        }
    };
}

live_values! {
    v0; v1 = v0, v2 = v1, v3 = v2, v4 = v3, v5 = v4, v6 = v5, v7 = v6, v8 = v7, v9 = v8, v10 = v9, v11 = v10, v12 = v11,
    v13 = v12, v14 = v13, v15 = v14, v16 = v15, v17 = v16, v18 = v17, v19 = v18, v20 = v19, v21 = v20, v22 = v21,
    v23 = v22, v24 = v23, v25 = v24, v26 = v25, v27 = v26, v28 = v27, v29 = v28, v30 = v29, v31 = v30, v32 = v31,
    v33 = v32, v34 = v33, v35 = v34, v36 = v35, v37 = v36, v38 = v37, v39 = v38, v40 = v39, v41 = v40, v42 = v41,
    v43 = v42, v44 = v43, v45 = v44, v46 = v45, v47 = v46, v48 = v47, v49 = v48, v50 = v49, v51 = v50, v52 = v51,
    v53 = v52, v54 = v53, v55 = v54, v56 = v55, v57 = v56, v58 = v57, v59 = v58, v60 = v59, v61 = v60, v62 = v61,
    v63 = v62, v64 = v63; v64
}

fuse! {
    #[op]
    fn run_starts(i: i64, before: f32, here: f32) -> bool { i == 0 || before != here }

    #[op]
    fn guarded(i: i64, d: i64) -> bool { i == 0 || 12 / i > d }

    #[kernel]
    fn starts<N, const P: usize = { N + 1 }>(a: Tensor<f32, N>) -> Tensor<bool, N> {
        let before = a.pad(N, 1, 0, P, fill = 0.0).slice(P, 0, N);
        run_starts(index(N), before, a)
    }

    #[kernel]
    fn guarded_division<N>(n: Axis<N>) -> Tensor<bool, N> { guarded(index(N), 4) }
}

#[test]
fn logic_short_circuits() -> Result<(), Error> {
    let a = cpu(vec![0.0, 0.0, 1.0, 1.0, 2.0], [5])?;
    assert_eq!(starts(&a)?.to_vec()?, [true, false, true, false, true]);
    // Without the short circuit the division at 0 is a fault, hence an `Err`.
    assert_eq!(guarded_division(5)?.to_vec()?, [true, true, true, false, false]);
    Ok(())
}

fuse! {
    #[kernel]
    fn library<N>(x: Tensor<f32, N>) -> (Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<bool, N>) {
        (x.powi(2), x.exp(), x.tanh(), x.is_nan())
    }
}

#[test]
fn library_functions_at_their_edges() -> Result<(), Error> {
    let (squares, exps, tanhs, nans) = library(&cpu(vec![-2.0, f32::NEG_INFINITY, 1e4, f32::NAN], [4])?)?;
    assert_eq!(squares.to_vec()?[0], 4.0);
    assert_eq!(exps.to_vec()?[1], 0.0);
    assert_eq!(tanhs.to_vec()?[2], 1.0);
    assert_eq!(nans.to_vec()?, [false, false, false, true]);
    Ok(())
}

#[test]
fn type_confusion_is_a_compile_error() {
    let shown = include_str!("ui/mixed_dtypes.stderr");
    assert!(shown.contains("f32") && shown.contains("u32"), "{shown}");
}

fuse! {
    #[kernel]
    fn divide<N>(x: Tensor<i32, N>, y: Tensor<i32, N>) -> Tensor<i32, N> { x / y }
}

#[test]
fn a_failing_call_does_not_harm_the_next() -> Result<(), Error> {
    let x = cpu(vec![6, 7, 8], [3])?;
    let outcome = divide(&x, &cpu(vec![2, 0, 4], [3])?).and_then(|y| y.to_vec());
    let error = outcome.expect_err("a division by zero is a fault").to_string();
    assert!(error.contains("divide") && error.contains("zero"), "{error}");
    assert_eq!(divide(&x, &cpu(vec![2, 7, 4], [3])?)?.to_vec()?, [3, 1, 2]);
    let error = divide(&x, &cpu(vec![1; 4], [4])?).expect_err("`N` is 3 and 4").to_string();
    assert!(error.contains('3') && error.contains('4') && error.contains("`N`"), "{error}");
    assert_eq!(divide(&x, &x)?.to_vec()?, [1, 1, 1]);
    Ok(())
}

fuse! {
    #[kernel(launches = 1)]
    fn product_and_vectors<M, K, N>(
        a: Tensor<f32, M, K>, b: Tensor<f32, K, N>, rows: Tensor<f32, M>, columns: Tensor<f32, N>,
    ) -> (Tensor<f32, M, N>, Tensor<f32, M, N>) {
        let product = a.dot(b, K);
        (product + rows, product + columns)
    }

    #[kernel(launches = 1)]
    fn doubled_vector_product<M, K>(h: Tensor<f32, M, K>, v: Tensor<f32, K>) -> Tensor<f32, M> {
        let o = h.dot(v, K);
        o + o
    }

    #[kernel(launches = 1)]
    fn scaled_product_and_sum<M, K, N>(a: Tensor<f32, M, K>, b: Tensor<f32, K, N>, c: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
        2.0 * a.dot(b, K) + c
    }

    #[kernel]
    fn plain_attention<S, T, D>(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, D>) -> Tensor<f32, S, D> {
        q.dot(k, D).softmax(T).dot(v, T)
    }
}

#[test]
fn vectors_of_one_length_land_on_their_axes() -> Result<(), Error> {
    let n = 64;
    let mut identity = vec![0.0; n * n];
    (0..n).for_each(|i| identity[i * n + i] = 1.0);
    let a: Vec<f32> = ramp(n * n);
    let vector: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let (by_row, by_column) = product_and_vectors(
        &cpu(a.clone(), [n, n])?,
        &cpu(identity, [n, n])?,
        &cpu(vector.clone(), [n])?,
        &cpu(vector, [n])?,
    )?;
    for (at, (row, column)) in by_row.to_vec()?.into_iter().zip(by_column.to_vec()?).enumerate() {
        assert_eq!((row, column), (a[at] + (at / n) as f32, a[at] + (at % n) as f32));
    }
    Ok(())
}

#[test]
fn an_epilogue_on_a_vector_product_is_right_in_every_row() -> Result<(), Error> {
    for n in [4, 5, 17] {
        let (h, v) = (ramp(n * 3), vec![1.0, -2.0, 0.5]);
        let got = doubled_vector_product(&cpu(h.clone(), [n, 3])?, &cpu(v.clone(), [3])?)?.to_vec()?;
        for (row, got) in got.into_iter().enumerate() {
            let product: f32 = (0..3).map(|k| h[row * 3 + k] * v[k]).sum();
            assert_eq!(got, 2.0 * product, "row {row} of {n}");
        }
    }
    Ok(())
}

#[test]
fn an_epilogue_is_applied_once_however_long_the_sum() -> Result<(), Error> {
    for k in [1, 4096, 5000] {
        let ones = |shape: [usize; 2]| cpu(vec![1.0; shape[0] * shape[1]], shape);
        let got = scaled_product_and_sum(&ones([3, k])?, &ones([k, 5])?, &ones([3, 5])?)?.to_vec()?;
        assert_eq!(got, vec![2.0 * k as f32 + 1.0; 15]);
    }
    Ok(())
}

#[test]
fn attention_over_no_queries_and_no_keys() -> Result<(), Error> {
    let d = 4;
    let keys = cpu(ramp(3 * d), [3, d])?;
    let got = plain_attention(&cpu(vec![], [0, d])?, &keys, &keys)?;
    assert_eq!((got.shape(), got.to_vec()?), ([0, d], vec![]));
    // The sum over no keys is 0: rows of zeros.
    let nothing = cpu(vec![], [0, d])?;
    assert_eq!(plain_attention(&keys, &nothing, &nothing)?.to_vec()?, vec![0.0; 3 * d]);
    Ok(())
}

on_every_device!(
    in_place_reads_old_values_where_indices_differ,
    in_place_beside_a_reader_of_the_old_value,
    two_branches_with_broadcast_operands,
    a_sum_is_complete_before_it_is_read,
    nested_concat_and_masks,
    dropout_mask_has_no_pattern_and_replays,
    nan_in_max_min_and_clamp,
    narrow_types_accumulate_wide,
    integers_are_64_bit_where_indices_are_and_wrap,
    narrow_types_compute_in_f32,
    variance_does_not_cancel,
    zero_sizes_and_rank_zero,
    maximum_of_an_empty_axis_is_an_error,
    seventy_thousand_rows,
    strided_views_are_read_as_they_lie,
    softmax_of_odd_lengths_repeats_bit_for_bit,
    softmax_of_masked_rows,
    a_long_chain_with_many_live_values,
    logic_short_circuits,
    library_functions_at_their_edges,
    a_failing_call_does_not_harm_the_next,
);
