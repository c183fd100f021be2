//! The arguments of `#[kernel(..)]` and `#[reduce(..)]`.

use super::KernelArgs;
use super::block::flatten_invisible_groups;
use crate::diagnostic::{Diagnostics, Place, messages};
use crate::lint::{Lint, LintLevel};
use fuse_ir::dtype::DType;
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

/// One argument: its name, and what stands behind it.
struct Argument {
    name: Ident,
    rest: Vec<TokenTree>,
}

/// Reads `#[kernel]` or `#[kernel(launches = 1, assume(M = 4096), T = [f32, f16], explain, fast, test, warn(unfused))]`.
pub(super) fn parse_kernel_args(
    attribute: &syn::Attribute,
    span: Span,
    diagnostics: &mut Diagnostics,
) -> KernelArgs {
    let mut args = KernelArgs {
        span,
        launches: None,
        assume: Vec::new(),
        dtypes: Vec::new(),
        explain: false,
        fast: false,
        test: false,
        lints: Vec::new(),
    };
    let tokens = match &attribute.meta {
        syn::Meta::Path(_) => return args,
        syn::Meta::List(list) if matches!(list.delimiter, syn::MacroDelimiter::Paren(_)) => &list.tokens,
        syn::Meta::List(_) | syn::Meta::NameValue(_) => {
            diagnostics.report(messages::kernel_argument_expected(Place::of(attribute)));
            return args;
        }
    };
    for argument in read_arguments("kernel", tokens.clone(), diagnostics) {
        parse_kernel_arg(&argument, &mut args, diagnostics);
    }
    args
}

/// The arguments between commas. What has no name is reported, and so is a second one of a name; but of `warn(..)` and its
/// like there may be several.
fn read_arguments(marker: &str, tokens: TokenStream, diagnostics: &mut Diagnostics) -> Vec<Argument> {
    let mut arguments: Vec<Argument> = Vec::new();
    for part in split_at_commas(tokens) {
        let name = match part.first() {
            Some(TokenTree::Ident(name)) => name.clone(),
            Some(other) => {
                diagnostics.report(messages::argument_of_attribute_expected(other.span(), marker));
                continue;
            }
            None => continue,
        };
        let is_lint = matches!(name.to_string().as_str(), "allow" | "warn" | "deny");
        match arguments.iter().find(|first| first.name == name) {
            Some(first) if !is_lint => {
                diagnostics.report(messages::argument_repeated(&name, first.name.span()));
            }
            Some(_) | None => arguments.push(Argument { name, rest: part[1..].to_vec() }),
        }
    }
    arguments
}

/// The tokens between commas. A comma that ends nothing is a part of its own.
fn split_at_commas(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut parts = Vec::new();
    let mut part = Vec::new();
    for token in flatten_invisible_groups(tokens) {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ',' => {
                if part.is_empty() {
                    part.push(token);
                }
                parts.push(std::mem::take(&mut part));
            }
            _ => part.push(token),
        }
    }
    parts.push(part);
    parts
}

impl Argument {
    /// Reports that the argument is not written as it has to be.
    fn report(&self, usage: &str, diagnostics: &mut Diagnostics) {
        let place = match (self.rest.first(), self.rest.last()) {
            (Some(first), Some(last)) => Place::from(first.span()).to(last.span().into()),
            _ => self.name.span().into(),
        };
        diagnostics.report(messages::argument_not_understood(place, &self.name, usage));
    }

    /// What stands behind `=`.
    fn value(&self) -> Option<&[TokenTree]> {
        match &self.rest[..] {
            [TokenTree::Punct(equals), value @ ..] if equals.as_char() == '=' && !value.is_empty() => {
                Some(value)
            }
            _ => None,
        }
    }

    /// What stands in parentheses, between commas.
    fn list(&self) -> Option<Vec<Vec<TokenTree>>> {
        match &self.rest[..] {
            [TokenTree::Group(group)] if group.delimiter() == Delimiter::Parenthesis => {
                Some(split_group(group))
            }
            _ => None,
        }
    }
}

/// The tokens between the commas of a group, without the last part if a comma ends it.
fn split_group(group: &Group) -> Vec<Vec<TokenTree>> {
    let mut parts = split_at_commas(group.stream());
    if parts.last().is_some_and(Vec::is_empty) {
        parts.pop();
    }
    parts
}

/// A whole number without a suffix.
fn read_number<T: std::str::FromStr<Err: std::fmt::Display>>(tokens: &[TokenTree]) -> Option<(T, Span)> {
    let [TokenTree::Literal(literal)] = tokens else { return None };
    let number = syn::parse2::<syn::LitInt>(TokenTree::from(literal.clone()).into()).ok()?;
    let value = number.base10_parse().ok().filter(|_| number.suffix().is_empty())?;
    Some((value, literal.span()))
}

