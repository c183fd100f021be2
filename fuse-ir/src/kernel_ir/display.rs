//! Kernels as text: what golden files hold and what a reader of a fault sees.

use super::expr::{Builtin, Expr};
use super::size::{Condition, Size};
use super::stmt::{Access, Block, Memory, Scope, ShuffleKind, Slots, Source, Stmt, Target, Unroll, VoteKind};
use super::{Kernel, LocalKind, ParamKind, Usage};
use crate::dtype::{DType, Value};
use crate::id::LocalId;
use crate::scalar::ScalarOp;
use std::fmt::{self, Write};

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.comment.is_empty() {
            writeln!(f, "// {}", self.comment)?;
        }
        write!(f, "kernel {}(", self.name)?;
        for (k, param) in self.params.iter().enumerate() {
            f.write_str(if k == 0 { "" } else { ", " })?;
            match param.kind {
                ParamKind::Pointer { dtype, usage, align, unaliased } => {
                    let usage = match usage {
                        Usage::Read => "read",
                        Usage::Write => "write",
                        Usage::ReadWrite => "read write",
                    };
                    write!(f, "{}: *{dtype} {usage}", param.name)?;
                    if align as usize > dtype.size() {
                        write!(f, " align {align}")?;
                    }
                    f.write_str(if unaliased { "" } else { " aliased" })?;
                }
                ParamKind::Scalar { dtype, multiple_of } => {
                    write!(f, "{}: {dtype}", param.name)?;
                    if multiple_of != 1 {
                        write!(f, " multiple of {multiple_of}")?;
                    }
                }
            }
        }
        writeln!(f, ") {{")?;
        let [x, y, z] = &self.geometry.grid;
        write!(f, "    grid ({}, {}, {})", self.size(x), self.size(y), self.size(z))?;
        let [x, y, z] = self.geometry.block;
        write!(f, " block ({x}, {y}, {z}) shared {}", self.size(&self.geometry.shared_bytes))?;
        match self.geometry.resident_blocks {
            0 => writeln!(f)?,
            n => writeln!(f, " resident {n}")?,
        }
        for fact in &self.facts {
            let conditions: Vec<String> = fact.conditions.iter().map(|c| self.condition(c)).collect();
            writeln!(f, "    fact {}: {}", fact.name, conditions.join(" and "))?;
        }
        if !self.requires.is_empty() {
            let conditions: Vec<String> = self.requires.iter().map(|c| self.condition(c)).collect();
            writeln!(f, "    requires {}", conditions.join(" and "))?;
        }
        for view in &self.views {
            let (len, offset) = (self.size(&view.len), self.size(&view.offset));
            writeln!(f, "    view {}: {}[{len}] at {offset}", view.name, view.dtype)?;
        }
        let mut text = String::new();
        self.write_block(&mut text, &self.body, 1)?;
        f.write_str(&text)?;
        f.write_str("}\n")
    }
}

impl Kernel {
    /// A size with the names of its parameters.
    pub(crate) fn size(&self, size: &Size) -> String {
        let two = |name: &str, a: &Size, b: &Size| format!("{name}({}, {})", self.size(a), self.size(b));
        let infix = |sign: &str, a: &Size, b: &Size| {
            let side = |s: &Size| match s {
                Size::Add(..) | Size::Sub(..) | Size::Mul(..) | Size::Div(..) => {
                    format!("({})", self.size(s))
                }
                Size::Const(_) | Size::Param(_) | Size::CeilDiv(..) | Size::Min(..) | Size::Max(..) => {
                    self.size(s)
                }
            };
            format!("{} {sign} {}", side(a), side(b))
        };
        match size {
            Size::Const(n) => n.to_string(),
            Size::Param(id) => self.params.get(id.index()).map_or_else(|| id.to_string(), |p| p.name.clone()),
            Size::Add(a, b) => infix("+", a, b),
            Size::Sub(a, b) => infix("-", a, b),
            Size::Mul(a, b) => infix("*", a, b),
            Size::Div(a, b) => infix("/", a, b),
            Size::CeilDiv(a, b) => two("ceil_div", a, b),
            Size::Min(a, b) => two("min", a, b),
            Size::Max(a, b) => two("max", a, b),
        }
    }

