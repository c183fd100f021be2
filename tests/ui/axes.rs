// messages: axis_expected, axis_listed_twice, axis_missing, axis_there_already, concat_part, negative_position, negative_padding

use fuse::fuse;

fuse! {
    #[kernel]
    fn numbered<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.sum(0) }

    #[kernel]
    fn twice<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> { x.sum((N, N)) }

    #[kernel]
    fn missing<M, N>(x: Tensor<f32, N>, y: Tensor<f32, M>) -> Tensor<f32, N> { x.sum(M) }

    #[kernel]
    fn there<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, N> { x.rename(M, N) }

    #[kernel]
    fn joined<N, P>(a: Tensor<f32, N>, b: Tensor<f32, N>) -> Tensor<f32, P> { concat(P, a, b) }

    #[kernel]
    fn last<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.at(N, -1) }

    #[kernel]
    fn shorter<N, P>(x: Tensor<f32, N>) -> Tensor<f32, P> { x.pad(N, -1, 0, P) }
}

fn main() {}
