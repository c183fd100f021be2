//! Hand-made plans: that they give what the graph gives, and that each kind of wrong plan is found.

use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{Array, Fault, Input, Inputs, Precision, evaluate};
use fuse_ir::graph::{MapFn, Reducer};
use fuse_ir::id::{AxisId, GroupId, NodeId, OperandId, ParamId, TempId, ValueId};
use fuse_ir::index_map::{Bound, IndexExpr, IndexMap};
use fuse_ir::interpret::{AccessError, InterpretError, interpret};
use fuse_ir::plan::{Launch, Plan, Temp};
use fuse_ir::program::{Program, verify_plan};
use fuse_ir::random::KernelBuilder;
use fuse_ir::scalar::ScalarOp;
use fuse_ir::schedule::{
    BodyOp, BodyValue, BufferRef, Level, Operand, Pass, ScheduleKind, ScheduledGroup, Store,
};

fn axis(i: u32) -> AxisId {
    AxisId(i)
}

fn at(i: u32) -> (AxisId, IndexExpr) {
    (AxisId(i), IndexExpr::index(AxisId(i)))
}

fn values(ids: &[u32]) -> Vec<ValueId> {
    ids.iter().map(|&i| ValueId(i)).collect()
}

fn load(buffer: BufferRef, indices: Vec<(AxisId, IndexExpr)>) -> Operand {
    Operand::Buffer { buffer, dtype: DType::F32, map: IndexMap { indices, bounds: Vec::new() } }
}

fn body(level: Level, op: BodyOp) -> BodyValue {
    BodyValue { op, dtype: DType::F32, level, node: None }
}

fn map(level: Level, op: ScalarOp, args: &[u32]) -> BodyValue {
    body(level, BodyOp::Map { function: MapFn::Op(op), args: values(args) })
}

fn reduce(reducer: Reducer, source: u32) -> BodyValue {
    body(Level::Outer, BodyOp::Reduce { reducer, sources: values(&[source]), output: 0 })
}

fn store(value: u32, buffer: BufferRef, indices: Vec<(AxisId, IndexExpr)>) -> Store {
    Store { value: ValueId(value), buffer, dtype: DType::F32, indices }
}

fn group(id: u32, kind: ScheduleKind, outer: &[u32], reduced: &[u32]) -> ScheduledGroup {
    ScheduledGroup {
        id: GroupId(id),
        kind,
        outer: outer.iter().map(|&a| axis(a)).collect(),
        reduced: reduced.iter().map(|&a| axis(a)).collect(),
        operands: vec![],
        values: vec![],
        prologue: vec![],
        passes: vec![],
        stores: vec![],
        links: vec![],
    }
}

fn program(builder: KernelBuilder, launches: Vec<Vec<ScheduledGroup>>, temps: Vec<Temp>) -> Program {
    let plan = Plan {
        kernel: String::new(),
        target: String::new(),
        assumed: vec![],
        launches: launches.into_iter().map(|parts| Launch { parts }).collect(),
        temps,
        decisions: vec![],
        in_place: vec![],
        bytes: IndexExpr::Const(0),
        bytes_unfused: IndexExpr::Const(0),
        launches_unfused: 0,
        flops: IndexExpr::Const(0),
        over_best: None,
    };
    Program { kernel: builder.build(), plan }
}

/// `e^(x - max) / sum` along N, by hand, as one group with two row buffers.
fn softmax(kind: ScheduleKind) -> Program {
    let mut b = KernelBuilder::new("softmax");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.tensor("x", DType::F32, &[m, n]);
    let greatest = b.reduce(Reducer::Max, x, &[n]);
    let centred = b.map(ScalarOp::Sub, &[x, greatest]);
    let e = b.map(ScalarOp::Exp, &[centred]);
    let total = b.reduce(Reducer::Sum, e, &[n]);
    let y = b.map(ScalarOp::Div, &[e, total]);
    b.result(y, &[m, n]);
    let mut g = group(0, kind, &[0], &[1]);
    g.operands = vec![load(BufferRef::Param(ParamId(0)), vec![at(0), at(1)])];
    g.values = vec![
        body(Level::Inner, BodyOp::Load(OperandId(0))),
        reduce(Reducer::Max, 0),
        map(Level::Inner, ScalarOp::Sub, &[0, 1]),
        map(Level::Inner, ScalarOp::Exp, &[2]),
        reduce(Reducer::Sum, 3),
        map(Level::Inner, ScalarOp::Div, &[3, 4]),
    ];
    g.passes = vec![
        Pass { values: values(&[0]), reductions: values(&[1]), buffered: values(&[0]), ..Pass::default() },
        Pass { values: values(&[2, 3]), reductions: values(&[4]), buffered: values(&[3]), ..Pass::default() },
        Pass { values: values(&[5]), stores: vec![0], ..Pass::default() },
    ];
    g.stores = vec![store(5, BufferRef::Result(0), vec![at(0), at(1)])];
    program(b, vec![vec![g]], vec![])
}

