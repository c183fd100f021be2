//! Errors in the bodies of kernels and composites: values, operators and calls.

use crate::diagnostic::{Diagnostic, Place};
use fuse_ir::dtype::DType;
use fuse_ir::scalar::ScalarOp;
use proc_macro2::{Ident, Span};

/// A number fits the dtype it adopts.
///
/// ```text
/// x + 300     // x: Tensor<u8, N>
///     ^^^
/// ```
pub fn literal_out_of_range_of_tensor(at: Place, dtype: DType) -> Diagnostic {
    Diagnostic::new(
        "literal_out_of_range_of_tensor",
        at,
        format!("this literal is out of range for `{dtype}`"),
    )
}

/// Literals adopt the dtype of the other operand, but not its kind (rule 9).
///
/// ```text
/// x * 2       // x: Tensor<f32, N>
///     ^
/// ```
pub fn literal_of_other_kind(at: Place, is_float: bool, dtype: DType) -> Diagnostic {
    let (found, help) = match (is_float, dtype.is_float()) {
        (false, true) => ("an integer literal", "write it with a point, as in `2.0`"),
        (true, _) => ("a float literal", "write it without a point, or cast the other operand: `x as f32`"),
        (false, false) => ("an integer literal", "write `true` or `false`, or compare: `x != 0`"),
    };
    Diagnostic::new("literal_of_other_kind", at, format!("`{dtype}` is expected, this is {found}")).help(help)
}

/// Two literals of different kinds meet.
///
/// ```text
/// x * (2 * 0.5)
///        ^
/// ```
pub fn literals_of_two_kinds(at: Place) -> Diagnostic {
    Diagnostic::new("literals_of_two_kinds", at, "an integer literal and a float literal meet here")
        .help("write both with a point, as in `2.0`")
}

/// `T::NAME` exists for the dtype that `T` stands for.
///
/// ```text
/// T::EPSILON     // T = f16
/// ^^^^^^^^^^
/// ```
pub fn unknown_constant_of_generic(at: Place, generic: &Ident, name: &Ident, dtype: DType) -> Diagnostic {
    Diagnostic::new("unknown_constant_of_generic", at, format!("`{dtype}` has no constant `{name}` here"))
        .note(format!("`{generic}` is `{dtype}` in this instance"))
}

/// A name in a body is a parameter, a `let`, or a constant.
///
/// ```text
/// x + y     // no y
///     ^
/// ```
pub fn unknown_name(name: &Ident, similar: Option<&str>) -> Diagnostic {
    let error = Diagnostic::new("unknown_name", name.span(), format!("cannot find `{name}` in this body"));
    match similar {
        Some(similar) => error.help(format!("there is `{similar}`")),
        None => error.note(
            "a body sees its parameters, its `let`s, the axes of its generics, the constants of the block and the float \
             constants of std",
        ),
    }
}

/// Only items of the language are seen in a block (rule 18).
///
/// ```text
/// x * crate::config::SCALE
///     ^^^^^^^^^^^^^^^^^^^^
/// ```
pub fn path_outside_block(at: Place, path: &str) -> Diagnostic {
    Diagnostic::new("path_outside_block", at, format!("`{path}` lies outside what a block can see"))
        .help("put a constant into the block, or pass the value as a parameter")
}

/// A tensor is expected, not a tuple.
///
/// ```text
/// (x, y) + 1.0
/// ^^^^^^
/// ```
pub fn tuple_in_place_of_tensor(at: Place) -> Diagnostic {
    Diagnostic::new("tuple_in_place_of_tensor", at, "a tensor is expected, this is a tuple")
        .help("take a component, as in `t.0`, or bind them: `let (a, b) = ..`")
}

/// An expression without value where one is needed.
///
/// ```text
/// let y = {};
///         ^^
/// ```
pub fn no_value(at: Place) -> Diagnostic {
    Diagnostic::new("no_value", at, "a value is expected, this is `()`")
        .help("leave out the semicolon after the last expression of the block")
}

/// dtypes never convert by themselves, but for narrow floats to f32 (rule 9).
///
/// ```text
/// g(x)     // g takes f32, x: Tensor<f64, N>
///   ^
/// ```
pub fn other_dtype_expected(at: Place, expected: DType, found: DType) -> Diagnostic {
    let message = format!("`{expected}` is expected, this is `{found}`");
    let error = Diagnostic::new("other_dtype_expected", at, message);
    match (expected, found) {
        (DType::Bool, _) => error.help("compare it, as in `x > 0.0`"),
        (_, DType::Bool) => error.help("turn it into a number: `select(mask, 1.0, 0.0)`"),
        _ => error.help(format!("cast it: `(..) as {expected}`")),
    }
}

