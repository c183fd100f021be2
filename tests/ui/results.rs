// messages: axes_differ, result_dtype, results_in_other_order

use fuse::fuse;

fuse! {
    #[kernel]
    fn row_mean<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.mean(N) }

    #[kernel]
    fn row_sum<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> { x }

    #[kernel]
    fn renamed<S, T>(x: Tensor<f32, S>, y: Tensor<f32, T>) -> Tensor<f32, T> { x * y.sum(T) }

    #[kernel]
    fn swapped<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M>, Tensor<f32, N>) { (x.sum(M), x.sum(N)) }

    #[kernel]
    fn narrow<N>(x: Tensor<f16, N>) -> Tensor<f16, N> { x * 2.0 }
}

fn main() {}
