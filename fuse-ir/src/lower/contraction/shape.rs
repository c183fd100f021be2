//! Which tiles there are, and which suit a group.

use super::skinny;
use crate::dtype::DType;
use crate::graph::MapFn;
use crate::id::ValueId;
use crate::kernel_ir::MmaShape;
use crate::lower::{Structure, THREADS, rows};
use crate::scalar::ScalarOp;
use crate::schedule::contraction::{Panel, Parts, cut_contraction};
use crate::schedule::{BodyOp, ScheduledGroup};
use std::fmt;

/// Bytes of shared memory that a ring of stages may take: two blocks fit a multiprocessor of any architecture.
const RING: u64 = 48 << 10;
/// Stages at most; more hide no further latency.
const STAGES: u64 = 4;
/// 32-bit registers of a thread that hold sums: the rest is left for operands and addresses.
pub(super) const SUMS: u32 = 64;
/// Warps of a block along its rows and columns where one lane after the other multiplies, and of tensor cores.
const SCALAR_WARPS: [u32; 2] = [4, 2];
const TENSOR_WARPS: [u32; 2] = [2, 4];
/// Bytes of a source's tile along the reduced positions.
const DEPTH_BYTES: u32 = 64;

/// The tile of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TileShape {
    /// Rows of the products.
    pub(super) rows: u32,
    /// Columns of each product.
    pub(super) columns: u32,
    /// Reduced positions of a stage.
    pub(super) depth: u32,
    /// Stages of the ring, at least two.
    pub(super) stages: u32,
    /// Whether there is a smaller one for what it does not suit.
    pub(super) is_large: bool,
    /// What multiplies.
    pub(super) unit: Unit,
}

/// What multiplies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    /// Multiply-adds of single numbers of that many bytes.
    Scalar(u32),
    /// Tensor cores.
    Tensor(MmaShape),
}

impl TileShape {
    pub(super) fn is_tensor(&self) -> bool {
        matches!(self.unit, Unit::Tensor(_))
    }

    /// Warps along rows and along columns.
    pub(super) fn warps(&self) -> [u32; 2] {
        if self.is_tensor() { TENSOR_WARPS } else { SCALAR_WARPS }
    }

    /// Rows and columns of a warp.
    pub(super) fn of_warp(&self) -> [u32; 2] {
        let [down, along] = self.warps();
        [self.rows / down, self.columns / along]
    }

    /// Rows that the lanes of a warp have at once: those of a product of tensor cores, or of four lanes.
    pub(super) fn rows_at_once(&self) -> u32 {
        if self.is_tensor() { 16 } else { 4 }
    }

    /// Columns that the lanes of a warp have at once.
    pub(super) fn columns_at_once(&self) -> u32 {
        8
    }

    /// Sums of a product in each thread.
    pub(super) fn accumulators(&self) -> u32 {
        self.rows * self.columns / THREADS
    }
}

impl fmt::Display for TileShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TileShape { rows, columns, depth, stages, unit, .. } = self;
        write!(f, "tiles of {rows} x {columns}, {depth} deep in {stages} stages")?;
        match unit {
            Unit::Scalar(_) => Ok(()),
            Unit::Tensor(shape) => write!(f, ", {shape}"),
        }
    }
}

/// The structures of a contraction, the best first. `fast` kernels may round sources of f32 to tf32.
pub(in crate::lower) fn structures(group: &ScheduledGroup, fast: bool) -> Vec<Structure> {
    let tiled = cut_contraction(group).map_or(Vec::new(), |parts| shapes(&parts, fast));
    // What no tile takes is summed as rows are.
    if tiled.is_empty() {
        return rows::structures(group);
    }
    let narrow = cut_contraction(group).map_or(Vec::new(), |parts| skinny::shapes(group, &parts));
    let narrow = narrow.into_iter().map(Structure::Skinny);
    narrow.chain(tiled.into_iter().map(Structure::Tiled)).collect()
}

