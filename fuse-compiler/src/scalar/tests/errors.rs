//! Every error of scalar items: its text and the tokens that it underlines.

use super::lower;
use crate::diagnostic::Place;
use std::collections::BTreeSet;

struct Case {
    program: &'static str,
    code: &'static str,
    /// The source from the first underlined token to the last.
    underlined: &'static str,
    text: &'static str,
}

const CASES: &[Case] = &[
    Case {
        program: "fn f(x: f16) -> f32 { 1.0 }",
        code: "narrow_float_in_scalar",
        underlined: "f16",
        text: "`f16` cannot be the type of a value in a scalar op\n\nnote: `f16` is for storage; values of it widen to `f32` by themselves\nhelp: write `f32`",
    },
    Case {
        program: "fn f(x: f32) -> (f32, bf16) { (x, x) }",
        code: "narrow_float_in_scalar",
        underlined: "bf16",
        text: "`bf16` cannot be the type of a value in a scalar op\n\nnote: `bf16` is for storage; values of it widen to `f32` by themselves\nhelp: write `f32`",
    },
    Case {
        program: "fn f(x: String) -> f32 { 1.0 }",
        code: "unsupported_scalar_type",
        underlined: "String",
        text: "type `String` is not supported for scalars\n\nhelp: use f32, f64, an integer of 8 to 64 bits, bool, or a tuple of these",
    },
    Case {
        program: "fn f(x: usize) -> f32 { 1.0 }",
        code: "unsupported_scalar_type",
        underlined: "usize",
        text: "type `usize` is not supported for scalars\n\nhelp: use `u64`, or `i64`, which is what `index` and `extent` give",
    },
    Case {
        program: "fn f(x: &f32) -> f32 { 1.0 }",
        code: "unsupported_scalar_type",
        underlined: "&f32",
        text: "type `&f32` is not supported for scalars\n\nhelp: use f32, f64, an integer of 8 to 64 bits, bool, or a tuple of these",
    },
    Case {
        program: "fn f(x: f32) -> f32 { let y: u128 = 1; x }",
        code: "unsupported_scalar_type",
        underlined: "u128",
        text: "type `u128` is not supported for scalars\n\nhelp: use a type of 64 bits",
    },
    Case {
        program: r#"fn f(x: f32) -> f32 { x + "1" }"#,
        code: "unsupported_literal",
        underlined: r#""1""#,
        text: "literal `\"1\"` is not supported\n\nhelp: use a number with the suffix of a supported type or none, or `true` or `false`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { x + 1.0f16 }",
        code: "unsupported_literal",
        underlined: "1.0f16",
        text: "literal `1.0f16` is not supported\n\nhelp: use a number with the suffix of a supported type or none, or `true` or `false`",
    },
    Case {
        program: "fn f<T>(x: f32) -> f32 { x }",
        code: "generic_scalar",
        underlined: "T",
        text: "a scalar op cannot be generic\n\nhelp: write the op for `f32`; narrow floats widen to it by themselves",
    },
    Case {
        program: "async fn f(x: f32) -> f32 { x }",
        code: "modifier_on_scalar",
        underlined: "async",
        text: "a scalar op is a plain `fn`\n\nhelp: remove the modifier",
    },
    Case {
        program: "fn f(self) -> f32 { 1.0 }",
        code: "self_in_scalar",
        underlined: "self",
        text: "a scalar op has no `self`\n\nhelp: name the parameter and give its type",
    },
    Case {
        program: "fn f(x: f32) { }",
        code: "scalar_without_result",
        underlined: "f",
        text: "a scalar op without a result\n\nhelp: write `-> f32` after the parameters",
    },
    Case {
        program: "fn f(x: f32) -> () { }",
        code: "scalar_without_result",
        underlined: "f",
        text: "a scalar op without a result\n\nhelp: write `-> f32` after the parameters",
    },
    Case {
        program: "fn f(x: f32, n: u32) -> f32 { x + n }",
        code: "mismatched_operands",
        underlined: "+",
        text: "operands of `+` are `f32` and `u32`\n\nnote: no type widens by itself in a scalar op\nhelp: cast one side: `(.. as f32)`",
    },
    Case {
        program: "fn f(n: i32, m: i64) -> bool { n < m }",
        code: "mismatched_operands",
        underlined: "<",
        text: "operands of `<` are `i32` and `i64`\n\nnote: no type widens by itself in a scalar op\nhelp: cast one side: `(.. as i64)`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { x * 2 }",
        code: "mismatched_operands",
        underlined: "*",
        text: "operands of `*` are `f32` and `{integer}`\n\nhelp: write the literal as a float, such as `1.0`",
    },
    Case {
        program: "fn f(x: f32, c: bool) -> f32 { x * c }",
        code: "mismatched_operands",
        underlined: "*",
        text: "operands of `*` are `f32` and `bool`\n\nhelp: choose with `if`, or cast the `bool` to an integer",
    },
    Case {
        program: "fn f(x: f32) -> bool { (x, x) == x }",
        code: "mismatched_operands",
        underlined: "==",
        text: "operands of `==` are `(f32, f32)` and `f32`\n\nhelp: take the tuple apart: operators work on one value",
    },
    Case {
        program: "fn f(n: u32) -> u32 { let mut m = n; m += 0.5; m }",
        code: "mismatched_operands",
        underlined: "+=",
        text: "operands of `+=` are `u32` and `{float}`\n\nnote: no type widens by itself in a scalar op\nhelp: cast one side: `(.. as u32)`",
    },
    Case {
        program: "fn f(n: i64) -> i64 { for i in n..3u8 { } n }",
        code: "mismatched_operands",
        underlined: "..",
        text: "operands of `..` are `i64` and `u8`\n\nnote: no type widens by itself in a scalar op\nhelp: cast one side: `(.. as i64)`",
    },
    Case {
        program: "fn f(x: f32) -> i32 { x }",
        code: "mismatched_types",
        underlined: "x",
        text: "expected `i32`, found `f32`\n\nhelp: cast it: `(.. as i32)`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { if x > 0.0 { x } else { 0 } }",
        code: "mismatched_types",
        underlined: "0",
        text: "expected `f32`, found `{integer}`\n\nhelp: write the literal as a float, such as `1.0`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { if x > 0.0 { x } x }",
        code: "mismatched_types",
        underlined: "x",
        text: "expected `()`, found `f32`\n\nhelp: end the expression with `;`, or add an `else` with a value of the same type",
    },
    Case {
        program: "fn f(x: f32) -> f32 { if x { 1.0 } else { 2.0 } }",
        code: "mismatched_types",
        underlined: "x",
        text: "expected `bool`, found `f32`",
    },
    Case {
        program: "fn f(x: f32, n: i64) -> f32 { x.powi(n) }",
        code: "mismatched_types",
        underlined: "n",
        text: "expected `i32`, found `i64`\n\nhelp: cast it: `(.. as i32)`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { let (a, b) = x; a }",
        code: "mismatched_types",
        underlined: "(a, b)",
        text: "expected `f32`, found `(_, _)`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { let y: f64 = x; x }",
        code: "mismatched_types",
        underlined: "x",
        text: "expected `f64`, found `f32`\n\nhelp: cast it: `(.. as f64)`",
    },
    Case {
        program: "fn f(n: i32) -> i32 { n.sqrt() }",
        code: "unsupported_operand",
        underlined: "sqrt",
        text: "method `sqrt` needs f32 or f64, found `i32`\n\nhelp: cast it: `(.. as f32)`",
    },
    Case {
        program: "fn f(n: i32) -> i32 { 2.sqrt(); n }",
        code: "unsupported_operand",
        underlined: "sqrt",
        text: "method `sqrt` needs f32 or f64, found `{integer}`\n\nhelp: write the literal as a float, such as `1.0`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { x << 1 }",
        code: "unsupported_operand",
        underlined: "<<",
        text: "`<<` needs an integer, found `f32`\n\nhelp: cast it, such as `(.. as i32)`",
    },
    Case {
        program: "fn f(n: u32) -> u32 { -n }",
        code: "unsupported_operand",
        underlined: "-",
        text: "unary `-` needs a float or a signed integer, found `u32`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { !x }",
        code: "unsupported_operand",
        underlined: "!",
        text: "unary `!` needs an integer or bool, found `f32`\n\nhelp: cast it, such as `(.. as i32)`",
    },
    Case {
        program: "fn f(c: bool) -> bool { c + c }",
        code: "unsupported_operand",
        underlined: "+",
        text: "`+` needs a number, found `bool`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { for i in 0.0..1.0 { } x }",
        code: "unsupported_operand",
        underlined: "..",
        text: "a loop needs an integer, found `{float}`\n\nhelp: cast it, such as `(.. as i32)`",
    },
    Case {
        program: "fn f(p: (f32, f32)) -> f32 { p as f32 }",
        code: "unsupported_operand",
        underlined: "as",
        text: "`as` needs a number or bool, found `(f32, f32)`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { x.rsqt() }",
        code: "unknown_method",
        underlined: "rsqt",
        text: "no method `rsqt` on `f32` in a scalar op\n\nhelp: there is a method `rsqrt`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { x.to_string() }",
        code: "unknown_method",
        underlined: "to_string",
        text: "no method `to_string` on `f32` in a scalar op\n\nnote: there are the methods of Rust's primitive types on numbers, and `erf`, `erfc`, `rsqrt`, `sigmoid`, `square`\nhelp: write the function as an op of its own and call it",
    },
    Case {
        program: "fn f(x: f32) -> f32 { f32::log1p(x) }",
        code: "unknown_method",
        underlined: "log1p",
        text: "no method `log1p` on `f32` in a scalar op\n\nhelp: there is a method `ln_1p`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { geul(x) } fn gelu(x: f32) -> f32 { x }",
        code: "unknown_function",
        underlined: "geul",
        text: "cannot find op `geul`\n\nnote: an item from elsewhere with a name so close to it is called by a path, `self::geul(..)`, or named in a `use` of the block\nhelp: there is an op `gelu`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { sqrt(x) }",
        code: "unknown_function",
        underlined: "sqrt",
        text: "cannot find op `sqrt`\n\nhelp: write it as a method: `x.sqrt(..)`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { ops::helper(x) }",
        code: "unknown_function",
        underlined: "ops::helper",
        text: "cannot find op `ops::helper`\n\nhelp: an op calls other ops, `select`, `maximum`, `minimum` and methods of the primitive types",
    },
    Case {
        program: "fn f(x: f32) -> f32 { x * crate::SCALE }",
        code: "unknown_value",
        underlined: "crate::SCALE",
        text: "cannot find value `crate::SCALE`\n\nnote: the macro sees the constants of its own block and those of std, not the code around it\nhelp: pass it as a parameter, or define a `const` in the block",
    },
    Case {
        program: "fn f(x: f32) -> f32 { g * x } fn g(x: f32) -> f32 { x }",
        code: "unknown_value",
        underlined: "g",
        text: "cannot find value `g`\n\nnote: `g` is an op, not a value\nhelp: call it: `g(..)`",
    },
    Case {
        program: "fn f(p: (f32, f32)) -> f32 { p.2 }",
        code: "no_such_field",
        underlined: "2",
        text: "no field `2` on `(f32, f32)`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { x.re }",
        code: "no_such_field",
        underlined: "re",
        text: "no field `re` on `f32`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { x.max() }",
        code: "wrong_argument_count",
        underlined: "max",
        text: "`max` takes 1 argument, found 0",
    },
    Case {
        program: "fn f(x: f32) -> f32 { g(x, x) } fn g(x: f32) -> f32 { x }",
        code: "wrong_argument_count",
        underlined: "g",
        text: "`g` takes 1 argument, found 2",
    },
    Case {
        program: "fn f(x: f32) -> f32 { select(x > 0.0, x) }",
        code: "wrong_argument_count",
        underlined: "select",
        text: "`select` takes 3 arguments, found 2",
    },
    Case {
        program: "fn f(n: u8) -> u8 { n & 256 }",
        code: "literal_out_of_range",
        underlined: "256",
        text: "literal `256` is out of range for `u8`",
    },
    Case {
        program: "fn f(n: i8) -> i8 { n + -129 }",
        code: "literal_out_of_range",
        underlined: "-129",
        text: "literal `-129` is out of range for `i8`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { let y = x as f16; y as f32 }",
        code: "narrow_value_in_scalar",
        underlined: "x as f16",
        text: "`f16` cannot be the type of a value in a scalar op\n\nnote: `f16` is for storage; computation is in `f32` or wider\nhelp: to round, widen at once: `(x as f16) as f32`; to narrow a result, cast it in the kernel",
    },
    Case {
        program: "fn f(x: f32) -> f32 { x.abs() = 1.0; x }",
        code: "invalid_assignment_target",
        underlined: "x.abs()",
        text: "invalid left-hand side of assignment\n\nhelp: assign to a variable, a field of a tuple, or a tuple of these",
    },
    Case {
        program: "fn f(x: f32) -> f32 { if x < 0.0 { return 0.0; } x }",
        code: "early_return_in_scalar",
        underlined: "return",
        text: "`return` is not supported in a scalar op\n\nhelp: make the value the tail of the body, such as `if x < 0.0 { 0.0 } else { x }`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { while x > 1.0 { } x }",
        code: "unbounded_loop",
        underlined: "while",
        text: "`while` is not supported in a scalar op\n\nnote: a loop has a number of rounds that is known at compile time\nhelp: use `for i in 0..N` with a constant `N`, and `if` in its body for rounds that do nothing",
    },
    Case {
        program: "fn f(x: f32) -> f32 { loop { } }",
        code: "unbounded_loop",
        underlined: "loop",
        text: "`loop` is not supported in a scalar op\n\nnote: a loop has a number of rounds that is known at compile time\nhelp: use `for i in 0..N` with a constant `N`, and `if` in its body for rounds that do nothing",
    },
    Case {
        program: "fn f(x: f32) -> f32 { for i in 0..4 { break; } x }",
        code: "loop_jump",
        underlined: "break",
        text: "`break` is not supported in a scalar op\n\nhelp: put the rest of the body into an `if`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { for i in 0..4 { continue; } x }",
        code: "loop_jump",
        underlined: "continue",
        text: "`continue` is not supported in a scalar op\n\nhelp: put the rest of the body into an `if`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { for i in (0..4).rev() { } x }",
        code: "loop_over_other_than_range",
        underlined: "(0..4).rev()",
        text: "a loop in a scalar op is over a range of integers\n\nhelp: write `for i in 0..N` and compute what the round needs from `i`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { for i in 0.. { } x }",
        code: "loop_over_other_than_range",
        underlined: "0..",
        text: "a loop in a scalar op is over a range of integers\n\nhelp: write `for i in 0..N` and compute what the round needs from `i`",
    },
    Case {
        program: "fn f(n: i32) -> i32 { let mut s = 0; for i in 0..n { s += i; } s }",
        code: "loop_bound_not_constant",
        underlined: "n",
        text: "the bound of a loop is not a constant\n\nhelp: use a literal or a `const`, and `if` in the body for rounds that do nothing",
    },
    Case {
        program: "fn f(n: u64) -> u64 { for i in 0..18_446_744_073_709_551_615 { } n }",
        code: "literal_out_of_range",
        underlined: "18_446_744_073_709_551_615",
        text: "literal `18446744073709551615` is out of range for `i32`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { assert!(x > 0.0); x }",
        code: "macro_in_scalar",
        underlined: "assert",
        text: "macro `assert!` is not supported in a scalar op\n\nhelp: write out what it expands to",
    },
    Case {
        program: "fn f(n: i32) -> bool { matches!(n, 1 | 2) }",
        code: "macro_in_scalar",
        underlined: "matches",
        text: "macro `matches!` is not supported in a scalar op\n\nhelp: write a `match` that gives `true` and `false`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { let g = |y| y; x }",
        code: "closure_in_scalar",
        underlined: "|",
        text: "closures are not supported in a scalar op\n\nhelp: write it as an op of its own and call it",
    },
    Case {
        program: "fn f(x: f32) -> f32 { let y = &x; x }",
        code: "reference_in_scalar",
        underlined: "&",
        text: "references are not supported in a scalar op\n\nhelp: use the value itself: scalars are copied",
    },
    Case {
        program: "fn f(x: f32) -> f32 { let y = *x; x }",
        code: "reference_in_scalar",
        underlined: "*",
        text: "references are not supported in a scalar op\n\nhelp: use the value itself: scalars are copied",
    },
    Case {
        program: "fn f(x: f32) -> f32 { let ref y = x; x }",
        code: "reference_in_scalar",
        underlined: "ref",
        text: "references are not supported in a scalar op\n\nhelp: use the value itself: scalars are copied",
    },
    Case {
        program: "fn f(x: f32) -> f32 { x[0] }",
        code: "indexing_in_scalar",
        underlined: "[0]",
        text: "indexing is not supported in a scalar op\n\nnote: an op sees one element of each operand\nhelp: index in the kernel, with `at`, `slice` or `gather`, and pass the element",
    },
    Case {
        program: "fn f(x: f32) -> f32 { if let y = x { y } else { x } }",
        code: "unsupported_expression",
        underlined: "let",
        text: "`if let` is not supported in a scalar op\n\nnote: bodies consist of `let`, assignments, `if`, `match`, counted loops, tuples, casts, operators and calls",
    },
    Case {
        program: "fn f(x: f32) -> f32 { let y = [x, x]; x }",
        code: "unsupported_expression",
        underlined: "[x, x]",
        text: "an array is not supported in a scalar op\n\nnote: bodies consist of `let`, assignments, `if`, `match`, counted loops, tuples, casts, operators and calls",
    },
    Case {
        program: "fn f(x: f32) -> f32 { unsafe { x } }",
        code: "unsupported_expression",
        underlined: "unsafe",
        text: "`unsafe` is not supported in a scalar op\n\nnote: bodies consist of `let`, assignments, `if`, `match`, counted loops, tuples, casts, operators and calls",
    },
    Case {
        program: "fn f(x: f32) -> f32 { let y = 0..3; x }",
        code: "unsupported_expression",
        underlined: "..",
        text: "a range is not supported in a scalar op\n\nnote: bodies consist of `let`, assignments, `if`, `match`, counted loops, tuples, casts, operators and calls",
    },
    Case {
        program: "fn f(x: f32) -> f32 { x? }",
        code: "unsupported_expression",
        underlined: "?",
        text: "`?` is not supported in a scalar op\n\nnote: bodies consist of `let`, assignments, `if`, `match`, counted loops, tuples, casts, operators and calls",
    },
    Case {
        program: "fn f(x: f32) -> f32 { fn g() {} x }",
        code: "item_in_scalar",
        underlined: "fn g() {}",
        text: "items other than `const` are not supported in a scalar op\n\nhelp: move it out of the body",
    },
    Case {
        program: "fn f(x: f32) -> f32 { let [a, b] = x; x }",
        code: "unsupported_pattern",
        underlined: "[a, b]",
        text: "this pattern is not supported in a scalar op\n\nhelp: use literals, ranges, `|`, names, `_` and tuples of these",
    },
    Case {
        program: "fn f(n: i32) -> i32 { match n { Some(x) => 1, _ => 2 } }",
        code: "unsupported_pattern",
        underlined: "Some(x)",
        text: "this pattern is not supported in a scalar op\n\nhelp: use literals, ranges, `|`, names, `_` and tuples of these",
    },
    Case {
        program: "fn f(n: i32) -> i32 { match (n, n) { (1, m) | (m, 1) => 2, _ => 3 } }",
        code: "binding_in_or_pattern",
        underlined: "(1, m)",
        text: "names in alternatives of a pattern are not supported in a scalar op\n\nhelp: bind outside: `n @ (1 | 2)`, or write two arms",
    },
    Case {
        program: "fn f(n: i32) -> i32 { match n { 0.5 => 1, _ => 2 } }",
        code: "mismatched_types",
        underlined: "0.5",
        text: "expected `i32`, found `{float}`\n\nhelp: cast it: `(.. as i32)`",
    },
    Case {
        program: "fn f(x: f32) -> f32 { f(x) }",
        code: "recursive_op",
        underlined: "f",
        text: "op `f` calls itself\n\nhelp: write the recursion as a loop with constant bounds",
    },
    Case {
        program: "fn f(x: f32) -> f32 { g(x) } fn g(x: f32) -> f32 { h(x) } fn h(x: f32) -> f32 { 1.0 + f(x) }",
        code: "recursive_op",
        underlined: "f",
        text: "op `f` calls itself\n\nnote: the calls are `f`, `g`, `h` and `f` again\nhelp: write the recursion as a loop with constant bounds",
    },
    Case {
        program: "const A: f32 = B + 1.0; const B: f32 = A;",
        code: "circular_constant",
        underlined: "A",
        text: "constant `A` depends on itself",
    },
    Case {
        program: "const A: (f32, f32) = (1.0, 2.0);",
        code: "tuple_constant",
        underlined: "(f32, f32)",
        text: "a constant is one number or truth value\n\nhelp: write one constant for each value",
    },
    Case {
        program: "const A: i32 = 1 / 0;",
        code: "division_by_zero_in_constant",
        underlined: "1 / 0",
        text: "division by zero in a constant",
    },
    Case {
        program: "const A: f32 = 1;",
        code: "mismatched_types",
        underlined: "1",
        text: "expected `f32`, found `{integer}`\n\nhelp: write the literal as a float, such as `1.0`",
    },
    Case {
        program: "#[reduce(identity = 0.0)] fn add(a: f32, n: i32) -> f32 { a }",
        code: "combiner_signature",
        underlined: "a: f32, n: i32",
        text: "a combiner takes two values of the type that it gives\n\nhelp: write `(a: f32, b: f32) -> f32`",
    },
    Case {
        program: "#[reduce(identity = 0)] fn add(a: f32, b: f32) -> f32 { a + b }",
        code: "mismatched_types",
        underlined: "0",
        text: "expected `f32`, found `{integer}`\n\nhelp: write the literal as a float, such as `1.0`",
    },
    Case {
        program: "#[reduce(identity = (0.0, 1, 2))] fn best(a: (f32, i64), b: (f32, i64)) -> (f32, i64) { a }",
        code: "mismatched_types",
        underlined: "(0.0, 1, 2)",
        text: "expected `(f32, i64)`, found `({float}, {integer}, {integer})`",
    },
    Case {
        program: "const A: bf16 = 1.0;",
        code: "narrow_constant",
        underlined: "bf16",
        text: "`bf16` cannot be the type of a constant\n\nhelp: write `f32`, and cast where the constant is used",
    },
    Case {
        program: "fn f(x: f32) -> f32 { x.softmax(1) }",
        code: "unknown_method",
        underlined: "softmax",
        text: "no method `softmax` on `f32` in a scalar op\n\nnote: `softmax` is of tensors; an op sees one element of each operand\nhelp: call it in the kernel and pass the result to the op",
    },
    Case {
        program: "fn f(x: f32) -> f32 { x * index(1) as f32 }",
        code: "unknown_function",
        underlined: "index",
        text: "cannot find op `index`\n\nnote: `index` is of kernels; an op sees one element of each operand\nhelp: call `index` in the kernel and pass the result to the op",
    },
    Case {
        program: "const ALPHA: f32 = 1.0; fn f(x: f32) -> f32 { x * APLHA }",
        code: "unknown_value",
        underlined: "APLHA",
        text: "cannot find value `APLHA`\n\nhelp: there is `ALPHA`",
    },
];

