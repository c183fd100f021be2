// messages: other_dtype_expected, operation_not_defined, method_not_defined, reduction_not_defined, cast_to_other_type, cast_to_bool

use fuse::fuse;

fuse! {
    #[op]
    fn plus_one(x: f32) -> f32 { x + 1.0 }

    #[kernel]
    fn wide<N>(x: Tensor<f64, N>) -> Tensor<f32, N> { plus_one(x) }

    #[kernel]
    fn summed<N>(a: Tensor<bool, N>, b: Tensor<bool, N>) -> Tensor<bool, N> { a + b }

    #[kernel]
    fn exponential<N>(n: Tensor<i32, N>) -> Tensor<i32, N> { n.exp() }

    #[kernel]
    fn squared<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.pow(2) }

    #[kernel]
    fn chosen<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { select(x, x, 0.0) }

    #[kernel]
    fn average<N>(n: Tensor<i32, N>) -> Tensor<f32> { n.mean(N) }

    #[kernel]
    fn every<N>(x: Tensor<f32, N>) -> Tensor<bool> { x.all(N) }

    #[kernel]
    fn cast<N>(x: Tensor<f32, N>) -> Tensor<f16, N> { x as Tensor<f16, N> }

    #[kernel]
    fn truth<N>(x: Tensor<f32, N>) -> Tensor<bool, N> { x as bool }
}

fn main() {}
