//! Scalar functions: what the user wrote as `#[op]` and `#[reduce]`.

use super::literal::print_literal;
use super::names::Scope;
use super::operand::Operand;
use super::operation::{Context, print_operation};
use super::writer::Writer;
use crate::dtype::DType;
use crate::id::VarId;
use crate::scalar::{Expr, ScalarFn, Stmt};
use std::collections::BTreeSet;

/// How a function is called.
pub(super) struct Signature {
    /// Its name within the namespace `op`.
    pub(super) name: String,
    /// The dtypes of its results; of one it is the function's own type, several are members `r0`, `r1` … of a struct.
    results: Vec<DType>,
    /// A last parameter takes note of integer divisions by zero.
    pub(super) faults: bool,
}

/// The names and results of a kernel's functions.
pub(super) fn declare_functions(functions: &[ScalarFn]) -> Vec<Signature> {
    let mut scope = Scope::default();
    let mut signatures: Vec<Signature> = Vec::new();
    for function in functions {
        let results = function.results.iter();
        let results = results.map(|e| function.expr_dtype(functions, e).unwrap_or(DType::F32).compute());
        let results = results.collect();
        let faults = any_expr(function, &mut |e| match e {
            Expr::Op(op, args) => {
                args.first().and_then(|a| function.expr_dtype(functions, a)).is_some_and(|d| op.may_fault(d))
            }
            Expr::Call { function, .. } => signatures.get(function.index()).is_some_and(|s| s.faults),
            Expr::Constant(_) | Expr::Variable(_) => false,
        });
        signatures.push(Signature { name: scope.take(&function.name), results, faults });
    }
    signatures
}

/// The functions, in a namespace of their own.
pub(super) fn print_functions(functions: &[ScalarFn], signatures: &[Signature], fast: bool) -> String {
    if functions.is_empty() {
        return String::new();
    }
    let mut text = String::from("namespace op {\n\n");
    for (function, signature) in functions.iter().zip(signatures) {
        text.push_str(&print_function(functions, function, signatures, signature, fast));
        text.push('\n');
    }
    text.push_str("}  // namespace op\n\n");
    text
}

fn print_function(
    functions: &[ScalarFn],
    function: &ScalarFn,
    signatures: &[Signature],
    signature: &Signature,
    fast: bool,
) -> String {
    let mut scope = Scope::default();
    let names: Vec<String> = function.variables.iter().map(|v| scope.take(&v.name)).collect();
    let fault = scope.take("fault");
    let mut printer =
        Printer { functions, function, signatures, names, fault: &fault, fast, out: Writer::default() };
    let count = function.parameters as usize;
    let typed = |k: usize| format!("{} {}", function.variables[k].dtype, printer.names[k]);
    let mut parameters: Vec<String> = (0..count).map(typed).collect();
    if signature.faults {
        parameters.push(format!("bool& {fault}"));
    }
    let name = &signature.name;
    let of = match signature.results.as_slice() {
        [one] => one.name().to_owned(),
        several => {
            printer.out.line(format!("struct {name}_results {{"));
            printer.out.indent();
            for (k, dtype) in several.iter().enumerate() {
                printer.out.line(format!("{dtype} r{k};"));
            }
            printer.out.outdent();
            printer.out.line("};");
            printer.out.line("");
            format!("{name}_results")
        }
    };
    printer.out.line(format!("FUSE_DEVICE {of} {name}({}) {{", parameters.join(", ")));
    printer.out.indent();
    let locals = (count..function.variables.len()).map(VarId::from_index).collect();
    let in_results = function.results.iter().flat_map(variables_of).collect();
    printer.print_block(&function.body, locals, &in_results);
    let results: Vec<String> = function.results.iter().map(|e| printer.print(e).text).collect();
    let text = results.join(", ");
    printer.out.line(if results.len() == 1 {
        format!("return {text};")
    } else {
        format!("return {{{text}}};")
    });
    printer.out.outdent();
    printer.out.line("}");
    printer.out.finish()
}

struct Printer<'a> {
    functions: &'a [ScalarFn],
    function: &'a ScalarFn,
    signatures: &'a [Signature],
    names: Vec<String>,
    fault: &'a str,
    fast: bool,
    out: Writer,
}

