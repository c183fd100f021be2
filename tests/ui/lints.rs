// messages: unknown_lint, unfused, materialized

use fuse::fuse;

fuse! {
    #[kernel(warn(slow))]
    fn doubled<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel(deny(unfused))]
    fn cut<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let y = x.exp().materialize();
        y + 1.0
    }

    #[kernel(warn(materialized), deny(materialized))]
    fn stored<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
        let y = x.exp().materialize();
        y + 1.0
    }

    #[kernel(deny(unfused, materialized), allow(unfused, materialized))]
    fn allowed<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.exp().materialize() + 1.0 }
}

fn main() {}
