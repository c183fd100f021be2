//! Errors about axes, extents, reductions, results and `&mut` parameters.

use crate::diagnostic::{Diagnostic, Place};
use fuse_ir::dtype::DType;
use proc_macro2::Ident;

/// An axis is expected.
///
/// ```text
/// x.sum(0)
///       ^
/// ```
pub fn axis_expected(at: Place) -> Diagnostic {
    Diagnostic::new("axis_expected", at, "the name of an axis is expected")
        .note("axes are named, never numbered: `x.sum(N)`, or several: `x.sum((M, N))`")
}

/// An axis is no value.
///
/// ```text
/// x * N
///     ^
/// ```
pub fn axis_in_place_of_value(name: &Ident) -> Diagnostic {
    Diagnostic::new("axis_in_place_of_value", name.span(), format!("`{name}` is an axis, not a value"))
        .help(format!("its size is `extent({name})`, the position along it `index({name})`"))
}

/// An operation lists an axis once.
///
/// ```text
/// x.sum((N, N))
///           ^
/// ```
pub fn axis_listed_twice(at: Place, name: &str) -> Diagnostic {
    Diagnostic::new("axis_listed_twice", at, format!("the axis `{name}` is listed twice"))
}

/// An operation acts on axes that its operand has (rule 12).
///
/// ```text
/// x.sum(M)     // x: Tensor<f32, N>
///       ^
/// ```
pub fn axis_missing(at: Place, name: &str, axes: &str) -> Diagnostic {
    Diagnostic::new("axis_missing", at, format!("the operand has no axis `{name}`"))
        .note(format!("its axes are {axes}"))
}

/// A tensor has each axis once (rule 1).
///
/// ```text
/// x.rename(M, N)     // x: Tensor<f32, M, N>
///             ^
/// ```
pub fn axis_there_already(at: Place, name: &str) -> Diagnostic {
    Diagnostic::new("axis_there_already", at, format!("the operand has an axis `{name}` already"))
        .note("a tensor has each axis once")
        .help(format!("name the result differently, or `rename` the `{name}` that is there"))
}

/// Of the parts of a split one extent at most is unknown (rule 2).
///
/// ```text
/// x.split(F, (H, E))     // neither H nor E has a source
///            ^^^^^^
/// ```
pub fn split_into_unknown_extents(at: Place, first: &str, second: &str) -> Diagnostic {
    Diagnostic::new(
        "split_into_unknown_extents",
        at,
        format!("the extents of `{first}` and `{second}` are both unknown"),
    )
    .help(format!("give one of them a source: a parameter `Axis<{first}>`, or `const {first}: usize = 8`"))
}

/// An axis of the generics has a source of its extent (rule 2).
///
/// ```text
/// #[kernel] fn k<N, P>(x: Tensor<f32, N>) -> Tensor<f32, N>
///                   ^
/// ```
pub fn axis_without_source(name: &Ident, derived: bool) -> Diagnostic {
    let error = Diagnostic::new(
        "axis_without_source",
        name.span(),
        format!("nothing gives the axis `{name}` an extent"),
    );
    if derived {
        return error.note("its derivation contains an axis that has none, or itself");
    }
    error.note(
        "an extent comes from the shape of a tensor parameter, from `const`, or from an operation that makes the axis",
    )
    .help(format!("add a parameter `{}: Axis<{name}>`, or `const {name}: usize = 8`", name.to_string().to_lowercase()))
}

/// An extent has one source (rule 2).
///
/// ```text
/// fn k<const C: usize = 3>(c: Axis<C>, ..)
///                                  ^
/// ```
pub fn axis_with_two_sources(name: &Ident) -> Diagnostic {
    Diagnostic::new("axis_with_two_sources", name.span(), format!("the extent of `{name}` is given twice"))
}

/// An extent is a number of positions.
///
/// ```text
/// fn k<const C: usize = { 2 - 3 }>(..)
///            ^
/// ```
pub fn extent_not_a_size(name: &Ident) -> Diagnostic {
    Diagnostic::new("extent_not_a_size", name.span(), format!("`{name}` is not an extent"))
        .note("an extent is a whole number from 0")
}

