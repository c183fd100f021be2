//! The encoder: `B` sentences of at most `S` tokens each, `E` features of a token, `H` heads of `D` features, `I` features inside
//! the MLP. `tokens` says how many of its `S` tokens a sentence has; what is computed of the others is not read.

use fuse::fuse;

fuse! {
    /// Tokens as vectors: those of the word, the position and the segment, added and normalised.
    #[kernel(launches = 1, assume(B = 32, S = 32, V = 30522, P = 512, E = 384))]
    pub fn embed_tokens<B, S, V, P, E>(
        ids: Tensor<i64, B, S>, words: Tensor<f32, V, E>, positions: Tensor<f32, P, E>, segment: Tensor<f32, E>,
        g: Tensor<f32, E>, b: Tensor<f32, E>, eps: f32,
    ) -> Tensor<f32, B, S, E> {
        layer_norm(words.gather(V, ids) + positions.slice(P, 0, S) + segment, g, b, eps)
    }

    /// One layer: attention among the tokens of a sentence, then the MLP, each added to what it was made of and normalised.
    /// `w_in` and `b_in` are those of queries, keys and values one after the other.
    #[kernel(launches = 7, assume(B = 32, S = 32, E = 384, H = 12, D = 32, I = 1536))]
    pub fn encode<B, S, T, E, H, D, I, const F: usize = { 3 * H * D }, const THREE: usize = 3>(
        x: Tensor<f32, B, S, E>, tokens: Tensor<i64, B>, w_in: Tensor<f32, F, E>, b_in: Tensor<f32, F>,
        w_out: Tensor<f32, E, H, D>, b_out: Tensor<f32, E>, g_attended: Tensor<f32, E>, b_attended: Tensor<f32, E>,
        w_up: Tensor<f32, I, E>, b_up: Tensor<f32, I>, w_down: Tensor<f32, E, I>, b_down: Tensor<f32, E>,
        g: Tensor<f32, E>, b: Tensor<f32, E>, scale: f32, eps: f32,
    ) -> Tensor<f32, B, S, E> {
        let h = (x.dot(w_in, E) + b_in).split(F, (THREE, H, D));
        let q = h.at(THREE, 0);
        let k = h.at(THREE, 1).rename(S, T);
        let v = h.at(THREE, 2).rename(S, T);
        let score = select(index(T) < tokens, q.dot(k, D) * scale, f32::NEG_INFINITY);
        let attended = score.softmax(T).dot(v, T).dot(w_out, (H, D)) + b_out;
        let y = layer_norm::<E>(attended + x, g_attended, b_attended, eps);
        let up = gelu(y.dot(w_up, E) + b_up);
        layer_norm::<E>(up.dot(w_down, I) + b_down + y, g, b, eps)
    }

    /// The mean over the tokens of each sentence, of length 1.
    #[kernel(launches = 2, assume(B = 32, S = 32, E = 384))]
    pub fn pool<B, S, E>(x: Tensor<f32, B, S, E>, tokens: Tensor<i64, B>) -> Tensor<f32, B, E> {
        let sum = select(index(S) < tokens, x, 0.0).sum(S);
        l2_normalize::<E>(sum / tokens as f32, 1e-12)
    }

    /// For each of `M` embeddings, which are those from `first` on, the most similar of all `N` but itself, and how similar it is.
    #[kernel(launches = 2, assume(M = 256, N = 4096, E = 384))]
    pub fn nearest<M, N, E>(
        some: Tensor<f32, M, E>, all: Tensor<f32, N, E>, first: i64,
    ) -> (Tensor<i64, M>, Tensor<f32, M>) {
        let cosine = select(index(M) + first == index(N), f32::NEG_INFINITY, some.dot(all, E));
        (cosine.argmax(N), cosine.max(N))
    }
}
