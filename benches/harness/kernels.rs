//! The kernels that are measured.

use fuse::fuse;

fuse! {
    /// Keeps the root of a variance away from zero.
    const EPSILON: f32 = 0.00001;

    /// `x.sigmoid() * b + c`.
    #[kernel(launches = 1, assume(N = 16777216))]
    pub fn pw_sigmoid_fma<N>(x: Tensor<f32, N>, b: Tensor<f32, N>, c: Tensor<f32, N>) -> Tensor<f32, N> {
        x.sigmoid() * b + c
    }

    /// A chain of twelve operations.
    #[kernel(launches = 1, assume(N = 16777216))]
    pub fn pw_chain12<N>(x: Tensor<f32, N>, z: Tensor<f32, N>) -> Tensor<f32, N> {
        let t = (((x * 0.7 + 0.1).tanh() * z).exp() - 1.0).clamp(-0.9, 1.5);
        select(x > 0.0, t, t * 0.25).abs().sqrt() + z
    }

    /// Bias, gelu and residual.
    #[kernel(launches = 1, assume(M = 4096, N = 4096))]
    pub fn gelu_bias_res<M, N>(x: Tensor<f32, M, N>, b: Tensor<f32, N>, r: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
        gelu_tanh(x + b) + r
    }

    /// Four activations of one input.
    #[kernel(launches = 1, assume(N = 16777216))]
    pub fn horizontal4<N>(x: Tensor<f32, N>) -> (Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>, Tensor<f32, N>) {
        (x.max(0.0), x.sigmoid(), silu(x), x.tanh())
    }

    /// Softmax of every row.
    #[kernel(launches = 1, assume(M = 4096, N = 4096))]
    pub fn softmax<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
        x.softmax(N)
    }

    /// Layer norm of every row.
    #[kernel(launches = 1, assume(M = 4096, N = 4096))]
    pub fn layer_norm<M, N>(x: Tensor<f32, M, N>, w: Tensor<f32, N>, b: Tensor<f32, N>) -> Tensor<f32, M, N> {
        let centred = x - x.mean(N);
        centred * (centred.square().mean(N) + EPSILON).rsqrt() * w + b
    }

    /// RMS norm of every row.
    #[kernel(launches = 1, assume(M = 4096, N = 4096))]
    pub fn rms_norm<M, N>(x: Tensor<f32, M, N>, w: Tensor<f32, N>) -> Tensor<f32, M, N> {
        x * (x.square().mean(N) + EPSILON).rsqrt() * w
    }

    /// RMS norm of every row, gated.
    #[kernel(launches = 1, assume(M = 4096, N = 4096))]
    pub fn rmsnorm_silu_gate<M, N>(
        x: Tensor<f32, M, N>,
        w: Tensor<f32, N>,
        g: Tensor<f32, M, N>,
    ) -> Tensor<f32, M, N> {
        x * (x.square().mean(N) + EPSILON).rsqrt() * w * silu(g)
    }

    /// Bytes to numbers, scaled for each column, and back to bytes.
    #[kernel(launches = 1, assume(M = 4096, N = 4096))]
    pub fn dequant_requant<M, N>(
        q: Tensor<i8, M, N>,
        s: Tensor<f32, N>,
        a: Tensor<f32, N>,
        b: Tensor<f32, N>,
    ) -> Tensor<i8, M, N> {
        ((q as f32 * s * a + b) * 16.0).round_ties_even() as i8
    }

    /// The sum of every column.
    #[kernel(assume(M = 8192, N = 2048))]
    pub fn column_sum<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, N> {
        x.sum(M)
    }

    /// The sum of all.
    #[kernel(assume(N = 16777216))]
    pub fn full_sum<N>(x: Tensor<f32, N>) -> Tensor<f32> {
        x.sum(N)
    }

    /// The greatest of all.
    #[kernel(assume(N = 16777216))]
    pub fn full_max<N>(x: Tensor<f32, N>) -> Tensor<f32> {
        x.max(N)
    }

    /// The sum and the greatest of all.
    #[kernel(assume(N = 16777216))]
    pub fn sum_and_max<N>(x: Tensor<f32, N>) -> (Tensor<f32>, Tensor<f32>) {
        (x.sum(N), x.max(N))
    }

    /// Ten light operations.
    #[kernel(launches = 1, assume(N = 1024))]
    pub fn tiny10<N>(x: Tensor<f32, N>, z: Tensor<f32, N>) -> Tensor<f32, N> {
        let t = ((x * 1.5 + z).max(0.0) * z - 0.3).abs() + x;
        t.min(2.0).max(-1.0) * 0.5
    }

    /// A matrix product.
    #[kernel(launches = 1, assume(M = 512, K = 1024, N = 4096))]
    pub fn matmul<M, K, N>(x: Tensor<f32, M, K>, w: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
        x.dot(w, K)
    }

    /// A linear layer with gelu.
    #[kernel(launches = 1, assume(M = 512, K = 1024, N = 4096))]
    pub fn linear_gelu<M, K, N>(
        x: Tensor<f32, M, K>,
        w: Tensor<f32, K, N>,
        b: Tensor<f32, N>,
    ) -> Tensor<f32, M, N> {
        gelu_tanh(x.dot(w, K) + b)
    }

    /// A convolution with batch norm and relu.
    #[kernel(launches = 1, assume(B = 8, C = 64, H = 56, W = 56, K = 64, R = 3, S = 3))]
    pub fn conv_bn_relu<B, C, H, W, K, R, S, P, Q>(
        x: Tensor<f32, B, C, H, W>,
        w: Tensor<f32, K, C, R, S>,
        gamma: Tensor<f32, K>,
        beta: Tensor<f32, K>,
        mean: Tensor<f32, K>,
        var: Tensor<f32, K>,
    ) -> Tensor<f32, B, K, P, Q> {
        let y = conv2d::<C, H, W, K, R, S, P, Q>(x, w, 1, 1);
        relu(batch_norm(y, mean, var, gamma, beta, EPSILON))
    }

    /// Attention of several heads.
    #[kernel(launches = 1, assume(B = 2, H = 8, S = 1024, T = 1024, D = 64))]
    pub fn attention<B, H, S, T, D>(
        q: Tensor<f32, B, H, S, D>,
        k: Tensor<f32, B, H, T, D>,
        v: Tensor<f32, B, H, T, D>,
    ) -> Tensor<f32, B, H, S, D> {
        (q.dot(k, D) * 0.125).softmax(T).dot(v, T)
    }

    /// Attention in which a query sees the keys up to its own position.
    #[kernel(launches = 1, assume(B = 2, H = 8, S = 1024, T = 1024, D = 64))]
    pub fn causal_attention<B, H, S, T, D>(
        q: Tensor<f32, B, H, S, D>,
        k: Tensor<f32, B, H, T, D>,
        v: Tensor<f32, B, H, T, D>,
    ) -> Tensor<f32, B, H, S, D> {
        let seen = index(S) >= index(T);
        select(seen, q.dot(k, D) * 0.125, f32::NEG_INFINITY).softmax(T).dot(v, T)
    }

    /// Twelve multiplications and additions.
    #[kernel(launches = 1, assume(N = 16777216))]
    pub fn affine12<N>(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, N> {
        let t = x * 1.01 + 0.1;
        let t = t * 0.99 + y;
        let t = t * 1.02 - 0.3;
        let t = t * 0.98 + y;
        let t = t * 1.03 + 0.2;
        t * 0.97 - 0.1
    }

    /// Twelve operations, five of them transcendental.
    #[kernel(launches = 1, assume(N = 16777216))]
    pub fn transcendental12<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let t = (x * 0.7 + 0.1).tanh();
        let s = (t * 1.3 - 0.2).sigmoid();
        let e = (s * t).exp();
        ((e - x).sigmoid() * 0.5).tanh()
    }
}
