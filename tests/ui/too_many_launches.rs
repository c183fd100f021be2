// messages: too_many_launches

use fuse::fuse;

fuse! {
    #[kernel(launches = 1)]
    fn materialized<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.exp().materialize() + 1.0 }

    #[kernel(launches = 1)]
    fn reversed<N>(p: &mut Tensor<f32, N>) { *p = p.reverse(N); }

    #[kernel(launches = 1)]
    fn crossed<M, const N: usize = { M }>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x * x.sum(N).rename(M, N) }

    #[kernel(launches = 1)]
    fn both_ways<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.softmax(N).softmax(M) }

    #[kernel(launches = 0)]
    fn never<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }
}

fn main() {}
