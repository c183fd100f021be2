//! Contractions: tiles of both sources in shared memory, products in registers, what is made of them on the way out.
//!
//! ```text
//! block      a tile of rows × columns of one batch, of every product of the group
//! stage      the next tiles of the sources, rows × depth and columns × depth, in a ring of stages: by `cp.async`, or
//!            computed by the panel's program and stored; what lies outside is zero
//! multiply   tensor cores by `ldmatrix` and `mma`, or one multiply-add after the other
//! finish     a slab of sums goes through shared memory, so that the epilogue walks runs along the last axis
//! ```
//!
//! A step of the loop over the reduced positions waits for its stage, passes one barrier, starts the copies of a later
//! stage and multiplies. The order in which products are added follows from the tile alone: from the first reduced
//! position to the last. Where the result has few tiles, [`split`] shares the reduced positions of one among blocks, and
//! where one side is narrow, [`skinny`] reads the other without tiles.

mod shape;

mod panel;

mod multiply;

mod finish;

mod split;

mod skinny;

pub(super) use shape::{TileShape, structures};
pub(super) use skinny::SkinnyShape;
pub(super) use split::may_split;

use shape::shapes;

use super::body::{Emitter, Scope};
use crate::dtype::DType;
use crate::id::ArrayId;
use crate::kernel_ir::build::thread_x;
use crate::kernel_ir::{Condition, Expr, LocalKind, Size, Stmt, Unroll};
use crate::schedule::ScheduledGroup;
use crate::schedule::contraction::{Parts, cut_contraction};

/// Tiles of rows that neighbouring blocks share before they go on to other columns: what they read stays in the cache.
const BAND: u32 = 8;

/// Where the tile of a block lies.
struct TilePlace {
    /// Rows, columns and reduced positions in all.
    rows: Expr,
    columns: Expr,
    depth: Expr,
    /// The first row and column of the tile.
    first_row: Expr,
    first_column: Expr,
    /// The linear position on the batch axes, and what is known there.
    batch: Expr,
    scope: Scope,
}

