// messages: argument_not_understood, argument_repeated, argument_of_attribute_expected, argument_of_op, unknown_lint

use fuse::fuse;

fuse! {
    #[kernel(launches = 1, launches = 7)]
    fn twice<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel(launches = -1)]
    fn negative<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel(launches)]
    fn without_number<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel(launches = 1u8 fast)]
    fn without_comma<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel(assume(N = 2.5))]
    fn fraction<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel(assume = 3)]
    fn no_axis<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel(fast = true)]
    fn fast_value<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel(test, test)]
    fn tested<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel(warn)]
    fn warned<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel(deny(unfused, slow))]
    fn denied<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel(T = f32)]
    fn no_list<T: Float, N>(x: Tensor<T, N>) -> Tensor<T, N> { x * x }

    #[kernel(1)]
    fn number<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[op(fast)]
    fn fast_op(x: f32) -> f32 { x }

    #[reduce(identity = 0.0, identity = 1.0)]
    fn of_two(a: f32, b: f32) -> f32 { a + b }

    #[reduce(identity)]
    fn of_none(a: f32, b: f32) -> f32 { a + b }

    #[reduce(identity = 0.0, ordered = true)]
    fn in_order(a: f32, b: f32) -> f32 { a + b }
}

fn main() {}
