//! Each rule of the graph, broken once.

use fuse_ir::dtype::{DType, Value};
use fuse_ir::graph::{AxisSource, Kernel, MapFn, Op, OutputTarget, ParamKind, Reducer, verify_graph};
use fuse_ir::id::{AxisId, FnId, NodeId, ParamId, VarId};
use fuse_ir::index_map::{Bound, IndexExpr, IndexMap};
use fuse_ir::random::KernelBuilder;
use fuse_ir::scalar::{Expr, ScalarFn, ScalarOp, Stmt, Variable};

/// A kernel that verifies and has one of everything the tests break.
fn sound() -> Kernel {
    let mut b = KernelBuilder::new("sound");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let p = b.derived_axis("P", IndexExpr::extent(n).plus(1));
    let x = b.tensor("x", DType::F32, &[n, m]);
    let ids = b.tensor("ids", DType::I64, &[m]);
    let (out, _) = b.tensor_mut("out", DType::F32, &[m]);
    b.scalar("shift", DType::F32);
    let f = b.function(ScalarFn {
        name: "twice".to_owned(),
        parameters: 1,
        variables: vec![
            Variable { name: "a".to_owned(), dtype: DType::F32 },
            Variable { name: "b".to_owned(), dtype: DType::F32 },
            Variable { name: "k".to_owned(), dtype: DType::I64 },
        ],
        body: vec![Stmt::Assign { variable: VarId(1), value: Expr::Variable(VarId(0)) }],
        results: vec![Expr::Op(ScalarOp::Add, vec![Expr::Variable(VarId(0)), Expr::Variable(VarId(1))])],
    });
    let y = b.call(f, 0, &[x]); // %4
    let s = b.reduce(Reducer::Sum, y, &[n]); // %5
    let at = IndexExpr::index(p);
    let map = IndexMap {
        indices: vec![(m, IndexExpr::index(m)), (n, at.clone())],
        bounds: vec![Bound { expr: at, extent: IndexExpr::extent(n) }],
    };
    let padded = b.view(x, &[m, p], map, Some(Value::F32(0.0))); // %6
    let gather = IndexMap { indices: vec![(m, IndexExpr::Indirect(ids))], bounds: vec![] };
    let gathered = b.view(s, &[m], gather, None); // %7
    b.push(Op::CumSum { source: y, axis: n }); // %8
    b.result(padded, &[p, m]);
    b.result(gathered, &[m]);
    b.store(out, s);
    b.build()
}

#[test]
fn a_sound_kernel_verifies() {
    let kernel = sound();
    assert_eq!(verify_graph(&kernel), Ok(()), "{kernel}");
}

/// The kernel with one thing broken is refused for that.
#[track_caller]
fn check(break_it: impl FnOnce(&mut Kernel), why: &str) {
    let mut kernel = sound();
    break_it(&mut kernel);
    let got = verify_graph(&kernel).expect_err(why);
    assert!(got.contains(why), "{got}");
}

#[test]
fn interfaces() {
    check(|k| k.axes[0].source = AxisSource::Host(ParamId(0)), "no parameter that fixes it");
    check(|k| k.axes[2].source = AxisSource::Derived(IndexExpr::index(AxisId(0))), "has no meaning here");
    check(|k| k.axes[2].source = AxisSource::Derived(IndexExpr::Param(ParamId(3))), "no integer parameter");
    check(|k| k.axes[2].source = AxisSource::Shape, "no parameter has it");
    check(
        |k| {
            let axes = vec![AxisId(1), AxisId(1)];
            k.params[0].kind = ParamKind::Tensor { dtype: DType::F32, axes, mutable: false };
        },
        "stands twice",
    );
    check(|k| drop(k.origins.pop()), "origins");
}

