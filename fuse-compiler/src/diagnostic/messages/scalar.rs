//! Errors in scalar functions, combiners and constants.

use super::super::{Diagnostic, Place};
use fuse_ir::dtype::DType;
use proc_macro2::Span;

/// Rule 9: an op's parameters, results and variables are f32, f64, integers or bool.
///
/// ```text
/// #[op] fn f(x: f16) -> f32 { x }
///               ^^^
/// ```
pub fn narrow_float_in_scalar(at: Place, dtype: DType) -> Diagnostic {
    Diagnostic::new(
        "narrow_float_in_scalar",
        at,
        format!("`{dtype}` cannot be the type of a value in a scalar op"),
    )
    .note(format!("`{dtype}` is for storage; values of it widen to `f32` by themselves"))
    .help("write `f32`")
}

/// Rule 10: numbers, truth values and tuples of them are all there is.
///
/// ```text
/// #[op] fn f(x: String) -> f32 { 0.0 }
///               ^^^^^^
/// ```
pub fn unsupported_scalar_type(at: Place, name: &str) -> Diagnostic {
    let error =
        Diagnostic::new("unsupported_scalar_type", at, format!("type `{name}` is not supported for scalars"));
    match name {
        "usize" => error.help("use `u64`, or `i64`, which is what `index` and `extent` give"),
        "isize" => error.help("use `i64`"),
        _ if name.starts_with("Tensor") => {
            error.help("a function over tensors is a plain `fn`, without `#[op]`")
        }
        "i128" | "u128" => error.help("use a type of 64 bits"),
        _ => error.help("use f32, f64, an integer of 8 to 64 bits, bool, or a tuple of these"),
    }
}

/// Rule 10: literals are numbers and truth values.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { x + "1" }
///                                 ^^^
/// ```
pub fn unsupported_literal(at: Span, literal: &str) -> Diagnostic {
    Diagnostic::new("unsupported_literal", at, format!("literal `{literal}` is not supported"))
        .help("use a number with the suffix of a supported type or none, or `true` or `false`")
}

/// Rule 10: an op is not generic; each is one function of known dtypes.
///
/// ```text
/// #[op] fn f<T>(x: f32) -> f32 { x }
///            ^
/// ```
pub fn generic_scalar(at: Place) -> Diagnostic {
    Diagnostic::new("generic_scalar", at, "a scalar op cannot be generic")
        .help("write the op for `f32`; narrow floats widen to it by themselves")
}

/// Items: an op is a plain function.
///
/// ```text
/// #[op] async fn f(x: f32) -> f32 { x }
///       ^^^^^
/// ```
pub fn modifier_on_scalar(at: Place) -> Diagnostic {
    Diagnostic::new("modifier_on_scalar", at, "a scalar op is a plain `fn`").help("remove the modifier")
}

/// Items: an op is a free function.
///
/// ```text
/// #[op] fn f(self) -> f32 { 0.0 }
///            ^^^^
/// ```
pub fn self_in_scalar(at: Span) -> Diagnostic {
    Diagnostic::new("self_in_scalar", at, "a scalar op has no `self`")
        .help("name the parameter and give its type")
}

/// Items: an op gives a value.
///
/// ```text
/// #[op] fn f(x: f32) { }
///          ^
/// ```
pub fn scalar_without_result(at: Span) -> Diagnostic {
    Diagnostic::new("scalar_without_result", at, "a scalar op without a result")
        .help("write `-> f32` after the parameters")
}

/// Rule 9: both operands of an operator have one dtype.
///
/// ```text
/// #[op] fn f(x: f32, n: u32) -> f32 { x + n }
///                                       ^
/// ```
pub fn mismatched_operands(at: Place, symbol: &str, left: &str, right: &str) -> Diagnostic {
    let message = format!("operands of `{symbol}` are `{left}` and `{right}`");
    let error = Diagnostic::new("mismatched_operands", at, message);
    match (left, right) {
        ("{integer}", "f32" | "f64" | "{float}") | ("f32" | "f64" | "{float}", "{integer}") => {
            error.help("write the literal as a float, such as `1.0`")
        }
        _ if [left, right].iter().any(|name| name.starts_with('(')) => {
            error.help("take the tuple apart: operators work on one value")
        }
        ("bool", _) | (_, "bool") => error.help("choose with `if`, or cast the `bool` to an integer"),
        _ => {
            let error = error.note("no type widens by itself in a scalar op");
            match wider(left, right) {
                Some(dtype) => error.help(format!("cast one side: `(.. as {dtype})`")),
                None => error.help("cast one side, such as `(.. as f32)`"),
            }
        }
    }
}

