//! Graphs on plain values: every kind of node, every reducer, empty axes, NaN, ties, faults, `&mut` parameters.

use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{Array, EvalError, Fault, Input, Inputs, Precision, compare_nodes, evaluate};
use fuse_ir::graph::{Kernel, Op, Reducer};
use fuse_ir::id::{FnId, VarId};
use fuse_ir::index_map::{Bound, IndexExpr, IndexMap};
use fuse_ir::random::KernelBuilder;
use fuse_ir::scalar::{Expr, ScalarFn, ScalarOp, Stmt, Variable};

fn f32s(data: &[f32]) -> Input {
    Input::Tensor(Array::from_f32(data))
}

fn matrix(rows: usize, columns: usize, data: &[f32]) -> Input {
    Input::Tensor(Array::from_f32(data).reshape(vec![rows, columns]).unwrap())
}

fn ints(data: &[i64]) -> Input {
    let data: Vec<Value> = data.iter().map(|&x| Value::I64(x)).collect();
    Input::Tensor(Array::new(DType::I64, vec![data.len()], data).unwrap())
}

/// The first result, exactly.
#[track_caller]
fn first(kernel: &Kernel, inputs: Vec<Input>) -> Array {
    evaluate(kernel, &Inputs(inputs), Precision::Exact)
        .unwrap_or_else(|e| panic!("{e}\n{kernel}"))
        .results
        .remove(0)
}

#[track_caller]
fn check(got: &Array, want: &[f32]) {
    let want = Array::from_f32(want).reshape(got.shape.clone()).unwrap();
    assert!(got.same_bits(&want), "{got:?}\n{want:?}");
}

/// A reduction of a vector to a scalar.
fn reduce_vector(reducer: Reducer, dtype: DType) -> Kernel {
    let mut b = KernelBuilder::new("reduce");
    let n = b.axis("N");
    let x = b.tensor("x", dtype, &[n]);
    let y = b.reduce(reducer, x, &[n]);
    b.result(y, &[]);
    b.build()
}

#[test]
fn operands_align_by_name_and_results_take_the_declared_order() {
    let mut b = KernelBuilder::new("outer");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let (x, y) = (b.tensor("x", DType::F32, &[n, m]), b.tensor("y", DType::F32, &[n]));
    let z = b.map(ScalarOp::Add, &[x, y]);
    b.result(z, &[m, n]);
    let got = first(&b.build(), vec![matrix(2, 3, &[1., 2., 3., 4., 5., 6.]), f32s(&[10., 20.])]);
    assert_eq!(got.shape, [3, 2]);
    check(&got, &[11., 24., 12., 25., 13., 26.]);
}

#[test]
fn reducers_of_nothing_give_their_identity() {
    let of_nothing = |reducer| first(&reduce_vector(reducer, DType::F32), vec![f32s(&[])]);
    check(&of_nothing(Reducer::Sum), &[0.0]);
    check(&of_nothing(Reducer::Prod), &[1.0]);
    check(&of_nothing(Reducer::Max), &[f32::NEG_INFINITY]);
    check(&of_nothing(Reducer::Min), &[f32::INFINITY]);
    for reducer in [Reducer::ArgMax, Reducer::ArgMin] {
        // Past all positions; only the branch that is not taken computes it.
        assert_eq!(of_nothing(reducer).data, [Value::I64(i64::MAX)]);
    }
    for (reducer, want) in [(Reducer::Any, false), (Reducer::All, true)] {
        let empty = Input::Tensor(Array::new(DType::Bool, vec![0], vec![]).unwrap());
        assert_eq!(first(&reduce_vector(reducer, DType::Bool), vec![empty]).data, [Value::Bool(want)]);
    }
}