/// What gives an axis another extent gives it another name (rule 1).
///
/// ```text
/// x.pad(N, 1, 1, N)
/// ^^^^^^^^^^^^^^^^^
/// ```
pub fn extent_cannot_fit(at: Place, op: &str, axis: &str, difference: i64) -> Diagnostic {
    let more = if difference < 0 { "fewer" } else { "more" };
    let positions = count_positions(difference.unsigned_abs(), more);
    Diagnostic::new("extent_cannot_fit", at, format!("`{op}` gives {positions} than `{axis}` has"))
        .note("an axis has one extent wherever it is named")
        .help("give the result an axis of its own, declared in the generics")
}

/// `1 more position`, `2 more positions`.
fn count_positions(count: u64, more: &str) -> String {
    let noun = if count == 1 { "position" } else { "positions" };
    format!("{count} {more} {noun}").replace("  ", " ")
}

/// A part lies within what it is a part of.
///
/// ```text
/// x.slice(N, 1, N)
/// ^^^^^^^^^^^^^^^^
/// ```
pub fn part_out_of_bounds(at: Place, op: &str, axis: &str, excess: i64) -> Diagnostic {
    let positions = count_positions(excess.unsigned_abs(), "");
    Diagnostic::new("part_out_of_bounds", at, format!("`{op}` reads {positions} past the end of `{axis}`"))
}

/// Positions count from 0.
///
/// ```text
/// x.at(N, -1)
///         ^^
/// ```
pub fn negative_position(at: Place, axis: &str) -> Diagnostic {
    Diagnostic::new("negative_position", at, "a position cannot be negative")
        .help(format!("count from the end: `extent({axis}) - 1`"))
}

/// Padding adds.
///
/// ```text
/// x.pad(N, -1, 0, P)
///          ^^
/// ```
pub fn negative_padding(at: Place) -> Diagnostic {
    Diagnostic::new("negative_padding", at, "padding cannot be negative")
        .help("take a part: `x.slice(N, 1, P)`")
}

/// `concat` joins pairs of a value and its axis (rule 1).
///
/// ```text
/// concat(P, a, b)
///           ^
/// ```
pub fn concat_part(at: Place) -> Diagnostic {
    Diagnostic::new("concat_part", at, "a value with its axis is expected")
        .help("write `concat(P, (a, N), (b, Q))`: which axis of each value is joined")
}

/// Reductions name their axes (rule 12).
///
/// ```text
/// x.sum()
///   ^^^
/// ```
pub fn reduction_without_axes(at: Place, name: &str) -> Diagnostic {
    Diagnostic::new("reduction_without_axes", at, format!("`{name}` is called without an axis"))
        .help(format!("write `x.{name}(N)`, or for all axes `x.{name}((M, N))`"))
}

/// A reduction is defined for some dtypes (rule 11).
///
/// ```text
/// n.mean(N)     // n: Tensor<i32, N>
///   ^^^^
/// ```
pub fn reduction_not_defined(at: Place, name: &str, found: DType, expected: &str) -> Diagnostic {
    let error =
        Diagnostic::new("reduction_not_defined", at, format!("`{name}` takes {expected}, this is `{found}`"));
    match expected {
        "a float" => error.help(format!("cast it: `(x as f32).{name}(..)`")),
        "bool" => error.help("compare first, as in `(x != 0.0)`"),
        _ => error.help("turn it into a number: `select(mask, 1.0, 0.0)`"),
    }
}

/// A running sum goes along one axis (rule 12).
///
/// ```text
/// x.cumsum((M, N))
///          ^^^^^^
/// ```
pub fn cumsum_over_several_axes(at: Place) -> Diagnostic {
    Diagnostic::new("cumsum_over_several_axes", at, "`cumsum` goes along one axis, not several")
        .help("merge the axes first: `x.merge((M, N), F).cumsum(F)`")
}

/// Axes of a call that no argument binds (rule 4).
///
/// ```text
/// layer_norm(x, x, x, 1e-5)     // x: Tensor<f32, M, N>
/// ^^^^^^^^^^
/// ```
pub fn axes_not_bound(at: Place, callee: &Ident, open: &str, found: &str) -> Diagnostic {
    Diagnostic::new("axes_not_bound", at, format!("it is not clear what `{open}` of `{callee}` stands for"))
        .note(format!("the argument has the axes {found}"))
        .help(format!("name it: `{callee}::<{open}>(..)`, with axes of this function"))
}

