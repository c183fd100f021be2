//! Each item of the prelude against plain f64 code, in both precisions.

use super::*;
use crate::lower::tests::{array, lower_one, numbers, run};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::Input;

const X: [f64; 6] = [-7.5, -1.25, -0.25, 0.0, 0.75, 6.5];

fn erf(x: f64) -> f64 {
    // A continued fraction far from 0, near it Taylor's series.
    if x.abs() > 2.0 {
        let a = x.abs();
        let fraction = (1..200).rev().fold(a, |f, n| a + f64::from(n) / 2.0 / f);
        return x.signum() * (1.0 - (-a * a).exp() / std::f64::consts::PI.sqrt() / fraction);
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / n as f64;
        sum += term / (2 * n + 1) as f64;
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn values(dtype: DType, data: &[f64]) -> Vec<Value> {
    data.iter().filter_map(|&x| Value::from_f64(dtype, x)).collect()
}

fn check_near(what: &str, found: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(found.len(), want.len(), "{what}");
    for (i, (f, w)) in found.iter().zip(want).enumerate() {
        assert!(
            f == w || (f - w).abs() <= tolerance * w.abs().max(1.0),
            "{what}, element {i}: {f} instead of {w}"
        );
    }
}

/// Checks `name(x, extra..)` over [`X`].
fn check_op(name: &str, extra: &[f64], f: impl Fn(f64) -> f64) {
    let want: Vec<f64> = X.iter().map(|&x| f(x)).collect();
    for (dtype, tolerance) in [(DType::F32, 2e-6), (DType::F64, 1e-12)] {
        let rest: String = extra.iter().map(|e| format!(", {e:?}")).collect();
        let source =
            format!("#[kernel] fn k<N>(x: Tensor<{dtype}, N>) -> Tensor<{dtype}, N> {{ {name}(x{rest}) }}");
        let out = run(&source, vec![array(dtype, &[6], values(dtype, &X))]);
        check_near(&format!("{name} of {dtype}"), &numbers(&out.results[0]), &want, tolerance);
    }
}

#[test]
fn activations_are_right() {
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    let elu = |x: f64, a: f64| if x > 0.0 { x } else { a * x.exp_m1() };
    let gelu = |x: f64| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()));
    check_op("relu", &[], |x| x.max(0.0));
    check_op("relu6", &[], |x| x.clamp(0.0, 6.0));
    check_op("leaky_relu", &[0.125], |x| if x >= 0.0 { x } else { 0.125 * x });
    check_op("elu", &[0.5], |x| elu(x, 0.5));
    check_op("selu", &[], |x| 1.0507009873554805 * elu(x, 1.6732632423543772));
    check_op("celu", &[0.5], |x| if x > 0.0 { x } else { 0.5 * (x / 0.5).exp_m1() });
    check_op("gelu", &[], gelu);
    check_op("gelu_tanh", &[], |x| {
        0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
    });
    check_op("quick_gelu", &[], |x| x * sigmoid(1.702 * x));
    check_op("silu", &[], |x| x * sigmoid(x));
    check_op("swish", &[], |x| x * sigmoid(x));
    check_op("swiglu", &[3.0], |x| x * sigmoid(x) * 3.0);
    check_op("geglu", &[3.0], |x| gelu(x) * 3.0);
    check_op("mish", &[], |x| x * softplus(x).tanh());
    check_op("softplus", &[], softplus);
    check_op("log_sigmoid", &[], |x| sigmoid(x).ln());
    check_op("softsign", &[], |x| x / (1.0 + x.abs()));
    check_op("hardtanh", &[], |x| x.clamp(-1.0, 1.0));
    check_op("hardsigmoid", &[], |x| (x / 6.0 + 0.5).clamp(0.0, 1.0));
    check_op("hardswish", &[], |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0));
    check_op("tanhshrink", &[], |x| x - x.tanh());
    check_op("softshrink", &[0.5], |x| if x.abs() > 0.5 { x - 0.5 * x.signum() } else { 0.0 });
    check_op("hardshrink", &[0.5], |x| if x.abs() > 0.5 { x } else { 0.0 });
    check_op("xlogy", &[0.25], |x| x * 0.25f64.ln());
    check_op("lerp", &[2.0, 0.25], |x| x + 0.25 * (2.0 - x));
    // Those without a tensor of their own range.
    check_op("sigmoid", &[], sigmoid);
    check_op("tanh", &[], f64::tanh);
    check_op("exp", &[], f64::exp);
}

