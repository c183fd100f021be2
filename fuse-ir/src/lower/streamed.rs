//! Streamed groups: products of weights that are made, normalised and used up tile by tile, in one kernel.
//!
//! A block owns a tile of rows and a tile of columns at one position of the batch, and goes through the streamed positions
//! ("keys") in tiles, after FlashAttention-2 (Dao, 2023): scores stay in registers, the greatest exponent of each row and
//! the sums go along, and what was added up before is scaled when the greatest grows. What a tile computes is that of
//! [`StreamParts`], the user's own code; how rows and keys lie in registers is that of a [`Spread`].
//!
//! ```text
//! for each tile of keys
//!   values ─▶ shared memory                       of a tile that masks exclude no more than whether values are finite
//!   scores = left · right, by parts of the depth  both sides through shared memory
//!   scores ─▶ the user's program ─▶ greatest ─▶ exp(x - c) ─▶ weights ─▶ sums, and through shared memory
//!   products += weights · values
//! rows: greatest, sums ─▶ factors and what is stored of rows; products ─▶ epilogue
//! ```
//!
//! Where that would be few blocks and there are many keys, each range of keys has a block of its own, and a second kernel puts
//! together what these leave: see [`ranges`].
//!
//! Weights are normalised when all of a row is known. Where the products of weights that were not would overflow, or lose
//! what the factor of the row would bring back, the tiles are gone through once more with the factor applied to the weights.

mod levels;
mod masks;
mod matrix;
mod pairs;
mod panels;
mod ranges;
mod softmax;
mod spread;

use super::Structure;
use super::body::{Emitter, Scope};
use crate::dtype::{DType, Value};
use crate::id::{ArrayId, AxisId, LocalId, ValueId, ViewId};
use crate::kernel_ir::build::{Builder, element, slots, thread_x};
use crate::kernel_ir::{AtomicOp, Expr, LocalKind, Size, Stmt, Unroll};
use crate::program::Program;
use crate::scalar::ScalarOp;
use crate::schedule::streamed::{StreamParts, cut_streamed};
use crate::schedule::{Operand, ScheduleKind, ScheduledGroup};
use levels::Levels;
use matrix::Matrices;
use panels::Panels;
use ranges::Split;
pub(super) use ranges::splits;
pub(crate) use spread::Spread;

/// Products of weights that are to be multiplied by more than this are made again.
const GREATEST_FACTOR: f32 = (1u64 << 32) as f32;

/// Elements between the lines of a tile of products, so that pairs of eight rows meet every bank once.
const LINE_PAD: u32 = 8;

/// Whether a group is streamed by one kernel; else its links are launched one after the other, and what lies between them
/// is in memory. A block writes its tile of the results while others still read: what is written may be read only where
/// products are finished, by the thread that writes it.
pub fn is_streamed(program: &Program, group: &ScheduledGroup) -> bool {
    let in_place = &program.plan.in_place;
    let takes_over = in_place.iter().any(|(id, written, read)| *id == group.id && written != read);
    group.kind == ScheduleKind::Streamed
        && !takes_over
        && group.stores.iter().all(|store| {
            let of_products = group.outer.iter().all(|a| store.indices.iter().any(|(_, e)| e.uses_index(*a)));
            group.operands.iter().all(|operand| match operand {
                Operand::Buffer { buffer, map, .. } if *buffer == store.buffer => {
                    of_products && map.indices == store.indices && map.bounds.is_empty()
                }
                Operand::Buffer { .. } | Operand::Index(_) | Operand::Mask(_) | Operand::Check { .. } => true,
            })
        })
}

/// Columns of a block and reduced positions of scores for which there are kernels on tensor cores.
const WIDTHS: [u32; 2] = [64, 128];

/// The structures of a streamed group, the best first.
pub(super) fn structures(group: &ScheduledGroup) -> Vec<Structure> {
    let possible =
        cut_streamed(group).is_ok_and(|parts| matrix::is_possible(&parts, &group.links[0].reduced));
    let matrices = WIDTHS.into_iter().filter(|_| possible).map(|width| Spread::Matrix { width });
    let scalar = [true, false].map(|keeps_rows| Spread::Scalar { keeps_rows });
    let keeps = cut_streamed(group).is_ok_and(|parts| !parts.scores.products.is_empty());
    let scalar = scalar.into_iter().filter(|s| keeps || *s == Spread::PLAIN);
    matrices.chain(scalar).map(Structure::Streamed).collect()
}

