// messages: too_many_results

use fuse::fuse;

fuse! {
    #[kernel]
    fn copies<N>(x: Tensor<f32, N>) -> (
        Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>,
        Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>,
        Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>,
        Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>,
        Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>,
        Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>,
    ) {
        (
            x, x, x, x, x, x, x, x, x, x, x,
            x, x, x, x, x, x, x, x, x, x, x,
            x, x, x, x, x, x, x, x, x, x, x
        )
    }
}

fn main() {}
