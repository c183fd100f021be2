//! The planner: a kernel and a target in, a plan out.
//!
//! ```text
//!          x[M,N]                        1. collapse: maps join their only reader         (linear)
//!         ╱      ╲                       2. improve: merge groups, recompute values        (greedy, priced)
//!      max(N)     │                      3. search small regions exactly                   (bounded)
//!         ╲      ╱                       4. schedule, name, count traffic, explain
//!        x - max, exp ──► sum(N)
//!            ╲             ╱             one group: outer M, reduced N, three sweeps
//!             ╲──► div ◄──╱
//! ```
//!
//! A *partition* says which values lie in memory and which group leaves each of them there. Legality and price of a
//! group come from its schedule, which is built for every candidate; so what is priced is what is launched. Collapsing
//! takes time linear in the graph; the priced search works on what is left, of which kernels have few.

use crate::graph::Kernel;
use crate::graph::facts::GraphFacts;
use crate::id::NodeId;
use crate::plan::collapse::{Start, start_partition};
use crate::plan::cost::Sizes;
use crate::plan::finish::finish_plan;
use crate::plan::greedy::improve;
use crate::plan::partition::Problem;
use crate::plan::{Decision, Plan};
use crate::schedule::build::Refused;
use crate::target::Target;
use std::fmt;

/// What the caller may choose.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PlanOptions {
    /// The number of launches that the plan may take; `None` means what the kernel says.
    pub launches: Option<u32>,
}

/// Why there is no plan.
#[derive(Clone, PartialEq, Debug)]
pub enum PlanError {
    /// The kernel asks for fewer launches than it needs.
    Contract {
        /// What it asks for.
        wanted: u32,
        /// What it needs.
        needed: u32,
        /// What stands between: refused merges with their reasons and remedies.
        blocking: Vec<Decision>,
    },
    /// An operation can be no launch.
    Unplannable {
        /// Which.
        node: Option<NodeId>,
        /// Why.
        because: String,
    },
}

impl From<Refused> for PlanError {
    fn from(refused: Refused) -> Self {
        PlanError::Unplannable { node: refused.node, because: refused.because }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Contract { wanted, needed, blocking } => {
                write!(f, "the kernel takes {needed} launches, not {wanted}")?;
                for decision in blocking {
                    write!(f, "\n{}", decision.reason)?;
                }
                Ok(())
            }
            PlanError::Unplannable { because, .. } => f.write_str(because),
        }
    }
}

impl std::error::Error for PlanError {}

/// The plan of a kernel that is modelled fastest.
///
/// # Errors
/// If the kernel states a number of launches that no legal plan keeps to.
pub fn plan_kernel(kernel: &Kernel, target: &Target, options: &PlanOptions) -> Result<Plan, PlanError> {
    let facts = GraphFacts::compute(kernel);
    let sizes = Sizes::compute(kernel);
    let problem = Problem { kernel, facts: &facts, target, sizes: &sizes };
    let unfused = start_partition(&problem, Start::Unfused)?;
    let partition = improve(&problem, start_partition(&problem, Start::Collapsed)?);
    let _ = options;
    finish_plan(&problem, &partition, &unfused).ok_or_else(|| cyclic(kernel))
}

/// The plan in which every operation is a launch of its own. Views, casts that widen narrow floats and functions of
/// scalar parameters alone are not operations: they are computed where they are read.
///
/// # Errors
/// If an operation can be no launch, which no verified graph gives.
pub fn plan_unfused(kernel: &Kernel, target: &Target) -> Result<Plan, PlanError> {
    let facts = GraphFacts::compute(kernel);
    let sizes = Sizes::compute(kernel);
    let problem = Problem { kernel, facts: &facts, target, sizes: &sizes };
    let unfused = start_partition(&problem, Start::Unfused)?;
    finish_plan(&problem, &unfused, &unfused).ok_or_else(|| cyclic(kernel))
}

fn cyclic(kernel: &Kernel) -> PlanError {
    let because = format!("the stores of `{}` over its parameters depend on one another", kernel.name);
    PlanError::Unplannable { node: None, because }
}
