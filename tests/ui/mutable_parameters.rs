// messages: not_assignable, not_a_mutable_parameter, assignment_without_star, narrowing_store, stored_axes_differ, mutable_parameter_not_assigned

use fuse::fuse;

fuse! {
    #[kernel]
    fn sum_assigned<N>(p: &mut Tensor<f32, N>) { p + 1.0 = p; }

    #[kernel]
    fn rebound<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let y = x;
        y = y * 2.0;
        y
    }

    #[kernel]
    fn no_star<N>(p: &mut Tensor<f32, N>) { p = p * 2.0; }

    #[kernel]
    fn narrow<N>(p: &mut Tensor<f16, N>, g: Tensor<f16, N>, lr: f32) { *p -= g * lr; }

    #[kernel]
    fn reduced<M, N>(p: &mut Tensor<f32, M, N>) { *p = p.sum(N); }

    #[kernel]
    fn never<N>(p: &mut Tensor<f32, N>) -> Tensor<f32, N> { p * 2.0 }
}

fn main() {}