#[test]
fn axis_maxima_propagate_nan_and_arguments_are_the_first() {
    let nan = f32::NAN;
    let f = |reducer, data: &[f32]| first(&reduce_vector(reducer, DType::F32), vec![f32s(data)]);
    check(&f(Reducer::Max, &[1., nan, 3.]), &[nan]);
    check(&f(Reducer::Min, &[nan, 1., 3.]), &[nan]);
    check(&f(Reducer::Max, &[f32::NEG_INFINITY; 3]), &[f32::NEG_INFINITY]);
    let arg = |reducer, data: &[f32]| f(reducer, data).data[0];
    assert_eq!(arg(Reducer::ArgMax, &[1., 3., 3., 2.]), Value::I64(1));
    assert_eq!(arg(Reducer::ArgMin, &[1., 0., -0.0, 0.]), Value::I64(1));
    assert_eq!(arg(Reducer::ArgMax, &[1., f32::INFINITY, nan, nan]), Value::I64(2));
    assert_eq!(arg(Reducer::ArgMin, &[f32::NEG_INFINITY, nan]), Value::I64(1));
    assert_eq!(arg(Reducer::ArgMax, &[f32::NEG_INFINITY; 70]), Value::I64(0));
    let i = |reducer, data: &[i64]| first(&reduce_vector(reducer, DType::I64), vec![ints(data)]).data[0];
    assert_eq!(i(Reducer::Max, &[i64::MIN, -3]), Value::I64(-3));
    assert_eq!(i(Reducer::Min, &[i64::MAX, 3]), Value::I64(3));
    assert_eq!(i(Reducer::ArgMin, &[i64::MAX; 5000]), Value::I64(0));
    assert_eq!(i(Reducer::Sum, &[i64::MAX, 1]), Value::I64(i64::MIN));
    assert_eq!(i(Reducer::Prod, &[-3, 5, 7]), Value::I64(-105));
}

/// The tree as the schedule's documentation draws it, written down a second time.
#[test]
fn sums_follow_the_fixed_tree() {
    for len in [0, 1, 63, 64, 65, 127, 4095, 4096, 4097, 3 * 4096 + 5] {
        let data: Vec<f32> = (0..len).map(|i| ((i * 37 + 11) % 101) as f32 * 0.173 - 7.0).collect();
        let mut level: Vec<f32> = data
            .chunks(4096)
            .map(|chunk| {
                let mut lanes = [0f32; 64];
                chunk.iter().enumerate().for_each(|(r, x)| lanes[r % 64] += x);
                for half in [32, 16, 8, 4, 2, 1] {
                    (0..half).for_each(|i| lanes[i] += lanes[i + half]);
                }
                lanes[0]
            })
            .collect();
        while level.len() > 1 {
            level = level.chunks(2).map(|p| if p.len() == 2 { p[0] + p[1] } else { p[0] }).collect();
        }
        let want = level.first().copied().unwrap_or(0.0);
        check(&first(&reduce_vector(Reducer::Sum, DType::F32), vec![f32s(&data)]), &[want]);
    }
}

#[test]
fn the_order_of_a_reduction_over_several_axes_is_that_of_the_list() {
    let mut b = KernelBuilder::new("argmax");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.tensor("x", DType::F32, &[m, n]);
    let by_rows = b.reduce(Reducer::ArgMax, x, &[m, n]);
    let by_columns = b.reduce(Reducer::ArgMax, x, &[n, m]);
    b.result(by_rows, &[]);
    b.result(by_columns, &[]);
    let got = evaluate(&b.build(), &Inputs(vec![matrix(2, 3, &[0., 0., 9., 9., 0., 0.])]), Precision::Exact)
        .unwrap();
    assert_eq!(got.results[0].data, [Value::I64(2)]);
    assert_eq!(got.results[1].data, [Value::I64(1)]);
}

