//! Layers of networks. Axes that a layer does not name pass through.

super::prelude_items! {
    /// `x · w + b` over `K`: a fully connected layer.
    linear: Composite {
        fn linear<K, N>(x: Tensor<f32, K>, w: Tensor<f32, K, N>, b: Tensor<f32, N>) -> Tensor<f32, N> { x.dot(w, K) + b }
    }

    /// A convolution with the same stride and padding on both axes: called as
    /// `conv2d::<C, H, W, K, KH, KW, OH, OW>(x, w, stride, padding)`. No windows are stored.
    conv2d: Composite {
        fn conv2d<C, H, W, K, KH, KW, OH, OW>(
            x: Tensor<f32, C, H, W>, w: Tensor<f32, K, C, KH, KW>, stride: i64, padding: i64,
        ) -> Tensor<f32, K, OH, OW> {
            x.window(H, (OH, KH), stride = stride, padding = padding)
                .window(W, (OW, KW), stride = stride, padding = padding)
                .dot(w, (C, KH, KW))
        }
    }

    /// The greatest of each window; padding counts as −∞. `KH` and `KW` are axes of the caller, `const KH: usize = 3`:
    /// called as `max_pool2d::<H, W, KH, KW, OH, OW>(x, stride, padding)`.
    max_pool2d: Composite {
        fn max_pool2d<H, W, KH, KW, OH, OW>(x: Tensor<f32, H, W>, stride: i64, padding: i64) -> Tensor<f32, OH, OW> {
            x.window(H, (OH, KH), stride = stride, padding = padding, fill = f32::NEG_INFINITY)
                .window(W, (OW, KW), stride = stride, padding = padding, fill = f32::NEG_INFINITY)
                .max((KH, KW))
        }
    }

    /// The mean of each window; padding counts as zeros. Called as `avg_pool2d::<H, W, KH, KW, OH, OW>(x, stride, padding)`.
    avg_pool2d: Composite {
        fn avg_pool2d<H, W, KH, KW, OH, OW>(x: Tensor<f32, H, W>, stride: i64, padding: i64) -> Tensor<f32, OH, OW> {
            x.window(H, (OH, KH), stride = stride, padding = padding)
                .window(W, (OW, KW), stride = stride, padding = padding)
                .mean((KH, KW))
        }
    }

    /// Rotary positions over the halves of `D`, each of extent `E`: called as `rope::<D, E>(x, cos, sin)`.
    rope: Composite {
        fn rope<D, E, const TWO: usize = 2>(x: Tensor<f32, D>, cos: Tensor<f32, E>, sin: Tensor<f32, E>) -> Tensor<f32, D> {
            let h = x.split(D, (TWO, E));
            let turned = select(index(TWO) == 0, -h.reverse(TWO), h.reverse(TWO));
            (h * cos + turned * sin).merge((TWO, E), D)
        }
    }

    /// The rows `ids` of a table over the axis `V`: called as `embedding::<V>(table, ids)`. An id that is no row is a
    /// fault of the call.
    embedding: Composite {
        fn embedding<T: Float, I: Int, V>(table: Tensor<T, V>, ids: Tensor<I>) -> Tensor<T> { table.gather(V, ids) }
    }
}
