//! Arguments of calls: how many, and those given by name.

use super::context::Context;
use crate::diagnostic::{Place, Reported, messages};
use proc_macro2::Ident;
use syn::punctuated::Punctuated;

/// The arguments of one call.
pub(super) struct Arguments<'a> {
    /// What is called, for messages.
    pub(super) name: String,
    /// Where it is called.
    pub(super) place: Place,
    /// Those without name, in order.
    pub(super) positional: Vec<&'a syn::Expr>,
    /// `fill = 0.0`.
    pub(super) named: Vec<(Ident, &'a syn::Expr)>,
}

/// Sorts the arguments of a call.
pub(super) fn read_arguments<'a>(
    cx: &mut Context<'_>,
    name: &str,
    place: Place,
    args: &'a Punctuated<syn::Expr, syn::Token![,]>,
) -> Result<Arguments<'a>, Reported> {
    let mut arguments = Arguments { name: name.to_owned(), place, positional: Vec::new(), named: Vec::new() };
    for arg in args {
        match arg {
            syn::Expr::Assign(assign) => {
                let name = match &*assign.left {
                    syn::Expr::Path(path) => path.path.get_ident(),
                    _ => None,
                };
                let Some(name) = name else {
                    return Err(cx.report(messages::argument_name_expected(Place::of(&assign.left))));
                };
                if arguments.named.iter().any(|(n, _)| n == name) {
                    return Err(cx.report(messages::argument_given_twice(name)));
                }
                arguments.named.push((name.clone(), &assign.right));
            }
            other if arguments.named.is_empty() => arguments.positional.push(other),
            other => return Err(cx.report(messages::positional_after_named(Place::of(other)))),
        }
    }
    Ok(arguments)
}

impl<'a> Arguments<'a> {
    /// Exactly `N` arguments without name; `usage` shows how the call is written.
    pub(super) fn exactly<const N: usize>(
        &self,
        cx: &mut Context<'_>,
        usage: &str,
    ) -> Result<[&'a syn::Expr; N], Reported> {
        match self.positional.clone().try_into() {
            Ok(args) => Ok(args),
            Err(_) => {
                let place = self.place;
                let found = self.positional.len();
                Err(cx.report(messages::argument_count(place, &self.name, N, found, usage)))
            }
        }
    }

    /// The argument of that name.
    pub(super) fn named(&self, name: &str) -> Option<&'a syn::Expr> {
        self.named.iter().find(|(n, _)| n == name).map(|(_, e)| *e)
    }

    /// Reports names that the call does not have.
    pub(super) fn only_named(&self, cx: &mut Context<'_>, known: &[&str]) -> Result<(), Reported> {
        for (name, _) in &self.named {
            if !known.contains(&name.to_string().as_str()) {
                return Err(cx.report(messages::unknown_argument(name, &self.name, known)));
            }
        }
        Ok(())
    }
}
