//! Errors in the items of a block, their attributes and their signatures.

use crate::diagnostic::{Diagnostic, Place};
use crate::lint::Lint;
use fuse_ir::dtype::DType;
use proc_macro2::{Ident, Span};

/// A block holds functions, constants and `use` only.
///
/// ```text
/// fuse! { struct S; }
///         ^^^^^^^^^
/// ```
pub fn item_not_supported(at: Place) -> Diagnostic {
    Diagnostic::new("item_not_supported", at, "this item cannot stand inside `fuse!`")
        .help("a block holds `fn`, `const` and `use`; put anything else outside")
}

/// A function has one of the markers.
///
/// ```text
/// #[op] #[kernel] fn f(..)
///       ^^^^^^^^^
/// ```
pub fn second_marker(at: Place) -> Diagnostic {
    Diagnostic::new("second_marker", at, "a function cannot have two of `#[op]`, `#[reduce]` and `#[kernel]`")
}

/// Attributes are a closed list.
///
/// ```text
/// #[kernels] fn k<N>(..)
///   ^^^^^^^
/// ```
pub fn unknown_attribute(path: &syn::Path) -> Diagnostic {
    let name = quote::quote!(#path).to_string().replace(' ', "");
    Diagnostic::new(
        "unknown_attribute",
        Place::of(path),
        format!("`#[{name}]` has no meaning on a function over tensors"),
    )
    .help("the attributes of a block are `#[op]`, `#[reduce(..)]` and `#[kernel]`")
}

/// `#[cfg]` is not evaluated before the macro reads the item; only a kernel can pass it on.
///
/// ```text
/// #[cfg(test)] #[op] fn f(x: f32) -> f32 { x }
/// ^^^^^^^^^^^^
/// ```
pub fn cfg_inside_block(at: Place) -> Diagnostic {
    Diagnostic::new("cfg_inside_block", at, "`#[cfg]` inside a block works on kernels only")
        .help("put it on the whole block")
}

/// Attributes make items of functions.
///
/// ```text
/// #[fuse::op] struct S;
///             ^^^^^^^^^
/// ```
pub fn attribute_on_other_item(at: Place, marker: &str) -> Diagnostic {
    let error =
        Diagnostic::new("attribute_on_other_item", at, format!("`#[{marker}]` stands on a function only"));
    error.help("a constant stands in a `fuse!` block, or within the body of an op")
}

/// Some markers say all there is to say.
///
/// ```text
/// #[fuse::op(fast)] fn f(..)
///            ^^^^
/// ```
pub fn marker_argument(at: Place, marker: &str) -> Diagnostic {
    Diagnostic::new("marker_argument", at, format!("`#[{marker}]` has no such argument")).note(
        "the only argument is `crate = path`, which says where the facade crate is if it is not `::fuse`",
    )
}

/// An item that others may call has a name that no block knows already.
///
/// ```text
/// fuse! { #[op] pub fn gelu(x: f32) -> f32 { .. } }
///                      ^^^^
/// ```
pub fn exported_name_is_known(name: &Ident) -> Diagnostic {
    let message = format!("`{name}` cannot be called from elsewhere: the name is the language's");
    Diagnostic::new("exported_name_is_known", name.span(), message)
        .note(format!("`{name}(..)` means something in every block already, whatever is imported"))
        .help("rename it, or make it private to a `fuse!` block, where the block's own items go first")
}

/// An import is read by the version that wrote it.
///
/// ```text
/// ops::gelu(x)
/// ^^^^^^^^^
/// ```
pub fn import_of_other_version(at: Place, path: &str, found: &str, own: &str) -> Diagnostic {
    let message = format!("`{path}` was compiled by another version of fuse-kernels");
    let found = if found.is_empty() { "an unknown version".to_owned() } else { format!("version {found}") };
    Diagnostic::new("import_of_other_version", at, message)
        .note(format!("it is of {found}, and this is version {own}"))
        .help("have both crates depend on one version")
}

/// Item names are unique in a block.
///
/// ```text
/// const A: f32 = 1.0; const A: f32 = 2.0;
///                           ^
/// ```
pub fn item_defined_twice(name: &Ident, first: Span) -> Diagnostic {
    Diagnostic::new("item_defined_twice", name.span(), format!("`{name}` is defined twice in this block"))
        .related(first, "first defined here")
}

/// `#[kernel = ..]` has no meaning.
///
/// ```text
/// #[kernel = 1] fn k(..)
/// ^^^^^^^^^^^^^
/// ```
pub fn kernel_argument_expected(at: Place) -> Diagnostic {
    Diagnostic::new("kernel_argument_expected", at, "arguments of `#[kernel]` stand in parentheses")
        .help("write `#[kernel(launches = 1)]`")
}

/// What is nested deeper than any stage of the compiler follows.
///
/// ```text
/// ((((((((((((((((((((((((((((((((((((((((((((x))))))))))))))))))))))))))))))))))))))))))))
///                                            ^
/// ```
pub fn nested_too_deep(at: Span, most: usize) -> Diagnostic {
    Diagnostic::new("nested_too_deep", at, "this is nested too deep")
        .note(format!(
            "a pair of brackets counts as two levels, an operator of the same expression as one, and there are at most {most}"
        ))
        .help("bind parts of the expression with `let`")
}

/// An op has no options.
///
/// ```text
/// #[op(fast)] fn f(x: f32) -> f32 { x }
/// ^^^^^^^^^^^
/// ```
pub fn argument_of_op(at: Place) -> Diagnostic {
    Diagnostic::new("argument_of_op", at, "`#[op]` takes no arguments")
}

/// Arguments of attributes begin with their names.
///
/// ```text
/// #[kernel(1)] fn k(..)
///          ^
/// ```
pub fn argument_of_attribute_expected(at: Span, marker: &str) -> Diagnostic {
    let usage = if marker == "reduce" { "identity = 0.0" } else { "launches = 1" };
    Diagnostic::new(
        "argument_of_attribute_expected",
        at,
        format!("the name of an argument of `#[{marker}]` is expected"),
    )
    .help(format!("an argument looks like `{usage}`"))
}

/// An argument of an attribute is given once.
///
/// ```text
/// #[kernel(launches = 1, launches = 2)] fn k(..)
///                        ^^^^^^^^
/// ```
pub fn argument_repeated(name: &Ident, first: Span) -> Diagnostic {
    Diagnostic::new("argument_repeated", name.span(), format!("`{name}` is given twice"))
        .related(first, "first given here")
}

/// Each argument of an attribute is written in one way.
///
/// ```text
/// #[kernel(launches = -1)] fn k(..)
///                   ^^^^
/// ```
pub fn argument_not_understood(at: Place, name: &Ident, usage: &str) -> Diagnostic {
    let error = Diagnostic::new("argument_not_understood", at, format!("`{name}` is not written like this"));
    let error = match usage.split_once('=') {
        Some((_, value)) if value.trim_end_matches(')').trim().parse::<u64>().is_ok() => {
            error.note("the number is a whole one, not negative and without a suffix")
        }
        _ => error,
    };
    error.help(format!("write `{usage}`"))
}

/// The arguments of `#[kernel]` are a closed list, and the generic dtypes of the kernel.
///
/// ```text
/// #[kernel(lanches = 1)] fn k(..)
///          ^^^^^^^
/// ```
pub fn unknown_kernel_argument(name: &Ident) -> Diagnostic {
    Diagnostic::new("unknown_kernel_argument", name.span(), format!("`#[kernel]` has no argument `{name}`"))
        .note(
            "the arguments are `launches = N`, `assume(N = 4096)`, `explain`, `fast`, `test`, `warn(..)`, \
             `deny(..)`, `allow(..)`, and for each generic dtype a list like `T = [f32, f16]`",
        )
}

/// What `warn(..)`, `deny(..)` and `allow(..)` name is a closed list.
///
/// ```text
/// #[kernel(warn(slow))] fn k(..)
///               ^^^^
/// ```
pub fn unknown_lint(name: &Ident) -> Diagnostic {
    let names: Vec<String> = Lint::ALL.iter().map(|lint| format!("`{}`", lint.name())).collect();
    let (last, others) =
        names.split_last().map_or(("", &names[..]), |(last, others)| (last.as_str(), others));
    Diagnostic::new("unknown_lint", name.span(), format!("there is no lint `{name}`"))
        .note(format!("the lints are {} and {last}", others.join(", ")))
}

/// The arguments of `#[reduce]` are a closed list.
///
/// ```text
/// #[reduce(identity = 0.0, sorted)] fn r(..)
///                          ^^^^^^
/// ```
pub fn unknown_reduce_argument(name: &Ident) -> Diagnostic {
    Diagnostic::new("unknown_reduce_argument", name.span(), format!("`#[reduce]` has no argument `{name}`"))
        .note("the arguments are `identity = ..` and `ordered`")
}

/// A combiner needs its identity (rule 13).
///
/// ```text
/// #[reduce] fn r(a: f32, b: f32) -> f32 { a + b }
///   ^^^^^^
/// ```
pub fn identity_missing(at: Span) -> Diagnostic {
    Diagnostic::new("identity_missing", at, "a combiner needs its identity")
        .help("write `#[reduce(identity = 0.0)]`: the value that changes nothing when it is combined")
}

/// An instance is made once for each dtype.
///
/// ```text
/// #[kernel(T = [f32, f32])]
///                    ^^^
/// ```
pub fn dtype_listed_twice(name: &Ident) -> Diagnostic {
    Diagnostic::new("dtype_listed_twice", name.span(), format!("`{name}` is listed twice"))
}

/// A generic dtype that is listed needs an instance (rule 20).
///
/// ```text
/// #[kernel(T = [])]
///          ^
/// ```
pub fn no_dtype_listed(name: &Ident) -> Diagnostic {
    Diagnostic::new("no_dtype_listed", name.span(), format!("no dtype is listed for `{name}`"))
        .help("list at least one, or leave the argument out")
}

/// A listed dtype lies within the bound of the generic (rule 20).
///
/// ```text
/// #[kernel(T = [i32])] fn k<T: Float, N>(..)
///               ^^^
/// ```
pub fn dtype_outside_bound(at: Span, dtype: DType, bound: &str) -> Diagnostic {
    Diagnostic::new("dtype_outside_bound", at, format!("`{dtype}` is not one of the dtypes of `{bound}`")).note(
        "`Float` is f32, f64, f16 and bf16; `Int` the integers; `Number` both; the f8 types are for storage only",
    )
}

/// dtypes are a closed list (rule 9).
///
/// ```text
/// x: Tensor<float, N>
///           ^^^^^
/// ```
pub fn unknown_dtype(name: &Ident) -> Diagnostic {
    let mut error =
        Diagnostic::new("unknown_dtype", name.span(), format!("`{name}` is not a dtype")).note(
            "the dtypes are f32, f64, f16, bf16, f8e4m3, f8e5m2, i8 to i64, u8 to u64, bool, and generics bounded by \
             `Float`, `Int` or `Number`",
        );
    if name == "usize" || name == "isize" {
        error =
            error.help("a size is an `Axis<N>` parameter; an integer that is no size is an `i64` or `u64`");
    }
    error
}

/// An extent is arithmetic over numbers and axes (rule 2).
///
/// ```text
/// fn k<N, const F: usize = { N << 1 }>(..)
///                              ^^
/// ```
pub fn dimension_not_understood(at: Place) -> Diagnostic {
    Diagnostic::new("dimension_not_understood", at, "this cannot stand in an extent")
        .note("an extent is made of numbers, axes, constants and `+ - * /`, as in `{ 2 * N }`")
}

/// An extent divides by something.
///
/// ```text
/// fn k<N, const F: usize = { N / 0 }>(..)
///                                ^
/// ```
pub fn dimension_divided_by_zero(at: Place) -> Diagnostic {
    Diagnostic::new("dimension_divided_by_zero", at, "an extent is divided by zero")
}

/// An extent follows from others.
///
/// ```text
/// fn k<N, const F: usize = { F + 1 }>(..)
///                            ^
/// ```
pub fn extent_of_itself(name: &Ident) -> Diagnostic {
    Diagnostic::new("extent_of_itself", name.span(), format!("the extent of `{name}` depends on itself"))
        .help("make it of numbers, constants and other axes")
}

/// Kernels and composites are plain functions.
///
/// ```text
/// #[kernel] async fn k(..)
///           ^^^^^
/// ```
pub fn qualifier_not_supported(at: Place) -> Diagnostic {
    Diagnostic::new("qualifier_not_supported", at, "a function over tensors takes no such qualifier")
}

/// Bounds stand in the generics.
///
/// ```text
/// fn k<T, N>(..) where T: Float
///                ^^^^^^^^^^^^^^
/// ```
pub fn where_not_supported(at: Place) -> Diagnostic {
    Diagnostic::new("where_not_supported", at, "a function over tensors has no `where` clause")
        .help("write the bound in the generics: `<T: Float, N>`")
}

/// Generics are axes and dtypes.
///
/// ```text
/// fn k<'a, N>(..)
///      ^^
/// ```
pub fn lifetime_not_supported(at: Place) -> Diagnostic {
    Diagnostic::new("lifetime_not_supported", at, "a function over tensors has no lifetimes")
        .note("its generics are axes (`N`), sizes (`const C: usize = 3`) and dtypes (`T: Float`)")
}

/// A dtype's name is taken.
///
/// ```text
/// fn k<f16>(..)
///      ^^^
/// ```
pub fn generic_named_like_dtype(name: &Ident) -> Diagnostic {
    Diagnostic::new("generic_named_like_dtype", name.span(), format!("`{name}` is the name of a dtype"))
        .help("give the axis another name")
}

/// A generic is declared once.
///
/// ```text
/// fn k<N, N>(..)
///         ^
/// ```
pub fn generic_defined_twice(name: &Ident, first: Span) -> Diagnostic {
    Diagnostic::new("generic_defined_twice", name.span(), format!("`{name}` is declared twice"))
        .related(first, "first declared here")
}

/// An extent that is written makes a const generic (rule 2).
///
/// ```text
/// fn k<N = f32>(..)
///          ^^^
/// ```
pub fn axis_with_default(at: Place, name: &Ident) -> Diagnostic {
    Diagnostic::new("axis_with_default", at, "an axis has no default")
        .help(format!("a fixed extent is written `const {name}: usize = 3`"))
}

/// Bounds are a closed list (rule 20).
///
/// ```text
/// fn k<T: Copy, N>(..)
///         ^^^^
/// ```
pub fn unknown_bound(at: Place) -> Diagnostic {
    Diagnostic::new("unknown_bound", at, "this is not a bound of a generic dtype")
        .note("the bounds are `Float`, `Int` and `Number`; an axis has none")
}

/// Sizes are `usize` (rule 2).
///
/// ```text
/// fn k<const C: u32 = 3>(..)
///               ^^^
/// ```
pub fn const_axis_not_usize(at: Place) -> Diagnostic {
    Diagnostic::new("const_axis_not_usize", at, "the extent of an axis is a `usize`")
}

/// A const generic says its extent (rule 2).
///
/// ```text
/// fn k<const C: usize>(..)
///            ^
/// ```
pub fn const_axis_without_value(name: &Ident) -> Diagnostic {
    Diagnostic::new("const_axis_without_value", name.span(), format!("the extent of `{name}` is missing")).help(
        format!(
            "write `const {name}: usize = 3` or `= {{ 2 * N }}`; an extent given at the call is an axis `{name}` or a \
             parameter `Axis<{name}>`"
        ),
    )
}

/// Tensor functions are free functions.
///
/// ```text
/// #[kernel] fn k<N>(self, ..)
///                   ^^^^
/// ```
pub fn self_not_supported(at: Place) -> Diagnostic {
    Diagnostic::new("self_not_supported", at, "a function in a block has no `self`")
}

/// A parameter is a name.
///
/// ```text
/// fn k<N>((a, b): ..)
///         ^^^^^^
/// ```
pub fn parameter_pattern(at: Place) -> Diagnostic {
    Diagnostic::new("parameter_pattern", at, "a parameter is a name, not a pattern")
}

/// Parameter names are unique.
///
/// ```text
/// fn k<N>(x: Tensor<f32, N>, x: f32)
///                            ^
/// ```
pub fn parameter_defined_twice(name: &Ident, first: Span) -> Diagnostic {
    Diagnostic::new(
        "parameter_defined_twice",
        name.span(),
        format!("the parameter `{name}` is declared twice"),
    )
    .related(first, "first declared here")
}

/// A parameter or `let` is not named like an axis in scope (rule 8).
///
/// ```text
/// fn k<N>(x: Tensor<f32, N>, N: f32)
///                            ^
/// ```
pub fn name_of_axis(name: &Ident, axis: Span) -> Diagnostic {
    Diagnostic::new("name_of_axis", name.span(), format!("`{name}` is already the name of an axis"))
        .related(axis, "the axis is declared here")
        .note(format!("`x.max({name})` would have two meanings"))
        .help("give the value another name")
}

/// Parameters are tensors, scalars and axes.
///
/// ```text
/// fn k<N>(x: Vec<f32>)
///            ^^^^^^^^
/// ```
pub fn parameter_type(at: Place) -> Diagnostic {
    Diagnostic::new("parameter_type", at, "this cannot be the type of a parameter").note(
        "a parameter is a `Tensor<f32, M, N>`, a `&mut Tensor<f32, M, N>` of a kernel, a scalar such as `f32`, or an \
         `Axis<N>`",
    )
}

/// `Axis` takes the one axis it gives an extent to (rule 2).
///
/// ```text
/// fn k<N>(n: Axis<N, M>)
///                ^^^^^^
/// ```
pub fn axis_parameter(at: Place) -> Diagnostic {
    Diagnostic::new("axis_parameter", at, "`Axis` takes the name of one axis")
}

/// A tensor type starts with its dtype.
///
/// ```text
/// fn k(x: Tensor)
///         ^^^^^^
/// ```
pub fn tensor_without_dtype(at: Place) -> Diagnostic {
    Diagnostic::new("tensor_without_dtype", at, "a tensor's type names its dtype and its axes")
        .help("write `Tensor<f32, M, N>`, or `Tensor<f32>` for a tensor without axes")
}

/// A result or typed `let` is a tensor.
///
/// ```text
/// fn k<N>(x: Tensor<f32, N>) -> Vec<f32>
///                               ^^^^^^^^
/// ```
pub fn tensor_type_expected(at: Place) -> Diagnostic {
    Diagnostic::new("tensor_type_expected", at, "a tensor type is expected here")
        .help("write `Tensor<f32, M, N>`, or `Tensor<f32>` for a tensor without axes")
}

/// Axes of a type are names (rule 1).
///
/// ```text
/// x: Tensor<f32, 3>
///                ^
/// ```
pub fn axis_must_be_named(at: Place) -> Diagnostic {
    Diagnostic::new("axis_must_be_named", at, "a tensor type lists a dtype and names of axes")
        .help("declare the extent as an axis: `<const C: usize = 3>` or `<N, const F: usize = { 2 * N }>`")
}

/// A tensor has each axis once (rule 1).
///
/// ```text
/// g: Tensor<f32, N, N>
///                   ^
/// ```
pub fn axis_twice_in_type(name: &Ident) -> Diagnostic {
    Diagnostic::new(
        "axis_twice_in_type",
        name.span(),
        format!("the axis `{name}` stands twice in one tensor"),
    )
    .help(format!("give one of them another name; `rename` turns a name into another: `x.rename({name}, P)`"))
}

/// dtype and axes have different places.
///
/// ```text
/// fn k<N>(x: Tensor<N>)
///                   ^
/// ```
pub fn axis_in_place_of_dtype(name: &Ident) -> Diagnostic {
    Diagnostic::new(
        "axis_in_place_of_dtype",
        name.span(),
        format!("a dtype is expected, `{name}` is an axis"),
    )
    .help(format!("write `Tensor<f32, {name}>`, or bound the generic: `{name}: Float`"))
}

/// dtype and axes have different places.
///
/// ```text
/// fn k<N>(x: Tensor<f32, f32>)
///                        ^^^
/// ```
pub fn dtype_in_place_of_axis(name: &Ident) -> Diagnostic {
    Diagnostic::new(
        "dtype_in_place_of_axis",
        name.span(),
        format!("an axis is expected, `{name}` is a dtype"),
    )
}

/// Axes are declared in the generics.
///
/// ```text
/// fn k<N>(x: Tensor<f32, M, N>)
///                        ^
/// ```
pub fn axis_not_declared<'a>(name: &Ident, declared: impl Iterator<Item = &'a str>) -> Diagnostic {
    let error = Diagnostic::new("axis_not_declared", name.span(), format!("no axis `{name}` is declared"));
    let text = name.to_string();
    match declared.into_iter().find(|axis| axis.eq_ignore_ascii_case(&text)) {
        Some(axis) => error.help(format!("there is `{axis}`")),
        None => error.help(format!("add it to the generics of the function: `<.., {name}>`")),
    }
}