fn matrix(rows: usize, columns: usize) -> Input {
    let data: Vec<f32> = (0..rows * columns).map(|i| ((i * 37 + 11) % 101) as f32 * 0.17 - 7.0).collect();
    Input::Tensor(Array::from_f32(&data).reshape(vec![rows, columns]).unwrap())
}

/// The plan verifies and gives the bits of the graph.
#[track_caller]
fn check(program: &Program, inputs: Vec<Input>) {
    let inputs = Inputs(inputs);
    verify_plan(program).unwrap_or_else(|e| panic!("{e}"));
    let want = evaluate(&program.kernel, &inputs, Precision::Exact).unwrap();
    let got = interpret(program, &inputs).unwrap_or_else(|e| panic!("{e}"));
    assert!(got.same_bits(&want), "{got:?}\n{want:?}");
}

/// The broken plan is refused by the verifier, for that reason.
#[track_caller]
fn refuse(mut program: Program, break_it: impl FnOnce(&mut Program), why: &str) {
    break_it(&mut program);
    let got = verify_plan(&program).expect_err(why);
    assert!(got.contains(why), "{got}");
}

/// The broken plan fails when it runs, for that reason.
#[track_caller]
fn fail(mut program: Program, inputs: Vec<Input>, break_it: impl FnOnce(&mut Program), why: &str) {
    break_it(&mut program);
    let got = interpret(&program, &Inputs(inputs)).expect_err(why).to_string();
    assert!(got.contains(why), "{got}");
}

fn part(program: &mut Program) -> &mut ScheduledGroup {
    &mut program.plan.launches[0].parts[0]
}

#[test]
fn rows_and_columns_give_the_bits_of_the_graph() {
    for kind in [ScheduleKind::Row, ScheduleKind::Column] {
        let program = softmax(kind);
        for (rows, columns) in [(3, 5), (1, 1), (0, 4), (2, 64), (2, 65), (1, 4097), (3, 8195)] {
            check(&program, vec![matrix(rows, columns)]);
        }
    }
}

/// `2 * sum(x)` along N, cut into chunks and folded in a second launch.
fn split_sum() -> Program {
    let mut b = KernelBuilder::new("split");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.tensor("x", DType::F32, &[m, n]);
    let total = b.reduce(Reducer::Sum, x, &[n]);
    let two = b.constant(Value::F32(2.0));
    let y = b.map(ScalarOp::Mul, &[total, two]);
    b.result(y, &[m]);
    let mut g = group(0, ScheduleKind::Split, &[0], &[1]);
    g.operands = vec![load(BufferRef::Param(ParamId(0)), vec![at(0), at(1)])];
    g.values = vec![
        body(Level::Uniform, BodyOp::Constant(Value::F32(2.0))),
        body(Level::Inner, BodyOp::Load(OperandId(0))),
        reduce(Reducer::Sum, 1),
        map(Level::Outer, ScalarOp::Mul, &[2, 0]),
    ];
    g.prologue = values(&[0]);
    g.passes = vec![Pass {
        values: values(&[1]),
        reductions: values(&[2]),
        epilogue: values(&[3]),
        outer_stores: vec![0],
        ..Pass::default()
    }];
    g.stores = vec![store(3, BufferRef::Result(0), vec![at(0)])];
    program(b, vec![vec![g]], vec![])
}

