//! Planning: lowered kernels to programs, and the planner's refusals as errors at the operations they are about.

use crate::diagnostic::{Diagnostics, Place, messages};
use crate::lower::LoweredKernel;
use crate::syntax::{Block, Item};
use fuse_ir::graph::{Kernel, Origin, simplify_graph, verify_graph};
use fuse_ir::id::NodeId;
use fuse_ir::plan::{PlanError, PlanOptions, plan_kernel};
use fuse_ir::program::Program;
use fuse_ir::target::Target;
use std::collections::HashMap;

/// A kernel, planned.
#[derive(Clone, Debug)]
pub struct PlannedKernel {
    /// Which item of the block it is.
    pub item: usize,
    /// The dtype of each generic one, in the declared order.
    pub dtypes: Vec<fuse_ir::dtype::DType>,
    /// The kernel with its plan.
    pub program: Program,
    /// A contract that the plan does not keep: the launches that it allows. Such a kernel is not compiled.
    pub broken_contract: Option<u32>,
    places: SourcePlaces,
}

impl PlannedKernel {
    /// Where an operation stands in the source.
    pub fn place_of(&self, node: NodeId) -> Option<Place> {
        self.places.place_of(&self.program.kernel, node)
    }
}

/// Simplifies and plans each kernel for this CPU. Kernels that break their contract are reported, and left out unless
/// `keep_broken` asks for their plans without it.
pub fn plan_kernels(
    block: &Block,
    lowered: Vec<LoweredKernel>,
    keep_broken: bool,
    diagnostics: &mut Diagnostics,
) -> Vec<PlannedKernel> {
    let target = Target::cpu();
    let mut planned = Vec::new();
    for LoweredKernel { kernel, item, dtype_args, places } in lowered {
        let places = SourcePlaces::new(&kernel, &places);
        let kernel = simplify_graph(kernel);
        debug_assert_eq!(verify_graph(&kernel), Ok(()), "{kernel}");
        let dtypes: Vec<_> = dtype_args.into_iter().map(|(_, dtype)| dtype).collect();
        let (plan, broken_contract) = match plan_kernel(&kernel, &target, &PlanOptions::default()) {
            Ok(plan) => (plan, None),
            Err(error) => {
                report_refusal(block, item, &kernel, &places, &error, diagnostics);
                let PlanError::Contract { wanted, .. } = error else { continue };
                if !keep_broken {
                    continue;
                }
                let free = Kernel { launches: None, ..kernel.clone() };
                match plan_kernel(&free, &target, &PlanOptions::default()) {
                    Ok(plan) => (plan, Some(wanted)),
                    Err(_) => continue,
                }
            }
        };
        planned.push(PlannedKernel {
            item,
            dtypes,
            program: Program { kernel, plan },
            broken_contract,
            places,
        });
    }
    planned
}

/// Prints the plans of the kernels that say `explain`. Cargo keeps what a macro prints and repeats it on cached builds.
#[allow(
    clippy::print_stderr,
    reason = "the user asks for it, and a macro has no other way to tell without a warning"
)]
pub fn explain_kernels(block: &Block, planned: &[PlannedKernel]) {
    for kernel in planned {
        let Some(Item::Fn(function)) = block.items.get(kernel.item) else { continue };
        if function.kernel.as_ref().is_some_and(|args| args.explain) {
            eprint!("{}", kernel.program.plan.display(&kernel.program.kernel));
        }
    }
}

/// Where the operations of a kernel stand. Simplification renumbers nodes, and keeps their origins; operations that
/// start at one token are told apart by their text.
#[derive(Clone, Debug)]
struct SourcePlaces {
    places: HashMap<(u32, u32, String), Place>,
}

impl SourcePlaces {
    fn new(kernel: &Kernel, places: &[Place]) -> SourcePlaces {
        let keys = kernel.origins.iter().map(key_of);
        SourcePlaces { places: keys.zip(places.iter().copied()).collect() }
    }

    fn place_of(&self, kernel: &Kernel, node: NodeId) -> Option<Place> {
        self.places.get(&key_of(kernel.origins.get(node.index())?)).copied()
    }
}

fn key_of(origin: &Origin) -> (u32, u32, String) {
    (origin.line, origin.column, origin.label.clone())
}

fn report_refusal(
    block: &Block,
    item: usize,
    kernel: &Kernel,
    places: &SourcePlaces,
    error: &PlanError,
    diagnostics: &mut Diagnostics,
) {
    let Some(Item::Fn(function)) = block.items.get(item) else { return };
    match error {
        PlanError::Contract { wanted, needed, blocking } => {
            let first = blocking.first();
            let at = first.and_then(|decision| places.place_of(kernel, decision.consumer));
            let contract = function.kernel.as_ref().and_then(|args| args.launches).map(|(_, span)| span);
            diagnostics.report(messages::too_many_launches(
                at.unwrap_or_else(|| Place::from(contract.unwrap_or_else(|| function.name.span()))),
                contract,
                &kernel.name,
                (*wanted, *needed),
                blocking,
            ));
        }
        PlanError::Unplannable { node, because } => {
            let at = node.and_then(|node| places.place_of(kernel, node));
            let at = at.unwrap_or_else(|| Place::from(function.name.span()));
            diagnostics.report(messages::unplannable(at, &kernel.name, because));
        }
    }
}
