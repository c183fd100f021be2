// messages: syntax

use fuse::fuse;

fuse! {
    #[op]
    fn shifted(x f32) -> f32 { x + 1.0 }

    #[kernel(launches)]
    fn no_number<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel(T = f16)]
    fn no_list<T: Float, N>(x: Tensor<T, N>) -> Tensor<T, N> { x }

    #[kernel]
    fn no_body<N>(x: Tensor<f32, N>) -> Tensor<f32, N>;

    #[op]
    fn not_closed(x: f32) -> f32
}

fn main() {}
