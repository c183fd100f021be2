// messages: condition_has_axes, branches_differ, branches_have_other_axes

use fuse::fuse;

fuse! {
    #[kernel]
    fn elementwise<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { if x > 0.0 { x } else { -x } }

    #[kernel]
    fn kinds<N>(x: Tensor<f32, N>, flag: bool) -> Tensor<f32, N> { if flag { x } else { (x, x) } }

    #[kernel]
    fn shapes<M, N>(x: Tensor<f32, M, N>, flag: bool) -> Tensor<f32, M, N> { if flag { x } else { x.sum(N) } }
}

fn main() {}
