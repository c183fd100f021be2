// messages: tuple_in_place_of_tensor, tuple_pattern_differs, no_such_component, method_of_tuple

use fuse::fuse;

fuse! {
    #[kernel]
    fn shifted<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { (x, x) + 1.0 }

    #[kernel]
    fn taken_apart<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let (a, b) = x;
        a + b
    }

    #[kernel]
    fn third<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { (x, x).2 }

    #[kernel]
    fn both<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { (x, x).exp() }
}

fn main() {}
