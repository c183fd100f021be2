// messages: outer_product

use fuse::fuse;

fuse! {
    #[kernel]
    fn products<M, N>(a: Tensor<f32, M>, b: Tensor<f32, N>) -> Tensor<f32, M, N> { a * b }

    #[kernel]
    fn meant<M, N>(a: Tensor<f32, M>, b: Tensor<f32, N>) -> Tensor<f32, M, N> {
        let t: Tensor<f32, M, N> = a * b;
        t
    }
}

fn main() {}