/// An argument has the axes that the composite names (rule 4).
///
/// ```text
/// layer_norm::<N>(x, g, b, 1e-5)     // g: Tensor<f32, M>
///                    ^
/// ```
pub fn argument_without_axis(at: Place, param: &str, axis: &str, found: &str) -> Diagnostic {
    Diagnostic::new("argument_without_axis", at, format!("the argument for `{param}` has no axis `{axis}`"))
        .note(format!("its axes are {found}"))
}

/// A value has the axes that are declared (rule 5).
///
/// ```text
/// fn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> { x }
///                                                      ^
/// ```
pub fn axes_differ(
    at: Place,
    declared: &str,
    found: &str,
    missing: &[String],
    surplus: &[String],
) -> Diagnostic {
    let error =
        Diagnostic::new("axes_differ", at, format!("the axes {declared} are declared, this has {found}"));
    let list = |names: &[String]| names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    match (missing, surplus) {
        ([one], [other]) => {
            error.help(format!("if `{other}` is meant to be `{one}`, rename it: `.rename({other}, {one})`"))
        }
        ([], surplus) => error.help(format!("reduce {}, or declare it in the type", list(surplus))),
        (missing, _) => error.note(format!("it does not have {}", list(missing))),
    }
}

/// A function gives as many results as it declares.
///
/// ```text
/// fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { (x, x) }
///                                                ^^^^^^
/// ```
pub fn result_count(at: Place, declared: usize, found: usize) -> Diagnostic {
    let declared = match declared {
        1 => "one result is".to_owned(),
        n => format!("{n} results are"),
    };
    let message = match found {
        0 => format!("{declared} declared, the body gives none"),
        1 => format!("{declared} declared, this is one"),
        n => format!("{declared} declared, this is a tuple of {n}"),
    };
    let error = Diagnostic::new("result_count", at, message);
    if found == 0 { error.help("end the body with the result, without a semicolon after it") } else { error }
}

/// Results stand in the order of their types (rule 5).
///
/// ```text
/// fn k<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M>, Tensor<f32, N>) { (x.sum(M), x.sum(N)) }
///                                                                        ^^^^^^^^^^^^^^^^^^^^
/// ```
pub fn results_in_other_order(at: Place, declared: &str, found: &str) -> Diagnostic {
    Diagnostic::new("results_in_other_order", at, "the results are declared in another order")
        .note(format!("the axes {declared} are declared, these have {found}"))
}

/// A function without declared result gives none.
///
/// ```text
/// #[kernel] fn k<N>(x: &mut Tensor<f32, N>) { *x = x * 2.0; x }
///                                                           ^
/// ```
pub fn result_not_declared(at: Place) -> Diagnostic {
    Diagnostic::new("result_not_declared", at, "this is a result, but none is declared")
        .help("declare it: `-> Tensor<f32, N>`, or leave the value out")
}

/// A result has its declared dtype; narrowing is written (rule 9).
///
/// ```text
/// fn k<N>(x: Tensor<f32, N>) -> Tensor<f16, N> { x }
///                                                ^
/// ```
pub fn result_dtype(at: Place, declared: DType, found: DType) -> Diagnostic {
    Diagnostic::new("result_dtype", at, format!("the declared result is `{declared}`, this is `{found}`"))
        .help(format!("narrowing and conversion are written: `(..) as {declared}`"))
}

/// What stands left of `=` can be assigned to (rule 17).
///
/// ```text
/// x + 1.0 = y;
/// ^^^^^^^
/// ```
pub fn not_assignable(at: Place) -> Diagnostic {
    Diagnostic::new("not_assignable", at, "this cannot be assigned to").note(
        "a place is a `&mut` parameter, `*p = ..`, or a part of one: `p.slice(L, start, S) = ..`, `p.at(L, i) = ..`",
    )
}

/// Only `&mut` parameters change (rule 17).
///
/// ```text
/// y = x;     // let y
/// ^
/// ```
pub fn not_a_mutable_parameter(name: &Ident) -> Diagnostic {
    Diagnostic::new("not_a_mutable_parameter", name.span(), format!("`{name}` is not a `&mut` parameter"))
        .help(format!("bind the name again: `let {name} = ..;`, or declare `{name}: &mut Tensor<..>`"))
}

