// messages: turbofish_not_expected, too_many_generics, unknown_tensor_function, kernel_called, recursive_call

use fuse::fuse;

fuse! {
    #[op]
    fn plus_one(x: f32) -> f32 { x + 1.0 }

    fn centred<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x - x.mean(N) }

    fn endless<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { endless(x) }

    #[kernel]
    fn op_with_axis<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { plus_one::<N>(x) }

    #[kernel]
    fn two_axes<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { centred::<N, M>(x) }

    #[kernel]
    fn misspelt<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { geluu(x) }

    #[kernel]
    fn other_kernel<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { misspelt(x) }
}

fn main() {}