/// Both operands have one dtype after widening (rule 9).
///
/// ```text
/// x + n     // x: Tensor<f32, N>, n: Tensor<i32, N>
///   ^
/// ```
pub fn operands_differ(at: Place, left: DType, right: DType) -> Diagnostic {
    Diagnostic::new("operands_differ", at, format!("the operands are `{left}` and `{right}`"))
        .note("f16, bf16 and the f8 types widen to f32 by themselves, nothing else does")
        .help("cast one side with `as`")
}

/// An operation is not defined for the dtypes of its operands (rule 10).
///
/// ```text
/// mask + mask     // bool
///      ^
/// ```
pub fn operation_not_defined(at: Place, op: ScalarOp, dtypes: &[DType]) -> Diagnostic {
    let mut listed: Vec<String> = dtypes.iter().map(|d| format!("`{d}`")).collect();
    listed.dedup();
    let message = format!("this operation is not defined for {}", listed.join(" and "));
    let error = Diagnostic::new("operation_not_defined", at, message);
    match op {
        ScalarOp::Shl | ScalarOp::Shr => error.help("a shift is one of an integer by an integer"),
        ScalarOp::And | ScalarOp::Or | ScalarOp::Not if dtypes.contains(&DType::F32) => {
            error.help("compare first, as in `x > 0.0`")
        }
        _ if dtypes.contains(&DType::Bool) => error.help("turn it into a number: `select(mask, 1.0, 0.0)`"),
        _ => error,
    }
}

/// An outer product is meant only if a typed `let` says so (rule 6).
///
/// ```text
/// a * b     // a: Tensor<f32, M>, b: Tensor<f32, N>
///   ^
/// ```
pub fn outer_product(at: Place, left: &str, right: &str, all: &str) -> Diagnostic {
    Diagnostic::new("outer_product", at, format!("the operands have the axes {left} and {right}"))
        .note("neither has all axes of the other, so this would be an outer product")
        .help(format!(
            "if that is meant, say so with a typed `let`: `let t: Tensor<f32, {all}> = ..;`; if not, `rename` or reduce \
             an axis first"
        ))
}

/// A uniform branch is decided by a scalar (rule 19).
///
/// ```text
/// if x > 0.0 { a } else { b }     // x: Tensor<f32, N>
///    ^^^^^^^
/// ```
pub fn condition_has_axes(at: Place, axes: &str) -> Diagnostic {
    Diagnostic::new(
        "condition_has_axes",
        at,
        format!("the condition of an `if` is a scalar, this has the axes {axes}"),
    )
    .help("choose each element on its own: `select(condition, a, b)`")
}

/// Both branches give the same kind of value (rule 19).
///
/// ```text
/// if flag { x } else { (x, x) }
/// ^^
/// ```
pub fn branches_differ(at: Place) -> Diagnostic {
    Diagnostic::new("branches_differ", at, "the branches of this `if` do not give the same kind of value")
        .note("an `if` that is used as a value needs an `else`, and tuples of one length")
}

/// Both branches have the same axes (rule 19).
///
/// ```text
/// if flag { x } else { x.sum(N) }
/// ^^
/// ```
pub fn branches_have_other_axes(at: Place, then: &str, otherwise: &str) -> Diagnostic {
    Diagnostic::new(
        "branches_have_other_axes",
        at,
        format!("the branches of this `if` have the axes {then} and {otherwise}"),
    )
}

/// What a body cannot contain, at its keyword (rule 19).
///
/// ```text
/// for i in 0..3 { .. }
/// ^^^
/// ```
pub fn keyword_not_supported(at: Place, what: &str) -> Diagnostic {
    Diagnostic::new("keyword_not_supported", at, format!("{what} cannot stand in a function over tensors")).note(
        "its body is made of `let`, expressions, calls, and `if` on a scalar; an `#[op]` over scalars may have loops and \
         `match`",
    )
}

/// An expression that has no meaning over tensors (rule 19).
///
/// ```text
/// 0..3
/// ^^^^
/// ```
pub fn expression_not_supported(at: Place) -> Diagnostic {
    Diagnostic::new(
        "expression_not_supported",
        at,
        "this expression has no meaning in a function over tensors",
    )
}

