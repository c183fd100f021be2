//! Tensor functions to graphs: names, axes and dtypes are resolved, composites inlined.
//!
//! One [`Kernel`] for each kernel of the block and, if its dtypes are generic, for each instance. Composites are checked
//! on their own too, so that one nobody calls has its errors reported. The files follow the language: `signature`
//! makes axes and parameters, `statement` and `expr` walk a body, the others lower one kind of expression each.

mod arguments;
mod axis;
mod branch;
mod call;
mod composite;
mod constant;
mod context;
mod contract;
mod expr;
mod graph;
mod indirect;
mod method;
mod mutable;
mod operator;
mod position;
mod prune;
mod random;
mod reduce;
mod signature;
mod site;
mod statement;
mod value;
mod view;
mod window;

use crate::diagnostic::{Diagnostics, Place, Reported, messages};
use crate::import::{Import, Unit};
use crate::scalar::ScalarItems;
use crate::syntax::{Block, Item, TensorFn};
use composite::lower_body;
use context::{Composite, CompositeOrigin, Context, Library, Scope};
use fuse_ir::dtype::DType;
use fuse_ir::graph::{Kernel, Output, OutputTarget, ParamKind};
use fuse_ir::id::ParamId;
use prune::prune_nodes;
use signature::{instance_name, list_instances, lower_signature, report_unsourced_axes};
use statement::resolve_type;
use std::rc::Rc;
use value::Value;

pub(crate) use call::{is_language_function, is_similar, path_text, ungroup};

/// A kernel as a graph.
#[derive(Clone, Debug)]
pub struct LoweredKernel {
    /// The graph.
    pub kernel: Kernel,
    /// Which item of the block it is.
    pub item: usize,
    /// The instance: each generic dtype with what it stands for, in the declared order.
    pub dtype_args: Vec<(String, DType)>,
    /// Where each node stands in the source.
    pub places: Vec<Place>,
}

/// Lowers the kernels of a block, in its order; instances of one kernel in the order of its lists. Kernels with errors
/// are left out. Takes scalar items that include the ops of the prelude and of the imports that the block uses.
pub fn lower_kernels(
    block: &Block,
    imports: &[Import],
    scalars: &ScalarItems,
    diagnostics: &mut Diagnostics,
) -> Vec<LoweredKernel> {
    let library = collect_library(block, imports);
    for (name, Composite { function, origin, .. }) in &library.composites {
        // Imports are checked where they are defined.
        if !matches!(origin, CompositeOrigin::Block) {
            continue;
        }
        let instance = list_instances(function).swap_remove(0);
        if let Err(reported) = lower_function(&library, scalars, function, &instance, diagnostics) {
            library.broken.borrow_mut().insert(name.clone(), reported);
        }
    }
    let mut lowered = Vec::new();
    for (item, entry) in block.items.iter().enumerate() {
        let Item::Fn(function) = entry else { continue };
        if function.kernel.is_none() {
            continue;
        }
        let function = Rc::new((**function).clone());
        for instance in list_instances(&function) {
            if let Ok((kernel, places)) = lower_function(&library, scalars, &function, &instance, diagnostics)
            {
                debug_assert_eq!(fuse_ir::graph::verify_graph(&kernel), Ok(()), "{kernel}");
                lowered.push(LoweredKernel { kernel, item, dtype_args: instance, places });
            }
        }
    }
    lowered
}

fn collect_library(block: &Block, imports: &[Import]) -> Library {
    let mut library = Library::default();
    for item in &block.items {
        if let Item::Broken(function) = item {
            library.broken.get_mut().insert(function.name.to_string(), Reported::before());
        }
    }
    for function in block.functions() {
        let name = function.name.to_string();
        if function.kernel.is_some() {
            library.kernels.insert(name, function.name.span());
        } else {
            let origin = CompositeOrigin::Block;
            let function = Rc::new(function.clone());
            library
                .composites
                .insert(name.clone(), Composite { function, key: name, scope: Rc::default(), origin });
        }
    }
    for import in imports {
        import.for_each_unit(&mut |key, unit| collect_unit(key, unit, &mut library));
    }
    library
}

/// The composites of an import.
fn collect_unit(key: &str, unit: &Unit, library: &mut Library) {
    if !unit.is_usable() {
        library.broken.get_mut().insert(key.to_owned(), Reported::before());
        return;
    }
    let scope: Rc<str> = Unit::scope(key).into();
    for function in unit.block.functions() {
        let key = unit.key_of(key, &function.name.to_string());
        let function = Rc::new(function.clone());
        let composite =
            Composite { function, key: key.clone(), scope: scope.clone(), origin: CompositeOrigin::Import };
        library.composites.insert(key, composite);
    }
}

/// One instance of a kernel; also a composite on its own, as if it were one.
fn lower_function(
    library: &Library,
    scalars: &ScalarItems,
    function: &Rc<TensorFn>,
    instance: &[(String, DType)],
    diagnostics: &mut Diagnostics,
) -> Result<(Kernel, Vec<Place>), Reported> {
    let mut cx = Context {
        library,
        scalars,
        diagnostics,
        graph: graph::Graph::default(),
        scope: Scope::default(),
        calls: vec![function.name.to_string()],
        inlined: None,
        conditions: Vec::new(),
        contractions: Vec::new(),
        unfilled: Vec::new(),
        states: Default::default(),
    };
    cx.graph.kernel.name = instance_name(function, instance);
    if let Some(args) = &function.kernel {
        cx.graph.kernel.launches = args.launches.map(|(n, _)| n);
        cx.graph.kernel.fast = args.fast;
    }
    lower_signature(&mut cx, function, instance)?;
    let value = lower_body(&mut cx, function)?;
    report_unsourced_axes(&mut cx, function)?;
    add_results(&mut cx, function, &value)?;
    add_stores(&mut cx, function)?;
    Ok(prune_nodes(cx.graph.kernel, &cx.graph.places))
}

fn add_results(cx: &mut Context<'_>, function: &TensorFn, value: &Value) -> Result<(), Reported> {
    for (k, (ty, value)) in function.result_types().iter().zip(reduce::flatten(value)).enumerate() {
        let (_, axes) = resolve_type(cx, ty)?;
        if let Value::Node(value) = value {
            let target = OutputTarget::Result { index: k as u32, axes };
            cx.graph.kernel.outputs.push(Output { value, target });
        }
    }
    Ok(())
}

fn add_stores(cx: &mut Context<'_>, function: &TensorFn) -> Result<(), Reported> {
    for (k, param) in function.params.iter().enumerate() {
        let id = ParamId::from_index(k);
        let Some(state) = cx.states.get(&id) else { continue };
        if !state.is_written() {
            return Err(
                cx.report(messages::mutable_parameter_not_assigned(&param.name, Place::of(&param.ty)))
            );
        }
        let ParamKind::Tensor { axes, .. } = &cx.graph.kernel.param(id).kind else { continue };
        let stores = state.outputs(id, axes);
        cx.graph.kernel.outputs.extend(stores.into_iter().map(|(value, target)| Output { value, target }));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
