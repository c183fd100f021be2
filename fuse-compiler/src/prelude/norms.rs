//! Normalisation over one or several axes.

super::prelude_items! {
    /// `(x - mean) / √(var + eps) * g + b` over `N`; `g` and `b` have the axis `N`.
    layer_norm: Composite {
        fn layer_norm<N>(x: Tensor<f32, N>, g: Tensor<f32, N>, b: Tensor<f32, N>, eps: f32) -> Tensor<f32, N> {
            let centred = x - x.mean(N);
            centred * (centred.square().mean(N) + eps).rsqrt() * g + b
        }
    }

    /// `x / √(mean(x²) + eps) * g` over `N`; `g` has the axis `N`.
    rms_norm: Composite {
        fn rms_norm<N>(x: Tensor<f32, N>, g: Tensor<f32, N>, eps: f32) -> Tensor<f32, N> {
            x * (x.square().mean(N) + eps).rsqrt() * g
        }
    }

    /// `(x - mean) / √(var + eps)` over `N`.
    standardize: Composite {
        fn standardize<N>(x: Tensor<f32, N>, eps: f32) -> Tensor<f32, N> {
            let centred = x - x.mean(N);
            centred * (centred.square().mean(N) + eps).rsqrt()
        }
    }

    /// `x / max(√(Σ x²), eps)` over `N`.
    l2_normalize: Composite {
        fn l2_normalize<N>(x: Tensor<f32, N>, eps: f32) -> Tensor<f32, N> {
            x / x.square().sum(N).sqrt().max(eps)
        }
    }

    /// `(x - mean) / √(var + eps) * g + b` over `H` and `W`, for each channel `C`: called as `instance_norm::<C, H, W>(..)`.
    instance_norm: Composite {
        fn instance_norm<C, H, W>(
            x: Tensor<f32, C, H, W>, g: Tensor<f32, C>, b: Tensor<f32, C>, eps: f32,
        ) -> Tensor<f32, C, H, W> {
            let centred = x - x.mean((H, W));
            centred * (centred.square().mean((H, W)) + eps).rsqrt() * g + b
        }
    }

    /// `(x - mean) / √(var + eps) * g + b` over the channels of a group and over `H` and `W`; `groups` is the axis of the
    /// groups: called as `group_norm::<C, H, W>(x, g, b, G, eps)`.
    group_norm: Composite {
        fn group_norm<C, H, W, G, E>(
            x: Tensor<f32, C, H, W>, g: Tensor<f32, C>, b: Tensor<f32, C>, groups: Axis<G>, eps: f32,
        ) -> Tensor<f32, C, H, W> {
            let grouped = x.split(C, (G, E));
            let centred = grouped - grouped.mean((E, H, W));
            let normal = centred * (centred.square().mean((E, H, W)) + eps).rsqrt();
            normal.merge((G, E), C) * g + b
        }
    }

    /// `(x - mean) / √(var + eps) * g + b` with stored statistics; all but `x` have the axis `C` alone.
    batch_norm: Composite {
        fn batch_norm<C>(
            x: Tensor<f32, C>, mean: Tensor<f32, C>, var: Tensor<f32, C>, g: Tensor<f32, C>, b: Tensor<f32, C>,
            eps: f32,
        ) -> Tensor<f32, C> {
            (x - mean) * ((var + eps).rsqrt() * g) + b
        }
    }

    /// The filters `w` of `K` results and what is added to these, such that they do what they did with `batch_norm` after them:
    /// called once, when weights are loaded, by a kernel that gives both.
    fold_batch_norm: Composite {
        fn fold_batch_norm<K>(
            w: Tensor<f32, K>, mean: Tensor<f32, K>, var: Tensor<f32, K>, g: Tensor<f32, K>, b: Tensor<f32, K>, eps: f32,
        ) -> (Tensor<f32, K>, Tensor<f32, K>) {
            let gain = (var + eps).rsqrt() * g;
            (w * gain, b - mean * gain)
        }
    }

    /// The softmax of `x / temperature` over `N`.
    softmax_with_temperature: Composite {
        fn softmax_with_temperature<N>(x: Tensor<f32, N>, temperature: f32) -> Tensor<f32, N> {
            (x / temperature).softmax(N)
        }
    }

    /// The population's standard deviation over `N`.
    std_dev: Composite {
        fn std_dev<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.var(N).sqrt() }
    }

    /// `√(Σ x²)` over `N`.
    l2_norm: Composite {
        fn l2_norm<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.square().sum(N).sqrt() }
    }
}
