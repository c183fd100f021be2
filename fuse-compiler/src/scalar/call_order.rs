//! The order of lowering: callees first. A cycle is an error, since a kernel has no stack.

use super::check::Surroundings;
use super::{FnSource, ScalarItems};
use crate::diagnostic::{Diagnostics, Place, messages};
use crate::prelude::name_in_f64;
use syn::visit::Visit;

/// The functions that a body calls by name, with the places of the names. Methods are not among them.
pub fn called_functions(item: &syn::ItemFn) -> Vec<(String, Place)> {
    let mut calls = Calls::default();
    calls.visit_block(&item.block);
    calls.found
}

#[derive(Default)]
struct Calls {
    found: Vec<(String, Place)>,
}

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(path) = &*call.func {
            self.found.push((quote::quote!(#path).to_string().replace(' ', ""), Place::of(path)));
        }
        syn::visit::visit_expr_call(self, call);
    }
}

/// Sorts functions so that each comes after those it calls; gives positions in `sources`. Functions on a cycle are left
/// out of the order and poisoned, and the call that closes the cycle is reported.
pub(super) fn sort_by_calls(
    sources: &[&FnSource<'_>],
    items: &mut ScalarItems,
    diagnostics: &mut Diagnostics,
) -> Vec<usize> {
    let mut order =
        Order { sources, state: vec![State::New; sources.len()], open: Vec::new(), sorted: Vec::new() };
    for index in 0..sources.len() {
        order.visit_after_callees(index, items, diagnostics);
    }
    order.sorted.retain(|&index| !items.poisoned.contains(&sources[index].name));
    order.sorted
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}

struct Order<'a, 'b> {
    sources: &'a [&'a FnSource<'b>],
    state: Vec<State>,
    /// The functions from the first to the one under visit, each called by the one before.
    open: Vec<usize>,
    sorted: Vec<usize>,
}

impl Order<'_, '_> {
    fn visit_after_callees(&mut self, index: usize, items: &mut ScalarItems, diagnostics: &mut Diagnostics) {
        if self.state[index] != State::New {
            return;
        }
        self.state[index] = State::Open;
        self.open.push(index);
        let source = self.sources[index];
        for (path, place) in called_functions(source.item) {
            let Some(key) = (Surroundings { items, scope: &source.scope }).callee(&path) else { continue };
            // Which precision of a prelude's op is meant is known when types are; both come before.
            for key in [name_in_f64(&key), key] {
                let next = self.sources.iter().position(|source| source.name == key);
                if let Some(next) = next {
                    self.visit_callee(next, place, items, diagnostics);
                }
            }
        }
        self.open.pop();
        self.state[index] = State::Done;
        self.sorted.push(index);
    }
    fn visit_callee(
        &mut self,
        next: usize,
        place: Place,
        items: &mut ScalarItems,
        diagnostics: &mut Diagnostics,
    ) {
        if self.state[next] == State::Open {
            let start = self.open.iter().position(|&open| open == next).unwrap_or(0);
            let cycle: Vec<&str> =
                self.open[start..].iter().map(|&open| self.sources[open].name.as_str()).collect();
            let import = self.sources[next].import();
            diagnostics.report_inside(import, |inner| inner.report(messages::recursive_op(place, &cycle)));
            for name in cycle {
                items.by_name.remove(name);
                items.poisoned.insert(name.to_string());
            }
        }
        self.visit_after_callees(next, items, diagnostics);
    }
}
