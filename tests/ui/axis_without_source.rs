// messages: axis_without_source, split_into_unknown_extents

use fuse::fuse;

fuse! {
    #[kernel]
    fn padded<N, P>(x: Tensor<f32, N>) -> Tensor<f32, N> { x }

    #[kernel]
    fn heads<F, H, D>(x: Tensor<f32, F>) -> Tensor<f32, H, D> { x.split(F, (H, D)) }
}

fn main() {}