#[test]
fn logit_undoes_sigmoid() {
    check_rows(" logit(y)", "M, N", |_, y| y.iter().map(|y| (y / (1.0 - y)).ln()).collect());
}

/// Rows of three of [`X`] and a second operand; `per_row` gives what is expected for each row.
fn check_rows(call: &str, axes: &str, per_row: impl Fn(&[f64], &[f64]) -> Vec<f64>) {
    let y = [0.5, 0.25, 0.25, 0.0, 0.75, 0.25];
    let want: Vec<f64> = (0..2).flat_map(|r| per_row(&X[3 * r..3 * r + 3], &y[3 * r..3 * r + 3])).collect();
    for (dtype, tolerance) in [(DType::F32, 5e-6), (DType::F64, 1e-12)] {
        let source = format!(
            "#[kernel] fn k<M, N>(x: Tensor<{dtype}, M, N>, y: Tensor<{dtype}, M, N>, g: Tensor<{dtype}, N>) -> Tensor<{dtype}, {axes}> {{ {call} }}"
        );
        let input = |data: &[f64]| array(dtype, &[2, 3], values(dtype, data));
        let g = array(dtype, &[3], values(dtype, &[1.0, 2.0, -1.0]));
        let out = run(&source, vec![input(&X), input(&y), g]);
        check_near(&format!("{call} of {dtype}"), &numbers(&out.results[0]), &want, tolerance);
    }
}

const G: [f64; 3] = [1.0, 2.0, -1.0];

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

fn normal(x: &[f64], eps: f64) -> Vec<f64> {
    let m = mean(x);
    let v = mean(&x.iter().map(|x| (x - m) * (x - m)).collect::<Vec<_>>());
    x.iter().map(|x| (x - m) / (v + eps).sqrt()).collect()
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let sum: f64 = x.iter().map(|x| x.exp()).sum();
    x.iter().map(|x| x.exp() / sum).collect()
}

fn zip(a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()
}

#[test]
fn norms_are_right() {
    check_rows("layer_norm(x, g, g, 1e-5)", "M, N", |x, _| zip(&normal(x, 1e-5), &G, |n, g| n * g + g));
    check_rows("rms_norm(x, g, 1e-5)", "M, N", |x, _| {
        let scale = 1.0 / (mean(&zip(x, x, |a, b| a * b)) + 1e-5).sqrt();
        zip(x, &G, |x, g| x * scale * g)
    });
    check_rows("standardize::<N>(x, 1e-5)", "M, N", |x, _| normal(x, 1e-5));
    let norm = |x: &[f64]| zip(x, x, |a, b| a * b).iter().sum::<f64>().sqrt();
    check_rows("l2_normalize::<N>(x, 1e-12)", "M, N", |x, _| x.iter().map(|v| v / norm(x)).collect());
    check_rows("l2_norm::<N>(x)", "M", |x, _| vec![norm(x)]);
    check_rows("std_dev::<N>(x)", "M", |x, _| {
        let m = mean(x);
        vec![mean(&x.iter().map(|v| (v - m) * (v - m)).collect::<Vec<_>>()).sqrt()]
    });
    check_rows("softmax_with_temperature::<N>(x, 2.0)", "M, N", |x, _| {
        softmax(&x.iter().map(|v| v / 2.0).collect::<Vec<_>>())
    });
    check_rows("batch_norm(x, g, g * g, g, g, 1e-5)", "M, N", |x, _| {
        zip(x, &G, |x, g| (x - g) / (g * g + 1e-5).sqrt() * g + g)
    });
}

