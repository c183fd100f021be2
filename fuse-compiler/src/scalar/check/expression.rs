//! Expressions but calls.

use super::super::constant_path::{PathConstant, constant_path};
use super::super::literal::Literal;
use super::super::method::Class;
use super::super::signature::read_type;
use super::super::tree::{Arm, Kind, Node, Rewrite};
use super::super::types::TypeId;
use super::super::{ScalarType, signature};
use super::{Binding, Checker, address};
use crate::diagnostic::{Place, Reported, messages};
use fuse_ir::dtype::DType;
use fuse_ir::scalar::ScalarOp;
use proc_macro2::Span;
use std::collections::HashMap;
use syn::spanned::Spanned;

impl Checker<'_> {
    /// Checks one expression. What it consists of is poisoned where that has errors, so that all are found.
    pub(super) fn check_expression(&mut self, expr: &syn::Expr) -> Result<Node, Reported> {
        let place = Place::of(expr);
        match expr {
            syn::Expr::Paren(inner) => self.expression(&inner.expr),
            syn::Expr::Group(inner) => self.expression(&inner.expr),
            syn::Expr::Lit(literal) => self.literal(&literal.lit, false, place),
            syn::Expr::Path(path) => self.path(expr, path),
            syn::Expr::Tuple(tuple) => {
                let elements = tuple.elems.iter().map(|element| self.expression(element));
                let elements: Vec<Node> = elements.collect::<Result<_, _>>()?;
                let ty = self.types.tuple(elements.iter().map(|element| element.ty).collect());
                Ok(Node { ty, place, kind: Kind::Tuple(elements) })
            }
            syn::Expr::Field(field) => self.field(field, place),
            syn::Expr::Unary(unary) => self.unary(expr, unary),
            syn::Expr::Binary(binary) => self.binary(expr, binary),
            syn::Expr::Cast(cast) => self.cast(cast),
            syn::Expr::Assign(assign) => {
                let target = self.target(&assign.left)?;
                let value = self.expression(&assign.right)?;
                self.expect(&value, target.ty);
                let kind = Kind::Assign { target: Box::new(target), value: Box::new(value) };
                Ok(Node { ty: self.types.unit(), place, kind })
            }
            syn::Expr::Block(block) if block.label.is_none() => self.block(&block.block, place),
            syn::Expr::If(branch) => self.branch(branch, place),
            syn::Expr::Match(choice) => self.choice(choice, place),
            syn::Expr::ForLoop(repeat) => self.repeat(repeat, place),
            syn::Expr::Call(call) => self.call(expr, call),
            syn::Expr::MethodCall(call) => self.method_call(expr, call),
            other => Err(self.unsupported(other)),
        }
    }

    /// The error for what the language has not, at the token that shows it.
    fn unsupported(&mut self, expr: &syn::Expr) -> Reported {
        let place = Place::of(expr);
        if let syn::Expr::Let(expr) = expr {
            self.declare_poisoned(&expr.pat);
        }
        let diagnostic = match expr {
            syn::Expr::Return(expr) => messages::early_return_in_scalar(expr.return_token.span),
            syn::Expr::While(expr) => messages::unbounded_loop(expr.while_token.span, "while"),
            syn::Expr::Loop(expr) => messages::unbounded_loop(expr.loop_token.span, "loop"),
            syn::Expr::Break(expr) => messages::loop_jump(expr.break_token.span, "break"),
            syn::Expr::Continue(expr) => messages::loop_jump(expr.continue_token.span, "continue"),
            syn::Expr::Macro(expr) => messages::macro_in_scalar(&expr.mac.path),
            syn::Expr::Closure(_) => messages::closure_in_scalar(place.start),
            syn::Expr::Reference(expr) => messages::reference_in_scalar(expr.and_token.span.into()),
            syn::Expr::RawAddr(expr) => messages::reference_in_scalar(expr.and_token.span.into()),
            syn::Expr::Index(expr) => messages::indexing_in_scalar(expr.bracket_token.span.join()),
            syn::Expr::Let(expr) => messages::unsupported_expression(expr.let_token.span.into(), "`if let`"),
            syn::Expr::Range(expr) => messages::unsupported_expression(Place::of(&expr.limits), "a range"),
            syn::Expr::Array(_) | syn::Expr::Repeat(_) => messages::unsupported_expression(place, "an array"),
            syn::Expr::Struct(_) => messages::unsupported_expression(place, "a struct"),
            syn::Expr::Unsafe(expr) => {
                messages::unsupported_expression(expr.unsafe_token.span.into(), "`unsafe`")
            }
            syn::Expr::Async(expr) => {
                messages::unsupported_expression(expr.async_token.span.into(), "`async`")
            }
            syn::Expr::Await(expr) => {
                messages::unsupported_expression(expr.await_token.span.into(), "`await`")
            }
            syn::Expr::Try(expr) => messages::unsupported_expression(expr.question_token.span.into(), "`?`"),
            syn::Expr::Block(_) => messages::unsupported_expression(place.start.into(), "a labelled block"),
            _ => messages::unsupported_expression(place, "this expression"),
        };
        self.report(diagnostic)
    }

    fn literal(&mut self, literal: &syn::Lit, negated: bool, place: Place) -> Result<Node, Reported> {
        let read = Literal::read(literal).map_err(|error| self.report(error))?;
        let ty = match (&read, read.dtype()) {
            (_, Some(dtype)) => self.types.scalar(dtype),
            (Literal::Int { .. }, None) => self.types.integer(),
            (Literal::Float { .. } | Literal::Bool(_), None) => self.types.float(),
        };
        // The minus of a pattern is part of the token.
        let negated = negated != quote::ToTokens::to_token_stream(literal).to_string().starts_with('-');
        Ok(Node { ty, place, kind: Kind::Literal { literal: read, negated } })
    }

    fn path(&mut self, expr: &syn::Expr, path: &syn::ExprPath) -> Result<Node, Reported> {
        let place = Place::of(path);
        if let Some(name) =
            path.path.get_ident().map(|ident| ident.to_string()).filter(|_| path.qself.is_none())
        {
            if let Some(Binding::Local(local)) = self.lookup(&name) {
                return Ok(Node { ty: self.locals[local.0 as usize].ty, place, kind: Kind::Local(local) });
            }
            if let Some(value) = self.constant(&name) {
                let foreign =
                    self.surroundings.items.consts.get(&name).is_some_and(|constant| constant.is_size);
                if foreign && self.lookup(&name).is_none() {
                    let ty = self.types.scalar(value.dtype());
                    self.rewrites.insert(address(expr), (Rewrite::ConstantAs, ty));
                }
                return Ok(Node { ty: self.types.scalar(value.dtype()), place, kind: Kind::Value(value) });
            }
            let mut keys = self.surroundings.keys(&name).into_iter().flatten();
            if keys.any(|key| self.surroundings.items.poisoned.contains(&key)) {
                return Ok(self.poisoned(place));
            }
        }
        match constant_path(&path.path).filter(|_| path.qself.is_none()) {
            Some(PathConstant::Typed(value)) => {
                let ty = self.types.scalar(value.dtype());
                let mut names = path.path.segments.iter().rev().map(|segment| segment.ident.to_string());
                // `f32::consts::PI` wants an import, the whole path does not.
                if let (Some(name), Some("consts")) = (names.next(), names.next().as_deref()) {
                    self.rewrites.insert(address(expr), (Rewrite::FloatConstant { name }, ty));
                }
                Ok(Node { ty, place, kind: Kind::Value(value) })
            }
            Some(PathConstant::Float { f32, f64 }) => {
                let ty = self.types.float();
                let name = path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
                self.rewrites.insert(address(expr), (Rewrite::FloatConstant { name }, ty));
                Ok(Node { ty, place, kind: Kind::FloatConstant { f32, f64 } })
            }
            None => {
                let name = quote::quote!(#path).to_string().replace(' ', "");
                let is_op = self.surroundings.callee(&name).is_some();
                let similar = self.similar_value(&name);
                Err(self.report(messages::unknown_value(place, &name, is_op, similar.as_deref())))
            }
        }
    }

    fn field(&mut self, field: &syn::ExprField, place: Place) -> Result<Node, Reported> {
        let base = self.expression(&field.base)?;
        if self.types.is_poisoned(base.ty) {
            return Ok(self.poisoned(place));
        }
        let index = match &field.member {
            syn::Member::Unnamed(index) => Some(index.index as usize),
            syn::Member::Named(_) => None,
        };
        let element = index.and_then(|index| Some((index, *self.types.elements(base.ty)?.get(index)?)));
        match element {
            Some((index, ty)) => Ok(Node { ty, place, kind: Kind::Field(Box::new(base), index) }),
            None => {
                let ty = self.types.describe(base.ty);
                let member = &field.member;
                let name = quote::quote!(#member).to_string();
                Err(self.report(messages::no_such_field(member.span(), &name, &ty)))
            }
        }
    }

    fn unary(&mut self, expr: &syn::Expr, unary: &syn::ExprUnary) -> Result<Node, Reported> {
        let place = Place::of(unary);
        if let (syn::UnOp::Neg(_), syn::Expr::Lit(literal)) = (&unary.op, strip_parentheses(&unary.expr)) {
            let node = self.literal(&literal.lit, true, place)?;
            self.require(node.ty, Class::SignedNumber, Place::of(&unary.op), "unary `-`")?;
            return Ok(node);
        }
        let (op, class, what) = match unary.op {
            syn::UnOp::Neg(_) => (ScalarOp::Neg, Class::SignedNumber, "unary `-`"),
            syn::UnOp::Not(_) => (ScalarOp::Not, Class::Bits, "unary `!`"),
            _ => return Err(self.report(messages::reference_in_scalar(Place::of(&unary.op)))),
        };
        let operand = self.expression(&unary.expr)?;
        let ty = operand.ty;
        self.require(ty, class, Place::of(&unary.op), what)?;
        if op == ScalarOp::Neg {
            self.rewrites.insert(address(expr), (Rewrite::Wrapping { name: "wrapping_neg" }, ty));
        }
        Ok(Node { ty, place, kind: Kind::Op(op, vec![operand]) })
    }

    fn binary(&mut self, expr: &syn::Expr, binary: &syn::ExprBinary) -> Result<Node, Reported> {
        use syn::BinOp::*;
        let place = Place::of(binary);
        let at = Place::of(&binary.op);
        let symbol = quote::ToTokens::to_token_stream(&binary.op).to_string();
        let left = self.expression(&binary.left)?;
        let right = self.expression(&binary.right)?;
        let (op, class, name, assigns) = match &binary.op {
            And(_) | Or(_) => {
                let bool = self.types.scalar(DType::Bool);
                self.expect(&left, bool);
                self.expect(&right, bool);
                let and = matches!(binary.op, And(_));
                let kind = Kind::ShortCircuit { and, left: Box::new(left), right: Box::new(right) };
                return Ok(Node { ty: bool, place, kind });
            }
            Add(_) => (ScalarOp::Add, Class::Number, "wrapping_add", false),
            Sub(_) => (ScalarOp::Sub, Class::Number, "wrapping_sub", false),
            Mul(_) => (ScalarOp::Mul, Class::Number, "wrapping_mul", false),
            Div(_) => (ScalarOp::Div, Class::Number, "wrapping_div", false),
            Rem(_) => (ScalarOp::Rem, Class::Number, "wrapping_rem", false),
            BitXor(_) => (ScalarOp::Xor, Class::Bits, "", false),
            BitAnd(_) => (ScalarOp::And, Class::Bits, "", false),
            BitOr(_) => (ScalarOp::Or, Class::Bits, "", false),
            Shl(_) => (ScalarOp::Shl, Class::Int, "wrapping_shl", false),
            Shr(_) => (ScalarOp::Shr, Class::Int, "wrapping_shr", false),
            Eq(_) => (ScalarOp::Eq, Class::Number, "", false),
            Ne(_) => (ScalarOp::Ne, Class::Number, "", false),
            Lt(_) => (ScalarOp::Lt, Class::Number, "", false),
            Le(_) => (ScalarOp::Le, Class::Number, "", false),
            Gt(_) => (ScalarOp::Gt, Class::Number, "", false),
            Ge(_) => (ScalarOp::Ge, Class::Number, "", false),
            AddAssign(_) => (ScalarOp::Add, Class::Number, "wrapping_add", true),
            SubAssign(_) => (ScalarOp::Sub, Class::Number, "wrapping_sub", true),
            MulAssign(_) => (ScalarOp::Mul, Class::Number, "wrapping_mul", true),
            DivAssign(_) => (ScalarOp::Div, Class::Number, "wrapping_div", true),
            RemAssign(_) => (ScalarOp::Rem, Class::Number, "wrapping_rem", true),
            BitXorAssign(_) => (ScalarOp::Xor, Class::Bits, "", true),
            BitAndAssign(_) => (ScalarOp::And, Class::Bits, "", true),
            BitOrAssign(_) => (ScalarOp::Or, Class::Bits, "", true),
            ShlAssign(_) => (ScalarOp::Shl, Class::Int, "wrapping_shl", true),
            ShrAssign(_) => (ScalarOp::Shr, Class::Int, "wrapping_shr", true),
            _ => return Err(self.report(messages::unsupported_expression(at, "this operator"))),
        };
        let ty = left.ty;
        let shift = matches!(op, ScalarOp::Shl | ScalarOp::Shr);
        if !shift && !self.types.unify(left.ty, right.ty) {
            let (left, right) = (self.types.describe(left.ty), self.types.describe(right.ty));
            return Err(self.report(messages::mismatched_operands(at, &symbol, &left, &right)));
        }
        let compares = matches!(
            op,
            ScalarOp::Eq | ScalarOp::Ne | ScalarOp::Lt | ScalarOp::Le | ScalarOp::Gt | ScalarOp::Ge
        );
        if shift {
            self.require(right.ty, Class::Int, at, &format!("`{symbol}`"))?;
        }
        if !compares {
            self.require(ty, class, at, &format!("`{symbol}`"))?;
        } else {
            self.require(ty, Class::Scalar, at, &format!("`{symbol}`"))?;
        }
        if !name.is_empty() {
            let rewrite = if shift { Rewrite::WrappingShift { name } } else { Rewrite::Wrapping { name } };
            self.rewrites.insert(address(expr), (rewrite, ty));
        }
        if assigns {
            self.check_target(&left)?;
            let kind = Kind::AssignOp { op, target: Box::new(left), value: Box::new(right) };
            return Ok(Node { ty: self.types.unit(), place, kind });
        }
        let kind = if shift {
            Kind::Shift(op, Box::new(left), Box::new(right))
        } else {
            Kind::Op(op, vec![left, right])
        };
        let ty = if compares { self.types.scalar(DType::Bool) } else { ty };
        Ok(Node { ty, place, kind })
    }

    /// `x as f64`, and `x as f16 as f32`, which rounds.
    fn cast(&mut self, cast: &syn::ExprCast) -> Result<Node, Reported> {
        let place = Place::of(cast);
        if let Some(dtype) = signature::narrow_float(&cast.ty) {
            return Err(self.report(messages::narrow_value_in_scalar(place, dtype)));
        }
        let inner = strip_parentheses(&cast.expr);
        let operand = match inner {
            syn::Expr::Cast(narrowing) => match signature::narrow_float(&narrowing.ty) {
                Some(dtype) => {
                    let operand = self.expression(&narrowing.expr)?;
                    let ty = self.types.scalar(DType::F32);
                    self.rewrites.insert(address(inner), (Rewrite::RoundTo(dtype), ty));
                    Node { ty, place: Place::of(narrowing), kind: Kind::RoundTo(Box::new(operand), dtype) }
                }
                None => self.expression(&cast.expr)?,
            },
            _ => self.expression(&cast.expr)?,
        };
        let target = match read_type(&cast.ty, self.diagnostics)? {
            ScalarType::Scalar(dtype) => dtype,
            ScalarType::Tuple(_) => {
                let ty = &cast.ty;
                let name = quote::quote!(#ty).to_string();
                let at = Place::of(&cast.as_token);
                return Err(self.report(messages::unsupported_operand(
                    at,
                    "`as`",
                    &name,
                    Class::Scalar.name(),
                )));
            }
        };
        // As in rustc, a literal takes the type it is cast to, if that is of its kind.
        let ty = self.types.scalar(target);
        if matches!(operand.kind, Kind::Literal { .. }) && self.types.is_open_literal(operand.ty) {
            self.types.unify(operand.ty, ty);
        }
        self.require(operand.ty, Class::Scalar, Place::of(&cast.as_token), "`as`")?;
        Ok(Node { ty, place, kind: Kind::Cast(Box::new(operand), target) })
    }

    /// What can stand left of `=`: variables, their fields, `_`, and tuples of these.
    fn target(&mut self, target: &syn::Expr) -> Result<Node, Reported> {
        let place = Place::of(target);
        match strip_parentheses(target) {
            syn::Expr::Infer(_) => Ok(Node { ty: self.types.unknown(), place, kind: Kind::Discard }),
            syn::Expr::Tuple(tuple) => {
                let elements = tuple.elems.iter().map(|element| self.target(element));
                let elements: Vec<Node> = elements.collect::<Result<_, _>>()?;
                let ty = self.types.tuple(elements.iter().map(|element| element.ty).collect());
                Ok(Node { ty, place, kind: Kind::Tuple(elements) })
            }
            target => {
                let target = self.expression(target)?;
                self.check_target(&target)?;
                Ok(target)
            }
        }
    }

    /// Whether a value is one of a variable's.
    fn check_target(&mut self, target: &Node) -> Result<(), Reported> {
        match &target.kind {
            Kind::Local(_) => Ok(()),
            Kind::Field(base, _) => self.check_target(base),
            _ if self.types.is_poisoned(target.ty) => Ok(()),
            _ => Err(self.report(messages::invalid_assignment_target(target.place))),
        }
    }

    fn branch(&mut self, branch: &syn::ExprIf, place: Place) -> Result<Node, Reported> {
        let condition = self.expression(&branch.cond)?;
        let bool = self.types.scalar(DType::Bool);
        self.expect(&condition, bool);
        let then = self.block(&branch.then_branch, branch.if_token.span.into())?;
        let mut ty = then.ty;
        let otherwise = match &branch.else_branch {
            Some((_, otherwise)) => {
                let node = self.expression(otherwise)?;
                self.expect(&node, ty);
                // A branch with an error says nothing about the type.
                if self.types.is_poisoned(ty) {
                    ty = node.ty;
                }
                Some(Box::new(node))
            }
            None => {
                let unit = self.types.unit();
                self.expect(&then, unit);
                None
            }
        };
        let kind = Kind::If { condition: Box::new(condition), then: Box::new(then), otherwise };
        Ok(Node { ty, place, kind })
    }

    fn choice(&mut self, choice: &syn::ExprMatch, place: Place) -> Result<Node, Reported> {
        let scrutinee = self.expression(&choice.expr)?;
        let ty = self.types.unknown();
        let mut arms = Vec::new();
        for arm in &choice.arms {
            self.scopes.push(HashMap::new());
            let checked = self.arm(arm, scrutinee.ty, ty);
            self.scopes.pop();
            match checked {
                Ok(arm) => arms.push(arm),
                Err(reported) => self.failed = Some(reported),
            }
        }
        if choice.arms.is_empty() {
            return Err(self.report(messages::unsupported_expression(place, "a `match` without arms")));
        }
        Ok(Node { ty, place, kind: Kind::Match { scrutinee: Box::new(scrutinee), arms } })
    }

    fn arm(&mut self, arm: &syn::Arm, scrutinee: TypeId, result: TypeId) -> Result<Arm, Reported> {
        let (pattern, guard) = match &arm.pat {
            syn::Pat::Guard(guarded) => (&*guarded.pat, Some(&*guarded.guard)),
            pattern => (pattern, None),
        };
        let pattern = self.pattern(pattern, scrutinee)?;
        let guard = match guard {
            Some(guard) => {
                let node = self.expression(guard)?;
                let bool = self.types.scalar(DType::Bool);
                self.expect(&node, bool);
                Some(node)
            }
            None => None,
        };
        let body = self.expression(&arm.body)?;
        self.expect(&body, result);
        Ok(Arm { pattern, guard, body })
    }

    /// `for i in start..end { .. }`
    fn repeat(&mut self, repeat: &syn::ExprForLoop, place: Place) -> Result<Node, Reported> {
        let at = Place::of(&*repeat.expr);
        let syn::Expr::Range(range) = strip_parentheses(&repeat.expr) else {
            return Err(self.report(messages::loop_over_other_than_range(at)));
        };
        let (Some(start), Some(end)) = (&range.start, &range.end) else {
            return Err(self.report(messages::loop_over_other_than_range(at)));
        };
        let (start, end) = (self.expression(start)?, self.expression(end)?);
        let ty = start.ty;
        let limits = Place::of(&range.limits);
        if !self.types.unify(start.ty, end.ty) {
            let (left, right) = (self.types.describe(start.ty), self.types.describe(end.ty));
            let symbol = quote::ToTokens::to_token_stream(&range.limits).to_string();
            return Err(self.report(messages::mismatched_operands(limits, &symbol, &left, &right)));
        }
        self.require(ty, Class::Int, limits, "a loop")?;
        self.scopes.push(HashMap::new());
        let variable = self.pattern(&repeat.pat, ty);
        let body = self.block(&repeat.body, repeat.for_token.span.into());
        self.scopes.pop();
        let (variable, body) = (variable?, body?);
        let unit = self.types.unit();
        self.expect(&body, unit);
        let inclusive = matches!(range.limits, syn::RangeLimits::Closed(_));
        let kind = Kind::For {
            variable: Box::new(variable),
            start: Box::new(start),
            end: Box::new(end),
            inclusive,
            body: Box::new(body),
        };
        Ok(Node { ty: unit, place, kind })
    }
}

/// The expression within parentheses and invisible groups.
pub(in super::super) fn strip_parentheses(mut expr: &syn::Expr) -> &syn::Expr {
    loop {
        expr = match expr {
            syn::Expr::Paren(inner) => &inner.expr,
            syn::Expr::Group(inner) => &inner.expr,
            _ => return expr,
        };
    }
}

/// The span of a path's last name.
pub(super) fn last_name(path: &syn::Path) -> Span {
    path.segments.last().map_or_else(Span::call_site, |segment| segment.ident.span())
}