/// Positions on some axes as one number.
struct Side<'a> {
    axes: &'a [AxisId],
    /// The first of the tile.
    first: Expr,
    /// How many there are in all.
    count: Expr,
}

/// What the parts of the kernel share.
struct Stream<'a> {
    parts: &'a StreamParts,
    spread: Spread,
    /// What is known in the whole block: positions of the batch, and of each group what is the same there.
    block: OfBlock<'a>,
    rows: Side<'a>,
    columns: Side<'a>,
    /// How many streamed positions there are, and reduced positions of scores.
    keys: Expr,
    depth: Expr,
    /// The first of the streamed positions that this block goes through, and where they end.
    range: [Expr; 2],
    /// Where ranges may have blocks of their own.
    split: Option<Split>,
    /// Whether tiles that masks exclude are passed over.
    skips: bool,
    /// The position on the batch axes.
    batch: Expr,
    state: State,
}

impl<'a> Stream<'a> {
    /// The streamed positions from the one on with which a tile begins.
    fn keys_from(&self, first: &Expr) -> Side<'a> {
        Side { axes: &self.parts.streamed, first: first.clone(), count: self.keys.clone() }
    }
}

/// Notes of values of an excluded tile whether they are finite: 0 times others is NaN.
fn note_values(b: &mut Builder, excluded: ArrayId, values: ArrayId, count: u32) {
    b.unrolled("j", count, |b, j| {
        let zero = element(values, &j) * 0.0f32;
        b.set_element(excluded, &j, element(excluded, &j) + zero);
    });
}

/// The tiles of shared memory.
enum Tiles<'a> {
    Panels(Panels<'a>),
    Matrices(Matrices<'a>),
}

/// The scopes of the groups for the block.
struct OfBlock<'a> {
    scores: Levels<'a>,
    weights: Option<Levels<'a>>,
}

/// What a thread keeps of its rows.
struct State {
    /// The products.
    products: ArrayId,
    /// The greatest exponents so far.
    greatest: ArrayId,
    /// By what weights are multiplied: 1, and where tiles are gone through again the factor of the row.
    scale: Option<ArrayId>,
    /// The greatest values of other tiles, and the sums, of the keys of this thread.
    maxima: Vec<ArrayId>,
    sums: Vec<ArrayId>,
    /// Whether the tiles are gone through again, and in which round that is.
    again: Option<(LocalId, Expr)>,
    /// What the values of excluded tiles would add to columns: 0, or NaN.
    excluded: Option<ArrayId>,
}

