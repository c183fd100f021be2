//! What lowering carries along: the block, the errors, the graph so far and the names in scope.

use super::graph::Graph;
use super::mutable::State;
use super::value::Value;
use crate::diagnostic::{Diagnostic, Diagnostics, Place, Reported};
use crate::prelude::Precision;
use crate::scalar::ScalarItems;
use crate::syntax::TensorFn;
use fuse_ir::dtype::DType;
use fuse_ir::id::{AxisId, NodeId, ParamId};
use proc_macro2::Ident;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The composites of the prelude that were asked for; `None` for a name that is none.
pub(super) type PreludeCache = BTreeMap<(String, Precision), Option<Rc<TensorFn>>>;

/// The functions over tensors that a body can call.
#[derive(Default)]
pub(super) struct Library {
    /// Composites of the block and of its imports, by their keys.
    pub(super) composites: BTreeMap<String, Composite>,
    /// Kernels of the block, which a body cannot call.
    pub(super) kernels: BTreeMap<String, proc_macro2::Span>,
    /// Functions with errors, which were reported: their calls are silent.
    pub(super) broken: RefCell<BTreeMap<String, Reported>>,
    /// That something is too large was reported: what contains it is silent.
    pub(super) too_large: Cell<Option<Reported>>,
    /// Composites of the prelude, parsed when they are first called.
    pub(super) prelude: RefCell<PreludeCache>,
}

/// A composite that can be called.
#[derive(Clone)]
pub(super) struct Composite {
    /// The function.
    pub(super) function: Rc<TensorFn>,
    /// The name by which the block knows it.
    pub(super) key: String,
    /// Put before the names in its body when they are looked up, as for scalar functions.
    pub(super) scope: Rc<str>,
    /// Where it comes from.
    pub(super) origin: CompositeOrigin,
}

/// Where a composite comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CompositeOrigin {
    /// The block.
    Block,
    /// Another block, module or crate.
    Import,
    /// The prelude.
    Prelude,
}

/// The call of a composite whose body lies outside the block.
#[derive(Clone)]
pub(super) struct Inlined {
    /// The composite, as the call names it.
    pub(super) name: String,
    /// Where it is called in the block.
    pub(super) place: Place,
    /// It is an import, whose body has places that can be written down.
    pub(super) imported: bool,
    /// In an import: the call of a prelude composite that is being inlined, which has no such places.
    pub(super) inner: Option<Place>,
}

/// A contraction with axes that both operands have and that are not contracted.
pub(super) struct Contraction {
    /// Its node.
    pub(super) node: NodeId,
    /// The common axes.
    pub(super) batch: Vec<AxisId>,
    /// Where it stands.
    pub(super) place: Place,
    /// How it is written.
    pub(super) call: String,
}

/// What lowering of one function carries along.
pub(super) struct Context<'a> {
    /// What can be called.
    pub(super) library: &'a Library,
    /// Ops, combiners and constants.
    pub(super) scalars: &'a ScalarItems,
    /// Where errors go.
    pub(super) diagnostics: &'a mut Diagnostics,
    /// The graph so far.
    pub(super) graph: Graph,
    /// The names of the function that is being lowered.
    pub(super) scope: Scope,
    /// The composites that are being inlined, outermost first.
    pub(super) calls: Vec<String>,
    /// The outermost call of a composite from outside the block that is being inlined: its body has no place in the block.
    pub(super) inlined: Option<Inlined>,
    /// The conditions of the uniform branches around, each true where the branch is taken.
    pub(super) conditions: Vec<NodeId>,
    /// The contractions that have batch axes, for messages.
    pub(super) contractions: Vec<Contraction>,
    /// Windows whose padding counts as zero because nobody said otherwise, with the axes of their taps.
    pub(super) unfilled: Vec<(NodeId, AxisId)>,
    /// The present values of the `&mut` parameters.
    pub(super) states: BTreeMap<ParamId, State>,
}

/// The names of one function.
#[derive(Default)]
pub(super) struct Scope {
    /// The function.
    pub(super) function: Option<Rc<TensorFn>>,
    /// Put before the names of items in its body when they are looked up: empty for functions of the block.
    pub(super) items: Rc<str>,
    /// Its axes.
    pub(super) axes: BTreeMap<String, AxisId>,
    /// Its generic dtypes.
    pub(super) dtypes: BTreeMap<String, DType>,
    /// Parameters and `let`s; the last of a name counts.
    pub(super) variables: Vec<(String, Variable)>,
    /// Axes of a composite's arguments that its types do not list: they pass through.
    pub(super) extras: BTreeSet<AxisId>,
    /// The axes of the typed `let` whose value is being lowered: the outer products that are meant.
    pub(super) outer: Option<BTreeSet<AxisId>>,
}

/// What a name stands for.
#[derive(Clone)]
pub(super) enum Variable {
    /// A value.
    Value(Value),
    /// A `&mut` parameter, whose value changes.
    Mutable(ParamId),
    /// A value that could not be made.
    Poisoned(Reported),
}

impl Context<'_> {
    /// Reports an error; one in the body of a composite from outside the block at the call, as nothing else is the block's.
    pub(super) fn report(&mut self, mut diagnostic: Diagnostic) -> Reported {
        match &self.inlined {
            Some(call) if call.imported => {
                if let Some(inner) = call.inner {
                    diagnostic.primary = inner;
                }
                self.diagnostics.report(diagnostic.inside_import(call.place, &call.name))
            }
            Some(call) => {
                let note = format!("this arises in the body of `{}`, where its arguments meet", call.name);
                self.diagnostics.report(diagnostic.moved_to(call.place, note))
            }
            None => self.diagnostics.report(diagnostic),
        }
    }

    /// The name by which the block knows an item that the present body names.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.scope.items)
    }

    /// The axis of that name.
    pub(super) fn find_axis(&self, name: &Ident) -> Option<AxisId> {
        self.scope.axes.get(&name.to_string()).copied()
    }

    /// What a name stands for.
    pub(super) fn find_variable(&self, name: &str) -> Option<&Variable> {
        self.scope.variables.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// The dtype of that name, generic ones included.
    pub(super) fn find_dtype(&self, name: &str) -> Option<DType> {
        self.scope.dtypes.get(name).copied().or_else(|| DType::from_name(name))
    }
}
