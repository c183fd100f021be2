//! Calls: methods of the primitive types, the same by path, other ops, and the few functions of the language.

use super::super::method::{Argument, Class, Method, Outcome, find_method, similar_method};
use super::super::tree::{Kind, Node, Rewrite};
use super::super::types::TypeId;
use super::expression::last_name;
use super::{Binding, Checker, address, closest_name};
use crate::diagnostic::{Place, Reported, messages};
use crate::prelude::{PreludeKind, name_in_f64};
use fuse_ir::dtype::DType;
use fuse_ir::scalar::ScalarOp;
use proc_macro2::Span;

impl Checker<'_> {
    /// `x.method(..)`
    pub(super) fn method_call(
        &mut self,
        expr: &syn::Expr,
        call: &syn::ExprMethodCall,
    ) -> Result<Node, Reported> {
        let receiver = self.expression(&call.receiver)?;
        let name = call.method.to_string();
        if let Some(turbofish) = &call.turbofish {
            let place = Place::of(turbofish);
            return Err(self.report(messages::turbofish_not_expected(place, &name)));
        }
        let Some(method) = find_method(&name) else {
            // What stands in the call of a tensor's method is not of this language either.
            if !messages::is_tensor_method(&name) {
                for argument in &call.args {
                    self.expression(argument)?;
                }
            }
            return self.unknown_method(call.method.span(), &name, receiver.ty);
        };
        let mut operands = vec![receiver];
        for argument in &call.args {
            operands.push(self.expression(argument)?);
        }
        self.apply(expr, method, operands, call.method.span())
    }

    fn unknown_method(&mut self, span: Span, name: &str, receiver: TypeId) -> Result<Node, Reported> {
        if self.types.is_poisoned(receiver) {
            return Ok(self.poisoned(span.into()));
        }
        let receiver = self.types.describe(receiver);
        Err(self.report(messages::unknown_method(span, name, &receiver, similar_method(name))))
    }

    /// A method on its receiver and arguments.
    fn apply(
        &mut self,
        expr: &syn::Expr,
        method: &'static Method,
        operands: Vec<Node>,
        at: Span,
    ) -> Result<Node, Reported> {
        let expected = method.arguments.len();
        if operands.len() != expected + 1 {
            let found = operands.len().saturating_sub(1);
            return Err(self.report(messages::wrong_argument_count(at.into(), method.name, expected, found)));
        }
        let ty = operands[0].ty;
        self.require(ty, method.receiver, at.into(), &format!("method `{}`", method.name))?;
        for (operand, argument) in operands[1..].iter().zip(method.arguments) {
            let wanted = match argument {
                Argument::Receiver => ty,
                Argument::I32 => self.types.scalar(DType::I32),
                Argument::U32 => self.types.scalar(DType::U32),
            };
            self.expect(operand, wanted);
        }
        let result = match method.outcome {
            Outcome::Receiver => ty,
            Outcome::Bool => self.types.scalar(DType::Bool),
            Outcome::U32 => self.types.scalar(DType::U32),
            Outcome::Pair => self.types.tuple(vec![ty, ty]),
            Outcome::Unsigned => self.unsigned(ty, at),
        };
        self.rewrites.insert(address(expr), (Rewrite::Method { method }, ty));
        Ok(Node { ty: result, place: Place::of(expr), kind: Kind::Method(method, operands) })
    }

    /// The unsigned type of a receiver's width. The receiver must be known by now, as for rustc; a literal's is settled.
    fn unsigned(&mut self, ty: TypeId, at: Span) -> TypeId {
        let settled = self.types.resolve_scalar(ty).map(|dtype| self.types.scalar(dtype));
        if let Some(settled) = settled {
            self.types.unify(ty, settled);
        }
        match self.types.resolve_scalar(ty) {
            Some(DType::F32 | DType::I32 | DType::U32) => self.types.scalar(DType::U32),
            Some(DType::F64 | DType::I64 | DType::U64) => self.types.scalar(DType::U64),
            Some(DType::I16 | DType::U16) => self.types.scalar(DType::U16),
            Some(DType::I8 | DType::U8) => self.types.scalar(DType::U8),
            _ => self.poisoned(at.into()).ty,
        }
    }

    /// `function(..)`
    pub(super) fn call(&mut self, expr: &syn::Expr, call: &syn::ExprCall) -> Result<Node, Reported> {
        let place = Place::of(call);
        let syn::Expr::Path(function) = super::expression::strip_parentheses(&call.func) else {
            return Err(self.report(messages::unsupported_expression(place, "a call of a computed function")));
        };
        let mut args = Vec::new();
        for argument in &call.args {
            args.push(self.expression(argument)?);
        }
        let path = &function.path;
        if let Some(name) = path.get_ident()
            && let Some(Binding::Local(local)) = self.lookup(&name.to_string())
        {
            if self.types.is_poisoned(self.locals[local.0 as usize].ty) {
                return Ok(self.poisoned(place));
            }
            return Err(self.report(messages::value_called(Place::of(path), &name.to_string())));
        }
        for segment in &path.segments {
            if let syn::PathArguments::AngleBracketed(generics) = &segment.arguments {
                let name = segment.ident.to_string();
                return Err(self.report(messages::turbofish_not_expected(Place::of(generics), &name)));
            }
        }
        let name = quote::quote!(#function).to_string().replace(' ', "");
        if let Some(key) = self.surroundings.callee(&name) {
            let key = self.in_precision(key, &args);
            if key.contains('/') {
                let rewrite = Rewrite::Callee { name: copy_name(&key) };
                self.rewrites.insert(address(expr), (rewrite, self.types.unit()));
            }
            self.called.insert(key.clone());
            return self.call_op(&key, &name, args, path, place);
        }
        match name.trim_start_matches("::") {
            "select" => return self.select(expr, args, last_name(path)),
            "maximum" | "minimum" if args.len() == 2 => {
                if let Some(method) = find_method(&name) {
                    return self.apply(expr, method, args, last_name(path));
                }
            }
            _ => {}
        }
        if let Some((dtype, method)) = associated_function(&function.path) {
            return self.call_associated(expr, dtype, &method, args, last_name(path));
        }
        let candidates = self.surroundings.items.by_name.keys().map(String::as_str);
        let prelude =
            crate::prelude::items().filter(|item| item.kind == PreludeKind::Op).map(|item| item.name);
        let candidates = candidates.chain(prelude).chain(["select", "maximum", "minimum"]);
        let similar = closest_name(&name, candidates);
        let as_method = find_method(&name).is_some();
        Err(self.report(messages::unknown_function(Place::of(path), &name, similar.as_deref(), as_method)))
    }

    /// The copy of a prelude's op for f64, if the arguments are that and there is one.
    fn in_precision(&self, key: String, args: &[Node]) -> String {
        let double = name_in_f64(&key);
        let wanted = args.iter().any(|arg| self.types.is_known(arg.ty, DType::F64));
        if wanted && self.surroundings.items.by_name.contains_key(&double) { double } else { key }
    }

    /// A call of an op of the block, of another module or of the prelude.
    fn call_op(
        &mut self,
        key: &str,
        name: &str,
        args: Vec<Node>,
        path: &syn::Path,
        place: Place,
    ) -> Result<Node, Reported> {
        let Some(signature) = self.surroundings.items.by_name.get(key) else {
            // Its declaration has an error that was reported.
            return Ok(self.poisoned(place));
        };
        if args.len() != signature.parameters.len() {
            let (expected, found) = (signature.parameters.len(), args.len());
            return Err(self.report(messages::wrong_argument_count(Place::of(path), name, expected, found)));
        }
        for (arg, parameter) in args.iter().zip(&signature.parameters) {
            let wanted = self.types.declared(parameter);
            self.expect(arg, wanted);
        }
        let ty = self.types.declared(&signature.result);
        Ok(Node { ty, place, kind: Kind::Call { name: key.to_string(), args } })
    }

    /// `select(condition, a, b)`
    fn select(&mut self, expr: &syn::Expr, args: Vec<Node>, at: Span) -> Result<Node, Reported> {
        let [condition, a, b] = args.as_slice() else {
            return Err(self.report(messages::wrong_argument_count(at.into(), "select", 3, args.len())));
        };
        let bool = self.types.scalar(DType::Bool);
        self.expect(condition, bool);
        self.expect(b, a.ty);
        self.rewrites.insert(address(expr), (Rewrite::Function { name: "select" }, a.ty));
        Ok(Node { ty: a.ty, place: Place::of(expr), kind: Kind::Op(ScalarOp::Select, args) })
    }

    /// `f32::max(a, b)`, `f32::from_bits(a)`, `f64::from(a)`
    fn call_associated(
        &mut self,
        expr: &syn::Expr,
        dtype: DType,
        name: &str,
        args: Vec<Node>,
        at: Span,
    ) -> Result<Node, Reported> {
        let ty = self.types.scalar(dtype);
        let place = Place::of(expr);
        match (name, args.len()) {
            ("from_bits" | "from", 1) => {}
            ("from_bits" | "from", found) => {
                return Err(self.report(messages::wrong_argument_count(at.into(), name, 1, found)));
            }
            _ => {
                let Some(method) = find_method(name) else { return self.unknown_method(at, name, ty) };
                match args.first() {
                    Some(receiver) => self.expect(receiver, ty),
                    None => {
                        let expected = method.arguments.len() + 1;
                        return Err(self.report(messages::wrong_argument_count(
                            at.into(),
                            name,
                            expected,
                            0,
                        )));
                    }
                }
                return self.apply(expr, method, args, at);
            }
        }
        if name == "from_bits" {
            let bits = match dtype {
                DType::F32 => DType::U32,
                DType::F64 => DType::U64,
                _ => return self.unknown_method(at, name, ty),
            };
            let bits = self.types.scalar(bits);
            self.expect(&args[0], bits);
            return Ok(Node { ty, place, kind: Kind::Op(ScalarOp::FromBits, args) });
        }
        // `T::from` takes what fits without loss; the Rust copy meets rustc's rules for it.
        self.require(args[0].ty, Class::Scalar, at.into(), &format!("`{dtype}::from`"))?;
        let Some(arg) = args.into_iter().next() else { return Ok(self.poisoned(place)) };
        Ok(Node { ty, place, kind: Kind::Cast(Box::new(arg), dtype) })
    }
}

/// The dtype and the name of `f32::max`, `std::primitive::f32::max`.
fn associated_function(path: &syn::Path) -> Option<(DType, String)> {
    let mut names = path.segments.iter().rev().map(|segment| segment.ident.to_string());
    let (name, dtype) = (names.next()?, names.next()?);
    let prefix: Vec<String> = names.collect();
    let qualified = matches!(
        prefix.iter().map(String::as_str).collect::<Vec<_>>()[..],
        [] | ["primitive", "core" | "std"]
    );
    let dtype = DType::from_name(&dtype).filter(|dtype| qualified && !dtype.is_narrow_float())?;
    Some((dtype, name))
}

/// The name of the function that stands for an op in the copy of its caller, where the op's own is taken.
pub(in super::super) fn copy_name(key: &str) -> String {
    match key.split_once('/') {
        Some((scope, name)) => format!("{name}_{scope}"),
        None => key.to_string(),
    }
}
