//! Rules 9, 10, 14, 16, 18 and 20.

use super::*;
use fuse_ir::eval::eval_op;
use fuse_ir::scalar::ScalarOp;

fn k(params: &str, result: &str, body: &str) -> String {
    let generics = if params.contains(", M") { "M, N" } else { "N" };
    format!("#[kernel] fn k<{generics}>({params}) -> Tensor<{result}> {{ {body} }}")
}

#[test]
fn rule_9_narrow_floats_widen_and_literals_adopt() {
    check_graph(
        &k("x: Tensor<f16, N>, y: Tensor<f32, N>", "f16, N", "(x * 2.0 + y) as f16"),
        "kernel k(x: f16[N], y: f32[N]) {
            %0: f16[N] = x
            %1: f32[N] = y
            %2: f32[N] = cast<f32> %0
            %3: f32[] = 2.0
            %4: f32[N] = mul %2, %3
            %5: f32[N] = add %4, %1
            %6: f16[N] = cast<f16> %5
            result 0 [N] = %6
        }",
    );
    // The digits are rounded once, in the dtype that the literal adopts; so is each operation on literals.
    let y = run_numbers(&k("x: Tensor<f32, N>", "f32, N", "x + (1.0 / 3.0)"), vec![tensor(&[1], &[0.0])]);
    assert_eq!(y, [f64::from(1.0f32 / 3.0)]);
}

#[test]
fn rule_9_nothing_else_converts() {
    let params =
        "x: Tensor<f32, N>, n: Tensor<i32, N>, m: Tensor<u8, N>, b: Tensor<bool, N>, d: Tensor<f64, N>";
    let k = |body: &str| k(params, "f32, N", body);
    check_error(&k("x «+» n"), "operands_differ");
    check_error(&k("x «*» d"), "operands_differ");
    check_error(&k("x «==» n"), "operands_differ");
    check_error(&k("x + «1»"), "literal_of_other_kind");
    check_error(&k("(n + «1.0») as f32"), "literal_of_other_kind");
    check_error(&k("(m + «300») as f32"), "literal_out_of_range_of_tensor");
    check_error(&k("(b «+» b) as f32"), "operation_not_defined");
    check_error(&k("«!»x"), "operation_not_defined");
    check_error(&k("x «&» x"), "operation_not_defined");
    check_error(&k("n.«exp»() as f32"), "method_not_defined");
    check_error(&k("select(x «as» bool, x, x)"), "cast_to_bool");
    check_error(&k("x as «g16»"), "unknown_dtype");
    check_error(&k("«select»(b, x, n)"), "operands_differ");
    check_error(&k("select(«x», x, x)"), "other_dtype_expected");
}

#[test]
fn rule_10_methods_mean_what_they_mean_in_rust() {
    let x = || vec![tensor(&[4], &[-1.5, 0.5, 2.5, f32::NAN])];
    let check = |body: &str, f: fn(f32) -> f32| {
        let want: Vec<f32> = [-1.5, 0.5, 2.5, f32::NAN].map(f).to_vec();
        let found: Vec<f32> =
            run_numbers(&k("x: Tensor<f32, N>", "f32, N", body), x()).iter().map(|&y| y as f32).collect();
        let same =
            found.iter().zip(&want).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()));
        assert!(same, "{body}: {found:?} instead of {want:?}");
    };
    check("x.round()", f32::round);
    check("x.max(0.0)", |x| x.max(0.0));
    check("f32::max(x, 0.0)", |x| x.max(0.0));
    check("maximum(x, 0.0)", |x| if x.is_nan() { x } else { x.max(0.0) });
    check("x.clamp(-1.0, 1.0)", |x| x.clamp(-1.0, 1.0));
    check("x % 2.0", |x| x % 2.0);
    check("x.square()", |x| x * x);
    check("sqrt(x)", f32::sqrt);
    check("(x as i32) as f32", |x| (x as i32) as f32);
    check("x.mul_add(2.0, 1.0)", |x| x.mul_add(2.0, 1.0));
    check("x.to_radians()", f32::to_radians);
    check("x.signum()", f32::signum);
    check("-x", |x| -x);
}

