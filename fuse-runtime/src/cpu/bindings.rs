//! What a launch is given, and what it reports.

use fuse_ir::dtype::Value;
use fuse_ir::id::{AxisId, GroupId, NodeId};

/// A tensor's memory.
#[derive(Clone, Copy, Debug)]
pub struct Buffer<'a> {
    /// The element at position zero on every axis, aligned for the dtype.
    pub data: *mut u8,
    /// Elements from one position to the next, for each axis in layout order; zero and negative ones are views'.
    pub strides: &'a [isize],
}

/// Everything that the launches of one call read and write.
#[derive(Clone, Copy, Debug)]
pub struct Bindings<'a> {
    /// The extent of each axis of the kernel.
    pub extents: &'a [i64],
    /// The value of each scalar or `Axis` parameter; `None` for tensors.
    pub scalars: &'a [Option<Value>],
    /// The tensor of each parameter; anything for scalars.
    pub params: &'a [Buffer<'a>],
    /// The components of the result.
    pub results: &'a [Buffer<'a>],
    /// The intermediate buffers of the plan, contiguous or not.
    pub temps: &'a [Buffer<'a>],
}

/// The first fault of a launch (language rule 15).
#[derive(Clone, PartialEq, Debug)]
pub struct CpuFault {
    /// The group.
    pub group: GroupId,
    /// The node that faulted.
    pub node: Option<NodeId>,
    /// The position in the domain of the group.
    pub position: Vec<(AxisId, i64)>,
    /// For a gather: the index that is out of range and the extent of the axis.
    pub index: Option<(i64, i64)>,
}
