//! What is emitted for a group, as Rust that can be read: golden files.
//!
//! The files are formatted and compared token by token, so that they need no formatter to be checked. `FUSE_BLESS=1`
//! rewrites them through `rustfmt`.

use fuse_compiler::emit_rust::{emit_functions, emit_group};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::graph::{Kernel, Op, Reducer};
use fuse_ir::id::VarId;
use fuse_ir::index_map::IndexExpr;
use fuse_ir::plan::{PlanOptions, plan_kernel};
use fuse_ir::random::KernelBuilder;
use fuse_ir::scalar::{Expr, ScalarFn, ScalarOp, Stmt, Variable};
use fuse_ir::target::Target;
use proc_macro2::TokenStream;
use quote::quote;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Everything that is emitted for the kernel, with the header of a file.
fn emit(kernel: &Kernel) -> TokenStream {
    let facade = quote!(::fuse);
    let plan = plan_kernel(kernel, &Target::cpu(), &PlanOptions::default()).expect("a plan");
    let groups: Vec<_> = plan.groups().map(|group| emit_group(&facade, kernel, group)).collect();
    let (items, functions) = (groups.iter().map(|g| &g.items), groups.iter().map(|g| &g.functions));
    let scalar = emit_functions(&facade, kernel);
    quote! {
        #scalar
        #(#items)*
        pub static GROUPS: &[::fuse::__private::GroupFns] = &[#(#functions),*];
    }
}

#[track_caller]
fn check(name: &str, kernel: Kernel) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let emitted = emit(&kernel);
    if std::env::var_os("FUSE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder of golden files");
        let mut rustfmt = Command::new("rustfmt")
            .args(["--edition", "2024", "--config", "max_width=110"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("rustfmt");
        rustfmt.stdin.take().expect("a pipe").write_all(emitted.to_string().as_bytes()).expect("its input");
        let formatted = rustfmt.wait_with_output().expect("its output").stdout;
        std::fs::write(&path, formatted).expect("a golden file");
        return;
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let golden: TokenStream = golden.parse().expect("a golden file of Rust");
    assert!(
        plain(&golden) == plain(&emitted),
        "{name} differs; `FUSE_BLESS=1 cargo test -p fuse-compiler --test emit` rewrites it\n{emitted}"
    );
}

/// The tokens as text, without what the formatter adds or takes: commas at the end of lists, and doc comments, which are
/// attributes in one form and comments in the other.
fn plain(tokens: &TokenStream) -> String {
    let text: String = tokens.to_string().split_whitespace().collect();
    text.replace(",)", ")").replace(",]", "]").replace(",}", "}").replace(",>", ">")
}

#[test]
fn a_pointwise_kernel() {
    let mut b = KernelBuilder::new("bias_relu");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let (x, bias) = (b.tensor("x", DType::F32, &[m, n]), b.tensor("bias", DType::F32, &[n]));
    let (_, slope) = b.scalar("slope", DType::F32);
    let sum = b.map(ScalarOp::Add, &[x, bias]);
    let scaled = b.map(ScalarOp::Mul, &[sum, slope]);
    let y = b.map(ScalarOp::Max, &[sum, scaled]);
    b.result(y, &[m, n]);
    check("bias_relu.rs", b.build());
}

#[test]
fn a_row_with_its_consumers() {
    let mut b = KernelBuilder::new("rms_norm");
    let (m, n) = (b.axis("M"), b.axis("N"));
    let x = b.tensor("x", DType::F16, &[m, n]);
    let wide = b.map(ScalarOp::Cast(DType::F32), &[x]);
    let square = b.map(ScalarOp::Mul, &[wide, wide]);
    let sum = b.reduce(Reducer::Sum, square, &[n]);
    let count = b.push(Op::Extent(IndexExpr::extent(n)));
    let count = b.map(ScalarOp::Cast(DType::F32), &[count]);
    let mean = b.map(ScalarOp::Div, &[sum, count]);
    let scale = b.map(ScalarOp::Rsqrt, &[mean]);
    let y = b.map(ScalarOp::Mul, &[wide, scale]);
    let y = b.map(ScalarOp::Cast(DType::F16), &[y]);
    b.result(y, &[m, n]);
    check("rms_norm.rs", b.build());
}

#[test]
fn a_function_with_a_chain_is_cut_into_blocks() {
    let mut b = KernelBuilder::new("chain");
    let n = b.axis("N");
    let x = b.tensor("x", DType::F32, &[n]);
    let v = |k| Expr::Variable(VarId(k));
    let float = |name: &str| Variable { name: name.into(), dtype: DType::F32 };
    let op = |op, args| Expr::Op(op, args);
    let one = || Expr::Constant(Value::F32(1.0));
    let assign = |k, value| Stmt::Assign { variable: VarId(k), value };
    let bend = b.function(ScalarFn {
        name: "bend".into(),
        parameters: 1,
        variables: vec![float("x"), float("a"), float("unused")],
        body: vec![
            assign(1, op(ScalarOp::Add, vec![op(ScalarOp::Tanh, vec![v(0)]), one()])),
            assign(2, op(ScalarOp::Sin, vec![v(0)])),
            assign(1, op(ScalarOp::Mul, vec![op(ScalarOp::Ln, vec![v(1)]), v(0)])),
        ],
        results: vec![op(ScalarOp::Add, vec![v(1), one()])],
    });
    let y = b.call(bend, 0, &[x]);
    b.result(y, &[n]);
    check("chain.rs", b.build());
}

#[test]
fn functions_faults_and_combiners() {
    let mut b = KernelBuilder::new("quotients");
    let n = b.axis("N");
    let (x, y) = (b.tensor("x", DType::I32, &[n]), b.tensor("y", DType::I32, &[n]));
    let v = |k| Expr::Variable(VarId(k));
    let int = |name: &str| Variable { name: name.into(), dtype: DType::I32 };
    let quotient = b.function(ScalarFn {
        name: "quotient".into(),
        parameters: 2,
        variables: vec![int("a"), int("type"), int("result")],
        body: vec![Stmt::If {
            condition: Expr::Op(ScalarOp::Gt, vec![v(0), v(1)]),
            then: vec![Stmt::Assign { variable: VarId(2), value: Expr::Op(ScalarOp::Div, vec![v(0), v(1)]) }],
            otherwise: vec![Stmt::Assign { variable: VarId(2), value: Expr::Constant(Value::I32(i32::MIN)) }],
        }],
        results: vec![v(2)],
    });
    let larger = b.function(ScalarFn {
        name: "larger".into(),
        parameters: 2,
        variables: vec![int("a"), int("b")],
        body: vec![],
        results: vec![Expr::Op(ScalarOp::Max, vec![v(0), v(1)])],
    });
    let q = b.call(quotient, 0, &[x, y]);
    let reducer = Reducer::User { combine: larger, identity: vec![Value::I32(i32::MIN)], ordered: false };
    let best = b.reduce(reducer, q, &[n]);
    b.result(best, &[]);
    check("quotients.rs", b.build());
}
