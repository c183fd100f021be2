// messages: position_not_integer, position_not_uniform

use fuse::fuse;

fuse! {
    #[kernel]
    fn half_way<N, P>(x: Tensor<f32, N>, p: Axis<P>) -> Tensor<f32, P> { x.slice(N, 0.5, P) }

    #[kernel]
    fn greatest<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.at(N, x.argmax(N)) }

    #[kernel]
    fn at_numbers<V, N>(table: Tensor<f32, V>, ids: Tensor<f32, N>) -> Tensor<f32, N> { table.gather(V, ids) }
}

fn main() {}
