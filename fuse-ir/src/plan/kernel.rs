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
//! takes time linear in the graph; the priced search works on what is left, region by region where that is much, so that
//! the whole is linear too. A test counts the schedules that are built.

use crate::graph::facts::GraphFacts;
use crate::graph::{Kernel, OutputTarget};
use crate::id::NodeId;
use crate::plan::collapse::{Start, find_anchors, start_partition};
use crate::plan::cost::Sizes;
use crate::plan::display::Micros;
use crate::plan::exact::search_exactly;
use crate::plan::finish::{Detail, finish_plan, plan_seconds};
use crate::plan::partition::{Partition, Problem, Work};
use crate::plan::regions::improve_by_regions;
use crate::plan::streams::explain_ranges;
use crate::plan::{Decision, Plan, Rule};
use crate::schedule::build::Refused;
use crate::target::Target;
use std::cmp::Ordering;
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
    plan_counted(kernel, target, options, &Work::default())
}

/// How much work it is to plan a kernel, counted: times depend on the machine and on how the planner is compiled.
///
/// # Errors
/// If the kernel cannot be planned.
pub fn measure_planning(kernel: &Kernel, target: &Target) -> Result<PlanningWork, PlanError> {
    let work = Work::default();
    plan_counted(kernel, target, &PlanOptions::default(), &work)?;
    Ok(PlanningWork { schedules: work.schedules.get(), values: work.values.get() })
}

/// What planning a kernel took. See [`measure_planning`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanningWork {
    /// Groups that were scheduled, to price them or to say why they are none.
    pub schedules: u64,
    /// The values of their bodies; the time of planning goes with them.
    pub values: u64,
}

fn plan_counted(
    kernel: &Kernel,
    target: &Target,
    options: &PlanOptions,
    work: &Work,
) -> Result<Plan, PlanError> {
    let facts = GraphFacts::compute(kernel);
    let sizes = Sizes::compute(kernel);
    let problem = Problem { kernel, facts: &facts, target, sizes: &sizes, may_split: true, work };
    let unfused = start_partition(&problem, Start::Unfused)?;
    // A cluster may have more dimensions than a launch, which is not counted while it grows; then groups grow by merges alone.
    let collapsed = start_partition(&problem, Start::Collapsed);
    let greedy = improve_by_regions(&problem, collapsed.unwrap_or_else(|_| unfused.clone()));
    let anchors = find_anchors(&problem, Start::Collapsed);
    let best = search_exactly(&problem, &greedy, &anchors, EXACT_BUDGET);
    let over_best = best.as_ref().map(|b| greedy.price().seconds / b.price().seconds);
    let partition = best.unwrap_or(greedy);
    let mut plan =
        finish_plan(&problem, &partition, &unfused, Detail::Joined).ok_or_else(|| cyclic(kernel))?;
    let again = compute_stored_again(&problem, &partition);
    let joined = again.as_ref().and_then(|again| finish_plan(&problem, again, &unfused, Detail::Joined));
    if let Some(joined) = joined.filter(|j| plan_seconds(&problem, j) < plan_seconds(&problem, &plan)) {
        plan = joined;
    }
    plan.over_best = over_best;
    let Some(wanted) = options.launches.or(kernel.launches) else { return Ok(plan) };
    if plan.launch_count() > wanted {
        plan = keep_to_contract(&problem, &unfused, (plan, &partition), wanted)?;
    }
    let ranges = explain_ranges(&problem, &plan, wanted);
    plan.decisions.extend(ranges);
    Ok(plan)
}

/// The partition in which what is stored over parameters, and read by others from memory, is computed by them again: the
/// search does not see that they may then share a launch with the stores. `None` if there is nothing of that kind.
fn compute_stored_again(problem: &Problem<'_>, partition: &Partition) -> Option<Partition> {
    let mut next: Option<Partition> = None;
    for output in &problem.kernel.outputs {
        let current = next.as_ref().unwrap_or(partition);
        let is_stored = matches!(output.target, OutputTarget::Param { .. });
        if !is_stored || !current.memory[output.value.index()] {
            continue;
        }
        let step = current.try_recompute(problem, output.value).ok();
        let found = step.and_then(|step| current.check_recomputed(problem, output.value, &step).ok());
        next = found.or(next);
    }
    next
}

/// Values of bodies that the exact search may build while a kernel is expanded: some milliseconds in a debug build.
const EXACT_BUDGET: u32 = 4_000;

