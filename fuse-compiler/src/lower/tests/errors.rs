//! Rules 7 and 21, and the arguments of calls.

use super::*;

fn k(body: &str) -> String {
    format!("#[kernel] fn k<M, N>(x: Tensor<f32, M, N>, w: Tensor<f32, N>) -> Tensor<f32, M> {{ {body} }}")
}

#[test]
fn rule_7_contracted_axes_are_in_both_operands() {
    check_error(&k("x.dot(w, «M»)"), "contracted_axis_missing");
    check_error(&k("w.dot(x, (N, «M»))"), "contracted_axis_missing");
    check_error(&k("x.«dot»(w > 0.0, N)"), "operands_differ");
    check_error(&k("(x > 0.0).«dot»(w > 0.0, N)"), "reduction_not_defined");
    check_error(&k("x.«matmul»(w)"), "use_instead");
}

#[test]
fn rule_7_a_batch_axis_that_was_not_meant_is_named() {
    let attention = "#[kernel] fn k<S, T, D>(q: Tensor<f32, S, D>, k: Tensor<f32, S, D>, v: Tensor<f32, T, D>) -> Tensor<f32, S, D> { q.dot(k, D).softmax(«T»).dot(v, T) }";
    check_error(attention, "axis_missing");
    let (_, diagnostics) = lower(&attention.replace(['«', '»'], ""));
    let text = diagnostics.iter().map(|d| d.text()).collect::<String>();
    assert!(text.contains("`q.dot(k, D)`") && text.contains("rename(S, ..)"), "{text}");
    let declared = "#[kernel] fn k<S, T, D>(q: Tensor<f32, S, D>, k: Tensor<f32, S, D>, t: Axis<T>) -> Tensor<f32, S, T> { «q.dot(k, D)» }";
    check_error(declared, "axes_differ");
}

#[test]
fn rules_1_and_15_windows_have_their_arguments() {
    let k = |body: &str| {
        format!(
            "#[kernel] fn k<H, OH, const KH: usize = 3>(x: Tensor<f32, H>) -> Tensor<f32, OH> {{ {body} }}"
        )
    };
    check_error(&k("x.window(H, «OH»).sum(KH)"), "window_axes");
    check_error(&k("x.window(H, (OH, KH), stride = «0»).sum(KH)"), "window_step");
    check_error(&k("x.window(H, (OH, KH), padding = «-1»).sum(KH)"), "window_step");
    check_error(&k("x.window(H, (OH, KH), «strides» = 2).sum(KH)"), "unknown_argument");
    for reduction in ["max", "min", "prod"] {
        check_error(
            &k(&format!("x.window(H, (OH, KH), padding = 1).«{reduction}»(KH)")),
            "padding_without_fill",
        );
    }
    check_error(&k("(x.window(H, (OH, KH), padding = 1) * 2.0).«max»(KH)"), "padding_without_fill");
    check_error(&k("x.«unfold»(H)"), "use_instead");
}

#[test]
fn rule_21_what_is_not_expressible_says_so() {
    for name in ["scatter", "sort", "topk", "unique", "nonzero", "scan", "cumprod"] {
        check_error(&k(&format!("x.«{name}»(N)")), "not_expressible");
    }
    check_error(&k("«argsort»(x)"), "not_expressible");
    check_error(&k("x.«reshape»(N)"), "use_instead");
    check_error(&k("x.«unsqueeze»(0)"), "use_instead");
}

#[test]
fn calls_have_their_arguments() {
    check_error(&k("x.«slice»(N, 0)"), "argument_count");
    check_error(&k("x.«exp»(1.0)"), "argument_count");
    check_error(&k("x.pad(N, 1, 1, N, «filling» = 0.0)"), "unknown_argument");
    check_error(&k("x.pad(N, 1, 1, fill = 0.0, «N»)"), "positional_after_named");
    check_error(&k("x.pad(N, «-1», 1, N)"), "negative_padding");
    check_error(&k("x.at(N, «-1»)"), "negative_position");
    check_error(&k("concat(N, «x»)"), "concat_part");
    check_error(&k("«select»(x > 0.0, x)"), "argument_count");
    check_error(&k("x.exp«::<N>»()"), "turbofish_not_expected");
    check_error(&k("«(x, x)».exp()"), "method_of_tuple");
    check_error(&k("«(x, x)» + 1.0"), "tuple_in_place_of_tensor");
    check_error(&k("f32::max(x, «N»)"), "axis_in_function_call");
    check_error(&k("x.«gather»(N)"), "argument_count");
    check_error(&k("x.gather(N, «w»)"), "position_not_integer");
    check_error(&k("w.gather(«M», 0)"), "axis_missing");
    check_error(&k("x.«index_select»(N, 0)"), "use_instead");
}

#[test]
fn an_error_inside_the_prelude_stands_at_its_call() {
    let outer = "#[kernel] fn k<A, B, N>(x: Tensor<f32, A, N>, g: Tensor<f32, B, N>) -> Tensor<f32, A, N> { «rms_norm::<N>»(x, g, 1e-5) }";
    check_error(outer, "outer_product");
    check_error(&k("layer_norm(w, «x.sum(N)», w, 1e-5)"), "argument_without_axis");
    check_error(&k("cross_entropy::<N>(x, «w»)"), "other_dtype_expected");
}

#[test]
fn small_mistakes_have_their_own_errors() {
    check_error(&k("(x * (2 «*» 0.5)).sum(N)"), "literals_of_two_kinds");
    check_error(&k("x.sum(N) + «{}»"), "no_value");
    check_error(&k("let r = «0..3»; x.sum(N)"), "expression_not_supported");
    check_error(&k("let y = (x «=» x); x.sum(N)"), "assignment_in_expression");
    check_error(&k("x.sum(N) as «(f32,)»"), "cast_to_other_type");
    check_error(&k("«let y;» x.sum(N)"), "let_without_value");
    check_error(&k("let «[a, b]» = x; x.sum(N)"), "pattern_not_supported");
    check_error(&k("x.pad(N, 1, 1, N, «2» = 0.0)"), "argument_name_expected");
    check_error(&k("«(x)»(w)"), "callee_not_a_name");
    check_error(
        "#[op] fn first(p: (f32, f32)) -> f32 { p.0 }
         #[kernel] fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { first(«x») }",
        "argument_shape",
    );
    check_error(
        "#[kernel(T = [f16])] fn k<T: Float, N>(x: Tensor<T, N>) -> Tensor<f32, N> { x * «T::EPSILON» }",
        "unknown_constant_of_generic",
    );
    check_error(
        "#[kernel] fn k<N, const «C»: usize = { 2 - 3 }>(x: Tensor<f32, N>) -> Tensor<f32, N> { x }",
        "extent_not_a_size",
    );
}

#[test]
fn an_op_with_errors_is_not_reported_again_by_its_callers() {
    let (kernels, diagnostics) = lower(
        "#[op] fn f(x: f16) -> f32 { 0.0 }
         const C: f32 = outside::C;
         #[kernel] fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { f(x) * C }",
    );
    assert!(kernels.is_empty());
    assert_eq!(diagnostics.iter().count(), 2, "{diagnostics:#?}");
}