/// Axes have names, not positions.
///
/// ```text
/// x[0]
/// ^^^^
/// ```
pub fn index_expression(at: Place) -> Diagnostic {
    Diagnostic::new("index_expression", at, "a tensor is not indexed by position")
        .help("take a position on a named axis: `x.at(N, 0)`, or a part: `x.slice(N, 0, P)`")
}

/// An assignment is a statement (rule 17).
///
/// ```text
/// let y = (*p = x);
///             ^
/// ```
pub fn assignment_in_expression(at: Place) -> Diagnostic {
    Diagnostic::new("assignment_in_expression", at, "an assignment is a statement of its own")
}

/// `as` takes a dtype.
///
/// ```text
/// x as Tensor<f16, N>
///      ^^^^^^^^^^^^^^
/// ```
pub fn cast_to_other_type(at: Place) -> Diagnostic {
    Diagnostic::new("cast_to_other_type", at, "a dtype is expected after `as`")
}

/// `as bool` is not Rust.
///
/// ```text
/// x as bool     // x: Tensor<f32, N>
///   ^^
/// ```
pub fn cast_to_bool(at: Place) -> Diagnostic {
    Diagnostic::new("cast_to_bool", at, "a number is not cast to `bool`").help("compare it: `x != 0.0`")
}

/// A tuple has that many components.
///
/// ```text
/// (a, b).2
///        ^
/// ```
pub fn no_such_component(at: Place, length: usize) -> Diagnostic {
    Diagnostic::new("no_such_component", at, format!("the tuple has {length} components"))
}

/// Tensors have no fields.
///
/// ```text
/// x.shape
///   ^^^^^
/// ```
pub fn no_fields(at: Place) -> Diagnostic {
    Diagnostic::new("no_fields", at, "a tensor has no fields")
        .help("the size of an axis is `extent(N)`; a component of a tuple is `t.0`")
}

/// A value that nobody uses.
///
/// ```text
/// x + 1.0;
/// ^^^^^^^
/// ```
pub fn value_not_used(at: Place, last: bool) -> Diagnostic {
    let error = Diagnostic::new("value_not_used", at, "this value is not used");
    if last { error.help("leave out the semicolon to give it back") } else { error }
}

/// Items stand beside a function, not in it.
///
/// ```text
/// { const C: f32 = 1.0; x * C }
///   ^^^^^^^^^^^^^^^^^^^
/// ```
pub fn item_in_body(at: Place) -> Diagnostic {
    Diagnostic::new("item_in_body", at, "an item cannot stand in the body of a function over tensors")
        .help("put it into the block, beside the function")
}

/// A `let` has a value.
///
/// ```text
/// let y;
/// ^^^^^^
/// ```
pub fn let_without_value(at: Place) -> Diagnostic {
    Diagnostic::new("let_without_value", at, "a `let` needs its value at once")
}

/// Values never change (rule 19).
///
/// ```text
/// let mut y = x;
///     ^^^
/// ```
pub fn mutable_let(at: Place, name: &Ident) -> Diagnostic {
    Diagnostic::new("mutable_let", at, "a value of a function over tensors never changes")
        .help(format!("bind the name again: `let {name} = ..;`"))
}

/// Patterns are names and tuples.
///
/// ```text
/// let [a, b] = x;
///     ^^^^^^
/// ```
pub fn pattern_not_supported(at: Place) -> Diagnostic {
    Diagnostic::new("pattern_not_supported", at, "a `let` binds a name or a tuple of names")
}

/// A tuple pattern has the length of the tuple.
///
/// ```text
/// let (a, b) = x;
///     ^^^^^^
/// ```
pub fn tuple_pattern_differs(at: Place) -> Diagnostic {
    Diagnostic::new("tuple_pattern_differs", at, "the value is not a tuple of this length")
}

/// An argument by name starts with one.
///
/// ```text
/// x.pad(N, 1, 1, P, 2 = 0.0)
///                   ^
/// ```
pub fn argument_name_expected(at: Place) -> Diagnostic {
    Diagnostic::new("argument_name_expected", at, "the name of an argument is expected before `=`")
}

/// An argument is given once.
///
/// ```text
/// x.pad(N, 1, 1, P, fill = 0.0, fill = 1.0)
///                               ^^^^
/// ```
pub fn argument_given_twice(name: &Ident) -> Diagnostic {
    Diagnostic::new("argument_given_twice", name.span(), format!("the argument `{name}` is given twice"))
}

