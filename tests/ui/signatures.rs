// messages: qualifier_not_supported, where_not_supported, lifetime_not_supported, self_not_supported, parameter_pattern, parameter_defined_twice

use fuse::fuse;

fuse! {
    #[kernel]
    async fn waiting<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x }

    #[kernel]
    fn bounded<T, N>(x: Tensor<f32, N>) -> Tensor<f32, N>
    where
        T: Float,
    {
        x
    }

    #[kernel]
    fn borrowed<'a, N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x }

    #[kernel]
    fn method<N>(self, x: Tensor<f32, N>) -> Tensor<f32, N> { x }

    #[kernel]
    fn pair<N>((x, y): (Tensor<f32, N>, Tensor<f32, N>)) -> Tensor<f32, N> { x + y }

    #[kernel]
    fn twice<N>(x: Tensor<f32, N>, x: f32) -> Tensor<f32, N> { x }
}

fn main() {}
