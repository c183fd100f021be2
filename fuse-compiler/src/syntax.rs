//! The syntax of a block: its items with their signatures understood, their bodies still tokens of Rust.
//!
//! Everything in a block is valid Rust syntax, so `syn` reads it and [`parse_block`] sorts the items by attribute:
//! `#[op]`, `#[reduce]`, `#[kernel]`, a plain `fn` (a composite), `const` and `use`. Signatures of tensor functions are
//! resolved to dtypes and axis names here; names in bodies are resolved when they are lowered.

mod attribute;
mod block;
mod dimension;
mod nesting;
mod signature;

pub(crate) use block::name_of_item;
pub use block::parse_block;
pub use nesting::MOST_NESTED;
pub(crate) use nesting::find_too_deep;
pub(crate) use signature::parse_tensor_type;

use crate::diagnostic::Place;
use crate::lint::{Lint, LintLevel};
use fuse_ir::dtype::DType;
use proc_macro2::{Ident, Span};

/// What stands inside `fuse!`.
#[derive(Clone)]
pub struct Block {
    /// The items, in the order of the source.
    pub items: Vec<Item>,
}

/// One item of a block.
#[derive(Clone)]
pub enum Item {
    /// `#[op] fn`.
    Op(Box<OpItem>),
    /// `#[reduce(identity = ..)] fn`.
    Reduce(Box<ReduceItem>),
    /// `const`.
    Const(Box<ConstItem>),
    /// A composite or, with `#[kernel]`, an entry point.
    Fn(Box<TensorFn>),
    /// `use`, which the expansion repeats.
    Use(syn::ItemUse),
    /// A function whose signature or attribute has errors, which were reported: whoever names it stays silent.
    Broken(Box<BrokenFn>),
}

/// What is known of a function that could not be read.
#[derive(Clone)]
pub struct BrokenFn {
    /// Its visibility.
    pub vis: syn::Visibility,
    /// Its name.
    pub name: Ident,
    /// Whether Rust code calls it.
    pub is_kernel: bool,
}

/// `#[op] fn`: ordinary Rust over scalars.
#[derive(Clone)]
pub struct OpItem {
    /// The function without the attribute `#[op]`.
    pub function: syn::ItemFn,
}

/// `#[reduce(identity = .., ordered)] fn`: an associative combiner.
#[derive(Clone)]
pub struct ReduceItem {
    /// The function without the attribute `#[reduce]`.
    pub function: syn::ItemFn,
    /// What combines with everything to itself: a constant, or a tuple of them.
    pub identity: syn::Expr,
    /// `ordered`: associative but not commutative.
    pub ordered: bool,
    /// The attribute.
    pub span: Span,
}

/// `const NAME: f32 = ..;`.
#[derive(Clone)]
pub struct ConstItem {
    /// The item as written.
    pub item: syn::ItemConst,
}

/// A function over tensors.
#[derive(Clone)]
pub struct TensorFn {
    /// Doc comments and other attributes, without `#[kernel]`.
    pub attrs: Vec<syn::Attribute>,
    /// Its visibility.
    pub vis: syn::Visibility,
    /// Its name.
    pub name: Ident,
    /// Axes and dtypes, in the declared order: the order of the random index.
    pub generics: Vec<Generic>,
    /// The parameters.
    pub params: Vec<Param>,
    /// What it gives back.
    pub results: Results,
    /// The body.
    pub body: syn::Block,
    /// For a composite its signature as written.
    pub signature: Option<syn::Signature>,
    /// The arguments of `#[kernel]`; `None` for a composite.
    pub kernel: Option<KernelArgs>,
}

/// One generic of a tensor function.
#[derive(Clone)]
pub struct Generic {
    /// Its name.
    pub name: Ident,
    /// What it stands for.
    pub kind: GenericKind,
}

/// What a generic stands for.
#[derive(Clone)]
pub enum GenericKind {
    /// `N`: an axis.
    Axis,
    /// `const C: usize = 3` or `const F: usize = { 2 * N }`: an axis whose extent is written.
    Derived(Dimension),
    /// `T: Float`: a dtype.
    DType(DTypeBound),
}

/// Which dtypes a generic one may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DTypeBound {
    /// f64, f32, f16 and bf16.
    Float,
    /// The integers.
    Int,
    /// Both.
    Number,
}

/// An extent as written: arithmetic over numbers, axes and constants of the block.
#[derive(Clone)]
pub enum Dimension {
    /// A number.
    Number(u64, Span),
    /// An axis or a constant.
    Name(Ident),
    /// `a + b`, `a - b`, `a * b` or `a / b`.
    Binary {
        /// Which.
        op: DimensionOp,
        /// The left operand.
        left: Box<Dimension>,
        /// The right operand.
        right: Box<Dimension>,
        /// The operator.
        span: Span,
    },
}

