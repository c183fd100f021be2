//! What a careful programmer writes by hand: one fused loop, in a copy for each instruction set, with the library's own
//! polynomials. [`cost`] measures a body on data that stay in the first cache; the parallel loop measures it on all.

use super::inputs::Aligned;
use fuse::__private::math;
use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;

/// Elements of the arrays of [`cost`]: four of them fit in 32 KiB.
const TILE: usize = 2048;

/// One fused loop over up to three inputs and one output.
pub type Loop = fn(&[f32], &[f32], &[f32], &mut [f32]);

/// Makes a [`Loop`] of `|x, y, z| expression`; `F` in it says whether there is a fused multiply-add.
macro_rules! fused_loop {
    ($name:ident, $doc:literal, |$x:ident, $y:ident, $z:ident| $body:expr) => {
        #[doc = $doc]
        pub fn $name(xs: &[f32], ys: &[f32], zs: &[f32], out: &mut [f32]) {
            #[inline(always)]
            fn body<const F: bool>(xs: &[f32], ys: &[f32], zs: &[f32], out: &mut [f32]) {
                let n = out.len();
                let (xs, ys, zs) = (&xs[..n], &ys[..n], &zs[..n]);
                for i in 0..n {
                    let ($x, $y, $z) = (xs[i], ys[i], zs[i]);
                    out[i] = $body;
                }
            }
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn avx2(xs: &[f32], ys: &[f32], zs: &[f32], out: &mut [f32]) {
                    body::<true>(xs, ys, zs, out);
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                fn avx512(xs: &[f32], ys: &[f32], zs: &[f32], out: &mut [f32]) {
                    body::<true>(xs, ys, zs, out);
                }
                let wide = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
                if wide && is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512vl") {
                    // SAFETY: the features were just found.
                    return unsafe { avx512(xs, ys, zs, out) };
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the features were just found.
                    return unsafe { avx2(xs, ys, zs, out) };
                }
            }
            body::<false>(xs, ys, zs, out);
        }
    };
}

fused_loop!(affine12, "Twelve multiplications and additions of two inputs.", |x, y, _z| {
    let t = x * 1.01 + 0.1;
    let t = t * 0.99 + y;
    let t = t * 1.02 - 0.3;
    let t = t * 0.98 + y;
    let t = t * 1.03 + 0.2;
    t * 0.97 - 0.1
});
fused_loop!(transcendental12, "Twelve operations of one input, five of them transcendental.", |x, _y, _z| {
    let t = math::tanh::<F>(x * 0.7 + 0.1);
    let s = math::sigmoid::<F>(t * 1.3 - 0.2);
    let e = math::exp::<F>(s * t);
    math::tanh::<F>(math::sigmoid::<F>(e - x) * 0.5)
});
fused_loop!(sigmoid_fma, "`sigmoid(x) * y + z`.", |x, y, z| math::sigmoid::<F>(x) * y + z);
fused_loop!(chain12, "The chain of `pw_chain12`.", |x, y, _z| {
    let t = math::exp::<F>(math::tanh::<F>(x * 0.7 + 0.1) * y) - 1.0;
    let t = if t < -0.9 { -0.9 } else { t };
    let t = if t > 1.5 { 1.5 } else { t };
    let t = if x > 0.0 { t } else { t * 0.25 };
    t.abs().sqrt() + y
});
fused_loop!(gelu_bias_residual, "`gelu(x + y) + z` with the tanh form.", |x, y, z| {
    let u = x + y;
    0.5 * u * (1.0 + math::tanh::<F>(0.797_884_6 * (u + 0.044715 * (u * u * u)))) + z
});
fused_loop!(four_activations, "relu, sigmoid, silu and tanh, in one number.", |x, _y, _z| {
    let s = math::sigmoid::<F>(x);
    let relu = if x > 0.0 { x } else { 0.0 };
    relu + s + x * s + math::tanh::<F>(x)
});
fused_loop!(exponential, "`exp(x - y)`, what a softmax does to an element.", |x, y, _z| math::exp::<F>(
    x - y
));
fused_loop!(silu_gate, "`x * y * silu(z)`.", |x, y, z| x * y * (z * math::sigmoid::<F>(z)));
fused_loop!(ten_light, "The ten operations of `tiny10_1024`.", |x, y, _z| {
    let t = x * 1.5 + y;
    let t = if t > 0.0 { t } else { 0.0 };
    let t = (t * y - 0.3).abs() + x;
    let t = if t < 2.0 { t } else { 2.0 };
    let t = if t > -1.0 { t } else { -1.0 };
    t * 0.5
});

/// Seconds that one core takes for an element where memory costs nothing; the best of 200 runs.
pub fn cost(body: Loop) -> f64 {
    let inputs: Vec<Aligned> = (0..3).map(|k| Aligned::filled(TILE, 0.3 + 0.1 * k as f32)).collect();
    let mut out = Aligned::filled(TILE, 0.0);
    let mut best = f64::INFINITY;
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..4 {
            body(black_box(&inputs[0]), &inputs[1], &inputs[2], &mut out);
            black_box(&mut out);
        }
        best = best.min(start.elapsed().as_secs_f64() / (4 * TILE) as f64);
    }
    best
}

/// The loop over whole arrays, on all threads.
pub fn run_parallel(body: Loop, x: &[f32], y: &[f32], z: &[f32], out: &mut [f32]) {
    const TASK: usize = super::traffic::TASK;
    out.par_chunks_mut(TASK).enumerate().for_each(|(k, out)| {
        let part = |v: &[f32]| k * TASK..(k * TASK + out.len()).min(v.len());
        body(&x[part(x)], &y[part(y)], &z[part(z)], out);
    });
}
