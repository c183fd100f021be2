//! How deep an item is nested, before anything that recurses looks at it.
//!
//! syn and every later stage walk expressions by recursion, and a compiler that runs out of stack dies without a message.
//! The depth is bounded here from the tokens alone: each pair of brackets, and each operator since the last `,` or `;`,
//! may be one level more. Operators in a row count although not all of them nest, which only a sum of hundreds of terms
//! notices.

use proc_macro2::{Delimiter, Spacing, Span, TokenTree};

/// The deepest that is accepted. A level takes up to some 20 KiB of stack where nothing is optimised, and rustc has 8 MiB.
pub const MOST_NESTED: usize = 256;

/// What a pair of brackets counts as: several calls of syn's parser lie between one and the next.
const BRACKETS: usize = 2;

/// The first token beyond [`MOST_NESTED`].
pub(crate) fn find_too_deep(tokens: impl IntoIterator<Item = TokenTree>) -> Option<Span> {
    walk(tokens, 0)
}

fn walk(tokens: impl IntoIterator<Item = TokenTree>, outside: usize) -> Option<Span> {
    let mut tokens = tokens.into_iter().peekable();
    let (mut operators, mut angles) = (0usize, 0usize);
    // Whether an operand is before, and the first half of `&&` or `||` between two of them: one operator, not two references.
    let (mut behind_operand, mut half) = (false, None);
    while let Some(token) = tokens.next() {
        if outside + operators + angles > MOST_NESTED {
            return Some(token.span());
        }
        let is_operand = !matches!(token, TokenTree::Punct(_));
        let was_operand = std::mem::replace(&mut behind_operand, is_operand);
        let first_half = half.take();
        match &token {
            TokenTree::Punct(punct) if first_half == Some(punct.as_char()) => {}
            TokenTree::Punct(punct) => match punct.as_char() {
                ',' => operators = 0,
                ';' => (operators, angles) = (0, 0),
                // Generics go on behind a comma.
                '<' => angles += 1,
                '>' => angles = angles.saturating_sub(1),
                '=' | ':' | '\'' | '$' | '_' => {}
                operator => {
                    operators += 1;
                    let is_half = was_operand && punct.spacing() == Spacing::Joint;
                    half = (is_half && matches!(operator, '&' | '|')).then_some(operator);
                }
            },
            TokenTree::Group(group) => {
                let depth = outside + operators + angles + BRACKETS;
                if let Some(span) = walk_group(group, depth) {
                    return Some(span);
                }
                let begins = match tokens.peek() {
                    Some(TokenTree::Ident(next)) => next != "else",
                    Some(TokenTree::Punct(next)) => next.as_char() == '#',
                    Some(TokenTree::Group(_) | TokenTree::Literal(_)) | None => false,
                };
                if group.delimiter() == Delimiter::Brace && begins {
                    (operators, angles) = (0, 0);
                }
            }
            // `else if`, `return return`, `if if`: words nest as well.
            TokenTree::Ident(_) if matches!(tokens.peek(), Some(TokenTree::Ident(_))) => operators += 1,
            TokenTree::Ident(word) if word == "as" => operators += 1,
            TokenTree::Ident(_) | TokenTree::Literal(_) => {}
        }
    }
    None
}

fn walk_group(group: &proc_macro2::Group, depth: usize) -> Option<Span> {
    if depth > MOST_NESTED {
        return Some(group.span_open());
    }
    walk(group.stream(), depth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc_macro2::TokenStream;

    /// Whether the text is too deep, read where there is stack enough for the tokens.
    fn is_too_deep(text: &str) -> bool {
        let tokens: TokenStream = text.parse().expect("tokens");
        find_too_deep(tokens).is_some()
    }

    fn nested(open: &str, close: &str, levels: usize) -> String {
        format!("{}x{}", open.repeat(levels), close.repeat(levels))
    }

    #[test]
    fn brackets_count_up_to_the_limit() {
        assert!(!is_too_deep(&nested("(", ")", MOST_NESTED / 2)));
        assert!(is_too_deep(&nested("(", ")", MOST_NESTED / 2 + 1)));
        assert!(is_too_deep(&nested("f(&[", "])", MOST_NESTED)));
    }

    #[test]
    fn operators_count_up_to_the_limit_and_begin_anew_behind_a_comma() {
        let sum = |terms: usize| vec!["a"; terms].join(" + ");
        assert!(!is_too_deep(&sum(MOST_NESTED + 1)));
        assert!(is_too_deep(&sum(MOST_NESTED + 2)));
        let all = |terms: usize| vec!["a"; terms].join(" && ");
        assert!(!is_too_deep(&all(MOST_NESTED + 1)));
        assert!(is_too_deep(&all(MOST_NESTED + 2)));
        let lets = format!("let b = {}; ", sum(100)).repeat(20);
        assert!(!is_too_deep(&format!("{{ {lets} f({}, {}) }}", sum(200), sum(200))));
        assert!(is_too_deep(&format!("{{ f({}, {}) }}", sum(2), sum(300))));
    }

    #[test]
    fn what_nests_without_brackets_counts_too() {
        for part in ["-", "!", "&", "&&", "a && &", "|x| ", "return ", "x as ", "Tensor<f32, "] {
            assert!(!is_too_deep(&format!("{}x", part.repeat(100))), "{part}");
            assert!(is_too_deep(&format!("{}x", part.repeat(1000))), "{part}");
        }
        let chain = "if a { b } else ".repeat(1000);
        assert!(is_too_deep(&format!("{chain} {{ c }}")));
    }

    #[test]
    fn statements_in_a_row_do_not_nest() {
        assert!(!is_too_deep(&"if a < b { c = -d; } ".repeat(1000)));
        assert!(!is_too_deep(&"#[op] fn f(x: f32) -> f32 { x + 1.0 } ".repeat(1000)));
    }

    /// All stages go through what is just accepted with the stack that rustc has, and what is just beyond is an error.
    #[test]
    fn what_is_accepted_fits_the_stack_of_rustc() {
        const STACK: usize = 8 << 20;
        // The signature counts, too.
        let most = MOST_NESTED - 16;
        let levels = most / 2;
        let bodies = [
            nested("(", ")", levels),
            nested("{", "}", levels),
            format!("x{}", ".exp()".repeat(most)),
            vec!["x"; most].join(" + "),
            format!("{}x", "-".repeat(most)),
            nested("maximum(x, ", ")", levels),
        ];
        let check = move || {
            for (body, beyond) in bodies.iter().flat_map(|body| [(body, false), (body, true)]) {
                let body = if beyond { format!("((((((((-{body}))))))))") } else { body.clone() };
                let op = format!("#[op] fn f(x: f32) -> f32 {{ {body} }}");
                let kernel =
                    format!("#[kernel] fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {{ f(x) + {body} }}");
                let mut diagnostics = crate::diagnostic::Diagnostics::new();
                let tokens: TokenStream = format!("{op} {kernel}").parse().expect("tokens");
                crate::pipeline::expand_block(&quote::quote!(::fuse), tokens, &mut diagnostics);
                let codes: Vec<_> = diagnostics.iter().map(|error| error.code).collect();
                let expected: &[&str] = if beyond { &["nested_too_deep"; 2] } else { &[] };
                assert_eq!(codes, expected, "{body}");
            }
        };
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(check).expect("a thread");
        thread.join().expect("no error");
    }
}