#[test]
fn split_reductions_give_the_bits_of_the_graph() {
    let program = split_sum();
    assert_eq!(program.plan.launch_count(), 2);
    for columns in [0, 1, 4095, 4096, 4097, 3 * 4096, 7 * 4096 + 3] {
        check(&program, vec![matrix(2, columns)]);
    }
}

/// `y = (x + x)` through a temporary, `z = reverse(y)`.
fn two_launches() -> Program {
    let mut b = KernelBuilder::new("two");
    let n = b.axis("N");
    let x = b.tensor("x", DType::F32, &[n]);
    let y = b.map(ScalarOp::Add, &[x, x]);
    let back = IndexExpr::extent(n).minus(1).minus(IndexExpr::index(n));
    let indices = vec![(n, back.clone())];
    let z = b.view(y, &[n], IndexMap { indices: indices.clone(), bounds: vec![] }, None);
    b.result(z, &[n]);
    let temp = BufferRef::Temp(TempId(0));
    let mut first = group(0, ScheduleKind::Pointwise, &[0], &[]);
    first.operands = vec![load(BufferRef::Param(ParamId(0)), vec![at(0)])];
    first.values =
        vec![body(Level::Inner, BodyOp::Load(OperandId(0))), map(Level::Inner, ScalarOp::Add, &[0, 0])];
    first.passes = vec![Pass { values: values(&[0, 1]), stores: vec![0], ..Pass::default() }];
    first.stores = vec![store(1, temp, vec![at(0)])];
    let mut second = group(1, ScheduleKind::Pointwise, &[0], &[]);
    second.operands = vec![load(temp, indices)];
    second.values = vec![body(Level::Inner, BodyOp::Load(OperandId(0)))];
    second.passes = vec![Pass { values: values(&[0]), stores: vec![0], ..Pass::default() }];
    second.stores = vec![store(0, BufferRef::Result(0), vec![at(0)])];
    let temp = Temp { dtype: DType::F32, axes: vec![axis(0)], node: NodeId(1), streamed: false };
    program(b, vec![vec![first], vec![second]], vec![temp])
}

fn vector(n: usize) -> Input {
    Input::Tensor(Array::from_f32(&(0..n).map(|i| i as f32).collect::<Vec<_>>()))
}

#[test]
fn temporaries_carry_values_between_launches() {
    check(&two_launches(), vec![vector(5)]);
    check(&two_launches(), vec![vector(0)]);
}

#[test]
fn launches_out_of_order_are_found() {
    refuse(two_launches(), |p| p.plan.launches.swap(0, 1), "before a launch has stored it");
    fail(two_launches(), vec![vector(3)], |p| p.plan.launches.swap(0, 1), "nobody wrote it");
    let merge = |p: &mut Program| {
        let second = p.plan.launches.remove(1).parts.remove(0);
        p.plan.launches[0].parts.push(second);
    };
    refuse(two_launches(), merge, "g0 and g1 of one launch both touch");
    fail(two_launches(), vec![vector(3)], merge, "positions of one launch that have no order");
}

#[test]
fn wrong_in_place_plans_are_found() {
    // The reverse reads where another position writes.
    let in_place = |p: &mut Program| {
        p.plan.in_place.push((GroupId(1), BufferRef::Result(0), BufferRef::Temp(TempId(0))));
    };
    fail(two_launches(), vec![vector(4)], in_place, "have no order");
    // Read where it is written, it is right.
    let mut program = two_launches();
    in_place(&mut program);
    let straight = IndexMap::identity(&[axis(0)]);
    program.kernel.nodes[2].op =
        fuse_ir::graph::Op::View { source: NodeId(1), map: straight.clone(), fill: None };
    program.plan.launches[1].parts[0].operands = vec![load(BufferRef::Temp(TempId(0)), straight.indices)];
    check(&program, vec![vector(4)]);
    // The memory that a caller lent is not the plan's to give.
    let lent = |p: &mut Program| {
        p.plan.in_place.push((GroupId(1), BufferRef::Result(0), BufferRef::Param(ParamId(0))));
    };
    refuse(two_launches(), lent, "only the memory of temporaries");
    let twice = |p: &mut Program| {
        in_place(p);
        in_place(p);
    };
    refuse(two_launches(), twice, "taken over twice");
    let mut later = program.clone();
    let mut reader = later.plan.launches[1].clone();
    reader.parts[0].id = GroupId(2);
    reader.parts[0].stores[0].buffer = BufferRef::Result(1);
    later.plan.launches.push(reader);
    later.kernel.outputs.push(fuse_ir::graph::Output {
        value: NodeId(2),
        target: fuse_ir::graph::OutputTarget::Result { index: 1, axes: vec![axis(0)] },
    });
    refuse(later.clone(), |_| {}, "g2 still reads it");
    fail(later, vec![vector(4)], |_| {}, "after its memory was taken over");
}