    fn condition(&self, condition: &Condition) -> String {
        match condition {
            Condition::Aligned { pointer, bytes } => {
                format!("aligned({}, {bytes})", self.param(*pointer).name)
            }
            Condition::Multiple { size, of } => format!("multiple({}, {of})", self.size(size)),
            Condition::Equal(a, b) => format!("{} == {}", self.size(a), self.size(b)),
            Condition::AtMost(a, b) => format!("{} <= {}", self.size(a), self.size(b)),
        }
    }

    /// An expression with the names of what it reads.
    pub fn show(&self, e: &Expr) -> String {
        let inner = |e: &Expr| match e {
            Expr::Op(op, args) if args.len() == 2 && infix_sign(*op).is_some() => {
                format!("({})", self.show(e))
            }
            _ => self.show(e),
        };
        let list = |args: &[Expr]| args.iter().map(|a| self.show(a)).collect::<Vec<_>>().join(", ");
        match e {
            Expr::Const(v) => show_value(*v),
            Expr::Local(id) => self.locals.get(id.index()).map_or_else(|| id.to_string(), |l| l.name.clone()),
            Expr::Element(id, index) => {
                let name = self.arrays.get(id.index()).map_or_else(|| id.to_string(), |a| a.name.clone());
                format!("{name}[{}]", self.show(index))
            }
            Expr::Param(id) => self.params.get(id.index()).map_or_else(|| id.to_string(), |p| p.name.clone()),
            Expr::Builtin(b) => show_builtin(*b),
            Expr::Fact(id) => self.facts.get(id.index()).map_or_else(|| id.to_string(), |c| c.name.clone()),
            Expr::Op(op, args) => match (infix_sign(*op), args.as_slice()) {
                (Some(sign), [a, b]) => format!("{} {sign} {}", inner(a), inner(b)),
                (_, _) => format!("{op}({})", list(args)),
            },
            Expr::Pack(dtype, parts) => format!("pack<{dtype}>({})", list(parts)),
            Expr::Unpack(dtype, part, word) => format!("unpack<{dtype}, {part}>({})", self.show(word)),
        }
    }

    fn name_of(&self, id: LocalId) -> &str {
        self.locals.get(id.index()).map_or("?", |l| &l.name)
    }

    fn show_slots(&self, slots: &Slots) -> String {
        let name = self.arrays.get(slots.array.index()).map_or("?", |a| a.name.as_str());
        let first = self.show(&slots.first);
        match slots.first.as_const().and_then(Value::as_i128) {
            Some(n) => format!("{name}[{first}..{}]", n + i128::from(slots.count)),
            None => format!("{name}[{first}; {}]", slots.count),
        }
    }

    fn show_access(&self, access: &Access) -> String {
        let name = match access.memory {
            Memory::Global(id) => self.params.get(id.index()).map(|p| p.name.clone()),
            Memory::Shared(id) => self.views.get(id.index()).map(|v| v.name.clone()),
        };
        format!("{}[{}]", name.unwrap_or_else(|| "?".into()), self.show(&access.index))
    }

    fn show_width(&self, access: &Access) -> String {
        match access.count {
            1 => access.dtype.name().to_owned(),
            n => format!("{}x{n}", access.dtype),
        }
    }

