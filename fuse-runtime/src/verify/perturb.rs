//! How far a result moves when what may differ moves by what it may: the tolerance of a comparison.
//!
//! Everything but transcendental functions and contractions is equal bit for bit on every backend; the former agree within
//! 2 ulp, the latter within c·ε·Σ|a·b|. What that does to a result depends on what the kernel makes of it: nothing where it rounds to an integer, a lot where it
//! cancels. So the reference is evaluated again with every transcendental function's result moved up, moved down, and
//! moved each its own way, contractions likewise; outputs of which no element moves must be equal bit for bit.
//!
//! What [`Kernel::fast`] allows, where the kernel says so: products may enter sums unrounded, exponentials are approximate, and
//! the factors of contractions of f32 have the eleven bits of tf32.

mod contraction;

pub(super) use contraction::is_contraction;
use contraction::move_contractions;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::graph::{Kernel, MapFn, Op, Reducer};
use fuse_ir::id::{FnId, VarId};
use fuse_ir::scalar::{Expr, ScalarFn, ScalarOp, Stmt, Variable};

/// Relative moves of 2 ulp, a little more than the functions may differ from a correctly rounded reference.
const ULPS: f64 = 2.5;
/// The same for the approximate exponentials of fast kernels: `__expf(x)` is within 2 + 1.173·|x| ulp, and |x| below 104 where
/// the result is not infinite or zero.
const APPROXIMATE_ULPS: f64 = 128.0;

/// How far the result of an operation may move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reach {
    Function,
    Approximation,
}

/// How far an operation's result may move; `None` if not at all.
fn reach_of(op: ScalarOp, dtype: Option<DType>, fast: bool) -> Option<Reach> {
    match op {
        ScalarOp::Exp | ScalarOp::Exp2 | ScalarOp::Sigmoid if fast => Some(Reach::Approximation),
        // It may be added before it is rounded.
        ScalarOp::Mul if fast && matches!(dtype, Some(DType::F32 | DType::F64)) => Some(Reach::Function),
        _ => op.is_transcendental().then_some(Reach::Function),
    }
}

