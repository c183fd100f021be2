//! Few rows and many keys: each range of keys has a block of its own.
//!
//! A block leaves the greatest exponents of its rows over its range, and the sums and products less those, in scratch memory. A
//! second kernel puts them together, from the first range to the last, and goes on as if it had gone through all keys (Dao et
//! al., "Flash-Decoding for long-context inference", 2023). The ranges follow from the number of keys alone; whether there are
//! any is asked of the sizes of a call and of the multiprocessors of the device, and where there are none the second kernel has
//! no blocks and is not launched. A kernel of which `launches` says that it takes no more than it does never has them.

use super::Stream;
use super::softmax::{maximum, reference};
use crate::dtype::DType;
use crate::id::{ArgId, AxisId};
use crate::index_map::IndexExpr;
use crate::kernel_ir::build::element;
use crate::kernel_ir::{Builtin, DeviceNumber, Expr, Size, Stmt, Unroll, Usage};
use crate::lower::Scratch;
use crate::lower::body::Emitter;
use crate::program::Program;
use crate::scalar::ScalarOp;
use crate::schedule::streamed::StreamParts;
use crate::schedule::{ScheduleKind, ScheduledGroup};

/// The least keys of a range, a multiple of every tile.
const RANGE: u64 = 512;
/// The most ranges.
const RANGES: u64 = 64;
/// Rows and columns that would have a block.
const TILE: u64 = 64;
/// Rows that ranges may leave: what they take of memory has a bound.
const ROWS: u64 = 1 << 17;

/// How many ranges there are on a device with so many multiprocessors, as [`Emitter::blocks_of_split`] counts them.
pub(crate) fn count_ranges(multiprocessors: u64, [batch, rows, columns, keys]: [u64; 4]) -> u64 {
    let tiles = rows.div_ceil(TILE).saturating_mul(columns.div_ceil(TILE).max(1));
    let few = batch.saturating_mul(tiles).saturating_mul(2) <= multiprocessors;
    let small = batch.saturating_mul(rows).saturating_mul(keys.div_ceil(RANGE)) <= ROWS;
    let step = (keys.div_ceil(RANGE * RANGES) * RANGE).max(RANGE);
    if few && small { keys.div_ceil(step).max(1) } else { 1 }
}

/// Whether keys of a group may be cut into ranges: there is a launch to put them together.
pub(in crate::lower) fn splits(program: &Program, group: &ScheduledGroup) -> bool {
    let may = program.kernel.launches.is_none_or(|wanted| program.plan.launch_count() < wanted);
    group.kind == ScheduleKind::Streamed && may && super::is_streamed(program, group)
}

/// Where ranges leave what they computed.
pub(super) struct Split {
    /// Whether this is the kernel that puts ranges together.
    pub(super) folds: bool,
    /// The keys of the block.
    pub(super) keys: [Expr; 2],
    /// Whether there are several ranges, and the one of this block.
    is_split: Expr,
    range: Expr,
    /// How many ranges there are.
    ranges: Expr,
    /// How many rows there are at all positions of the batch.
    rows: Expr,
    products: ArgId,
    greatest: Option<ArgId>,
    /// Of the maxima that are not those of exponents.
    maxima: Vec<Option<ArgId>>,
    sums: Vec<ArgId>,
}

/// The keys of a range of so many, and how many ranges that makes, as extents.
fn ranges_of(axes: &[AxisId]) -> IndexExpr {
    let keys = product(axes);
    let most = (RANGE * RANGES) as i64;
    let step = keys.clone().plus(most - 1).floor_div(most).times(RANGE as i64);
    keys.plus(step.clone()).plus(-1).floor_div(step)
}

fn product(axes: &[AxisId]) -> IndexExpr {
    axes.iter().fold(IndexExpr::Const(1), |p, a| p.times(IndexExpr::Extent(*a)))
}

