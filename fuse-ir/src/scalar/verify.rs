//! The typing rules of scalar functions.

use super::{Expr, ScalarFn, ScalarOp, Stmt};
use crate::dtype::DType;
use crate::id::VarId;
use std::collections::BTreeSet;

impl ScalarFn {
    /// The dtypes of the flattened parameters.
    pub fn parameter_dtypes(&self) -> Vec<DType> {
        self.variables.iter().take(self.parameters as usize).map(|v| v.dtype).collect()
    }

    /// The dtype of an expression of this function; `functions` are the kernel's. `None` if it is ill-typed.
    pub fn expr_dtype(&self, functions: &[ScalarFn], expr: &Expr) -> Option<DType> {
        match expr {
            Expr::Constant(v) => Some(v.dtype()),
            Expr::Variable(v) => self.variables.get(v.index()).map(|v| v.dtype),
            Expr::Op(op, args) => {
                let dtypes: Option<Vec<DType>> = args.iter().map(|a| self.expr_dtype(functions, a)).collect();
                op.result_dtype(&dtypes?)
            }
            Expr::Call { function, args: _, result } => {
                let callee = functions.get(function.index())?;
                callee.expr_dtype(functions, callee.results.get(*result as usize)?)
            }
        }
    }
}

/// Checks a function that may call `earlier` ones: dtypes, no narrow floats, every local assigned before it is read on
/// each path, a loop variable read in its loop only and never assigned there.
///
/// # Errors
/// The first rule that is broken.
pub fn verify_function(earlier: &[ScalarFn], function: &ScalarFn) -> Result<(), String> {
    if function.parameters as usize > function.variables.len() {
        return Err(format!("it has {} parameters and fewer variables", function.parameters));
    }
    if let Some(v) = function.variables.iter().find(|v| v.dtype.is_narrow_float()) {
        return Err(format!("`{}` is {}", v.name, v.dtype));
    }
    let mut scope = Scope {
        earlier,
        function,
        assigned: (0..function.parameters).map(VarId).collect(),
        looping: BTreeSet::new(),
    };
    scope.verify_block(&function.body)?;
    for result in &function.results {
        scope.infer_expr(result)?;
    }
    Ok(())
}

struct Scope<'a> {
    earlier: &'a [ScalarFn],
    function: &'a ScalarFn,
    assigned: BTreeSet<VarId>,
    looping: BTreeSet<VarId>,
}

impl Scope<'_> {
    fn dtype(&self, v: VarId) -> Result<DType, String> {
        self.function.variables.get(v.index()).map(|v| v.dtype).ok_or_else(|| format!("{v} does not exist"))
    }

    fn infer_expr(&self, expr: &Expr) -> Result<DType, String> {
        match expr {
            Expr::Constant(v) if v.dtype().is_narrow_float() => Err(format!("a constant is {}", v.dtype())),
            Expr::Constant(v) => Ok(v.dtype()),
            Expr::Variable(v) => {
                let dtype = self.dtype(*v)?;
                if !self.assigned.contains(v) {
                    return Err(format!("{v} is read before it is assigned"));
                }
                Ok(dtype)
            }
            Expr::Op(op, args) => {
                let dtypes = match (op, args.as_slice()) {
                    // A cast through a narrow float rounds to it; nothing else sees the narrow value.
                    (ScalarOp::Cast(_), [Expr::Op(ScalarOp::Cast(narrow), inner)]) => {
                        self.infer_all(inner)?;
                        vec![*narrow]
                    }
                    _ => self.infer_all(args)?,
                };
                match op.result_dtype(&dtypes) {
                    Some(d) if d.is_narrow_float() => Err(format!("{op} gives {d}")),
                    Some(d) => Ok(d),
                    None => Err(format!("{op} does not take {dtypes:?}")),
                }
            }
            Expr::Call { function, args, result } => {
                let dtypes = self.infer_all(args)?;
                let Some(callee) = self.earlier.get(function.index()) else {
                    return Err(format!("{function} does not come before it"));
                };
                if callee.parameter_dtypes() != dtypes {
                    return Err(format!("`{}` does not take {dtypes:?}", callee.name));
                }
                let dtype =
                    callee.results.get(*result as usize).and_then(|r| callee.expr_dtype(self.earlier, r));
                dtype.ok_or_else(|| format!("`{}` has no result {result}", callee.name))
            }
        }
    }

    fn infer_all(&self, args: &[Expr]) -> Result<Vec<DType>, String> {
        args.iter().map(|a| self.infer_expr(a)).collect()
    }

    fn verify_block(&mut self, block: &[Stmt]) -> Result<(), String> {
        for stmt in block {
            match stmt {
                Stmt::Assign { variable, value } => {
                    let (want, got) = (self.dtype(*variable)?, self.infer_expr(value)?);
                    if want != got {
                        return Err(format!("{variable} is {want} and is assigned {got}"));
                    }
                    if self.looping.contains(variable) {
                        return Err(format!("{variable} is assigned in its loop"));
                    }
                    self.assigned.insert(*variable);
                }
                Stmt::If { condition, then, otherwise } => {
                    if self.infer_expr(condition)? != DType::Bool {
                        return Err("a condition is no bool".to_owned());
                    }
                    let before = self.assigned.clone();
                    self.verify_block(then)?;
                    let after_then = std::mem::replace(&mut self.assigned, before);
                    self.verify_block(otherwise)?;
                    self.assigned = self.assigned.intersection(&after_then).copied().collect();
                }
                Stmt::For { variable, start, end, body } => {
                    self.verify_loop(*variable, *start, *end, body)?
                }
            }
        }
        Ok(())
    }

    fn verify_loop(&mut self, variable: VarId, start: i64, end: i64, body: &[Stmt]) -> Result<(), String> {
        let dtype = self.dtype(variable)?;
        if !dtype.is_int() {
            return Err(format!("the loop variable {variable} is {dtype}"));
        }
        let runs = start < end;
        let before = self.assigned.clone();
        self.assigned.insert(variable);
        let outermost = self.looping.insert(variable);
        if !outermost {
            return Err(format!("{variable} is the variable of two nested loops"));
        }
        self.verify_block(body)?;
        self.looping.remove(&variable);
        if !runs {
            self.assigned = before;
        } else if !before.contains(&variable) {
            self.assigned.remove(&variable);
        }
        Ok(())
    }
}