#[test]
fn rule_10_integers_wrap_and_shifts_mask_counts_of_any_integer() {
    let n = array(DType::I32, &[1], vec![Value::I32(i32::MAX)]);
    assert_eq!(run_numbers(&k("n: Tensor<i32, N>", "i32, N", "n + n"), vec![n.clone()]), [-2.0]);
    assert_eq!(run_numbers(&k("n: Tensor<i32, N>", "i32, N", "n >> 4"), vec![n]), [f64::from(i32::MAX >> 4)]);
    let counts = array(DType::I8, &[4], [3, 33, -1, -29].map(Value::I8).to_vec());
    let ones = k("by: Tensor<i8, N>", "i32, N", "select(by == 0, 1i32, 1i32) << by");
    let want = [3u32, 33, -1i8 as u32, -29i8 as u32].map(|n| f64::from(1i32.wrapping_shl(n)));
    assert_eq!(run_numbers(&ones, vec![counts]), want);
    let counts = array(DType::U64, &[2], vec![Value::U64(1 << 40 | 1), Value::U64(63)]);
    assert_eq!(
        run_numbers(&k("by: Tensor<u64, N>", "u64, N", "by >> by"), vec![counts]),
        [(1u64 << 39) as f64, 0.0]
    );
    let (a, b) = (
        array(DType::Bool, &[1], vec![Value::Bool(true)]),
        array(DType::Bool, &[1], vec![Value::Bool(false)]),
    );
    let source = k("a: Tensor<bool, N>, b: Tensor<bool, N>", "bool, N", "a && !b || a ^ b");
    assert_eq!(run_numbers(&source, vec![a, b]), [1.0]);
}

#[test]
fn rule_10_ops_are_lifted_over_axes() {
    let source = "const LIMIT: f32 = 2.0;
        #[op] fn limited(x: f32, by: f32) -> (f32, bool) { let y = x * by; (y.min(LIMIT), y > LIMIT) }
        #[kernel] fn k<M, N>(x: Tensor<f16, M, N>, b: Tensor<f32, N>) -> (Tensor<f32, M, N>, Tensor<bool, M, N>) { limited(x, b) }";
    let x = array(DType::F16, &[2, 1], vec![Value::F16(1.0), Value::F16(3.0)]);
    let out = run(source, vec![x, tensor(&[1], &[1.5])]);
    assert_eq!(numbers(&out.results[0]), [1.5, 2.0]);
    assert_eq!(numbers(&out.results[1]), [0.0, 1.0]);
    let k = |body: &str| {
        format!(
            "#[op] fn f(x: f32, y: f32) -> f32 {{ x + y }}
             #[kernel] fn k<M, N>(x: Tensor<f32, M>, y: Tensor<f32, N>, n: Tensor<i32, M>) -> Tensor<f32, M> {{ {body} }}"
        )
    };
    check_error(&k("f(x, «n»)"), "other_dtype_expected");
    check_error(&k("«f»(x)"), "argument_count");
    check_error(&k("«f»(x, y)"), "outer_product");
    check_error(&k("«g»(x, x)"), "unknown_tensor_function");
    check_error(&k("x.«f»(x)"), "function_called_as_method");
    check_error(&k("x.«expp»()"), "unknown_tensor_method");
    check_error(&k("«k»(x)"), "kernel_called");
}

#[test]
fn rule_14_index_extent_and_select() {
    let source = k(
        "x: Tensor<f32, M, N>",
        "f32, M, N",
        "select(index(M) >= index(N) + extent(M) - extent(N), x, f32::NEG_INFINITY)",
    );
    let y = run_numbers(&source, vec![tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0])]);
    assert_eq!(y, [1.0, f64::NEG_INFINITY, 3.0, 4.0]);
    let source = k("x: Tensor<f32, M, N>", "i64", "index(N).sum(N) * 1_500_000_000 + extent((M, N))");
    assert_eq!(run_numbers(&source, vec![tensor(&[2, 3], &[0.0; 6])]), [4_500_000_006.0]);
    check_error(&k("x: Tensor<f32, N>", "f32, N", "x * «N»"), "axis_in_place_of_value");
    check_error(&k("x: Tensor<f32, N>", "f32, N", "index(«x») as f32"), "axis_expected");
}

