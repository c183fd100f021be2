// messages: (rustc's own)

use fuse::fuse;

fn host(x: f32) -> f32 { x }

mod other {
    fuse::fuse! {
        #[op]
        fn private_to_its_block(x: f32) -> f32 { x + 1.0 }

        #[kernel]
        pub(super) fn entry<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { private_to_its_block(x) }
    }
}

fuse! {
    #[kernel]
    fn unknown<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { nowhere(x) }
}

fuse! {
    #[kernel]
    fn plain_rust<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { host(x) }
}

fuse! {
    #[kernel]
    fn private<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { other::private_to_its_block(x) }
}

fuse! {
    #[kernel]
    fn another_kernel<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { other::entry(x) }
}

#[fuse::op]
fn one(x: f32) -> f32 { another(x) }

#[fuse::op]
fn another(x: f32) -> f32 { one(x) }

fn main() {}
