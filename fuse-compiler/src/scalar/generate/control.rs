//! Branches and loops.

use super::super::ScalarType;
use super::super::tree::{Arm, Node, Pattern, PatternKind};
use super::{Generator, mentions};
use crate::diagnostic::{Reported, messages};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::id::VarId;
use fuse_ir::scalar::{Expr, ScalarOp, Stmt, Variable};

impl Generator<'_> {
    /// `if condition { then } else { otherwise }` with a value of a type.
    pub(super) fn branch(
        &mut self,
        condition: Expr,
        ty: &ScalarType,
        then: impl FnOnce(&mut Self) -> Result<Vec<Expr>, Reported>,
        otherwise: impl FnOnce(&mut Self) -> Result<Vec<Expr>, Reported>,
    ) -> Result<Vec<Expr>, Reported> {
        let first_local = self.variables.len();
        let before = std::mem::take(&mut self.out);
        let then_values = then(self)?;
        let then_statements = std::mem::take(&mut self.out);
        let otherwise_values = otherwise(self)?;
        let otherwise_statements = std::mem::replace(&mut self.out, before);
        let sides = [(then_statements, then_values), (otherwise_statements, otherwise_values)];
        if sides.iter().all(|side| self.can_speculate(side)) {
            Ok(self.speculate(condition, first_local, sides))
        } else {
            Ok(self.branch_statement(condition, ty, sides))
        }
    }

    /// Whether a side of a branch may be computed although it is not taken.
    fn can_speculate(&self, (statements, values): &(Vec<Stmt>, Vec<Expr>)) -> bool {
        statements.iter().all(|statement| match statement {
            Stmt::Assign { value, .. } => !self.may_fault(value),
            Stmt::If { .. } | Stmt::For { .. } => false,
        }) && !values.iter().any(|value| self.may_fault(value))
    }

    /// Both sides in a row. What a side declares is its own; what it sets from outside keeps its value unless the side is
    /// taken, so that the other side, which comes before or after, sees what it would have seen.
    fn speculate(
        &mut self,
        condition: Expr,
        first_local: usize,
        sides: [(Vec<Stmt>, Vec<Expr>); 2],
    ) -> Vec<Expr> {
        let sets_outer = |statements: &Vec<Stmt>| {
            statements
                .iter()
                .any(|s| matches!(s, Stmt::Assign { variable, .. } if variable.index() < first_local))
        };
        let read_once = sides[0].1.len() == 1 && !sides.iter().any(|side| sets_outer(&side.0));
        let condition = if read_once && !self.may_fault(&condition) {
            condition
        } else {
            self.keep_condition(condition, &sides)
        };
        let mut values = Vec::new();
        for (taken, (statements, side_values)) in [true, false].into_iter().zip(sides) {
            for statement in statements {
                let Stmt::Assign { variable, value } = statement else { continue };
                let value = if variable.index() < first_local {
                    let kept = Expr::Variable(variable);
                    let (a, b) = if taken { (value, kept) } else { (kept, value) };
                    Expr::Op(ScalarOp::Select, vec![condition.clone(), a, b])
                } else {
                    value
                };
                self.out.push(Stmt::Assign { variable, value });
            }
            values.push(side_values);
        }
        let [then, otherwise] = <[Vec<Expr>; 2]>::try_from(values).unwrap_or_default();
        let select = |(a, b): (Expr, Expr)| {
            if a == b { a } else { Expr::Op(ScalarOp::Select, vec![condition.clone(), a, b]) }
        };
        then.into_iter().zip(otherwise).map(select).collect()
    }

    /// A condition that is read several times, and after what the sides set.
    fn keep_condition(&mut self, condition: Expr, sides: &[(Vec<Stmt>, Vec<Expr>); 2]) -> Expr {
        let changed = sides.iter().flat_map(|side| &side.0).any(|s| super::assigns_what(s, &condition));
        if changed { self.spill(condition) } else { self.reuse(condition) }
    }

    /// An `if` of which only the side taken is executed.
    fn branch_statement(
        &mut self,
        condition: Expr,
        ty: &ScalarType,
        sides: [(Vec<Stmt>, Vec<Expr>); 2],
    ) -> Vec<Expr> {
        let results: Vec<VarId> = self.fresh("t", ty);
        let [then, otherwise] = sides.map(|(mut statements, values)| {
            let assigns = results.iter().zip(values);
            statements.extend(assigns.map(|(&variable, value)| Stmt::Assign { variable, value }));
            statements
        });
        self.out.push(Stmt::If { condition, then, otherwise });
        results.into_iter().map(Expr::Variable).collect()
    }

    /// `left && right`, `left || right`: the right side is evaluated only where it decides, if that can be seen.
    pub(super) fn short_circuit(
        &mut self,
        and: bool,
        left: &Node,
        right: &Node,
    ) -> Result<Vec<Expr>, Reported> {
        let left = self.scalar(left)?;
        self.short_circuit_with(and, left, |this| this.scalar(right))
    }

    fn short_circuit_with(
        &mut self,
        and: bool,
        left: Expr,
        right: impl FnOnce(&mut Self) -> Result<Expr, Reported>,
    ) -> Result<Vec<Expr>, Reported> {
        let before = std::mem::take(&mut self.out);
        let value = right(self)?;
        let statements = std::mem::replace(&mut self.out, before);
        if statements.is_empty() && !self.may_fault(&value) {
            let op = if and { ScalarOp::And } else { ScalarOp::Or };
            return Ok(vec![Expr::Op(op, vec![left, value])]);
        }
        let decided = (Vec::new(), vec![Expr::Constant(Value::Bool(!and))]);
        let open = (statements, vec![value]);
        let sides = if and { [open, decided] } else { [decided, open] };
        Ok(self.branch_statement(left, &ScalarType::Scalar(DType::Bool), sides))
    }

    /// The arms of a `match` on values that are variables or constants. The last arm is taken where no other is: rustc
    /// sees to it that the arms cover everything.
    pub(super) fn arms(
        &mut self,
        arms: &[Arm],
        values: &[Expr],
        ty: &ScalarType,
    ) -> Result<Vec<Expr>, Reported> {
        let Some((arm, rest)) = arms.split_first() else { return Ok(Vec::new()) };
        let test = self.test(&arm.pattern, values)?;
        let always = rest.is_empty() || (test.is_none() && arm.guard.is_none());
        if always {
            self.bind(&arm.pattern, values.to_vec());
            return self.expression(&arm.body);
        }
        let condition = match &arm.guard {
            None => test.unwrap_or(Expr::Constant(Value::Bool(true))),
            Some(guard) => {
                // The guard sees the names of the pattern, which only copy the value.
                self.bind(&arm.pattern, values.to_vec());
                match test {
                    None => self.scalar(guard)?,
                    Some(test) => {
                        let mut condition = self.short_circuit_with(true, test, |this| this.scalar(guard))?;
                        condition.pop().unwrap_or(Expr::Constant(Value::Bool(false)))
                    }
                }
            }
        };
        self.branch(
            condition,
            ty,
            |this| {
                if arm.guard.is_none() {
                    this.bind(&arm.pattern, values.to_vec());
                }
                this.expression(&arm.body)
            },
            |this| this.arms(rest, values, ty),
        )
    }

    /// Whether a pattern matches; `None` if it always does.
    fn test(&mut self, pattern: &Pattern, values: &[Expr]) -> Result<Option<Expr>, Reported> {
        let value = || values.first().cloned().unwrap_or(Expr::Constant(Value::Bool(false)));
        let compare = |op, value: Expr, bound: Expr| Expr::Op(op, vec![value, bound]);
        Ok(match &pattern.kind {
            PatternKind::Wildcard | PatternKind::Binding { inner: None, .. } => None,
            PatternKind::Binding { inner: Some(inner), .. } => self.test(inner, values)?,
            PatternKind::Constant(node) => Some(match self.scalar(node)? {
                Expr::Constant(Value::Bool(true)) => value(),
                Expr::Constant(Value::Bool(false)) => Expr::Op(ScalarOp::Not, vec![value()]),
                constant => compare(ScalarOp::Eq, value(), constant),
            }),
            PatternKind::Range { start, end, inclusive } => {
                let start = start.as_ref().map(|node| self.scalar(node)).transpose()?;
                let end = end.as_ref().map(|node| self.scalar(node)).transpose()?;
                let last = if *inclusive { ScalarOp::Le } else { ScalarOp::Lt };
                let tests = [
                    start.map(|start| compare(ScalarOp::Ge, value(), start)),
                    end.map(|end| compare(last, value(), end)),
                ];
                join(tests, ScalarOp::And)
            }
            PatternKind::Or(cases) => {
                let mut tests = Vec::new();
                for case in cases {
                    match self.test(case, values)? {
                        Some(test) => tests.push(Some(test)),
                        None => return Ok(None),
                    }
                }
                join(tests, ScalarOp::Or)
            }
            PatternKind::Tuple(elements) => {
                let mut tests = Vec::new();
                let mut start = 0;
                for element in elements {
                    let count = self.body.types.resolve(element.ty).flatten().len();
                    tests.push(self.test(element, &values[start..start + count])?);
                    start += count;
                }
                join(tests, ScalarOp::And)
            }
        })
    }

    /// The bounds of a loop as `start..end`.
    pub(super) fn loop_bounds(
        &mut self,
        start: &Node,
        end: &Node,
        inclusive: bool,
    ) -> Result<(i64, i64), Reported> {
        let mut bound = |node: &Node, more: i128| {
            let before = std::mem::take(&mut self.out);
            let value = self.scalar(node);
            let effects = std::mem::replace(&mut self.out, before);
            let value = value?;
            let constant = if effects.is_empty() { self.fold(&value) } else { None };
            let exact = constant.and_then(Value::as_i128).map(|value| value + more);
            exact
                .and_then(|value| i64::try_from(value).ok())
                .ok_or_else(|| self.diagnostics.report(messages::loop_bound_not_constant(node.place)))
        };
        Ok((bound(start, 0)?, bound(end, i128::from(inclusive))?))
    }

    /// The value of an expression without variables and calls.
    fn fold(&self, expr: &Expr) -> Option<Value> {
        match expr {
            Expr::Constant(value) => Some(*value),
            Expr::Variable(_) | Expr::Call { .. } => None,
            Expr::Op(op, args) => {
                let args: Vec<Value> = args.iter().map(|arg| self.fold(arg)).collect::<Option<_>>()?;
                let (value, fault) = fuse_ir::eval::eval_op(*op, &args);
                fault.is_none().then_some(value)
            }
        }
    }

    /// `for variable in start..end { body }`
    pub(super) fn repeat(
        &mut self,
        pattern: &Pattern,
        start: i64,
        end: i64,
        body: &Node,
    ) -> Result<(), Reported> {
        let dtype = self.body.types.resolve_scalar(pattern.ty).unwrap_or(DType::I32);
        let variable = VarId::from_index(self.variables.len());
        self.variables.push(Variable { name: self.pattern_name(pattern), dtype });
        let before = std::mem::take(&mut self.out);
        self.bind_parameter(pattern, &[variable]);
        let values = self.expression(body);
        let statements = std::mem::replace(&mut self.out, before);
        values?;
        // A body that sets its own loop variable sets a copy: the count goes on.
        let set = statements.iter().any(|s| super::assigns_what(s, &Expr::Variable(variable)));
        let statements = if set { self.copy_loop_variable(variable, statements) } else { statements };
        if start < end {
            self.out.push(Stmt::For { variable, start, end, body: statements });
        }
        Ok(())
    }

    /// Renames a loop variable that the body sets.
    fn copy_loop_variable(&mut self, variable: VarId, mut statements: Vec<Stmt>) -> Vec<Stmt> {
        let copy = VarId::from_index(self.variables.len());
        self.variables.push(self.variables[variable.index()].clone());
        statements.iter_mut().for_each(|statement| rename_in_statement(statement, variable, copy));
        statements.insert(0, Stmt::Assign { variable: copy, value: Expr::Variable(variable) });
        statements
    }
}