/// An operator between extents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DimensionOp {
    /// `+`.
    Add,
    /// `-`.
    Sub,
    /// `*`.
    Mul,
    /// `/`, rounded down.
    Div,
}

/// A parameter of a tensor function.
#[derive(Clone)]
pub struct Param {
    /// Its name.
    pub name: Ident,
    /// Its type.
    pub kind: ParamKind,
    /// The type as written.
    pub ty: syn::Type,
}

/// The type of a parameter.
#[derive(Clone)]
pub enum ParamKind {
    /// `Tensor<f32, M, N>`; `&Tensor<..>` means the same, `&mut Tensor<..>` may be assigned.
    Tensor {
        /// dtype and axes.
        ty: TensorType,
        /// `&mut`.
        mutable: bool,
    },
    /// `f32`, or a generic dtype.
    Scalar(ElementType),
    /// `Axis<H>`: a `usize` on the host.
    Axis(Ident),
}

/// `Tensor<f32, M, N>`.
#[derive(Clone)]
pub struct TensorType {
    /// The type of the elements.
    pub element: ElementType,
    /// The axes, outermost first.
    pub axes: Vec<Ident>,
    /// The whole type.
    pub place: Place,
}

/// A dtype, or a generic one.
#[derive(Clone)]
pub enum ElementType {
    /// `f32`.
    DType(DType, Span),
    /// `T`.
    Generic(Ident),
}

/// The most results of a kernel: tuples of as many implement the runtime's `Outputs`.
pub const MOST_RESULTS: usize = 32;

/// What a tensor function gives back.
#[derive(Clone)]
pub enum Results {
    /// Nothing: it has `&mut` parameters.
    None,
    /// One tensor.
    One(TensorType),
    /// A tuple of tensors.
    Tuple(Vec<TensorType>, Place),
}

/// The arguments of `#[kernel(..)]`.
#[derive(Clone)]
pub struct KernelArgs {
    /// The attribute.
    pub span: Span,
    /// `launches = N`.
    pub launches: Option<(u32, Span)>,
    /// `assume(M = 4096)`.
    pub assume: Vec<(Ident, u64)>,
    /// `T = [f32, f16]`: the instances of each generic dtype that is listed.
    pub dtypes: Vec<(Ident, Vec<(DType, Span)>)>,
    /// `explain`: the macro prints the plan.
    pub explain: bool,
    /// `fast`: contraction and approximate functions.
    pub fast: bool,
    /// `test`: a `#[test]` is generated.
    pub test: bool,
    /// `warn(unfused)`, `deny(..)`, `allow(..)`: what is told of the plan; of several the last counts.
    pub lints: Vec<(Lint, LintLevel)>,
}

impl Block {
    /// The scalar ops.
    pub fn ops(&self) -> impl Iterator<Item = &OpItem> {
        self.items.iter().filter_map(|item| if let Item::Op(op) = item { Some(&**op) } else { None })
    }

    /// The combiners.
    pub fn reduces(&self) -> impl Iterator<Item = &ReduceItem> {
        self.items
            .iter()
            .filter_map(|item| if let Item::Reduce(reduce) = item { Some(&**reduce) } else { None })
    }

    /// The constants.
    pub fn consts(&self) -> impl Iterator<Item = &ConstItem> {
        self.items.iter().filter_map(|item| if let Item::Const(item) = item { Some(&**item) } else { None })
    }

    /// The composites and kernels.
    pub fn functions(&self) -> impl Iterator<Item = &TensorFn> {
        self.items
            .iter()
            .filter_map(|item| if let Item::Fn(function) = item { Some(&**function) } else { None })
    }
}

impl TensorFn {
    /// The generic of that name.
    pub fn generic(&self, name: &str) -> Option<&Generic> {
        self.generics.iter().find(|g| g.name == name)
    }

    /// The generic dtypes, in the declared order.
    pub fn dtype_generics(&self) -> impl Iterator<Item = (&Ident, DTypeBound)> {
        self.generics.iter().filter_map(|g| match &g.kind {
            GenericKind::DType(bound) => Some((&g.name, *bound)),
            GenericKind::Axis | GenericKind::Derived(_) => None,
        })
    }

    /// The types of the results, in order.
    pub fn result_types(&self) -> &[TensorType] {
        match &self.results {
            Results::None => &[],
            Results::One(ty) => std::slice::from_ref(ty),
            Results::Tuple(types, _) => types,
        }
    }
}