/// The dtype of the two to which casting the other loses least: a float before an integer, then the larger.
fn wider(left: &str, right: &str) -> Option<DType> {
    let dtypes = [left, right].map(DType::from_name);
    dtypes.into_iter().flatten().rev().max_by_key(|dtype| (dtype.is_float(), dtype.size()))
}

/// Rules 9 and 10: a value has the type that its place demands.
///
/// ```text
/// #[op] fn f(x: f32) -> i32 { x }
///                             ^
/// ```
pub fn mismatched_types(at: Place, expected: &str, found: &str) -> Diagnostic {
    let error = Diagnostic::new("mismatched_types", at, format!("expected `{expected}`, found `{found}`"));
    let scalar = |name: &str| DType::from_name(name).is_some_and(|dtype| dtype != DType::Bool);
    match (expected, found) {
        ("f32" | "f64", "{integer}") => error.help("write the literal as a float, such as `1.0`"),
        (_, "()") => error.help("end the body with the value, without a semicolon after it"),
        ("()", _) => {
            error.help("end the expression with `;`, or add an `else` with a value of the same type")
        }
        (expected, found) if scalar(expected) && (scalar(found) || found.starts_with('{')) => {
            error.help(format!("cast it: `(.. as {expected})`"))
        }
        _ => error,
    }
}

/// Rule 10: operators and methods are those of the primitive types.
///
/// ```text
/// #[op] fn f(n: i32) -> i32 { n.sqrt() }
///                               ^^^^
/// ```
pub fn unsupported_operand(at: Place, what: &str, found: &str, class: &str) -> Diagnostic {
    let error = Diagnostic::new("unsupported_operand", at, format!("{what} needs {class}, found `{found}`"));
    match (class, found) {
        ("f32 or f64", "{integer}") => error.help("write the literal as a float, such as `1.0`"),
        ("f32 or f64", _) => error.help("cast it: `(.. as f32)`"),
        ("an integer" | "an integer or bool", "f32" | "f64" | "{float}") => {
            error.help("cast it, such as `(.. as i32)`")
        }
        _ => error,
    }
}

/// Rule 10: methods are those of the primitive types and those that std lacks.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { x.rsqt() }
///                               ^^^^
/// ```
pub fn unknown_method(at: Span, name: &str, receiver: &str, similar: Option<&str>) -> Diagnostic {
    let error =
        Diagnostic::new("unknown_method", at, format!("no method `{name}` on `{receiver}` in a scalar op"));
    if is_tensor_method(name) {
        return error
            .note(format!("`{name}` is of tensors; an op sees one element of each operand"))
            .help("call it in the kernel and pass the result to the op");
    }
    match similar {
        Some(similar) => error.help(format!("there is a method `{similar}`")),
        None => error
            .note("there are the methods of Rust's primitive types on numbers, and `erf`, `erfc`, `rsqrt`, `sigmoid`, `square`")
            .help("write the function as an op of its own and call it"),
    }
}

/// Whether tensors have a method of that name, and scalars none.
pub(crate) fn is_tensor_method(name: &str) -> bool {
    TENSOR_METHODS.contains(&name)
}

/// Methods of tensors that no scalar has.
const TENSOR_METHODS: &[&str] = &[
    "all",
    "any",
    "argmax",
    "argmin",
    "at",
    "cumsum",
    "dot",
    "dropout",
    "gather",
    "log_softmax",
    "logsumexp",
    "materialize",
    "mean",
    "merge",
    "pad",
    "prod",
    "reduce",
    "rename",
    "reverse",
    "slice",
    "softmax",
    "split",
    "sum",
    "var",
    "window",
];