#[test]
fn accesses_are_checked() {
    let shift = |p: &mut Program| {
        let g = &mut p.plan.launches[0].parts[0];
        if let Operand::Buffer { map, .. } = &mut g.operands[0] {
            map.indices[0].1 = IndexExpr::index(axis(0)).plus(1);
        }
    };
    fail(two_launches(), vec![vector(3)], shift, "out of bounds");
    let write_beyond = |p: &mut Program| part(p).stores[0].indices[0].1 = IndexExpr::index(axis(0)).plus(1);
    fail(two_launches(), vec![vector(3)], write_beyond, "out of bounds");
    let write_one = |p: &mut Program| part(p).stores[0].indices[0].1 = IndexExpr::Const(0);
    fail(two_launches(), vec![vector(3)], write_one, "written twice");
    refuse(two_launches(), write_one, "all go to one place");
    let half = |p: &mut Program| {
        let stores = &mut p.plan.launches[1].parts[0].stores;
        stores[0].indices[0].1 = IndexExpr::index(axis(0)).floor_div(2).times(2);
    };
    fail(two_launches(), vec![vector(3)], half, "written twice");
    let never = |p: &mut Program| p.plan.launches[1].parts[0].passes[0].stores.clear();
    let got = {
        let mut program = two_launches();
        never(&mut program);
        interpret(&program, &Inputs(vec![vector(3)]))
    };
    assert_eq!(got, Err(InterpretError::NotWritten { result: 0, element: 0 }));
    refuse(two_launches(), never, "it is made 0 times");
    let lent = |p: &mut Program| part(p).stores[0].buffer = BufferRef::Param(ParamId(0));
    fail(two_launches(), vec![vector(3)], lent, "is written and only lent");
    refuse(two_launches(), lent, "not `&mut`");
    let gone = |p: &mut Program| drop(p.plan.launches.pop());
    refuse(two_launches(), gone, "Result(0) is stored 0 times");
}

#[test]
fn values_are_computed_before_they_are_read() {
    let unbuffered = |p: &mut Program| part(p).passes[1].buffered.clear();
    refuse(softmax(ScheduleKind::Row), unbuffered, "x5 reads x3");
    fail(softmax(ScheduleKind::Row), vec![matrix(2, 3)], unbuffered, "neither computed nor buffered");
    let early = |p: &mut Program| part(p).passes.swap(1, 2);
    refuse(softmax(ScheduleKind::Row), early, "x5 reads x3");
    let misplaced = |p: &mut Program| part(p).prologue = values(&[5]);
    refuse(softmax(ScheduleKind::Row), misplaced, "x5 stands in the prologue");
    let unreduced = |p: &mut Program| part(p).passes[0].reductions.clear();
    refuse(softmax(ScheduleKind::Row), unreduced, "x2 reads x1");
    fail(softmax(ScheduleKind::Row), vec![matrix(2, 3)], unreduced, "neither computed nor buffered");
    let level = |p: &mut Program| part(p).values[5].level = Level::Outer;
    refuse(softmax(ScheduleKind::Row), level, "x5: its level is Outer");
    let stored_early = |p: &mut Program| {
        part(p).passes[2].stores.clear();
        part(p).passes[1].stores = vec![0];
    };
    refuse(softmax(ScheduleKind::Row), stored_early, "pass 1 stores x5");
    refuse(softmax(ScheduleKind::Split), |_| {}, "it is split");
    refuse(softmax(ScheduleKind::Pointwise), |_| {}, "it is pointwise");
    let unknown = |p: &mut Program| part(p).values[5].op = BodyOp::Load(OperandId(7));
    refuse(softmax(ScheduleKind::Row), unknown, "x5 names what does not exist");
    let forward = |p: &mut Program| part(p).values[2] = map(Level::Inner, ScalarOp::Sub, &[0, 3]);
    refuse(softmax(ScheduleKind::Row), forward, "x2 reads x3, which does not come before it");
    let dtype = |p: &mut Program| part(p).values[5].dtype = DType::F64;
    refuse(softmax(ScheduleKind::Row), dtype, "x5: it is f64");
    fail(softmax(ScheduleKind::Row), vec![matrix(2, 3)], dtype, "is f32 and should be f64");
}