/// `(a, i) ⊕ (b, j)` keeps the later of the greater: a user's combiner over a tuple.
fn last_greatest(b: &mut KernelBuilder) -> FnId {
    let variable = |name: &str, dtype| Variable { name: name.to_owned(), dtype };
    let v = |i| Expr::Variable(VarId(i));
    let pick = |i, j| Expr::Op(ScalarOp::Select, vec![v(4), v(j), v(i)]);
    b.function(ScalarFn {
        name: "last_greatest".to_owned(),
        parameters: 4,
        variables: vec![
            variable("a", DType::F32),
            variable("i", DType::I64),
            variable("b", DType::F32),
            variable("j", DType::I64),
            variable("later", DType::Bool),
        ],
        body: vec![Stmt::Assign { variable: VarId(4), value: Expr::Op(ScalarOp::Ge, vec![v(2), v(0)]) }],
        results: vec![pick(0, 2), pick(1, 3)],
    })
}

#[test]
fn users_reductions_combine_tuples() {
    for ordered in [false, true] {
        let mut b = KernelBuilder::new("best");
        let n = b.axis("N");
        let x = b.tensor("x", DType::F32, &[n]);
        let i = b.push(Op::Index(n));
        let combine = last_greatest(&mut b);
        let identity = vec![Value::F32(f32::NEG_INFINITY), Value::I64(-1)];
        let reducer = Reducer::User { combine, identity, ordered };
        for output in 0..2 {
            let y =
                b.push(Op::Reduce { reducer: reducer.clone(), sources: vec![x, i], axes: vec![n], output });
            b.result(y, &[]);
        }
        let kernel = b.build();
        let run =
            |data: &[f32]| evaluate(&kernel, &Inputs(vec![f32s(data)]), Precision::Exact).unwrap().results;
        let got = run(&[3., 9., 9., 1.]);
        check(&got[0], &[9.]);
        if ordered {
            assert_eq!(got[1].data, [Value::I64(2)]);
        }
        assert_eq!(run(&[])[1].data, [Value::I64(-1)]);
    }
}

#[test]
fn cumsum_runs_from_first_to_last() {
    let mut b = KernelBuilder::new("cumsum");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.tensor("x", DType::F32, &[m, n]);
    let along_m = b.push(Op::CumSum { source: x, axis: m });
    let along_n = b.push(Op::CumSum { source: x, axis: n });
    b.result(along_m, &[m, n]);
    b.result(along_n, &[m, n]);
    let kernel = b.build();
    let inputs = Inputs(vec![matrix(2, 3, &[1., 2., 3., 4., 5., 6.])]);
    let got = evaluate(&kernel, &inputs, Precision::Exact).unwrap();
    check(&got.results[0], &[1., 2., 3., 5., 7., 9.]);
    check(&got.results[1], &[1., 3., 6., 4., 9., 15.]);
    let zeros = Inputs(vec![matrix(1, 2, &[-0.0, -0.0])]);
    let got = evaluate(&kernel, &zeros, Precision::Exact).unwrap();
    check(&got.results[1], &[0.0, 0.0]);
}

#[test]
fn views_read_through_their_maps() {
    let mut b = KernelBuilder::new("pad");
    let n = b.axis("N");
    let p = b.derived_axis("P", IndexExpr::extent(n).plus(3));
    let x = b.tensor("x", DType::F32, &[n]);
    let at = IndexExpr::index(p).minus(1);
    let map = IndexMap {
        indices: vec![(n, at.clone())],
        bounds: vec![Bound { expr: at, extent: IndexExpr::extent(n) }],
    };
    let padded = b.view(x, &[p], map, Some(Value::F32(7.0)));
    let back = IndexExpr::extent(n).minus(1).minus(IndexExpr::index(n));
    let reversed = b.view(x, &[n], IndexMap { indices: vec![(n, back)], bounds: vec![] }, None);
    b.result(padded, &[p]);
    b.result(reversed, &[n]);
    let kernel = b.build();
    let got = evaluate(&kernel, &Inputs(vec![f32s(&[1., 2.])]), Precision::Exact).unwrap();
    check(&got.results[0], &[7., 1., 2., 7., 7.]);
    check(&got.results[1], &[2., 1.]);
    let dump = kernel.to_string();
    assert!(dump.contains("%1: f32[P] = view %0[N: (p - 1)] if 0 <= (p - 1) < N else 7.0"), "{dump}");
}