impl Printer<'_> {
    fn dtype(&self, variable: VarId) -> DType {
        self.function.variables[variable.index()].dtype
    }

    fn print(&self, e: &Expr) -> Operand {
        match e {
            Expr::Constant(value) => print_literal(*value),
            Expr::Variable(v) => Operand::primary(&self.names[v.index()], self.dtype(*v)),
            Expr::Op(op, args) => {
                let args: Vec<Operand> = args.iter().map(|a| self.print(a)).collect();
                print_operation(Context { fast: self.fast, fault: Some(self.fault) }, *op, &args)
            }
            Expr::Call { function, args, result } => {
                let Some(callee) = self.signatures.get(function.index()) else {
                    return Operand::primary("", DType::F32);
                };
                let mut args: Vec<Operand> = args.iter().map(|a| self.print(a)).collect();
                if callee.faults {
                    args.push(Operand { faults: true, ..Operand::primary(self.fault, DType::Bool) });
                }
                let dtype = self.function.expr_dtype(self.functions, e).unwrap_or(DType::F32).compute();
                let faults = args.iter().any(|a| a.faults);
                let mut call = super::operation::call(&callee.name, &args, dtype);
                if callee.results.len() != 1 {
                    call.text.push_str(&format!(".r{result}"));
                }
                Operand { faults, ..call }
            }
        }
    }

    /// A block in which the `locals` are declared: each where it is first set, or before the statement that sets it. What
    /// stands in one inner block only is declared there. `later` are read after the block.
    fn print_block(&mut self, block: &[Stmt], locals: BTreeSet<VarId>, later: &BTreeSet<VarId>) {
        let mut open = locals;
        for (k, stmt) in block.iter().enumerate() {
            let mut rest = later.clone();
            block[k + 1..].iter().for_each(|s| collect_variables(s, &mut rest));
            let mut here = BTreeSet::new();
            collect_variables(stmt, &mut here);
            let new: BTreeSet<VarId> = open.intersection(&here).copied().collect();
            open = open.difference(&here).copied().collect();
            let (outer, inner): (BTreeSet<VarId>, BTreeSet<VarId>) =
                new.into_iter().partition(|v| rest.contains(v) || !stands_in_one_block(stmt, *v));
            if let Stmt::Assign { variable, value } = stmt {
                let declaration = if outer.contains(variable) || inner.contains(variable) {
                    format!("{} ", self.dtype(*variable))
                } else {
                    String::new()
                };
                let line =
                    format!("{declaration}{} = {};", self.names[variable.index()], self.print(value).text);
                self.out.line(line);
                continue;
            }
            for variable in outer {
                let line = format!("{} {};", self.dtype(variable), self.names[variable.index()]);
                self.out.line(line);
            }
            self.print_nested(stmt, inner);
        }
    }

    fn print_nested(&mut self, stmt: &Stmt, inner: BTreeSet<VarId>) {
        let none = BTreeSet::new();
        match stmt {
            Stmt::Assign { .. } => {}
            Stmt::If { condition, then, otherwise } => {
                self.out.line(format!("if ({}) {{", self.print(condition).text));
                self.out.indent();
                self.print_block(then, inner.clone(), &none);
                self.out.outdent();
                if !otherwise.is_empty() {
                    self.out.line("} else {");
                    self.out.indent();
                    self.print_block(otherwise, inner, &none);
                    self.out.outdent();
                }
                self.out.line("}");
            }
            Stmt::For { variable, start, end, body } => {
                let (name, dtype) = (self.names[variable.index()].clone(), self.dtype(*variable));
                // The counter has 64 bits: the end need not fit the variable.
                let counter = format!("{name}_counter");
                self.out
                    .line(format!("for (i64 {counter} = {start}ll; {counter} < {end}ll; ++{counter}) {{"));
                self.out.indent();
                let declared = if inner.contains(variable) { format!("{dtype} ") } else { String::new() };
                self.out.line(format!("{declared}{name} = {dtype}({counter});"));
                let mut inner = inner;
                inner.remove(variable);
                self.print_block(body, inner, &none);
                self.out.outdent();
                self.out.line("}");
            }
        }
    }
}

/// Whether a variable stands in one block within the statement and nowhere else.
fn stands_in_one_block(stmt: &Stmt, variable: VarId) -> bool {
    let within = |block: &[Stmt]| {
        let mut all = BTreeSet::new();
        block.iter().for_each(|s| collect_variables(s, &mut all));
        all.contains(&variable)
    };
    match stmt {
        Stmt::Assign { .. } => true,
        Stmt::If { condition, then, otherwise } => {
            !variables_of(condition).contains(&variable) && within(then) != within(otherwise)
        }
        Stmt::For { .. } => true,
    }
}

fn variables_of(e: &Expr) -> BTreeSet<VarId> {
    let mut all = BTreeSet::new();
    let mut open = vec![e];
    while let Some(e) = open.pop() {
        match e {
            Expr::Constant(_) => {}
            Expr::Variable(v) => {
                all.insert(*v);
            }
            Expr::Op(_, args) | Expr::Call { args, .. } => open.extend(args),
        }
    }
    all
}

fn collect_variables(stmt: &Stmt, all: &mut BTreeSet<VarId>) {
    match stmt {
        Stmt::Assign { variable, value } => {
            all.insert(*variable);
            all.extend(variables_of(value));
        }
        Stmt::If { condition, then, otherwise } => {
            all.extend(variables_of(condition));
            then.iter().chain(otherwise).for_each(|s| collect_variables(s, all));
        }
        Stmt::For { variable, body, .. } => {
            all.insert(*variable);
            body.iter().for_each(|s| collect_variables(s, all));
        }
    }
}

/// Whether `f` holds for any expression of a function.
fn any_expr(function: &ScalarFn, f: &mut impl FnMut(&Expr) -> bool) -> bool {
    fn in_expr(e: &Expr, f: &mut impl FnMut(&Expr) -> bool) -> bool {
        let args: &[Expr] = match e {
            Expr::Constant(_) | Expr::Variable(_) => &[],
            Expr::Op(_, args) | Expr::Call { args, .. } => args,
        };
        f(e) || args.iter().any(|a| in_expr(a, f))
    }
    fn in_block(block: &[Stmt], f: &mut impl FnMut(&Expr) -> bool) -> bool {
        block.iter().any(|stmt| match stmt {
            Stmt::Assign { value, .. } => in_expr(value, f),
            Stmt::If { condition, then, otherwise } => {
                in_expr(condition, f) || in_block(then, f) || in_block(otherwise, f)
            }
            Stmt::For { body, .. } => in_block(body, f),
        })
    }
    in_block(&function.body, f) || function.results.iter().any(|e| in_expr(e, f))
}