impl DTypeBound {
    /// The bound of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "Float" => Some(DTypeBound::Float),
            "Int" => Some(DTypeBound::Int),
            "Number" => Some(DTypeBound::Number),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            DTypeBound::Float => "Float",
            DTypeBound::Int => "Int",
            DTypeBound::Number => "Number",
        }
    }

    /// Whether `dtype` is one of its dtypes. The f8 types are for storage and belong to none.
    pub fn admits(self, dtype: DType) -> bool {
        let float = matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::Bf16);
        match self {
            DTypeBound::Float => float,
            DTypeBound::Int => dtype.is_int(),
            DTypeBound::Number => float || dtype.is_int(),
        }
    }

    /// The only instance of a kernel whose attribute lists none.
    pub fn default_dtype(self) -> DType {
        match self {
            DTypeBound::Float | DTypeBound::Number => DType::F32,
            DTypeBound::Int => DType::I32,
        }
    }
}

impl Dimension {
    /// The names in it, in the order of the source.
    pub fn names(&self) -> Vec<&Ident> {
        match self {
            Dimension::Number(..) => Vec::new(),
            Dimension::Name(name) => vec![name],
            Dimension::Binary { left, right, .. } => {
                let mut names = left.names();
                names.extend(right.names());
                names
            }
        }
    }
}