#[test]
fn norms_over_channels_are_right() {
    let x: Vec<f64> = (0..16).map(|i| f64::from(i * i % 11)).collect();
    let (g, b) = ([1.0, 2.0, 3.0, 4.0], [0.5, -0.5, 0.25, 0.0]);
    let inputs = || {
        vec![
            array(DType::F32, &[4, 2, 2], values(DType::F32, &x)),
            array(DType::F32, &[4], values(DType::F32, &g)),
            array(DType::F32, &[4], values(DType::F32, &b)),
        ]
    };
    let want = |group: usize| -> Vec<f64> {
        let rows = x.chunks(4 * group).flat_map(|c| normal(c, 1e-5));
        rows.enumerate().map(|(i, n)| n * g[i / 4] + b[i / 4]).collect()
    };
    let params = "x: Tensor<f32, C, H, W>, g: Tensor<f32, C>, b: Tensor<f32, C>";
    let source = format!(
        "#[kernel] fn k<C, H, W>({params}) -> Tensor<f32, C, H, W> {{ instance_norm::<C, H, W>(x, g, b, 1e-5) }}"
    );
    check_near("instance_norm", &numbers(&run(&source, inputs()).results[0]), &want(1), 1e-5);
    let source = format!(
        "#[kernel] fn k<C, H, W, const G: usize = 2>({params}) -> Tensor<f32, C, H, W> {{ group_norm::<C, H, W>(x, g, b, G, 1e-5) }}"
    );
    check_near("group_norm", &numbers(&run(&source, inputs()).results[0]), &want(2), 1e-5);
}

#[test]
fn losses_are_right() {
    let each = |f: fn(f64, f64) -> f64| move |x: &[f64], y: &[f64]| vec![mean(&zip(x, y, f))];
    check_rows("mse_loss::<N>(x, y)", "M", each(|x, y| (x - y) * (x - y)));
    check_rows("l1_loss::<N>(x, y)", "M", each(|x, y| (x - y).abs()));
    check_rows(
        "huber_loss::<N>(x, y, 1.5)",
        "M",
        each(|x, y| {
            let d = (x - y).abs();
            if d <= 1.5 { d * d / 2.0 } else { 1.5 * (d - 0.75) }
        }),
    );
    check_rows(
        "smooth_l1_loss::<N>(x, y, 2.0)",
        "M",
        each(|x, y| {
            let d = (x - y).abs();
            if d < 2.0 { d * d / 4.0 } else { d - 1.0 }
        }),
    );
    check_rows(
        "bce_with_logits::<N>(x, y)",
        "M",
        each(|x, y| -(y * sigmoid(x).ln() + (1.0 - y) * sigmoid(-x).ln())),
    );
    check_rows("hinge_loss::<N>(x, y)", "M", each(|x, y| (1.0 - x * y).max(0.0)));
    check_rows("kl_div::<N>(x, y)", "M", |x, y| {
        vec![zip(x, y, |x, y| if y == 0.0 { 0.0 } else { y * (y.ln() - x) }).iter().sum()]
    });
    check_rows("soft_cross_entropy::<N>(x, y)", "M", |x, y| {
        vec![-zip(&softmax(x), y, |p, y| y * p.ln()).iter().sum::<f64>()]
    });
    let dot = |x: &[f64], y: &[f64]| zip(x, y, |x, y| x * y).iter().sum::<f64>();
    check_rows("cosine_similarity::<N>(x, y, 1e-8)", "M", |x, y| {
        vec![dot(x, y) / (dot(x, x).sqrt() * dot(y, y).sqrt())]
    });
    check_rows("euclidean_distance::<N>(x, y)", "M", |x, y| {
        vec![zip(x, y, |x, y| (x - y) * (x - y)).iter().sum::<f64>().sqrt()]
    });
    check_rows("cross_entropy::<N>(x, index(M) + 1)", "M", |x, _| {
        let label = if x[0] == X[0] { 1 } else { 2 };
        vec![-softmax(x)[label].ln()]
    });
}

#[test]
fn layers_are_right() {
    for dtype in [DType::F32, DType::F64] {
        let source = format!(
            "#[kernel] fn k<V, E, N>(t: Tensor<{dtype}, V, E>, i: Tensor<i32, N>) -> Tensor<{dtype}, N, E> {{ embedding::<V>(t, i) }}"
        );
        let table = array(dtype, &[3, 2], values(dtype, &X));
        let ids = array(DType::I32, &[2], vec![Value::I32(2), Value::I32(0)]);
        check_near(
            "embedding",
            &numbers(&run(&source, vec![table, ids]).results[0]),
            &[X[4], X[5], X[0], X[1]],
            0.0,
        );
    }
}

