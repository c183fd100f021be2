// messages: item_not_supported, item_defined_twice, second_marker, cfg_inside_block, unknown_attribute

use fuse::fuse;

fuse! {
    struct Config;

    let scale = 2.0;

    #[kernels]
    fn doubled<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    const LIMIT: f32 = 6.0;
    const LIMIT: f32 = 7.0;

    #[op]
    #[kernel]
    fn clipped(x: f32) -> f32 { x.min(6.0) }

    #[cfg(test)]
    #[op]
    fn half(x: f32) -> f32 { 0.5 * x }
}

fn main() {}
