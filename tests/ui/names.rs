// messages: unknown_name, path_outside_block, axis_in_place_of_value

use fuse::fuse;

fuse! {
    #[kernel]
    fn added<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x + y }

    #[kernel]
    fn misspelt<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let doubled = x * 2.0;
        doubld + 1.0
    }

    #[kernel]
    fn scaled<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * crate::config::SCALE }

    #[kernel]
    fn averaged<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.sum(N) / N }
}

fn main() {}