/// How an item from elsewhere is called whose name is close to one that the block knows.
pub(super) fn note_on_close_name(name: &str) -> String {
    format!(
        "an item from elsewhere with a name so close to it is called by a path, `self::{name}(..)`, or named in a \
         `use` of the block"
    )
}

/// Rule 10: a call names another op or a function of the language.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { gleu(x) }
///                             ^^^^
/// ```
pub fn unknown_function(at: Place, name: &str, similar: Option<&str>, is_method: bool) -> Diagnostic {
    let error = Diagnostic::new("unknown_function", at, format!("cannot find op `{name}`"));
    match similar {
        _ if matches!(name, "index" | "extent") => error
            .note(format!("`{name}` is of kernels; an op sees one element of each operand"))
            .help(format!("call `{name}` in the kernel and pass the result to the op")),
        _ if is_method => error.help(format!("write it as a method: `x.{name}(..)`")),
        Some(similar) => error.note(note_on_close_name(name)).help(format!("there is an op `{similar}`")),
        None => error
            .help("an op calls other ops, `select`, `maximum`, `minimum` and methods of the primitive types"),
    }
}

/// Rule 18: names are variables, constants of the block and std's float constants.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { x * crate::SCALE }
///                                 ^^^^^^^^^^^^
/// ```
pub fn unknown_value(at: Place, name: &str, is_op: bool, similar: Option<&str>) -> Diagnostic {
    let error = Diagnostic::new("unknown_value", at, format!("cannot find value `{name}`"));
    if is_op {
        return error.note(format!("`{name}` is an op, not a value")).help(format!("call it: `{name}(..)`"));
    }
    match similar {
        Some(similar) => error.help(format!("there is `{similar}`")),
        None => error
            .note("the macro sees the constants of its own block and those of std, not the code around it")
            .help("pass it as a parameter, or define a `const` in the block"),
    }
}

/// Rule 10: fields are those of tuples.
///
/// ```text
/// #[op] fn f(p: (f32, f32)) -> f32 { p.2 }
///                                      ^
/// ```
pub fn no_such_field(at: Span, field: &str, ty: &str) -> Diagnostic {
    Diagnostic::new("no_such_field", at, format!("no field `{field}` on `{ty}`"))
}

/// Rule 10: a call passes what the callee takes.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { x.max() }
///                               ^^^
/// ```
pub fn wrong_argument_count(at: Place, name: &str, expected: usize, found: usize) -> Diagnostic {
    let plural = if expected == 1 { "argument" } else { "arguments" };
    let message = format!("`{name}` takes {expected} {plural}, found {found}");
    Diagnostic::new("wrong_argument_count", at, message)
}

/// Rule 10: a literal fits its dtype.
///
/// ```text
/// #[op] fn f(n: u8) -> u8 { n & 256 }
///                               ^^^
/// ```
pub fn literal_out_of_range(at: Place, literal: &str, dtype: DType) -> Diagnostic {
    Diagnostic::new("literal_out_of_range", at, format!("literal `{literal}` is out of range for `{dtype}`"))
}

/// Rule 9: a narrow float is not a value of a scalar op, but one can round to it.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { let y = x as f16; y as f32 }
///                                     ^^^^^^^^
/// ```
pub fn narrow_value_in_scalar(at: Place, dtype: DType) -> Diagnostic {
    Diagnostic::new(
        "narrow_value_in_scalar",
        at,
        format!("`{dtype}` cannot be the type of a value in a scalar op"),
    )
    .note(format!("`{dtype}` is for storage; computation is in `f32` or wider"))
    .help(format!(
        "to round, widen at once: `(x as {dtype}) as f32`; to narrow a result, cast it in the kernel"
    ))
}

/// Rule 10: variables and fields of tuples can be assigned.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { x.abs() = 1.0; x }
///                             ^^^^^^^
/// ```
pub fn invalid_assignment_target(at: Place) -> Diagnostic {
    Diagnostic::new("invalid_assignment_target", at, "invalid left-hand side of assignment")
        .help("assign to a variable, a field of a tuple, or a tuple of these")
}