/// Whether anything in the kernel may differ: a transcendental function or a contraction of floats.
pub(super) fn may_move(kernel: &Kernel) -> bool {
    if kernel.fast {
        return true;
    }
    let in_nodes = kernel.nodes.iter().any(|node| match node.op {
        _ if is_contraction(node) => true,
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

/// Which way the results move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pattern {
    /// All up.
    Up,
    /// All down.
    Down,
    /// Each as that bit of the result says, so that neighbours move apart.
    Bit(u32),
}

/// The patterns that are tried. Moves of one direction cancel in quotients, as in softmax.
/// The exponentials of two sums differ by what their sums differ: of many bits one tells the two apart.
pub(super) const PATTERNS: [Pattern; 9] = [
    Pattern::Up,
    Pattern::Down,
    Pattern::Bit(0),
    Pattern::Bit(2),
    Pattern::Bit(5),
    Pattern::Bit(1),
    Pattern::Bit(3),
    Pattern::Bit(4),
    Pattern::Bit(7),
];

/// How many functions are put before the kernel's own: those that move results of functions, then those that move
/// contractions, then those that move approximations; of f32, then of f64.
const ADDED: usize = 6;

/// The kernel with the result of every transcendental function and every contraction moved by what it may differ.
pub(super) fn perturb_kernel(kernel: &Kernel, pattern: Pattern) -> Kernel {
    let mut kernel = kernel.clone();
    // Callees stand before callers, so that the kernel's own functions make room.
    let fast = kernel.fast;
    let dtypes = [DType::F32, DType::F64];
    let mut functions = dtypes.map(|dtype| moving_function(dtype, ULPS, pattern)).to_vec();
    functions.extend(dtypes.map(|dtype| contraction::moving_function(dtype, fast, pattern)));
    functions.extend(dtypes.map(|dtype| moving_function(dtype, APPROXIMATE_ULPS, pattern)));
    for mut function in std::mem::take(&mut kernel.functions) {
        let variables = function.variables.clone();
        let dtype_of = |expr: &Expr| expr_dtype(&functions, &variables, expr);
        function.body.iter_mut().for_each(|stmt| move_stmt(stmt, fast, &dtype_of));
        function.results.iter_mut().for_each(|expr| move_expr(expr, fast, &dtype_of));
        functions.push(function);
    }
    for k in 0..kernel.nodes.len() {
        let op = match &mut kernel.nodes[k].op {
            Op::Map { function: MapFn::Call { function, .. }, .. } => {
                *function = shifted(*function);
                continue;
            }
            Op::Reduce { reducer: Reducer::User { combine, .. }, .. } => {
                *combine = shifted(*combine);
                continue;
            }
            Op::Map { function: MapFn::Op(op), .. } => *op,
            _ => continue,
        };
        let Op::Map { args, .. } = kernel.nodes[k].op.clone() else { continue };
        let dtype = args.first().map(|arg| kernel.node(*arg).ty.dtype);
        let Some(reach) = reach_of(op, dtype, fast) else { continue };
        let variables: Vec<Variable> = args
            .iter()
            .enumerate()
            .map(|(i, &arg)| Variable { name: format!("a{i}"), dtype: kernel.node(arg).ty.dtype })
            .collect();
        let operands = (0..args.len()).map(|i| Expr::Variable(VarId::from_index(i))).collect();
        let function = FnId::from_index(functions.len());
        functions.push(ScalarFn {
            name: format!("moved{k}"),
            parameters: args.len() as u32,
            variables,
            body: Vec::new(),
            results: vec![moved(Expr::Op(op, operands), dtype, reach)],
        });
        kernel.nodes[k].op = Op::Map { function: MapFn::Call { function, result: 0 }, args };
    }
    kernel.functions = functions;
    move_contractions(&mut kernel, [FnId(2), FnId(3)]);
    kernel
}

fn shifted(function: FnId) -> FnId {
    FnId::from_index(function.index() + ADDED)
}

fn move_stmt(stmt: &mut Stmt, fast: bool, dtype_of: &dyn Fn(&Expr) -> Option<DType>) {
    match stmt {
        Stmt::Assign { value, .. } => move_expr(value, fast, dtype_of),
        Stmt::If { condition, then, otherwise } => {
            move_expr(condition, fast, dtype_of);
            then.iter_mut().chain(otherwise).for_each(|stmt| move_stmt(stmt, fast, dtype_of));
        }
        Stmt::For { body, .. } => body.iter_mut().for_each(|stmt| move_stmt(stmt, fast, dtype_of)),
    }
}

/// Operands first, so that calls below name the shifted functions when the dtype of an operation is asked for.
fn move_expr(expr: &mut Expr, fast: bool, dtype_of: &dyn Fn(&Expr) -> Option<DType>) {
    match expr {
        Expr::Constant(_) | Expr::Variable(_) => {}
        Expr::Call { function, args, .. } => {
            *function = shifted(*function);
            args.iter_mut().for_each(|arg| move_expr(arg, fast, dtype_of));
        }
        Expr::Op(op, args) => {
            args.iter_mut().for_each(|arg| move_expr(arg, fast, dtype_of));
            let dtype = args.first().and_then(dtype_of);
            if let Some(reach) = reach_of(*op, dtype, fast) {
                *expr = moved(expr.clone(), dtype, reach);
            }
        }
    }
}

/// A call of the function that moves.
fn moved(expr: Expr, dtype: Option<DType>, reach: Reach) -> Expr {
    let first = if reach == Reach::Approximation { 4 } else { 0 };
    let function = FnId::from_index(first + usize::from(dtype == Some(DType::F64)));
    Expr::Call { function, args: vec![expr], result: 0 }
}

/// `t * (1 ± ulps)`.
fn moving_function(dtype: DType, ulps: f64, pattern: Pattern) -> ScalarFn {
    let t = Expr::Variable(VarId::from_index(0));
    let epsilon = if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON.into() };
    let times = |factor: f64| {
        let factor = Value::from_f64(dtype, factor).unwrap_or(Value::zero(dtype));
        Expr::Op(ScalarOp::Mul, vec![t.clone(), Expr::Constant(factor)])
    };
    let (up, down) = (times(1.0 + ulps * epsilon), times(1.0 - ulps * epsilon));
    let result = choose(dtype, pattern, &t, up, down);
    ScalarFn {
        name: "moved".to_owned(),
        parameters: 1,
        variables: vec![Variable { name: "t".to_owned(), dtype }],
        body: Vec::new(),
        results: vec![result],
    }
}

/// Which of two moves of `t` a pattern takes.
fn choose(dtype: DType, pattern: Pattern, t: &Expr, up: Expr, down: Expr) -> Expr {
    match pattern {
        Pattern::Up => up,
        Pattern::Down => down,
        Pattern::Bit(bit) => {
            let integer = if dtype == DType::F64 { DType::U64 } else { DType::U32 };
            let constant =
                |n: i128| Expr::Constant(Value::from_i128(integer, n).unwrap_or(Value::zero(integer)));
            let bits = Expr::Op(ScalarOp::ToBits, vec![t.clone()]);
            let masked = Expr::Op(ScalarOp::And, vec![bits, constant(1 << bit)]);
            let condition = Expr::Op(ScalarOp::Eq, vec![masked, constant(0)]);
            Expr::Op(ScalarOp::Select, vec![condition, up, down])
        }
    }
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
