//! Both products on tensor cores, for sources of f16 or bf16 that are copied as they lie.
//!
//! Keys and values come in two stages of `cp.async`. Lines of shared memory have a multiple of 128 bytes; the 16-byte chunk
//! `c` of line `r` stands at `c ^ (r % 8)`, so that `ldmatrix` meets every bank once.
//!
//! Weights are f32, as the program says: they are multiplied as the sum of two tf32 numbers, which hold 22 bits of them and
//! have their range, and of which values of f16 or bf16 are special cases. A sum of the first product has the keys `2 t` and
//! `2 t + 1` in the lane `t` of a row where an operand of tf32 has the columns `t` and `t + 4`: the reduced positions of the
//! second product are taken in that order on both sides, so that the one is the other without a shuffle.

use super::super::body::{Emitter, Scope};
use super::super::vector::{Motion, motion_of_indices};
use super::{Side, Spread, Stream, note_values};
use crate::dtype::{DType, Value};
use crate::id::{ArrayId, AxisId, ViewId};
use crate::index_map::IndexMap;
use crate::kernel_ir::build::{element, slots, thread_x};
use crate::kernel_ir::{Builtin, Condition, DeviceNumber, Expr, LocalKind, MmaShape, Stmt, Unroll};
use crate::scalar::ScalarOp;
use crate::schedule::contraction::Panel;
use crate::schedule::streamed::StreamParts;
use crate::schedule::{BodyOp, BufferRef, Operand};

/// Elements of a 16-byte chunk.
const CHUNK: u32 = 8;
/// The bits of an f32 that tf32 has.
const TF32: u32 = 0xffff_e000;

/// A source that is copied: rows of a buffer.
struct Copied<'a> {
    buffer: BufferRef,
    dtype: DType,
    map: &'a IndexMap,
    /// The axis of the buffer along which rows lie.
    along: usize,
}

/// What is copied of a panel whose rows lie along `axis`.
fn find_copied(panel: &Panel, axis: AxisId) -> Option<Copied<'_>> {
    let group = &panel.group;
    let BodyOp::Load(operand) = &group.value(panel.value).op else { return None };
    let operand = &group.operands[operand.index()];
    let Operand::Buffer { buffer, dtype, map } = operand else { return None };
    let plain = map.bounds.is_empty() && operand.reads().is_empty();
    match motion_of_indices(&map.indices, axis) {
        Motion::Vector(along) if plain => Some(Copied { buffer: *buffer, dtype: *dtype, map, along }),
        Motion::Vector(_) | Motion::Same | Motion::Each => None,
    }
}

/// The sources of both products: rows and keys, along the reduced axis, and values, along the columns.
struct Sources<'a> {
    rows: Copied<'a>,
    keys: Copied<'a>,
    values: Copied<'a>,
}

fn find_sources<'a>(parts: &'a StreamParts, reduced: &[AxisId]) -> Option<Sources<'a>> {
    let ([product], &[depth], &[column]) = (&parts.scores.products[..], reduced, &parts.columns[..]) else {
        return None;
    };
    let panel = |k: usize| find_copied(&parts.scores.panels[k], depth);
    let (rows, keys) = (panel(product.left)?, panel(product.right)?);
    let values = find_copied(&parts.values, column)?;
    let same = rows.dtype == keys.dtype && rows.dtype == values.dtype;
    let narrow = matches!(rows.dtype, DType::F16 | DType::Bf16) && product.dtype == DType::F32;
    (same && narrow).then_some(Sources { rows, keys, values })
}

/// Whether tensor cores take the products of these parts.
pub(super) fn is_possible(parts: &StreamParts, reduced: &[AxisId]) -> bool {
    find_sources(parts, reduced).is_some()
}

/// The tiles of a block.
pub(super) struct Matrices<'a> {
    sources: Sources<'a>,
    shape: MmaShape,
    width: u32,
    rows: ViewId,
    keys: ViewId,
    values: ViewId,
    /// What excluded tiles add, where keys are once all are through.
    excluded: ViewId,
    place: Scope,
}

impl Matrices<'_> {
    /// Elements of a tile of keys or values.
    fn tile(&self) -> u32 {
        Spread::Matrix { width: self.width }.keys() * self.width
    }

    /// Chunks of a line.
    fn chunks(&self) -> u32 {
        self.width / CHUNK
    }

    /// The element at which a chunk of a line stands.
    fn swizzled(&self, line: &Expr, chunk: &Expr) -> Expr {
        line * self.width + (chunk ^ (line & 7u32)) * CHUNK
    }

    /// The stage of the tile that begins at that key.
    fn stage(&self, em: &mut Emitter<'_>, first_key: &Expr) -> Expr {
        let keys = Spread::Matrix { width: self.width }.keys();
        let tile = first_key / em.number(keys.into());
        let odd = (tile & em.number(1)).cast(DType::U32);
        em.builder.bind("stage", odd * self.tile())
    }
}

