//! From the typed tree to a [`ScalarFn`]: tuples flattened, control flow reduced to assignments, `if` and counted loops.
//!
//! A branch without faults and loops is computed whether it is taken or not, and the result is selected, so that loops
//! over elements vectorise; a branch that may fault stays an `if`, which keeps short-circuit evaluation. Every variable
//! is assigned where it is declared.

mod control;

use super::literal::Literal;
use super::tree::{Body, Kind, Node, Pattern, PatternKind, Statement};
use super::{ScalarItems, ScalarType};
use crate::diagnostic::{Diagnostics, Reported, messages};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::id::VarId;
use fuse_ir::scalar::{Expr, ScalarFn, ScalarOp, Stmt, Variable};

/// Lowers a checked body. The functions that it calls have been lowered before. Reports literals out of range and loop
/// bounds that are not constant, which are known only now.
pub(super) fn generate_function(
    name: &str,
    body: &Body,
    items: &ScalarItems,
    diagnostics: &mut Diagnostics,
) -> Result<ScalarFn, Reported> {
    let mut generator = Generator {
        body,
        items,
        diagnostics,
        variables: Vec::new(),
        locals: vec![Vec::new(); body.locals.len()],
        out: Vec::new(),
    };
    let mut parameters = Vec::new();
    for pattern in &body.parameters {
        let ty = body.types.resolve(pattern.ty);
        let hint = generator.pattern_name(pattern);
        parameters.push(generator.fresh(&hint, &ty));
    }
    let count = generator.variables.len() as u32;
    for (pattern, variables) in body.parameters.iter().zip(parameters) {
        generator.bind_parameter(pattern, &variables);
    }
    let results = generator.expression(&body.value)?;
    Ok(ScalarFn {
        name: name.to_string(),
        parameters: count,
        variables: generator.variables,
        body: generator.out,
        results,
    })
}

struct Generator<'a> {
    body: &'a Body,
    items: &'a ScalarItems,
    diagnostics: &'a mut Diagnostics,
    variables: Vec<Variable>,
    /// The flattened variables of each local.
    locals: Vec<Vec<VarId>>,
    /// The statements of the block under construction.
    out: Vec<Stmt>,
}

