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
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The composites of the prelude that were asked for; `None` for a name that is none.
pub(super) type PreludeCache = BTreeMap<(String, Precision), Option<Rc<TensorFn>>>;

/// The functions over tensors that a body can call.
#[derive(Default)]
pub(super) struct Library {
    /// Composites of the block.
    pub(super) composites: BTreeMap<String, Rc<TensorFn>>,
    /// Kernels of the block, which a body cannot call.
    pub(super) kernels: BTreeMap<String, proc_macro2::Span>,
    /// Functions with errors, which were reported: their calls are silent.
    pub(super) broken: RefCell<BTreeMap<String, Reported>>,
    /// Composites of the prelude, parsed when they are first called.
    pub(super) prelude: RefCell<PreludeCache>,
}

/// The call of a prelude composite.
#[derive(Clone)]
pub(super) struct PreludeCall {
    /// The composite.
    pub(super) name: String,
    /// Where it is called.
    pub(super) place: Place,
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
    /// The call of a prelude composite that is being inlined: its body has no place in the user's source.
    pub(super) prelude_call: Option<PreludeCall>,
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
    /// Reports an error; one in the body of a prelude composite at the call, as nothing else is the user's.
    pub(super) fn report(&mut self, diagnostic: Diagnostic) -> Reported {
        match &self.prelude_call {
            Some(call) => {
                let note = format!("this arises in the body of `{}`, where its arguments meet", call.name);
                self.diagnostics.report(diagnostic.moved_to(call.place, note))
            }
            None => self.diagnostics.report(diagnostic),
        }
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
