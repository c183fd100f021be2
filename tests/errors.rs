//! The errors of calls, to the letter.

use fuse::{Device, Error, Tensor, fuse};

fuse! {
    #[kernel]
    fn linear<M, K, N>(x: Tensor<f32, M, K>, w: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
        let products: Tensor<f32, M, K, N> = x * w;
        products.sum(K)
    }

    #[kernel]
    fn step<N>(p: &mut Tensor<f32, N>, g: Tensor<f32, N>) { *p -= g; }

    #[kernel]
    fn twice<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x + x }

    #[kernel]
    fn moments<N>(x: Tensor<f32, N>) -> (Tensor<f32>, Tensor<f32>) { (x.mean(N), x.var(N)) }

    #[kernel]
    fn heads_of<F, H, D>(x: Tensor<f32, F>, heads: Axis<H>) -> Tensor<f32, H, D> { x.split(F, (H, D)) + 0.0 }

    #[kernel]
    fn pixels<W, const C: usize = 3>(x: Tensor<f32, W, C>) -> Tensor<f32, W> { x.sum(C) }

    #[kernel]
    fn greatest<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> { x.max(N) }

    #[kernel]
    fn part<N, const P: usize = 3>(x: Tensor<f32, N>, start: i64) -> Tensor<f32, P> { x.slice(N, start, P) + 0.0 }

    #[kernel]
    fn divide<N>(a: Tensor<i32, N>, b: Tensor<i32, N>) -> Tensor<i32, N> { a / b }

    #[kernel]
    fn pool<L, P, const R: usize = 3>(x: Tensor<f32, L>, stride: i64, dilation: i64, padding: i64) -> Tensor<f32, P> {
        x.window(L, (P, R), stride = stride, dilation = dilation, padding = padding, fill = 0.0).sum(R)
    }
}

fn zeros<const R: usize>(shape: [usize; R]) -> Tensor<f32, R> {
    Tensor::zeros(shape, &Device::cpu()).expect("there is memory")
}

#[track_caller]
fn check<T: std::fmt::Debug>(result: Result<T, Error>, want: &str) {
    match result {
        Ok(value) => panic!("no error but {value:?}, where this was expected: {want}"),
        Err(error) => assert_eq!(error.to_string(), want),
    }
}

#[test]
fn sizes_that_do_not_fit() {
    check(
        linear(&zeros([2, 1024]), &zeros([512, 3])),
        "kernel `linear`: argument `w`: axis `K` is 512, but `x` has 1024",
    );
    // One is an extent like any other.
    check(
        linear(&zeros([2, 5]), &zeros([1, 3])),
        "kernel `linear`: argument `w`: axis `K` is 1, but `x` has 5",
    );
    check(step(&mut zeros([4]), &zeros([5])), "kernel `step`: argument `g`: axis `N` is 5, but `p` has 4");
    check(pixels(&zeros([9, 4])), "kernel `pixels`: argument `x`: axis `C` is 4, but the kernel declares 3");
}

#[test]
fn results_of_another_shape() {
    check(
        twice::into(&zeros([2, 3]), &mut zeros([2, 4])),
        "kernel `twice`: argument `result`: axis `N` is 4, but the call gives 3",
    );
}

#[test]
fn operations_that_the_sizes_do_not_allow() {
    let place = |text: &str, kernel_line: u32| format!("{text} (tests/errors.rs:{kernel_line})");
    check(greatest(&zeros([2, 0])), &place("kernel `greatest`: `max` over axis `N`, which is empty", 28));
    check(
        part(&zeros([10]), 8),
        &place("kernel `part`: `slice` takes 3 positions from 8 of axis `N`, which has 10", 31),
    );
    check(
        part(&zeros([10]), -1),
        &place("kernel `part`: `slice` takes 3 positions from -1 of axis `N`, which has 10", 31),
    );
}

#[test]
fn an_extent_that_does_not_divide() {
    check(
        heads_of(&zeros([10]), 4),
        "kernel `heads_of`: argument `x`: axis `F` is 10, but `split` divides it by `H`, which is 4 (tests/errors.rs:22)",
    );
}

#[test]
fn outputs_that_overlap() -> Result<(), Error> {
    let x = zeros([4, 4]);
    check(
        twice::into(&x, &mut x.transpose(0, 1)?),
        "kernel `twice`: output `result` shares memory with argument `x`",
    );
    check(
        step(
            &mut x.slice((1, ..))?.reshape([4]).expect("a row"),
            &x.slice((.., 2))?.reshape([4]).expect("a column"),
        ),
        "kernel `step`: output `p` shares memory with argument `g`",
    );
    // Two halves of one storage do not overlap, although their rows interleave.
    assert!(twice::into(&x.slice((.., ..2))?, &mut x.slice((.., 2..))?).is_ok());
    check(
        twice::into(&zeros([3, 2]), &mut zeros([2]).broadcast_to([3, 2]).expect("a view")),
        "kernel `twice`: output `result` has elements that share memory",
    );
    let y = zeros([1]);
    let mut both = (y.reshape([]).expect("a view"), y.reshape([]).expect("a view"));
    check(
        moments::into(&zeros([3]), &mut both.0, &mut both.1),
        "kernel `moments`: output `result0` shares memory with argument `result1`",
    );
    Ok(())
}

#[test]
fn the_first_fault_of_a_call() {
    let device = Device::cpu();
    let a = Tensor::from_vec(vec![6, 7, 8], [3], &device).expect("three");
    let b = Tensor::from_vec(vec![2, 0, 0], [3], &device).expect("three");
    check(divide(&a, &b), "kernel `divide`: `a / b`: integer division by zero (tests/errors.rs:34)");
    // The other elements are written, the one that faults is 0, and the next call is not concerned.
    let mut c = Tensor::full(9, [3], &device).expect("three");
    assert!(divide::into(&a, &b, &mut c).is_err());
    assert_eq!(c.to_vec().ok(), Some(vec![3, 0, 0]));
    assert_eq!(divide(&a, &a).and_then(|y| y.to_vec()).ok(), Some(vec![1, 1, 1]));
}

#[test]
fn windows_that_do_not_move() {
    let message = |name: &str, value: i64, least: i64| {
        format!(
            "kernel `pool`: `window`: `{name}` is {value}, but must be at least {least} (tests/errors.rs:38)"
        )
    };
    let x = zeros([9]);
    assert_eq!(pool(&x, 2, 1, 0).expect("a window that moves").shape(), [4]);
    for stride in [0, -1, -2] {
        check(pool(&x, stride, 1, 0), &message("stride", stride, 1));
    }
    check(pool(&x, 1, 0, 0), &message("dilation", 0, 1));
    check(pool(&x, 1, -1, 0), &message("dilation", -1, 1));
    check(pool(&x, 1, 1, -1), &message("padding", -1, 0));
}
