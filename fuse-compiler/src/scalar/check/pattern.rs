//! Patterns of `let`, `match`, `for` and parameters.

use super::super::tree::{Kind, Node, Pattern, PatternKind};
use super::super::types::TypeId;
use super::{Checker, address};
use crate::diagnostic::{Place, Reported, messages};
use syn::visit::Visit;

/// The names that a pattern binds.
#[derive(Default)]
struct Names {
    found: Vec<String>,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_pat_ident(&mut self, binding: &'ast syn::PatIdent) {
        self.found.push(binding.ident.to_string());
        syn::visit::visit_pat_ident(self, binding);
    }
}

impl Checker<'_> {
    /// Checks a pattern against the type of what it matches, and declares its names.
    pub(super) fn pattern(&mut self, pattern: &syn::Pat, ty: TypeId) -> Result<Pattern, Reported> {
        match self.pattern_kind(pattern, ty) {
            Ok(kind) => Ok(Pattern { ty, kind }),
            Err(reported) => {
                self.declare_poisoned(pattern);
                Err(reported)
            }
        }
    }

    /// Declares the names of a pattern with an error, so that their uses stay silent.
    pub(super) fn declare_poisoned(&mut self, pattern: &syn::Pat) {
        let mut names = Names::default();
        names.visit_pat(pattern);
        for name in names.found {
            let ty = self.types.poisoned();
            self.declare(&name, ty);
        }
    }

    fn pattern_kind(&mut self, pattern: &syn::Pat, ty: TypeId) -> Result<PatternKind, Reported> {
        let place = Place::of(pattern);
        match pattern {
            syn::Pat::Wild(_) => Ok(PatternKind::Wildcard),
            syn::Pat::Paren(inner) => self.pattern_kind(&inner.pat, ty),
            syn::Pat::Ident(binding) => {
                let name = binding.ident.to_string();
                if let Some(by_ref) = &binding.by_ref {
                    return Err(self.report(messages::reference_in_scalar(by_ref.span.into())));
                }
                // As in Rust, the name of a constant in a pattern is the constant.
                if binding.mutability.is_none()
                    && binding.subpat.is_none()
                    && let Some(value) = self.constant(&name)
                {
                    let node = Node { ty: self.types.scalar(value.dtype()), place, kind: Kind::Value(value) };
                    self.expect_pattern(&node, ty);
                    return Ok(PatternKind::Constant(node));
                }
                let inner = match &binding.subpat {
                    Some((_, inner)) => Some(Box::new(self.pattern(inner, ty)?)),
                    None => None,
                };
                Ok(PatternKind::Binding { local: self.declare(&name, ty), inner })
            }
            syn::Pat::Tuple(tuple) => self.tuple_pattern(tuple, ty),
            syn::Pat::Lit(literal) => {
                let node = self.pattern_bound(&syn::Expr::Lit(literal.clone()), ty)?;
                Ok(PatternKind::Constant(node))
            }
            syn::Pat::Path(path) => {
                let node = self.pattern_bound(&syn::Expr::Path(path.clone()), ty)?;
                Ok(PatternKind::Constant(node))
            }
            syn::Pat::Range(range) => {
                let mut bound = |expr: &Option<Box<syn::Expr>>| {
                    expr.as_ref().map(|expr| self.pattern_bound(expr, ty)).transpose()
                };
                let (start, end) = (bound(&range.start)?, bound(&range.end)?);
                let inclusive = matches!(range.limits, syn::RangeLimits::Closed(_));
                Ok(PatternKind::Range { start, end, inclusive })
            }
            syn::Pat::Or(or) => {
                let mut cases = Vec::new();
                for case in &or.cases {
                    let declared = self.locals.len();
                    cases.push(self.pattern(case, ty)?);
                    if self.locals.len() > declared {
                        return Err(self.report(messages::binding_in_or_pattern(Place::of(case))));
                    }
                }
                Ok(PatternKind::Or(cases))
            }
            syn::Pat::Reference(reference) => {
                Err(self.report(messages::reference_in_scalar(reference.and_token.span.into())))
            }
            syn::Pat::Macro(pattern) => Err(self.report(messages::macro_in_scalar(&pattern.mac.path))),
            _ => Err(self.report(messages::unsupported_pattern(place))),
        }
    }

    fn tuple_pattern(&mut self, tuple: &syn::PatTuple, ty: TypeId) -> Result<PatternKind, Reported> {
        if let Some(rest) = tuple.elems.iter().find(|element| matches!(element, syn::Pat::Rest(_))) {
            return Err(self.report(messages::unsupported_pattern(Place::of(rest))));
        }
        let fresh: Vec<TypeId> = tuple.elems.iter().map(|_| self.types.unknown()).collect();
        let expected = self.types.tuple(fresh.clone());
        let fits = self.types.unify(expected, ty);
        if !fits {
            let (expected, found) = (self.types.describe(ty), self.types.describe(expected));
            self.report(messages::mismatched_types(Place::of(tuple), &expected, &found));
        }
        let mut elements = Vec::new();
        for (element, element_ty) in tuple.elems.iter().zip(fresh) {
            let element_ty = if fits { element_ty } else { self.types.poisoned() };
            elements.push(self.pattern(element, element_ty)?);
        }
        Ok(PatternKind::Tuple(elements))
    }

    /// A literal or constant in a pattern.
    fn pattern_bound(&mut self, expr: &syn::Expr, ty: TypeId) -> Result<Node, Reported> {
        let node = self.expression(expr)?;
        // Patterns are emitted as written, and this expression may be a copy that does not live as long as its address.
        self.rewrites.remove(&address(expr));
        match node.kind {
            Kind::Literal { .. } | Kind::Value(_) | Kind::FloatConstant { .. } => {
                self.expect_pattern(&node, ty);
                Ok(node)
            }
            _ if self.types.is_poisoned(node.ty) => Ok(node),
            _ => Err(self.report(messages::unsupported_pattern(node.place))),
        }
    }

    fn expect_pattern(&mut self, node: &Node, ty: TypeId) {
        if !self.types.unify(ty, node.ty) {
            let (expected, found) = (self.types.describe(ty), self.types.describe(node.ty));
            self.report(messages::mismatched_types(node.place, &expected, &found));
        }
    }
}
