//! Tiles of shared memory: the sources of products, and the weights.

use super::super::THREADS;
use super::super::body::{Emitter, Scope, both, multiply_add};
use super::spread::{load_columns, load_rows, place_of_key, store_rows};
use super::{Side, Spread, Stream, note_values};
use crate::dtype::{DType, Value};
use crate::id::{ArrayId, AxisId, ViewId};
use crate::kernel_ir::build::{element, thread_x};
use crate::kernel_ir::{Expr, LocalKind, Size, Stmt, Unroll};
use crate::schedule::contraction::Panel;
use crate::schedule::{BodyOp, Operand};

/// Elements of a line of a tile, of which 64 are used: accesses of 16 bytes are aligned, and those of neighbouring lines
/// meet other banks.
pub(super) const PITCH: u32 = 68;
/// Positions of the side of a line.
const SIDE: u32 = 64;
/// Reduced positions that are multiplied at a time.
const DEPTH: u32 = 16;
/// Values of a source that is computed for several elements side by side.
const MOST_COPIED: usize = 6;

/// The tiles of a block.
pub(super) struct Panels<'a> {
    /// The sources of the scores, each with what the block knows of its values.
    sources: Vec<(&'a Panel, Scope)>,
    of_values: (&'a Panel, Scope),
    /// Two sources at a time: lines are reduced positions. By dtype.
    sides: Vec<(DType, [ViewId; 2])>,
    /// The sources of rows that stay while keys go by, all of their lines, by their number.
    kept: Vec<(usize, ViewId)>,
    /// Lines are keys.
    values: ViewId,
    weights: ViewId,
}

/// How a tile is filled.
struct Filling<'s> {
    panel: &'s Panel,
    base: &'s Scope,
    view: ViewId,
    /// Reduced positions of the tile.
    lines: u32,
    side: &'s Side<'s>,
    depth: Side<'s>,
}