/// Rule 10: an op ends at its end.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { if x < 0.0 { return 0.0; } x }
///                                          ^^^^^^
/// ```
pub fn early_return_in_scalar(at: Span) -> Diagnostic {
    Diagnostic::new("early_return_in_scalar", at, "`return` is not supported in a scalar op")
        .help("make the value the tail of the body, such as `if x < 0.0 { 0.0 } else { x }`")
}

/// Rule 10: loops have constant bounds.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { while x > 1.0 { } x }
///                             ^^^^^
/// ```
pub fn unbounded_loop(at: Span, keyword: &str) -> Diagnostic {
    Diagnostic::new("unbounded_loop", at, format!("`{keyword}` is not supported in a scalar op"))
        .note("a loop has a number of rounds that is known at compile time")
        .help("use `for i in 0..N` with a constant `N`, and `if` in its body for rounds that do nothing")
}

/// Rule 10: a loop runs through all its rounds.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { for i in 0..4 { break; } x }
///                                             ^^^^^
/// ```
pub fn loop_jump(at: Span, keyword: &str) -> Diagnostic {
    Diagnostic::new("loop_jump", at, format!("`{keyword}` is not supported in a scalar op"))
        .help("put the rest of the body into an `if`")
}

/// Rule 10: a loop is over a range of integers.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { for i in (0..4).rev() { } x }
///                                      ^^^^^^^^^^^^
/// ```
pub fn loop_over_other_than_range(at: Place) -> Diagnostic {
    Diagnostic::new("loop_over_other_than_range", at, "a loop in a scalar op is over a range of integers")
        .help("write `for i in 0..N` and compute what the round needs from `i`")
}

/// Rule 10: the bounds of a loop are constants that fit i64.
///
/// ```text
/// #[op] fn f(n: i32) -> i32 { let mut s = 0; for i in 0..n { s += i; } s }
///                                                        ^
/// ```
pub fn loop_bound_not_constant(at: Place) -> Diagnostic {
    Diagnostic::new("loop_bound_not_constant", at, "the bound of a loop is not a constant")
        .help("use a literal or a `const`, and `if` in the body for rounds that do nothing")
}

