//! Kernels from end to end: what a user writes, and the numbers that come out.

#[path = "support/devices.rs"]
mod devices;
use approx::{assert_abs_diff_eq, assert_relative_eq};
use devices::{device, on_every_device};
use fuse::{Error, Tensor, bf16, f16, fuse};

fuse! {
    /// The exact Gelu.
    #[op]
    fn gelu(x: f32) -> f32 { 0.5 * x * (1.0 + (x * FRAC_1_SQRT_2).erf()) }

    /// Adds.
    #[kernel(launches = 1, test)]
    fn add<M, N>(x: Tensor<f32, M, N>, y: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x + y }

    /// A bias and an activation.
    #[kernel(launches = 1, test)]
    fn bias_gelu<M, N>(x: Tensor<f32, M, N>, b: Tensor<f32, N>) -> Tensor<f32, M, N> { gelu(x + b) }

    /// A transpose is a layout of the result.
    #[kernel(test)]
    fn transposed<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, N, M> { x + 1.0 }

    /// Layer normalisation over the last axis.
    #[kernel(launches = 1, test)]
    fn layer_norm_rows<M, N>(
        x: Tensor<f32, M, N>, g: Tensor<f32, N>, b: Tensor<f32, N>, eps: f32,
    ) -> Tensor<f32, M, N> {
        let centred = x - x.mean(N);
        centred * (centred.square().mean(N) + eps).rsqrt() * g + b
    }

    /// Softmax over the last axis, in whatever float.
    #[kernel(launches = 1, T = [f32, f16, bf16], test)]
    fn softmax_rows<T: Float, M, N>(x: Tensor<T, M, N>) -> Tensor<T, M, N> { x.softmax(N) as T }

    /// Gradient descent with momentum.
    #[kernel(launches = 1, test)]
    fn momentum<N>(p: &mut Tensor<f32, N>, v: &mut Tensor<f32, N>, g: Tensor<f32, N>, lr: f32, mu: f32) {
        *v = mu * v + g;
        *p -= lr * v;
    }

    /// Two results of one sweep.
    #[kernel(launches = 1, test)]
    fn moments<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M>, Tensor<f32, M>) {
        (x.mean(N), x.var(N))
    }

    /// Every kind of argument.
    #[kernel(test)]
    fn scaled<F, H, D>(x: Tensor<i32, F>, heads: Axis<H>, by: i32) -> Tensor<i32, H, D> {
        x.split(F, (H, D)) * by
    }

    /// A number.
    #[kernel(test)]
    fn total<M, N>(x: Tensor<f64, M, N>) -> Tensor<f64> { x.sum((M, N)) }

    /// Integer division, which faults on zero.
    #[kernel(test)]
    fn divide<N>(a: Tensor<i32, N>, b: Tensor<i32, N>) -> Tensor<i32, N> { a / b }
}

fn cpu() -> fuse::Device {
    device()
}

fn ramp<const R: usize>(shape: [usize; R]) -> Result<Tensor<f32, R>, Error> {
    let n: usize = shape.iter().product();
    Tensor::from_vec((0..n).map(|k| (k as f32 * 0.37).sin() * 3.0).collect(), shape, &cpu())
}

#[test]
fn an_elementwise_kernel() -> Result<(), Error> {
    let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3], &cpu())?;
    let y = Tensor::full(10.0f32, [2, 3], &cpu())?;
    assert_eq!(add(&x, &y)?.to_vec()?, [11.0, 12.0, 13.0, 14.0, 15.0, 16.0]);
    assert_eq!(add(&x, &x)?.to_vec()?, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    Ok(())
}

#[test]
fn an_op_is_lifted_and_stays_a_function() -> Result<(), Error> {
    let (x, b) = (ramp([5, 7])?, ramp([7])?);
    let want: Vec<f32> = {
        let (x, b) = (x.to_vec()?, b.to_vec()?);
        x.iter().enumerate().map(|(k, x)| gelu(x + b[k % 7])).collect()
    };
    assert_abs_diff_eq!(bias_gelu(&x, &b)?, want, epsilon = 1e-6);
    assert_abs_diff_eq!(gelu(1.0), 0.841_344_7, epsilon = 1e-6);
    Ok(())
}

