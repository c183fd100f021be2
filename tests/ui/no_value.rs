// messages: no_value, value_not_used, result_count, result_not_declared

use fuse::fuse;

fuse! {
    #[kernel]
    fn from_nothing<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let y = {};
        x + y
    }

    #[kernel]
    fn dropped<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        x.exp();
        x
    }

    #[kernel]
    fn semicolon<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        x + 1.0;
    }

    #[kernel]
    fn forgotten<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let y = x + 1.0;
    }

    #[kernel]
    fn two<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { (x, x) }

    #[kernel]
    fn one<N>(x: Tensor<f32, N>) -> (Tensor<f32, N>, Tensor<f32>) { x }

    #[kernel]
    fn updated<N>(p: &mut Tensor<f32, N>) {
        *p = p * 2.0;
        p
    }
}

fn main() {}
