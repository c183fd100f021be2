//! Tests of lowering: graphs as text, errors with the text they mark, numbers through the reference evaluator. Each test
//! is named after the rule of the language that it shows.

mod axes;
mod bodies;
mod errors;
mod reductions;
mod values;

use super::{LoweredKernel, lower_kernels};
use crate::diagnostic::Diagnostics;
use crate::prelude::{collect_used_ops, says_f64};
use crate::scalar::{ConstSource, FnSource, Origin, ReduceArgs, ScalarItems, lower_scalar_items};
use crate::syntax::{Block, parse_block};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{Array, Input, Inputs, Outputs, Precision, evaluate};
use proc_macro2::TokenStream;

/// The front end of a block.
pub(crate) fn lower(source: &str) -> (Vec<LoweredKernel>, Diagnostics) {
    let tokens: TokenStream = source.parse().expect("tokens");
    let mut diagnostics = Diagnostics::new();
    let block = parse_block(tokens.clone(), &mut diagnostics);
    let scalars = lower_scalars(&tokens, &block, &mut diagnostics);
    let kernels = lower_kernels(&block, &[], &scalars, &mut diagnostics);
    (kernels, diagnostics)
}

fn lower_scalars(tokens: &TokenStream, block: &Block, diagnostics: &mut Diagnostics) -> ScalarItems {
    let used = collect_used_ops(tokens, block, [], "", says_f64(tokens));
    let own = |item| FnSource { name: name_of(item), scope: String::new(), item, origin: Origin::Block };
    let mut ops: Vec<FnSource<'_>> = block.ops().map(|op| own(&op.function)).collect();
    ops.extend(used.iter().map(|op| FnSource {
        name: op.name.clone(),
        scope: op.scope.clone(),
        item: &op.item,
        origin: Origin::Prelude,
    }));
    let reducers: Vec<_> = block
        .reduces()
        .map(|r| (ReduceArgs { identity: r.identity.clone(), ordered: r.ordered }, own(&r.function)))
        .collect();
    let own = |item| ConstSource { scope: String::new(), item, origin: Origin::Block };
    let consts: Vec<_> = block.consts().map(|c| own(&c.item)).collect();
    lower_scalar_items(&ops, &reducers, &consts, Default::default(), diagnostics)
}

fn name_of(item: &syn::ItemFn) -> String {
    item.sig.ident.to_string()
}

/// The only kernel of a block without errors.
#[track_caller]
pub(crate) fn lower_one(source: &str) -> LoweredKernel {
    let (mut kernels, diagnostics) = lower(source);
    let texts: Vec<String> = diagnostics.iter().map(|d| d.text()).collect();
    assert!(texts.is_empty(), "{source}\n{texts:#?}");
    fuse_ir::graph::verify_graph(&kernels[0].kernel).expect("a valid graph");
    kernels.swap_remove(0)
}

/// Checks the dump of the only kernel, labels left out.
#[track_caller]
fn check_graph(source: &str, expected: &str) {
    let dump = lower_one(source).kernel.to_string();
    let lines = |text: &str| -> Vec<String> {
        let code = |line: &str| line.split("  //").next().unwrap_or("").trim().to_owned();
        text.lines().map(code).filter(|l| !l.is_empty()).collect()
    };
    assert_eq!(lines(&dump), lines(expected), "\n{dump}");
}

/// Checks that `source` gives one error, of that name, at the text that is written `«like this»`.
#[track_caller]
fn check_error(marked: &str, code: &str) {
    let start = marked.find('«').expect("a mark");
    let end = marked.find('»').expect("the end of the mark") - '«'.len_utf8();
    let source = marked.replace(['«', '»'], "");
    let (_, diagnostics) = lower(&source);
    let found: Vec<_> = diagnostics.iter().collect();
    assert_eq!(found.len(), 1, "{source}\n{found:#?}");
    assert_eq!(found[0].code, code, "{source}\n{}", found[0].text());
    let place = found[0].primary;
    let shown = &source[place.start.byte_range().start..place.end.byte_range().end];
    assert_eq!(shown, &source[start..end], "{source}\n{}", found[0].text());
}

/// An f32 tensor.
pub(crate) fn tensor(shape: &[usize], data: &[f32]) -> Input {
    array(DType::F32, shape, data.iter().map(|&x| Value::F32(x)).collect())
}

/// A tensor of any dtype.
pub(crate) fn array(dtype: DType, shape: &[usize], data: Vec<Value>) -> Input {
    Input::Tensor(Array::new(dtype, shape.to_vec(), data).expect("a tensor"))
}

/// An f32 scalar.
pub(crate) fn scalar(x: f32) -> Input {
    Input::Scalar(Value::F32(x))
}

/// Runs the only kernel of a block on the reference evaluator.
#[track_caller]
pub(crate) fn run(source: &str, inputs: Vec<Input>) -> Outputs {
    let kernel = lower_one(source).kernel;
    evaluate(&kernel, &Inputs(inputs), Precision::Exact).unwrap_or_else(|e| panic!("{e}\n{kernel}"))
}

/// The elements of an array as f64, bools as 0 and 1.
pub(crate) fn numbers(array: &Array) -> Vec<f64> {
    let number = |v: &Value| match v.as_f64() {
        Some(x) => x,
        None => v.as_i128().map_or(f64::from(v.as_bool() == Some(true)), |x| x as f64),
    };
    array.data.iter().map(number).collect()
}

/// The elements of the first result.
#[track_caller]
pub(crate) fn run_numbers(source: &str, inputs: Vec<Input>) -> Vec<f64> {
    numbers(&run(source, inputs).results[0])
}
