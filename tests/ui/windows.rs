// messages: window_axes, window_step, padding_without_fill

use fuse::fuse;

fuse! {
    #[kernel]
    fn one_axis<H, OH, const KH: usize = 3>(x: Tensor<f32, H>) -> Tensor<f32, OH> { x.window(H, OH).sum(KH) }

    #[kernel]
    fn no_step<H, OH, const KH: usize = 3>(x: Tensor<f32, H>) -> Tensor<f32, OH> {
        x.window(H, (OH, KH), stride = 0).sum(KH)
    }

    #[kernel]
    fn pooled<H, OH, const KH: usize = 3>(x: Tensor<f32, H>) -> Tensor<f32, OH> {
        x.window(H, (OH, KH), stride = 2, padding = 1).max(KH)
    }
}

fn main() {}