/// A grid of whole numbers, and the same as an input.
fn grid(dtype: DType, shape: &[usize]) -> (Vec<f64>, Input) {
    let data: Vec<f64> = (0..shape.iter().product::<usize>()).map(|i| (i * i % 13) as f64 - 5.0).collect();
    let input = array(dtype, shape, values(dtype, &data));
    (data, input)
}

#[test]
fn linear_layers_and_rotations_are_right() {
    for dtype in [DType::F32, DType::F64] {
        let source = format!(
            "#[kernel] fn k<M, K, N>(x: Tensor<{dtype}, M, K>, w: Tensor<{dtype}, K, N>, b: Tensor<{dtype}, N>) -> Tensor<{dtype}, M, N> {{ linear(x, w, b) }}"
        );
        let ((x, xi), (w, wi), (b, bi)) = (grid(dtype, &[3, 4]), grid(dtype, &[4, 5]), grid(dtype, &[5]));
        let want: Vec<f64> = (0..15)
            .map(|at| (0..4).map(|k| x[at / 5 * 4 + k] * w[k * 5 + at % 5]).sum::<f64>() + b[at % 5])
            .collect();
        check_near("linear", &numbers(&run(&source, vec![xi, wi, bi]).results[0]), &want, 0.0);

        let source = format!(
            "#[kernel] fn k<S, D, E>(x: Tensor<{dtype}, S, D>, c: Tensor<{dtype}, S, E>, s: Tensor<{dtype}, S, E>) -> Tensor<{dtype}, S, D> {{ rope::<D, E>(x, c, s) }}"
        );
        let ((x, xi), (c, ci), (s, si)) = (grid(dtype, &[2, 6]), grid(dtype, &[2, 3]), grid(dtype, &[2, 3]));
        let want: Vec<f64> = (0..12)
            .map(|at| {
                let (row, d) = (at / 6, at % 6);
                let (e, other) = (d % 3, x[row * 6 + (d + 3) % 6]);
                let turned = if d < 3 { -other } else { other };
                x[at] * c[row * 3 + e] + turned * s[row * 3 + e]
            })
            .collect();
        check_near("rope", &numbers(&run(&source, vec![xi, ci, si]).results[0]), &want, 0.0);
    }
}

#[test]
fn convolutions_and_pools_are_right() {
    let (c, h, w, k, r, s) = (2, 5, 6, 3, 3, 2);
    let dtype = DType::F32;
    for (stride, padding) in [(1, 0), (1, 1), (2, 1), (3, 2)] {
        let out = |n: usize, taps: usize| (n + 2 * padding - taps) / stride + 1;
        let (oh, ow) = (out(h, r), out(w, s));
        let ((x, xi), (f, fi)) = (grid(dtype, &[c, h, w]), grid(dtype, &[k, c, r, s]));
        let read = |ch: usize, i: usize, j: usize, a: usize, b: usize| {
            let (y, z) = ((i * stride + a).wrapping_sub(padding), (j * stride + b).wrapping_sub(padding));
            (y < h && z < w).then(|| x[(ch * h + y) * w + z])
        };
        let source = format!(
            "#[kernel] fn k<C, H, W, K, KH, KW, OH, OW>(x: Tensor<f32, C, H, W>, w: Tensor<f32, K, C, KH, KW>) -> Tensor<f32, K, OH, OW> {{ conv2d::<C, H, W, K, KH, KW, OH, OW>(x, w, {stride}, {padding}) }}"
        );
        let mut want = Vec::new();
        for at in 0..k * oh * ow {
            let (o, i, j) = (at / (oh * ow), at / ow % oh, at % ow);
            let mut sum = 0.0;
            for q in 0..c * r * s {
                let (ch, a, b) = (q / (r * s), q / s % r, q % s);
                sum += read(ch, i, j, a, b).unwrap_or(0.0) * f[o * c * r * s + q];
            }
            want.push(sum);
        }
        check_near("conv2d", &numbers(&run(&source, vec![xi, fi]).results[0]), &want, 0.0);
        for (name, fill) in [("max_pool2d", f64::NEG_INFINITY), ("avg_pool2d", 0.0)] {
            let source = format!(
                "#[kernel] fn k<C, H, W, const KH: usize = {r}, const KW: usize = {s}, OH, OW>(x: Tensor<f32, C, H, W>) -> Tensor<f32, C, OH, OW> {{ {name}::<H, W, KH, KW, OH, OW>(x, {stride}, {padding}) }}"
            );
            let want: Vec<f64> = (0..c * oh * ow)
                .map(|at| {
                    let (ch, i, j) = (at / (oh * ow), at / ow % oh, at % ow);
                    let taps = (0..r * s).map(|q| read(ch, i, j, q / s, q % s).unwrap_or(fill));
                    if name == "max_pool2d" {
                        taps.fold(fill, f64::max)
                    } else {
                        taps.sum::<f64>() / (r * s) as f64
                    }
                })
                .collect();
            let (_, xi) = grid(dtype, &[c, h, w]);
            check_near(name, &numbers(&run(&source, vec![xi]).results[0]), &want, 1e-6);
        }
    }
}

