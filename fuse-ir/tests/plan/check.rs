//! What every kernel of these tests is put through: plans verify, and compute what the graph says, bit for bit.

use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{Array, Input, Inputs, Outputs, Precision, evaluate};
use fuse_ir::graph::{AxisSource, Kernel, ParamKind, simplify_graph};
use fuse_ir::interpret::interpret;
use fuse_ir::plan::{Decision, Plan, PlanError, PlanOptions, Refusal, Rule, plan_kernel, plan_unfused};
use fuse_ir::program::{Program, verify_plan};
use fuse_ir::target::Target;
use std::path::PathBuf;

/// The plan of a kernel for a CPU, after checking the numbers of all its plans.
pub(crate) fn plan(kernel: &Kernel) -> Plan {
    check_numbers(kernel);
    plan_kernel(kernel, &Target::cpu(), &PlanOptions::default()).expect("a plan")
}

/// Plans a kernel and compares its launches, fused and unfused.
pub(crate) fn check(kernel: &Kernel, launches: u32, unfused: u32) -> Plan {
    let separate = plan_unfused(kernel, &Target::cpu()).expect("an unfused plan");
    let plan = plan(kernel);
    assert_eq!(plan.launch_count(), launches, "{}", plan.display(kernel));
    assert_eq!(plan.launches_unfused, unfused, "{}", separate.display(kernel));
    plan
}

/// Compares a plan with `golden/NAME.txt`; `FUSE_BLESS=1` rewrites it.
pub(crate) fn check_golden(kernel: &Kernel, name: &str) {
    let text = plan(kernel).display(kernel).to_string();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("FUSE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for golden files");
        std::fs::write(&path, &text).expect("the golden file is written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "the plan of {name} changed; `cargo xtask bless` rewrites the golden file");
}

/// Whether some decision of that rule was taken.
pub(crate) fn is_taken(plan: &Plan, rule: Rule) -> bool {
    plan.decisions.iter().any(|d| d.rule == rule && d.refusal.is_none())
}

/// The first decision that was refused for that reason.
pub(crate) fn find_refused(plan: &Plan, refusal: Refusal) -> Option<&Decision> {
    plan.decisions.iter().find(|d| d.refusal == Some(refusal))
}

/// Every plan of the kernel, and of the simplified kernel, computes what the graph says.
pub(crate) fn check_numbers(kernel: &Kernel) {
    let simplified = simplify_graph(kernel.clone());
    fuse_ir::graph::verify_graph(&simplified).expect("the simplified kernel verifies");
    for round in 0..3 {
        let inputs = make_inputs(kernel, round);
        let expected = match evaluate(kernel, &inputs, Precision::Exact) {
            Ok(expected) => expected,
            Err(e) => panic!("{}: {e:?}\n{kernel}", kernel.name),
        };
        for kernel in [kernel, &simplified] {
            let mut plans = Vec::new();
            for target in [Target::cpu(), Target::gpu("sm_80").expect("a target")] {
                plans.push(plan_unfused(kernel, &target).expect("an unfused plan"));
                match plan_kernel(kernel, &target, &PlanOptions::default()) {
                    Ok(plan) => plans.push(plan),
                    Err(e) => panic!("{e}\n{kernel}"),
                }
                // As few launches as are legal, however slow.
                match plan_kernel(kernel, &target, &PlanOptions { launches: Some(1) }) {
                    Ok(plan) => plans.push(plan),
                    Err(PlanError::Contract { wanted, needed, blocking }) => {
                        assert!(needed > wanted && !blocking.is_empty(), "{kernel}");
                    }
                    Err(e) => panic!("{e}\n{kernel}"),
                }
            }
            for plan in plans {
                check_plan(kernel, plan, &inputs, &expected);
            }
        }
    }
}

/// One plan computes what the graph says.
fn check_plan(kernel: &Kernel, plan: Plan, inputs: &Inputs, expected: &Outputs) {
    let program = Program { kernel: kernel.clone(), plan };
    let shown = || format!("{}\n{kernel}", program.plan.display(kernel));
    if let Err(e) = verify_plan(&program) {
        panic!("{e}\n{}", shown());
    }
    match interpret(&program, inputs) {
        Ok(outputs) => assert!(outputs.same_bits(expected), "{}", shown()),
        Err(e) => panic!("{e:?}\n{}", shown()),
    }
}

/// The plan of a large kernel, checked once.
pub(crate) fn plan_large(kernel: &Kernel) -> Plan {
    let plan = plan_kernel(kernel, &Target::cpu(), &PlanOptions::default()).expect("a plan");
    let inputs = make_inputs(kernel, 0);
    let expected = evaluate(kernel, &inputs, Precision::Exact).expect("values");
    check_plan(kernel, plan.clone(), &inputs, &expected);
    plan
}

/// Inputs of small extents, a different one for each axis; the extents that others derive from come first.
fn make_inputs(kernel: &Kernel, round: u64) -> Inputs {
    let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(round + 1);
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut extents: Vec<i64> = Vec::new();
    for (k, axis) in kernel.axes.iter().enumerate() {
        let n = match &axis.source {
            AxisSource::Static(n) => *n as i64,
            AxisSource::Derived(e) => e.eval(&Extents(&extents)),
            AxisSource::Shape | AxisSource::Host(_) => [5, 7, 3, 2, 4, 6][(k + round as usize) % 6],
        };
        extents.push(n);
    }
    let inputs = kernel.params.iter().map(|p| match &p.kind {
        ParamKind::Tensor { dtype, axes, .. } => {
            let shape: Vec<usize> = axes.iter().map(|a| extents[a.index()] as usize).collect();
            let count = shape.iter().product();
            let data = (0..count).map(|_| make_value(*dtype, next())).collect();
            Input::Tensor(Array::new(*dtype, shape, data).expect("an array"))
        }
        ParamKind::Scalar { dtype } => Input::Scalar(make_value(*dtype, next())),
        ParamKind::Axis { axis } => Input::Axis(extents[axis.index()] as usize),
    });
    Inputs(inputs.collect())
}

struct Extents<'a>(&'a [i64]);

impl fuse_ir::index_map::IndexEnv for Extents<'_> {
    fn index(&self, _: fuse_ir::id::AxisId) -> i64 {
        0
    }

    fn extent(&self, axis: fuse_ir::id::AxisId) -> i64 {
        self.0.get(axis.index()).copied().unwrap_or(1)
    }

    fn param(&self, _: fuse_ir::id::ParamId) -> i64 {
        1
    }

    fn indirect(&self, _: fuse_ir::id::NodeId) -> i64 {
        0
    }
}

/// Mostly ordinary numbers; integers small, so that they serve as indices, and sometimes out of range.
fn make_value(dtype: DType, bits: u64) -> Value {
    let small = (bits >> 20) as i128 % 3;
    let float = match bits % 23 {
        0 => f64::NEG_INFINITY,
        1 => -0.0,
        _ => ((bits >> 11) % 4096) as f64 / 512.0 - 4.0,
    };
    Value::from_f64(dtype, float)
        .or_else(|| Value::from_i128(dtype, small))
        .unwrap_or(Value::Bool(bits & 64 != 0))
}