/// The tests that there are, joined by an operation.
fn join(tests: impl IntoIterator<Item = Option<Expr>>, op: ScalarOp) -> Option<Expr> {
    tests.into_iter().flatten().reduce(|a, b| Expr::Op(op, vec![a, b]))
}

fn rename_in_statement(statement: &mut Stmt, from: VarId, to: VarId) {
    let rename = |variable: &mut VarId| {
        if *variable == from {
            *variable = to;
        }
    };
    match statement {
        Stmt::Assign { variable, value } => {
            rename(variable);
            rename_in_expr(value, from, to);
        }
        Stmt::If { condition, then, otherwise } => {
            rename_in_expr(condition, from, to);
            then.iter_mut().chain(otherwise).for_each(|statement| rename_in_statement(statement, from, to));
        }
        Stmt::For { body, .. } => {
            body.iter_mut().for_each(|statement| rename_in_statement(statement, from, to));
        }
    }
}

fn rename_in_expr(expr: &mut Expr, from: VarId, to: VarId) {
    if !mentions(expr, from) {
        return;
    }
    match expr {
        Expr::Constant(_) => {}
        Expr::Variable(variable) => *variable = to,
        Expr::Op(_, args) | Expr::Call { args, .. } => {
            args.iter_mut().for_each(|arg| rename_in_expr(arg, from, to));
        }
    }
}
