//! Contractions of a wide and a narrow side, a matrix times a few vectors: what they cost is reading the wide source, which
//! is read once, by loads of 16 bytes, straight into registers.
//!
//! ```text
//! block      some positions of the wide side and all of the narrow side
//! thread     along: a chunk of 16 bytes along the reduced positions, of several wide positions; 64 threads share these
//!            across: a chunk of 16 bytes along the wide side, at several reduced positions; 32 threads share these
//! finish     the sums of the threads that share positions meet by shuffles, then through shared memory
//! ```
//!
//! The narrow source is read by every thread that needs it: it stays in the cache. How many positions the narrow side has,
//! up to a power of two, is a fact, so that a single vector does not pay for eight. The order in which products are added
//! follows from the shape alone.

use super::TilePlace;
use super::panel::lies_along_depth;
use super::shape::SUMS;
use super::split::{Split, may_split};
use crate::dtype::{DType, Value};
use crate::id::{ArrayId, AxisId, ValueId, ViewId};
use crate::index_map::IndexExpr;
use crate::kernel_ir::build::{element, thread_x};
use crate::kernel_ir::{Builtin, Condition, Expr, LocalKind, ShuffleKind, Size, Stmt, Unroll, WARP};
use crate::lower::THREADS;
use crate::lower::body::{Emitter, Scope, multiply_add};
use crate::lower::vector::{Run, run_length};
use crate::schedule::ScheduledGroup;
use crate::schedule::contraction::{Parts, cut_contraction};
use std::fmt;

/// Positions of the narrow side at most.
const MOST: u32 = 8;
/// Reduced positions at least: with fewer most threads of a block would have none.
const LEAST_DEPTH: u64 = 256;
/// 32-bit registers of a thread that hold what it has read of the wide sources.
const HELD: u32 = 32;

/// How a block reads a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SkinnyShape {
    /// Whether the rows are the narrow side; else the columns.
    narrow_rows: bool,
    /// Positions of the narrow side at most.
    most: u32,
    /// Whether the wide sources lie along the reduced positions.
    along: bool,
    /// Wide positions and reduced positions of a thread.
    wide: u32,
    depth: u32,
}

impl SkinnyShape {
    /// Threads along the wide side, and along the reduced positions.
    fn threads(&self) -> [u32; 2] {
        if self.along { [4, 64] } else { [8, 32] }
    }

    /// Wide positions of a block.
    fn of_block(&self) -> u32 {
        self.threads()[0] * self.wide
    }

    /// Threads of a warp that share wide positions.
    fn sharing_lanes(&self) -> u32 {
        if self.along { WARP } else { WARP / 8 }
    }

    /// Warps that share wide positions.
    fn sharing_warps(&self) -> u32 {
        if self.along { 2 } else { THREADS / WARP }
    }

    /// Whether a panel is of the narrow side.
    fn is_narrow(&self, is_left: bool) -> bool {
        is_left == self.narrow_rows
    }

    /// The narrow positions in groups, from which to which, of which each but the first is left out where there are no more
    /// than those before.
    fn narrow_groups(&self) -> Vec<[u32; 2]> {
        let mut groups = vec![[0, 1]];
        while let Some(&[_, end]) = groups.last()
            && end < self.most
        {
            groups.push([end, 2 * end]);
        }
        groups
    }
}

impl fmt::Display for SkinnyShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (narrow, wide) = if self.narrow_rows { ("rows", "columns") } else { ("columns", "rows") };
        let how = if self.along { "along" } else { "across" };
        write!(f, "at most {} {narrow}, {} {wide} read {how}", self.most, self.of_block())
    }
}

/// The shapes of a contraction for narrow rows and for narrow columns.
pub(super) fn shapes(group: &ScheduledGroup, parts: &Parts) -> Vec<SkinnyShape> {
    [true, false].into_iter().filter_map(|narrow_rows| shape(group, parts, narrow_rows)).collect()
}

