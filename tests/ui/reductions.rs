// messages: reduction_without_axes, cumsum_over_several_axes, unknown_combiner, combiner_expected, op_in_place_of_combiner, combiner_arity

use fuse::fuse;

fuse! {
    #[reduce(identity = (f32::NEG_INFINITY, -1))]
    fn best(a: (f32, i64), b: (f32, i64)) -> (f32, i64) { if a.0 >= b.0 { a } else { b } }

    #[op]
    fn add(a: f32, b: f32) -> f32 { a + b }

    #[kernel]
    fn total<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.sum() }

    #[kernel]
    fn running<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.cumsum((M, N)) }

    #[kernel]
    fn misspelt<N>(x: Tensor<f32, N>) -> Tensor<f32> { (x, index(N)).reduce(N, bset).0 }

    #[kernel]
    fn closure<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.reduce(N, |a, b| a + b) }

    #[kernel]
    fn op<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.reduce(N, add) }

    #[kernel]
    fn single<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.reduce(N, best).0 }
}

fn main() {}