#[test]
fn norms_are_folded_into_filters() {
    let (k, taps) = (2, 3);
    let (w, mean, var) = ([1.0, -2.0, 0.5, 3.0, 0.25, -1.0], [0.5, -1.5], [4.0, 0.25]);
    let (g, b) = ([2.0, -1.0], [0.125, 3.0]);
    let source = "#[kernel] fn k<K, R>(w: Tensor<f64, K, R>, mean: Tensor<f64, K>, var: Tensor<f64, K>, \
        g: Tensor<f64, K>, b: Tensor<f64, K>) -> (Tensor<f64, K, R>, Tensor<f64, K>) { \
        fold_batch_norm(w, mean, var, g, b, 0.001) }";
    let of = |shape: &[usize], data: &[f64]| array(DType::F64, shape, values(DType::F64, data));
    let inputs = vec![of(&[k, taps], &w), of(&[k], &mean), of(&[k], &var), of(&[k], &g), of(&[k], &b)];
    let out = run(source, inputs);
    let gain = |at: usize| g[at] / (var[at] + 0.001f64).sqrt();
    let filters: Vec<f64> = (0..k * taps).map(|at| w[at] * gain(at / taps)).collect();
    let added: Vec<f64> = (0..k).map(|at| b[at] - mean[at] * gain(at)).collect();
    check_near("filters", &numbers(&out.results[0]), &filters, 1e-12);
    check_near("what is added", &numbers(&out.results[1]), &added, 1e-12);
}

#[test]
fn every_item_is_parsed_documented_and_called_by_a_test() {
    let source = include_str!("tests.rs");
    let mut names = BTreeSet::new();
    for item in items() {
        assert!(names.insert(item.name), "{} is there twice", item.name);
        assert!(!item.docs.trim().is_empty(), "{}", item.name);
        for precision in [Precision::F32, Precision::F64] {
            match item.kind {
                PreludeKind::Op => assert!(parse_op(item, precision).is_some(), "{}", item.name),
                PreludeKind::Composite => {
                    assert!(parse_composite(item.name, precision).is_some(), "{}", item.name)
                }
            }
        }
        let called =
            [format!("\"{}", item.name), format!(" {}", item.name)].iter().any(|c| source.contains(c));
        assert!(called, "{} has no test", item.name);
    }
}

#[test]
fn the_block_s_own_items_go_first() {
    let source = "#[op] fn gelu(x: f32) -> f32 { x + 1.0 }
        fn rms_norm<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }
        #[kernel] fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { rms_norm(gelu(x)) }";
    let x: Input = array(DType::F32, &[1], values(DType::F32, &[3.0]));
    assert_eq!(numbers(&run(source, vec![x]).results[0]), [8.0]);
}

#[test]
fn callees_of_used_ops_come_along() {
    let source = "#[kernel] fn k<N>(x: Tensor<f16, N>) -> Tensor<f32, N> { mish(x) }";
    let kernel = lower_one(source).kernel;
    let names: Vec<&str> = kernel.functions.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["softplus", "mish"]);
}
