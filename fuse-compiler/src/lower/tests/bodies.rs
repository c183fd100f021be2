//! Rules 15, 17 and 19, `materialize`, and where nodes come from.

use super::*;

fn params(out: &Outputs) -> Vec<f64> {
    numbers(&out.params[0].1)
}

#[test]
fn rule_17_assignments_through_mut() {
    let source = "#[kernel] fn k<N>(p: &mut Tensor<f32, N>, g: Tensor<f32, N>, lr: f32) -> Tensor<f32, N> {
        let old = p;
        *p -= g * lr;
        *p = p * 2.0;
        old + p
    }";
    let out = run(source, vec![tensor(&[2], &[1.0, 2.0]), tensor(&[2], &[1.0, 1.0]), scalar(0.5)]);
    assert_eq!(params(&out), [1.0, 3.0]);
    assert_eq!(numbers(&out.results[0]), [2.0, 5.0]);
}

#[test]
fn rule_17_a_part_is_stored_alone_and_read_merged() {
    let source =
        "#[kernel] fn k<L, S>(cache: &mut Tensor<f32, L>, k: Tensor<f32, S>, pos: i64) -> Tensor<f32, L> {
        cache.slice(L, pos, S) = k;
        cache * 10.0
    }";
    let lowered = lower_one(source).kernel;
    let fuse_ir::graph::OutputTarget::Param { region, .. } = &lowered.outputs[1].target else {
        panic!("{lowered}")
    };
    assert_eq!(region[0].to_string(), "(i1 + p2)", "only the region is stored");
    let pos = Input::Scalar(Value::I64(1));
    let out = run(source, vec![tensor(&[4], &[0.0, 1.0, 2.0, 3.0]), tensor(&[2], &[7.0, 8.0]), pos]);
    assert_eq!(params(&out), [0.0, 7.0, 8.0, 3.0]);
    assert_eq!(numbers(&out.results[0]), [0.0, 70.0, 80.0, 30.0]);
    let twice = "#[kernel] fn k<L, M, const S: usize = 2>(p: &mut Tensor<f32, M, L>) {
        p.slice(L, 1, S).at(M, 1) += 10.0;
        p.at(M, 0) = p.at(M, 1);
    }";
    let out = run(twice, vec![tensor(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])]);
    assert_eq!(params(&out), [3.0, 14.0, 15.0, 3.0, 14.0, 15.0]);
}

#[test]
fn rule_17_parts_that_share_no_element_are_stored_alone() {
    let regions = |body: &str| {
        let source = format!(
            "#[kernel] fn k<M, L, S>(p: &mut Tensor<f32, M, L>, k: Tensor<f32, S>, v: Tensor<f32, S>, pos: i64) {{ {body} }}"
        );
        let outputs = lower_one(&source).kernel.outputs;
        let region = |output: &fuse_ir::graph::Output| match &output.target {
            fuse_ir::graph::OutputTarget::Param { region, .. } => {
                region.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            }
            fuse_ir::graph::OutputTarget::Result { .. } => "result".to_owned(),
        };
        outputs.iter().map(region).collect::<Vec<_>>()
    };
    let both = "p.at(M, 0).slice(L, pos, S) = k; p.at(M, 1).slice(L, pos, S) = v;";
    assert_eq!(regions(both), ["0, (i2 + p3)", "1, (i2 + p3)"]);
    let again = "p.at(M, 0).slice(L, pos, S) = k; p.at(M, 0).slice(L, pos, S) += v;";
    assert_eq!(regions(again), ["0, (i2 + p3)"]);
    // These may meet, or one needs what the other overwrites: all is stored.
    let meeting = "p.at(M, 0).slice(L, pos, S) = k; p.at(M, 0).slice(L, 2, S) = v;";
    assert_eq!(regions(meeting), ["i0, i1"]);
    let reading = "p.at(M, 0) = p.at(M, 1); p.at(M, 1) = 0.0;";
    assert_eq!(regions(reading), ["i0, i1"]);
}

#[test]
fn rule_17_what_cannot_be_assigned() {
    let k = |body: &str| {
        format!("#[kernel] fn k<M, N>(p: &mut Tensor<f16, M, N>, x: Tensor<f32, N>) {{ *p = p; {body} }}")
    };
    check_error(&k("*p = «x»;"), "narrowing_store");
    check_error(&k("*p = «x as f16»;"), "stored_axes_differ");
    check_error(&k("«p» = p;"), "assignment_without_star");
    check_error(&k("*«x» = x;"), "not_a_mutable_parameter");
    check_error(&k("let y = x; «y» = x;"), "not_a_mutable_parameter");
    check_error(&k("«p.exp()» = p;"), "not_assignable");
    check_error(&k("«x + x» = x;"), "not_assignable");
    check_error(
        "#[kernel] fn k<N>(p: «&mut Tensor<f32, N>») -> Tensor<f32, N> { p * 2.0 }",
        "mutable_parameter_not_assigned",
    );
    check_error("#[kernel] fn k<N>(p: &mut Tensor<f32, N>) { *p = p * 2.0; «p» }", "result_not_declared");
}