/// Arguments by name come last.
///
/// ```text
/// x.pad(N, 1, 1, fill = 0.0, P)
///                            ^
/// ```
pub fn positional_after_named(at: Place) -> Diagnostic {
    Diagnostic::new("positional_after_named", at, "arguments with a name come after those without")
}

/// A call has its number of arguments.
///
/// ```text
/// x.slice(N, 0)
///   ^^^^^
/// ```
pub fn argument_count(at: Place, name: &str, expected: usize, found: usize, usage: &str) -> Diagnostic {
    let plural = if expected == 1 { "" } else { "s" };
    let are = if found == 1 { "is" } else { "are" };
    Diagnostic::new(
        "argument_count",
        at,
        format!("`{name}` takes {expected} argument{plural}, {found} {are} given"),
    )
    .help(format!("write `{usage}`"))
}

/// A call has no argument of that name.
///
/// ```text
/// x.pad(N, 1, 1, P, filling = 0.0)
///                   ^^^^^^^
/// ```
pub fn unknown_argument(name: &Ident, callee: &str, known: &[&str]) -> Diagnostic {
    let error =
        Diagnostic::new("unknown_argument", name.span(), format!("`{callee}` has no argument `{name}`"));
    if known.is_empty() {
        return error;
    }
    let known: Vec<String> = known.iter().map(|k| format!("`{k}`")).collect();
    error.note(format!("it has {}", known.join(", ")))
}

/// An op takes scalars and tuples as declared.
///
/// ```text
/// best((a, b), c)     // best takes two pairs
///              ^
/// ```
pub fn argument_shape(at: Place, expected: &str) -> Diagnostic {
    Diagnostic::new("argument_shape", at, format!("`{expected}` is expected here"))
}

/// Generic arguments are those of composites.
///
/// ```text
/// gelu::<N>(x)
///     ^^^^^
/// ```
pub fn turbofish_not_expected(at: Place, name: &str) -> Diagnostic {
    Diagnostic::new("turbofish_not_expected", at, format!("`{name}` has no generic arguments"))
        .note("only calls of composites name axes and dtypes: `layer_norm::<E>(..)`")
}

/// A turbofish has as many arguments as the composite has generics (rule 4).
///
/// ```text
/// layer_norm::<N, M>(x, g, b, 1e-5)     // one axis
///                 ^
/// ```
pub fn too_many_generics(name: &Ident, callee: &Ident) -> Diagnostic {
    Diagnostic::new("too_many_generics", name.span(), format!("`{callee}` has no generic for `{name}`"))
}

/// What is called is a name.
///
/// ```text
/// (f)(x)
/// ^^^
/// ```
pub fn callee_not_a_name(at: Place) -> Diagnostic {
    Diagnostic::new("callee_not_a_name", at, "only functions with a name can be called")
}

/// What is bound by a parameter or `let` is no function.
///
/// ```text
/// let f = x; f(x)
///            ^
/// ```
pub fn value_called(at: Place, name: &str) -> Diagnostic {
    Diagnostic::new("value_called", at, format!("`{name}` is a value, not a function"))
        .help("a function is an `#[op]` or `fn` of the block, or an item under one of the attributes")
}

/// A probability lies between 0 and 1 (rule 16).
///
/// ```text
/// x.dropout(2.0, seed)
///           ^^^
/// ```
pub fn probability_out_of_range(at: Place, found: f32) -> Diagnostic {
    Diagnostic::new(
        "probability_out_of_range",
        at,
        format!("a probability lies between 0 and 1, this is {found}"),
    )
}

/// Inlining of composites ends somewhere.
///
/// ```text
/// fn f1<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { f0(x) * f0(x.exp()) }
/// fn f2<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { f1(x) * f1(x.exp()) } // and so on
///                                                 ^^
/// ```
pub fn too_many_operations(at: Place, most: usize) -> Diagnostic {
    Diagnostic::new(
        "too_many_operations",
        at,
        format!("here the function passes {most} operations, more than one kernel may have"),
    )
    .note("composites are inlined wherever they are called, with all that they call")
    .help("bind a value that is used twice with `let`, or divide the kernel into several")
}

/// Inlining of ops ends somewhere.
///
/// ```text
/// #[op] fn f2(x: f32) -> f32 { f1(x) * f1(x.exp()) } // and so on
///          ^^
/// ```
pub fn op_too_large(at: Span, name: &str, most: u64) -> Diagnostic {
    Diagnostic::new(
        "op_too_large",
        at,
        format!("`{name}` with all that it calls is more than {most} operations"),
    )
    .note("calls of ops are inlined, with all that these call")
    .help("bind a value that is used twice with `let`, or divide the work between kernels")
}

