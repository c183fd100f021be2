// messages: operands_differ

use fuse::fuse;

fuse! {
    #[kernel]
    fn weighted<N>(x: Tensor<f32, N>, n: Tensor<u32, N>) -> Tensor<f32, N> { x * n }
}

fn main() {}
