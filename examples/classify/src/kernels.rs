//! The network, channels last: `B` pictures of `H` rows and `W` columns of `C` channels, filters of `R` by `S` taps, results of
//! `P` rows and `Q` columns. Batch norms are folded into the filters before them, once.

use fuse::fuse;

fuse! {
    /// The picture at another size, each pixel from 0 to 255 as about -1 to 1: `rows` and `columns` say how much of each pixel
    /// goes into each of the new ones.
    #[kernel(launches = 2, assume(H = 512, W = 512, P = 224, Q = 224))]
    pub fn resize<H, W, P, Q, const C: usize = 3>(
        picture: Tensor<u8, H, W, C>, rows: Tensor<f32, P, H>, columns: Tensor<f32, Q, W>,
    ) -> Tensor<f32, P, Q, C> {
        ((picture as f32).dot(rows, H).dot(columns, W) - 127.0) / 128.0
    }

    /// What a norm multiplies its channel by.
    #[op]
    fn gain(var: f32, g: f32, eps: f32) -> f32 {
        g / (var + eps).sqrt()
    }

    /// The filters of a convolution and what is added to it, such that they do what they did with the norm after them.
    #[kernel(launches = 2, assume(K = 256, C = 256, R = 1, S = 1))]
    pub fn fold<K, C, R, S>(
        w: Tensor<f32, K, C, R, S>, mean: Tensor<f32, K>, var: Tensor<f32, K>, g: Tensor<f32, K>, b: Tensor<f32, K>,
        eps: f32,
    ) -> (Tensor<f32, K, R, S, C>, Tensor<f32, K>) {
        (w * gain(var, g, eps), b - mean * gain(var, g, eps))
    }

    /// The same of filters that read one channel each.
    #[kernel(launches = 2, assume(C = 256, R = 3, S = 3))]
    pub fn fold_depthwise<C, R, S>(
        w: Tensor<f32, C, R, S>, mean: Tensor<f32, C>, var: Tensor<f32, C>, g: Tensor<f32, C>, b: Tensor<f32, C>,
        eps: f32,
    ) -> (Tensor<f32, R, S, C>, Tensor<f32, C>) {
        (w * gain(var, g, eps), b - mean * gain(var, g, eps))
    }

    /// A convolution of all channels, and ReLU6. Of the zeros around the picture `before` are above and left of it, `after`
    /// below and right.
    #[kernel(launches = 1, assume(B = 1, H = 224, W = 224, C = 3, R = 3, S = 3, K = 32, P = 112, Q = 112))]
    pub fn stem<B, H, W, C, R, S, K, P, Q, HP, WP>(
        x: Tensor<f32, B, H, W, C>, w: Tensor<f32, K, R, S, C>, b: Tensor<f32, K>, stride: i64, before: i64, after: i64,
    ) -> Tensor<f32, B, P, Q, K> {
        let x = x.pad(H, before, after, HP).pad(W, before, after, WP);
        relu6(x.window(HP, (P, R), stride = stride).window(WP, (Q, S), stride = stride).dot(w, (R, S, C)) + b)
    }

    /// A filter for each channel, and ReLU6.
    fn depthwise<H, W, C, R, S, P, Q, HP, WP>(
        x: Tensor<f32, H, W, C>, w: Tensor<f32, R, S, C>, b: Tensor<f32, C>, stride: i64, before: i64, after: i64,
    ) -> Tensor<f32, P, Q, C> {
        let x = x.pad(H, before, after, HP).pad(W, before, after, WP);
        relu6(x.window(HP, (P, R), stride = stride).window(WP, (Q, S), stride = stride).dot(w, (R, S)) + b)
    }

    /// The first block: channels for themselves, then `K` mixtures of them.
    #[kernel(launches = 2, assume(B = 1, H = 112, W = 112, C = 32, R = 3, S = 3, K = 16, P = 112, Q = 112))]
    pub fn first_block<B, H, W, C, R, S, K, P, Q, HP, WP>(
        x: Tensor<f32, B, H, W, C>, w_depth: Tensor<f32, R, S, C>, b_depth: Tensor<f32, C>, w_down: Tensor<f32, K, C>,
        b_down: Tensor<f32, K>, stride: i64, before: i64, after: i64,
    ) -> Tensor<f32, B, P, Q, K> {
        let depth = depthwise::<H, W, C, R, S, P, Q, HP, WP>(x, w_depth, b_depth, stride, before, after);
        depth.dot(w_down, C) + b_down
    }

    /// A block: `E` mixtures of channels, those for themselves, then `K` mixtures of them.
    #[kernel(launches = 3, assume(B = 1, H = 28, W = 28, C = 40, E = 240, R = 3, S = 3, K = 80, P = 14, Q = 14))]
    pub fn block<B, H, W, C, E, R, S, K, P, Q, HP, WP>(
        x: Tensor<f32, B, H, W, C>, w_up: Tensor<f32, E, C>, b_up: Tensor<f32, E>, w_depth: Tensor<f32, R, S, E>,
        b_depth: Tensor<f32, E>, w_down: Tensor<f32, K, E>, b_down: Tensor<f32, K>, stride: i64, before: i64, after: i64,
    ) -> Tensor<f32, B, P, Q, K> {
        let up = relu6(x.dot(w_up, C) + b_up);
        let depth = depthwise::<H, W, E, R, S, P, Q, HP, WP>(up, w_depth, b_depth, stride, before, after);
        depth.dot(w_down, E) + b_down
    }

    /// A block that keeps the picture's size and channels, and is added to what it is made of.
    #[kernel(launches = 3, assume(B = 1, H = 14, W = 14, C = 112, E = 672, R = 5, S = 5))]
    pub fn residual_block<B, H, W, C, E, R, S, P, Q, HP, WP>(
        x: Tensor<f32, B, H, W, C>, w_up: Tensor<f32, E, C>, b_up: Tensor<f32, E>, w_depth: Tensor<f32, R, S, E>,
        b_depth: Tensor<f32, E>, w_down: Tensor<f32, C, E>, b_down: Tensor<f32, C>, around: i64,
    ) -> Tensor<f32, B, H, W, C> {
        let up = relu6(x.dot(w_up, C) + b_up);
        let depth = depthwise::<H, W, E, R, S, P, Q, HP, WP>(up, w_depth, b_depth, 1, around, around);
        (depth.dot(w_down, E) + b_down).rename(P, H).rename(Q, W) + x
    }

    /// Mixtures of channels, their means over the picture, and a number for each of `N` classes.
    #[kernel(launches = 3, assume(B = 1, H = 7, W = 7, C = 320, K = 1280, N = 1000))]
    pub fn head<B, H, W, C, K, N>(
        x: Tensor<f32, B, H, W, C>, w_up: Tensor<f32, K, C>, b_up: Tensor<f32, K>, w: Tensor<f32, N, K>, b: Tensor<f32, N>,
    ) -> Tensor<f32, B, N> {
        relu6(x.dot(w_up, C) + b_up).mean((H, W)).dot(w, K) + b
    }

    /// How likely each class is.
    #[kernel(launches = 1, assume(B = 1, N = 1000))]
    pub fn likelihood<B, N>(logits: Tensor<f32, B, N>) -> Tensor<f32, B, N> { logits.softmax(N) }
}
