//! How much work planning is: near linear in the graph, counted rather than timed.

use super::build::Build;
use fuse_ir::graph::{Kernel, simplify_graph};
use fuse_ir::plan::measure_planning;
use fuse_ir::scalar::ScalarOp;
use fuse_ir::target::Target;

/// One scaling after another.
fn chain(operations: usize) -> Kernel {
    let mut b = Build::new("chain");
    let n = b.axis("N");
    let mut x = b.f32("x", &[n]);
    for k in 0..operations {
        let factor = b.number(k as f32 + 0.5);
        x = b.mul(x, factor);
    }
    b.result(x, &[n]);
    b.build()
}

/// One layer norm after another.
fn norms(operations: usize) -> Kernel {
    let mut b = Build::new("norms");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let mut x = b.f32("x", &[m, n]);
    for _ in 0..operations / 10 {
        x = b.layer_norm(x, n);
    }
    b.result(x, &[m, n]);
    b.build()
}

/// Norms of rows and softmax over rows and columns in turn, with residuals.
fn residuals(operations: usize) -> Kernel {
    let mut b = Build::new("residuals");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let mut x = b.f32("x", &[m, n]);
    for k in 0..operations / 20 {
        let y = b.layer_norm(x, n);
        let z = b.softmax(y, &[if k % 2 == 0 { m } else { n }]);
        x = b.add(x, z);
    }
    b.result(x, &[m, n]);
    b.build()
}

/// Many reductions of one input.
fn siblings(operations: usize) -> Kernel {
    let mut b = Build::new("siblings");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.f32("x", &[m, n]);
    for k in 0..operations / 3 {
        let factor = b.number(k as f32);
        let y = b.mul(x, factor);
        let y = b.unary(ScalarOp::Exp, y);
        let sum = b.sum(y, &[n]);
        b.result(sum, &[m]);
    }
    b.build()
}

/// Many softmaxes that share nothing.
fn islands(operations: usize) -> Kernel {
    let mut b = Build::new("islands");
    for k in 0..operations / 8 {
        let (m, n) = (b.axis(&format!("M{k}")), b.axis(&format!("N{k}")));
        let x = b.f32(&format!("x{k}"), &[m, n]);
        let y = b.softmax(x, &[n]);
        b.result(y, &[m, n]);
    }
    b.build()
}

#[test]
fn planning_is_near_linear_in_the_operations() {
    type Make = fn(usize) -> Kernel;
    let kernels: [(&str, Make); 5] = [
        ("chain", chain),
        ("norms", norms),
        ("residuals", residuals),
        ("siblings", siblings),
        ("islands", islands),
    ];
    for (name, make) in kernels {
        let measure = |operations| {
            let kernel = simplify_graph(make(operations));
            measure_planning(&kernel, &Target::cpu()).expect("a plan")
        };
        let (small, large) = (measure(100), measure(1000));
        let figures = format!("{name}: {small:?} for 100 operations, {large:?} for 1000");
        assert!(large.values <= 12 * small.values, "{figures}");
        assert!(large.schedules <= 12 * small.schedules, "{figures}");
        // About ten groups are priced for an operation, of ten values each.
        assert!(small.values <= 10_000 && small.schedules <= 1_000, "{figures}");
    }
}

#[test]
fn functions_of_scalars_are_walked_once() {
    // Each reads the one before twice: 2^200 paths.
    let mut b = Build::new("powers");
    let n = b.axis("N");
    let x = b.f32("x", &[n]);
    let (_, mut s) = b.b.scalar("s", fuse_ir::dtype::DType::F32);
    for _ in 0..200 {
        s = b.mul(s, s);
    }
    let y = b.mul(x, s);
    b.result(y, &[n]);
    measure_planning(&b.build(), &Target::cpu()).expect("a plan");
}