fn shape(group: &ScheduledGroup, parts: &Parts, narrow_rows: bool) -> Option<SkinnyShape> {
    let axes = if narrow_rows { &parts.sides.columns } else { &parts.sides.rows };
    let (side, depth) = (axes.last().copied(), group.reduced.last().copied());
    let wide: Vec<_> = parts.panels.iter().filter(|p| p.is_left != narrow_rows).collect();
    let along = lies_along_depth(wide.first()?, depth, side);
    let axis = if along { depth } else { side }?;
    // The load of the narrowest source has 16 bytes.
    let run = wide.iter().filter_map(|p| run_length(&p.group, axis)).min().unwrap_or(4).min(16);
    let size = parts.products.first()?.dtype.compute().size() as u32;
    let words = (size / 4).max(1);
    let other = (HELD / (run * words * wide.len() as u32)).max(1);
    // The narrow source is then read by whole sectors too.
    let (wide, depth) = if along { (other, run) } else { (run, other.min(4)) };
    let products = parts.products.len() as u32;
    // A chunk of bytes has so many numbers that more positions would make a long text.
    let mut most = if run == 16 { MOST / 2 } else { MOST };
    while most > 1 && most * wide * words * products > SUMS {
        most /= 2;
    }
    (most * wide * words * products <= SUMS).then_some(SkinnyShape { narrow_rows, most, along, wide, depth })
}

/// What places a thread's part of a contraction.
struct Skinny<'a> {
    parts: &'a Parts,
    group: &'a ScheduledGroup,
    shape: SkinnyShape,
    place: TilePlace,
    /// What is known in the program of each panel.
    scopes: Vec<Scope>,
    /// The facts that there are more narrow positions than those before each group.
    more: Vec<Option<Expr>>,
    /// The sums of each product, a row of wide positions for each narrow one.
    sums: Vec<ArrayId>,
    /// Which thread this is of those along the wide side, and along the reduced positions.
    side_thread: Expr,
    depth_thread: Expr,
}

/// A line of a panel: so many positions from a side position and a reduced position on.
struct Line {
    panel: usize,
    side: Expr,
    depth: Expr,
    along_depth: bool,
    len: u32,
}

