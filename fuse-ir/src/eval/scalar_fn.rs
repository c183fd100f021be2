//! Scalar functions on single values, by walking their statements.

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
    let callee = &functions[function.index()];
    let mut variables = args.to_vec();
    // A local holds a value of its dtype from the start; the rule that it is assigned before it is read hides which.
    variables.extend(callee.variables[args.len()..].iter().map(|v| Value::zero(v.dtype)));
    let mut frame = Frame { precision, functions, callee, variables, fault: None };
    frame.execute(&callee.body);
    let results = callee.results.iter().map(|e| frame.eval(e)).collect();
    (results, frame.fault)
}

struct Frame<'a> {
    precision: Precision,
    functions: &'a [ScalarFn],
    callee: &'a ScalarFn,
    variables: Vec<Value>,
    fault: Option<Fault>,
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
                value
            }
            Expr::Call { function, args, result } => {
                let values: Vec<Value> = args.iter().map(|a| self.eval(a)).collect();
                let (results, fault) = eval_fn_in(self.precision, self.functions, *function, &values);
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
