// messages: attribute_on_other_item, marker_argument, exported_name_is_known, second_marker, unknown_kernel_argument

use fuse::fuse;

#[fuse::op]
struct Number;

#[fuse::composite]
const LIMIT: f32 = 6.0;

#[fuse::op(fast)]
fn half(x: f32) -> f32 { 0.5 * x }

#[fuse::op]
#[fuse::kernel]
fn both(x: f32) -> f32 { x }

#[fuse::kernel(lanches = 1)]
fn misspelt<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x + 1.0 }

#[fuse::op]
fn gelu(x: f32) -> f32 { x }

fuse! {
    #[op]
    pub fn sigmoid(x: f32) -> f32 { x }

    pub(crate) fn softmax<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x }

    #[op]
    fn silu(x: f32) -> f32 { x }
}

fn main() {}
