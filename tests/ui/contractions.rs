// messages: contracted_axis_missing, axis_missing, axes_differ

use fuse::fuse;

fuse! {
    #[kernel]
    fn other_axis<M, K, N>(x: Tensor<f32, M, K>, w: Tensor<f32, N, M>) -> Tensor<f32, M, N> { x.dot(w, K) }

    #[kernel]
    fn self_attention<S, T, D>(q: Tensor<f32, S, D>, k: Tensor<f32, S, D>, v: Tensor<f32, T, D>) -> Tensor<f32, S, D> {
        q.dot(k, D).softmax(T).dot(v, T)
    }

    #[kernel]
    fn gram<M, N, P>(x: Tensor<f32, M, N>, p: Axis<P>) -> Tensor<f32, N, P> { x.dot(x, M) }
}

fn main() {}
