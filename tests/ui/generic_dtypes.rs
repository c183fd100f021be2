// messages: dtype_listed_twice, no_dtype_listed, dtype_outside_bound, unknown_bound, generic_named_like_dtype, generic_defined_twice, unknown_constant_of_generic

use fuse::fuse;

fuse! {
    #[kernel(T = [f32, f32])]
    fn listed_twice<T: Float, N>(x: Tensor<T, N>) -> Tensor<T, N> { x }

    #[kernel(T = [])]
    fn listed_never<T: Float, N>(x: Tensor<T, N>) -> Tensor<T, N> { x }

    #[kernel(T = [f32, i32])]
    fn outside<T: Float, N>(x: Tensor<T, N>) -> Tensor<T, N> { x }

    #[kernel]
    fn copied<T: Copy, N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x }

    #[kernel]
    fn half<f16>(x: Tensor<f32>) -> Tensor<f32> { x }

    #[kernel]
    fn twice<N, N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x }

    #[kernel(T = [f16])]
    fn nearly<T: Float, N>(x: Tensor<T, N>) -> Tensor<f32, N> { x + T::EPSILON }
}

fn main() {}