impl Emitter<'_> {
    /// A contraction of which one side is narrow; gives its number of blocks.
    pub(in crate::lower) fn lower_skinny(
        &mut self,
        group: &ScheduledGroup,
        shape: SkinnyShape,
        block: Expr,
    ) -> Size {
        let Some(parts) = cut_contraction(group) else {
            self.refuse("it is no contraction of rows and columns");
            return 0.into();
        };
        let (rows, _) = self.count(&parts.sides.rows);
        let (columns, _) = self.count(&parts.sides.columns);
        let (batches, _) = self.count(&parts.sides.batch);
        let (narrow, wide) = if shape.narrow_rows { (rows, columns) } else { (columns, rows) };
        let (depth, _) = self.count(&group.reduced);
        let requires = &mut self.builder.kernel_mut().requires;
        requires.push(Condition::AtMost(narrow.clone(), u64::from(shape.most).into()));
        requires.push(Condition::AtMost(LEAST_DEPTH.into(), depth));
        let along = wide.ceil_div(u64::from(shape.of_block()));
        let mut blocks = batches * along.clone();
        let (split, block) = match may_split(self.program, group) {
            true => {
                let (split, block) = self.plan_split(&parts, group, block, &blocks);
                blocks = self.blocks_of_pieces(&split, blocks);
                (Some(split), block)
            }
            false => (None, block),
        };
        let place = self.place_lines(&parts, group, shape, block, &along);
        let skinny = self.start_skinny(&parts, group, shape, place, &narrow);
        self.multiply_lines(&skinny, split.as_ref());
        let views = self.share_sums(&skinny);
        self.finish_lines(&skinny, split.as_ref(), &views);
        let fits = crate::lower::fits_shared(self.shared.clone(), self.options);
        self.builder.kernel_mut().requires.push(fits);
        blocks
    }

    /// Where the positions of a block lie.
    fn place_lines(
        &mut self,
        parts: &Parts,
        group: &ScheduledGroup,
        shape: SkinnyShape,
        block: Expr,
        along: &Size,
    ) -> TilePlace {
        let [rows, columns, depth] =
            [&parts.sides.rows, &parts.sides.columns, &group.reduced].map(|axes| self.count(axes).1);
        let (batch, line) = if parts.sides.batch.is_empty() {
            (Expr::from(0u32), block)
        } else {
            let along = self.size_expr(along);
            let along = self.builder.bind("blocks_along", along);
            let batch = self.builder.bind("batch", &block / &along);
            (batch, self.builder.bind("own_line", block % along))
        };
        let first = self.widen(line) * self.number(shape.of_block().into());
        let first = self.builder.bind("first", first);
        let zero = self.number(0);
        let (first_row, first_column) = if shape.narrow_rows { (zero, first) } else { (first, zero) };
        let batch = self.widen(batch);
        let mut scope = Scope::default();
        self.decompose(batch.clone(), &parts.sides.batch, &mut scope);
        TilePlace { rows, columns, depth, first_row, first_column, batch, scope }
    }

    fn start_skinny<'a>(
        &mut self,
        parts: &'a Parts,
        group: &'a ScheduledGroup,
        shape: SkinnyShape,
        place: TilePlace,
        narrow: &Size,
    ) -> Skinny<'a> {
        let mut scopes = Vec::new();
        for panel in &parts.panels {
            let mut scope = place.scope.enter(&panel.group);
            self.compute_prologue(&panel.group, false, &mut scope);
            scopes.push(scope);
        }
        let mut more = Vec::new();
        for [first, _] in shape.narrow_groups() {
            let least = Condition::AtMost(u64::from(first + 1).into(), narrow.clone());
            let fact = (first > 0).then(|| self.fact_for(&format!("MORE_THAN_{first}"), vec![least]));
            more.push(fact.flatten());
        }
        let of_product = |dtype: DType| (dtype.compute(), Some(Value::zero(dtype.compute())));
        let mut sums = Vec::new();
        for (dtype, zero) in parts.products.iter().map(|p| of_product(p.dtype)) {
            sums.push(self.builder.array("sums", dtype, shape.most * shape.wide, zero));
        }
        let [along_side, along_depth] = shape.threads();
        let (side_thread, depth_thread) = match shape.along {
            true => (thread_x() / along_depth, thread_x() % along_depth),
            false => (thread_x() % along_side, thread_x() / along_side),
        };
        let side_thread = self.builder.bind("side_thread", side_thread);
        let depth_thread = self.builder.bind("depth_thread", depth_thread);
        Skinny { parts, group, shape, place, scopes, more, sums, side_thread, depth_thread }
    }

    /// The loop over the reduced positions of this block.
    fn multiply_lines(&mut self, skinny: &Skinny<'_>, split: Option<&Split>) {
        let (shape, place) = (skinny.shape, &skinny.place);
        let (start, end) = match split {
            Some(split) => self.piece_range(split, &place.depth),
            None => (self.number(0), place.depth.clone()),
        };
        let own = self.widen(skinny.depth_thread.clone()) * self.number(shape.depth.into());
        let start = self.builder.bind("from", start + own);
        let step = self.number(u64::from(shape.threads()[1] * shape.depth));
        let local = self.builder.local("depth", self.index, LocalKind::Loop);
        let depth = Expr::Local(local);
        self.builder.open();
        let wide = self.read_wide(skinny, &depth);
        for ([first, end], more) in shape.narrow_groups().into_iter().zip(&skinny.more) {
            self.builder.open();
            self.repeat("r", end - first, Unroll::Full, |em, r| {
                em.multiply_narrow(skinny, &wide, &(r + first), &depth);
            });
            let then = self.builder.close();
            match more {
                Some(fact) => {
                    self.builder.push(Stmt::If { condition: fact.clone(), then, otherwise: Vec::new() });
                }
                None => then.into_iter().for_each(|s| self.builder.push(s)),
            }
        }
        let body = self.builder.close();
        self.builder.push(Stmt::For { local, start, end, step, unroll: Unroll::None, body });
    }

    /// What the thread multiplies of each wide source; `None` for narrow ones.
    fn read_wide(&mut self, skinny: &Skinny<'_>, depth: &Expr) -> Vec<Option<ArrayId>> {
        let (shape, place) = (skinny.shape, &skinny.place);
        let origin = if shape.narrow_rows { &place.first_column } else { &place.first_row };
        let own = self.widen(skinny.side_thread.clone()) * self.number(shape.wide.into());
        let side = self.builder.bind("side", origin + own);
        let mut arrays = Vec::new();
        for (panel, part) in skinny.parts.panels.iter().enumerate() {
            if shape.is_narrow(part.is_left) {
                arrays.push(None);
                continue;
            }
            let dtype = part.group.value(part.value).dtype.compute();
            let array = self.builder.array("wide", dtype, shape.wide * shape.depth, None);
            let (lines, len) =
                if shape.along { (shape.wide, shape.depth) } else { (shape.depth, shape.wide) };
            self.repeat("line", lines, Unroll::Full, |em, number| {
                let further = em.widen(number.clone());
                let (side, depth) = match shape.along {
                    true => (&side + further, depth.clone()),
                    false => (side.clone(), depth + further),
                };
                let line = Line { panel, side, depth, along_depth: shape.along, len };
                em.read_line(skinny, &line, array, &(number * len));
            });
            arrays.push(Some(array));
        }
        arrays
    }

    /// Adds the products of a narrow position at the reduced positions from `depth` on.
    fn multiply_narrow(
        &mut self,
        skinny: &Skinny<'_>,
        wide: &[Option<ArrayId>],
        narrow: &Expr,
        depth: &Expr,
    ) {
        let shape = skinny.shape;
        let side = self.widen(narrow.clone());
        let mut held: Vec<Option<ArrayId>> = Vec::new();
        for (panel, part) in skinny.parts.panels.iter().enumerate() {
            if !shape.is_narrow(part.is_left) {
                held.push(None);
                continue;
            }
            let dtype = part.group.value(part.value).dtype.compute();
            let array = self.builder.array("narrow", dtype, shape.depth, None);
            let (depth, len) = (depth.clone(), shape.depth);
            let line = Line { panel, side: side.clone(), depth, along_depth: true, len };
            self.read_line(skinny, &line, array, &0u32.into());
            held.push(Some(array));
        }
        self.repeat("d", shape.depth, Unroll::Full, |em, d| {
            em.repeat("c", shape.wide, Unroll::Full, |em, c| {
                for (product, sums) in skinny.parts.products.iter().zip(&skinny.sums) {
                    let (of_narrow, of_wide) = match shape.narrow_rows {
                        true => (held[product.left], wide[product.right]),
                        false => (held[product.right], wide[product.left]),
                    };
                    let (Some(of_narrow), Some(of_wide)) = (of_narrow, of_wide) else { continue };
                    let at = if shape.along { &c * shape.depth + &d } else { &d * shape.wide + &c };
                    let slot = narrow * shape.wide + &c;
                    let operands = [element(of_narrow, &d), element(of_wide, at)];
                    let sum = multiply_add(product.dtype, operands, element(*sums, &slot));
                    em.builder.set_element(*sums, slot, sum);
                }
            });
        });
    }

    /// `array[slot..]` is what a panel has on a line, zero outside: a run of its program where the line does not cross the
    /// end of its innermost axis, else one position after the other.
    fn read_line(&mut self, skinny: &Skinny<'_>, line: &Line, array: ArrayId, slot: &Expr) {
        let panel = &skinny.parts.panels[line.panel];
        let sides = &skinny.parts.sides;
        let axes = match (line.along_depth, panel.is_left) {
            (true, _) => &skinny.group.reduced,
            (false, true) => &sides.rows,
            (false, false) => &sides.columns,
        };
        let values = values_of(panel);
        let Some(&axis) = axes.last() else {
            return self.read_positions(skinny, line, array, slot);
        };
        // No load has more than 16 bytes.
        let piece = run_length(&panel.group, axis).unwrap_or(line.len).min(line.len);
        let fact = self.whole_runs(axis, piece, panel.is_left);
        self.builder.open();
        self.repeat("run", line.len / piece, Unroll::Full, |em, number| {
            let first = number * piece;
            let step = em.widen(first.clone());
            let scope = em.line_scope(skinny, line, Some(&step));
            let run = Run { axis, len: piece, values: &values, stores: &[], kept: &[], keep: &[] };
            let dtype = panel.group.value(panel.value).dtype;
            em.emit_run(&panel.group, &run, &scope, &mut |em, scope, e| {
                em.keep_operand(scope, panel.value, dtype, array, slot + &first + e);
            });
        });
        let then = self.builder.close();
        let Some(fact) = fact else {
            then.into_iter().for_each(|s| self.builder.push(s));
            return;
        };
        self.builder.open();
        self.read_positions(skinny, line, array, slot);
        let otherwise = self.builder.close();
        self.builder.push(Stmt::If { condition: fact, then, otherwise });
    }

    /// The fact that an axis falls into runs of that length.
    fn whole_runs(&mut self, axis: AxisId, len: u32, is_left: bool) -> Option<Expr> {
        let extent = self.extent_arg(&IndexExpr::Extent(axis), self.index);
        let whole = Condition::Multiple { size: extent.into(), of: len.into() };
        let name = if is_left { "ROWS_IN_RUNS" } else { "COLUMNS_IN_RUNS" };
        self.fact_for(name, vec![whole])
    }

    fn read_positions(&mut self, skinny: &Skinny<'_>, line: &Line, array: ArrayId, slot: &Expr) {
        let panel = &skinny.parts.panels[line.panel];
        let values = values_of(panel);
        self.repeat("e", line.len, Unroll::Full, |em, e| {
            let step = em.widen(e.clone());
            let mut scope = em.line_scope(skinny, line, Some(&step));
            em.compute_all(&panel.group, &values, &mut scope);
            em.keep_operand(&scope, panel.value, panel.group.value(panel.value).dtype, array, slot + e);
        });
    }

    fn keep_operand(&mut self, scope: &Scope, value: ValueId, dtype: DType, array: ArrayId, at: Expr) {
        let value = self.value(scope, value);
        let zero = Value::zero(dtype.compute());
        let value = match &scope.active {
            Some(active) => active.clone().select(value, zero),
            None => value,
        };
        self.builder.set_element(array, at, value);
    }

    /// What is known at a position of a line.
    fn line_scope(&mut self, skinny: &Skinny<'_>, line: &Line, step: Option<&Expr>) -> Scope {
        let (mut side, mut depth) = (line.side.clone(), line.depth.clone());
        if let Some(step) = step {
            let moved = if line.along_depth { &mut depth } else { &mut side };
            *moved = &*moved + step;
        }
        let side = self.builder.bind("side", side);
        let depth = self.builder.bind("at", depth);
        let scope = &skinny.scopes[line.panel];
        self.panel_scope(skinny.parts, skinny.group, line.panel, &skinny.place, (&side, &depth), scope)
    }

    /// Folds the sums of the lanes that share positions, and leaves those of each warp in shared memory: by warp, narrow
    /// position and wide position.
    fn share_sums(&mut self, skinny: &Skinny<'_>) -> Vec<ViewId> {
        let shape = skinny.shape;
        let (warps, of_block) = (shape.sharing_warps(), shape.of_block());
        let mut views = Vec::new();
        for product in &skinny.parts.products {
            let elements = u64::from(warps * shape.most * of_block);
            views.push(self.share("warp_sums", product.dtype.compute(), elements.into()));
        }
        let warp = Expr::from(Builtin::Warp);
        let own = if shape.along { warp % warps } else { warp };
        let own = self.builder.bind("sharing_warp", own);
        let lane = Expr::from(Builtin::Lane);
        let leads = if shape.along { lane.equals(0u32) } else { lane.lt(WARP / shape.sharing_lanes()) };
        let leads = self.builder.bind("leads", leads);
        for ([first, end], more) in shape.narrow_groups().into_iter().zip(&skinny.more) {
            self.builder.open();
            self.repeat("r", end - first, Unroll::Full, |em, r| {
                em.repeat("c", shape.wide, Unroll::Full, |em, c| {
                    let narrow = &r + first;
                    let line = (&own * shape.most + &narrow) * of_block;
                    let at = line + &skinny.side_thread * shape.wide + &c;
                    for (sums, view) in skinny.sums.iter().zip(&views) {
                        let sum = em.builder.bind("sum", element(*sums, &narrow * shape.wide + &c));
                        let sum = em.fold_lanes(shape, sum);
                        em.builder.store(*view, &at, sum, Some(leads.clone()));
                    }
                });
            });
            let then = self.builder.close();
            match more {
                Some(fact) => {
                    self.builder.push(Stmt::If { condition: fact.clone(), then, otherwise: Vec::new() });
                }
                None => then.into_iter().for_each(|s| self.builder.push(s)),
            }
        }
        self.builder.block_barrier();
        views
    }

    /// The sum over the lanes of a warp that share positions, in each of them.
    fn fold_lanes(&mut self, shape: SkinnyShape, mut sum: Expr) -> Expr {
        let mut distance = WARP / 2;
        let last = WARP / shape.sharing_lanes();
        while distance >= last {
            let other = self.builder.shuffle("other", ShuffleKind::Xor, &sum, distance, WARP);
            sum = self.builder.bind("sum", sum + other);
            distance /= 2;
        }
        sum
    }

    /// Adds the sums of the warps at each position of the block, and keeps them or runs the epilogue.
    fn finish_lines(&mut self, skinny: &Skinny<'_>, split: Option<&Split>, views: &[ViewId]) {
        let Skinny { parts, shape, place, .. } = skinny;
        let of_block = shape.of_block();
        let mut scope = place.scope.enter(&parts.epilogue);
        self.compute_prologue(&parts.epilogue, false, &mut scope);
        let narrow = if shape.narrow_rows { &place.rows } else { &place.columns };
        let narrow = if self.index == DType::U32 { narrow.clone() } else { narrow.clone().cast(DType::U32) };
        let items = self.builder.bind("items", narrow * of_block);
        let local = self.builder.local("item", DType::U32, LocalKind::Loop);
        let item = Expr::Local(local);
        self.builder.open();
        let narrow = self.builder.bind("narrow", &item / of_block);
        let wide = self.builder.bind("wide", &item % of_block);
        let mut sums = Vec::new();
        for view in views {
            let mut sum: Option<Expr> = None;
            for warp in 0..shape.sharing_warps() {
                let at = (&narrow + warp * shape.most) * of_block + &wide;
                let part = self.builder.load("part", *view, at, None);
                sum = Some(match sum {
                    Some(sum) => self.builder.bind("sum", sum + part),
                    None => part,
                });
            }
            sums.extend(sum);
        }
        let (narrow, wide) = (self.widen(narrow), self.widen(wide));
        let (row, column) = match shape.narrow_rows {
            true => (narrow, &place.first_column + wide),
            false => (&place.first_row + wide, narrow),
        };
        let row = self.builder.bind("row", row);
        let column = self.builder.bind("column", column);
        self.finish_sums(skinny, split, &scope, (row, column), sums);
        let body = self.builder.close();
        let (start, step) = (thread_x(), Expr::from(THREADS));
        self.builder.push(Stmt::For { local, start, end: items, step, unroll: Unroll::None, body });
    }

    fn finish_sums(
        &mut self,
        skinny: &Skinny<'_>,
        split: Option<&Split>,
        scope: &Scope,
        (row, column): (Expr, Expr),
        sums: Vec<Expr>,
    ) {
        let Skinny { parts, place, .. } = skinny;
        self.builder.open();
        let mut scope = self.epilogue_scope(parts, place, scope, (row.clone(), column.clone()));
        for (product, sum) in parts.products.iter().zip(&sums) {
            scope.values[product.value.index()] = Some(sum.clone());
        }
        let pass = parts.epilogue.passes.first().cloned().unwrap_or_default();
        self.emit_position(&parts.epilogue, &pass, &mut scope);
        let otherwise = self.builder.close();
        let Some(split) = split else {
            otherwise.into_iter().for_each(|s| self.builder.push(s));
            return;
        };
        self.builder.open();
        self.keep_partial(parts, place, split, (&row, &column), sums);
        let then = self.builder.close();
        self.builder.push(Stmt::If { condition: split.fact.clone(), then, otherwise });
    }
}

/// The values that the source of a panel needs, in order; it is the last.
fn values_of(panel: &crate::schedule::contraction::Panel) -> Vec<ValueId> {
    let pass = panel.group.passes.first();
    pass.map_or(Vec::new(), |p| p.values.iter().copied().filter(|v| *v <= panel.value).collect())
}
