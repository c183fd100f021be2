//! Corners of the language: what is most, least, or seldom written.

#[path = "support/devices.rs"]
mod devices;
use devices::{device, on_every_device};
use fuse::{Error, Tensor, fuse};

fn cpu<T: fuse::Element, const R: usize>(data: Vec<T>, shape: [usize; R]) -> Result<Tensor<T, R>, Error> {
    Tensor::from_vec(data, shape, &device())
}

fuse! {
    #[kernel(launches = 1)]
    fn thirty_two_results<N>(x: Tensor<i64, N>) -> (
        Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>,
        Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>,
        Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>,
        Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>, Tensor<i64>,
    ) {
        let s = x.sum(N);
        (
            s + 0, s + 1, s + 2, s + 3, s + 4, s + 5, s + 6, s + 7,
            s + 8, s + 9, s + 10, s + 11, s + 12, s + 13, s + 14, s + 15,
            s + 16, s + 17, s + 18, s + 19, s + 20, s + 21, s + 22, s + 23,
            s + 24, s + 25, s + 26, s + 27, s + 28, s + 29, s + 30, s + 31,
        )
    }
}

#[test]
fn a_kernel_with_thirty_two_results() -> Result<(), Error> {
    let results = thirty_two_results(&cpu(vec![1, 2, 3], [3])?)?;
    assert_eq!(
        (results.0.to_vec()?, results.12.to_vec()?, results.31.to_vec()?),
        (vec![6], vec![18], vec![37])
    );
    Ok(())
}

fuse! {
    #[reduce(identity = (f32::NEG_INFINITY, i64::MAX))]
    fn best(a: (f32, i64), b: (f32, i64)) -> (f32, i64) {
        if b.0 > a.0 || (b.0 == a.0 && b.1 < a.1) { b } else { a }
    }

    #[kernel]
    fn best_of_row<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M>, Tensor<i64, M>) { (x, index(N)).reduce(N, best) }

    #[reduce(ordered, identity = (1.0, 0.0))]
    fn then(a: (f32, f32), b: (f32, f32)) -> (f32, f32) { (a.0 * b.0, a.1 * b.0 + b.1) }

    /// `h = a·h + x` from first to last.
    #[kernel]
    fn recurrence<M, N>(a: Tensor<f32, M, N>, x: Tensor<f32, M, N>) -> (Tensor<f32, M>, Tensor<f32, M>) {
        (a, x).reduce(N, then)
    }

    #[reduce(identity = (0.0, 0.0, 0.0))]
    fn moments(a: (f32, f32, f32), b: (f32, f32, f32)) -> (f32, f32, f32) {
        let n = a.0 + b.0;
        let share = if n == 0.0 { 0.0 } else { b.0 / n };
        let step = b.1 - a.1;
        (n, a.1 + step * share, a.2 + b.2 + step * step * a.0 * share)
    }

    #[kernel]
    fn moments_of_row<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M>, Tensor<f32, M>, Tensor<f32, M>) {
        (1.0f32, x, 0.0f32).reduce(N, moments)
    }

    #[reduce(identity = 0.0)]
    fn difference(a: f32, b: f32) -> f32 { a - b }

    #[kernel]
    fn differences<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> { x.reduce(N, difference) }

    #[reduce(identity = 0.0)]
    fn greater(a: f32, b: f32) -> f32 { a.max(b) }

    #[kernel]
    fn greatest_above_zero<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> { x.reduce(N, greater) }

    #[reduce(identity = (f32::NEG_INFINITY, -1))]
    fn any_best(a: (f32, i64), b: (f32, i64)) -> (f32, i64) { if b.0 > a.0 { b } else { a } }

    #[kernel]
    fn any_best_of_row<M, N>(x: Tensor<f32, M, N>) -> Tensor<i64, M> {
        let (_, at) = (x, index(N)).reduce(N, any_best);
        at
    }
}

#[test]
fn natural_reducers_keep_their_laws() -> Result<(), Error> {
    for verification in [best_of_row::verify(), recurrence::verify(), moments_of_row::verify()] {
        let report = verification.sizes(&[("M", 3), ("N", 70)]).run()?;
        assert_eq!(report.laws, 1, "{report}");
    }
    let nan = f32::NAN;
    let (_, at) = best_of_row(&cpu(vec![nan, 1.0, 3.0, nan, 3.0, 2.0], [1, 6])?)?;
    assert_eq!(at.to_vec()?, [2]);
    let report = best_of_row::verify().sizes(&[("M", 3), ("N", 70)]).seed(1).seed(2).seed(3).run()?;
    assert!(report.law_notes.iter().any(|note| note.contains("reducer `best`")), "{report}");
    Ok(())
}