#[test]
fn gathers_out_of_range_fault_and_give_zero() {
    let mut b = KernelBuilder::new("gather");
    let (v, n) = (b.axis("V"), b.axis("N"));
    let (x, ids) = (b.tensor("x", DType::F32, &[v]), b.tensor("ids", DType::I64, &[n]));
    let map = IndexMap { indices: vec![(v, IndexExpr::Indirect(ids))], bounds: vec![] };
    let y = b.view(x, &[n], map, None);
    b.result(y, &[n]);
    let inputs = Inputs(vec![f32s(&[5., 6., 7.]), ints(&[2, 3, 0, -1])]);
    let got = evaluate(&b.build(), &inputs, Precision::Exact).unwrap();
    check(&got.results[0], &[7., 0., 5., 0.]);
    let fault = got.fault.unwrap();
    assert_eq!((fault.node, fault.fault), (Some(y), Fault::OutOfRange { axis: v, index: 3, extent: 3 }));
}

#[test]
fn contractions_sum_products() {
    let mut b = KernelBuilder::new("dot");
    let (m, k, n) = (b.axis("M"), b.axis("K"), b.axis("N"));
    let (x, w) = (b.tensor("x", DType::F32, &[m, k]), b.tensor("w", DType::F32, &[k, n]));
    let y = b.push(Op::Reduce { reducer: Reducer::Dot, sources: vec![x, w], axes: vec![k], output: 0 });
    b.result(y, &[m, n]);
    let kernel = b.build();
    let (x, w) = ([1., 2., 3., 4., 5., 6.], [1., 0., 0., 1., 2., -1.]);
    let got = first(&kernel, vec![matrix(2, 3, &x), matrix(3, 2, &w)]);
    check(&got, &[7., -1., 16., -1.]);
    check(&first(&kernel, vec![matrix(2, 0, &[]), matrix(0, 2, &[])]), &[0.; 4]);
    // Its error is held against the magnitudes of its terms.
    let (x, w) = ([0.1, 1e8, -0.3, 1e8, 0.7, 0.9], [0.3, 0.7, 1.0, 1.0, 0.2, -0.9]);
    let errors = compare_nodes(&kernel, &Inputs(vec![matrix(2, 3, &x), matrix(3, 2, &w)])).unwrap();
    assert!(errors[y.index()].relative_to_terms <= 2.0, "{errors:?}");
    assert!(kernel.to_string().contains("dot<K> %0, %1"), "{kernel}");
}

#[test]
fn divisions_by_zero_fault_and_give_zero() {
    let mut b = KernelBuilder::new("divide");
    let n = b.axis("N");
    let (x, y) = (b.tensor("x", DType::I64, &[n]), b.tensor("y", DType::I64, &[n]));
    let z = b.map(ScalarOp::Div, &[x, y]);
    b.result(z, &[n]);
    let inputs = Inputs(vec![ints(&[6, 7, i64::MIN]), ints(&[2, 0, -1])]);
    let got = evaluate(&b.build(), &inputs, Precision::Exact).unwrap();
    assert_eq!(got.results[0].data, [Value::I64(3), Value::I64(0), Value::I64(i64::MIN)]);
    assert_eq!(got.fault.map(|f| f.fault), Some(Fault::DivisionByZero(ScalarOp::Div)));
}

#[test]
fn mutable_parameters_keep_what_is_not_written() {
    let mut b = KernelBuilder::new("append");
    let (l, s) = (b.axis("L"), b.axis("S"));
    let (cache, _) = b.tensor_mut("cache", DType::F32, &[l]);
    let k = b.tensor("k", DType::F32, &[s]);
    let (pos, _) = b.scalar("pos", DType::U32);
    b.store_at(cache, k, vec![IndexExpr::index(s).plus(IndexExpr::Param(pos))]);
    let kernel = b.build();
    let at = |pos| {
        let inputs = vec![f32s(&[1., 2., 3., 4.]), f32s(&[8., 9.]), Input::Scalar(Value::U32(pos))];
        evaluate(&kernel, &Inputs(inputs), Precision::Exact)
    };
    check(&at(1).unwrap().params[0].1, &[1., 8., 9., 4.]);
    assert!(matches!(at(3), Err(EvalError::OutOfRange { .. })));
}