/// The source text of a place in a program of one line.
fn text_at(program: &str, place: Place) -> String {
    let (start, end) = (place.start.start(), place.end.end());
    assert_eq!((start.line, end.line), (1, 1), "`{program}` has one line");
    program.chars().skip(start.column).take(end.column - start.column).collect()
}

#[test]
fn each_error_says_what_is_wrong_at_the_token_that_shows_it() {
    for case in CASES {
        let (_, diagnostics) = lower(case.program);
        let found: Vec<_> = diagnostics
            .iter()
            .map(|error| (error.code, text_at(case.program, error.primary), error.text()))
            .collect();
        let expected = (case.code, case.underlined.to_string(), case.text.to_string());
        assert_eq!(found, [expected], "{}", case.program);
    }
}

#[test]
fn every_constructor_has_a_case() {
    let source = syn::parse_file(include_str!("../../diagnostic/messages/scalar.rs")).expect("own source");
    let constructors: BTreeSet<String> = source
        .items
        .iter()
        .filter_map(|item| match item {
            syn::Item::Fn(item) if matches!(item.vis, syn::Visibility::Public(_)) => {
                Some(item.sig.ident.to_string())
            }
            _ => None,
        })
        .collect();
    let covered: BTreeSet<String> = CASES.iter().map(|case| case.code.to_string()).collect();
    assert_eq!(covered, constructors);
}

