// messages: argument_name_expected, argument_given_twice, positional_after_named, argument_count, unknown_argument, argument_shape

use fuse::fuse;

fuse! {
    #[op]
    fn larger(a: (f32, i64), b: (f32, i64)) -> (f32, i64) { if a.0 >= b.0 { a } else { b } }

    #[kernel]
    fn no_name<N, P>(x: Tensor<f32, N>) -> Tensor<f32, P> { x.pad(N, 1, 1, P, 2 = 0.0) }

    #[kernel]
    fn named_twice<N, P>(x: Tensor<f32, N>) -> Tensor<f32, P> { x.pad(N, 1, 1, P, fill = 0.0, fill = 1.0) }

    #[kernel]
    fn name_first<N, P>(x: Tensor<f32, N>) -> Tensor<f32, P> { x.pad(N, 1, 1, fill = 0.0, P) }

    #[kernel]
    fn too_few<N, P>(x: Tensor<f32, N>, p: Axis<P>) -> Tensor<f32, P> { x.slice(N, 0) }

    #[kernel]
    fn misspelt<N, P>(x: Tensor<f32, N>) -> Tensor<f32, P> { x.pad(N, 1, 1, P, filling = 0.0) }

    #[kernel]
    fn one_for_a_pair<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { larger((x, index(N)), x).0 }
}

fn main() {}
