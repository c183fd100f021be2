//! Kernel IR: its text, what its verifier refuses, and that it travels as bytes.

use fuse_ir::dtype::{DType, Value};
use fuse_ir::kernel_ir::build::{Builder, block_x, element, slots, thread_x};
use fuse_ir::kernel_ir::{
    Builtin, Condition, Expr, Kernel, LaunchArg, MmaShape, ShuffleKind, Stmt, Unroll, Usage, examples,
    verify_kernel,
};

fn golden(name: &str, found: &str) {
    let path = format!("{}/tests/golden/kernel_ir/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("FUSE_BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == found, "{name} differs; `FUSE_BLESS=1` rewrites it:\n{found}");
}

/// The text is kept; bytes give the same kernel again.
fn check(kernel: &Kernel) {
    golden(&kernel.name, &kernel.to_string());
    let bytes = postcard::to_allocvec(kernel).unwrap();
    assert_eq!(&postcard::from_bytes::<Kernel>(&bytes).unwrap(), kernel);
}

#[test]
fn row_sum() {
    check(&examples::row_sum().unwrap());
}

#[test]
fn transpose() {
    check(&examples::transpose().unwrap());
}

#[test]
fn attention() {
    check(&examples::attention().unwrap());
}

#[test]
fn geometry_follows_the_arguments() {
    let kernel = examples::row_sum().unwrap();
    let args = [
        LaunchArg::Pointer(0),
        LaunchArg::Pointer(0),
        LaunchArg::Scalar(Value::U32(5)),
        LaunchArg::Scalar(Value::U32(4097)),
    ];
    let dims = kernel.evaluate_geometry(&args).unwrap();
    assert_eq!((dims.grid, dims.block, dims.shared_bytes), ([5, 1, 1], [256, 1, 1], 8));
    assert!(kernel.evaluate_geometry(&args[..3]).is_err());
}

/// A kernel of `f` is refused with a message that has `part` in it.
fn refuse(part: &str, f: impl FnOnce(&mut Builder)) {
    let mut b = Builder::new("wrong");
    b.launch([1.into(), 1.into(), 1.into()], [64, 1, 1], 1024);
    f(&mut b);
    let error = b.finish().expect_err(part).to_string();
    assert!(error.contains(part), "{error}");
}

/// A kernel of `f` is accepted.
fn accept(f: impl FnOnce(&mut Builder)) {
    let mut b = Builder::new("right");
    b.launch([1.into(), 1.into(), 1.into()], [64, 1, 1], 1024);
    f(&mut b);
    b.finish().unwrap();
}

#[test]
fn register_arrays_are_not_indexed_at_run_time() {
    refuse("a run-time value", |b| {
        let a = b.array("a", DType::F32, 32, Some(Value::F32(0.0)));
        b.set_element(a, thread_x(), 1.0f32);
    });
    refuse("a run-time value", |b| {
        let a = b.array("a", DType::F32, 32, Some(Value::F32(0.0)));
        b.for_each("i", (0u32, 32u32), 1u32, Unroll::None, |b, i| b.set_element(a, i, 1.0f32));
    });
    refuse("leaves the 32 elements", |b| {
        let a = b.array("a", DType::F32, 32, Some(Value::F32(0.0)));
        b.unrolled("i", 33, |b, i| b.set_element(a, i, 1.0f32));
    });
    accept(|b| {
        let a = b.array("a", DType::F32, 32, Some(Value::F32(0.0)));
        b.unrolled("i", 4, |b, i| {
            b.unrolled("j", 8, |b, j| b.set_element(a, &i * 8u32 + &j, element(a, &j * 4u32 + &i)));
        });
    });
}

#[test]
fn barriers_stand_where_all_threads_come() {
    refuse("a barrier of the block", |b| b.if_then(thread_x().lt(32u32), Builder::block_barrier));
    refuse("a barrier of the block", |b| {
        let x = b.pointer("x", DType::U32, Usage::Read);
        let n = b.load("n", x, thread_x(), None);
        b.for_each("i", (0u32, n), 1u32, Unroll::None, |b, _| b.block_barrier());
    });
    // A register that was set where threads differ is not the same for all.
    refuse("a barrier of the block", |b| {
        let n = b.register("n", 4u32);
        b.for_each("round", (0u32, 2u32), 1u32, Unroll::None, |b, _| {
            b.if_then(Expr::from(n).lt(4u32), Builder::block_barrier);
            b.if_then(thread_x().equals(0u32), |b| b.set(n, 3u32));
        });
    });
    refuse("a warp-wide statement", |b| {
        b.if_then(thread_x().lt(7u32), |b| {
            b.shuffle("s", ShuffleKind::Xor, thread_x(), 1u32, 32);
        });
    });
    accept(|b| {
        let n = b.scalar("n", DType::U32);
        b.for_each("i", (block_x(), n), 1u32, Unroll::None, |b, _| b.block_barrier());
        b.if_then(Expr::from(Builtin::Warp).equals(1u32), |b| {
            b.warp_barrier();
            b.shuffle("s", ShuffleKind::Down, thread_x(), 1u32, 32);
        });
        b.if_then((thread_x() / 32u32).equals(0u32), Builder::warp_barrier);
    });
}

