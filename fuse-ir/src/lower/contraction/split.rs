//! Contractions in pieces: where a result has too few tiles for the device, several blocks share the reduced positions of
//! a tile and leave their sums in scratch memory; a second kernel adds these and runs the epilogue.
//!
//! Where pieces begin follows from the number of reduced positions alone, and they are added from the first to the last:
//! however blocks run, the bits are the same. Whether a launch is split follows from the number of tiles and the device's
//! multiprocessors, for every variant alike, so that the second kernel knows without asking which variant ran. One text
//! serves both ways: that a launch is split is a fact.

use super::{TilePlace, shapes};
use crate::dtype::{DType, Value};
use crate::id::ArgId;
use crate::index_map::{Extent, IndexExpr};
use crate::kernel_ir::build::thread_x;
use crate::kernel_ir::{Condition, DeviceNumber, Expr, LocalKind, Size, Stmt, Unroll, Usage};
use crate::lower::body::{Emitter, Scope};
use crate::lower::{Scratch, THREADS};
use crate::program::Program;
use crate::schedule::contraction::{PartProduct, Parts, cut_contraction};
use crate::schedule::{ScheduleKind, ScheduledGroup};

/// Reduced positions of a piece, a multiple of what any tile takes at once; of long contractions they are several times as
/// many, so that there are never more than 64 pieces.
const PIECE: i64 = 512;
/// Reduced positions that are split at least.
const LEAST_DEPTH: i64 = 2 * PIECE;
/// Rows and columns of the tiles that are counted.
const SIDE: i64 = 64;

/// When a contraction is split, by numbers that the shapes of a call decide.
struct SplitWhen {
    /// Tiles of the result: at most half of the device would have one.
    tiles: Extent,
    /// Reduced positions: enough for two pieces.
    depth: Extent,
}

impl SplitWhen {
    fn of(parts: &Parts, group: &ScheduledGroup) -> SplitWhen {
        let [batch, rows, columns] =
            [&parts.sides.batch, &parts.sides.rows, &parts.sides.columns].map(|axes| product(axes));
        let tiles = |n: Extent| n.plus(SIDE - 1).floor_div(SIDE);
        SplitWhen { tiles: batch.times(tiles(rows)).times(tiles(columns)), depth: product(&group.reduced) }
    }
}

fn product(axes: &[crate::id::AxisId]) -> Extent {
    axes.iter().fold(IndexExpr::Const(1), |p, a| p.times(IndexExpr::Extent(*a)))
}

/// How many times [`PIECE`] reduced positions a piece has.
fn multiple_of(depth: &Extent) -> Extent {
    depth.clone().floor_div(64 * PIECE).plus(1)
}

/// How many pieces there are.
fn pieces_of(depth: &Extent) -> Extent {
    let piece = multiple_of(depth).times(PIECE);
    depth.clone().plus(piece.clone()).minus(1).floor_div(piece)
}

/// Whether a group that is alone in its launch has kernels that split: not where the second launch breaks the contract of
/// the user.
pub(in crate::lower) fn may_split(program: &Program, group: &ScheduledGroup) -> bool {
    if group.kind != ScheduleKind::Contraction {
        return false;
    }
    let plan = &program.plan;
    let groups = plan.groups().flat_map(ScheduledGroup::loops);
    let more = groups.filter(|g| g.kind == ScheduleKind::Contraction).count() as u32;
    let keeps = program.kernel.launches.is_none_or(|wanted| plan.launch_count() + more <= wanted);
    keeps && cut_contraction(group).is_some_and(|parts| !shapes(&parts, program.kernel.fast).is_empty())
}

/// How the blocks of a kernel share a contraction.
pub(super) struct Split {
    /// Whether they do.
    pub(super) fact: Expr,
    /// 1 if they do, else 0.
    indicator: Size,
    /// How many pieces there are, and the reduced positions of one.
    count: ArgId,
    length: Expr,
    /// Where the sums of each product go.
    partials: Vec<ArgId>,
    /// Positions of the result.
    positions: Expr,
    /// Which piece this block has.
    pub(super) piece: Expr,
}