#[test]
fn independent_errors_are_all_reported() {
    let (_, diagnostics) = lower(
        "fn f(x: f32, n: u32) -> f32 { let a = x + n; let b = y; a + b + x.rsqt() } fn g(x: f32) -> f32 { 1u8 }",
    );
    let codes: Vec<_> = diagnostics.iter().map(|error| error.code).collect();
    assert_eq!(codes, ["mismatched_operands", "unknown_value", "unknown_method", "mismatched_types"]);
}

#[test]
fn one_mistake_gives_one_error() {
    for program in [
        "fn f(x: f32) -> f32 { let y = x.foo(); y + 1.0 + y.bar(2) * if y > 0.0 { y } else { 1 as f32 } }",
        "fn f(x: f32) -> f32 { let (a, b) = unknown(x); a + b.sqrt() }",
        "fn f(x: f32) -> f32 { let mut y = z; y += 1; y = 2.0; match y { 0 => 1.0, _ => x } }",
        "const A: f32 = B; fn f(x: f32) -> f32 { x + A }",
        "fn f(x: f32) -> f32 { for i in 0..UNKNOWN { let y = i + 1; } x }",
        "fn f(x: Foo) -> f32 { x.bar } fn g(x: f32) -> f32 { f(x, 1) }",
    ] {
        let (_, diagnostics) = lower(program);
        let errors: Vec<String> = diagnostics.iter().map(|error| error.text()).collect();
        assert_eq!(errors.len(), 1, "{program}\n{errors:#?}");
    }
}