#[test]
fn types() {
    check(|k| k.nodes[0].ty.dtype = DType::F64, "%0: its type is f64");
    check(|k| k.nodes[0].ty.axes.reverse(), "not sorted");
    check(|k| k.nodes[0].ty.axes = vec![AxisId(9)], "i9 does not exist");
    check(|k| k.nodes[5].ty.axes = vec![AxisId(1)], "%5: its type is");
    check(|k| k.nodes[0].op = Op::Tensor(ParamId(3)), "no tensor parameter");
    check(|k| k.nodes[3].op = Op::Scalar(ParamId(0)), "no scalar parameter");
    check(|k| k.nodes[3].op = Op::Index(AxisId(7)), "i7 does not exist");
}

#[test]
fn maps() {
    let map = |function, args: &[u32]| Op::Map { function, args: args.iter().map(|&n| NodeId(n)).collect() };
    check(|k| k.nodes[4].op = map(MapFn::Op(ScalarOp::Neg), &[4]), "does not come before it");
    check(|k| k.nodes[4].op = map(MapFn::Op(ScalarOp::Add), &[0, 1]), "add does not take");
    check(|k| k.nodes[4].op = map(MapFn::Op(ScalarOp::Add), &[]), "add does not take");
    check(|k| k.nodes[4].op = map(MapFn::Call { function: FnId(1), result: 0 }, &[0]), "f1 does not exist");
    check(|k| k.nodes[4].op = map(MapFn::Call { function: FnId(0), result: 1 }, &[0]), "no result 1");
    check(|k| k.nodes[4].op = map(MapFn::Call { function: FnId(0), result: 0 }, &[1]), "takes [F32]");
}

#[test]
fn views() {
    let change = |f: fn(&mut NodeId, &mut IndexMap, &mut Option<Value>)| {
        move |k: &mut Kernel| {
            if let Op::View { source, map, fill } = &mut k.nodes[6].op {
                f(source, map, fill);
            }
        }
    };
    check(change(|_, map, _| map.indices.reverse()), "one entry for each axis");
    check(change(|_, map, _| drop(map.indices.pop())), "one entry for each axis");
    check(change(|_, _, fill| *fill = None), "a fill is given exactly where");
    check(change(|_, map, _| map.bounds.clear()), "a fill is given exactly where");
    check(change(|_, _, fill| *fill = Some(Value::F64(0.0))), "its fill is f64");
    check(change(|_, map, _| map.indices[1].1 = IndexExpr::index(AxisId(1))), "the position on i1");
    check(
        change(|_, map, _| map.indices[1].1 = IndexExpr::Indirect(NodeId(0))),
        "is used as an index and is f32",
    );
    check(change(|_, map, _| map.indices[1].1 = IndexExpr::Indirect(NodeId(8))), "does not come before it");
    check(change(|_, map, _| map.indices[1].1 = IndexExpr::Param(ParamId(0))), "no integer parameter");
    check(change(|_, map, _| map.bounds[0].extent = IndexExpr::index(AxisId(2))), "the position on i2");
    check(change(|source, _, _| *source = NodeId(6)), "does not come before it");
    check(
        |k| {
            if let Op::View { map, .. } = &mut k.nodes[7].op {
                map.indices[0].1 = IndexExpr::Indirect(NodeId(1));
            }
            k.nodes[7].ty.axes.clear();
        },
        "has the further axis i0",
    );
}

