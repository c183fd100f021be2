//! Losses and distances. A mean is over the named axis; other axes pass through.

super::prelude_items! {
    /// `mean((x - y)²)` over `N`.
    mse_loss: Composite {
        fn mse_loss<N>(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32> { (x - y).square().mean(N) }
    }

    /// `mean(|x - y|)` over `N`.
    l1_loss: Composite {
        fn l1_loss<N>(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32> { (x - y).abs().mean(N) }
    }

    /// The mean over `N` of `d² / 2` where `|d| <= delta`, else `delta * (|d| - delta / 2)`, with `d = x - y`.
    huber_loss: Composite {
        fn huber_loss<N>(x: Tensor<f32, N>, y: Tensor<f32, N>, delta: f32) -> Tensor<f32> {
            let d = (x - y).abs();
            select(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta)).mean(N)
        }
    }

    /// The mean over `N` of `d² / (2 beta)` where `|d| < beta`, else `|d| - beta / 2`, with `d = x - y`.
    smooth_l1_loss: Composite {
        fn smooth_l1_loss<N>(x: Tensor<f32, N>, y: Tensor<f32, N>, beta: f32) -> Tensor<f32> {
            let d = (x - y).abs();
            select(d < beta, 0.5 * d * d / beta, d - 0.5 * beta).mean(N)
        }
    }

    /// The mean over `N` of `-(y ln σ(x) + (1 - y) ln(1 - σ(x)))`, without overflow.
    bce_with_logits: Composite {
        fn bce_with_logits<N>(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32> {
            (x.max(0.0) - x * y + (-x.abs()).exp().ln_1p()).mean(N)
        }
    }

    /// `Σ y (ln y - x)` over `N`, where `x` is the logarithm of a distribution; terms with `y = 0` are 0.
    kl_div: Composite {
        fn kl_div<N>(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32> { (xlogy(y, y) - y * x).sum(N) }
    }

    /// `-ln softmax(logits)[label]` over the classes `V`; the label is an integer. A label that is no class gives 0.
    cross_entropy: Composite {
        fn cross_entropy<V>(logits: Tensor<f32, V>, label: Tensor<i64>) -> Tensor<f32> {
            -select(index(V) == label, logits.log_softmax(V), 0.0).sum(V)
        }
    }

    /// `-Σ y ln softmax(logits)` over the classes `V`, with `y` a distribution.
    soft_cross_entropy: Composite {
        fn soft_cross_entropy<V>(logits: Tensor<f32, V>, y: Tensor<f32, V>) -> Tensor<f32> {
            -(y * logits.log_softmax(V)).sum(V)
        }
    }

    /// `mean(max(0, 1 - x y))` over `N`, with `y` of -1 or 1.
    hinge_loss: Composite {
        fn hinge_loss<N>(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32> { (1.0 - x * y).max(0.0).mean(N) }
    }

    /// `Σ x y / max(√(Σ x²) √(Σ y²), eps)` over `N`.
    cosine_similarity: Composite {
        fn cosine_similarity<N>(x: Tensor<f32, N>, y: Tensor<f32, N>, eps: f32) -> Tensor<f32> {
            (x * y).sum(N) / (x.square().sum(N).sqrt() * y.square().sum(N).sqrt()).max(eps)
        }
    }

    /// `√(Σ (x - y)²)` over `N`.
    euclidean_distance: Composite {
        fn euclidean_distance<N>(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32> {
            (x - y).square().sum(N).sqrt()
        }
    }
}