/// A whole parameter is assigned through `*` (rule 17).
///
/// ```text
/// p = x;
/// ^
/// ```
pub fn assignment_without_star(name: &Ident) -> Diagnostic {
    Diagnostic::new("assignment_without_star", name.span(), format!("`{name}` is a reference"))
        .help(format!("assign what it refers to: `*{name} = ..`"))
}

/// Narrowing is written (rules 9, 17).
///
/// ```text
/// *p -= g * lr;     // p: &mut Tensor<f16, N>
/// ^^^^^^^^^^^^
/// ```
pub fn narrowing_store(at: Place, name: &str, declared: DType, found: DType) -> Diagnostic {
    Diagnostic::new("narrowing_store", at, format!("`{name}` stores `{declared}`, this is `{found}`"))
        .help(format!("narrowing is written: `*{name} = (..) as {declared}`"))
}

/// A stored value has the axes of the place (rule 17).
///
/// ```text
/// *p = x.sum(N);     // p: &mut Tensor<f32, M, N>
///      ^^^^^^^^
/// ```
pub fn stored_axes_differ(at: Place, name: &str, expected: &str, found: &str) -> Diagnostic {
    Diagnostic::new(
        "stored_axes_differ",
        at,
        format!("this part of `{name}` has the axes {expected}, the value has {found}"),
    )
}

/// A `&mut` parameter is assigned (rule 17).
///
/// ```text
/// #[kernel] fn k<N>(p: &mut Tensor<f32, N>, ..) -> ..     // no `*p = ..`
///                      ^^^^^^^^^^^^^^^^^^^
/// ```
pub fn mutable_parameter_not_assigned(name: &Ident, at: Place) -> Diagnostic {
    Diagnostic::new("mutable_parameter_not_assigned", at, format!("`{name}` is never assigned"))
        .help("take it as `Tensor<..>`, without `&mut`")
}

/// A contracted axis is in both operands (rule 7).
///
/// ```text
/// x.dot(w, M)     // w: Tensor<f32, K, N>
///          ^
/// ```
pub fn contracted_axis_missing(at: Place, name: &str, which: &str, axes: &str) -> Diagnostic {
    Diagnostic::new(
        "contracted_axis_missing",
        at,
        format!("the {which} operand of `dot` has no axis `{name}` to contract"),
    )
    .note(format!("its axes are {axes}"))
    .help(format!("if it has the axis under another name, `rename` it to `{name}` first"))
}

/// An axis of both operands of `dot` pairs them up (rule 7). Said where the missing axis shows.
///
/// ```text
/// q.dot(k, D).softmax(T)     // q and k: Tensor<f32, S, D>
///                     ^
/// ```
pub(crate) fn with_batch_axis(error: Diagnostic, dot: Place, call: &str, batch: &str) -> Diagnostic {
    error
        .related(dot.start, format!("both operands of `{call}` have the axis `{batch}`, so it pairs them up"))
        .help(format!(
            "if each `{batch}` of one is to meet each of the other, rename it in one: `.rename({batch}, ..)`"
        ))
}

/// A window makes two axes (rule 1).
///
/// ```text
/// x.window(H, OH)
///             ^^
/// ```
pub fn window_axes(at: Place) -> Diagnostic {
    Diagnostic::new("window_axes", at, "two axes are expected: the places of the window and its taps")
        .help("write `x.window(H, (OH, KH), stride = 2, padding = 1)`")
}

/// Steps of a window are positive, its padding is not negative.
///
/// ```text
/// x.window(H, (OH, KH), stride = 0)
///                                ^
/// ```
pub fn window_step(at: Place, name: &str, least: i64) -> Diagnostic {
    Diagnostic::new("window_step", at, format!("the {name} of a window is at least {least}"))
}

/// What the padding of a window counts as is written where it decides the result (rule 15).
///
/// ```text
/// x.window(H, (OH, KH), padding = 1).max(KH)
///                                    ^^^
/// ```
pub fn padding_without_fill(at: Place, name: &str) -> Diagnostic {
    let fill = match name {
        "min" | "argmin" => "f32::INFINITY",
        "prod" => "1.0",
        _ => "f32::NEG_INFINITY",
    };
    Diagnostic::new(
        "padding_without_fill",
        at,
        format!("the padding of the window would count as 0 in this `{name}`"),
    )
    .help(format!("say what it counts as where the window is made: `window(.., fill = {fill})`"))
}
