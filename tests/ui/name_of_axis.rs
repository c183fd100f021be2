// messages: name_of_axis

use fuse::fuse;

fuse! {
    #[kernel]
    fn clipped<N>(x: Tensor<f32, N>, N: f32) -> Tensor<f32, N> { x.min(N) }

    #[kernel]
    fn centred<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
        let M = x.mean(N);
        x - M
    }
}

fn main() {}
