// messages: unknown_lint, unfused, materialized, uncoalesced

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

    #[kernel(deny(uncoalesced))]
    fn crossed<M, N>(x: Tensor<f32, M, N>, y: Tensor<f32, N, M>) -> Tensor<f32, M> { (x * y).sum(N) }

    #[kernel(deny(uncoalesced))]
    fn two_layouts<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M, N>, Tensor<f32, N, M>) { (x.exp(), x.sin()) }

    #[kernel(deny(uncoalesced))]
    fn every_other<M, N, const F: usize = { 2 * N }, const TWO: usize = 2>(x: Tensor<f32, M, F>) -> Tensor<f32, M, N> {
        x.split(F, (N, TWO)).at(TWO, 0).exp()
    }

    #[kernel(deny(unfused, materialized), allow(unfused, materialized))]
    fn allowed<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.exp().materialize() + 1.0 }
}

fn main() {}