/// Rule 10: macros are not expanded inside the language.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { assert!(x > 0.0); x }
///                             ^^^^^^
/// ```
pub fn macro_in_scalar(path: &syn::Path) -> Diagnostic {
    let name = quote::quote!(#path).to_string().replace(' ', "");
    let error = Diagnostic::new(
        "macro_in_scalar",
        Place::of(path),
        format!("macro `{name}!` is not supported in a scalar op"),
    );
    match name.as_str() {
        "matches" => error.help("write a `match` that gives `true` and `false`"),
        _ => error.help("write out what it expands to"),
    }
}

/// Rule 10: there are no functions as values.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { let g = |y| y; g(x) }
///                                     ^
/// ```
pub fn closure_in_scalar(at: Span) -> Diagnostic {
    Diagnostic::new("closure_in_scalar", at, "closures are not supported in a scalar op")
        .help("write it as an op of its own and call it")
}

/// Rule 10: values are copied; there are no addresses.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { let y = &x; x }
///                                     ^
/// ```
pub fn reference_in_scalar(at: Place) -> Diagnostic {
    Diagnostic::new("reference_in_scalar", at, "references are not supported in a scalar op")
        .help("use the value itself: scalars are copied")
}

/// Rule 10: an op sees one element.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { x[0] }
///                              ^^^
/// ```
pub fn indexing_in_scalar(at: Span) -> Diagnostic {
    Diagnostic::new("indexing_in_scalar", at, "indexing is not supported in a scalar op")
        .note("an op sees one element of each operand")
        .help("index in the kernel, with `at`, `slice` or `gather`, and pass the element")
}

/// Rule 10: other expressions of Rust.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { if let y = x { y } else { x } }
///                                ^^^
/// ```
pub fn unsupported_expression(at: Place, what: &str) -> Diagnostic {
    Diagnostic::new("unsupported_expression", at, format!("{what} is not supported in a scalar op"))
        .note("bodies consist of `let`, assignments, `if`, `match`, counted loops, tuples, casts, operators and calls")
}

/// Rule 10: the only items in a body are constants.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { fn g() {} x }
///                             ^^^^^^^^^
/// ```
pub fn item_in_scalar(at: Place) -> Diagnostic {
    Diagnostic::new("item_in_scalar", at, "items other than `const` are not supported in a scalar op")
        .help("move it out of the body")
}

/// Rule 10: patterns are literals, ranges, alternatives, names and tuples.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { let [a, b] = x; a }
///                                 ^^^^^^
/// ```
pub fn unsupported_pattern(at: Place) -> Diagnostic {
    Diagnostic::new("unsupported_pattern", at, "this pattern is not supported in a scalar op")
        .help("use literals, ranges, `|`, names, `_` and tuples of these")
}

/// Rule 10: alternatives bind no names.
///
/// ```text
/// #[op] fn f(n: i32) -> i32 { match (n, n) { (1, m) | (m, 1) => m, _ => 0 } }
///                                            ^^^^^^
/// ```
pub fn binding_in_or_pattern(at: Place) -> Diagnostic {
    Diagnostic::new(
        "binding_in_or_pattern",
        at,
        "names in alternatives of a pattern are not supported in a scalar op",
    )
    .help("bind outside: `n @ (1 | 2)`, or write two arms")
}

/// Rule 10: ops do not call themselves; a kernel has no stack.
///
/// ```text
/// #[op] fn f(x: f32) -> f32 { f(x) }
///                             ^
/// ```
pub fn recursive_op(at: Place, cycle: &[&str]) -> Diagnostic {
    let first = cycle.first().copied().unwrap_or_default();
    let error = Diagnostic::new("recursive_op", at, format!("op `{first}` calls itself"));
    let error = if cycle.len() > 1 {
        let names: Vec<String> = cycle.iter().map(|name| format!("`{name}`")).collect();
        error.note(format!("the calls are {} and `{first}` again", names.join(", ")))
    } else {
        error
    };
    error.help("write the recursion as a loop with constant bounds")
}

/// Rule 18: a constant does not depend on itself.
///
/// ```text
/// const A: f32 = A + 1.0;
///                ^
/// ```
pub fn circular_constant(at: Span, name: &str) -> Diagnostic {
    Diagnostic::new("circular_constant", at, format!("constant `{name}` depends on itself"))
}

/// Rule 18: a constant is one number or truth value.
///
/// ```text
/// const A: (f32, f32) = (1.0, 2.0);
///          ^^^^^^^^^^
/// ```
pub fn tuple_constant(at: Place) -> Diagnostic {
    Diagnostic::new("tuple_constant", at, "a constant is one number or truth value")
        .help("write one constant for each value")
}

/// Rules 9 and 18: a constant is of a type in which is computed.
///
/// ```text
/// const A: f16 = 1.0;
///          ^^^
/// ```
pub fn narrow_constant(at: Place, dtype: DType) -> Diagnostic {
    Diagnostic::new("narrow_constant", at, format!("`{dtype}` cannot be the type of a constant"))
        .help("write `f32`, and cast where the constant is used")
}

/// Rule 18: a constant has a value.
///
/// ```text
/// const A: i32 = 1 / 0;
///                ^^^^^
/// ```
pub fn division_by_zero_in_constant(at: Place) -> Diagnostic {
    Diagnostic::new("division_by_zero_in_constant", at, "division by zero in a constant")
}

/// Rule 13: a combiner takes two elements and gives one of the same type.
///
/// ```text
/// #[reduce(identity = 0.0)] fn add(a: f32, n: i32) -> f32 { a }
///                                  ^^^^^^^^^^^^^^
/// ```
pub fn combiner_signature(at: Place, element: &str) -> Diagnostic {
    Diagnostic::new("combiner_signature", at, "a combiner takes two values of the type that it gives")
        .help(format!("write `(a: {element}, b: {element}) -> {element}`"))
}
