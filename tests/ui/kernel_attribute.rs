// messages: kernel_argument_expected, unknown_kernel_argument, axis_assumed_twice

use fuse::fuse;

fuse! {
    #[kernel = 1]
    fn doubled<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel(lanches = 1)]
    fn tripled<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 3.0 }

    #[kernel(assume(N = 1024, N = 4096))]
    fn negated<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { -x }

    #[kernel(fast)]
    fn halved<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 0.5 }
}

fn main() {}
