//! Where a node stands in the source, and the text by which messages and plans name it.

use super::context::Context;
use crate::diagnostic::{Location, Place};
use fuse_ir::graph::Origin;
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// Labels longer than this are shortened.
const LABEL_LENGTH: usize = 48;

/// The place of an expression and what nodes made for it remember.
#[derive(Clone)]
pub(super) struct Site {
    /// Where errors point.
    pub(super) place: Place,
    /// What the node keeps.
    pub(super) origin: Origin,
}

impl Site {
    /// The site of a step of a composite operation, so that plans can tell the steps apart.
    pub(super) fn step(&self, what: &str) -> Site {
        let origin =
            Origin { label: format!("{what} of {}", self.origin.label), name: None, ..self.origin.clone() };
        Site { place: self.place, origin }
    }
}

/// The site of an expression. What is inlined from outside the block has no place of its own: it stands where it was called.
pub(super) fn site_of(cx: &Context<'_>, tokens: &impl ToTokens) -> Site {
    let stream = tokens.to_token_stream();
    let label = describe(stream.clone());
    let place = match &cx.inlined {
        Some(call) if call.imported => {
            let inner = call.inner.unwrap_or_else(|| Place::of(&stream));
            Place { within: Some(inner.start), ..call.place }
        }
        Some(call) => call.place,
        None => Place::of(&stream),
    };
    let location = Location::of(place.start);
    let (file, line, column) = location.map_or((String::new(), 0, 0), |l| (l.file, l.line, l.column));
    Site { place, origin: Origin { label, name: None, file, line, column } }
}

/// The source text of an expression, shortened: inner parentheses become `(..)` first.
pub(super) fn describe(tokens: TokenStream) -> String {
    let mut text = String::new();
    for depth in [usize::MAX, 2, 1, 0] {
        text.clear();
        write_tokens(tokens.clone(), depth, &mut text);
        if text.chars().count() <= LABEL_LENGTH {
            return text;
        }
    }
    let cut: String = text.chars().take(LABEL_LENGTH - 2).collect();
    format!("{}..", cut.trim_end())
}

/// The operators of several characters that occur in bodies, and their beginnings.
const JOINED: &[&str] = &[
    "::", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
    "<<=", ">>=", "..", "->", "=>",
];

/// What was written last, which decides about the next space.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Nothing,
    Word,
    /// An operator that may be followed by an operand.
    Operator,
    /// `.`, `::` or a prefix operator.
    Tight,
}

fn write_tokens(tokens: TokenStream, depth: usize, out: &mut String) {
    let mut last = Last::Nothing;
    let mut tokens = tokens.into_iter().peekable();
    let mut generics = 0usize;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{ ", " }"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                if last == Last::Operator || (last == Last::Word && group.delimiter() == Delimiter::Brace) {
                    out.push(' ');
                }
                out.push_str(open);
                if depth == 0 && !group.stream().is_empty() {
                    out.push_str("..");
                } else {
                    write_tokens(group.stream(), depth.saturating_sub(1), out);
                }
                out.push_str(close);
                last = Last::Word;
            }
            TokenTree::Ident(_) | TokenTree::Literal(_) => {
                if matches!(last, Last::Word | Last::Operator) {
                    out.push(' ');
                }
                out.push_str(&token.to_string());
                last = Last::Word;
            }
            TokenTree::Punct(first) => {
                let mut operator = first.as_char().to_string();
                let mut spacing = first.spacing();
                while spacing == Spacing::Joint
                    && let Some(TokenTree::Punct(next)) = tokens.peek()
                    && JOINED.contains(&format!("{operator}{}", next.as_char()).as_str())
                {
                    operator.push(next.as_char());
                    spacing = next.spacing();
                    tokens.next();
                }
                last = write_operator(&operator, last, &mut generics, out);
            }
        }
    }
}

fn write_operator(operator: &str, last: Last, generics: &mut usize, out: &mut String) -> Last {
    match operator {
        "." | "::" => {
            out.push_str(operator);
            Last::Tight
        }
        "," | ";" | ":" => {
            out.push_str(operator);
            Last::Operator
        }
        "<" if out.ends_with("::") => {
            *generics += 1;
            out.push('<');
            Last::Tight
        }
        ">" if *generics > 0 => {
            *generics -= 1;
            out.push('>');
            Last::Word
        }
        "-" | "!" | "*" | "&" if last != Last::Word => {
            if last == Last::Operator {
                out.push(' ');
            }
            out.push_str(operator);
            Last::Tight
        }
        _ => {
            out.push(' ');
            out.push_str(operator);
            Last::Operator
        }
    }
}

#[cfg(test)]
mod tests {
    use super::describe;

    fn check(source: &str, label: &str) {
        assert_eq!(describe(source.parse().expect("tokens")), label);
    }

    #[test]
    fn labels_read_like_the_source() {
        check("x . max ( N )", "x.max(N)");
        check("x-x.mean( (M,N) )", "x - x.mean((M, N))");
        check("(a*-b).exp() as f16", "(a * -b).exp() as f16");
        check("layer_norm::<E>(x, g)", "layer_norm::<E>(x, g)");
        check("index(S) >= index(T) && !done", "index(S) >= index(T) && !done");
        check("*p -= f32::consts::PI", "*p -= f32::consts::PI");
    }

    #[test]
    fn long_labels_lose_inner_parentheses_first() {
        check(
            "gelu(layer_norm(some_long_name + another_long_name, scale_of_it, bias_of_it, 1e-5))",
            "gelu(layer_norm(..))",
        );
        check(
            "aaaaaaaaaaaaaaaaaaaaaa + bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb + ccccccccccc",
            "aaaaaaaaaaaaaaaaaaaaaa + bbbbbbbbbbbbbbbbbbbbb..",
        );
    }
}
