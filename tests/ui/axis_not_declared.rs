// messages: axis_not_declared

use fuse::fuse;

fuse! {
    #[kernel]
    fn row_sum<M>(x: Tensor<f32, M, N>, y: Tensor<f32, N>) -> Tensor<f32, M> { (x * y).sum(N) }

    #[kernel]
    fn column_sum<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, N> { x.sum(K) }

    #[kernel]
    fn lower_case<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, N> { x.sum(m) }

    #[kernel(assume(P = 1024))]
    fn doubled<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }
}

fn main() {}
