// messages: dimension_not_understood, axis_with_default, const_axis_not_usize, const_axis_without_value, extent_not_a_size, axis_with_two_sources

use fuse::fuse;

fuse! {
    #[kernel]
    fn shifted<N, const F: usize = { N << 1 }>(x: Tensor<f32, N>) -> Tensor<f32, N> { x }

    #[kernel]
    fn defaulted<N = f32>(x: Tensor<f32, N>) -> Tensor<f32, N> { x }

    #[kernel]
    fn counted<N, const C: u32 = 3>(x: Tensor<f32, N, C>) -> Tensor<f32, N, C> { x }

    #[kernel]
    fn open<N, const C: usize>(x: Tensor<f32, N, C>) -> Tensor<f32, N, C> { x }

    #[kernel]
    fn negative<N, const C: usize = { 2 - 3 }>(x: Tensor<f32, N, C>) -> Tensor<f32, N, C> { x }

    #[kernel]
    fn given_twice<N, const C: usize = 3>(x: Tensor<f32, N, C>, c: Axis<C>) -> Tensor<f32, N, C> { x }
}

fn main() {}
