// messages: unknown_tensor_method, function_called_as_method, method_called_as_function, axis_in_function_call, use_instead, order_not_observable, not_expressible

use fuse::fuse;

fuse! {
    #[kernel]
    fn misspelt<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.expp() }

    #[kernel]
    fn misspelt_over_axis<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.softmx(N) }

    #[kernel]
    fn mapped<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.map(|y| y + 1.0) }

    #[kernel]
    fn as_method<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.gelu() }

    #[kernel]
    fn as_function<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { softmax(x, N) }

    #[kernel]
    fn scalar_maximum<N>(x: Tensor<f32, N>) -> Tensor<f32> { f32::max(x, N) }

    #[kernel]
    fn reshaped<N, P>(x: Tensor<f32, N>, p: Axis<P>) -> Tensor<f32, P> { x.reshape(P) }

    #[kernel]
    fn transposed<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, N, M> { x.transpose() }

    #[kernel]
    fn sorted<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.sort(N) }

    #[kernel]
    fn product<M, K, N>(x: Tensor<f32, M, K>, w: Tensor<f32, K, N>) -> Tensor<f32, M, N> { x.matmul(w) }

    #[kernel]
    fn taken<V, N>(table: Tensor<f32, V>, ids: Tensor<i64, N>) -> Tensor<f32, N> { table.take(V, ids) }
}

fn main() {}
