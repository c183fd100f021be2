// messages: literal_of_other_kind, literals_of_two_kinds, literal_out_of_range_of_tensor

use fuse::fuse;

fuse! {
    #[kernel]
    fn doubled<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2 }

    #[kernel]
    fn halved<N>(n: Tensor<i32, N>) -> Tensor<i32, N> { n * 0.5 }

    #[kernel]
    fn scaled<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * (2 * 0.5) }

    #[kernel]
    fn offset<N>(n: Tensor<u8, N>) -> Tensor<u8, N> { n + 300 }
}

fn main() {}