#[test]
fn views_are_arguments_and_results_are_laid_out_as_declared() -> Result<(), Error> {
    let x = ramp([4, 6])?;
    let want: Vec<f32> = x.transpose(0, 1)?.to_vec()?.iter().map(|x| x + 1.0).collect();
    let y = transposed(&x)?;
    assert_eq!(y.shape(), [6, 4]);
    assert_eq!(y.to_vec()?, want);
    let part = x.slice((1..3, ..))?.transpose(0, 1)?;
    assert_eq!(add(&part, &part)?.to_vec()?, part.to_vec()?.iter().map(|x| x + x).collect::<Vec<_>>());
    let repeated = ramp([6])?.broadcast_to([4, 6])?;
    assert_eq!(
        add(&x, &repeated)?.slice((2, ..))?.to_vec()?,
        add(&x.slice((2, ..))?, &ramp([6])?.reshape([1, 6])?)?.to_vec()?
    );
    Ok(())
}

#[test]
fn layer_norm() -> Result<(), Error> {
    let (x, g, b) = (ramp([3, 50])?, ramp([50])?, ramp([50])?);
    let y = layer_norm_rows(&x, &g, &b, 1e-5)?;
    let (x, g, b) = (x.to_vec()?, g.to_vec()?, b.to_vec()?);
    let want: Vec<f32> = x
        .chunks(50)
        .flat_map(|row| {
            let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / 50.0;
            let var = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / 50.0;
            let row: Vec<f64> = row.iter().map(|&x| (f64::from(x) - mean) / (var + 1e-5).sqrt()).collect();
            (0..50).map(|k| (row[k] * f64::from(g[k]) + f64::from(b[k])) as f32).collect::<Vec<f32>>()
        })
        .collect();
    assert_relative_eq!(y, want, epsilon = 1e-5, max_relative = 1e-5);
    Ok(())
}

#[test]
fn softmax_of_every_instance() -> Result<(), Error> {
    let x = Tensor::from_vec(
        vec![0.0f32, 1.0, 2.0, f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY],
        [2, 3],
        &cpu(),
    )?;
    let y = softmax_rows(&x)?;
    assert_relative_eq!(y, [0.090_030_57, 0.244_728_48, 0.665_240_94, 0.0, 0.0, 0.0], max_relative = 1e-6);
    let half = Tensor::from_vec(x.to_vec()?.into_iter().map(f16::from_f32).collect(), [2, 3], &cpu())?;
    let want = y.to_vec()?.into_iter().map(f16::from_f32).collect::<Vec<_>>();
    assert_abs_diff_eq!(softmax_rows::<f16>(&half)?, want, epsilon = 1e-3);
    let brain = Tensor::full(bf16::ONE, [1, 4], &cpu())?;
    assert_eq!(softmax_rows(&brain)?.to_vec()?, [bf16::from_f32(0.25); 4]);
    Ok(())
}

#[test]
fn mutable_arguments() -> Result<(), Error> {
    let mut p = Tensor::full(1.0f32, [4], &cpu())?;
    let mut v = Tensor::full(0.5f32, [4], &cpu())?;
    let g = Tensor::from_vec(vec![0.0f32, 1.0, 2.0, 3.0], [4], &cpu())?;
    momentum(&mut p, &mut v, &g, 0.5, 0.5)?;
    assert_eq!(v.to_vec()?, [0.25, 1.25, 2.25, 3.25]);
    assert_eq!(p.to_vec()?, [0.875, 0.375, -0.125, -0.625]);
    // A view writes through to what it views.
    let whole = Tensor::full(1.0f32, [3, 4], &cpu())?;
    let mut row = whole.slice((1, ..))?.reshape([4])?;
    let mut v = Tensor::zeros([4], &cpu())?;
    momentum(&mut row, &mut v, &g, 1.0, 0.0)?;
    assert_eq!(whole.to_vec()?, [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, -1.0, -2.0, 1.0, 1.0, 1.0, 1.0]);
    Ok(())
}

#[test]
fn several_results_and_given_tensors() -> Result<(), Error> {
    let x = Tensor::from_vec(vec![1.0f32, 3.0, 5.0, 2.0, 2.0, 2.0], [2, 3], &cpu())?;
    let (mean, var) = moments(&x)?;
    assert_eq!(mean.to_vec()?, [3.0, 2.0]);
    assert_relative_eq!(var, [8.0 / 3.0, 0.0], max_relative = 1e-6);
    let wide = Tensor::zeros([2, 4], &cpu())?;
    let (mut first, mut last) = (wide.slice((.., 0))?.reshape([2])?, wide.slice((.., 3))?.reshape([2])?);
    moments::into(&x, &mut first, &mut last)?;
    assert_relative_eq!(wide, [3.0, 0.0, 0.0, 8.0 / 3.0, 2.0, 0.0, 0.0, 0.0], max_relative = 1e-6);
    Ok(())
}