impl Emitter<'_> {
    /// The arguments by which a contraction is split, the piece of `block` and its number within the piece of so many
    /// blocks.
    pub(super) fn plan_split(
        &mut self,
        parts: &Parts,
        group: &ScheduledGroup,
        block: Expr,
        of_piece: &Size,
    ) -> (Split, Expr) {
        let when = SplitWhen::of(parts, group);
        let indicator = self.split_indicator(&when);
        let condition = Condition::Equal(indicator.clone(), 1.into());
        let fact = self.fact_for("SPLIT", vec![condition]).unwrap_or(true.into());
        let count = self.named_extent("pieces", &pieces_of(&when.depth), self.index);
        let times = self.named_extent("piece_multiple", &multiple_of(&when.depth), self.index);
        // Known to be a multiple, so that vectors stay aligned.
        let length = Expr::from(times) * self.number(PIECE as u64);
        let length = self.builder.bind("piece_length", length);
        let partials = self.partial_sums(parts, group, Usage::Write);
        let (_, positions) = self.count(&parts.epilogue.outer);
        let of_piece = self.size_expr(of_piece);
        let of_piece = self.builder.bind("blocks_of_piece", of_piece);
        let piece = fact.clone().select(&block / &of_piece, 0u32);
        let piece = self.builder.bind("piece", piece);
        let own = fact.clone().select(&block % of_piece, block);
        let own = self.builder.bind("own_tile", own);
        (Split { fact, indicator, count, length, partials, positions, piece }, own)
    }

    /// 1 if a call is split, else 0.
    fn split_indicator(&mut self, when: &SplitWhen) -> Size {
        let tiles = self.named_extent("tiles", &when.tiles, self.index);
        let depth = self.extent_arg(&when.depth, self.index);
        let units = self.device_number(DeviceNumber::Multiprocessors);
        let few = Size::from(units).floor_div(Size::from(tiles) * 2u64).min(1u64);
        let long = Size::from(depth).floor_div(LEAST_DEPTH as u64).min(1u64);
        few * long
    }

    /// The blocks of all pieces, of so many each.
    pub(super) fn blocks_of_pieces(&self, split: &Split, of_piece: Size) -> Size {
        // 1, or the number of pieces.
        let minus_one = Size::Sub(Box::new(split.count.into()), Box::new(1.into()));
        of_piece * (split.indicator.clone() * minus_one + 1u64)
    }

    /// The first reduced position of the block's piece and the end of the piece, of `depth` positions in all.
    pub(super) fn piece_range(&mut self, split: &Split, depth: &Expr) -> (Expr, Expr) {
        let start = self.widen(split.piece.clone()) * &split.length;
        let start = split.fact.clone().select(start, self.number(0));
        let start = self.builder.bind("piece_start", start);
        let end = (&start + &split.length).min(depth);
        let end = self.builder.bind("piece_end", split.fact.clone().select(end, depth));
        (start, end)
    }

    /// Scratch memory for the sums of each product: piece by piece, each laid out as the positions of the result.
    fn partial_sums(&mut self, parts: &Parts, group: &ScheduledGroup, usage: Usage) -> Vec<ArgId> {
        let when = SplitWhen::of(parts, group);
        let elements = product(&parts.epilogue.outer).times(pieces_of(&when.depth));
        let of = |(k, p): (usize, &PartProduct)| {
            let (elements, dtype) = (elements.clone(), p.dtype.compute());
            let scratch = Scratch { elements, dtype };
            self.scratch_pointer((group.id, k as u32), scratch, usage)
        };
        parts.products.iter().enumerate().map(of).collect()
    }

    /// Keeps the sums of each product at a row and a column for the second kernel.
    pub(super) fn keep_partial(
        &mut self,
        parts: &Parts,
        place: &TilePlace,
        split: &Split,
        (row, column): (&Expr, &Expr),
        sums: Vec<Expr>,
    ) {
        let inside = row.clone().lt(&place.rows) & column.clone().lt(&place.columns);
        let inside = self.builder.bind("inside", inside);
        let plane = self.widen(split.piece.clone()) * &split.positions;
        let line = &place.batch * &place.rows + row;
        let at = self.builder.bind("partial", plane + line * &place.columns + column);
        debug_assert_eq!(sums.len(), parts.products.len());
        for (pointer, sum) in split.partials.iter().zip(sums) {
            self.builder.store(*pointer, &at, sum, Some(inside.clone()));
        }
    }

    /// Adds the sums of all pieces, a thread for each position of the result, and runs the epilogue; gives the number of
    /// blocks, none where the launch is not split.
    pub(in crate::lower) fn lower_pieces(&mut self, group: &ScheduledGroup, block: Expr) -> Size {
        let Some(parts) = cut_contraction(group) else {
            self.refuse("it is no contraction of rows and columns");
            return 0.into();
        };
        let when = SplitWhen::of(&parts, group);
        let indicator = self.split_indicator(&when);
        let (all, positions) = self.count(&parts.epilogue.outer);
        let item = self.widen(block) * self.number(THREADS.into()) + self.widen(thread_x());
        let item = self.builder.bind("item", item);
        let place = self.place_position(&parts, group, &item);
        let line = self.builder.bind("line", &item / &place.columns);
        let row = self.builder.bind("row", &line % &place.rows);
        let column = self.builder.bind("column", &item % &place.columns);
        let live = self.builder.bind("live", item.clone().lt(&positions));
        let pieces = Expr::from(self.named_extent("pieces", &pieces_of(&when.depth), self.index));
        let partials = self.partial_sums(&parts, group, Usage::Read);
        let mut scope = place.scope.enter(&parts.epilogue);
        self.compute_prologue(&parts.epilogue, false, &mut scope);
        self.builder.open();
        let mut scope = self.epilogue_scope(&parts, &place, &scope, (row, column));
        for (p, pointer) in parts.products.iter().zip(partials) {
            let sum = self.add_pieces(p.dtype, pointer, (&item, &positions), &pieces);
            scope.values[p.value.index()] = Some(sum);
        }
        let pass = parts.epilogue.passes.first().cloned().unwrap_or_default();
        self.emit_position(&parts.epilogue, &pass, &mut scope);
        let then = self.builder.close();
        self.builder.push(Stmt::If { condition: live, then, otherwise: Vec::new() });
        all.ceil_div(u64::from(THREADS)) * indicator
    }

    /// The place of a thread that has one position of the result.
    fn place_position(&mut self, parts: &Parts, group: &ScheduledGroup, item: &Expr) -> TilePlace {
        let [rows, columns, depth] =
            [&parts.sides.rows, &parts.sides.columns, &group.reduced].map(|axes| self.count(axes).1);
        let batch = match parts.sides.batch.is_empty() {
            true => self.number(0),
            false => {
                let plane = &rows * &columns;
                self.builder.bind("batch", item / plane)
            }
        };
        let mut scope = Scope::default();
        self.decompose(batch.clone(), &parts.sides.batch, &mut scope);
        let (first_row, first_column) = (self.number(0), self.number(0));
        TilePlace { rows, columns, depth, first_row, first_column, batch, scope }
    }

    /// The sums of a product at a position, from the first piece to the last.
    fn add_pieces(
        &mut self,
        dtype: DType,
        pointer: ArgId,
        (item, positions): (&Expr, &Expr),
        pieces: &Expr,
    ) -> Expr {
        let sum = self.builder.register("sum", Expr::Const(Value::zero(dtype.compute())));
        let local = self.builder.local("piece", self.index, LocalKind::Loop);
        self.builder.open();
        let at = Expr::Local(local) * positions + item;
        let part = self.builder.load("part", pointer, at, None);
        self.builder.set(sum, Expr::from(sum) + part);
        let body = self.builder.close();
        let (start, step) = (self.number(0), self.number(1));
        let unroll = Unroll::By(4);
        self.builder.push(Stmt::For { local, start, end: pieces.clone(), step, unroll, body });
        self.builder.bind("sum", Expr::from(sum))
    }
}
