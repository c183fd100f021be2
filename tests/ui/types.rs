// messages: parameter_type, axis_parameter, tensor_without_dtype, axis_must_be_named, axis_twice_in_type, axis_in_place_of_dtype, dtype_in_place_of_axis

use fuse::fuse;

fuse! {
    #[kernel]
    fn vector<N>(x: Tensor<f32, N>, y: Vec<f32>) -> Tensor<f32, N> { x }

    #[kernel]
    fn two_axes<M, N>(x: Tensor<f32, M, N>, n: Axis<M, N>) -> Tensor<f32, M, N> { x }

    #[kernel]
    fn bare<N>(x: Tensor<f32, N>, y: Tensor) -> Tensor<f32, N> { x }

    #[kernel]
    fn numbered<N>(x: Tensor<f32, N, 3>) -> Tensor<f32, N> { x.sum(N) }

    #[kernel]
    fn gram<N>(g: Tensor<f32, N, N>) -> Tensor<f32, N> { g.sum(N) }

    #[kernel]
    fn axis_first<N>(x: Tensor<N>) -> Tensor<f32, N> { x }

    #[kernel]
    fn dtype_last<N>(x: Tensor<f32, N>, y: Tensor<N, f32>) -> Tensor<f32, N> { x }

    #[kernel]
    fn dtype_twice<N>(x: Tensor<f32, N>, y: Tensor<f32, f16>) -> Tensor<f32, N> { x }
}

fn main() {}