impl Generator<'_> {
    /// New variables for a value of a type.
    fn fresh(&mut self, name: &str, ty: &ScalarType) -> Vec<VarId> {
        let dtypes = ty.flatten();
        let single = dtypes.len() == 1;
        let mut ids = Vec::new();
        for (index, dtype) in dtypes.into_iter().enumerate() {
            ids.push(VarId::from_index(self.variables.len()));
            let name = if single { name.to_string() } else { format!("{name}_{index}") };
            self.variables.push(Variable { name, dtype });
        }
        ids
    }

    fn type_of(&self, node: &Node) -> ScalarType {
        self.body.types.resolve(node.ty)
    }

    fn dtype_of(&self, node: &Node) -> DType {
        self.type_of(node).flatten().first().copied().unwrap_or(DType::Bool)
    }

    /// The variables of a local, which its first use makes.
    fn variables_of(&mut self, local: super::tree::LocalId) -> Vec<VarId> {
        let index = local.0 as usize;
        if self.locals[index].is_empty() {
            let local = &self.body.locals[index];
            let ty = self.body.types.resolve(local.ty);
            self.locals[index] = self.fresh(&local.name, &ty);
        }
        self.locals[index].clone()
    }

    /// The name for the variable that a pattern takes apart.
    fn pattern_name(&self, pattern: &Pattern) -> String {
        match &pattern.kind {
            PatternKind::Binding { local, .. } => self.body.locals[local.0 as usize].name.clone(),
            _ => "argument".into(),
        }
    }

    /// A parameter that is one name is the variable itself; any other pattern takes it apart.
    fn bind_parameter(&mut self, pattern: &Pattern, variables: &[VarId]) {
        if let PatternKind::Binding { local, inner: None } = &pattern.kind {
            self.locals[local.0 as usize] = variables.to_vec();
        } else {
            self.bind(pattern, variables.iter().map(|&variable| Expr::Variable(variable)).collect());
        }
    }

    /// Assigns the names of a pattern.
    fn bind(&mut self, pattern: &Pattern, values: Vec<Expr>) {
        match &pattern.kind {
            PatternKind::Wildcard
            | PatternKind::Constant(_)
            | PatternKind::Range { .. }
            | PatternKind::Or(_) => {}
            PatternKind::Binding { local, inner } => {
                let variables = self.variables_of(*local);
                self.assign(&variables, values.clone());
                if let Some(inner) = inner {
                    self.bind(inner, values);
                }
            }
            PatternKind::Tuple(elements) => {
                let mut values = values.into_iter();
                for element in elements {
                    let count = self.body.types.resolve(element.ty).flatten().len();
                    let part = values.by_ref().take(count).collect();
                    self.bind(element, part);
                }
            }
        }
    }

    /// Assigns several variables at once: no value sees another's assignment.
    fn assign(&mut self, variables: &[VarId], values: Vec<Expr>) {
        let overlaps = (1..values.len()).any(|i| variables[..i].iter().any(|v| mentions(&values[i], *v)));
        let values =
            if overlaps { values.into_iter().map(|value| self.spill(value)).collect() } else { values };
        for (&variable, value) in variables.iter().zip(values) {
            if value != Expr::Variable(variable) {
                self.out.push(Stmt::Assign { variable, value });
            }
        }
    }

    /// The value in a variable of its own, unless it is a constant.
    fn spill(&mut self, value: Expr) -> Expr {
        if let Expr::Constant(_) = value {
            return value;
        }
        let dtype = self.expr_dtype(&value);
        let variable = VarId::from_index(self.variables.len());
        self.variables.push(Variable { name: format!("t{}", self.variables.len()), dtype });
        self.out.push(Stmt::Assign { variable, value });
        Expr::Variable(variable)
    }

    /// The value in a form that may be repeated without cost.
    fn reuse(&mut self, value: Expr) -> Expr {
        if let Expr::Constant(_) | Expr::Variable(_) = value { value } else { self.spill(value) }
    }

    fn expr_dtype(&self, expr: &Expr) -> DType {
        expr_dtype(expr, &self.variables, self.items)
    }

    /// Whether evaluating an expression may fault.
    fn may_fault(&self, expr: &Expr) -> bool {
        may_fault(expr, self.items, &|expr| self.expr_dtype(expr))
    }

    /// Evaluates operands from left to right. An earlier one keeps its value when a later one has effects.
    fn operands<'n>(
        &mut self,
        nodes: impl IntoIterator<Item = &'n Node>,
    ) -> Result<Vec<Vec<Expr>>, Reported> {
        let mut operands: Vec<Vec<Expr>> = Vec::new();
        for node in nodes {
            let before = std::mem::take(&mut self.out);
            let values = self.expression(node)?;
            let effects = std::mem::replace(&mut self.out, before);
            for value in operands.iter_mut().flatten() {
                if effects.iter().any(|effect| assigns_what(effect, value)) {
                    *value = self.spill(value.clone());
                }
            }
            self.out.extend(effects);
            operands.push(values);
        }
        Ok(operands)
    }

    /// One operand that is a scalar.
    fn scalar(&mut self, node: &Node) -> Result<Expr, Reported> {
        let values = self.expression(node)?;
        Ok(values.into_iter().next().unwrap_or(Expr::Constant(Value::Bool(false))))
    }

    /// The flattened values of an expression; what it does besides goes to `out`.
    fn expression(&mut self, node: &Node) -> Result<Vec<Expr>, Reported> {
        match &node.kind {
            Kind::Literal { literal, negated } => Ok(vec![self.literal(node, literal, *negated)?]),
            Kind::FloatConstant { f32, f64 } => Ok(vec![Expr::Constant(match self.dtype_of(node) {
                DType::F64 => Value::F64(*f64),
                _ => Value::F32(*f32),
            })]),
            Kind::Value(value) => Ok(vec![Expr::Constant(*value)]),
            Kind::Local(local) => Ok(self.variables_of(*local).into_iter().map(Expr::Variable).collect()),
            Kind::Discard => Ok(Vec::new()),
            Kind::Tuple(elements) => Ok(self.operands(elements)?.concat()),
            Kind::Field(base, index) => {
                let values = self.expression(base)?;
                let (start, count) = field_range(&self.type_of(base), *index);
                Ok(values.into_iter().skip(start).take(count).collect())
            }
            Kind::Op(ScalarOp::Select, args) => self.select(args),
            Kind::Op(op, args) => Ok(vec![Expr::Op(*op, self.operands(args)?.concat())]),
            Kind::Shift(op, left, right) => {
                let count_dtype = self.dtype_of(right);
                let mut args = self.operands([&**left, &**right])?.concat();
                if let Some(count) = args.pop() {
                    args.push(shift_count(count, count_dtype));
                }
                Ok(vec![Expr::Op(*op, args)])
            }
            Kind::Cast(operand, dtype) => {
                let from = self.dtype_of(operand);
                let value = self.scalar(operand)?;
                Ok(vec![if from == *dtype { value } else { cast(value, *dtype) }])
            }
            Kind::RoundTo(operand, dtype) => {
                let value = self.scalar(operand)?;
                Ok(vec![cast(cast(value, *dtype), DType::F32)])
            }
            Kind::Method(method, args) => {
                let receiver = args.first().map_or(DType::Bool, |receiver| self.dtype_of(receiver));
                let mut values = self.operands(args)?.concat();
                if method.op().is_none() {
                    values = values.into_iter().map(|value| self.reuse(value)).collect();
                }
                Ok(method.expand(receiver, values))
            }
            Kind::Call { name, args } => self.call(name, args),
            Kind::ShortCircuit { and, left, right } => self.short_circuit(*and, left, right),
            Kind::If { condition, then, otherwise } => {
                let condition = self.scalar(condition)?;
                let ty = self.type_of(node);
                self.branch(
                    condition,
                    &ty,
                    |this| this.expression(then),
                    |this| match otherwise {
                        Some(otherwise) => this.expression(otherwise),
                        None => Ok(Vec::new()),
                    },
                )
            }
            Kind::Match { scrutinee, arms } => {
                let values = self.expression(scrutinee)?;
                let values: Vec<Expr> = values.into_iter().map(|value| self.spill(value)).collect();
                let ty = self.type_of(node);
                self.arms(arms, &values, &ty)
            }
            Kind::Block { statements, tail } => {
                for statement in statements {
                    self.statement(statement)?;
                }
                tail.as_ref().map_or(Ok(Vec::new()), |tail| self.expression(tail))
            }
            Kind::Assign { target, value } => {
                let values = self.expression(value)?;
                let variables = self.target(target);
                self.assign(&variables, values);
                Ok(Vec::new())
            }
            Kind::AssignOp { op, target, value } => {
                let mut right = self.scalar(value)?;
                if matches!(op, ScalarOp::Shl | ScalarOp::Shr) {
                    right = shift_count(right, self.dtype_of(value));
                }
                // The target is read after the value was evaluated, which may have set it.
                let variables = self.target(target);
                let left = variables.iter().map(|&variable| Expr::Variable(variable));
                let values = left.map(|left| Expr::Op(*op, vec![left, right.clone()])).collect();
                self.assign(&variables, values);
                Ok(Vec::new())
            }
            Kind::For { variable, start, end, inclusive, body } => {
                let (start, end) = self.loop_bounds(start, end, *inclusive)?;
                self.repeat(variable, start, end, body)?;
                Ok(Vec::new())
            }
        }
    }

    fn literal(&mut self, node: &Node, literal: &Literal, negated: bool) -> Result<Expr, Reported> {
        let dtype = self.dtype_of(node);
        literal.value(dtype, negated).map(Expr::Constant).ok_or_else(|| {
            let text = match literal {
                Literal::Int { magnitude, .. } => magnitude.to_string(),
                Literal::Float { digits, .. } => digits.clone(),
                Literal::Bool(value) => value.to_string(),
            };
            let sign = if negated { "-" } else { "" };
            self.diagnostics.report(messages::literal_out_of_range(
                node.place,
                &format!("{sign}{text}"),
                dtype,
            ))
        })
    }

    /// `select` over tuples selects each component.
    fn select(&mut self, args: &[Node]) -> Result<Vec<Expr>, Reported> {
        let operands = self.operands(args)?;
        let [condition, a, b] = <[Vec<Expr>; 3]>::try_from(operands).unwrap_or_default();
        let Some(condition) = condition.into_iter().next() else { return Ok(Vec::new()) };
        let condition = if a.len() == 1 { condition } else { self.reuse(condition) };
        Ok(a.into_iter()
            .zip(b)
            .map(|(a, b)| Expr::Op(ScalarOp::Select, vec![condition.clone(), a, b]))
            .collect())
    }

    fn call(&mut self, name: &str, args: &[Node]) -> Result<Vec<Expr>, Reported> {
        let mut args = self.operands(args)?.concat();
        let Some(signature) = self.items.by_name.get(name) else { return Ok(Vec::new()) };
        let count = signature.results.len();
        if count > 1 {
            args = args.into_iter().map(|arg| self.reuse(arg)).collect();
        }
        let function = signature.id;
        Ok((0..count as u32).map(|result| Expr::Call { function, args: args.clone(), result }).collect())
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Reported> {
        match statement {
            Statement::Let { pattern, value: Some(value) } => {
                let values = self.expression(value)?;
                self.bind(pattern, values);
            }
            Statement::Let { pattern, value: None } => {
                let zeros = self.body.types.resolve(pattern.ty).flatten();
                let zeros = zeros.into_iter().map(|dtype| Expr::Constant(Value::zero(dtype))).collect();
                self.bind(pattern, zeros);
            }
            Statement::Expr(node) => {
                for value in self.expression(node)? {
                    // Only a fault can be seen of a value that is dropped.
                    if self.may_fault(&value) {
                        self.spill(value);
                    }
                }
            }
        }
        Ok(())
    }

    /// The variables that an assignment sets.
    fn target(&mut self, target: &Node) -> Vec<VarId> {
        match &target.kind {
            Kind::Local(local) => self.variables_of(*local),
            Kind::Field(base, index) => {
                let (start, count) = field_range(&self.type_of(base), *index);
                self.target(base).into_iter().skip(start).take(count).collect()
            }
            Kind::Tuple(elements) => elements.iter().flat_map(|element| self.target(element)).collect(),
            Kind::Discard => {
                let ty = self.type_of(target);
                self.fresh("discarded", &ty)
            }
            _ => Vec::new(),
        }
    }
}