/// Results are new tensors.
///
/// ```text
/// fn k<N>(x: Tensor<f32, N>) -> &Tensor<f32, N>
///                               ^
/// ```
pub fn reference_result(at: Place) -> Diagnostic {
    Diagnostic::new("reference_result", at, "a result is a new tensor, not a reference")
        .help("leave out the `&`")
}

/// A call gives its results as one tuple.
///
/// ```text
/// fn k<N>(x: Tensor<f32, N>) -> (Tensor<f32, N>, /* 31 more */ Tensor<f32, N>)
///                                                              ^^^^^^^^^^^^^^
/// ```
pub fn too_many_results(at: Place, most: usize) -> Diagnostic {
    Diagnostic::new("too_many_results", at, format!("a kernel has at most {most} results"))
        .help("`stack` puts results of one shape into one tensor")
}

/// A result without axes is a tensor too.
///
/// ```text
/// fn k<N>(x: Tensor<f32, N>) -> f32
///                               ^^^
/// ```
pub fn scalar_result(at: Place) -> Diagnostic {
    Diagnostic::new("scalar_result", at, "a result is always a tensor")
        .help("write `Tensor<f32>` for a result without axes")
}

/// A function gives a result or writes through `&mut`.
///
/// ```text
/// #[kernel] fn k<N>(x: Tensor<f32, N>) {}
///              ^
/// ```
pub fn no_result(name: &Ident) -> Diagnostic {
    Diagnostic::new("no_result", name.span(), format!("`{name}` gives no result and has no `&mut` parameter"))
        .help("declare its result, as in `-> Tensor<f32, N>`")
}

/// `&mut` parameters belong to kernels (rule 17).
///
/// ```text
/// fn step<N>(p: &mut Tensor<f32, N>) {}
///               ^^^^^^^^^^^^^^^^^^^
/// ```
pub fn mutable_parameter_of_composite(at: Place) -> Diagnostic {
    Diagnostic::new("mutable_parameter_of_composite", at, "only a kernel has `&mut` parameters")
        .help("let the composite give the new value, and assign it in the kernel: `*p = step(p, ..)`")
}

/// An axis is assumed once.
///
/// ```text
/// #[kernel(assume(N = 1, N = 2))]
///                        ^
/// ```
pub fn axis_assumed_twice(name: &Ident) -> Diagnostic {
    Diagnostic::new("axis_assumed_twice", name.span(), format!("the extent of `{name}` is assumed twice"))
}
