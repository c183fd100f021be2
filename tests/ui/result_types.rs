// messages: tensor_type_expected, reference_result, scalar_result, no_result, mutable_parameter_of_composite

use fuse::fuse;

fuse! {
    #[kernel]
    fn listed<N>(x: Tensor<f32, N>) -> Vec<f32> { x }

    #[kernel]
    fn borrowed<N>(x: Tensor<f32, N>) -> &Tensor<f32, N> { x }

    #[kernel]
    fn total<N>(x: Tensor<f32, N>) -> f32 { x.sum(N) }

    #[kernel]
    fn nothing<N>(x: Tensor<f32, N>) {}

    fn step<N>(p: &mut Tensor<f32, N>, g: Tensor<f32, N>) { *p -= g; }
}

fn main() {}
