//! How far a result moves when transcendental functions move by what they may: the tolerance of a comparison.
//!
//! Everything but the transcendental functions is equal bit for bit on every backend; those agree within 2 ulp. What
//! that does to a result depends on what the kernel makes of it: nothing where it rounds to an integer, a lot where it
//! cancels. So the reference is evaluated again with every transcendental function's result moved up, moved down, and
//! moved each its own way; elements that do not move must be equal bit for bit.

use fuse_ir::dtype::{DType, Value};
use fuse_ir::graph::{Kernel, MapFn, Op};
use fuse_ir::id::{FnId, VarId};
use fuse_ir::scalar::{Expr, ScalarFn, ScalarOp, Stmt, Variable};

/// Relative moves of 2 ulp, a little more than the functions may differ from a correctly rounded reference.
const ULPS: f64 = 2.5;

/// Whether any function of the kernel is transcendental.
pub(super) fn has_transcendental(kernel: &Kernel) -> bool {
    let in_nodes = kernel.nodes.iter().any(|node| match node.op {
        Op::Map { function: MapFn::Op(op), .. } => op.is_transcendental(),
        _ => false,
    });
    in_nodes || kernel.functions.iter().any(|f| f.body.iter().any(in_stmt) || f.results.iter().any(in_expr))
}

fn in_stmt(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Assign { value, .. } => in_expr(value),
        Stmt::If { condition, then, otherwise } => {
            in_expr(condition) || then.iter().chain(otherwise).any(in_stmt)
        }
        Stmt::For { body, .. } => body.iter().any(in_stmt),
    }
}

fn in_expr(expr: &Expr) -> bool {
    match expr {
        Expr::Constant(_) | Expr::Variable(_) => false,
        Expr::Op(op, args) => op.is_transcendental() || args.iter().any(in_expr),
        Expr::Call { args, .. } => args.iter().any(in_expr),
    }
}

/// The kernel with the result of every transcendental function multiplied by a number next to one. `signs` is asked for
/// the direction of each, in order.
pub(super) fn perturb_kernel(kernel: &Kernel, signs: &mut dyn FnMut() -> bool) -> Kernel {
    let mut kernel = kernel.clone();
    for k in 0..kernel.functions.len() {
        let mut function = kernel.functions[k].clone();
        // The dtype of a transcendental function is that of its first operand.
        let variables = function.variables.clone();
        let dtype_of = |expr: &Expr| expr_dtype(&kernel.functions, &variables, expr);
        function.body.iter_mut().for_each(|stmt| move_stmt(stmt, &dtype_of, signs));
        function.results.iter_mut().for_each(|expr| move_expr(expr, &dtype_of, signs));
        kernel.functions[k] = function;
    }
    for k in 0..kernel.nodes.len() {
        let Op::Map { function: MapFn::Op(op), args } = &kernel.nodes[k].op else { continue };
        if !op.is_transcendental() {
            continue;
        }
        let (op, args) = (*op, args.clone());
        let variables: Vec<Variable> = args
            .iter()
            .enumerate()
            .map(|(i, &arg)| Variable { name: format!("a{i}"), dtype: kernel.node(arg).ty.dtype })
            .collect();
        let operands = (0..args.len()).map(|i| Expr::Variable(VarId::from_index(i))).collect();
        let dtype = variables.first().map(|v| v.dtype);
        let result = moved(Expr::Op(op, operands), dtype, signs());
        let function = FnId::from_index(kernel.functions.len());
        kernel.functions.push(ScalarFn {
            name: format!("moved{k}"),
            parameters: args.len() as u32,
            variables,
            body: Vec::new(),
            results: vec![result],
        });
        kernel.nodes[k].op = Op::Map { function: MapFn::Call { function, result: 0 }, args };
    }
    kernel
}

fn move_stmt(stmt: &mut Stmt, dtype_of: &dyn Fn(&Expr) -> Option<DType>, signs: &mut dyn FnMut() -> bool) {
    match stmt {
        Stmt::Assign { value, .. } => move_expr(value, dtype_of, signs),
        Stmt::If { condition, then, otherwise } => {
            move_expr(condition, dtype_of, signs);
            for stmt in then.iter_mut().chain(otherwise) {
                move_stmt(stmt, dtype_of, signs);
            }
        }
        Stmt::For { body, .. } => body.iter_mut().for_each(|stmt| move_stmt(stmt, dtype_of, signs)),
    }
}

fn move_expr(expr: &mut Expr, dtype_of: &dyn Fn(&Expr) -> Option<DType>, signs: &mut dyn FnMut() -> bool) {
    match expr {
        Expr::Constant(_) | Expr::Variable(_) => {}
        Expr::Call { args, .. } => args.iter_mut().for_each(|arg| move_expr(arg, dtype_of, signs)),
        Expr::Op(op, args) => {
            let dtype = args.first().and_then(dtype_of);
            let transcendental = op.is_transcendental();
            args.iter_mut().for_each(|arg| move_expr(arg, dtype_of, signs));
            if transcendental {
                *expr = moved(expr.clone(), dtype, signs());
            }
        }
    }
}

/// `expr * (1 ± 2.5 ulp)`.
fn moved(expr: Expr, dtype: Option<DType>, up: bool) -> Expr {
    let factor = |epsilon: f64| if up { 1.0 + ULPS * epsilon } else { 1.0 - ULPS * epsilon };
    let factor = match dtype {
        Some(DType::F64) => Value::F64(factor(f64::EPSILON)),
        _ => Value::F32(factor(f64::from(f32::EPSILON)) as f32),
    };
    Expr::Op(ScalarOp::Mul, vec![expr, Expr::Constant(factor)])
}

fn expr_dtype(functions: &[ScalarFn], variables: &[Variable], expr: &Expr) -> Option<DType> {
    match expr {
        Expr::Constant(value) => Some(value.dtype()),
        Expr::Variable(v) => variables.get(v.index()).map(|v| v.dtype),
        Expr::Op(op, args) => {
            let args: Option<Vec<DType>> = args.iter().map(|a| expr_dtype(functions, variables, a)).collect();
            op.result_dtype(&args?)
        }
        Expr::Call { function, result, .. } => {
            let callee = functions.get(function.index())?;
            expr_dtype(functions, &callee.variables, callee.results.get(*result as usize)?)
        }
    }
}