impl Emitter<'_> {
    /// The tiles of a block, that of the rows loaded; and what is required of a call.
    pub(super) fn plan_matrices<'a>(
        &mut self,
        stream: &Stream<'a>,
        width: u32,
        reduced: &[AxisId],
        place: &Scope,
    ) -> Option<Matrices<'a>> {
        let parts = stream.parts;
        let sources = find_sources(parts, reduced)?;
        let shape = match sources.rows.dtype {
            DType::F16 => MmaShape::M16N8K16F16,
            _ => MmaShape::M16N8K16Bf16,
        };
        let mut requires = Vec::new();
        let architecture = self.device_number(DeviceNumber::Architecture);
        requires.push(Condition::AtMost(80.into(), architecture.into()));
        for (axes, most) in [(reduced, true), (parts.columns.as_slice(), width < 128)] {
            let (count, _) = self.count(axes);
            if most {
                requires.push(Condition::AtMost(count.clone(), u64::from(width).into()));
            }
            requires.push(Condition::Multiple { size: count, of: CHUNK.into() });
        }
        for source in [&sources.rows, &sources.keys, &sources.values] {
            let Copied { buffer, dtype, map, along } = source;
            for condition in self.vector_conditions(*buffer, *dtype, &map.indices, *along, CHUNK) {
                if !requires.contains(&condition) {
                    requires.push(condition);
                }
            }
        }
        let tile = u64::from(stream.spread.keys() * width);
        let dtype = sources.rows.dtype;
        let rows = self.share("rows_tile", dtype, u64::from(stream.spread.rows() * width).into());
        let at_keys = self.shared.clone();
        let keys = self.share("key_tiles", dtype, (2 * tile).into());
        let values = self.share("value_tiles", dtype, (2 * tile).into());
        let line = u64::from(stream.spread.threads() * CHUNK);
        let excluded = self.builder.view("excluded_tile", DType::F32, at_keys, line);
        self.builder.kernel_mut().requires.extend(requires);

        let matrices = Matrices { sources, shape, width, keys, rows, values, excluded, place: place.clone() };
        let depth = Side { axes: reduced, first: self.number(0), count: stream.depth.clone() };
        self.copy_tile(
            &matrices,
            &matrices.sources.rows,
            (rows, &0u32.into()),
            (&stream.rows, stream.spread.rows()),
            &depth,
        );
        Some(matrices)
    }

    /// Starts the copy of the lines of a tile; what lies outside becomes zero.
    fn copy_tile(
        &mut self,
        matrices: &Matrices<'_>,
        source: &Copied<'_>,
        (view, stage): (ViewId, &Expr),
        (side, lines): (&Side<'_>, u32),
        along: &Side<'_>,
    ) {
        let threads = Spread::Matrix { width: matrices.width }.threads();
        self.repeat("part", lines * matrices.chunks() / threads, Unroll::Full, |em, part| {
            let chunk = em.builder.bind("chunk", thread_x() + part * threads);
            let line = em.builder.bind("line", &chunk / matrices.chunks());
            let column = em.builder.bind("part_of_line", chunk % matrices.chunks());
            let own = em.widen(line.clone());
            let position = em.builder.bind("position", &side.first + own);
            let mut scope = matrices.place.clone();
            em.decompose(position.clone(), side.axes, &mut scope);
            let own = em.widen(&column * CHUNK);
            let first = em.builder.bind("first", &along.first + own);
            let inside = position.lt(&side.count) & first.clone().lt(&along.count);
            let valid = inside.select(16u32, 0u32);
            let Copied { buffer, dtype, map, along } = source;
            scope.positions.insert(map.indices[*along].0, first);
            let from = em.vector_offset(*buffer, &map.indices, *along, &scope);
            let pointer = em.pointer(*buffer, *dtype);
            let to = stage + matrices.swizzled(&line, &column);
            em.builder.copy_async((view, to), (pointer, from), 16, Some(valid));
        });
    }

    fn copy_keys(&mut self, stream: &Stream<'_>, matrices: &Matrices<'_>, first_key: &Expr) {
        let stage = matrices.stage(self, first_key);
        let side = stream.keys_from(first_key);
        let depth = Side { axes: &[], first: self.number(0), count: stream.depth.clone() };
        self.copy_tile(
            matrices,
            &matrices.sources.keys,
            (matrices.keys, &stage),
            (&side, stream.spread.keys()),
            &depth,
        );
    }

    fn copy_values(&mut self, stream: &Stream<'_>, matrices: &Matrices<'_>, first_key: &Expr) {
        let stage = matrices.stage(self, first_key);
        let side = stream.keys_from(first_key);
        let lines = stream.spread.keys();
        let to = (matrices.values, &stage);
        self.copy_tile(matrices, &matrices.sources.values, to, (&side, lines), &stream.columns);
    }

    /// All tiles of keys: while one is multiplied the next is on its way. Of an excluded one the keys are not copied.
    pub(super) fn go_through_matrices(&mut self, stream: &mut Stream<'_>, matrices: &Matrices<'_>) {
        let keys = self.number(stream.spread.keys().into());
        let [first, end] = stream.range.clone();
        let skips = stream.skips.then(|| self.builder.register("is_excluded", false));
        let local = self.builder.local("next", self.index, LocalKind::Loop);
        self.builder.open();
        let next = Expr::Local(local);
        let skips_next = match skips {
            Some(_) => self.excludes(stream, &next).map(|e| self.builder.bind("excludes_next", e)),
            None => None,
        };
        self.builder.open();
        self.builder.open();
        self.copy_keys(stream, matrices, &next);
        let then = self.builder.close();
        self.push_unless(skips_next.clone(), then);
        self.copy_values(stream, matrices, &next);
        let then = self.builder.close();
        let condition = next.clone().lt(&end);
        self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
        self.builder.commit_async();

        self.builder.open();
        self.builder.wait_async(1);
        self.builder.block_barrier();
        let first_key = self.builder.bind("first_key", &next - &keys);
        self.builder.open();
        let scores = self.multiply_by_keys(matrices, &first_key);
        let weights = self.make_weights(stream, &[scores], &first_key);
        self.multiply_by_values(stream, matrices, weights, &first_key);
        let tile = self.builder.close();
        match (skips, &skips_next) {
            (Some(skips), Some(_)) => {
                self.builder.open();
                self.note_excluded_lines(stream, matrices, &first_key);
                let then = self.builder.close();
                self.builder.push(Stmt::If { condition: skips.into(), then, otherwise: tile });
            }
            (_, _) => tile.into_iter().for_each(|s| self.builder.push(s)),
        }
        self.builder.block_barrier();
        let then = self.builder.close();
        let condition = next.ge(&first + &keys);
        self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
        if let (Some(skips), Some(next)) = (skips, skips_next) {
            self.builder.set(skips, next);
        }
        let body = self.builder.close();
        let (start, end) = (first, end + &keys);
        self.builder.push(Stmt::For { local, start, end, step: keys, unroll: Unroll::None, body });
        self.builder.wait_async(0);
    }

    fn push_unless(&mut self, condition: Option<Expr>, then: Vec<Stmt>) {
        match condition {
            Some(condition) => {
                let condition = condition.unary(ScalarOp::Not);
                self.builder.push(Stmt::If { condition, then, otherwise: Vec::new() });
            }
            None => then.into_iter().for_each(|s| self.builder.push(s)),
        }
    }

    /// The products of the rows of a warp and the keys of a stage.
    fn multiply_by_keys(&mut self, matrices: &Matrices<'_>, first_key: &Expr) -> ArrayId {
        let stage = matrices.stage(self, first_key);
        let (warp, lane) = (Expr::from(Builtin::Warp), Expr::from(Builtin::Lane));
        let keys = Spread::Matrix { width: matrices.width }.keys();
        let zero = Some(Value::F32(0.0));
        let scores = self.builder.array("scores", DType::F32, keys / 2, zero);
        self.builder.unrolled("pair", matrices.width / 32, |b, pair| {
            // Operands of the rows are loaded again for each tile: there are no registers to keep them in.
            let rows = b.array("row_operands", DType::U32, 8, None);
            for step in 0..2u32 {
                let line = &warp * 16u32 + (&lane & 15u32);
                let at = matrices.swizzled(&line, &((&pair * 2u32 + step) * 2u32 + (&lane >> 4u32)));
                b.load_matrix(slots(rows, 4 * step, 4), matrices.rows, at, false);
            }
            b.unrolled("key_block", keys / 8, |b, n| {
                let operand = b.array("key_operands", DType::U32, 4, None);
                let line = &n * 8u32 + (&lane & 7u32);
                let at = &stage + matrices.swizzled(&line, &(&pair * 4u32 + (&lane >> 3u32)));
                b.load_matrix(slots(operand, 0u32, 4), matrices.keys, at, false);
                for step in 0..2u32 {
                    let left = slots(rows, 4 * step, 4);
                    b.mma(matrices.shape, slots(scores, &n * 4u32, 4), left, slots(operand, 2 * step, 2));
                }
            });
        });
        scores
    }

    /// Adds the products of the weights and the values of a stage.
    fn multiply_by_values(
        &mut self,
        stream: &Stream<'_>,
        matrices: &Matrices<'_>,
        weights: ArrayId,
        first_key: &Expr,
    ) {
        let stage = matrices.stage(self, first_key);
        let lane = Expr::from(Builtin::Lane);
        let (dtype, products) = (matrices.sources.values.dtype, stream.state.products);
        self.builder.unrolled("key_step", stream.spread.keys() / 16, |b, step| {
            // By key block of the step: the operand and what it lacks.
            let parts: Vec<[ArrayId; 2]> = (0..2u32)
                .map(|block| {
                    let operands =
                        ["weights_high", "weights_low"].map(|name| b.array(name, DType::U32, 4, None));
                    for register in 0..4u32 {
                        // Registers are by column, then row; sums by row, then column.
                        let slot = (&step * 2u32 + block) * 4u32 + (register % 2) * 2 + register / 2;
                        let [high, low] = split(b, element(weights, slot));
                        b.set_element(operands[0], register, high);
                        b.set_element(operands[1], register, low);
                    }
                    operands
                })
                .collect();
            b.unrolled("column_pair", matrices.width / 16, |b, pair| {
                let loaded = b.array("value_pairs", DType::U32, 4, None);
                let line = &step * 16u32 + (&lane & 15u32);
                let at = &stage + matrices.swizzled(&line, &(&pair * 2u32 + (&lane >> 4u32)));
                b.load_matrix(slots(loaded, 0u32, 4), matrices.values, at, true);
                for side in 0..2u32 {
                    for block in 0..2u32 {
                        let operand = b.array("value_operands", DType::U32, 2, None);
                        for part in 0..2u32 {
                            let word = element(loaded, 2 * side + block);
                            let value = Expr::Unpack(dtype, part, Box::new(word));
                            b.set_element(operand, part, value.unary(ScalarOp::ToBits));
                        }
                        for weights in parts[block as usize] {
                            let sums = slots(products, (&pair * 2u32 + side) * 4u32, 4);
                            let (left, right) = (slots(weights, 0u32, 4), slots(operand, 0u32, 2));
                            b.mma(MmaShape::M16N8K8Tf32, sums, left, right);
                        }
                    }
                }
            });
        });
    }

    /// Notes whether the values of an excluded tile are finite: each thread has the chunks of eight columns.
    fn note_excluded_lines(&mut self, stream: &Stream<'_>, matrices: &Matrices<'_>, first_key: &Expr) {
        let Some(excluded) = stream.state.excluded else { return };
        let stage = matrices.stage(self, first_key);
        let threads = stream.spread.threads();
        self.builder.unrolled("part", matrices.tile() / CHUNK / threads, |b, part| {
            let chunk = b.bind("chunk", thread_x() + part * threads);
            let (line, column) = (&chunk / matrices.chunks(), &chunk % matrices.chunks());
            let values = b.array("value", DType::F32, CHUNK, None);
            let at = &stage + matrices.swizzled(&line, &column);
            b.load_into(slots(values, 0u32, CHUNK), matrices.values, at, None);
            note_values(b, excluded, values, CHUNK);
        });
    }

    /// Adds what excluded tiles would to the products.
    pub(super) fn add_excluded_lines(&mut self, stream: &Stream<'_>, matrices: &Matrices<'_>) {
        let Some(excluded) = stream.state.excluded else { return };
        let spread = stream.spread;
        let lines = spread.threads() / matrices.chunks();
        let (view, width) = (matrices.excluded, matrices.width);
        let line = thread_x() / matrices.chunks();
        let first = &line * width + (thread_x() % matrices.chunks()) * CHUNK;
        self.builder.block_barrier();
        self.builder.unrolled("part", CHUNK / 4, |b, part| {
            b.store_from(view, &first + &part * 4u32, slots(excluded, part * 4u32, 4), None);
        });
        self.builder.block_barrier();
        self.add_lines(stream, view, lines, width);
        self.builder.block_barrier();
    }
}

/// The bits of two tf32 numbers whose sum is `x`, up to 22 bits of it; of what is infinite or NaN the first is that.
fn split(b: &mut crate::kernel_ir::build::Builder, x: Expr) -> [Expr; 2] {
    let x = b.bind("weight", x);
    let high = b.bind("high", x.clone().unary(ScalarOp::ToBits) & TF32);
    let whole = Expr::op(ScalarOp::FromBits, vec![high.clone()]);
    let rest = x.clone() - whole;
    let rounded = (rest.unary(ScalarOp::ToBits) + 0x1000u32) & TF32;
    let low = b.bind("low", x.unary(ScalarOp::IsInfinite).select(0u32, rounded));
    [high, low]
}
