//! The plan of a kernel as data: launches, intermediate buffers, traffic, and the decision behind every edge.

pub mod cost;

mod partition;

mod moves;

mod collapse;

mod greedy;

mod regions;

mod exact;

mod horizontal;

mod finish;

mod trial;
mod windows;

mod decide;

mod rows;

mod streams;

mod kernel;

mod display;

mod json;

pub use display::{Bytes, Micros, PlanDisplay};
pub use kernel::{
    PlanError, PlanOptions, PlanningWork, compare_with_best, measure_planning, plan_kernel, plan_unfused,
};

use crate::dtype::DType;
use crate::id::{AxisId, GroupId, NodeId, ParamId};
use crate::index_map::{Extent, IndexEnv};
use crate::schedule::{BufferRef, ScheduledGroup};
use serde::{Deserialize, Serialize};

/// An intermediate buffer between launches.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Temp {
    /// The element type: the value's own, never narrowed by the planner.
    pub dtype: DType,
    /// Its axes, outermost first.
    pub axes: Vec<AxisId>,
    /// The node it holds.
    pub node: NodeId,
    /// Whether it lies between the links of a streamed group, so that a backend that streams keeps no more than tiles of it.
    pub streamed: bool,
}

/// One launch: usually one group; several when independent small groups are dispatched by block range.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Launch {
    /// The groups; they do not depend on one another.
    pub parts: Vec<ScheduledGroup>,
}

/// Which kind of fusion a decision is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Rule {
    /// An elementwise consumer in its producer's loop.
    Vertical,
    /// A producer computed in the sweep of a reduction.
    ReductionPrologue,
    /// A consumer of a reduced value in the launch that reduces it.
    ReductionEpilogue,
    /// A producer computed in the panels of a contraction.
    ContractionPrologue,
    /// A consumer of products in the launch that computes them.
    ContractionEpilogue,
    /// What lies between the contractions of a streamed group.
    Streaming,
    /// Siblings over one domain that share an input.
    Siblings,
    /// Unrelated small groups in one launch.
    Horizontal,
    /// A producer computed again in each consumer instead of stored.
    Recomputation,
    /// Windows under a filter without columns, as a depthwise convolution.
    Depthwise,
    /// A result written over a dead input.
    InPlace,
}

/// Why a candidate was refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Refusal {
    /// The user wrote `materialize()`.
    Materialized,
    /// The group would depend on itself through another group.
    Cycle,
    /// A reduction would be read before it is complete.
    IncompleteReduction,
    /// The reductions run over different axes or outer axes.
    DifferentAxes,
    /// The read is at other positions than the write and the producer cannot be computed again there.
    IndexMismatch,
    /// Too many values live at once.
    Registers,
    /// Too many parameters for one launch.
    Parameters,
    /// Too much code for one launch.
    CodeSize,
    /// The fused launch would have too few independent rows to fill the device.
    LostParallelism,
    /// Computing the producer again costs more than storing it.
    Recomputation,
    /// Separate launches are modelled faster for another reason.
    Slower,
    /// Weights depend on statistics of their rows otherwise than by a shift of the exponent and by factors, or are needed as a
    /// whole.
    NotStreamed,
    /// Reads and writes of one buffer disagree on positions.
    InPlaceHazard,
}

impl Refusal {
    /// Whether a limit of a launch was the reason.
    pub fn is_limit(self) -> bool {
        match self {
            Refusal::Registers | Refusal::Parameters | Refusal::CodeSize => true,
            Refusal::Materialized | Refusal::Cycle | Refusal::IncompleteReduction => false,
            Refusal::DifferentAxes | Refusal::IndexMismatch | Refusal::LostParallelism => false,
            Refusal::Recomputation | Refusal::Slower | Refusal::InPlaceHazard => false,
            Refusal::NotStreamed => false,
        }
    }
}

/// What became of a candidate merge, and why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Decision {
    /// What it would have been.
    pub rule: Rule,
    /// The producing side (for siblings the first).
    pub producer: NodeId,
    /// The consuming side.
    pub consumer: NodeId,
    /// `None` if taken, else why not.
    pub refusal: Option<Refusal>,
    /// One sentence with the numbers, without a final full stop.
    pub reason: String,
    /// What the user could write to make it legal or worth it, if anything.
    pub remedy: Option<String>,
    /// Bytes over memory if fused and if not, under the assumed extents.
    pub bytes: (u64, u64),
    /// Modelled seconds if fused and if not, under the assumed extents.
    pub seconds: (f64, f64),
}

/// The plan of a kernel.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The kernel's name.
    pub kernel: String,
    /// The target it was priced for.
    pub target: String,
    /// The extents it was priced with, for every axis.
    pub assumed: Vec<(AxisId, u64)>,
    /// The launches, in order.
    pub launches: Vec<Launch>,
    /// The buffers between them.
    pub temps: Vec<Temp>,
    /// Every candidate that was weighed.
    pub decisions: Vec<Decision>,
    /// Result or temp buffers that take over the memory of a dead input: (group, written, read).
    pub in_place: Vec<(GroupId, BufferRef, BufferRef)>,
    /// Bytes read and written over memory by this plan, as a function of the extents.
    pub bytes: Extent,
    /// The same if every operation were a launch of its own.
    pub bytes_unfused: Extent,
    /// How many launches that would be.
    pub launches_unfused: u32,
    /// Scalar operations, as a function of the extents.
    pub flops: Extent,
    /// Modelled cost of this plan over that of the best found by exhaustive search, where it was small enough.
    pub over_best: Option<f64>,
}

impl Plan {
    /// The launches of a call. A split reduction takes two.
    pub fn launch_count(&self) -> u32 {
        self.launches.iter().map(|l| l.parts.iter().map(|p| p.launches()).max().unwrap_or(0)).sum()
    }

    /// Bytes over memory with these extents, in the order of the kernel's axes (those of its generics come first): by
    /// this plan, and with a launch for every operation.
    pub fn traffic(&self, extents: &[i64]) -> (u64, u64) {
        let env = Extents(extents);
        (self.bytes.eval(&env).max(0) as u64, self.bytes_unfused.eval(&env).max(0) as u64)
    }

    /// The groups, in order of launch.
    pub fn groups(&self) -> impl Iterator<Item = &ScheduledGroup> {
        self.launches.iter().flat_map(|l| &l.parts)
    }
}

/// Extents by axis, and nothing else: what the traffic of a plan depends on.
struct Extents<'a>(&'a [i64]);

impl IndexEnv for Extents<'_> {
    fn index(&self, _: AxisId) -> i64 {
        0
    }

    fn extent(&self, axis: AxisId) -> i64 {
        self.0.get(axis.index()).copied().unwrap_or(1)
    }

    fn param(&self, _: ParamId) -> i64 {
        0
    }

    fn indirect(&self, _: NodeId) -> i64 {
        0
    }
}