/// The modelled cost of what the greedy search finds over that of the best of all partitions; `None` if finding it takes
/// more than `budget` values of bodies to be built.
///
/// # Errors
/// If the kernel cannot be planned.
pub fn compare_with_best(kernel: &Kernel, target: &Target, budget: u32) -> Result<Option<f64>, PlanError> {
    let facts = GraphFacts::compute(kernel);
    let sizes = Sizes::compute(kernel);
    let work = Work::default();
    let problem = Problem { kernel, facts: &facts, target, sizes: &sizes, may_split: true, work: &work };
    let greedy = improve_by_regions(&problem, start_partition(&problem, Start::Collapsed)?);
    let anchors = find_anchors(&problem, Start::Collapsed);
    let best = search_exactly(&problem, &greedy, &anchors, budget);
    Ok(best.map(|b| greedy.price().seconds / b.price().seconds))
}

/// A plan of no more launches than `wanted`, if there is a legal one, and of several the fastest: the groups of the
/// fastest plan put into fewer launches, and what the search finds from there and from the start if it is told that
/// starting a launch costs more than any work and that reductions stay whole.
fn keep_to_contract(
    problem: &Problem<'_>,
    unfused: &Partition,
    (fastest, groups): (Plan, &Partition),
    wanted: u32,
) -> Result<Plan, PlanError> {
    let dear = Target { launch: DEAR_LAUNCH, ..problem.target.clone() };
    let forced = Problem { target: &dear, may_split: false, ..*problem };
    let real = Problem { may_split: false, ..*problem };
    let mut plans = Vec::new();
    let collapsed = start_partition(&forced, Start::Collapsed).ok();
    for start in collapsed.into_iter().chain([groups.repriced(&forced)?]) {
        // The groups that are found under the real cost of a launch.
        let found = improve_by_regions(&forced, start).repriced(&real)?;
        plans.extend(finish_plan(&real, &found, unfused, Detail::Forced));
    }
    plans.extend(finish_plan(problem, groups, unfused, Detail::Forced));
    if let Some(again) = compute_stored_again(problem, groups) {
        plans.extend(finish_plan(problem, &again, unfused, Detail::Forced));
    }
    let keeps = |plan: &Plan| plan.launch_count() <= wanted;
    let cost = |plan: &Plan| match keeps(plan) {
        true => (0, plan_seconds(problem, plan)),
        false => (plan.launch_count(), 0.0),
    };
    let best = plans.into_iter().min_by(|a, b| cost(a).partial_cmp(&cost(b)).unwrap_or(Ordering::Equal));
    let mut plan = best.ok_or_else(|| cyclic(problem.kernel))?;
    if !keeps(&plan) {
        let needed = plan.launch_count();
        let blocking = plan.decisions.into_iter().filter(|d| d.refusal.is_some()).collect();
        return Err(PlanError::Contract { wanted, needed, blocking });
    }
    let (kept, best) = (plan_seconds(problem, &plan), plan_seconds(problem, &fastest));
    let node = problem.kernel.outputs.first().map_or(NodeId(0), |o| o.value);
    plan.decisions.push(Decision {
        rule: Rule::Vertical,
        producer: node,
        consumer: node,
        refusal: None,
        reason: format!(
            "`launches = {wanted}` is kept at {}; without it {} launches would take {}",
            Micros(kept),
            fastest.launch_count(),
            Micros(best)
        ),
        remedy: None,
        bytes: (plan.assume(&plan.bytes), fastest.assume(&fastest.bytes)),
        seconds: (kept, best),
    });
    Ok(plan)
}

/// Seconds of a launch where launches are to be avoided at any cost.
const DEAR_LAUNCH: f64 = 1e3;

/// The plan in which every operation is a launch of its own. Views, casts that widen narrow floats and functions of
/// scalar parameters alone are not operations: they are computed where they are read.
///
/// # Errors
/// If an operation can be no launch, which no verified graph gives.
pub fn plan_unfused(kernel: &Kernel, target: &Target) -> Result<Plan, PlanError> {
    let facts = GraphFacts::compute(kernel);
    let sizes = Sizes::compute(kernel);
    let work = Work::default();
    let problem = Problem { kernel, facts: &facts, target, sizes: &sizes, may_split: true, work: &work };
    let unfused = start_partition(&problem, Start::Unfused)?;
    finish_plan(&problem, &unfused, &unfused, Detail::Bare).ok_or_else(|| cyclic(kernel))
}

fn cyclic(kernel: &Kernel) -> PlanError {
    let because = format!("the stores of `{}` over its parameters depend on one another", kernel.name);
    PlanError::Unplannable { node: None, because }
}