    /// The first line of a statement; what a message about it quotes.
    pub(crate) fn show_stmt(&self, stmt: &Stmt) -> String {
        let when = |access: &Access| match &access.when {
            Some(e) => format!(" when {}", self.show(e)),
            None => String::new(),
        };
        match stmt {
            Stmt::Comment(text) => format!("// {text}"),
            Stmt::Let { local, value } => format!("let {} = {}", self.name_of(*local), self.show(value)),
            Stmt::Register { local, value } => {
                let dtype = self.locals.get(local.index()).map_or(DType::U32, |l| l.dtype);
                format!("reg {}: {dtype} = {}", self.name_of(*local), self.show(value))
            }
            Stmt::Set { local, value } => format!("{} = {}", self.name_of(*local), self.show(value)),
            Stmt::Array { array, fill } => {
                let fill = fill.map_or_else(String::new, |v| format!(" = {}", show_value(v)));
                self.arrays.get(array.index()).map_or_else(
                    || format!("array {array}"),
                    |a| format!("array {}: {}[{}]{fill}", a.name, a.dtype, a.len),
                )
            }
            Stmt::SetElement { array, index, value } => {
                let place = Expr::Element(*array, Box::new(index.clone()));
                format!("{} = {}", self.show(&place), self.show(value))
            }
            Stmt::Load { target, access, fill } => {
                let target = match target {
                    Target::Let(id) => format!("let {}", self.name_of(*id)),
                    Target::Slots(slots) => self.show_slots(slots),
                };
                let otherwise = match &access.when {
                    Some(_) => format!(" else {}", show_value(*fill)),
                    None => String::new(),
                };
                let (width, place) = (self.show_width(access), self.show_access(access));
                format!("{target} = load.{width} {place}{}{otherwise}", when(access))
            }
            Stmt::Store { source, access } => {
                let source = match source {
                    Source::Value(e) => self.show(e),
                    Source::Slots(slots) => self.show_slots(slots),
                };
                let (width, place) = (self.show_width(access), self.show_access(access));
                format!("store.{width} {place} = {source}{}", when(access))
            }
            Stmt::Atomic { op, old, access, value } => {
                let old = old.map_or_else(String::new, |id| format!("let {} = ", self.name_of(id)));
                let op = format!("{op:?}").to_lowercase();
                let (width, place) = (self.show_width(access), self.show_access(access));
                format!("{old}atomic.{op}.{width} {place}, {}{}", self.show(value), when(access))
            }
            Stmt::CopyAsync { to, to_index, from, from_index, bytes, valid } => {
                let to = self.views.get(to.index()).map_or("?", |v| v.name.as_str());
                let from = self.params.get(from.index()).map_or("?", |p| p.name.as_str());
                let valid = valid.as_ref().map_or_else(String::new, |e| format!(" valid {}", self.show(e)));
                let (to_index, from_index) = (self.show(to_index), self.show(from_index));
                format!("cp.async.{bytes} {to}[{to_index}] = {from}[{from_index}]{valid}")
            }
            Stmt::CommitAsync => "cp.async.commit".into(),
            Stmt::WaitAsync { pending } => format!("cp.async.wait {pending}"),
            Stmt::LoadMatrix { target, transpose, view, index } => {
                let name = self.views.get(view.index()).map_or("?", |v| v.name.as_str());
                let transpose = if *transpose { ".trans" } else { "" };
                let (slots, index) = (self.show_slots(target), self.show(index));
                format!("{slots} = ldmatrix.x{}{transpose} {name}[{index}]", target.count)
            }
            Stmt::Mma { shape, d, a, b, c } => {
                let [d, a, b, c] = [d, a, b, c].map(|s| self.show_slots(s));
                format!("{d} = mma.{shape} {a}, {b}, {c}")
            }
            Stmt::Shuffle { result, kind, value, lane, width } => {
                let kind = match kind {
                    ShuffleKind::Xor => "xor",
                    ShuffleKind::Up => "up",
                    ShuffleKind::Down => "down",
                    ShuffleKind::Idx => "idx",
                };
                let (value, lane) = (self.show(value), self.show(lane));
                format!("let {} = shuffle.{kind}.{width} {value}, {lane}", self.name_of(*result))
            }
            Stmt::Vote { result, kind, value } => {
                let kind = match kind {
                    VoteKind::Any => "any",
                    VoteKind::All => "all",
                    VoteKind::Ballot => "ballot",
                };
                format!("let {} = vote.{kind} {}", self.name_of(*result), self.show(value))
            }
            Stmt::Call { results, function, args, fault } => {
                let name = |id: &Option<LocalId>| id.map_or("_", |id| self.name_of(id)).to_owned();
                let results: Vec<String> = results.iter().map(name).collect();
                let args: Vec<String> = args.iter().map(|a| self.show(a)).collect();
                let callee = self.functions.get(function.index()).map_or("?", |c| c.name.as_str());
                let fault = fault.map_or_else(String::new, |id| format!(" fault {}", self.name_of(id)));
                format!("let ({}) = call {callee}({}){fault}", results.join(", "), args.join(", "))
            }
            Stmt::If { condition, .. } => format!("if {}", self.show(condition)),
            Stmt::For { local, start, end, step, unroll, .. } => {
                let unroll = match unroll {
                    Unroll::None => String::new(),
                    Unroll::By(n) => format!(" unroll {n}"),
                    Unroll::Full => " unroll".into(),
                };
                let step = match step.as_const().and_then(Value::as_i128) {
                    Some(1) => String::new(),
                    _ => format!(" step {}", self.show(step)),
                };
                let (name, start, end) = (self.name_of(*local), self.show(start), self.show(end));
                let dtype = self.locals.get(local.index()).map_or(DType::U32, |l| l.dtype);
                format!("for {name}: {dtype} in {start}..{end}{step}{unroll}")
            }
            Stmt::Barrier(Scope::Block) => "barrier.block".into(),
            Stmt::Barrier(Scope::Warp) => "barrier.warp".into(),
        }
    }

