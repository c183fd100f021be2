// messages: syntax

use fuse::fuse;

fuse! {
    #[op]
    fn shifted(x f32) -> f32 { x + 1.0 }

    #[kernel]
    fn no_body<N>(x: Tensor<f32, N>) -> Tensor<f32, N>;

    #[op]
    fn not_closed(x: f32) -> f32
}

fn main() {}