impl Emitter<'_> {
    /// A contraction in tiles; gives its number of blocks.
    pub(super) fn lower_contraction(
        &mut self,
        group: &ScheduledGroup,
        shape: TileShape,
        block: Expr,
        shares_launch: bool,
    ) -> Size {
        let Some(parts) = cut_contraction(group) else {
            self.refuse("it is no contraction of rows and columns");
            return 0.into();
        };
        let (rows, row_expr) = self.count(&parts.sides.rows);
        let (columns, column_expr) = self.count(&parts.sides.columns);
        let (batches, _) = self.count(&parts.sides.batch);
        let (_, depth_expr) = self.count(&group.reduced);
        let down = rows.clone().ceil_div(u64::from(shape.rows));
        let along = columns.clone().ceil_div(u64::from(shape.columns));
        let mut blocks = batches * down.clone() * along.clone();
        self.require_shape(shape, &rows, &columns, &blocks);
        // A launch with large tiles is never split: its blocks fill the device.
        let splits = !shares_launch && !shape.is_large && may_split(self.program, group);
        let (split, block) = match splits {
            true => {
                let (split, block) = self.plan_split(&parts, group, block, &blocks);
                blocks = self.blocks_of_pieces(&split, blocks);
                (Some(split), block)
            }
            false => (None, block),
        };
        let place =
            self.place_tile(&parts, shape, block, (&down, &along), [row_expr, column_expr, depth_expr]);
        let range = split.as_ref().map(|split| self.piece_range(split, &place.depth));

        let start = self.shared.as_const().unwrap_or(0);
        let staged = self.share_panels(&parts, group, shape);
        let stages = shape.stages;
        let accumulators: Vec<ArrayId> = parts
            .products
            .iter()
            .map(|p| {
                let zero = crate::dtype::Value::zero(p.dtype.compute());
                self.builder.array("sums", p.dtype.compute(), shape.accumulators(), Some(zero))
            })
            .collect();
        let mut scopes: Vec<Scope> = Vec::new();
        for panel in &parts.panels {
            let mut scope = place.scope.enter(&panel.group);
            self.compute_prologue(&panel.group, false, &mut scope);
            scopes.push(scope);
        }

        let thread = self.place_thread(&parts, &staged, shape);
        // Stage `step` is filled while stage `step - (stages - 1)` is multiplied.
        let depth = self.number(shape.depth.into());
        let whole = range.clone().map_or(place.depth.clone(), |(start, end)| end - start);
        let tiles = (whole + self.number(u64::from(shape.depth) - 1)) / &depth;
        let tiles = self.builder.bind("tiles", tiles);
        let lead = self.number(u64::from(stages - 1));
        let end = self.builder.bind("steps", &tiles + &lead);
        let local = self.builder.local("step", self.index, LocalKind::Loop);
        let step = Expr::Local(local);
        self.builder.open();
        let full = self.builder.bind("full", step.clone().ge(&lead));
        self.builder.if_then(full.clone(), |b| {
            b.wait_async(stages - 2);
            b.block_barrier();
        });
        self.builder.open();
        let slot = self.stage_slot(&step, stages);
        let first = &step * &depth;
        let first = range.map_or(first.clone(), |(start, _)| start + first);
        let first = self.builder.bind("first", first);
        for (panel, scope) in staged.iter().zip(&scopes) {
            self.stage_panel(&parts, group, panel, &place, (&slot, &first), scope);
        }
        let then = self.builder.close();
        let condition = step.clone().lt(&tiles);
        self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
        self.builder.commit_async();
        self.builder.open();
        let slot = self.stage_slot(&(&step - &lead), stages);
        self.multiply(&parts, &staged, shape, &slot, &accumulators, &thread);
        let then = self.builder.close();
        self.builder.push(Stmt::If { condition: full, then, otherwise: Vec::new() });
        let body = self.builder.close();
        let (start_step, one) = (self.number(0), self.number(1));
        self.builder.push(Stmt::For { local, start: start_step, end, step: one, unroll: Unroll::None, body });
        self.builder.wait_async(0);

        self.finish_tile(&parts, shape, &place, &thread, &accumulators, (start, split.as_ref()));
        let fits = super::fits_shared(self.shared.clone(), self.options);
        self.builder.kernel_mut().requires.push(fits);
        blocks
    }

    /// Which stage of the ring a step has, as a u32.
    fn stage_slot(&mut self, step: &Expr, stages: u32) -> Expr {
        let slot = step % self.number(stages.into());
        let slot = if self.index == DType::U32 { slot } else { slot.cast(DType::U32) };
        self.builder.bind("stage", slot)
    }

    /// The tile of a block: bands of rows, in a band column after column.
    fn place_tile(
        &mut self,
        parts: &Parts,
        shape: TileShape,
        block: Expr,
        (down, along): (&Size, &Size),
        [rows, columns, depth]: [Expr; 3],
    ) -> TilePlace {
        let (down, along) = (self.size_expr(down), self.size_expr(along));
        let down = self.builder.bind("tiles_down", down);
        let along = self.builder.bind("tiles_along", along);
        let (batch, tile) = if parts.sides.batch.is_empty() {
            (Expr::from(0u32), block)
        } else {
            let plane = self.builder.bind("plane", &down * &along);
            let batch = self.builder.bind("batch", &block / &plane);
            (batch, self.builder.bind("tile", block % plane))
        };
        let width = self.builder.bind("band_width", &along * BAND);
        let above = self.builder.bind("above", (&tile / &width) * BAND);
        let high = self.builder.bind("band_height", (&down - &above).min(BAND));
        let inside = self.builder.bind("inside", tile % width);
        let row = self.widen(above + &inside % &high) * self.number(shape.rows.into());
        let column = self.widen(inside / high) * self.number(shape.columns.into());
        let first_row = self.builder.bind("first_row", row);
        let first_column = self.builder.bind("first_column", column);
        let batch = self.widen(batch);
        let mut scope = Scope::default();
        self.decompose(batch.clone(), &parts.sides.batch, &mut scope);
        TilePlace { rows, columns, depth, first_row, first_column, batch, scope }
    }

    /// What must hold for a tile of that shape to be the one to take.
    fn require_shape(&mut self, shape: TileShape, rows: &Size, columns: &Size, blocks: &Size) {
        let mut requires = Vec::new();
        if shape.is_tensor() {
            let architecture = self.device_number(crate::kernel_ir::DeviceNumber::Architecture);
            requires.push(Condition::AtMost(80.into(), architecture.into()));
        }
        if shape.is_large {
            // Not where half of a tile would be outside, nor where more than a quarter of the device would have no block.
            requires.push(Condition::AtMost(u64::from(shape.rows / 2 + 1).into(), rows.clone()));
            requires.push(Condition::AtMost(u64::from(shape.columns / 2 + 1).into(), columns.clone()));
            let units = self.device_number(crate::kernel_ir::DeviceNumber::Multiprocessors);
            requires.push(Condition::AtMost(Size::from(units) * 3u64, blocks.clone() * 4u64));
        }
        self.builder.kernel_mut().requires.extend(requires);
    }

    /// The number of an item that this thread has in turn `turn` of a walk of the block's threads over items.
    fn item(&mut self, name: &str, turn: &Expr) -> Expr {
        self.builder.bind(name, thread_x() + turn * super::THREADS)
    }
}
