// messages: unknown_dtype

use fuse::fuse;

fuse! {
    #[kernel]
    fn doubled<N>(x: Tensor<float, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel]
    fn shifted<N>(x: Tensor<i64, N>, by: usize) -> Tensor<i64, N> { x + by }

    #[kernel]
    fn narrowed<N>(x: Tensor<f32, N>) -> Tensor<f16, N> { x as half }
}

fn main() {}
