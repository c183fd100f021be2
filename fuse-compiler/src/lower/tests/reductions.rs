//! Rules 11 to 13.

use super::*;

fn k(dtype: &str, result: &str, body: &str) -> String {
    format!("#[kernel] fn k<M, N>(x: Tensor<{dtype}, M, N>) -> Tensor<{result}> {{ {body} }}")
}

#[test]
fn rule_11_accumulators_follow_the_dtype() {
    check_graph(
        &k("f16", "f32, M", "x.sum(N)"),
        "kernel k(x: f16[M, N]) {
            %0: f16[M, N] = x
            %1: f32[M, N] = cast<f32> %0
            %2: f32[M] = sum<N> %1
            result 0 [M] = %2
        }",
    );
    for (dtype, result) in [("i8", "i64"), ("u16", "u64"), ("bool", "i64"), ("f64", "f64"), ("bf16", "f32")] {
        lower_one(&k(dtype, &format!("{result}, M"), "x.sum(N)"));
    }
    lower_one(&k("i32", "i64, M", "x.prod(N)"));
    lower_one(&k("i32", "i64, M, N", "x.cumsum(N)"));
    lower_one(&k("i32", "i32, M", "x.max(N)"));
}

#[test]
fn rule_11_a_mean_of_integers_is_an_error() {
    check_error(&k("i32", "f32, M", "x.«mean»(N)"), "reduction_not_defined");
    check_error(&k("i32", "f32, M", "x.«var»(N)"), "reduction_not_defined");
    check_error(&k("bool", "bool, M", "x.«max»(N)"), "reduction_not_defined");
    check_error(&k("f32", "bool, M", "x.«any»(N)"), "reduction_not_defined");
}

#[test]
fn rule_11_var_is_the_population_s_in_two_passes() {
    let x = tensor(&[1, 4], &[1_000_000.0, 1_000_001.0, 1_000_002.0, 1_000_003.0]);
    assert_eq!(run_numbers(&k("f32", "f32, M", "x.var(N)"), vec![x]), [1.25]);
}

#[test]
fn rule_12_reductions_by_name() {
    let check = |result: &str, body: &str, expected: &[f64]| {
        let x = tensor(&[2, 3], &[1.0, 3.0, 2.0, 6.0, 5.0, 4.0]);
        assert_eq!(run_numbers(&k("f32", result, body), vec![x]), expected, "{body}");
    };
    check("f32, M", "x.sum(N)", &[6.0, 15.0]);
    check("f32", "x.sum((M, N))", &[21.0]);
    check("f32, N", "x.mean(M)", &[3.5, 4.0, 3.0]);
    check("f32, M", "x.max(N)", &[3.0, 6.0]);
    check("f32, M", "x.min(N)", &[1.0, 4.0]);
    check("f32, M", "x.prod(N)", &[6.0, 120.0]);
    check("i64, M", "x.argmax(N)", &[1.0, 0.0]);
    check("i64, M", "x.argmin(N)", &[0.0, 2.0]);
    check("i64", "x.argmax((N, M))", &[1.0]);
    check("bool, M", "(x > 5.0).any(N)", &[0.0, 1.0]);
    check("bool, M", "(x > 3.0).all(N)", &[0.0, 1.0]);
    check("f32, M, N", "x.cumsum(N)", &[1.0, 4.0, 6.0, 6.0, 11.0, 15.0]);
}

#[test]
fn rule_12_softmax_of_rows_without_finite_elements() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let x = || tensor(&[4, 2], &[-inf, -inf, 0.0, nan, 0.0, 0.0, -inf, 1.0]);
    let y = run_numbers(&k("f32", "f32, M, N", "x.softmax(N)"), vec![x()]);
    assert_eq!(y[..2], [0.0, 0.0]);
    assert!(y[2].is_nan() && y[3].is_nan());
    assert_eq!(y[4..], [0.5, 0.5, 0.0, 1.0]);
    let y = run_numbers(&k("f32", "f32, M, N", "x.log_softmax(N)"), vec![x()]);
    assert_eq!(y[..2], [f64::NEG_INFINITY; 2]);
    assert!(y[2].is_nan() && y[3].is_nan());
    assert_eq!(y[6..], [f64::NEG_INFINITY, 0.0]);
    let y = run_numbers(&k("f32", "f32, M", "x.logsumexp(N)"), vec![x()]);
    assert_eq!((y[0], y[3]), (f64::NEG_INFINITY, 1.0));
    assert!(y[1].is_nan());
    assert!((y[2] - 2f64.ln()).abs() < 1e-7);
    let x = tensor(&[1, 2], &[inf, 0.0]);
    assert_eq!(run_numbers(&k("f32", "f32, M", "x.logsumexp(N)"), vec![x]), [f64::INFINITY]);
}