impl Emitter<'_> {
    /// A streamed group; gives its number of blocks. `folds` says that this is the kernel that puts ranges together.
    pub(super) fn lower_streamed(
        &mut self,
        group: &ScheduledGroup,
        spread: Spread,
        folds: bool,
        block: Expr,
    ) -> Size {
        let parts = match cut_streamed(group) {
            Ok(parts) => parts,
            Err(why) => {
                self.refuse(format!("a value {}", why.because));
                return 0.into();
            }
        };
        let geometry = &mut self.builder.kernel_mut().geometry;
        (geometry.block, geometry.resident_blocks) = ([spread.threads(), 1, 1], spread.resident_blocks());
        let (batch_size, batches) = self.count(&parts.batch);
        let (rows_size, rows) = self.count(&parts.rows);
        let (columns_size, columns) = self.count(&parts.columns);
        let (keys_size, keys) = self.count(&parts.streamed);
        let (depth_size, depth) = self.count(&group.links[0].reduced);
        let row_tiles = self.tiles_of(&rows, spread.rows());
        let row_tiles = self.builder.bind("row_tiles", row_tiles);
        let column_tiles = self.tiles_of(&columns, spread.columns());
        // Without columns there may be results of rows.
        let column_tiles = self.builder.bind("column_tiles", column_tiles.max(self.number(1)));
        let mut number = self.widen(block);
        let mut range = [self.number(0), keys.clone()];
        let mut split = None;
        if splits(self.program, group) {
            let whole = (folds, &row_tiles * &column_tiles * &batches);
            let found = self.start_split(group, &parts, whole, (&keys, &batches * &rows), &mut number);
            range.clone_from(&found.keys);
            split = Some(found);
        }
        let first_row = (&number % &row_tiles) * self.number(spread.rows().into());
        let first_row = self.builder.bind("first_row", first_row);
        let rest = self.builder.bind("rest", number / row_tiles);
        let first_column = (&rest % &column_tiles) * self.number(spread.columns().into());
        let first_column = self.builder.bind("first_column", first_column);
        let batch = self.builder.bind("batch", rest / column_tiles);
        let rows = Side { axes: &parts.rows, first: first_row, count: rows };
        let columns = Side { axes: &parts.columns, first: first_column, count: columns };

        let mut place = Scope::default();
        self.decompose(batch.clone(), &parts.batch, &mut place);
        let has_keys = keys.clone().equals(self.number(0)).unary(ScalarOp::Not);
        place.active = Some(self.builder.bind("has_keys", has_keys));
        let on = [parts.rows.as_slice(), parts.streamed.as_slice()];
        let scores = self.level(&parts.scores.epilogue, on, &place);
        let weights = parts.weights.as_ref().map(|w| self.level(&w.group, on, &place));
        let skips = !folds && self.exclusion(&parts).is_some() && parts.admitted.is_some();
        let state = self.start_state(&parts, &spread, skips);
        let mut stream = Stream {
            block: OfBlock { scores, weights },
            parts: &parts,
            spread,
            rows,
            columns,
            keys,
            depth,
            range,
            split,
            skips,
            batch,
            state,
        };
        self.level_rows(&mut stream);
        let tiles = match spread {
            Spread::Scalar { .. } => Some(Tiles::Panels(self.plan_panels(&stream, &depth_size, &place))),
            Spread::Matrix { width } => {
                self.plan_matrices(&stream, width, &group.links[0].reduced, &place).map(Tiles::Matrices)
            }
        };
        let Some(tiles) = tiles else {
            self.refuse("its sources are not those of tensor cores");
            return 0.into();
        };
        let flag = stream.state.again.is_some().then(|| self.share("again", DType::U32, 4.into()));
        if let Some(flag) = flag {
            self.builder.store(flag, 0u32, 0u32, Some(thread_x().equals(0u32)));
        }
        let of_rows = self.declare_of_rows(&stream);
        match stream.state.again {
            Some((again, _)) => {
                let local = self.builder.local("round", DType::U32, LocalKind::Loop);
                self.builder.open();
                let round = Expr::Local(local);
                stream.state.again = Some((again, round.clone()));
                let condition = round.equals(0u32) | Expr::from(again);
                self.builder.open();
                self.go_through(&mut stream, &tiles, &place, &of_rows, flag);
                let then = self.builder.close();
                let (stmt, otherwise) = (condition, Vec::new());
                self.builder.push(Stmt::If { condition: stmt, then, otherwise });
                let body = self.builder.close();
                self.builder.push(Stmt::For {
                    local,
                    start: 0u32.into(),
                    end: 2u32.into(),
                    step: 1u32.into(),
                    unroll: Unroll::None,
                    body,
                });
            }
            None => self.go_through(&mut stream, &tiles, &place, &of_rows, flag),
        }
        self.unless_split(&stream, |em| em.finish_products(&stream, &place, &of_rows));
        if !folds {
            self.leave_range(&stream);
        }
        if matches!(tiles, Tiles::Matrices(_)) || spread == (Spread::Scalar { keeps_rows: true }) {
            let fits = super::fits_shared(self.shared.clone(), self.options);
            self.builder.kernel_mut().requires.push(fits);
        }
        let tiles = |n: &Size, tile: u32| n.clone().ceil_div(u64::from(tile));
        let column_tiles = tiles(&columns_size, stream.spread.columns()).max(1);
        let whole = batch_size.clone() * column_tiles * tiles(&rows_size, stream.spread.rows());
        match &stream.split {
            Some(_) => self.blocks_of_split(whole, [batch_size, rows_size, columns_size, keys_size], folds),
            None => whole,
        }
    }

    /// How many tiles of that many positions cover `count`.
    fn tiles_of(&self, count: &Expr, tile: u32) -> Expr {
        (count + self.number(u64::from(tile) - 1)) / self.number(tile.into())
    }

    /// Whether a position of the tile is one of the side.
    fn inside(&self, side: &Side<'_>, at: &Expr) -> Expr {
        at.clone().lt(&side.count)
    }

    fn start_state(&mut self, parts: &StreamParts, spread: &Spread, excludes: bool) -> State {
        let [rows, _, columns] = spread.own();
        let lowest = Some(Value::F32(f32::NEG_INFINITY));
        let zero = Some(Value::F32(0.0));
        let b = &mut self.builder;
        let products = b.array("products", DType::F32, rows * columns, zero);
        let greatest = b.array("greatest", DType::F32, rows, lowest);
        let maxima = parts.maxima.iter().map(|_| b.array("row_max", DType::F32, rows, lowest)).collect();
        let sums = parts.sums.iter().map(|_| b.array("row_sum", DType::F32, rows, zero)).collect();
        let excluded = excludes.then(|| b.array("excluded", DType::F32, spread.noted(), zero));
        let scale = parts.factor.map(|_| b.array("scale", DType::F32, rows, Some(Value::F32(1.0))));
        let again = parts.factor.map(|_| (b.register("again", false), Expr::from(0u32)));
        State { products, greatest, scale, maxima, sums, again, excluded }
    }

    /// All tiles of keys, and then the rows.
    fn go_through(
        &mut self,
        stream: &mut Stream<'_>,
        tiles: &Tiles<'_>,
        place: &Scope,
        of_rows: &[(ValueId, ArrayId)],
        flag: Option<ViewId>,
    ) {
        let spread = stream.spread;
        let [rows, _, columns] = spread.own();
        let products = stream.state.products;
        if stream.state.again.is_some() {
            self.builder.unrolled("slot", rows * columns, |b, slot| b.set_element(products, slot, 0.0f32));
        }
        let first = stream.state.again.as_ref().map(|(_, round)| round.clone().equals(0u32));
        let folds = stream.split.as_ref().is_some_and(|s| s.folds);
        self.builder.open();
        if folds {
            self.fold_ranges(stream);
        } else {
            self.go_through_tiles(stream, tiles);
        }
        // Only the first time through there is something to fold, and statistics are added up.
        let then = self.builder.close();
        match &first {
            Some(first) if folds => {
                self.builder.open();
                self.go_through_tiles(stream, tiles);
                let otherwise = self.builder.close();
                self.builder.push(Stmt::If { condition: first.clone(), then, otherwise });
            }
            _ => then.into_iter().for_each(|s| self.builder.push(s)),
        }
        self.builder.open();
        if !folds {
            self.add_excluded_tiles(stream, tiles);
            self.share_statistics(stream);
        }
        self.unless_split(stream, |em| {
            em.finish_rows(stream, place, of_rows);
            if let Some((again, _)) = stream.state.again {
                em.find_lost(stream, of_rows, again, flag);
            }
        });
        let then = self.builder.close();
        match first {
            Some(condition) => self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() }),
            None => then.into_iter().for_each(|s| self.builder.push(s)),
        }
    }

    fn go_through_tiles(&mut self, stream: &mut Stream<'_>, tiles: &Tiles<'_>) {
        match tiles {
            Tiles::Panels(panels) => self.go_through_panels(stream, panels),
            Tiles::Matrices(matrices) => self.go_through_matrices(stream, matrices),
        }
    }

    fn add_excluded_tiles(&mut self, stream: &Stream<'_>, tiles: &Tiles<'_>) {
        match tiles {
            Tiles::Panels(panels) => self.add_excluded(stream, panels),
            Tiles::Matrices(matrices) => self.add_excluded_lines(stream, matrices),
        }
    }

    /// The arrays for what rows give to the epilogue.
    fn declare_of_rows(&mut self, stream: &Stream<'_>) -> Vec<(ValueId, ArrayId)> {
        let parts = stream.parts;
        let mut list: Vec<(ValueId, ArrayId)> = Vec::new();
        for (_, v) in parts.factor.iter().chain(&parts.broadcast) {
            if !list.iter().any(|(u, _)| u == v) {
                let dtype = parts.of_rows.value(*v).dtype.compute();
                let array =
                    self.builder.array("of_row", dtype, stream.spread.own()[0], Some(Value::zero(dtype)));
                list.push((*v, array));
            }
        }
        list
    }

    /// The positions of a row of this thread, and whether there is one.
    fn row_scope(&mut self, stream: &Stream<'_>, i: &Expr, scope: &mut Scope) -> Expr {
        self.place_row(stream, stream.spread.row(i), scope)
    }

    /// The position of a row of the tile, and whether there is one.
    fn place_row(&mut self, stream: &Stream<'_>, row: Expr, scope: &mut Scope) -> Expr {
        let own = self.widen(row);
        let row = self.builder.bind("row", &stream.rows.first + own);
        self.decompose(row.clone(), stream.rows.axes, scope);
        let inside = self.inside(&stream.rows, &row);
        scope.place = Some((&stream.batch * &stream.rows.count + row).cast(DType::U64));
        self.builder.bind("is_row", inside)
    }

    /// What is made of the statistics of rows, and stored.
    fn finish_rows(&mut self, stream: &Stream<'_>, place: &Scope, of_rows: &[(ValueId, ArrayId)]) {
        let parts = stream.parts;
        let group = &parts.of_rows;
        let rows = stream.spread.own()[0];
        let mut base = place.enter(group);
        base.active = None;
        self.compute_prologue(group, false, &mut base);
        self.repeat("i", rows, Unroll::Full, |em, i| {
            let mut scope = base;
            let inside = em.row_scope(stream, &i, &mut scope);
            scope.active = Some(inside.clone());
            let greatest = element(stream.state.greatest, &i);
            let mut give = |v: ValueId, e: Expr| scope.values[v.index()] = Some(e);
            if let Some(v) = parts.reference {
                give(v, softmax::reference(&greatest));
            }
            for (m, array) in parts.maxima.iter().zip(&stream.state.maxima) {
                let of_exponent = Some(m.tile) == parts.exponent;
                give(m.given, if of_exponent { greatest.clone() } else { element(*array, &i) });
            }
            for (s, array) in parts.sums.iter().zip(&stream.state.sums) {
                give(s.given, element(*array, &i));
            }
            let pass = group.passes[0].clone();
            em.compute_all(group, &pass.values, &mut scope);
            for (v, array) in of_rows {
                let e = em.value(&scope, *v);
                em.builder.set_element(*array, &i, e);
            }
            let first = stream.columns.first.clone().equals(em.number(0));
            let leads = inside & stream.spread.leads() & first;
            scope.active = Some(em.builder.bind("leads", leads));
            for store in &group.stores {
                em.store(group, store, &scope);
            }
        });
    }

    /// Adds lines of shared memory to the products: an element for each column, the same for all rows.
    fn add_lines(&mut self, stream: &Stream<'_>, view: ViewId, lines: u32, pitch: u32) {
        let (spread, products) = (stream.spread, stream.state.products);
        let [rows, _, columns] = spread.own();
        self.builder.for_each("line", (0u32, lines), 1u32, Unroll::None, |b, line| {
            b.unrolled("j", columns, |b, j| {
                let more = b.load("more", view, &line * pitch + spread.column(&j), None);
                b.unrolled("i", rows, |b, i| {
                    let slot = spread.product(&i, &j);
                    b.set_element(products, slot.clone(), element(products, slot) + &more);
                });
            });
        });
    }

    /// Whether products have to be made again, of weights that are multiplied by the factor of their row.
    fn find_lost(
        &mut self,
        stream: &Stream<'_>,
        of_rows: &[(ValueId, ArrayId)],
        again: LocalId,
        flag: Option<ViewId>,
    ) {
        let (Some((_, factor)), Some(flag), Some(scale)) = (stream.parts.factor, flag, stream.state.scale)
        else {
            return;
        };
        let Some((_, factors)) = of_rows.iter().find(|(v, _)| *v == factor) else { return };
        let spread = stream.spread;
        let [rows, _, columns] = spread.own();
        let lost = self.builder.register("lost", false);
        let (rows_first, rows_count) = (stream.rows.first.clone(), stream.rows.count.clone());
        let products = stream.state.products;
        let index = self.index;
        self.builder.unrolled("i", rows, |b, i| {
            let usual = element(*factors, &i).unary(ScalarOp::Abs).lt(GREATEST_FACTOR);
            let finite = b.register("is_kept", usual);
            b.unrolled("j", columns, |b, j| {
                let is = element(products, spread.product(&i, &j)).unary(ScalarOp::IsFinite);
                b.set(finite, Expr::from(finite) & is);
            });
            let own = spread.row(&i);
            let own = if index == DType::U32 { own } else { own.cast(index) };
            let inside = (&rows_first + own).lt(&rows_count);
            b.set(lost, Expr::from(lost) | (inside & Expr::from(finite).unary(ScalarOp::Not)));
        });
        self.builder.block_barrier();
        self.builder.atomic(AtomicOp::Or, flag, 0u32, 1u32, Some(lost.into()));
        self.builder.block_barrier();
        let found = self.builder.load("found", flag, 0u32, None);
        let found = found.equals(1u32);
        self.builder.set(again, found);
        self.builder.unrolled("i", rows, |b, i| {
            let factor = Expr::from(again).select(element(*factors, &i), 1.0f32);
            b.set_element(scale, &i, factor);
        });
    }

    /// What is made of the products, and stored.
    fn finish_products(&mut self, stream: &Stream<'_>, place: &Scope, of_rows: &[(ValueId, ArrayId)]) {
        let mut base = place.enter(&stream.parts.epilogue);
        base.active = None;
        self.compute_prologue(&stream.parts.epilogue, false, &mut base);
        self.finish_in_lines(stream, &base, of_rows);
    }

    /// Products and what rows give go through shared memory, so that neighbouring threads store neighbouring columns, and
    /// the epilogue stands in the text for a few positions only.
    fn finish_in_lines(&mut self, stream: &Stream<'_>, base: &Scope, of_rows: &[(ValueId, ArrayId)]) {
        let spread = stream.spread;
        let [rows, _, columns] = spread.own();
        let pitch = spread.columns() + LINE_PAD;
        let lines = Size::from(u64::from(spread.rows() * pitch));
        let slab = self.builder.view("products_tile", DType::F32, 0, lines.clone());
        self.shared = self.shared.clone().max((lines * 4).round_up(16));
        let mut views: Vec<(ValueId, ViewId)> = Vec::new();
        for (v, array) in of_rows {
            let dtype = self.builder.kernel().array(*array).dtype;
            views.push((*v, self.share("of_rows", dtype, u64::from(spread.rows()).into())));
        }
        self.builder.block_barrier();
        let products = stream.state.products;
        self.builder.unrolled("i", rows, |b, i| {
            let row = b.bind("row", spread.row(&i));
            let wide = spread.neighbours();
            b.unrolled("part", columns / wide, |b, part| {
                let j = part * wide;
                let at = &row * pitch + spread.column(&j);
                b.store_from(slab, at, slots(products, spread.product(&i, &j), wide), None);
            });
            for ((_, view), (_, array)) in views.iter().zip(of_rows) {
                b.store(*view, &row, element(*array, &i), Some(spread.leads()));
            }
        });
        self.builder.block_barrier();
        let turns = spread.rows() * spread.columns() / spread.threads();
        self.repeat("part", turns, Unroll::By(4), |em, part| {
            let number = em.builder.bind("number", thread_x() + part * spread.threads());
            let row = em.builder.bind("line", &number / spread.columns());
            let column = em.builder.bind("at", &number % spread.columns());
            let product = em.builder.load("product", slab, &row * pitch + &column, None);
            let mut given: Vec<(ValueId, Expr)> = Vec::new();
            for (v, view) in &views {
                given.push((*v, em.builder.load("of_row", *view, &row, None)));
            }
            let given = |v: ValueId| given.iter().find(|(u, _)| *u == v).map(|(_, e)| e.clone());
            em.finish_product(stream, base, [row, column], product, &given);
        });
    }

    /// The epilogue at a row and a column of the tile.
    fn finish_product(
        &mut self,
        stream: &Stream<'_>,
        base: &Scope,
        [row, column]: [Expr; 2],
        product: Expr,
        given: &dyn Fn(ValueId) -> Option<Expr>,
    ) {
        let parts = stream.parts;
        let mut scope = base.clone();
        let is_row = self.place_row(stream, row, &mut scope);
        let own = self.widen(column);
        let column = self.builder.bind("column", &stream.columns.first + own);
        self.decompose(column.clone(), stream.columns.axes, &mut scope);
        let inside = is_row & self.inside(&stream.columns, &column);
        scope.active = Some(self.builder.bind("inside", inside));
        if let Some(at) = &scope.place {
            let columns = stream.columns.count.clone().cast(DType::U64);
            scope.place = Some(at.clone() * columns + column.cast(DType::U64));
        }
        scope.values[parts.product.index()] = Some(product);
        if let (Some((factor, v)), Some((again, _))) = (parts.factor, &stream.state.again) {
            let of_row = given(v).unwrap_or(Expr::from(1.0f32));
            scope.values[factor.index()] = Some(Expr::from(*again).select(1.0f32, of_row));
        }
        for (value, v) in &parts.broadcast {
            scope.values[value.index()] = given(*v);
        }
        let pass = parts.epilogue.passes[0].clone();
        self.emit_position(&parts.epilogue, &pass, &mut scope);
    }
}