/// `x as f16` stored as f16.
fn narrow() -> Program {
    let mut b = KernelBuilder::new("narrow");
    let n = b.axis("N");
    let x = b.tensor("x", DType::F32, &[n]);
    let y = b.map(ScalarOp::Cast(DType::F16), &[x]);
    b.result(y, &[n]);
    let mut g = group(0, ScheduleKind::Pointwise, &[0], &[]);
    g.operands = vec![load(BufferRef::Param(ParamId(0)), vec![at(0)])];
    let narrow = BodyValue { dtype: DType::F16, ..map(Level::Inner, ScalarOp::Cast(DType::F16), &[0]) };
    g.values = vec![body(Level::Inner, BodyOp::Load(OperandId(0))), narrow];
    g.passes = vec![Pass { values: values(&[0, 1]), stores: vec![0], ..Pass::default() }];
    g.stores = vec![Store { dtype: DType::F16, ..store(1, BufferRef::Result(0), vec![at(0)]) }];
    program(b, vec![vec![g]], vec![])
}

#[test]
fn values_are_rounded_before_they_are_stored() {
    let data = Input::Tensor(Array::from_f32(&[1.0, 0.1, 70000.0, f32::NAN, -0.0]));
    check(&narrow(), vec![data.clone()]);
    let forgotten = |p: &mut Program| {
        part(p).values[1] = BodyValue { dtype: DType::F16, ..map(Level::Inner, ScalarOp::Abs, &[0]) };
    };
    fail(narrow(), vec![data], forgotten, "not rounded to f16");
}

/// `*p = p - p[first]`: a uniform read of what other positions write.
fn uniform_read_of_written(at_first: bool) -> Program {
    let mut b = KernelBuilder::new("shift");
    let n = b.axis("N");
    let (param, p) = b.tensor_mut("p", DType::F32, &[n]);
    let indices = vec![(n, IndexExpr::Const(0))];
    let first = b.view(p, &[], IndexMap { indices: indices.clone(), bounds: vec![] }, None);
    let y = b.map(ScalarOp::Sub, &[p, if at_first { first } else { p }]);
    b.store(param, y);
    let mut g = group(0, ScheduleKind::Pointwise, &[0], &[]);
    g.operands = vec![load(BufferRef::Param(param), vec![at(0)])];
    g.values = vec![body(Level::Inner, BodyOp::Load(OperandId(0)))];
    if at_first {
        g.operands.push(load(BufferRef::Param(param), indices));
        g.values.push(body(Level::Uniform, BodyOp::Load(OperandId(1))));
        g.prologue = values(&[1]);
    } else {
        g.values.push(map(Level::Inner, ScalarOp::Neg, &[0]));
    }
    g.values.push(map(Level::Inner, ScalarOp::Sub, &[0, if at_first { 1 } else { 0 }]));
    let sweep = if at_first { values(&[0, 2]) } else { values(&[0, 1, 2]) };
    g.passes = vec![Pass { values: sweep, stores: vec![0], ..Pass::default() }];
    g.stores = vec![store(2, BufferRef::Param(param), vec![at(0)])];
    program(b, vec![vec![g]], vec![])
}

#[test]
fn mutable_parameters_are_written_in_place() {
    check(&uniform_read_of_written(false), vec![vector(4)]);
    fail(uniform_read_of_written(true), vec![vector(4)], |_| {}, "have no order");
}

