//! Rules 1 to 6 and 8.

use super::*;

#[test]
fn rule_1_slice_reads_from_its_start() {
    check_graph(
        "#[kernel] fn k<N, P>(x: Tensor<f32, N>, at: i64, p: Axis<P>) -> Tensor<f32, P> { x.slice(N, at + 1, P) }",
        "kernel k(x: f32[N], at: i64, p: Axis<P>) {
            %0: f32[N] = x
            %1: f32[P] = view %0[N: (p + (at + 1))]
            result 0 [P] = %1
        }",
    );
    let source = "#[kernel] fn k<N, const P: usize = 2>(x: Tensor<f32, N>, at: i64) -> Tensor<f32, P> { x.slice(N, at, P) }";
    let x = tensor(&[5], &[0.0, 1.0, 2.0, 3.0, 4.0]);
    let at = Input::Scalar(Value::I64(2));
    assert_eq!(run_numbers(source, vec![x, at]), [2.0, 3.0]);
    let kernel = lower_one(source).kernel;
    let x = tensor(&[5], &[0.0; 5]);
    let outside = evaluate(&kernel, &Inputs(vec![x, Input::Scalar(Value::I64(4))]), Precision::Exact);
    assert!(outside.is_err(), "a slice stays within its axis");
}

#[test]
fn rule_1_every_view_has_its_elements() {
    let x = || tensor(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let k = |generics: &str, result: &str, body: &str| {
        format!(
            "#[kernel] fn k<M, N, {generics}>(x: Tensor<f32, M, N>) -> Tensor<f32, {result}> {{ {body} }}"
        )
    };
    let check = |generics: &str, result: &str, body: &str, expected: &[f64]| {
        assert_eq!(run_numbers(&k(generics, result, body), vec![x()]), expected, "{body}");
    };
    check("", "M, N", "x.reverse(N)", &[2.0, 1.0, 0.0, 5.0, 4.0, 3.0]);
    check("", "M", "x.at(N, 1)", &[1.0, 4.0]);
    check("", "M", "x.at(N, extent(N) - 1)", &[2.0, 5.0]);
    check("P", "M, P", "x.rename(N, P)", &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    check("P", "M, P", "x.pad(N, 1, 0, P, fill = 9.0)", &[9.0, 0.0, 1.0, 2.0, 9.0, 3.0, 4.0, 5.0]);
    check("P", "P", "x.merge((M, N), P)", &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    check("P", "P", "x.merge((N, M), P)", &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    check(
        "P, const O: usize = 1",
        "M, P",
        "concat(P, (x, N), (x.slice(N, 2, O), O))",
        &[0.0, 1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 5.0],
    );
    check(
        "P",
        "P, M, N",
        "stack(P, x, -x)",
        &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, -0.0, -1.0, -2.0, -3.0, -4.0, -5.0],
    );
    check(
        "F, E, const H: usize = 3",
        "H, E",
        "x.merge((M, N), F).split(F, (H, E))",
        &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
    );
}

#[test]
fn rule_1_a_name_stands_once_in_a_tensor() {
    let k = |body: &str| {
        format!("#[kernel] fn k<M, N, P>(x: Tensor<f32, M, N>, p: Axis<P>) -> Tensor<f32, M, N> {{ {body} }}")
    };
    check_error(&k("x.rename(M, «N»)"), "axis_there_already");
    check_error(&k("x.slice(N, 0, «M»)"), "axis_there_already");
    check_error(&k("x.split(N, «(M, P)»)"), "axis_there_already");
    check_error(&k("x.merge((M, N), P).split(P, (M, «M»))"), "axis_listed_twice");
    check_error(&k("concat(«M», (x, N), (x, N))"), "axis_there_already");
    check_error(&k("x.slice(«P», 0, N)"), "axis_missing");
    check_error(&k("x.slice(N, 0, «Q»)"), "axis_not_declared");
    check_error(&k("x.slice(N, 0, «2»)"), "axis_expected");
}

#[test]
fn rule_2_extents_have_sources() {
    let kernel = lower_one(
        "#[kernel] fn k<B, H, D, const F: usize = { H * D }, const C: usize = 3, G>(
             x: Tensor<f32, B, F>, h: Axis<H>, y: Tensor<f32, C>,
         ) -> (Tensor<f32, B, H, D>, Tensor<f32, G>) { (x.split(F, (H, D)), y.pad(C, 1, 1, G)) }",
    )
    .kernel;
    let x = tensor(&[1, 6], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let y = tensor(&[3], &[1.0; 3]);
    let out = evaluate(&kernel, &Inputs(vec![x, Input::Axis(2), y]), Precision::Exact).expect("valid");
    assert_eq!(out.results[0].shape, [1, 2, 3], "D is solved from F = H * D");
    assert_eq!(out.results[1].shape, [5]);
}

#[test]
fn rule_2_an_axis_without_source_is_an_error() {
    check_error("#[kernel] fn k<N, «P»>(x: Tensor<f32, N>) -> Tensor<f32, N> { x }", "axis_without_source");
    check_error(
        "#[kernel] fn k<N, «P»>(x: Tensor<f32, N>) -> Tensor<f32, P> { x.slice(N, 0, P) }",
        "axis_without_source",
    );
    check_error(
        "#[kernel] fn k<N, H, E>(x: Tensor<f32, N>) -> Tensor<f32, N> { let y = x.split(N, «(H, E)»); x }",
        "split_into_unknown_extents",
    );
    check_error(
        "#[kernel] fn k<N, const P: usize = { N * «Q» }>(x: Tensor<f32, N>) -> Tensor<f32, N> { x }",
        "axis_not_declared",
    );
    check_error(
        "#[kernel] fn k<N, const «P»: usize = 3>(x: Tensor<f32, N>, p: Axis<P>) -> Tensor<f32, N> { x }",
        "axis_with_two_sources",
    );
}

#[test]
fn rule_3_the_declared_order_is_the_layout() {
    let source = "#[kernel] fn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, N, M> { x }";
    let x = tensor(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(run_numbers(source, vec![x]), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    check_error(
        "#[kernel] fn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, N, M> { x.«transpose»() }",
        "order_not_observable",
    );
}

const NORM: &str = "fn norm<N>(x: Tensor<f32, N>, g: Tensor<f32, N>) -> Tensor<f32, N> { x / x.sum(N) * g }
                    fn total<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32> { x.sum((M, N)) }
                    fn head<N, P>(x: Tensor<f32, N>, p: Axis<P>) -> Tensor<f32, P> { x.slice(N, 0, P) }
                    fn both<N>(x: Tensor<f32, N>, s: f32) -> (Tensor<f32, N>, Tensor<f32>) { (x * s, x.sum(N)) }";

#[test]
fn rule_4_composites_pass_other_axes_through() {
    let k = format!(
        "{NORM} #[kernel] fn k<M, N>(x: Tensor<f32, M, N>, g: Tensor<f32, N>) -> Tensor<f32, M, N> {{ norm(x, g) }}"
    );
    let (x, g) = (tensor(&[2, 2], &[1.0, 3.0, 2.0, 6.0]), tensor(&[2], &[1.0, 2.0]));
    assert_eq!(run_numbers(&k, vec![x, g]), [0.25, 1.5, 0.25, 1.5]);
    let k = format!(
        "{NORM} #[kernel] fn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {{ norm::<M>(x, x) }}"
    );
    let x = tensor(&[2, 2], &[1.0, 3.0, 3.0, 1.0]);
    assert_eq!(run_numbers(&k, vec![x]), [0.25, 2.25, 2.25, 0.25]);
}

#[test]
fn rule_4_composites_give_tuples_and_take_scalars_axes_and_names() {
    let k = format!(
        "{NORM} #[kernel] fn k<M, N, Q>(x: Tensor<f32, M, N>, q: Axis<Q>) -> (Tensor<f32, M, N>, Tensor<f32, M>, Tensor<f32, M, Q>) {{
             let (scaled, sums) = both::<N>(x, s = 2.0);
             (scaled, sums, head::<N, Q>(x, Q))
         }}"
    );
    let out = run(&k, vec![tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), Input::Axis(1)]);
    assert_eq!(numbers(&out.results[0]), [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(numbers(&out.results[1]), [3.0, 7.0]);
    assert_eq!(numbers(&out.results[2]), [1.0, 3.0]);
}

#[test]
fn rule_4_what_is_not_clear_is_an_error() {
    let k = |body: &str| {
        format!(
            "{NORM} #[kernel] fn k<M, N>(x: Tensor<f32, M, N>, y: Tensor<f32, M>, s: f32) -> Tensor<f32, M, N> {{ {body} }}"
        )
    };
    check_error(&k("«norm»(x, x)"), "axes_not_bound");
    check_error(&k("norm::<N>(x, «y»)"), "argument_without_axis");
    check_error(&k("«norm»(x)"), "argument_count");
    check_error(&k("norm::<N, «M»>(x, x)"), "too_many_generics");
    check_error(&k("norm::<N>(x, x, «h» = 2.0)"), "unknown_argument");
    check_error(&k("both::<N>(x, «y»).0"), "scalar_expected");
    check_error(&k("norm::<N>(x, g = x, «g» = x)"), "argument_given_twice");
    check_error(
        "fn f<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { «f»(x) }
         #[kernel] fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { f(x) }",
        "recursive_call",
    );
}

#[test]
fn rule_4_a_composite_is_checked_where_it_is_declared() {
    check_error("fn f<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x + «1» }", "literal_of_other_kind");
    check_error(
        "fn f<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { «x.sum(N)» }
         #[kernel] fn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { f::<N>(x) }",
        "axes_differ",
    );
}

#[test]
fn rule_5_results_have_the_declared_axes() {
    check_error("#[kernel] fn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> { «x» }", "axes_differ");
    check_error(
        "#[kernel] fn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { «x.sum(N)» }",
        "axes_differ",
    );
    check_error(
        "#[kernel] fn k<N>(x: Tensor<f32, N>) -> (Tensor<f32, N>, Tensor<f32>) { (x, «x») }",
        "axes_differ",
    );
    check_error("#[kernel] fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { «(x, x)» }", "result_count");
    check_error("#[kernel] fn k<N>(x: Tensor<f32, N>) -> Tensor<f16, N> { «x» }", "result_dtype");
}

#[test]
fn rule_5_an_extent_of_one_does_not_broadcast() {
    let source = "#[kernel] fn k<N>(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, N> { x + y }";
    let inputs = Inputs(vec![tensor(&[3], &[0.0; 3]), tensor(&[1], &[0.0])]);
    assert!(evaluate(&lower_one(source).kernel, &inputs, Precision::Exact).is_err());
}

#[test]
fn rule_6_outer_products_are_typed_lets() {
    let k = |body: &str| {
        format!(
            "#[kernel] fn k<M, N>(a: Tensor<f32, M>, b: Tensor<f32, N>) -> Tensor<f32, M, N> {{ {body} }}"
        )
    };
    check_error(&k("a «*» b"), "outer_product");
    check_error(&k("let t = a «*» b; t"), "outer_product");
    let source = k("let t: Tensor<f32, M, N> = a * b; t");
    let inputs = vec![tensor(&[2], &[1.0, 2.0]), tensor(&[2], &[3.0, 4.0])];
    assert_eq!(run_numbers(&source, inputs), [3.0, 4.0, 6.0, 8.0]);
    // Positions are not stored.
    lower_one(&k("a + (index(N) as f32) + select(index(M) == index(N), 1.0, 0.0)"));
    lower_one(&k("let t: Tensor<f32, M, N> = (a + 1.0) * b.exp(); t"));
}

#[test]
fn rule_8_a_let_is_not_named_like_an_axis() {
    check_error("#[kernel] fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { let «N» = x; x }", "name_of_axis");
}

#[test]
fn rule_8_max_is_a_reduction_over_axes_and_elementwise_over_values() {
    check_graph(
        "#[kernel] fn k<N>(x: Tensor<f32, N>, y: f32) -> (Tensor<f32>, Tensor<f32, N>) { (x.max(N), x.max(y)) }",
        "kernel k(x: f32[N], y: f32) {
            %0: f32[N] = x
            %1: f32[] = y
            %2: f32[] = max<N> %0
            %3: f32[N] = max %0, %1
            result 0 [] = %2
            result 1 [N] = %3
        }",
    );
}

#[test]
fn rule_1_gather_reads_at_positions_that_are_data() {
    let table = tensor(&[4, 2], &[0.0, 1.0, 10.0, 11.0, 20.0, 21.0, 30.0, 31.0]);
    let ids = |data: &[i64]| array(DType::I64, &[data.len()], data.iter().map(|&i| Value::I64(i)).collect());
    let rows = "#[kernel] fn k<V, E, N>(t: Tensor<f32, V, E>, i: Tensor<i64, N>) -> Tensor<f32, N, E> { t.gather(V, i) }";
    assert_eq!(run_numbers(rows, vec![table.clone(), ids(&[3, 0, 3])]), [30.0, 31.0, 0.0, 1.0, 30.0, 31.0]);
    // Common names align: one position for each row.
    let picked =
        "#[kernel] fn k<N, V>(t: Tensor<f32, N, V>, i: Tensor<i64, N>) -> Tensor<f32, N> { t.gather(V, i) }";
    assert_eq!(run_numbers(picked, vec![table.clone(), ids(&[1, 0, 0, 1])]), [1.0, 10.0, 20.0, 31.0]);
    // The axis that is read may be one of the index: a permutation.
    let permuted = "#[kernel] fn k<V, E>(t: Tensor<f32, V, E>, i: Tensor<i64, V>) -> Tensor<f32, V, E> { t.gather(V, i) }";
    let got = run_numbers(permuted, vec![table.clone(), ids(&[3, 2, 1, 0])]);
    assert_eq!(got, [30.0, 31.0, 20.0, 21.0, 10.0, 11.0, 0.0, 1.0]);
    // Of any integer, and of what is computed.
    let computed = "#[kernel] fn k<V, E>(t: Tensor<f32, V, E>) -> Tensor<f32, E> { (t + 1.0).gather(V, (extent(V) - 1) as u8) }";
    assert_eq!(run_numbers(computed, vec![table]), [31.0, 32.0]);
}

#[test]
fn rule_15_a_gather_out_of_range_faults_or_fills() {
    let table = tensor(&[3], &[1.0, 2.0, 3.0]);
    let ids = array(DType::I64, &[4], [2, 3, -1, 0].map(Value::I64).to_vec());
    let plain =
        "#[kernel] fn k<V, N>(t: Tensor<f32, V>, i: Tensor<i64, N>) -> Tensor<f32, N> { t.gather(V, i) }";
    let out = run(plain, vec![table.clone(), ids.clone()]);
    assert_eq!(numbers(&out.results[0]), [3.0, 0.0, 0.0, 1.0]);
    assert!(out.fault.is_some(), "the first index out of range is a fault");
    for (fill, want) in [("7.0", 7.0), ("f", -5.0)] {
        let filled = format!(
            "#[kernel] fn k<V, N>(t: Tensor<f32, V>, i: Tensor<i64, N>, f: f32) -> Tensor<f32, N> {{ t.gather(V, i, fill = {fill}) }}"
        );
        let out = run(&filled, vec![table.clone(), ids.clone(), scalar(-5.0)]);
        assert_eq!((numbers(&out.results[0]), out.fault), (vec![3.0, want, want, 1.0], None));
    }
    // What a branch that is not taken would read is no fault.
    let branch = "#[kernel] fn k<V, N>(t: Tensor<f32, V>, i: Tensor<i64, N>, f: f32) -> Tensor<f32, N> { if f > 0.0 { t.gather(V, i) } else { 0.0 * (i as f32) } }";
    let out = run(branch, vec![table.clone(), ids.clone(), scalar(-5.0)]);
    assert_eq!(out.fault, None);
    assert!(run(branch, vec![table, ids, scalar(5.0)]).fault.is_some());
}