#[test]
fn f64_evaluation_rounds_where_the_user_narrows() {
    let mut b = KernelBuilder::new("mean");
    let n = b.axis("N");
    let x = b.tensor("x", DType::F32, &[n]);
    let total = b.reduce(Reducer::Sum, x, &[n]);
    let narrow = b.map(ScalarOp::Cast(DType::F16), &[total]);
    b.result(total, &[]);
    b.result(narrow, &[]);
    let kernel = b.build();
    let data = vec![0.1f32; 1000];
    let wide = evaluate(&kernel, &Inputs(vec![f32s(&data)]), Precision::F64).unwrap();
    let total: f64 = data.iter().map(|&x| f64::from(x)).sum();
    assert_eq!(wide.results[0].data, [Value::F64(total)]);
    assert_eq!(wide.results[1].data, [Value::F64(100.0)]);
    let errors = compare_nodes(&kernel, &Inputs(vec![f32s(&data)])).unwrap();
    let sum = errors[1];
    assert!(sum.absolute > 0.0 && sum.ulps < 4.0 && sum.relative_to_terms < 4.0, "{sum:?}");
    assert_eq!((errors[0].ulps, errors[2].ulps), (0.0, 0.0));
}

#[test]
fn functions_branch_and_loop() {
    // fn collatz(n: i64) -> i64: at most 100 steps, counted until 1.
    let variable = |name: &str| Variable { name: name.to_owned(), dtype: DType::I64 };
    let v = |i| Expr::Variable(VarId(i));
    let c = |x| Expr::Constant(Value::I64(x));
    let op = |op, args: &[Expr]| Expr::Op(op, args.to_vec());
    let assign = |i, value| Stmt::Assign { variable: VarId(i), value };
    let even = op(ScalarOp::Eq, &[op(ScalarOp::Rem, &[v(0), c(2)]), c(0)]);
    let step = Stmt::If {
        condition: even,
        then: vec![assign(0, op(ScalarOp::Div, &[v(0), c(2)]))],
        otherwise: vec![assign(0, op(ScalarOp::Add, &[op(ScalarOp::Mul, &[v(0), c(3)]), c(1)]))],
    };
    let body = vec![Stmt::If {
        condition: op(ScalarOp::Ne, &[v(0), c(1)]),
        then: vec![step, assign(1, op(ScalarOp::Add, &[v(1), c(1)]))],
        otherwise: vec![],
    }];
    let mut b = KernelBuilder::new("collatz");
    let n = b.axis("N");
    let x = b.tensor("x", DType::I64, &[n]);
    let f = b.function(ScalarFn {
        name: "collatz".to_owned(),
        parameters: 1,
        variables: vec![variable("n"), variable("steps"), variable("k")],
        body: vec![assign(1, c(0)), Stmt::For { variable: VarId(2), start: 0, end: 100, body }],
        results: vec![v(1)],
    });
    let y = b.call(f, 0, &[x]);
    b.result(y, &[n]);
    let got = first(&b.build(), vec![ints(&[1, 6, 7])]);
    assert_eq!(got.data, [Value::I64(0), Value::I64(8), Value::I64(16)]);
}

#[test]
fn empty_and_scalar_domains_are_ordinary() {
    let mut b = KernelBuilder::new("empty");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.tensor("x", DType::F32, &[m, n]);
    let rows = b.reduce(Reducer::Sum, x, &[n]);
    b.result(rows, &[m]);
    let kernel = b.build();
    check(&first(&kernel, vec![matrix(3, 0, &[])]), &[0.; 3]);
    assert_eq!(first(&kernel, vec![matrix(0, 5, &[])]).shape, [0]);
}
