// messages: let_without_value, mutable_let, pattern_not_supported

use fuse::fuse;

fuse! {
    #[kernel]
    fn later<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let y;
        x
    }

    #[kernel]
    fn changed<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let mut y = x;
        y
    }

    #[kernel]
    fn array<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let [a, b] = x;
        x
    }
}

fn main() {}