#[test]
fn rule_16_dropout_is_keyed_by_the_logical_index() {
    let source = "#[kernel] fn k<M, N>(x: Tensor<f32, N, M>, p: f32, seed: u64) -> (Tensor<f32, M, N>, Tensor<f32, N, M>, Tensor<f32, M, N>) {
        let y = x.dropout(p, seed);
        (y, y, x.dropout(p, seed, stream = 1))
    }";
    let call = |p: f32, seed: u64| {
        let x: Vec<f32> = (0..600).map(|i| 1.0 + i as f32).collect();
        run(source, vec![tensor(&[20, 30], &x), scalar(p), Input::Scalar(Value::U64(seed))])
    };
    let out = call(0.5, 7);
    let (y, t) = (numbers(&out.results[0]), numbers(&out.results[1]));
    let mut dropped = 0;
    for m in 0..30 {
        for n in 0..20 {
            let x = (1 + n * 30 + m) as f64;
            assert_eq!(y[m * 20 + n], t[n * 30 + m]);
            assert!(y[m * 20 + n] == 0.0 || y[m * 20 + n] == 2.0 * x);
            let operands = [Value::U64(7), Value::U64(0), Value::I64((m * 20 + n) as i64)];
            let (Value::U32(word), None) = eval_op(ScalarOp::Philox, &operands) else { panic!("a word") };
            let keep = (word >> 8) as f32 * 2f32.powi(-24) >= 0.5;
            assert_eq!(y[m * 20 + n] != 0.0, keep, "the order of the generics, not of the layout");
            dropped += usize::from(!keep);
        }
    }
    assert!((250..350).contains(&dropped), "{dropped} of 600");
    assert!(out.same_bits(&call(0.5, 7)));
    assert!(!out.results[0].same_bits(&call(0.5, 8).results[0]));
    assert!(!out.results[0].same_bits(&out.results[2]), "another stream is another mask");
    assert!(numbers(&call(1.0, 7).results[0]).iter().all(|&y| y == 0.0));
    assert!(numbers(&call(0.0, 7).results[1]).iter().enumerate().all(|(i, &y)| y == 1.0 + i as f64));
    check_error(&k("x: Tensor<f32, N>", "f32, N", "x.dropout(0.5, «0.5»)"), "literal_of_other_kind");
    check_error(&k("x: Tensor<i32, N>", "i32, N", "x.«dropout»(0.5, 1)"), "reduction_not_defined");
}

#[test]
fn rule_18_constants_live_in_the_block() {
    let source = "const SCALE: f32 = 2.0 * HALF; const HALF: f32 = 0.5; const WIDTH: usize = 2;
        #[kernel] fn k<N, const W: usize = { WIDTH + 1 }>(x: Tensor<f32, N>) -> Tensor<f32, W> {
            x.slice(N, WIDTH, W) * SCALE + (PI - f32::consts::PI) * f32::EPSILON
        }";
    assert_eq!(run_numbers(source, vec![tensor(&[5], &[0.0, 1.0, 2.0, 3.0, 4.0])]), [2.0, 3.0, 4.0]);
    check_error(&k("x: Tensor<f32, N>", "f32, N", "x * «crate::config::SCALE»"), "path_outside_block");
    check_error(&k("x: Tensor<f32, N>", "f32, N", "x * «y»"), "unknown_name");
}

#[test]
fn rule_20_generic_dtypes_have_instances() {
    let (kernels, diagnostics) = lower(
        "fn half<T: Float, N>(x: Tensor<T, N>) -> Tensor<T, N> { (x * 0.5) as T }
         #[kernel(T = [f32, f16, f64])]
         fn k<T: Float, N>(x: Tensor<T, N>) -> Tensor<T, N> { half(x) }
         #[kernel] fn one<T: Int, N>(x: Tensor<T, N>) -> Tensor<T, N> { x + x }",
    );
    assert!(diagnostics.is_empty(), "{diagnostics:#?}");
    let names: Vec<&str> = kernels.iter().map(|k| k.kernel.name.as_str()).collect();
    assert_eq!(names, ["k::<f32>", "k::<f16>", "k::<f64>", "one::<i32>"]);
    assert_eq!(kernels[1].dtype_args, [("T".to_owned(), DType::F16)]);
    assert_eq!(kernels[1].item, 1);
    check_error(
        "fn half<T: Float, N>(x: Tensor<T, N>) -> Tensor<T, N> { x }
         #[kernel] fn k<N>(x: Tensor<i32, N>) -> Tensor<i32, N> { half(«x») }",
        "dtype_outside_bound_of_call",
    );
}