#[test]
fn reductions() {
    let reduce = |reducer: Reducer, sources: &[u32], axes: &[u32], output| Op::Reduce {
        reducer,
        sources: sources.iter().map(|&n| NodeId(n)).collect(),
        axes: axes.iter().map(|&a| AxisId(a)).collect(),
        output,
    };
    check(|k| k.nodes[5].op = reduce(Reducer::Any, &[4], &[1], 0), "Any does not take");
    check(|k| k.nodes[5].op = reduce(Reducer::Sum, &[4, 4], &[1], 0), "Sum does not take");
    check(|k| k.nodes[5].op = reduce(Reducer::Sum, &[], &[1], 0), "no source");
    check(|k| k.nodes[5].op = reduce(Reducer::Sum, &[4], &[1], 1), "no component 1");
    check(|k| k.nodes[5].op = reduce(Reducer::Sum, &[4], &[], 0), "reduces no axis");
    check(|k| k.nodes[5].op = reduce(Reducer::Sum, &[4], &[2], 0), "which no source has");
    check(|k| k.nodes[5].op = reduce(Reducer::Sum, &[4], &[1, 1], 0), "stands twice");
    let user = |identity| Reducer::User { combine: FnId(0), identity, ordered: false };
    check(|k| k.nodes[5].op = reduce(user(vec![]), &[4], &[1], 0), "does not combine two");
    check(|k| k.nodes[8].op = Op::CumSum { source: NodeId(5), axis: AxisId(1) }, "its source has not");
}

#[test]
fn outputs() {
    let target = |k: &mut Kernel, i: usize, target| k.outputs[i].target = target;
    check(|k| k.outputs[0].value = NodeId(99), "%99 does not exist");
    check(|k| k.outputs.swap(0, 1), "do not come in order");
    check(|k| k.outputs.rotate_left(1), "do not come in order");
    let result =
        |axes: &[u32]| OutputTarget::Result { index: 0, axes: axes.iter().map(|&a| AxisId(a)).collect() };
    check(|k| target(k, 0, result(&[0])), "not those declared");
    check(|k| target(k, 0, result(&[0, 2, 2])), "stands twice");
    let param = |param, region| OutputTarget::Param { param: ParamId(param), region };
    check(|k| target(k, 2, param(0, vec![])), "no `&mut` tensor");
    check(|k| target(k, 2, param(2, vec![])), "has 1 axes and its region 0");
    check(|k| target(k, 2, param(2, vec![IndexExpr::Const(0)])), "all written to one place");
    check(|k| target(k, 2, param(2, vec![IndexExpr::index(AxisId(1))])), "the position on i1");
    check(|k| k.outputs[2].value = NodeId(1), "holds f32 and is given i64");
}

#[test]
fn functions() {
    let assign = |i, value| Stmt::Assign { variable: VarId(i), value };
    let v = |i| Expr::Variable(VarId(i));
    check(|k| k.functions[0].body.clear(), "v1 is read before it is assigned");
    check(|k| k.functions[0].variables[1].dtype = DType::F16, "`b` is f16");
    check(|k| k.functions[0].parameters = 9, "9 parameters");
    check(|k| k.functions[0].body = vec![assign(1, v(7))], "v7 does not exist");
    check(|k| k.functions[0].variables[1].dtype = DType::F64, "is f64 and is assigned f32");
    let call = Expr::Call { function: FnId(0), args: vec![v(0)], result: 0 };
    check(move |k| k.functions[0].body = vec![assign(1, call)], "f0 does not come before it");
    let condition = Expr::Constant(Value::Bool(true));
    let only_then = Stmt::If { condition, then: vec![assign(1, v(0))], otherwise: vec![] };
    check(move |k| k.functions[0].body = vec![only_then], "v1 is read before it is assigned");
    let loops = move |end| Stmt::For { variable: VarId(2), start: 0, end, body: vec![assign(1, v(0))] };
    let never = loops(0);
    check(move |k| k.functions[0].body = vec![never], "v1 is read before it is assigned");
    let mut kernel = sound();
    kernel.functions[0].body = vec![loops(1)];
    assert_eq!(verify_graph(&kernel), Ok(()));
    let nested = Stmt::For { variable: VarId(2), start: 0, end: 1, body: vec![loops(1)] };
    check(move |k| k.functions[0].body = vec![nested], "two nested loops");
    let narrow = Expr::Op(ScalarOp::Cast(DType::F16), vec![v(0)]);
    check(move |k| k.functions[0].results = vec![narrow], "gives f16");
}
