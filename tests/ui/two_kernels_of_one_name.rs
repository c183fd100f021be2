// messages: item_defined_twice

use fuse::fuse;

fuse! {
    #[kernel]
    fn scaled<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel]
    fn scaled<N>(x: Tensor<f32, N>, by: f32) -> Tensor<f32, N> { x * by }
}

fn main() {}