#[test]
fn rule_19_if_on_a_scalar_is_a_uniform_branch() {
    let source = "#[kernel] fn k<N>(p: &mut Tensor<f32, N>, n: Tensor<i32, N>, d: i32) -> Tensor<i32, N> {
        let y = if d > 0 { *p = p + 1.0; n / d } else if d < 0 { n } else { n * 0 };
        if d == 0 { p.at(N, 0) = 9.0; }
        y
    }";
    let call = |d: i32| {
        let n = array(DType::I32, &[2], vec![Value::I32(6), Value::I32(8)]);
        let out = run(source, vec![tensor(&[2], &[1.0, 2.0]), n, Input::Scalar(Value::I32(d))]);
        assert_eq!(out.fault, None, "the branch that divides by zero is not taken");
        (numbers(&out.results[0]), params(&out))
    };
    assert_eq!(call(2), (vec![3.0, 4.0], vec![2.0, 3.0]));
    assert_eq!(call(-1), (vec![6.0, 8.0], vec![1.0, 2.0]));
    assert_eq!(call(0), (vec![0.0, 0.0], vec![9.0, 2.0]));
}

#[test]
fn rule_19_an_op_that_divides_is_called_only_in_the_branch_taken() {
    let source = "#[op] fn ratio(a: i64, b: i64) -> i64 { a / (b - 1) }
        #[kernel] fn k<N>(n: Tensor<i64, N>, d: i64) -> Tensor<i64, N> {
            if d != 1 { ratio(n, d) } else { n }
        }";
    let call = |d: i64| {
        let n = array(DType::I64, &[1], vec![Value::I64(6)]);
        let out = run(source, vec![n, Input::Scalar(Value::I64(d))]);
        assert_eq!(out.fault, None);
        numbers(&out.results[0])
    };
    assert_eq!(call(4), [2.0]);
    assert_eq!(call(1), [6.0]);
}

#[test]
fn rule_15_a_division_by_zero_is_a_fault() {
    let source = "#[kernel] fn k<N>(n: Tensor<i32, N>, d: Tensor<i32, N>) -> Tensor<i32, N> { n / d }";
    let ints = |xs: [i32; 2]| array(DType::I32, &[2], xs.map(Value::I32).to_vec());
    let out = run(source, vec![ints([4, 4]), ints([2, 0])]);
    assert_eq!(numbers(&out.results[0]), [2.0, 0.0]);
    assert!(out.fault.is_some());
}

#[test]
fn rule_19_what_a_body_cannot_contain() {
    let k = |body: &str| {
        format!("#[kernel] fn k<M, N>(x: Tensor<f32, N>, s: f32, m: Axis<M>) -> Tensor<f32, N> {{ {body} }}")
    };
    check_error(&k("«for» i in 0..3 {} x"), "keyword_not_supported");
    check_error(&k("«while» s > 0.0 {} x"), "keyword_not_supported");
    check_error(&k("«return» x; x"), "keyword_not_supported");
    check_error(&k("let f = «|»a| a; x"), "keyword_not_supported");
    check_error(&k("«println»!(\"\"); x"), "keyword_not_supported");
    check_error(&k("let y = «vec»![1]; x"), "keyword_not_supported");
    check_error(&k("«match» s { _ => x }"), "keyword_not_supported");
    check_error(&k("if «x > 0.0» { x } else { x }"), "condition_has_axes");
    check_error(&k("«if» s > 0.0 { x } else { (x, x) }"), "branches_differ");
    check_error(&k("«if» s > 0.0 { x } else { (x + index(M) as f32).sum(N) }"), "branches_have_other_axes");
    check_error(&k("if «s» { x } else { x }"), "other_dtype_expected");
    check_error(&k("let «mut» y = x; y"), "mutable_let");
    check_error(&k("«x + 1.0»; x"), "value_not_used");
    check_error(&k("«x + 1.0»;"), "value_not_used");
    check_error(&k("«x[0]»"), "index_expression");
    check_error(&k("x.«shape»"), "no_fields");
    check_error(&k("«const C: f32 = 1.0;» x"), "item_in_body");
    check_error(&k("let «(a, b)» = x; a"), "tuple_pattern_differs");
    check_error(&k("(x, x).«2»"), "no_such_component");
    check_error(&k("x.slice(N, «x.argmax(N)», N)"), "position_not_uniform");
    check_error(&k("x.slice(N, «s», N)"), "position_not_integer");
}

#[test]
fn rule_19_each_mistake_is_reported_once() {
    let (_, diagnostics) = lower(
        "#[kernel] fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { let a = x + 1; let b = x.nonsense(); a * b + y }",
    );
    let codes: Vec<&str> = diagnostics.iter().map(|d| d.code).collect();
    assert_eq!(codes, ["literal_of_other_kind", "unknown_tensor_method", "unknown_name"]);
}

#[test]
fn nodes_remember_their_source() {
    let lowered = lower_one(
        "#[kernel]\nfn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> {\n    let total = x.sum(N);\n    (total * 2.0).materialize()\n}",
    );
    let (kernel, last) = (&lowered.kernel, lowered.kernel.nodes.len() - 1);
    assert_eq!(lowered.places.len(), kernel.nodes.len());
    assert_eq!(kernel.origins[last].label, "(total * 2.0).materialize()");
    assert_eq!((kernel.origins[last].line, kernel.origins[last].column), (4, 5));
    let sum = kernel.origins.iter().find(|o| o.label == "x.sum(N)").expect("the sum");
    assert_eq!(sum.name.as_deref(), Some("total"));
    assert_eq!(kernel.origins[0].name.as_deref(), Some("x"));
}
