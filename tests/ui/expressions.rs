// messages: expression_not_supported, index_expression, assignment_in_expression, no_fields, callee_not_a_name, item_in_body

use fuse::fuse;

fuse! {
    #[kernel]
    fn range<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * (0..3) }

    #[kernel]
    fn power<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x ** 2.0 }

    #[kernel]
    fn first<N>(x: Tensor<f32, N>) -> Tensor<f32> { x[0] }

    #[kernel]
    fn assigned<N>(p: &mut Tensor<f32, N>, x: Tensor<f32, N>) {
        let y = (*p = x);
    }

    #[kernel]
    fn sized<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * x.shape }

    #[kernel]
    fn called<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { (x)(x) }

    #[kernel]
    fn constant<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        const SCALE: f32 = 2.0;
        x * SCALE
    }
}

fn main() {}
