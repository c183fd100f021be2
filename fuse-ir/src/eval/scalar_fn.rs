//! Scalar functions on single values, by walking their statements.

use super::compare::difference;
use super::wide::eval_op_wide;
use super::{Fault, Precision, eval_op};
use crate::dtype::{DType, Value};
use crate::id::FnId;
use crate::scalar::{Expr, ScalarFn, Stmt};

/// The results of a function for these arguments, and the first fault on the way.
///
/// # Panics
/// On a function or arguments that `verify_function` would refuse.
pub fn eval_fn(functions: &[ScalarFn], function: FnId, args: &[Value]) -> (Vec<Value>, Option<Fault>) {
    eval_fn_in(Precision::Exact, functions, function, args)
}

/// [`eval_fn`] with every operation at this precision.
pub(super) fn eval_fn_in(
    precision: Precision,
    functions: &[ScalarFn],
    function: FnId,
    args: &[Value],
) -> (Vec<Value>, Option<Fault>) {
    let (results, fault, _) = run_fn(precision, functions, function, args, None);
    (results, fault)
}

/// [`eval_fn`], and in `worst` the greatest error in ulp of any single operation on the way, against f64 on that
/// operation's own operands.
pub(super) fn audit_fn(
    functions: &[ScalarFn],
    function: FnId,
    args: &[Value],
    worst: &mut f64,
) -> (Vec<Value>, Option<Fault>) {
    let (results, fault, found) = run_fn(Precision::Exact, functions, function, args, Some(*worst));
    *worst = found.unwrap_or(*worst);
    (results, fault)
}

fn run_fn(
    precision: Precision,
    functions: &[ScalarFn],
    function: FnId,
    args: &[Value],
    worst: Option<f64>,
) -> (Vec<Value>, Option<Fault>, Option<f64>) {
    let callee = &functions[function.index()];
    let mut variables = args.to_vec();
    // A local holds a value of its dtype from the start; the rule that it is assigned before it is read hides which.
    variables.extend(callee.variables[args.len()..].iter().map(|v| Value::zero(v.dtype)));
    let mut frame = Frame { precision, functions, callee, variables, fault: None, worst };
    frame.execute(&callee.body);
    let results = callee.results.iter().map(|e| frame.eval(e)).collect();
    (results, frame.fault, frame.worst)
}

struct Frame<'a> {
    precision: Precision,
    functions: &'a [ScalarFn],
    callee: &'a ScalarFn,
    variables: Vec<Value>,
    fault: Option<Fault>,
    /// The worst error of an operation so far, where it is asked for.
    worst: Option<f64>,
}

impl Frame<'_> {
    fn note(&mut self, fault: Option<Fault>) {
        self.fault = self.fault.or(fault);
    }

    fn dtype(&self, expr: &Expr) -> Option<DType> {
        self.callee.expr_dtype(self.functions, expr)
    }

    fn eval(&mut self, expr: &Expr) -> Value {
        match expr {
            Expr::Constant(v) => self.precision.admit(*v),
            Expr::Variable(v) => self.variables[v.index()],
            Expr::Op(op, args) => {
                let values: Vec<Value> = args.iter().map(|a| self.eval(a)).collect();
                let (value, fault) = match self.precision {
                    Precision::Exact => eval_op(*op, &values),
                    Precision::F64 => {
                        let first = args.first().and_then(|a| self.dtype(a)).unwrap_or(DType::F64);
                        eval_op_wide(*op, first, &values)
                    }
                };
                self.note(fault);
                if let Some(worst) = &mut self.worst {
                    let first = values.first().map_or(DType::F64, |v| v.dtype());
                    let wide: Vec<Value> = values.iter().map(|&v| Precision::F64.admit(v)).collect();
                    let want = eval_op_wide(*op, first, &wide).0;
                    *worst = worst.max(difference(value.dtype(), value, want).1);
                }
                value
            }
            Expr::Call { function, args, result } => {
                let values: Vec<Value> = args.iter().map(|a| self.eval(a)).collect();
                let (results, fault, worst) =
                    run_fn(self.precision, self.functions, *function, &values, self.worst);
                self.worst = worst;
                self.note(fault);
                results[*result as usize]
            }
        }
    }

    fn execute(&mut self, block: &[Stmt]) {
        for stmt in block {
            match stmt {
                Stmt::Assign { variable, value } => self.variables[variable.index()] = self.eval(value),
                Stmt::If { condition, then, otherwise } => {
                    let taken = self.eval(condition) == Value::Bool(true);
                    self.execute(if taken { then } else { otherwise });
                }
                Stmt::For { variable, start, end, body } => {
                    let dtype = self.callee.variables[variable.index()].dtype;
                    for i in *start..*end {
                        self.variables[variable.index()] = Value::I64(i).cast(dtype);
                        self.execute(body);
                    }
                }
            }
        }
    }
}