/// The dtype of an expression over variables.
fn expr_dtype(expr: &Expr, variables: &[Variable], items: &ScalarItems) -> DType {
    match expr {
        Expr::Constant(value) => value.dtype(),
        Expr::Variable(variable) => variables[variable.index()].dtype,
        Expr::Op(op, args) => {
            let args: Vec<DType> = args.iter().map(|arg| expr_dtype(arg, variables, items)).collect();
            // Checked bodies are well typed; the fallback is never seen.
            op.result_dtype(&args).unwrap_or(DType::Bool)
        }
        Expr::Call { function, result, .. } => items.facts[function.index()].results[*result as usize],
    }
}

/// Whether evaluating an expression may fault: a division of integers does, unless its divisor is a constant.
pub(super) fn may_fault(expr: &Expr, items: &ScalarItems, dtype: &dyn Fn(&Expr) -> DType) -> bool {
    match expr {
        Expr::Constant(_) | Expr::Variable(_) => false,
        Expr::Op(op, args) => {
            let safe = matches!(args.get(1), Some(Expr::Constant(divisor)) if divisor.as_i128() != Some(0));
            let faults = !safe && args.first().is_some_and(|arg| op.may_fault(dtype(arg)));
            faults || args.iter().any(|arg| may_fault(arg, items, dtype))
        }
        Expr::Call { function, args, .. } => {
            items.facts[function.index()].may_fault || args.iter().any(|arg| may_fault(arg, items, dtype))
        }
    }
}