impl ElementType {
    /// Where it stands.
    pub fn span(&self) -> Span {
        match self {
            ElementType::DType(_, span) => *span,
            ElementType::Generic(name) => name.span(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Diagnostics;

    fn parse(source: &str) -> (Block, Diagnostics) {
        let mut diagnostics = Diagnostics::new();
        let block = parse_block(source.parse().expect("tokens"), &mut diagnostics);
        (block, diagnostics)
    }

    /// Checks that `source` gives one error, of that name, at that text.
    fn check_error(source: &str, code: &str, at: &str) {
        let (_, diagnostics) = parse(source);
        let found: Vec<_> = diagnostics.iter().collect();
        assert_eq!(found.len(), 1, "{source}: {found:#?}");
        assert_eq!(found[0].code, code, "{source}");
        let place = found[0].primary;
        let marked = &source[place.start.byte_range().start..place.end.byte_range().end];
        assert_eq!(marked, at, "{source}");
    }

    #[test]
    fn a_block_sorts_its_items() {
        let (block, diagnostics) = parse(
            "use ops::gelu;
             const LIMIT: f32 = 6.0;
             #[op] fn relu(x: f32) -> f32 { x.max(0.0) }
             #[reduce(identity = (f32::NEG_INFINITY, -1), ordered)]
             fn best(a: (f32, i64), b: (f32, i64)) -> (f32, i64) { if a.0 >= b.0 { a } else { b } }
             fn norm<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x }
             /// Documented.
             #[kernel(launches = 2, assume(M = 4096, N = 64), T = [f32, f16], test)]
             pub fn k<T: Float, M, N, const F: usize = { 2 * N }>(
                 x: &Tensor<T, M, N>, y: &mut Tensor<f16, F>, eps: f32, m: Axis<M>,
             ) -> (Tensor<T, N, M>, Tensor<f32>) { (x, eps) }",
        );
        assert_eq!(diagnostics.iter().count(), 0, "{diagnostics:#?}");
        assert_eq!(block.ops().count(), 1);
        assert!(block.reduces().all(|r| r.ordered));
        assert_eq!(block.consts().count(), 1);
        let kernel = block.functions().last().expect("a kernel");
        assert_eq!(kernel.attrs.len(), 1);
        assert_eq!(kernel.generics.len(), 4);
        assert_eq!(kernel.params.len(), 4);
        assert_eq!(kernel.result_types().len(), 2);
        assert!(kernel.result_types()[1].axes.is_empty());
        let args = kernel.kernel.as_ref().expect("arguments");
        assert_eq!(args.launches.map(|(n, _)| n), Some(2));
        assert_eq!(args.assume.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [4096, 64]);
        assert_eq!(args.dtypes[0].1.iter().map(|(d, _)| *d).collect::<Vec<_>>(), [DType::F32, DType::F16]);
        assert!(args.test && !args.fast && !args.explain);
    }

    #[test]
    fn errors_stand_at_the_smallest_span() {
        check_error("struct S;", "item_not_supported", "struct S;");
        check_error("const A: f32 = 1.0; const A: f32 = 1.0;", "item_defined_twice", "A");
        let k = |generics: &str, params: &str| {
            format!("#[kernel] fn k<{generics}>({params}) -> Tensor<f32, N> {{ x }}")
        };
        check_error(&k("N", "x: Tensor<float, N>"), "unknown_dtype", "float");
        check_error(&k("N", "x: Tensor<f32, M>"), "axis_not_declared", "M");
        check_error(&k("N", "x: Tensor<f32, 3>"), "axis_must_be_named", "3");
        check_error(&k("N", "x: Tensor<f32, N, N>"), "axis_twice_in_type", "N");
        check_error(&k("N", "x: Tensor<N>"), "axis_in_place_of_dtype", "N");
        check_error(&k("N", "x: Tensor<f32, f16>"), "dtype_in_place_of_axis", "f16");
        check_error(&k("N, N", "x: Tensor<f32, N>"), "generic_defined_twice", "N");
        check_error(&k("N: Copy", "x: Tensor<f32, N>"), "unknown_bound", "Copy");
        check_error(&k("N, const C: usize", "x: Tensor<f32, N>"), "const_axis_without_value", "C");
        check_error(&k("N, const C: u32 = 3", "x: Tensor<f32, N>"), "const_axis_not_usize", "u32");
        check_error(
            &k("N, const C: usize = { N << 1 }", "x: Tensor<f32, N>"),
            "dimension_not_understood",
            "<<",
        );
        check_error(&k("N", "x: Vec<f32>"), "parameter_type", "Vec<f32>");
        check_error(&k("N", "x: Tensor"), "tensor_without_dtype", "Tensor");
        check_error(&k("N", "n: Axis<N, N>"), "axis_parameter", "<N, N>");
        check_error("fn f<N>(x: Tensor<f32, N>) -> f32 { x }", "scalar_result", "f32");
        check_error("fn f<N>(x: Tensor<f32, N>) -> &Tensor<f32, N> { x }", "reference_result", "&");
        check_error("#[kernel] fn f<N>(x: Tensor<f32, N>) { x }", "no_result", "f");
        check_error(
            "fn f<N>(x: &mut Tensor<f32, N>) { x }",
            "mutable_parameter_of_composite",
            "&mut Tensor<f32, N>",
        );
    }

    #[test]
    fn signatures_are_those_of_plain_functions() {
        let f = |head: &str| format!("{head} -> Tensor<f32, N> {{ x }}");
        check_error(&f("#[kernel] async fn k<N>(x: Tensor<f32, N>)"), "qualifier_not_supported", "async");
        check_error(&f("fn k<'a, N>(x: Tensor<f32, N>)"), "lifetime_not_supported", "'a");
        check_error(&f("fn k<N, f16>(x: Tensor<f32, N>)"), "generic_named_like_dtype", "f16");
        check_error(&f("fn k<N, M = f32>(x: Tensor<f32, N>)"), "axis_with_default", "f32");
        check_error(&f("fn k<N>(self, x: Tensor<f32, N>)"), "self_not_supported", "self");
        check_error(&f("fn k<N>((x, y): Tensor<f32, N>)"), "parameter_pattern", "(x, y)");
        check_error(&f("fn k<N>(x: Tensor<f32, N>, x: f32)"), "parameter_defined_twice", "x");
        check_error("fn k<N>(x: Tensor<f32, N>) -> Vec<f32> { x }", "tensor_type_expected", "Vec<f32>");
        check_error(
            "fn k<T, N>(x: Tensor<f32, N>) -> Tensor<f32, N> where T: Float { x }",
            "where_not_supported",
            "where T: Float",
        );
    }

    #[test]
    fn rule_8_a_parameter_is_not_named_like_an_axis() {
        check_error("fn f<N>(x: Tensor<f32, N>, N: f32) -> Tensor<f32, N> { x }", "name_of_axis", "N");
    }

    #[test]
    fn attributes_are_closed_lists() {
        let k = |args: &str| {
            format!("#[kernel({args})] fn k<T: Float, N>(x: Tensor<T, N>) -> Tensor<T, N> {{ x }}")
        };
        check_error(&k("lanches = 1"), "unknown_kernel_argument", "lanches");
        check_error(&k("T = [i32]"), "dtype_outside_bound", "i32");
        check_error(&k("T = [f32, f32]"), "dtype_listed_twice", "f32");
        check_error(&k("assume(M = 1)"), "axis_not_declared", "M");
        check_error(&k("assume(N = 1, N = 2)"), "axis_assumed_twice", "N");
        check_error(&k("T = []"), "no_dtype_listed", "T");
        let op = "fn f(x: f32) -> f32 { x }";
        check_error(&format!("#[op] #[kernel] {op}"), "second_marker", "#[kernel]");
        check_error(&format!("#[reduce(identity = 0.0, sorted)] {op}"), "unknown_reduce_argument", "sorted");
        check_error(
            "#[kernel = 1] fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x }",
            "kernel_argument_expected",
            "#[kernel = 1]",
        );
        check_error("#[reduce] fn r(a: f32, b: f32) -> f32 { a + b }", "identity_missing", "reduce");
        check_error("#[cfg(test)] #[op] fn f(x: f32) -> f32 { x }", "cfg_inside_block", "#[cfg(test)]");
    }
}
