//! The patterns that users write, each with the launches it must take.

use super::build::Build;
use fuse_ir::graph::Kernel;
use fuse_ir::plan::{Plan, PlanOptions, plan_kernel, plan_unfused};
use fuse_ir::scalar::ScalarOp;
use fuse_ir::schedule::ScheduleKind;
use fuse_ir::target::Target;

fn plan(kernel: &Kernel) -> Plan {
    let plan = plan_kernel(kernel, &Target::cpu(), &PlanOptions::default()).expect("a plan");
    println!("{}", plan.display(kernel));
    plan
}

fn check(kernel: Kernel, launches: u32, unfused: u32) -> Plan {
    let separate = plan_unfused(&kernel, &Target::cpu()).expect("an unfused plan");
    let plan = plan(&kernel);
    assert_eq!(plan.launch_count(), launches, "{}", plan.display(&kernel));
    assert_eq!(plan.launches_unfused, unfused, "{}", separate.display(&kernel));
    plan
}

#[test]
fn sigmoid_mul_add() {
    let mut b = Build::new("chain");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let (x, y, z) = (b.f32("x", &[m, n]), b.f32("y", &[m, n]), b.f32("z", &[n]));
    let s = b.unary(ScalarOp::Sigmoid, x);
    let t = b.mul(s, y);
    let t = b.add(t, z);
    b.result(t, &[m, n]);
    let plan = check(b.build(), 1, 3);
    assert_eq!(plan.assume(&plan.bytes), 4 * (3 * 1024 * 1024 + 1024));
}

#[test]
fn softmax_over_inner_outer_and_two_axes() {
    for (axes, kind) in [(0b10, ScheduleKind::Row), (0b01, ScheduleKind::Column), (0b110, ScheduleKind::Row)]
    {
        let mut b = Build::new("softmax");
        let all = [b.axis("B"), b.axis("M"), b.axis("N")];
        let used = if axes == 0b110 { &all[..] } else { &all[1..] };
        let first = if axes == 0b110 { 0 } else { 1 };
        let reduced: Vec<_> = all[1..]
            .iter()
            .copied()
            .enumerate()
            .filter(|(k, _)| if first == 0 { true } else { axes >> k & 1 == 1 })
            .map(|(_, a)| a)
            .collect();
        let x = b.f32("x", used);
        let y = b.softmax(x, &reduced);
        b.result(y, used);
        if first == 1 {
            // The batch axis is not used.
            let u = b.f32("u", &all[..1]);
            let v = b.relu(u);
            b.result(v, &all[..1]);
        }
        let kernel = b.build();
        let plan = plan(&kernel);
        assert!(plan.groups().any(|g| g.kind == kind && g.passes.len() == 3), "{}", plan.display(&kernel));
    }
}

#[test]
fn layer_norm_is_one_launch() {
    let mut b = Build::new("layer_norm");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let (x, g, beta) = (b.f32("x", &[m, n]), b.f32("g", &[n]), b.f32("b", &[n]));
    let y = b.layer_norm(x, n);
    let y = b.mul(y, g);
    let y = b.add(y, beta);
    b.result(y, &[m, n]);
    let plan = check(b.build(), 1, 11);
    assert_eq!(plan.groups().next().map(|g| g.passes.len()), Some(3));
}