#[test]
fn vector_accesses_are_known_to_be_aligned() {
    let load = |b: &mut Builder, x, index: Expr| {
        let a = b.array("a", DType::F32, 4, None);
        b.load_into(slots(a, 0u32, 4), x, index, None);
    };
    refuse("aligned to 4 bytes and accessed by 16", |b| {
        let x = b.pointer("x", DType::F32, Usage::Read);
        load(b, x, thread_x() * 4u32);
    });
    refuse("known to be a multiple of 2", |b| {
        let x = b.pointer_aligned("x", DType::F32, Usage::Read, 16);
        load(b, x, thread_x() * 4u32 + 2u32);
    });
    refuse("known to be a multiple of 1", |b| {
        let x = b.pointer_aligned("x", DType::F32, Usage::Read, 16);
        let n = b.scalar("n", DType::U32);
        load(b, x, block_x() * n + thread_x() * 4u32);
    });
    accept(|b| {
        let x = b.pointer("x", DType::F32, Usage::Read);
        let n = b.scalar("n", DType::U32);
        let conditions =
            vec![Condition::Aligned { pointer: x, bytes: 16 }, Condition::Multiple { size: n.into(), of: 4 }];
        let fact = b.fact("VECTORS", conditions);
        b.if_then(Expr::Fact(fact), |b| load(b, x, block_x() * n + thread_x() * 4u32));
    });
}

#[test]
fn types_and_scopes() {
    refuse("`add` does not take (u32, f32)", |b| {
        b.bind("a", thread_x() + 1.0f32);
    });
    refuse("is not in scope", |b| {
        let mut inner = None;
        b.if_then(true, |b| inner = Some(b.bind("a", thread_x() + 1u32)));
        b.bind("b", inner.unwrap() + 1u32);
    });
    refuse("is declared for Read and used for Write", |b| {
        let x = b.pointer("x", DType::F32, Usage::Read);
        b.store(x, thread_x(), 1.0f32, None);
    });
    refuse("there are no atomics on f32", |b| {
        let x = b.pointer("x", DType::F32, Usage::ReadWrite);
        b.atomic(fuse_ir::kernel_ir::AtomicOp::Add, x, 0u32, 1.0f32, None);
    });
    refuse("a bound reads what the loop may change", |b| {
        let n = b.register("n", 4u32);
        b.for_each("i", (0u32, n), 1u32, Unroll::None, |b, _| b.set(n, 5u32));
    });
    refuse("takes 4 registers", |b| {
        let a = b.array("a", DType::U32, 4, None);
        let c = b.array("c", DType::F32, 4, None);
        b.mma(MmaShape::M16N8K16F16, slots(c, 0u32, 4), slots(a, 0u32, 2), slots(a, 0u32, 2));
    });
    refuse("`x` names two things", |b| {
        b.pointer("x", DType::F32, Usage::Read);
        let twin = b.kernel().params[0].clone();
        b.kernel_mut().params.push(twin);
    });
    refuse("ends at 1028 of 1024 bytes", |b| {
        b.view("v", DType::F32, 4, 256);
    });
    refuse("a block of", |b| b.launch([1.into(), 1.into(), 1.into()], [48, 1, 1], 0));
}

/// Names are made unique and valid, so that a printer takes them as they are.
#[test]
fn names_are_made_identifiers() {
    let mut b = Builder::new("softmax::<f16>");
    b.launch([1.into(), 1.into(), 1.into()], [32, 1, 1], 0);
    b.bind("x", thread_x() + 1u32);
    b.bind("x", thread_x() + 2u32);
    let kernel = b.finish().unwrap();
    assert_eq!(kernel.name, "softmax_f16_");
    let names: Vec<&str> = kernel.locals.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["x", "x_2"]);
}

#[test]
fn a_removed_declaration_is_found() {
    let mut kernel = examples::transpose().unwrap();
    let at = kernel.body.iter().position(|s| matches!(s, Stmt::Let { .. })).unwrap();
    kernel.body.remove(at);
    assert!(verify_kernel(&kernel).unwrap_err().to_string().contains("is not in scope"));
}