/// A function of that name is not in scope.
///
/// ```text
/// geluu(x)
/// ^^^^^
/// ```
pub fn unknown_tensor_function(at: Place, name: &str, similar: Option<&str>) -> Diagnostic {
    let error = Diagnostic::new("unknown_tensor_function", at, format!("cannot find the function `{name}`"));
    match similar {
        Some(similar) => {
            error.note(super::scalar::note_on_close_name(name)).help(format!("there is `{similar}`"))
        }
        None => error.note("a body calls ops and composites of the block and of the prelude"),
    }
}

/// Kernels are called from Rust.
///
/// ```text
/// other_kernel(x)
/// ^^^^^^^^^^^^
/// ```
pub fn kernel_called(at: Place, name: &str, declared: Span) -> Diagnostic {
    Diagnostic::new("kernel_called", at, format!("`{name}` is a kernel, which a body cannot call"))
        .related(declared, "it is declared here")
        .help("move what both need into a function without `#[kernel]`: it is inlined")
}

/// A method of that name does not exist.
///
/// ```text
/// x.expp()
///   ^^^^
/// ```
pub fn unknown_tensor_method(at: Place, name: &str, similar: Option<&str>) -> Diagnostic {
    let error = Diagnostic::new("unknown_tensor_method", at, format!("a tensor has no method `{name}`"));
    match similar {
        Some(similar) => error.help(format!("there is `{similar}`")),
        None => error,
    }
}

/// Functions are called as functions.
///
/// ```text
/// x.gelu()
///   ^^^^
/// ```
pub fn function_called_as_method(at: Place, name: &str) -> Diagnostic {
    Diagnostic::new("function_called_as_method", at, format!("`{name}` is a function, not a method"))
        .help(format!("write `{name}(x, ..)`"))
}

/// Methods over axes are called as methods.
///
/// ```text
/// softmax(x, N)
/// ^^^^^^^
/// ```
pub fn method_called_as_function(at: Place, name: &str) -> Diagnostic {
    Diagnostic::new("method_called_as_function", at, format!("`{name}` is a method, not a function"))
        .help(format!("write `x.{name}(..)`"))
}

/// `max(x, N)` has no meaning (rule 8).
///
/// ```text
/// f32::max(x, N)
///             ^
/// ```
pub fn axis_in_function_call(at: Place, name: &str, is_reduction: bool) -> Diagnostic {
    let error = Diagnostic::new("axis_in_function_call", at, "a value is expected, this is an axis");
    if is_reduction { error.help(format!("the reduction is a method: `x.{name}(N)`")) } else { error }
}

/// A method is not defined for this dtype.
///
/// ```text
/// n.exp()     // n: Tensor<i32, N>
///   ^^^
/// ```
pub fn method_not_defined(at: Place, name: &str, found: DType, expected: &str) -> Diagnostic {
    let error = Diagnostic::new("method_not_defined", at, format!("`{name}` is not defined for `{found}`"))
        .note(format!("its receiver is {expected}"));
    match name {
        "pow" => error.help("a power of a float is `powi(n)` or `powf(y)`"),
        _ if expected.contains("f32") => error.help("cast it first, as in `(x as f32)`"),
        _ if expected.contains("integer") => error.help("cast it first, as in `(x as i32)`"),
        _ => error,
    }
}

/// A method is called on a tensor.
///
/// ```text
/// (a, b).exp()
/// ^^^^^^
/// ```
pub fn method_of_tuple(at: Place, name: &str) -> Diagnostic {
    Diagnostic::new("method_of_tuple", at, format!("`{name}` is called on a tensor, this is a tuple"))
}

/// What the language cannot express (rule 21).
///
/// ```text
/// x.sort(N)
///   ^^^^
/// ```
pub fn not_expressible(at: Place, name: &str, instead: &str) -> Diagnostic {
    Diagnostic::new("not_expressible", at, format!("`{name}` cannot be expressed in a kernel"))
        .note("each element of a result is a function of positions known before the data")
        .help(instead)
}

/// The order of axes is that of the declared types (rule 3).
///
/// ```text
/// x.transpose()
///   ^^^^^^^^^
/// ```
pub fn order_not_observable(at: Place, name: &str) -> Diagnostic {
    Diagnostic::new(
        "order_not_observable",
        at,
        format!("axes have no order in a body, so there is no `{name}`"),
    )
    .help("the order of the declared result is its layout: `-> Tensor<f32, N, M>` transposes")
}

