//! Printed CUDA: the texts of the kernels written by hand, and what a text must keep.

use fuse_ir::dtype::{DType, Value};
use fuse_ir::id::{FnId, VarId};
use fuse_ir::kernel_ir::build::{Builder, thread_x};
use fuse_ir::kernel_ir::{AtomicOp, Condition, Expr, Kernel, Stmt, Usage, examples};
use fuse_ir::print_cuda::{compile_options, entry_name, print_cuda};
use fuse_ir::scalar::{self, ScalarFn, ScalarOp, Variable};

fn golden(name: &str, found: &str) {
    let path = format!("{}/tests/golden/print_cuda/{name}.cu", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("FUSE_BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == found, "{name} differs; `FUSE_BLESS=1` rewrites it:\n{found}");
}

#[test]
fn row_sum() {
    golden("row_sum", &print_cuda(&examples::row_sum().unwrap()));
}

#[test]
fn transpose() {
    golden("transpose", &print_cuda(&examples::transpose().unwrap()));
}

#[test]
fn attention() {
    golden("attention", &print_cuda(&examples::attention().unwrap()));
}

/// A kernel of one thread a block with what `f` puts into it.
fn kernel(f: impl FnOnce(&mut Builder)) -> Kernel {
    let mut b = Builder::new("exp");
    b.launch([1.into(), 1.into(), 1.into()], [32, 1, 1], 0);
    f(&mut b);
    b.finish().unwrap()
}

/// Each of `lines` stands in the text of the kernel.
fn check(f: impl FnOnce(&mut Builder), lines: &[&str]) {
    let text = print_cuda(&kernel(f));
    for line in lines {
        assert!(text.contains(line), "`{line}` is missing in\n{text}");
    }
}

#[test]
fn names_that_mean_something_in_cuda_are_changed() {
    let user = |b: &mut Builder| {
        let double = b.pointer("double", DType::F32, Usage::ReadWrite);
        let lane = b.bind("lane", thread_x());
        let u32 = b.load("u32", double, lane, None);
        b.store(double, Expr::from(fuse_ir::kernel_ir::Builtin::Lane), u32, None);
    };
    check(
        user,
        &[
            "f32* __restrict__ double_",
            "const u32 lane = threadIdx.x;",
            "const u32 lane_2 = threadIdx.x % 32u;",
            "const f32 u32_ = double_[lane];",
            "double_[lane_2] = u32_;",
        ],
    );
    assert_eq!(entry_name(&kernel(user)), "fuse_exp");
}

#[test]
fn signed_integers_are_computed_unsigned() {
    let user = |b: &mut Builder| {
        let (n, m) = (b.scalar("n", DType::I32), b.scalar("m", DType::I64));
        let (n, m) = (Expr::from(n), Expr::from(m));
        b.bind("a", (&n + &n) * &n);
        b.bind("b", &n / &n);
        b.bind("c", &n % 7);
        b.bind("d", (&m * &m).cast(DType::I32) + &n);
        b.bind("e", Expr::from(1i32) << thread_x());
        b.bind("f", n.cast(DType::I8) + Expr::Const(Value::I8(-1)));
    };
    let lines = [
        "const i32 a = i32((u32(n) + u32(n)) * u32(n));",
        "const i32 b = fuse::div_signed<i32>(n, n);",
        "const i32 c = n % 7;",
        "const i32 d = i32(u32(i32(i64(u64(m) * u64(m)))) + u32(n));",
        "const i32 e = i32(1u << (threadIdx.x & 31u));",
        "const i8 f = i8(u32(i8(n)) + u32(i8(-1)));",
    ];
    check(user, &lines);
}

#[test]
fn a_literal_bound_is_one_instruction() {
    let user = |b: &mut Builder| {
        let x = Expr::from(b.scalar("x", DType::F32));
        b.bind("relu", x.clone().max(0.0f32));
        b.bind("a", x.clone().min(0.0f32));
        b.bind("b", x.clone().max(&x));
        b.bind("c", Expr::from(-1.5f32) + x.unary(ScalarOp::Neg).unary(ScalarOp::Neg));
    };
    let lines = [
        "const f32 relu = ::fmaxf(x, 0.0f);",
        "const f32 a = fuse::min_rust<f32>(x, 0.0f);",
        "const f32 b = fuse::max_rust<f32>(x, x);",
        "const f32 c = -1.5f + -(-x);",
    ];
    check(user, &lines);
}

#[test]
fn narrow_elements_travel_in_words() {
    let user = |b: &mut Builder| {
        let x = b.pointer_aligned("x", DType::F16, Usage::Read, 16);
        let y = b.pointer_aligned("y", DType::I8, Usage::Write, 4);
        let values = b.array("values", DType::F32, 8, None);
        let bytes = b.array("bytes", DType::I8, 4, Some(Value::I8(3)));
        let all = fuse_ir::kernel_ir::build::slots(values, 0u32, 8);
        b.load_into(all, x, thread_x() * 8u32, Some(thread_x().lt(4u32)));
        let four = fuse_ir::kernel_ir::build::slots(bytes, 0u32, 4);
        b.store_from(y, thread_x() * 4u32, four, None);
    };
    let lines = [
        "    if (threadIdx.x < 4u) {\n",
        "const uint4 loaded = *reinterpret_cast<const uint4*>(&x[threadIdx.x * 8u]);",
        "values[7] = fuse::f16_to_f32(u16(loaded.w >> 16));",
        "    } else {\n        values[0] = 0.0f;",
        "i8 bytes[4] = {i8(3), i8(3), i8(3), i8(3)};",
        "*reinterpret_cast<u32*>(&y[threadIdx.x * 4u]) = fuse::pack_bytes(u8(bytes[0])",
    ];
    check(user, &lines);
}

#[test]
fn facts_are_macros_and_atomics_know_signs() {
    let user = |b: &mut Builder| {
        let x = b.pointer("x", DType::I64, Usage::ReadWrite);
        let fact = b.fact("aligned_x", vec![Condition::Aligned { pointer: x, bytes: 16 }]);
        b.if_then(Expr::Fact(fact), |b| {
            b.atomic(AtomicOp::Max, x, 0u32, 3i64, None);
            b.atomic(AtomicOp::Add, x, 0u32, -1i64, Some(thread_x().lt(7u32)));
        });
    };
    let lines = [
        "#ifndef FACT_aligned_x\n#define FACT_aligned_x 0\n#endif",
        "if (FACT_aligned_x) {",
        "::atomicMax(&x[0u], 3ll);",
        "if (threadIdx.x < 7u) ::atomicAdd(reinterpret_cast<u64*>(&x[0u]), u64(-1ll));",
    ];
    check(user, &lines);
    let options = compile_options(&kernel(user), &[true]);
    assert!(
        options.contains(&"-DFACT_aligned_x=1".to_owned()) && options.contains(&"--fmad=false".to_owned())
    );
}

/// `fn divide(a: i32, b: i32) -> (i32, i32)`, with a branch and a loop.
fn divide() -> ScalarFn {
    let variable = |name: &str, dtype| Variable { name: name.into(), dtype };
    let of = |k: u32| scalar::Expr::Variable(VarId(k));
    let op = scalar::Expr::Op;
    let quotient = op(ScalarOp::Div, vec![of(0), of(1)]);
    ScalarFn {
        name: "divide".into(),
        parameters: 2,
        variables: vec![
            variable("a", DType::I32),
            variable("b", DType::I32),
            variable("int", DType::I32),
            variable("k", DType::U8),
            variable("t", DType::I32),
        ],
        body: vec![
            scalar::Stmt::If {
                condition: op(ScalarOp::Lt, vec![of(0), of(1)]),
                then: vec![
                    scalar::Stmt::Assign { variable: VarId(4), value: quotient },
                    scalar::Stmt::Assign { variable: VarId(2), value: of(4) },
                ],
                otherwise: vec![scalar::Stmt::Assign { variable: VarId(2), value: of(1) }],
            },
            scalar::Stmt::For {
                variable: VarId(3),
                start: 0,
                end: 256,
                body: vec![scalar::Stmt::Assign {
                    variable: VarId(2),
                    value: op(ScalarOp::Add, vec![of(2), op(ScalarOp::Cast(DType::I32), vec![of(3)])]),
                }],
            },
        ],
        results: vec![of(2), op(ScalarOp::Rem, vec![of(2), of(1)])],
    }
}

#[test]
fn functions_declare_where_they_can_and_note_faults() {
    let user = |b: &mut Builder| {
        b.kernel_mut().functions.push(divide());
        let fault = b.local("fault", DType::Bool, fuse_ir::kernel_ir::LocalKind::Let);
        let rest = b.local("rest", DType::I32, fuse_ir::kernel_ir::LocalKind::Let);
        let args = vec![Expr::from(7i32), Expr::from(0i32)];
        b.push(Stmt::Call { results: vec![None, Some(rest)], function: FnId(0), args, fault: Some(fault) });
    };
    let lines = [
        "struct divide_results {\n    i32 r0;\n    i32 r1;\n};",
        "FUSE_DEVICE divide_results divide(i32 a, i32 b, bool& fault) {\n    i32 int_;\n    if (a < b) {\n        \
         i32 t = fuse::div_signed<i32>(a, fuse::divisor<i32>(b, fault));\n        int_ = t;\n    } else {",
        "for (i64 k_counter = 0ll; k_counter < 256ll; ++k_counter) {\n        u8 k = u8(k_counter);\n        \
         int_ = i32(u32(int_) + u32(i32(k)));",
        "return {int_, fuse::rem_signed<i32>(int_, fuse::divisor<i32>(b, fault))};",
        "bool fault = false;\n    const auto divide_results = op::divide(7, 0, fault);\n    \
         const i32 rest = divide_results.r1;",
    ];
    check(user, &lines);
}
