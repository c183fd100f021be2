//! What is made of the products: slabs of sums go through shared memory, and the epilogue walks its runs.
//!
//! A slab has the same few of the rows of every warp, so that which registers it takes is known at compile time. In shared
//! memory a row is padded by eight elements; where a run is two chunks long, first halves of runs lie together and second
//! ones behind them. So neither the lanes of a product nor those of neighbouring runs meet a bank twice.

use super::TilePlace;
use super::multiply::{Owned, ThreadPlace};
use super::shape::{TileShape, Unit};
use super::split::Split;
use crate::dtype::DType;
use crate::id::{ArrayId, ViewId};
use crate::index_map::IndexExpr;
use crate::kernel_ir::build::slots;
use crate::kernel_ir::{Builtin, Condition, Expr, Stmt, Unroll};
use crate::lower::THREADS;
use crate::lower::body::{Emitter, Scope};
use crate::lower::vector::{KeptRun, Run, run_length};
use crate::schedule::contraction::Parts;

/// How the sums of a tile go through shared memory.
struct Slabs {
    views: Vec<ViewId>,
    /// How many there are, and of how many of the rows that a lane has at once each is made.
    count: u32,
    parts: u32,
    /// Rows of a slab.
    rows: u32,
    /// Positions that the epilogue walks at once.
    run: u32,
    /// Elements of a chunk of 16 bytes.
    of_chunk: u32,
    columns: u32,
}

impl Slabs {
    /// Elements from the first half of a run to the second.
    fn apart(&self) -> u32 {
        self.columns / 2 + 4
    }

    /// Whether the halves of a run lie apart.
    fn splits(&self) -> bool {
        self.run == 2 * self.of_chunk
    }

    /// The element of a row and a column of the slab.
    fn at(&self, row: &Expr, column: &Expr) -> Expr {
        let row = row * (self.columns + 8);
        if !self.splits() {
            return row + column;
        }
        let half = (column / self.of_chunk) % 2u32;
        row + (column / self.run) * self.of_chunk + half * self.apart() + column % self.of_chunk
    }
}