impl Emitter<'_> {
    /// Finds the range of a block, and which block it would be without ranges. `whole` says whether ranges are put together here,
    /// and how many blocks there would be.
    pub(super) fn start_split(
        &mut self,
        group: &ScheduledGroup,
        parts: &StreamParts,
        (folds, whole): (bool, Expr),
        (keys, rows): (&Expr, Expr),
        number: &mut Expr,
    ) -> Split {
        let most = self.number(RANGE * RANGES);
        let steps = (keys + (&most - self.number(1))) / most;
        let step = self.builder.bind("keys_of_range", (steps * self.number(RANGE)).max(self.number(RANGE)));
        let rows = self.builder.bind("all_rows", rows);
        let mut range = self.number(0);
        let (ranges, is_split) = if folds {
            ((keys + (&step - self.number(1))) / &step, true.into())
        } else {
            let whole = self.builder.bind("whole", whole.max(self.number(1)));
            range = self.builder.bind("range", &*number / &whole);
            *number = self.builder.bind("number", &*number % &whole);
            let mut blocks: Expr = Builtin::GridDim(0).into();
            if self.blocks_before.as_const() != Some(0) {
                // Other groups have the first blocks.
                let before = self.blocks_before.clone();
                blocks = blocks - self.size_expr(&before);
            }
            let ranges = self.widen(blocks) / whole;
            let is_split = self.builder.bind("is_split", self.number(1).lt(&ranges));
            (ranges, is_split)
        };
        let ranges = self.builder.bind("ranges", ranges);
        let first = self.builder.bind("first_of_range", &range * &step);
        let end = (&first + step).min(keys);
        let end = match folds {
            true => keys.clone(),
            false => self.builder.bind("end_of_range", is_split.clone().select(end, keys)),
        };
        let usage = if folds { Usage::Read } else { Usage::Write };
        let lines = product(&parts.batch).times(product(&parts.rows)).times(ranges_of(&parts.streamed));
        let mut next = 0;
        let mut take = |em: &mut Self, elements: IndexExpr| {
            next += 1;
            em.scratch_pointer((group.id, next - 1), Scratch { elements, dtype: DType::F32 }, usage)
        };
        let products = take(self, lines.clone().times(product(&parts.columns)));
        let greatest = parts.exponent.map(|_| take(self, lines.clone()));
        let others = parts.maxima.iter().map(|m| Some(m.tile) != parts.exponent);
        let maxima = others.map(|other| other.then(|| take(self, lines.clone()))).collect();
        let sums = parts.sums.iter().map(|_| take(self, lines.clone())).collect();
        Split { folds, keys: [first, end], is_split, range, ranges, rows, products, greatest, maxima, sums }
    }

    /// The number of blocks: those of all ranges, or those that put them together. Both kernels ask the same of a call.
    pub(super) fn blocks_of_split(
        &mut self,
        whole: Size,
        [batch, rows, columns, keys]: [Size; 4],
        folds: bool,
    ) -> Size {
        let multiprocessors = Size::from(self.device_number(DeviceNumber::Multiprocessors));
        let is_at_most = |a: Size, b: Size| Size::Sub(Box::new(b + 1), Box::new(a)).min(1);
        let tiles = rows.clone().ceil_div(TILE) * columns.ceil_div(TILE).max(1);
        let few = is_at_most(batch.clone() * tiles * 2, multiprocessors);
        let small = is_at_most(batch * rows * keys.clone().ceil_div(RANGE), ROWS.into());
        let step = (keys.clone().ceil_div(RANGE * RANGES) * RANGE).max(RANGE);
        let ranges = (few * small * keys.ceil_div(step)).max(1);
        match folds {
            true => whole * Size::Sub(Box::new(ranges), Box::new(1.into())).min(1),
            false => whole * ranges,
        }
    }

    /// Does something unless the block has a range of the keys only.
    pub(super) fn unless_split(&mut self, stream: &Stream<'_>, work: impl FnOnce(&mut Self)) {
        match stream.split.as_ref().filter(|s| !s.folds) {
            Some(split) => {
                self.builder.open();
                work(self);
                let then = self.builder.close();
                let condition = split.is_split.clone().unary(ScalarOp::Not);
                self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
            }
            None => work(self),
        }
    }

    /// Leaves what the block has computed over its range.
    pub(super) fn leave_range(&mut self, stream: &Stream<'_>) {
        let Some(split) = &stream.split else { return };
        let (spread, state, parts) = (stream.spread, &stream.state, stream.parts);
        let [rows, _, columns] = spread.own();
        self.builder.open();
        self.repeat("i", rows, Unroll::Full, |em, i| {
            let (line, is_row) = em.line_of_range(stream, split, &split.range, &i);
            let first = stream.columns.first.clone().equals(em.number(0));
            let leads = em.builder.bind("leads", is_row.clone() & spread.leads() & first);
            let mut leave = |array, pointer: Option<ArgId>| {
                if let Some(pointer) = pointer {
                    em.builder.store(pointer, &line, element(array, &i), Some(leads.clone()));
                }
            };
            leave(state.greatest, split.greatest);
            state.maxima.iter().zip(&split.maxima).for_each(|(array, pointer)| leave(*array, *pointer));
            state.sums.iter().zip(&split.sums).for_each(|(array, pointer)| leave(*array, Some(*pointer)));
            debug_assert_eq!(parts.sums.len(), split.sums.len());
            em.repeat("j", columns, Unroll::Full, |em, j| {
                let own = em.widen(spread.column(&j));
                let column = em.builder.bind("column", &stream.columns.first + own);
                let inside = is_row.clone() & column.clone().lt(&stream.columns.count);
                let product = element(state.products, spread.product(&i, &j));
                let at = &line * &stream.columns.count + column;
                em.builder.store(split.products, at, product, Some(inside));
            });
        });
        let then = self.builder.close();
        let condition = split.is_split.clone();
        self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
    }

    /// The place of a row in what a range leaves, and whether there is such a row.
    fn line_of_range(&mut self, stream: &Stream<'_>, split: &Split, range: &Expr, i: &Expr) -> (Expr, Expr) {
        let own = self.widen(stream.spread.row(i));
        let row = self.builder.bind("row", &stream.rows.first + own);
        let is_row = self.builder.bind("is_row", row.clone().lt(&stream.rows.count));
        let line = range * &split.rows + &stream.batch * &stream.rows.count + row;
        (self.builder.bind("line", line), is_row)
    }

    /// Puts together what ranges left of the rows of the block: the greatest of all first, so that nothing waits for the range
    /// before.
    pub(super) fn fold_ranges(&mut self, stream: &Stream<'_>) {
        let Some(split) = &stream.split else { return };
        let (spread, state, parts) = (stream.spread, &stream.state, stream.parts);
        let [rows, _, columns] = spread.own();
        let zero = self.number(0);
        let one = self.number(1);
        self.repeat("i", rows, Unroll::Full, |em, i| {
            let (line, is_row) = em.line_of_range(stream, split, &zero, &i);
            let at = |range: &Expr| range * &split.rows + &line;
            let bounds = (zero.clone(), split.ranges.clone());
            let b = &mut em.builder;
            if let Some(pointer) = split.greatest {
                let most = b.register("most", f32::NEG_INFINITY);
                b.for_each("range", bounds.clone(), one.clone(), Unroll::By(4), |b, range| {
                    let own = b.load("own", pointer, at(&range), Some(is_row.clone()));
                    b.set(most, maximum(most.into(), own));
                });
                b.set_element(state.greatest, &i, most);
            }
            let shift = b.bind("shift", reference(&element(state.greatest, &i)));
            b.for_each("range", bounds, one.clone(), Unroll::By(4), |b, range| {
                let line = b.bind("line", at(&range));
                let load = |b: &mut crate::kernel_ir::build::Builder, pointer: ArgId| {
                    b.load("part", pointer, &line, Some(is_row.clone()))
                };
                let factor = split.greatest.map(|pointer| {
                    let own = load(b, pointer);
                    let most = element(state.greatest, &i);
                    let unchanged = own.clone().equals(most) | own.clone().equals(f32::NEG_INFINITY);
                    let scaled = (reference(&own) - &shift).unary(ScalarOp::Exp);
                    b.bind("factor", unchanged.select(1.0f32, scaled))
                });
                let scale = |e: Expr, scaled: bool| match &factor {
                    Some(factor) if scaled => e * factor,
                    _ => e,
                };
                for (array, pointer) in state.maxima.iter().zip(&split.maxima) {
                    if let Some(pointer) = *pointer {
                        let own = load(b, pointer);
                        b.set_element(*array, &i, maximum(element(*array, &i), own));
                    }
                }
                for ((sum, array), pointer) in parts.sums.iter().zip(&state.sums).zip(&split.sums) {
                    let own = load(b, *pointer);
                    b.set_element(*array, &i, element(*array, &i) + scale(own, sum.scaled));
                }
                b.unrolled("j", columns, |b, j| {
                    let column = spread.column(&j);
                    let wide = b.dtype_of(&line);
                    let column = if wide == DType::U32 { column } else { column.cast(wide) };
                    let column = b.bind("column", &stream.columns.first + column);
                    let inside = is_row.clone() & column.clone().lt(&stream.columns.count);
                    let at = &line * &stream.columns.count + column;
                    let own = b.load("part", split.products, at, Some(inside));
                    let slot = spread.product(&i, &j);
                    let sum = element(state.products, &slot) + scale(own, parts.left.1);
                    b.set_element(state.products, slot, sum);
                });
            });
        });
    }
}