#[test]
fn reducers_that_break_their_laws_are_found() {
    fn check<T: std::fmt::Display>(result: Result<T, Error>, words: &str) {
        match result {
            Ok(report) => panic!("{words}: {report}"),
            Err(error) => assert!(error.to_string().contains(words), "{error}"),
        }
    }
    check(differences::verify().sizes(&[("M", 3), ("N", 70)]).run(), "reducer `difference` has no identity");
    check(
        greatest_above_zero::verify().sizes(&[("M", 3), ("N", 70)]).run(),
        "reducer `greater` has no identity",
    );
    check(
        any_best_of_row::verify().sizes(&[("M", 3), ("N", 70)]).run(),
        "reducer `any_best` is not commutative",
    );
}

fuse! {
    #[op]
    fn shifted(x: i32, by: i8) -> i32 {
        let mut y = x;
        y <<= {
            y |= 1;
            by
        };
        y
    }

    #[kernel]
    fn shifts<N>(x: Tensor<i32, N>, by: Tensor<i8, N>, wide: u64) -> (Tensor<i32, N>, Tensor<i32, N>, Tensor<i32, N>) {
        (x << by, x >> wide, shifted(x, by))
    }
}

#[test]
fn shifts_take_counts_of_any_integer_type() -> Result<(), Error> {
    shifts::verify().run()?;
    let (x, by) = (vec![5, -5, 1, i32::MIN], vec![1i8, 33, -1, 4]);
    let (left, right, op) = shifts(&cpu(x.clone(), [4])?, &cpu(by.clone(), [4])?, (1 << 33) | 2)?;
    let want = |f: &dyn Fn(i32, i8) -> i32| x.iter().zip(&by).map(|(&x, &n)| f(x, n)).collect::<Vec<_>>();
    assert_eq!(left.to_vec()?, want(&|x, n| x.wrapping_shl(n as u32)));
    assert_eq!(right.to_vec()?, want(&|x, _| x >> 2));
    assert_eq!(op.to_vec()?, want(&|x, n| (x | 1).wrapping_shl(n as u32)));
    assert_eq!(op.to_vec()?, want(&shifted));
    Ok(())
}

fuse! {
    #[kernel]
    fn contracted<N>(x: Tensor<f32, N>, y: Tensor<f32, N>, z: Tensor<f32, N>) -> Tensor<f32, N> { x.mul_add(y, z) }

    #[kernel]
    fn products_and_sums<M, N>(x: Tensor<f32, M, N>, y: Tensor<f64, M, N>) -> (Tensor<f32, M>, Tensor<f64, M>, Tensor<f32, M, N>) {
        (x.prod(N), y.prod(N), x.cumsum(N))
    }
}

#[test]
fn a_multiply_add_rounds_once_on_every_instruction_set() -> Result<(), Error> {
    contracted::verify().run()?;
    let x = vec![1.0 + f32::EPSILON, 1e-30, 3.0, f32::MAX];
    let z = vec![-1.0 - 2.0 * f32::EPSILON, -1e-38, f32::NAN, f32::NEG_INFINITY];
    let got = contracted(&cpu(x.clone(), [4])?, &cpu(x.clone(), [4])?, &cpu(z.clone(), [4])?)?.to_vec()?;
    let want = x.iter().zip(&z).map(|(x, z)| x.mul_add(*x, *z).to_bits());
    assert!(got.iter().map(|v| v.to_bits()).eq(want), "{got:?}");
    Ok(())
}

#[test]
fn products_and_running_sums_stay_within_their_bounds() -> Result<(), Error> {
    let report =
        products_and_sums::verify().sizes(&[("M", 2), ("N", 30)]).sizes(&[("M", 1), ("N", 5000)]).run()?;
    assert!(report.worst_node_ulp > 0.0, "{report}");
    Ok(())
}