/// A name of another library, with what to write here.
///
/// ```text
/// x.reshape(..)
///   ^^^^^^^
/// ```
pub fn use_instead(at: Place, name: &str, instead: &str) -> Diagnostic {
    Diagnostic::new("use_instead", at, format!("a tensor has no method `{name}`")).help(instead)
}

/// A composite calls itself (rule 4).
///
/// ```text
/// fn f<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { f(x) }
///                                                ^
/// ```
pub fn recursive_call(at: Place, name: &str) -> Diagnostic {
    Diagnostic::new("recursive_call", at, format!("`{name}` calls itself"))
        .note("composites are inlined, so a call cannot lead back to its own function")
}

/// A scalar is expected.
///
/// ```text
/// layer_norm(x, g, b, x)
///                     ^
/// ```
pub fn scalar_expected(at: Place, axes: &str) -> Diagnostic {
    Diagnostic::new("scalar_expected", at, format!("a scalar is expected, this has the axes {axes}"))
        .help("a parameter that may have axes is declared `Tensor<f32>`")
}

/// The instance of a generic dtype lies within its bound (rule 20).
///
/// ```text
/// norm(n)     // norm<T: Float, N>, n: Tensor<i32, N>
///      ^
/// ```
pub fn dtype_outside_bound_of_call(at: Place, dtype: DType, bound: &str, callee: &Ident) -> Diagnostic {
    let error = Diagnostic::new(
        "dtype_outside_bound_of_call",
        at,
        format!("`{callee}` takes a dtype of `{bound}`, this is `{dtype}`"),
    );
    if bound == "Float" { error.help("cast it, as in `x as f32`") } else { error }
}

/// A seed or start is decided by integers.
///
/// ```text
/// x.slice(N, 0.5, P)
///            ^^^
/// ```
pub fn position_not_integer(at: Place, found: DType) -> Diagnostic {
    Diagnostic::new("position_not_integer", at, format!("a position is an integer, this is `{found}`"))
}

/// A position is known before the data.
///
/// ```text
/// x.at(N, x.argmax(N))
///         ^^^^^^^^^^^
/// ```
pub fn position_not_uniform(at: Place) -> Diagnostic {
    Diagnostic::new("position_not_uniform", at, "this position depends on data")
        .note("a position is made of integer parameters, extents and literals with `+ - *`, and `/ %` by a literal")
        .help("a read at positions that are data is `gather`: `x.gather(N, ids)`")
}

/// A user's combiner is declared with `#[reduce]` (rule 13).
///
/// ```text
/// x.reduce(N, bset)
///             ^^^^
/// ```
pub fn unknown_combiner(at: Place, name: &str) -> Diagnostic {
    Diagnostic::new("unknown_combiner", at, format!("cannot find the combiner `{name}`"))
        .note("a combiner is a function of the block with `#[reduce(identity = ..)]`")
}

/// A combiner is a name.
///
/// ```text
/// x.reduce(N, |a, b| a + b)
///             ^^^^^^^^^^^^
/// ```
pub fn combiner_expected(at: Place) -> Diagnostic {
    Diagnostic::new("combiner_expected", at, "the name of a combiner is expected")
        .help("declare it in the block: `#[reduce(identity = 0.0)] fn combine(a: f32, b: f32) -> f32 { .. }`")
}

/// An op is no combiner: it has no identity.
///
/// ```text
/// x.reduce(N, add)     // #[op] fn add
///             ^^^
/// ```
pub fn op_in_place_of_combiner(at: Place, name: &str) -> Diagnostic {
    Diagnostic::new("op_in_place_of_combiner", at, format!("`{name}` is an op, not a combiner"))
        .help("mark it with `#[reduce(identity = ..)]` instead of `#[op]`")
}

/// A combiner takes as many values as its element has.
///
/// ```text
/// x.reduce(N, best)     // best combines (f32, i64)
/// ^
/// ```
pub fn combiner_arity(at: Place, name: &str, element: &str, found: usize) -> Diagnostic {
    let given = if found == 1 { "one value is".to_owned() } else { format!("{found} values are") };
    Diagnostic::new("combiner_arity", at, format!("`{name}` combines `{element}`, {given} given"))
        .help("give a tuple, as in `(x, index(N)).reduce(N, ..)`")
}