#[test]
fn rule_12_an_empty_axis_has_no_maximum() {
    for name in ["max", "min", "argmax", "argmin"] {
        let result = if name.starts_with("arg") { "i64, M" } else { "f32, M" };
        let kernel = lower_one(&k("f32", result, &format!("x.{name}(N)"))).kernel;
        let error = evaluate(&kernel, &Inputs(vec![tensor(&[2, 0], &[])]), Precision::Exact);
        let text = error.expect_err("nothing to choose from").to_string();
        assert!(text.contains(name) && text.contains('N') && text.contains('k'), "{text}");
    }
    let empty = || vec![tensor(&[2, 0], &[])];
    assert_eq!(run_numbers(&k("f32", "f32, M", "x.sum(N)"), empty()), [0.0, 0.0]);
    assert_eq!(run_numbers(&k("f32", "f32, M", "x.prod(N)"), empty()), [1.0, 1.0]);
    assert!(run_numbers(&k("f32", "f32, M", "x.mean(N)"), empty())[0].is_nan());
    assert_eq!(run_numbers(&k("f32", "f32, M, N", "x.softmax(N)"), empty()), Vec::<f64>::new());
}

#[test]
fn rule_12_axes_are_named() {
    check_error(&k("f32", "f32, M", "x.«sum»()"), "reduction_without_axes");
    check_error(&k("f32", "f32, M", "x.sum(«0»)"), "axis_expected");
    check_error(&k("f32", "f32, M", "x.sum(«K»)"), "axis_not_declared");
    check_error(&k("f32", "f32, M", "x.sum(N).sum(«N»)"), "axis_missing");
    check_error(&k("f32", "f32, M", "x.sum((N, «N»))"), "axis_listed_twice");
    check_error(&k("f32", "f32, M, N", "x.cumsum(«(M, N)»)"), "cumsum_over_several_axes");
    check_error(&k("f32", "f32, M", "«softmax»(x, 1.0)"), "method_called_as_function");
}

const BEST: &str = "#[reduce(identity = (f32::NEG_INFINITY, -1))]
    fn best(a: (f32, i64), b: (f32, i64)) -> (f32, i64) {
        if a.0 > b.0 || (a.0 == b.0 && a.1 < b.1) { a } else { b }
    }
    #[op] fn add(a: f32, b: f32) -> f32 { a + b }";

#[test]
fn rule_13_user_reductions() {
    let source = format!(
        "{BEST} #[kernel] fn k<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M>, Tensor<i64, M>) {{
             (x, index(N)).reduce(N, best)
         }}"
    );
    let out = run(&source, vec![tensor(&[2, 3], &[1.0, 3.0, 2.0, 6.0, 5.0, 6.0])]);
    assert_eq!(numbers(&out.results[0]), [3.0, 6.0]);
    assert_eq!(numbers(&out.results[1]), [1.0, 0.0]);
    let k = |body: &str| {
        format!("{BEST} #[kernel] fn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> {{ {body} }}")
    };
    check_error(&k("x.reduce(N, «bset»)"), "unknown_combiner");
    check_error(&k("x.reduce(N, «add»)"), "op_in_place_of_combiner");
    check_error(&k("«x».reduce(N, best).0"), "combiner_arity");
    check_error(&k("«(x, x)».reduce(N, best).0"), "other_dtype_expected");
    check_error(&k("x.reduce(N, «|a, b| a + b»)"), "combiner_expected");
}