impl Emitter<'_> {
    /// Runs the epilogue over the tile; `start` is where shared memory that nobody reads any more begins.
    pub(super) fn finish_tile(
        &mut self,
        parts: &Parts,
        shape: TileShape,
        place: &TilePlace,
        thread: &ThreadPlace,
        sums: &[ArrayId],
        (start, split): (u64, Option<&Split>),
    ) {
        let epilogue = &parts.epilogue;
        let axis = parts.sides.columns.last().copied();
        let run = axis.filter(|a| epilogue.outer.last() == Some(a)).and_then(|a| run_length(epilogue, a));
        let run = run.unwrap_or(1).min(8);
        let slabs = self.share_slabs(parts, shape, run, start);
        let mut scope = place.scope.enter(epilogue);
        self.compute_prologue(epilogue, false, &mut scope);
        self.repeat("slab", slabs.count, Unroll::None, |em, slab| {
            em.builder.block_barrier();
            for number in 0..slabs.count {
                em.builder.open();
                for (view, array) in slabs.views.iter().zip(sums) {
                    match shape.unit {
                        Unit::Tensor(_) => em.spread_matrices(shape, thread, &slabs, number, *view, *array),
                        Unit::Scalar(_) => em.spread_numbers(shape, thread, &slabs, number, *view, *array),
                    }
                }
                let then = em.builder.close();
                if slabs.count == 1 {
                    then.into_iter().for_each(|s| em.builder.push(s));
                } else {
                    let condition = slab.clone().equals(number);
                    em.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
                }
            }
            em.builder.block_barrier();
            em.builder.open();
            em.walk_slab(parts, shape, thread, &slabs, &slab, place, &scope);
            let otherwise = em.builder.close();
            let Some(split) = split else {
                otherwise.into_iter().for_each(|s| em.builder.push(s));
                return;
            };
            em.builder.open();
            em.keep_slab(parts, shape, thread, &slabs, &slab, place, split);
            let then = em.builder.close();
            em.builder.push(Stmt::If { condition: split.fact.clone(), then, otherwise });
        });
    }

    fn share_slabs(&mut self, parts: &Parts, shape: TileShape, run: u32, start: u64) -> Slabs {
        let ring = self.shared.as_const().unwrap_or(start) - start;
        let size = |dtype: DType| dtype.compute().size() as u64;
        let of_row: u64 = parts.products.iter().map(|p| u64::from(shape.columns + 8) * size(p.dtype)).sum();
        let [down, _] = shape.warps();
        let at_once = down * shape.rows_at_once();
        let all = shape.rows / at_once;
        let mut count = 1;
        while count < all && u64::from(shape.rows / count) * of_row > ring {
            count *= 2;
        }
        let rows = shape.rows / count;
        let mut offset = start;
        let mut views = Vec::new();
        for product in &parts.products {
            let dtype = product.dtype.compute();
            let elements = u64::from(rows * (shape.columns + 8));
            views.push(self.builder.view("sums_slab", dtype, offset, elements));
            offset += elements * size(dtype);
        }
        self.shared = self.shared.clone().max(offset.next_multiple_of(16));
        let of_chunk = parts.products.first().map_or(4, |p| 16 / size(p.dtype) as u32);
        Slabs { views, count, parts: all / count, rows, run, of_chunk, columns: shape.columns }
    }

    /// The sums of tensor cores to a slab.
    fn spread_matrices(
        &mut self,
        shape: TileShape,
        thread: &ThreadPlace,
        slabs: &Slabs,
        slab: u32,
        view: ViewId,
        array: ArrayId,
    ) {
        let [down, _] = shape.warps();
        let [_, warp_columns] = shape.of_warp();
        let along = warp_columns / 8;
        let (warp_row, warp_column) = (&thread.warp_row, &thread.warp_column);
        let lane = Expr::from(Builtin::Lane);
        self.repeat("part", slabs.parts, Unroll::Full, |em, part| {
            em.repeat("along", along, Unroll::Full, |em, j| {
                for half in 0..2u32 {
                    let row = &part * (down * 16) + warp_row * 16u32 + &lane / 4u32 + half * 8;
                    let column = warp_column * warp_columns + &j * 8u32 + (&lane & 3u32) * 2u32;
                    let first = ((&part + slab * slabs.parts) * along + &j) * 4u32 + half * 2;
                    em.builder.store_from(view, slabs.at(&row, &column), slots(array, first, 2), None);
                }
            });
        });
    }

    /// The sums of lanes to a slab.
    fn spread_numbers(
        &mut self,
        shape: TileShape,
        thread: &ThreadPlace,
        slabs: &Slabs,
        slab: u32,
        view: ViewId,
        array: ArrayId,
    ) {
        let [down, _] = shape.warps();
        let at_once = shape.rows_at_once();
        let columns = &thread.columns;
        self.repeat("part", slabs.parts, Unroll::Full, |em, part| {
            let row = &part * (down * at_once) + &thread.warp_row * at_once + &thread.rows.lane;
            em.repeat("along", columns.count / columns.run, Unroll::Full, |em, j| {
                let n = &j * columns.run;
                let first = (&part + slab * slabs.parts) * columns.count + &n;
                let at = slabs.at(&row, &columns.position(&n));
                em.builder.store_from(view, at, slots(array, first, columns.run), None);
            });
        });
    }

    /// The row of the tile that is the row `row` of a slab.
    fn row_of_slab(&self, shape: TileShape, rows: &Owned, slabs: &Slabs, slab: &Expr, row: &Expr) -> Expr {
        let [down, _] = shape.warps();
        let [warp_rows, _] = shape.of_warp();
        let at_once = shape.rows_at_once();
        let part = row / (down * at_once) + slab * slabs.parts;
        let warp = (row % (down * at_once)) / at_once;
        let lane = row % at_once;
        let in_warp = match shape.unit {
            Unit::Scalar(_) if rows.run > 1 => {
                (&part / rows.run) * (at_once * rows.run) + lane * rows.run + part % rows.run
            }
            Unit::Scalar(_) | Unit::Tensor(_) => part * at_once + lane,
        };
        warp * warp_rows + in_warp
    }

    /// The sums of a slab as those of this block's piece.
    #[expect(clippy::too_many_arguments, reason = "everything that places a slab")]
    fn keep_slab(
        &mut self,
        parts: &Parts,
        shape: TileShape,
        thread: &ThreadPlace,
        slabs: &Slabs,
        slab: &Expr,
        place: &TilePlace,
        split: &Split,
    ) {
        let turns = slabs.rows * slabs.columns / THREADS;
        self.repeat("turn", turns, Unroll::None, |em, turn| {
            let item = em.item("item", &turn);
            let slab_row = em.builder.bind("slab_row", &item / slabs.columns);
            let tile_column = em.builder.bind("tile_column", item % slabs.columns);
            let tile_row = em.row_of_slab(shape, &thread.rows, slabs, slab, &slab_row);
            let row = &place.first_row + em.widen(tile_row);
            let row = em.builder.bind("row", row);
            let column = &place.first_column + em.widen(tile_column.clone());
            let column = em.builder.bind("column", column);
            let at = em.builder.bind("at", slabs.at(&slab_row, &tile_column));
            let load = |(em, view): (&mut Self, &ViewId)| em.builder.load("sum", *view, &at, None);
            let sums = slabs.views.iter().map(|view| load((&mut *em, view))).collect();
            em.keep_partial(parts, place, split, (&row, &column), sums);
        });
    }

    /// The epilogue over a slab: by runs where they do not cross the end of the last axis, else position by position.
    #[expect(clippy::too_many_arguments, reason = "everything that places a slab")]
    fn walk_slab(
        &mut self,
        parts: &Parts,
        shape: TileShape,
        thread: &ThreadPlace,
        slabs: &Slabs,
        slab: &Expr,
        place: &TilePlace,
        scope: &Scope,
    ) {
        let walk = |em: &mut Self, run: u32| {
            em.builder.open();
            let turns = slabs.rows * slabs.columns / run / THREADS;
            em.repeat("turn", turns, Unroll::None, |em, turn| {
                let item = em.item("item", &turn);
                let of_row = slabs.columns / run;
                let slab_row = em.builder.bind("slab_row", &item / of_row);
                let tile_column = em.builder.bind("tile_column", (item % of_row) * run);
                let tile_row = em.row_of_slab(shape, &thread.rows, slabs, slab, &slab_row);
                let row = &place.first_row + em.widen(tile_row);
                let row = em.builder.bind("row", row);
                let column = &place.first_column + em.widen(tile_column.clone());
                let column = em.builder.bind("column", column);
                let at = slabs.at(&slab_row, &tile_column);
                let at = em.builder.bind("at", at);
                em.finish_positions(parts, slabs, place, scope, (row, column), at, run);
            });
            em.builder.close()
        };
        let fact = match (slabs.run, parts.sides.columns.last()) {
            (2.., Some(axis)) => {
                let extent = self.extent_arg(&IndexExpr::Extent(*axis), self.index);
                let whole = Condition::Multiple { size: extent.into(), of: slabs.run.into() };
                Some(self.fact_for("FINISHED_IN_RUNS", vec![whole]))
            }
            (_, _) => None,
        };
        let stmts = match fact {
            Some(None) => walk(self, slabs.run),
            Some(Some(fact)) => {
                let (then, otherwise) = (walk(self, slabs.run), walk(self, 1));
                vec![Stmt::If { condition: fact, then, otherwise }]
            }
            None => walk(self, 1),
        };
        stmts.into_iter().for_each(|s| self.builder.push(s));
    }

    /// What is known at a row and a column, of which none of the products is.
    pub(super) fn epilogue_scope(
        &mut self,
        parts: &Parts,
        place: &TilePlace,
        scope: &Scope,
        (row, column): (Expr, Expr),
    ) -> Scope {
        let mut scope = scope.clone();
        let inside = row.clone().lt(&place.rows) & column.clone().lt(&place.columns);
        scope.active = Some(self.builder.bind("inside", inside));
        self.decompose(row.clone(), &parts.sides.rows, &mut scope);
        self.decompose(column.clone(), &parts.sides.columns, &mut scope);
        let far = |e: &Expr| e.clone().cast(DType::U64);
        let line = far(&place.batch) * far(&place.rows) + far(&row);
        let outer = line * far(&place.columns) + far(&column);
        scope.place = Some(outer * far(&place.depth));
        scope
    }

    /// The epilogue of the positions from `row` and `column` on, whose sums lie at `at`.
    #[expect(clippy::too_many_arguments, reason = "everything that places a run")]
    fn finish_positions(
        &mut self,
        parts: &Parts,
        slabs: &Slabs,
        place: &TilePlace,
        scope: &Scope,
        (row, column): (Expr, Expr),
        at: Expr,
        run: u32,
    ) {
        let epilogue = &parts.epilogue;
        let mut scope = self.epilogue_scope(parts, place, scope, (row, column));
        let pass = epilogue.passes.first().cloned().unwrap_or_default();
        match (run, parts.sides.columns.last()) {
            (2.., Some(axis)) => {
                let first = self.widen(at);
                let apart = slabs.splits().then(|| self.number(slabs.apart().into()));
                let kept: Vec<KeptRun> = parts
                    .products
                    .iter()
                    .zip(&slabs.views)
                    .map(|(p, view)| KeptRun {
                        value: p.value,
                        memory: (*view).into(),
                        first: first.clone(),
                        apart: apart.clone(),
                    })
                    .collect();
                let spec = Run {
                    axis: *axis,
                    len: run,
                    values: &pass.values,
                    stores: &pass.stores,
                    kept: &kept,
                    keep: &[],
                };
                self.emit_run(epilogue, &spec, &scope, &mut |_, _, _| ());
            }
            (_, _) => {
                for (product, view) in parts.products.iter().zip(&slabs.views) {
                    let sum = self.builder.load("sum", *view, &at, None);
                    scope.values[product.value.index()] = Some(sum);
                }
                self.emit_position(epilogue, &pass, &mut scope);
            }
        }
    }
}