    fn write_block(&self, text: &mut String, block: &Block, depth: usize) -> fmt::Result {
        let indent = "    ".repeat(depth);
        for stmt in block {
            write!(text, "{indent}{}", self.show_stmt(stmt))?;
            match stmt {
                Stmt::If { then, otherwise, .. } => {
                    text.push_str(" {\n");
                    self.write_block(text, then, depth + 1)?;
                    if !otherwise.is_empty() {
                        writeln!(text, "{indent}}} else {{")?;
                        self.write_block(text, otherwise, depth + 1)?;
                    }
                    writeln!(text, "{indent}}}")?;
                }
                Stmt::For { body, .. } => {
                    text.push_str(" {\n");
                    self.write_block(text, body, depth + 1)?;
                    writeln!(text, "{indent}}}")?;
                }
                _ => text.push('\n'),
            }
        }
        Ok(())
    }
}

impl fmt::Display for LocalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LocalKind::Let => "let",
            LocalKind::Register => "register",
            LocalKind::Loop => "loop variable",
        })
    }
}

/// A literal: u32, f32 and bool as they are, others with their dtype.
fn show_value(value: Value) -> String {
    match value {
        Value::U32(_) | Value::F32(_) | Value::Bool(_) => value.to_string(),
        _ => format!("{value}{}", value.dtype()),
    }
}

fn show_builtin(b: Builtin) -> String {
    let dimension = |d: u8| ["x", "y", "z"].get(usize::from(d)).copied().unwrap_or("?");
    match b {
        Builtin::Thread(d) => format!("thread.{}", dimension(d)),
        Builtin::Block(d) => format!("block.{}", dimension(d)),
        Builtin::GridDim(d) => format!("grid.{}", dimension(d)),
        Builtin::Lane => "lane".into(),
        Builtin::Warp => "warp".into(),
    }
}

/// The sign of an operation that is written between its operands.
fn infix_sign(op: ScalarOp) -> Option<&'static str> {
    Some(match op {
        ScalarOp::Add => "+",
        ScalarOp::Sub => "-",
        ScalarOp::Mul => "*",
        ScalarOp::Div => "/",
        ScalarOp::Rem => "%",
        ScalarOp::And => "&",
        ScalarOp::Or => "|",
        ScalarOp::Xor => "^",
        ScalarOp::Shl => "<<",
        ScalarOp::Shr => ">>",
        ScalarOp::Eq => "==",
        ScalarOp::Ne => "!=",
        ScalarOp::Lt => "<",
        ScalarOp::Le => "<=",
        ScalarOp::Gt => ">",
        ScalarOp::Ge => ">=",
        _ => return None,
    })
}