/// A gather with its check, and a padded read with its mask.
fn gather() -> Program {
    let mut b = KernelBuilder::new("gather");
    let (v, n) = (b.axis("V"), b.axis("N"));
    let x = b.tensor("x", DType::F32, &[v]);
    let ids = b.tensor("ids", DType::I32, &[n]);
    let y = b.view(x, &[n], IndexMap { indices: vec![(v, IndexExpr::Indirect(ids))], bounds: vec![] }, None);
    b.result(y, &[n]);
    let mut g = group(0, ScheduleKind::Pointwise, &[1], &[]);
    let index = IndexExpr::Indirect(NodeId(0));
    let bounds = vec![Bound { expr: index.clone(), extent: IndexExpr::extent(v) }];
    let id = IndexMap { indices: vec![at(1)], bounds: vec![] };
    g.operands = vec![
        Operand::Buffer { buffer: BufferRef::Param(ParamId(1)), dtype: DType::I32, map: id },
        Operand::Check { when: vec![], bounds: bounds.clone() },
        Operand::Buffer {
            buffer: BufferRef::Param(ParamId(0)),
            dtype: DType::F32,
            map: IndexMap { indices: vec![(v, index)], bounds },
        },
    ];
    let value =
        |dtype, i| BodyValue { dtype, node: Some(y), ..body(Level::Inner, BodyOp::Load(OperandId(i))) };
    g.values = vec![value(DType::I32, 0), value(DType::Bool, 1), value(DType::F32, 2)];
    g.passes = vec![Pass { values: values(&[0, 1, 2]), stores: vec![0], ..Pass::default() }];
    g.stores = vec![store(2, BufferRef::Result(0), vec![at(1)])];
    program(b, vec![vec![g]], vec![])
}

#[test]
fn gathers_out_of_range_fault() {
    let ids: Vec<Value> = [2, 0, -1, 3, 1].map(Value::I32).to_vec();
    let inputs = vec![vector(3), Input::Tensor(Array::new(DType::I32, vec![5], ids).unwrap())];
    check(&gather(), inputs.clone());
    let got = interpret(&gather(), &Inputs(inputs)).unwrap().fault.unwrap();
    assert_eq!(got.fault, Fault::OutOfRange { axis: axis(0), index: -1, extent: 3 });
    assert_eq!(got.node, Some(NodeId(2)));
}

/// A running sum in one pass, read by the next.
fn running_sum() -> Program {
    let mut b = KernelBuilder::new("running");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.tensor("x", DType::F32, &[m, n]);
    let sums = b.push(fuse_ir::graph::Op::CumSum { source: x, axis: n });
    let total = b.reduce(Reducer::Max, sums, &[n]);
    let y = b.map(ScalarOp::Div, &[sums, total]);
    b.result(y, &[n, m]);
    let mut g = group(0, ScheduleKind::Row, &[0], &[1]);
    g.operands = vec![load(BufferRef::Param(ParamId(0)), vec![at(0), at(1)])];
    g.values = vec![
        body(Level::Inner, BodyOp::Load(OperandId(0))),
        body(Level::Inner, BodyOp::CumSum { source: ValueId(0) }),
        reduce(Reducer::Max, 1),
        map(Level::Inner, ScalarOp::Div, &[1, 2]),
    ];
    g.passes = vec![
        Pass { values: values(&[0, 1]), buffered: values(&[1]), ..Pass::default() },
        Pass { reductions: values(&[2]), ..Pass::default() },
        Pass { values: values(&[3]), stores: vec![0], ..Pass::default() },
    ];
    g.stores = vec![store(3, BufferRef::Result(0), vec![at(1), at(0)])];
    program(b, vec![vec![g]], vec![])
}

#[test]
fn running_sums_are_read_in_later_passes() {
    check(&running_sum(), vec![matrix(3, 70)]);
    let same_pass = |p: &mut Program| {
        part(p).passes[0].reductions = values(&[2]);
        part(p).passes[1].reductions.clear();
    };
    refuse(running_sum(), same_pass, "x2 reduces x1");
    refuse(running_sum(), |p| part(p).passes[0].buffered.clear(), "is not buffered");
}

#[test]
fn access_errors_name_group_buffer_and_position() {
    let mut program = two_launches();
    program.plan.launches.swap(0, 1);
    let want = InterpretError::Access {
        group: GroupId(1),
        buffer: BufferRef::Temp(TempId(0)),
        position: vec![2],
        kind: AccessError::Uninitialised,
    };
    assert_eq!(interpret(&program, &Inputs(vec![vector(3)])), Err(want));
}
