// messages: axes_not_bound, argument_without_axis, scalar_expected, dtype_outside_bound_of_call

use fuse::fuse;

fuse! {
    fn half<T: Float, N>(x: Tensor<T, N>) -> Tensor<f32, N> { x as f32 * 0.5 }

    fn power<N>(x: Tensor<f32, N>, p: f32) -> Tensor<f32, N> { x.powf(p) }

    #[kernel]
    fn unclear<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { layer_norm(x, x, x, 1e-5) }

    #[kernel]
    fn other_axis<M, N>(x: Tensor<f32, M, N>, g: Tensor<f32, M>, b: Tensor<f32, N>) -> Tensor<f32, M, N> {
        layer_norm::<N>(x, g, b, 1e-5)
    }

    #[kernel]
    fn not_scalar<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { power(x, x) }

    #[kernel]
    fn integers<N>(n: Tensor<i32, N>) -> Tensor<f32, N> { half(n) }
}

fn main() {}
