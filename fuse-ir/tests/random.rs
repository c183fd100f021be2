//! Random cases: that they are sound, and between them use the whole graph language.

use fuse_ir::eval::{Precision, evaluate};
use fuse_ir::graph::{MapFn, Op, OutputTarget, Reducer, simplify_graph, verify_graph};
use fuse_ir::random::{Case, random_case, shrink};
use fuse_ir::scalar::ScalarOp;
use std::collections::BTreeMap;

#[test]
fn random_cases_verify_bind_and_evaluate() {
    for seed in 0..600 {
        let case = random_case(seed);
        verify_graph(&case.kernel).unwrap_or_else(|e| panic!("{e}\n{case}"));
        for precision in [Precision::Exact, Precision::F64] {
            evaluate(&case.kernel, &case.inputs, precision).unwrap_or_else(|e| panic!("{e}\n{case}"));
        }
        // A NaN among the inputs does not equal itself, so the cases are compared as text.
        assert_eq!(format!("{:?}", random_case(seed)), format!("{case:?}"), "a seed gives one case");
    }
}

/// What is drawn seldom must still be drawn.
#[test]
fn random_cases_use_the_whole_language() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..1500 {
        let kernel = random_case(seed).kernel;
        for node in &kernel.nodes {
            let name = match &node.op {
                Op::Tensor(_) => "tensor",
                Op::Scalar(_) => "scalar",
                Op::Constant(_) => "constant",
                Op::Index(_) => "index",
                Op::Extent(_) => "extent",
                Op::Map { function: MapFn::Op(_), .. } => "map",
                Op::Map { function: MapFn::Call { .. }, .. } => "call",
                Op::View { fill: Some(_), .. } => "bounded view",
                Op::View { map, .. } if map.to_string().contains('[') && node.op.operands().len() > 1 => {
                    "gather"
                }
                Op::View { .. } => "view",
                Op::Reduce { reducer: Reducer::Dot, .. } => "contraction",
                Op::Reduce { axes, .. } if axes.len() > 1 => "reduction over several axes",
                Op::Reduce { reducer: Reducer::User { ordered: true, .. }, .. } => "ordered reduction",
                Op::Reduce { reducer: Reducer::User { .. }, .. } => "user reduction",
                Op::Reduce { reducer: Reducer::ArgMax | Reducer::ArgMin, .. } => "argmax",
                Op::Reduce { .. } => "reduction",
                Op::CumSum { .. } => "cumsum",
                Op::Materialize { .. } => "materialize",
            };
            *seen.entry(name).or_default() += 1;
        }
        if kernel.outputs.iter().any(|o| matches!(o.target, OutputTarget::Param { .. })) {
            *seen.entry("`&mut`").or_default() += 1;
        }
        if kernel.outputs.len() > 1 {
            *seen.entry("several outputs").or_default() += 1;
        }
    }
    assert_eq!(seen.len(), 20, "{seen:?}");
    assert!(seen.values().all(|&n| n >= 15), "{seen:?}");
}

#[test]
fn shrinking_keeps_the_failure_and_little_else() {
    let divides = |case: &Case| {
        evaluate(&case.kernel, &case.inputs, Precision::Exact).is_ok()
            && case.kernel.nodes.iter().any(|n| {
                matches!(n.op, Op::Map { function: MapFn::Op(ScalarOp::Div), .. }) && n.ty.dtype.is_int()
            })
    };
    let seed = (0..).find(|&s| divides(&random_case(s))).expect("some case divides integers");
    let case = random_case(seed);
    let small = shrink(case, divides);
    assert!(divides(&small));
    assert!(small.kernel.nodes.len() <= 5, "{small}");
    assert_eq!(small.kernel.outputs.len(), 1, "{small}");
}

/// Simplification keeps every bit of every output.
#[test]
fn simplified_graphs_give_the_same_bits() {
    let differs = |case: &Case| {
        let Ok(want) = evaluate(&case.kernel, &case.inputs, Precision::Exact) else { return None };
        let simple = simplify_graph(case.kernel.clone());
        if let Err(e) = verify_graph(&simple) {
            return Some(format!("{e}\n{simple}"));
        }
        match evaluate(&simple, &case.inputs, Precision::Exact) {
            Ok(got) if got.same_bits(&want) => None,
            got => Some(format!("{want:?}\n{got:?}\n{simple}")),
        }
    };
    for seed in 0..1500 {
        let case = random_case(seed);
        if differs(&case).is_some() {
            let small = shrink(case, |c| differs(c).is_some());
            panic!("{small}{}", differs(&small).unwrap_or_default());
        }
    }
}
