//! Pointwise groups that read some operands across the grain: through tiles of shared memory.
//!
//! A block owns 32 × 32 positions along the last axis and the axis along which those operands are contiguous. First
//! each operand's part of the tile is loaded with lanes along *its* contiguous axis; then values are computed with lanes
//! along the last axis. Rows of a tile are padded to 33 elements, so that both ways meet every bank once.

use super::body::{Emitter, Scope};
use super::vector::{Motion, motion_of_operand};
use crate::dtype::DType;
use crate::id::{AxisId, ValueId, ViewId};
use crate::index_map::IndexExpr;
use crate::kernel_ir::{Builtin, Condition, Expr, Size, Stmt};
use crate::schedule::{BodyOp, Operand, ScheduledGroup};

/// Positions of a tile along each axis.
const SIDE: u32 = 32;
/// Elements of a padded row.
const PITCH: u32 = SIDE + 1;
/// Rows that the warps of a block take at once.
const WARPS: u32 = super::THREADS / 32;
/// Along shorter axes a tile would be mostly empty.
pub(super) const LEAST: u64 = 16;

/// The axis along which loads are contiguous while stores are along the last, and these loads.
pub(super) fn find_crossing(group: &ScheduledGroup) -> Option<(AxisId, Vec<ValueId>)> {
    let last = *group.outer.last()?;
    let crossing = |id: ValueId| {
        let BodyOp::Load(operand) = &group.value(id).op else { return None };
        let operand = &group.operands[operand.index()];
        let Operand::Buffer { map, .. } = operand else { return None };
        let uses_last = map.indices.iter().any(|(_, e)| e.uses_index(last));
        match map.indices.last() {
            Some((_, IndexExpr::Index(axis)))
                if *axis != last
                    && uses_last
                    && operand.reads().is_empty()
                    && motion_of_operand(operand, last) != Motion::Same =>
            {
                Some(*axis)
            }
            _ => None,
        }
    };
    let values = (0..group.values.len()).map(ValueId::from_index);
    let axis = values.clone().find_map(crossing)?;
    Some((axis, values.filter(|v| crossing(*v) == Some(axis)).collect()))
}

impl Emitter<'_> {
    /// A pointwise group in tiles; gives its number of blocks.
    pub(super) fn lower_tiled(&mut self, group: &ScheduledGroup, block: Expr) -> Size {
        let (Some(&last), Some((across, loads))) = (group.outer.last(), find_crossing(group)) else {
            self.refuse("no operand is read across the grain");
            return 0.into();
        };
        let others: Vec<AxisId> =
            group.outer.iter().copied().filter(|a| *a != last && *a != across).collect();
        let sides = [across, last].map(|axis| self.extent_arg(&IndexExpr::Extent(axis), self.index));
        self.require_crossing(group, &loads, sides.map(Size::Param));
        let [rows, columns] = sides.map(Expr::Param);
        let side = self.number(SIDE.into());
        let tiles = |em: &Self, n: &Expr| {
            let over = (n % &side).equals(em.number(0)).select(em.number(0), em.number(1));
            n / &side + over
        };
        let (down, along) = (tiles(self, &rows), tiles(self, &columns));
        let along = self.builder.bind("tiles_along", along);
        let number = self.widen(block);
        let left = self.builder.bind("left", (&number % &along) * &side);
        let rest = self.builder.bind("rest", number / along);
        let mut scope = Scope::new(group);
        self.compute_prologue(group, false, &mut scope);
        let down = self.builder.bind("tiles_down", down);
        let top = self.builder.bind("top", (&rest % &down) * &side);
        let outside = self.builder.bind("outside", rest / down);
        self.decompose(outside.clone(), &others, &mut scope);

        let views: Vec<(ValueId, ViewId)> = loads
            .iter()
            .map(|id| {
                let (name, dtype) = (self.name_value(group, *id), group.value(*id).dtype);
                let view = self.share(&format!("{name}_tile"), dtype, u64::from(SIDE * PITCH).into());
                (*id, view)
            })
            .collect();
        let pass = group.passes.first().cloned().unwrap_or_default();
        let lane = Expr::from(Builtin::Lane);
        for loading in [true, false] {
            let local = self.builder.local("part", DType::U32, crate::kernel_ir::LocalKind::Loop);
            self.builder.open();
            let y = Expr::from(Builtin::Warp) + Expr::Local(local) * WARPS;
            let y = self.builder.bind("y", y);
            // The lane goes along the operands' axis while loading, along the last after.
            let (r, c) = if loading { (&lane, &y) } else { (&y, &lane) };
            let row = self.builder.bind("row", &top + self.widen(r.clone()));
            let column = self.builder.bind("column", &left + self.widen(c.clone()));
            let mut scope = scope.clone();
            scope.positions.insert(across, row.clone());
            scope.positions.insert(last, column.clone());
            let line = &outside * &rows + &row;
            scope.place = Some((line * &columns + &column).cast(DType::U64));
            self.builder.open();
            if loading {
                for (id, view) in &views {
                    let value = self.compute(group, *id, &scope);
                    self.builder.store(*view, &y * PITCH + &lane, value, None);
                }
            } else {
                for (id, view) in &views {
                    let name = self.name_value(group, *id);
                    let value = self.builder.load(&name, *view, &lane * PITCH + &y, None);
                    scope.values[id.index()] = Some(value);
                }
                self.emit_position(group, &pass, &mut scope);
            }
            let then = self.builder.close();
            let condition = row.lt(&rows) & column.lt(&columns);
            self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
            let body = self.builder.close();
            self.builder.push(Stmt::For {
                local,
                start: 0u32.into(),
                end: (SIDE / WARPS).into(),
                step: 1u32.into(),
                unroll: crate::kernel_ir::Unroll::Full,
                body,
            });
            if loading {
                self.builder.block_barrier();
            }
        }
        let (outer, _) = self.count(&others);
        let [rows, columns] = sides.map(|n| Size::Param(n).ceil_div(u64::from(SIDE)));
        outer * rows * columns
    }

    fn require_crossing(&mut self, group: &ScheduledGroup, loads: &[ValueId], sides: [Size; 2]) {
        let mut requires = sides.map(|n| Condition::AtMost(LEAST.into(), n)).to_vec();
        for id in loads {
            let BodyOp::Load(operand) = &group.value(*id).op else { continue };
            let Operand::Buffer { buffer, map, .. } = &group.operands[operand.index()] else { continue };
            let Some((axis, _)) = map.indices.last() else { continue };
            let stride = self.stride(*buffer, map.indices.len() as u32 - 1, *axis);
            requires.push(Condition::Equal(stride.into(), 1.into()));
        }
        self.builder.kernel_mut().requires.extend(requires);
    }
}