impl Emitter<'_> {
    /// The tiles of a block, which share memory where they are not needed at the same time.
    pub(super) fn plan_panels<'a>(&mut self, stream: &Stream<'a>, depth: &Size, place: &Scope) -> Panels<'a> {
        let parts = stream.parts;
        let base = |em: &mut Self, panel: &'a Panel| {
            let mut scope = place.enter(&panel.group);
            em.compute_prologue(&panel.group, false, &mut scope);
            (panel, scope)
        };
        let sources = parts.scores.panels.iter().map(|p| base(self, p)).collect();
        let of_values = base(self, &parts.values);
        let mut sides: Vec<(DType, [ViewId; 2])> = Vec::new();
        let before = self.shared.clone();
        let mut most = before.clone();
        for product in &parts.scores.products {
            let dtype = product.dtype.compute();
            if !sides.iter().any(|(d, _)| *d == dtype) {
                self.shared = before.clone();
                let size = u64::from(DEPTH * PITCH);
                let views = ["left_tile", "right_tile"].map(|name| self.share(name, dtype, size.into()));
                most = most.max(self.shared.clone());
                sides.push((dtype, views));
            }
        }
        self.shared = most;
        let mut kept: Vec<(usize, ViewId)> = Vec::new();
        if stream.spread == (Spread::Scalar { keeps_rows: true }) {
            for product in &parts.scores.products {
                if !kept.iter().any(|(source, _)| *source == product.left) {
                    let size = depth.clone().round_up(DEPTH.into()) * u64::from(PITCH);
                    kept.push((product.left, self.share("rows_tile", product.dtype.compute(), size)));
                }
            }
        }
        let lines = u64::from(stream.spread.keys() * PITCH);
        let weights = self.share("weights_tile", DType::F32, lines.into());
        let values = self.share("values_tile", DType::F32, lines.into());
        Panels { sources, of_values, sides, kept, values, weights }
    }

    /// Fills the tiles of the rows that stay.
    fn fill_rows(&mut self, stream: &Stream<'_>, panels: &Panels<'_>) {
        for &(source, view) in &panels.kept {
            let (panel, base) = &panels.sources[source];
            let local = self.builder.local("first_depth", self.index, LocalKind::Loop);
            self.builder.open();
            let axes = &panel.group.outer[stream.parts.batch.len() + stream.rows.axes.len()..];
            let depth = Side { axes, first: Expr::Local(local), count: stream.depth.clone() };
            let filling = Filling { panel, base, view, lines: DEPTH, side: &stream.rows, depth };
            let first = self.builder.bind("first_line", Expr::Local(local).cast(DType::U32) * PITCH);
            self.fill(&filling, &|at| &first + at);
            let body = self.builder.close();
            let (start, end, step) = (self.number(0), stream.depth.clone(), self.number(DEPTH.into()));
            self.builder.push(Stmt::For { local, start, end, step, unroll: Unroll::None, body });
        }
    }

    /// Fills the tile of the values at the keys from `first_key` on.
    fn fill_values(&mut self, stream: &Stream<'_>, panels: &Panels<'_>, first_key: &Expr) {
        let (panel, base) = &panels.of_values;
        let depth = stream.keys_from(first_key);
        let lines = stream.spread.keys();
        let filling = Filling { panel, base, view: panels.values, lines, side: &stream.columns, depth };
        self.fill(&filling, &|at| at);
    }

    fn fill(&mut self, filling: &Filling<'_>, place_of: &dyn Fn(Expr) -> Expr) {
        let Filling { panel, base, view, lines, side, depth } = filling;
        let group = &panel.group;
        // Some loads on their way at a time are enough, and a copy of much code for each takes long to compile.
        let unroll = if group.values.len() > MOST_COPIED { Unroll::None } else { Unroll::By(4) };
        self.repeat("part", lines * SIDE / THREADS, unroll, |em, part| {
            let number = em.builder.bind("number", thread_x() + part * THREADS);
            let (line, at) = if lies_along(panel, depth.axes) {
                (&number % *lines, &number / *lines)
            } else {
                (&number / SIDE, &number % SIDE)
            };
            let (line, at) = (em.builder.bind("line", line), em.builder.bind("at", at));
            let mut scope = (*base).clone();
            let mut inside: Option<Expr> = None;
            for (side, own) in [(*side, &at), (depth, &line)] {
                let own = em.widen(own.clone());
                let position = em.builder.bind("position", &side.first + own);
                em.decompose(position.clone(), side.axes, &mut scope);
                let one = position.clone().lt(&side.count);
                inside = both(inside, Some(one));
                let before = scope.place.clone().unwrap_or(Expr::from(0u64));
                let count = side.count.clone().cast(DType::U64);
                scope.place = Some(before * count + position.cast(DType::U64));
            }
            let inside = inside.map(|e| em.builder.bind("inside", e));
            scope.active.clone_from(&inside);
            let pass = group.passes[0].clone();
            em.compute_all(group, &pass.values, &mut scope);
            let value = em.value(&scope, panel.value);
            // What is loaded is zero where nothing is.
            let loads = match &group.value(panel.value).op {
                BodyOp::Load(operand) => matches!(group.operands[operand.index()], Operand::Buffer { .. }),
                _ => false,
            };
            let value = match inside {
                Some(inside) if !loads => {
                    let zero = Expr::Const(Value::zero(em.builder.dtype_of(&value)));
                    inside.select(value, zero)
                }
                _ => value,
            };
            em.builder.store(*view, line * PITCH + place_of(at), value, None);
        });
    }

    /// The products of the scores at the keys from `first_key` on.
    fn multiply_scores(
        &mut self,
        stream: &Stream<'_>,
        panels: &Panels<'_>,
        first_key: &Expr,
    ) -> Vec<ArrayId> {
        let parts = stream.parts;
        let spread = stream.spread;
        let [rows, keys, _] = spread.own();
        let mut arrays = Vec::new();
        for product in &parts.scores.products {
            let dtype = product.dtype.compute();
            let scores = self.builder.array("scores", dtype, rows * keys, Some(Value::zero(dtype)));
            arrays.push(scores);
            let Some(&(_, [left, right])) = panels.sides.iter().find(|(d, _)| *d == dtype) else { continue };
            let local = self.builder.local("first_depth", self.index, LocalKind::Loop);
            self.builder.open();
            let of_keys = stream.keys_from(first_key);
            let kept = panels.kept.iter().find(|(source, _)| *source == product.left).map(|(_, view)| *view);
            for (source, view, side) in [(product.left, left, &stream.rows), (product.right, right, &of_keys)]
            {
                if side.axes == stream.rows.axes && kept.is_some() {
                    continue;
                }
                let (panel, base) = &panels.sources[source];
                let axes = &panel.group.outer[parts.batch.len() + side.axes.len()..];
                let depth = Side { axes, first: Expr::Local(local), count: stream.depth.clone() };
                let filling = Filling { panel, base, view, lines: DEPTH, side, depth };
                if panel.is_left {
                    self.fill(&filling, &|at| at);
                } else {
                    self.fill(&filling, &|at| place_of_key(&at));
                }
            }
            self.builder.block_barrier();
            let first_line = Expr::Local(local).cast(DType::U32);
            self.builder.for_each("line", (0u32, DEPTH), 1u32, Unroll::By(4), |b, line| {
                let of_rows = b.array("left", dtype, rows, None);
                let of_keys = b.array("right", dtype, keys, None);
                match kept {
                    Some(kept) => load_rows(b, kept, &(first_line + &line), of_rows),
                    None => load_rows(b, left, &line, of_rows),
                }
                load_columns(b, right, &line, of_keys);
                b.unrolled("j", keys, |b, j| {
                    b.unrolled("i", rows, |b, i| {
                        let slot = spread.score(&i, &j);
                        let sum = multiply_add(
                            dtype,
                            [element(of_rows, &i), element(of_keys, &j)],
                            element(scores, &slot),
                        );
                        b.set_element(scores, slot, sum);
                    });
                });
            });
            self.builder.block_barrier();
            let body = self.builder.close();
            let (start, end) = (self.number(0), stream.depth.clone());
            let step = self.number(DEPTH.into());
            self.builder.push(Stmt::For { local, start, end, step, unroll: Unroll::None, body });
        }
        arrays
    }

    /// All tiles of keys, one after the other.
    pub(super) fn go_through_panels(&mut self, stream: &mut Stream<'_>, panels: &Panels<'_>) {
        // Where the second round begins they stand there already.
        self.fill_rows(stream, panels);
        let local = self.builder.local("first_key", self.index, LocalKind::Loop);
        self.builder.open();
        let first_key = Expr::Local(local);
        // Whoever is behind has read the values and weights of the tile before.
        self.builder.block_barrier();
        self.fill_values(stream, panels, &first_key);
        let skips = if stream.skips { self.excludes(stream, &first_key) } else { None };
        let skips = skips.map(|e| self.builder.bind("is_excluded", e));
        self.builder.open();
        let scores = self.multiply_scores(stream, panels, &first_key);
        let weights = self.make_weights(stream, &scores, &first_key);
        self.multiply_values(stream, panels, weights);
        let tile = self.builder.close();
        match skips {
            Some(condition) => {
                self.builder.open();
                self.builder.block_barrier();
                self.note_excluded(stream, panels);
                let then = self.builder.close();
                self.builder.push(Stmt::If { condition, then, otherwise: tile });
            }
            None => tile.into_iter().for_each(|s| self.builder.push(s)),
        }
        let body = self.builder.close();
        let step = self.number(stream.spread.keys().into());
        let [start, end] = stream.range.clone();
        self.builder.push(Stmt::For { local, start, end, step, unroll: Unroll::None, body });
    }

    /// Notes whether the values of a tile that is excluded are finite: 0 times others is NaN. The threads of a row have the
    /// keys of its number, each for its columns: there are as many rows as keys.
    fn note_excluded(&mut self, stream: &Stream<'_>, panels: &Panels<'_>) {
        let Some(excluded) = stream.state.excluded else { return };
        let spread = stream.spread;
        let [rows, _, columns] = spread.own();
        let view = panels.values;
        self.builder.unrolled("i", rows, |b, i| {
            let part = b.array("value", DType::F32, columns, None);
            load_columns(b, view, &spread.row(&i), part);
            note_values(b, excluded, part, columns);
        });
    }

    /// Adds what excluded tiles would to the products.
    pub(super) fn add_excluded(&mut self, stream: &Stream<'_>, panels: &Panels<'_>) {
        let Some(excluded) = stream.state.excluded else { return };
        let spread = stream.spread;
        let [rows, _, columns] = spread.own();
        // The tile of values is free: a line of it for each part of the keys.
        let view = panels.values;
        self.builder.block_barrier();
        let parts = spread.rows() / rows;
        let part = spread.row(&0u32.into()) / rows;
        self.builder.unrolled("j", columns, |b, j| {
            b.store(view, &part * PITCH + spread.column(&j), element(excluded, &j), None);
        });
        self.builder.block_barrier();
        self.add_lines(stream, view, parts, PITCH);
    }

    /// Adds the products of the weights of a tile and its values.
    fn multiply_values(&mut self, stream: &Stream<'_>, panels: &Panels<'_>, weights: ArrayId) {
        let spread = stream.spread;
        let [rows, keys, columns] = spread.own();
        let (of_weights, of_values) = (panels.weights, panels.values);
        let products = stream.state.products;
        self.builder.unrolled("j", keys, |b, j| store_rows(b, of_weights, &j, weights));
        self.builder.block_barrier();
        self.builder.for_each("key", (0u32, spread.keys()), 1u32, Unroll::By(4), |b, key| {
            let weight = b.array("weight", DType::F32, rows, None);
            let value = b.array("value", DType::F32, columns, None);
            load_rows(b, of_weights, &key, weight);
            load_columns(b, of_values, &key, value);
            b.unrolled("i", rows, |b, i| {
                b.unrolled("j", columns, |b, j| {
                    let slot = spread.product(&i, &j);
                    let factors = [element(weight, &i), element(value, &j)];
                    let sum = multiply_add(DType::F32, factors, element(products, &slot));
                    b.set_element(products, slot, sum);
                });
            });
        });
    }
}

/// Whether what a source loads first lies along these axes.
fn lies_along(panel: &Panel, axes: &[AxisId]) -> bool {
    let last = panel.group.operands.iter().find_map(|o| match o {
        Operand::Buffer { map, .. } => map.indices.last(),
        Operand::Index(_) | Operand::Mask(_) | Operand::Check { .. } => None,
    });
    last.is_some_and(|(_, e)| axes.iter().any(|a| e.uses_index(*a)))
}