fuse! {
    #[kernel]
    fn window_or_all<N, const P: usize = 3>(x: Tensor<f32, N>, start: i64) -> Tensor<f32> {
        if start >= 0 { x.slice(N, start, P).sum(P) } else { x.sum(N) }
    }

    #[kernel]
    fn greatest_or_zero<M, N>(x: Tensor<f32, M, N>, first: i64) -> (Tensor<f32, M>, Tensor<i64, M>, Tensor<f32, M>) {
        let (value, at) = if extent(N) > 0 { (x.max(N), x.argmax(N)) } else { (0.0, -1) };
        let picked = if extent(N) > 4 && first != 0 { x.at(N, first) } else { x.sum(N) };
        (value + 0.0 * x.sum(N), at + 0 * index(M), picked)
    }

    #[kernel]
    fn append<M, L, S>(cache: &mut Tensor<f32, M, L>, k: Tensor<f32, S>, v: Tensor<f32, S>, pos: i64) {
        cache.at(M, 0).slice(L, pos, S) = k;
        cache.at(M, 1).slice(L, pos, S) = v;
    }
}

#[test]
fn what_a_branch_asks_of_sizes_is_asked_where_it_is_taken() -> Result<(), Error> {
    let x = cpu(vec![1.0, 2.0, 3.0, 4.0], [4])?;
    assert_eq!(window_or_all(&x, 1)?.to_vec()?, [9.0]);
    assert_eq!(window_or_all(&x, -7)?.to_vec()?, [10.0]);
    assert_eq!(window_or_all(&cpu(vec![5.0], [1])?, i64::MIN)?.to_vec()?, [5.0]);
    let error = window_or_all(&x, 2).map(drop).expect_err("the slice is out of bounds where it is taken");
    assert!(
        error.to_string().contains("`slice` takes 3 positions from 2 of axis `N`, which has 4"),
        "{error}"
    );
    window_or_all::verify().run()?;

    let (value, at, picked) = greatest_or_zero(&cpu(vec![], [2, 0])?, 9)?;
    assert_eq!((value.to_vec()?, at.to_vec()?, picked.to_vec()?), (vec![0.0; 2], vec![-1; 2], vec![0.0; 2]));
    let (value, at, picked) = greatest_or_zero(&cpu(vec![1.0, 3.0], [1, 2])?, 9)?;
    assert_eq!((value.to_vec()?, at.to_vec()?, picked.to_vec()?), (vec![3.0], vec![1], vec![4.0]));
    assert!(greatest_or_zero(&cpu(vec![1.0; 5], [1, 5])?, 9).is_err());
    greatest_or_zero::verify().run()?;
    Ok(())
}

#[test]
fn two_parts_of_a_cache_are_stored_alone() -> Result<(), Error> {
    let mut cache = cpu((0..8).map(|i| i as f32).collect(), [2, 4])?;
    append(&mut cache, &cpu(vec![10.0, 11.0], [2])?, &cpu(vec![20.0, 21.0], [2])?, 1)?;
    assert_eq!(cache.to_vec()?, [0.0, 10.0, 11.0, 3.0, 4.0, 20.0, 21.0, 7.0]);
    append::verify().sizes(&[("M", 2), ("L", 9), ("S", 3)]).run()?;
    Ok(())
}

fuse! {
    /// Transcendental functions that follow one another, with a variable set twice and two results.
    #[op]
    fn bend(x: f32, y: f32) -> (f32, f32) {
        let mut a = (x * y).tanh();
        let b = a.exp() + y;
        a = b.ln() * a + 1.0;
        (a.sin(), (a + b).sqrt())
    }

    #[kernel]
    fn bent<M, N>(x: Tensor<f32, M, N>, y: Tensor<f32, N>) -> (Tensor<f32, M, N>, Tensor<f32, M>) {
        let (a, b) = bend(x, y.abs());
        (a, (a * b).sum(N))
    }

    #[kernel]
    fn bent_in_the_body<M, N>(x: Tensor<f32, M, N>, y: Tensor<f32, N>) -> (Tensor<f32, M, N>, Tensor<f32, M>) {
        let y = y.abs();
        let t = (x * y).tanh();
        let b = t.exp() + y;
        let a = b.ln() * t + 1.0;
        let (p, q) = (a.sin(), (a + b).sqrt());
        (p, (p * q).sum(N))
    }
}