/// The tiles of a contraction, the best first; none if no tile takes it.
pub(super) fn shapes(parts: &Parts, fast: bool) -> Vec<TileShape> {
    let mut list = Vec::new();
    let Some(first) = parts.products.first() else { return list };
    let dtype = first.dtype.compute();
    let size = dtype.size() as u32;
    if !matches!(size, 4 | 8) || parts.products.iter().any(|p| p.dtype.compute() != dtype) {
        return list;
    }
    let tensor = tensor_shape(parts, fast);
    if let Some(shape) = tensor {
        let parts_of_depth = DEPTH_BYTES / shape.operand().size() as u32;
        let unit = Unit::Tensor(shape);
        let large = tile(parts, unit, parts_of_depth, true);
        let small = tile(parts, unit, parts_of_depth, false);
        list.extend(large.into_iter().chain(small));
    }
    let unit = Unit::Scalar(size);
    // Beside tensor cores this is for devices without them.
    if tensor.is_none() {
        list.extend(tile(parts, unit, DEPTH_BYTES / size, true));
    }
    let Some(last) = tile(parts, unit, DEPTH_BYTES / size, false) else { return Vec::new() };
    list.push(last);
    list
}

/// The tile of 128 rows or of 64, with as many columns as there are registers for; `None` if there are too few.
fn tile(parts: &Parts, unit: Unit, depth: u32, is_large: bool) -> Option<TileShape> {
    let products = parts.products.len() as u32;
    let words = if let Unit::Scalar(size) = unit { size / 4 } else { 1 };
    let (rows, mut columns) = if is_large { (128, 128) } else { (64, 64) };
    let sums = |columns: u32| rows * columns / THREADS * products * words;
    while sums(columns) > SUMS && columns > 64 {
        columns /= 2;
    }
    if sums(columns) > SUMS {
        return None;
    }
    let size = match unit {
        Unit::Scalar(size) => size,
        Unit::Tensor(shape) => shape.operand().size() as u32,
    };
    let of_panel = |p: &Panel| u64::from(if p.is_left { rows } else { columns } * depth * size);
    let stage: u64 = parts.panels.iter().map(of_panel).sum();
    let stages = (RING / stage.max(1)).clamp(2, STAGES) as u32;
    Some(TileShape { rows, columns, depth, stages, is_large, unit })
}

/// The shape of the tensor cores that every product takes: sources of one narrow dtype, sums in 32 bits.
fn tensor_shape(parts: &Parts, fast: bool) -> Option<MmaShape> {
    let mut dtypes = parts.panels.iter().map(|p| p.group.value(narrow_root(p)).dtype);
    let first = dtypes.next()?;
    if !dtypes.all(|d| d == first) {
        return None;
    }
    let shape = match first {
        DType::F16 => MmaShape::M16N8K16F16,
        DType::Bf16 => MmaShape::M16N8K16Bf16,
        DType::I8 => MmaShape::M16N8K32I8,
        DType::U8 => MmaShape::M16N8K32U8,
        DType::F32 if fast => MmaShape::M16N8K8Tf32,
        DType::F32 | DType::F64 | DType::F8E4M3 | DType::F8E5M2 => return None,
        DType::I16 | DType::I32 | DType::I64 | DType::U16 | DType::U32 | DType::U64 | DType::Bool => {
            return None;
        }
    };
    parts.products.iter().all(|p| p.dtype == shape.accumulator()).then_some(shape)
}

/// What tensor cores multiply of a panel: a narrow value before it is widened, of which nothing is lost.
pub(super) fn narrow_root(panel: &Panel) -> ValueId {
    let value = panel.group.value(panel.value);
    let BodyOp::Map { function: MapFn::Op(ScalarOp::Cast(to)), args } = &value.op else { return panel.value };
    let from = panel.group.value(args[0]).dtype;
    let widens = match to {
        DType::F32 => matches!(from, DType::F16 | DType::Bf16),
        DType::I32 => matches!(from, DType::I8 | DType::U8),
        _ => false,
    };
    if widens { args[0] } else { panel.value }
}
