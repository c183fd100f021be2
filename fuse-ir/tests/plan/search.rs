//! Random graphs: the greedy search against the best of all plans, and every plan against the graph.

use super::build::Build;
use super::check::check_numbers;
use fuse_ir::eval::{Precision, evaluate};
use fuse_ir::graph::{Kernel, simplify_graph, verify_graph};
use fuse_ir::id::{NodeId, ValueId};
use fuse_ir::interpret::interpret;
use fuse_ir::plan::{PlanError, PlanOptions, compare_with_best, plan_kernel};
use fuse_ir::program::{Program, verify_plan};
use fuse_ir::random::{Case, random_case, shrink};
use fuse_ir::scalar::ScalarOp;
use fuse_ir::schedule::edges::ValueEdges;
use fuse_ir::target::Target;

/// A generator of small numbers, the same on every machine.
struct Choices(u64);

impl Choices {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % n
    }
}

/// A kernel of up to twelve operations over subsets of three axes, of random extents.
pub(crate) fn random_kernel(seed: u64) -> Kernel {
    let mut c = Choices(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut b = Build::new(&format!("random_{seed}"));
    let axes: Vec<_> =
        ["M", "N", "K"].iter().map(|name| b.assumed(name, [16, 256, 1024, 4096][c.below(4)])).collect();
    let mut nodes: Vec<NodeId> = Vec::new();
    let subsets = [vec![0, 1], vec![1], vec![0, 1], vec![0], vec![1, 2]];
    for k in 0..2 + c.below(3) {
        // The first two have all axes between them, so that shapes fix the extents.
        let subset = &subsets[[0, 4, c.below(subsets.len())][k.min(2)]];
        let subset: Vec<_> = subset.iter().map(|a| axes[*a]).collect();
        nodes.push(b.f32(&format!("x{k}"), &subset));
    }
    let params = nodes.len();
    let count = 3 + c.below(10);
    while nodes.len() < params + count {
        // The latest values are the likelier operands.
        let pick = |c: &mut Choices, n: usize| n - 1 - c.below(n).min(c.below(n));
        let x = nodes[pick(&mut c, nodes.len())];
        let own = b.b.kernel.node(x).ty.axes.clone();
        let next = match c.below(8) {
            0 | 1 if !own.is_empty() => {
                let axis = own[c.below(own.len())];
                if c.below(2) == 0 { b.sum(x, &[axis]) } else { b.max(x, &[axis]) }
            }
            2 if own.len() == 2 => b.sum(x, &own),
            3 | 4 => b.unary([ScalarOp::Exp, ScalarOp::Abs, ScalarOp::Erf][c.below(3)], x),
            _ => {
                let y = nodes[pick(&mut c, nodes.len())];
                b.map([ScalarOp::Add, ScalarOp::Mul, ScalarOp::Sub][c.below(3)], &[x, y])
            }
        };
        nodes.push(next);
    }
    // What nothing reads is a result.
    let kernel = &b.b.kernel;
    let unread: Vec<NodeId> = nodes[params..]
        .iter()
        .copied()
        .filter(|n| !kernel.nodes.iter().any(|node| node.op.operands().contains(n)))
        .collect();
    for node in unread {
        let axes = b.b.kernel.node(node).ty.axes.clone();
        b.result(node, &axes);
    }
    b.build()
}

#[test]
#[expect(clippy::print_stdout, reason = "figures for whoever asks with --nocapture")]
fn greedy_is_near_the_best() {
    let target = Target::cpu();
    let (mut near, mut too_large, mut dearer) = (0, Vec::new(), Vec::new());
    for seed in 0..1000 {
        let kernel = random_kernel(seed);
        match compare_with_best(&kernel, &target, 200_000).expect("a plan") {
            Some(over) if over <= 1.05 => near += 1,
            Some(over) => dearer.push((over, seed)),
            None => too_large.push(seed),
        }
    }
    println!("{near} of 1000 plans are within 5 % of the best");
    for (over, seed) in &dearer {
        println!("seed {seed} takes {over:.3} times the best:\n{}", random_kernel(*seed));
    }
    for seed in &too_large {
        println!("seed {seed} has too many plans to try all:\n{}", random_kernel(*seed));
    }
    // What could not be searched counts against the plan.
    assert!(near >= 950, "{near} of 1000 within 5 %, dearer {dearer:?}, not searched {too_large:?}");
}

#[test]
fn plans_of_random_graphs_compute_what_the_graph_says() {
    for seed in 0..150 {
        check_numbers(&random_kernel(seed));
    }
}

/// The kernel as it is and simplified, for other targets, and with as few launches as are legal.
fn find_fault(case: &Case) -> Result<(), String> {
    let Ok(want) = evaluate(&case.kernel, &case.inputs, Precision::Exact) else { return Ok(()) };
    let simplified = simplify_graph(case.kernel.clone());
    verify_graph(&simplified).map_err(|e| format!("simplified: {e}"))?;
    let gpu = Target::gpu("sm_90").ok_or("no target")?;
    for (kernel, target, launches) in [
        (&simplified, &Target::cpu(), None),
        (&simplified, &gpu, None),
        (&case.kernel, &gpu, None),
        (&simplified, &Target::cpu(), Some(1)),
        (&case.kernel, &gpu, Some(1)),
    ] {
        let plan = match plan_kernel(kernel, target, &PlanOptions { launches }) {
            Ok(plan) => plan,
            Err(PlanError::Contract { wanted, needed, blocking }) => {
                if needed <= wanted || blocking.is_empty() {
                    return Err(format!("{needed} launches, {wanted} wanted, and nothing stands between"));
                }
                continue;
            }
            Err(e) => return Err(e.to_string()),
        };
        let program = Program { kernel: kernel.clone(), plan };
        let shown = || format!("{launches:?}\n{}", program.plan.display(kernel));
        verify_plan(&program).map_err(|e| format!("{e}\n{}", shown()))?;
        serde_json::from_str::<serde_json::Value>(&program.plan.to_json(kernel))
            .map_err(|e| e.to_string())?;
        let got = interpret(&program, &case.inputs).map_err(|e| format!("{e}\n{}", shown()))?;
        if !got.same_bits(&want) {
            return Err(format!("the graph gives {want:?}\nthe plan {got:?}\n{}", shown()));
        }
    }
    Ok(())
}

#[test]
fn lists_of_edges_are_what_values_read() {
    for seed in 0..400 {
        let kernel = random_case(seed).kernel;
        let plan = plan_kernel(&kernel, &Target::cpu(), &PlanOptions::default()).expect("a plan");
        for group in plan.groups() {
            let edges = ValueEdges::compute(group);
            let ids = || (0..group.values.len()).map(ValueId::from_index);
            for id in ids() {
                assert_eq!(edges.reads(id), group.reads(id), "seed {seed}: {id} of {}", group.id);
                let users: Vec<ValueId> = ids()
                    .flat_map(|u| group.reads(u).into_iter().filter(|r| *r == id).map(move |_| u))
                    .collect();
                assert_eq!(edges.users(id), users, "seed {seed}: {id} of {}", group.id);
            }
        }
    }
}

#[test]
fn simplified_and_forced_plans_compute_what_the_graph_says() {
    for seed in 0..400 {
        if find_fault(&random_case(seed)).is_err() {
            let small = shrink(random_case(seed), |c| find_fault(c).is_err());
            let fault = find_fault(&small).expect_err("shrinking keeps the failure");
            panic!("seed {seed}, shrunk:\n{small}\n{fault}");
        }
    }
}
