//! Corners of the language: what is most, least, or seldom written.

use fuse::{Device, Error, Tensor, fuse};

fn cpu<T: fuse::Element, const R: usize>(data: Vec<T>, shape: [usize; R]) -> Result<Tensor<T, R>, Error> {
    Tensor::from_vec(data, shape, &Device::cpu())
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
    for report in [best_of_row::verify().run()?, recurrence::verify().run()?, moments_of_row::verify().run()?]
    {
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
    check(differences::verify().run(), "reducer `difference` has no identity");
    check(greatest_above_zero::verify().run(), "reducer `greater` has no identity");
    check(any_best_of_row::verify().run(), "reducer `any_best` is not commutative");
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
    let report = products_and_sums::verify().run()?;
    assert!(report.worst_node_ulp > 0.0, "{report}");
    Ok(())
}