#[test]
fn scalars_and_axes() -> Result<(), Error> {
    let x = Tensor::from_vec((0..6).collect::<Vec<i32>>(), [6], &cpu())?;
    let y = scaled(&x, 2, 10)?;
    assert_eq!(y.shape(), [2, 3]);
    assert_eq!(y.to_vec()?, [0, 10, 20, 30, 40, 50]);
    let x = Tensor::from_fn([3, 5], |[i, j]| (i * j) as f64, &cpu())?;
    assert_eq!(total(&x)?.item()?, 30.0);
    Ok(())
}

#[test]
fn empty_tensors() -> Result<(), Error> {
    assert_eq!(add(&ramp([0, 3])?, &ramp([0, 3])?)?.shape(), [0, 3]);
    let (mean, _) = moments(&ramp([2, 0])?)?;
    assert!(mean.to_vec()?.iter().all(|x| x.is_nan()));
    assert_eq!(total(&Tensor::zeros([0, 4], &cpu())?)?.item()?, 0.0);
    assert_eq!(softmax_rows(&ramp([3, 0])?)?.shape(), [3, 0]);
    Ok(())
}

#[test]
fn plans_and_programs_are_there() {
    assert_eq!(bias_gelu::plan().launch_count(), 1);
    assert_eq!(bias_gelu::program().kernel.name, "bias_gelu");
    assert!(softmax_rows::plan::<f16>().to_string().contains("row"), "{}", softmax_rows::plan::<f16>());
}

#[test]
fn kernels_in_a_function() -> Result<(), Error> {
    fuse! {
        #[kernel]
        fn square<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * x }
    }
    assert_eq!(square(&Tensor::full(3.0f32, [2], &cpu())?)?.to_vec()?, [9.0, 9.0]);
    Ok(())
}

#[test]
fn threads_share_a_kernel() -> Result<(), Error> {
    let (x, b) = (ramp([64, 100])?, ramp([100])?);
    let want = bias_gelu(&x, &b)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| bias_gelu(&x, &b))).collect();
        threads.into_iter().try_for_each(|t| t.join().expect("no panic").map(|y| assert_eq!(y, want)))
    })
}

macro_rules! scaled_and_counted {
    ($kernel:ident, $op:ident, $t:ty, $scale:expr, $n:ident, $vis:vis, $y:ident $body:block) => {
        fuse! {
            #[op]
            fn $op($y: $t) -> $t $body

            #[kernel(test)]
            $vis fn $kernel<$n, M>(x: Tensor<$t, $n>, m: Axis<M>, s: $t) -> (Tensor<$t, $n>, Tensor<$t, M>) {
                let scaled: Tensor<$t, $n> = $op(x) * $scale;
                (scaled, index(M) as $t + s)
            }
        }
    };
}

scaled_and_counted!(floats_of_a_macro, next_float, f32, 1.0 + 1.0, N, pub(crate), y { y + 1.0 });
scaled_and_counted!(integers_of_a_macro, next_integer, i64, 3 + 4, K, , y { y + 1 });

#[test]
fn blocks_in_macro_rules() -> Result<(), Error> {
    let (scaled, counted) = floats_of_a_macro(&Tensor::from_vec(vec![1.0, 2.0], [2], &cpu())?, 2, 0.5)?;
    assert_eq!((scaled.to_vec()?, counted.to_vec()?), (vec![4.0, 6.0], vec![0.5, 1.5]));
    let (scaled, counted) = integers_of_a_macro(&Tensor::from_vec(vec![1, 2], [2], &cpu())?, 2, 5)?;
    assert_eq!((scaled.to_vec()?, counted.to_vec()?), (vec![14, 21], vec![5, 6]));
    Ok(())
}

on_every_device!(
    an_elementwise_kernel,
    views_are_arguments_and_results_are_laid_out_as_declared,
    layer_norm,
    softmax_of_every_instance,
    mutable_arguments,
    several_results_and_given_tensors,
    scalars_and_axes,
    empty_tensors,
    kernels_in_a_function,
    threads_share_a_kernel,
    blocks_in_macro_rules,
);