/// Where the flattened field of a tuple starts, and how many values it has.
fn field_range(ty: &ScalarType, index: usize) -> (usize, usize) {
    match ty {
        ScalarType::Tuple(elements) => {
            let start = elements[..index].iter().map(|element| element.flatten().len()).sum();
            (start, elements[index].flatten().len())
        }
        ScalarType::Scalar(_) => (0, 1),
    }
}

/// The count of a shift, of any integer dtype: the operation masks it, and its low bits are the same in every dtype.
fn shift_count(count: Expr, dtype: DType) -> Expr {
    if dtype == DType::U32 { count } else { cast(count, DType::U32) }
}

fn cast(value: Expr, dtype: DType) -> Expr {
    Expr::Op(ScalarOp::Cast(dtype), vec![value])
}

/// Whether an expression reads a variable.
fn mentions(expr: &Expr, variable: VarId) -> bool {
    match expr {
        Expr::Constant(_) => false,
        Expr::Variable(other) => *other == variable,
        Expr::Op(_, args) | Expr::Call { args, .. } => args.iter().any(|arg| mentions(arg, variable)),
    }
}

/// Whether a statement sets a variable that an expression reads.
fn assigns_what(statement: &Stmt, expr: &Expr) -> bool {
    match statement {
        Stmt::Assign { variable, .. } => mentions(expr, *variable),
        Stmt::If { then, otherwise, .. } => {
            then.iter().chain(otherwise).any(|statement| assigns_what(statement, expr))
        }
        Stmt::For { variable, body, .. } => {
            mentions(expr, *variable) || body.iter().any(|statement| assigns_what(statement, expr))
        }
    }
}
