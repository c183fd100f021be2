//! Elementwise functions of neural networks.

super::prelude_items! {
    /// `max(x, 0)`; as Rust's `max`, it gives 0 for a NaN.
    relu: Op { fn relu(x: f32) -> f32 { x.max(0.0) } }

    /// `min(max(x, 0), 6)`.
    relu6: Op { fn relu6(x: f32) -> f32 { x.max(0.0).min(6.0) } }

    /// `x` where `x >= 0`, else `slope * x`.
    leaky_relu: Op { fn leaky_relu(x: f32, slope: f32) -> f32 { if x >= 0.0 { x } else { slope * x } } }

    /// `x` where `x > 0`, else `alpha * (exp(x) - 1)`.
    elu: Op { fn elu(x: f32, alpha: f32) -> f32 { if x > 0.0 { x } else { alpha * x.exp_m1() } } }

    /// `1.0507 * elu(x, 1.67326)`, with the constants that keep mean and variance.
    selu: Op {
        fn selu(x: f32) -> f32 {
            1.0507009873554805 * elu(x, 1.6732632423543772)
        }
    }

    /// `x` where `x > 0`, else `alpha * (exp(x / alpha) - 1)`.
    celu: Op { fn celu(x: f32, alpha: f32) -> f32 { if x > 0.0 { x } else { alpha * (x / alpha).exp_m1() } } }

    /// `x * Φ(x) = x / 2 * (1 + erf(x / √2))`, with the exact error function.
    gelu: Op { fn gelu(x: f32) -> f32 { 0.5 * x * (1.0 + (x * FRAC_1_SQRT_2).erf()) } }

    /// `x / 2 * (1 + tanh(√(2/π) * (x + 0.044715 x³)))`, the usual approximation of `gelu`. Half of `1 + tanh(u)` is
    /// `sigmoid(2u)`, which loses no digits where the tangent is near -1.
    gelu_tanh: Op {
        fn gelu_tanh(x: f32) -> f32 { x * (x * (1.5957691216057308 + 0.07135481627260025 * x * x)).sigmoid() }
    }

    /// `x * sigmoid(1.702 x)`, a rough approximation of `gelu`.
    quick_gelu: Op { fn quick_gelu(x: f32) -> f32 { x * (1.702 * x).sigmoid() } }

    /// `x * sigmoid(x)`.
    silu: Op { fn silu(x: f32) -> f32 { x * x.sigmoid() } }

    /// `x * sigmoid(x)`, another name of `silu`.
    swish: Op { fn swish(x: f32) -> f32 { x * x.sigmoid() } }

    /// `silu(gate) * x`.
    swiglu: Op { fn swiglu(gate: f32, x: f32) -> f32 { gate * gate.sigmoid() * x } }

    /// `gelu(gate) * x`.
    geglu: Op { fn geglu(gate: f32, x: f32) -> f32 { gelu(gate) * x } }

    /// `x * tanh(softplus(x))`.
    mish: Op { fn mish(x: f32) -> f32 { x * softplus(x).tanh() } }

    /// `ln(1 + exp(x))`, without overflow.
    softplus: Op { fn softplus(x: f32) -> f32 { x.max(0.0) + (-x.abs()).exp().ln_1p() } }

    /// `ln(sigmoid(x))`, without underflow.
    log_sigmoid: Op { fn log_sigmoid(x: f32) -> f32 { x.min(0.0) - (-x.abs()).exp().ln_1p() } }

    /// `x / (1 + |x|)`.
    softsign: Op { fn softsign(x: f32) -> f32 { x / (1.0 + x.abs()) } }

    /// `x` limited to -1..1.
    hardtanh: Op { fn hardtanh(x: f32) -> f32 { x.clamp(-1.0, 1.0) } }

    /// `x / 6 + 1/2` limited to 0..1.
    hardsigmoid: Op { fn hardsigmoid(x: f32) -> f32 { (x / 6.0 + 0.5).clamp(0.0, 1.0) } }

    /// `x * hardsigmoid(x)`.
    hardswish: Op { fn hardswish(x: f32) -> f32 { x * hardsigmoid(x) } }

    /// `x - tanh(x)`.
    tanhshrink: Op { fn tanhshrink(x: f32) -> f32 { x - x.tanh() } }

    /// `x` moved towards 0 by `lambda`, 0 where `|x| <= lambda`.
    softshrink: Op {
        fn softshrink(x: f32, lambda: f32) -> f32 {
            if x > lambda { x - lambda } else if x < -lambda { x + lambda } else { 0.0 }
        }
    }

    /// `x` where `|x| > lambda`, else 0.
    hardshrink: Op { fn hardshrink(x: f32, lambda: f32) -> f32 { if x.abs() > lambda { x } else { 0.0 } } }

    /// `ln(p / (1 - p))`.
    logit: Op { fn logit(p: f32) -> f32 { (p / (1.0 - p)).ln() } }

    /// `x * ln(y)`, 0 where `x == 0`.
    xlogy: Op { fn xlogy(x: f32, y: f32) -> f32 { if x == 0.0 { 0.0 } else { x * y.ln() } } }

    /// `a + t * (b - a)`.
    lerp: Op { fn lerp(a: f32, b: f32, t: f32) -> f32 { a + t * (b - a) } }
}