#[test]
fn a_chain_of_functions_inside_of_an_op_is_that_of_the_body() -> Result<(), Error> {
    bent::verify().run()?;
    let numbers = |n: usize| (0..n).map(|i| (i * 37 % 101) as f32 * 0.1 - 4.0).collect::<Vec<_>>();
    let (x, y) = (cpu(numbers(3 * 300), [3, 300])?, cpu(numbers(300), [300])?);
    let (op, body) = (bent(&x, &y)?, bent_in_the_body(&x, &y)?);
    let bits =
        |t: &Tensor<f32, 2>| Ok::<_, Error>(t.to_vec()?.iter().map(|v| v.to_bits()).collect::<Vec<_>>());
    assert_eq!(bits(&op.0)?, bits(&body.0)?);
    assert_eq!(op.1.to_vec()?, body.1.to_vec()?);
    Ok(())
}

#[test]
fn extents_beside_an_empty_axis_must_multiply_too() -> Result<(), Error> {
    // As in NumPy: strides are products of extents.
    for shape in [[usize::MAX, 2, 0], [0, 1 << 40, 1 << 40], [1 << 62, 0, 4]] {
        assert!(matches!(Tensor::<f32, 3>::zeros(shape, &device()), Err(Error::TooLarge { .. })));
    }
    assert!(Tensor::<f32, 3>::zeros([1 << 30, 0, 1 << 20], &device())?.to_vec()?.is_empty());
    Ok(())
}

fuse! {
    #[kernel(launches = 1)]
    fn applied_to_itself<N>(p: Tensor<i32, N>) -> Tensor<i32, N> { p.gather(N, p) }

    #[kernel(launches = 1)]
    fn applied_to_itself_doubled<M, N>(p: Tensor<i32, M, N>) -> Tensor<i64, M, N> {
        let q = p.gather(N, p) as i64;
        q + q
    }
}

#[test]
fn a_tensor_looked_up_at_its_own_elements() -> Result<(), Error> {
    applied_to_itself::verify().run()?;
    applied_to_itself_doubled::verify().run()?;
    let p = Tensor::from_vec(vec![2, 0, 3, 1], [4], &device())?;
    assert_eq!(applied_to_itself(&p)?.to_vec()?, [3, 2, 1, 0]);
    let q = Tensor::from_vec(vec![1, 0, 0, 0, 0, 1], [2, 3], &device())?;
    assert_eq!(applied_to_itself_doubled(&q)?.to_vec()?, [0, 2, 2, 0, 0, 0]);
    Ok(())
}

fuse! {
    /// The positions are computed in a loop of their own, before the loop that stores what they were computed from.
    #[kernel(launches = 1)]
    fn looked_up_beside_its_positions<A, B, C>(
        p: Tensor<i64, C, B, A>,
        x: Tensor<f32, A, C>,
    ) -> (Tensor<f32, B, C, A>, Tensor<i64, C, B, A>) {
        (x.gather(C, p.rem_euclid(extent(C).max(1))), p)
    }

    #[kernel(launches = 1)]
    fn looked_up_at_one_position<A, B, C>(p: Tensor<u8>, x: Tensor<f64, C, B, A>) -> Tensor<f64, A, C> {
        x.gather(B, (p as i64).rem_euclid(extent(B).max(1)))
    }
}

#[test]
fn one_position_for_all() -> Result<(), Error> {
    looked_up_at_one_position::verify().sizes(&[("A", 9), ("B", 5), ("C", 7)]).run()?;
    Ok(())
}

fuse! {
    #[kernel]
    fn distances<N, T>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let y = x.rename(N, T);
        let d: Tensor<f32, N, T> = x - y;
        d.square().sum(T)
    }
}

/// An axis that follows from a long one is as long: pairs of them would be 67 million.
#[test]
fn verification_of_pairs_ends() -> Result<(), Error> {
    distances::verify().run()?;
    Ok(())
}

#[test]
fn positions_are_computed_from_what_is_stored_beside() -> Result<(), Error> {
    looked_up_beside_its_positions::verify().run()?;
    Ok(())
}

on_every_device!(
    one_position_for_all,
    positions_are_computed_from_what_is_stored_beside,
    a_tensor_looked_up_at_its_own_elements,
    a_kernel_with_thirty_two_results,
    shifts_take_counts_of_any_integer_type,
    products_and_running_sums_stay_within_their_bounds,
    what_a_branch_asks_of_sizes_is_asked_where_it_is_taken,
    two_parts_of_a_cache_are_stored_alone,
    a_chain_of_functions_inside_of_an_op_is_that_of_the_body,
);