fn parse_kernel_arg(argument: &Argument, args: &mut KernelArgs, diagnostics: &mut Diagnostics) {
    let name = argument.name.to_string();
    match name.as_str() {
        "launches" => match argument.value().and_then(read_number) {
            Some(launches) => args.launches = Some(launches),
            None => argument.report("launches = 1", diagnostics),
        },
        "assume" => match argument.list() {
            Some(list) => parse_assume(argument, list, args, diagnostics),
            None => argument.report("assume(N = 4096)", diagnostics),
        },
        "explain" | "fast" | "test" => {
            if !argument.rest.is_empty() {
                argument.report(&name, diagnostics);
            }
            match name.as_str() {
                "explain" => args.explain = true,
                "fast" => args.fast = true,
                _ => args.test = true,
            }
        }
        "allow" => parse_lints(argument, LintLevel::Allow, args, diagnostics),
        "warn" => parse_lints(argument, LintLevel::Warn, args, diagnostics),
        "deny" => parse_lints(argument, LintLevel::Deny, args, diagnostics),
        _ if argument.value().is_some() && (is_list(argument) || name.starts_with(char::is_uppercase)) => {
            parse_dtypes(argument, args, diagnostics);
        }
        _ => {
            diagnostics.report(messages::unknown_kernel_argument(&argument.name));
        }
    }
}

fn is_list(argument: &Argument) -> bool {
    matches!(argument.value(), Some([TokenTree::Group(group)]) if group.delimiter() == Delimiter::Bracket)
}

/// `assume(M = 4096, N = 64)`.
fn parse_assume(
    argument: &Argument,
    list: Vec<Vec<TokenTree>>,
    args: &mut KernelArgs,
    diagnostics: &mut Diagnostics,
) {
    for part in list {
        match &part[..] {
            [TokenTree::Ident(axis), TokenTree::Punct(equals), value @ ..] if equals.as_char() == '=' => {
                if let Some((extent, _)) = read_number(value) {
                    args.assume.push((axis.clone(), extent));
                    continue;
                }
            }
            _ => {}
        }
        let wrong = Argument { name: argument.name.clone(), rest: part };
        wrong.report("assume(N = 4096)", diagnostics);
    }
}

/// `warn(unfused, materialized)`.
fn parse_lints(argument: &Argument, level: LintLevel, args: &mut KernelArgs, diagnostics: &mut Diagnostics) {
    let usage = format!("{}(unfused)", argument.name);
    let Some(list) = argument.list() else { return argument.report(&usage, diagnostics) };
    for part in list {
        let [TokenTree::Ident(name)] = &part[..] else {
            let wrong = Argument { name: argument.name.clone(), rest: part };
            wrong.report(&usage, diagnostics);
            continue;
        };
        match Lint::ALL.into_iter().find(|lint| name == lint.name()) {
            Some(lint) => args.lints.push((lint, level)),
            None => {
                diagnostics.report(messages::unknown_lint(name));
            }
        }
    }
}

/// `T = [f32, f16]`.
fn parse_dtypes(argument: &Argument, args: &mut KernelArgs, diagnostics: &mut Diagnostics) {
    let usage = format!("{} = [f32, f16]", argument.name);
    let Some([TokenTree::Group(group)]) = argument.value().filter(|_| is_list(argument)) else {
        return argument.report(&usage, diagnostics);
    };
    let mut dtypes: Vec<(DType, Span)> = Vec::new();
    for part in split_group(group) {
        let [TokenTree::Ident(name)] = &part[..] else {
            let wrong = Argument { name: argument.name.clone(), rest: part };
            wrong.report(&usage, diagnostics);
            return;
        };
        match DType::from_name(&name.to_string()) {
            Some(d) if dtypes.iter().any(|(seen, _)| *seen == d) => {
                diagnostics.report(messages::dtype_listed_twice(name));
            }
            Some(d) => dtypes.push((d, name.span())),
            None => {
                diagnostics.report(messages::unknown_dtype(name));
            }
        }
    }
    args.dtypes.push((argument.name.clone(), dtypes));
}

/// Reads `#[reduce(identity = .., ordered)]`.
pub(super) fn parse_reduce_args(
    attribute: &syn::Attribute,
    diagnostics: &mut Diagnostics,
) -> Option<(syn::Expr, bool)> {
    let span = attribute.path().segments.last().map_or_else(Span::call_site, |s| s.ident.span());
    let before = diagnostics.iter().count();
    let (mut identity, mut ordered) = (None, false);
    if let syn::Meta::List(list) = &attribute.meta {
        for argument in read_arguments("reduce", list.tokens.clone(), diagnostics) {
            match argument.name.to_string().as_str() {
                "identity" => match argument.value() {
                    Some(value) => match syn::parse2::<syn::Expr>(value.iter().cloned().collect()) {
                        Ok(value) => identity = Some(value),
                        Err(error) => {
                            diagnostics.report_syntax(error);
                        }
                    },
                    None => argument.report("identity = 0.0", diagnostics),
                },
                "ordered" => {
                    if !argument.rest.is_empty() {
                        argument.report("ordered", diagnostics);
                    }
                    ordered = true;
                }
                _ => {
                    diagnostics.report(messages::unknown_reduce_argument(&argument.name));
                }
            }
        }
    }
    if identity.is_none() && diagnostics.iter().count() == before {
        diagnostics.report(messages::identity_missing(span));
    }
    Some((identity?, ordered))
}
