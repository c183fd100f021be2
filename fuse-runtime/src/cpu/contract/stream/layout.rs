//! The sizes of blocks and where a thread keeps them.
//!
//! They follow from the group, from the extents of what is not streamed, and from whether the streamed positions are cut into
//! ranges.

use super::super::super::bindings::Bindings;
use super::super::{BLOCK, DEPTH, Sizes, strip};
use super::StreamExec;
use fuse_ir::dtype::DType;
use fuse_ir::id::{AxisId, ValueId};
use fuse_ir::schedule::contraction::PartProduct;
use fuse_ir::schedule::streamed::Source;
use std::ops::Range;

/// Rows of a task: enough that packing keys and values for the multiplication costs little, and no more where tiles may be
/// passed over or have to hold all of them.
const ROWS: usize = 256;
const ROWS_IN_STRIPS: usize = 1024;
/// Rows that go through all steps of a tile together, where the multiplication needs no more to be fast: what they leave for
/// one another lies in the first cache.
const STRIP: usize = 24;
const LEAST_ROWS: usize = 8;
/// Streamed positions of a tile.
const KEYS: usize = 256;
const LEAST_KEYS: usize = 64;
/// Streamed positions of a range, a multiple of every tile: enough that putting ranges together costs little.
const RANGE: usize = 1024;
/// Elements of the products of a task, about.
const PRODUCTS: usize = 1 << 17;
/// Bytes of the panels and tiles of a thread: with what the multiplication packs and blocks of loops need they stay below
/// 2 MiB.
const SCRATCH: usize = 5 << 18;

/// The sizes of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    pub(super) batch: usize,
    pub(super) rows: usize,
    pub(super) keys: usize,
    pub(super) columns: usize,
    /// Reduced positions of the scores.
    pub(super) depth: usize,
    pub(super) tile_rows: usize,
    /// Whether strips of rows go through all steps of a tile; else all rows of a task do.
    pub(super) in_strips: bool,
    pub(super) tile_keys: usize,
    pub(super) tile_depth: usize,
    /// Ranges of streamed positions, at least one.
    pub(super) ranges: usize,
}

impl Extents {
    pub(super) fn new(exec: &StreamExec, bindings: &Bindings<'_>) -> Extents {
        let count = |axes: &[AxisId]| {
            axes.iter().map(|a| bindings.extents[a.index()].max(0) as usize).product::<usize>()
        };
        let (parts, scores) = (&exec.parts, &exec.group.links[0]);
        let depth = count(&scores.reduced);
        let in_strips = exec.multiplies_strips() && depth <= DEPTH;
        let keys = count(&parts.streamed);
        let mut e = Extents {
            batch: count(&parts.batch),
            rows: count(&parts.rows),
            keys,
            columns: count(&parts.columns),
            depth,
            tile_rows: if in_strips && exec.admitted.is_none() { ROWS_IN_STRIPS } else { ROWS },
            in_strips,
            tile_keys: KEYS,
            tile_depth: DEPTH,
            ranges: keys.div_ceil(RANGE).max(1),
        };
        // The products of earlier ranges lie beside those of a range.
        let most = if e.ranges > 1 { PRODUCTS / 2 } else { PRODUCTS };
        while e.tile_rows > LEAST_ROWS && e.tile_rows * e.columns > most {
            e.tile_rows /= 2;
        }
        e.tile_depth = e.tile_depth.min(e.depth.max(1));
        let is_large = |e: &Extents| TaskLayout::new(exec, e).bytes > SCRATCH;
        while e.tile_rows > ROWS && is_large(&e) {
            e.tile_rows /= 2;
        }
        while e.tile_keys > LEAST_KEYS && is_large(&e) {
            e.tile_keys /= 2;
        }
        // How the rows are cut changes no result.
        let few = |e: &Extents| e.batch * e.rows.div_ceil(e.tile_rows) < 4 * rayon::current_num_threads();
        while e.tile_rows > ROWS && few(&e) {
            e.tile_rows /= 2;
        }
        e.tile_rows = e.tile_rows.min(e.rows.max(1));
        e.tile_keys = e.tile_keys.min(e.keys.max(1));
        e
    }

    /// The streamed positions of a range.
    pub(super) fn keys_of(&self, range: usize) -> Range<usize> {
        range * RANGE..self.keys.min((range + 1) * RANGE)
    }

    /// Rows of a tile.
    pub(super) fn strip(&self) -> usize {
        if self.in_strips { STRIP.min(self.tile_rows) } else { self.tile_rows }
    }

    pub(super) fn of_scores(&self) -> Sizes {
        Sizes {
            batch: self.batch,
            rows: self.rows,
            columns: self.keys,
            depth: self.depth,
            tile_rows: self.tile_rows,
            tile_columns: self.tile_keys,
            tile_depth: self.tile_depth,
        }
    }

    pub(super) fn of_values(&self) -> Sizes {
        Sizes {
            batch: self.batch,
            rows: self.rows,
            columns: self.columns,
            depth: self.keys,
            tile_rows: self.tile_rows,
            tile_columns: self.columns.max(1),
            tile_depth: self.tile_keys,
        }
    }
}

/// Where a source of products lies, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceLayout {
    pub(super) panel: usize,
    /// The same again, packed for the multiplication of strips.
    pub(super) packed: usize,
}

/// Where the scratch of a task lies, in bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskLayout {
    /// The sources of products: those of the scores, then the values.
    pub(super) sources: Vec<SourceLayout>,
    /// By product of the scores.
    pub(super) products: Vec<usize>,
    /// By tile; one that is a product lies there.
    pub(super) tiles: Vec<usize>,
    /// By kept value of the weights.
    pub(super) weights: Vec<(ValueId, usize)>,
    pub(super) exponentials: usize,
    /// The products, the greatest values and the sums lie one after the other: the state of the rows.
    pub(super) sum: usize,
    pub(super) greatest: usize,
    pub(super) maxima: Vec<usize>,
    pub(super) sums: Vec<usize>,
    /// Bytes of that state, and where that of earlier ranges is kept.
    pub(super) state: usize,
    pub(super) earlier: usize,
    pub(super) factors: usize,
    pub(super) of_tile: usize,
    pub(super) references: usize,
    /// By value that rows give to the epilogue, over the rows.
    pub(super) of_rows: Vec<(ValueId, usize)>,
    /// The same spread over a block of the epilogue, and before them the factor of the products.
    pub(super) broadcast: Vec<usize>,
    pub(super) factor: usize,
    /// The factor, or 1 where the weights were multiplied by it, over the rows.
    pub(super) of_products: usize,
    pub(super) bytes: usize,
}

impl TaskLayout {
    pub(super) fn new(exec: &StreamExec, e: &Extents) -> TaskLayout {
        let parts = &exec.parts;
        let mut layout = TaskLayout::default();
        let mut bytes = 0;
        let mut take = |size: usize| {
            let at = bytes;
            bytes += size.next_multiple_of(64);
            at
        };
        let (rows, tile) = (e.tile_rows, e.strip() * e.tile_keys);
        let scores = exec.panels.iter().map(|panel| match panel.is_left {
            true => (panel, rows, e.tile_depth),
            false => (panel, e.tile_keys, e.tile_depth),
        });
        for (panel, own, depth) in scores.chain([(&exec.values, e.columns, e.tile_keys)]) {
            let packs = e.in_strips && !panel.is_left;
            let packed = if packs { strip::packed_len(exec.set, own, depth) } else { 0 };
            layout.sources.push(SourceLayout {
                panel: take(own * depth * panel.dtype().size()),
                packed: take(packed * size_of::<f32>()),
            });
        }
        layout.products = parts.scores.products.iter().map(|p| take(tile * p.dtype.size())).collect();
        for (k, v) in parts.tiles.iter().enumerate() {
            let product = parts.scores.products.iter().position(|p| p.value == *v);
            let same = parts.tiles[..k].iter().position(|u| u == v);
            let at = match (product, same) {
                (Some(p), _) => layout.products[p],
                (None, Some(same)) => layout.tiles[same],
                (None, None) => take(tile * exec.dtype_of_score(*v).size()),
            };
            layout.tiles.push(at);
        }
        if let Some(weights) = &exec.weights {
            for &v in &weights.group.passes[0].buffered {
                layout.weights.push((v, take(tile * weights.group.value(v).dtype.compute().size())));
            }
        }
        layout.exponentials = match parts.exponent {
            Some(k) if !exec.reads_exponents() => layout.tiles[k],
            Some(_) => take(tile * 4),
            None => 0,
        };
        layout.sum = take(rows * e.columns * 4);
        layout.greatest = take(rows * 4);
        layout.maxima = parts.maxima.iter().map(|_| take(rows * 4)).collect();
        layout.sums = parts.sums.iter().map(|_| take(rows * 4)).collect();
        layout.factors = take(rows * 4);
        layout.state = layout.factors - layout.sum;
        layout.earlier = if e.ranges > 1 { take(layout.state) } else { layout.sum };
        (layout.of_tile, layout.references) = (take(rows * 4), take(rows * 4));
        for &v in &exec.of_rows.group.passes[0].buffered {
            layout.of_rows.push((v, take(rows * 8)));
        }
        let block = BLOCK.max(e.columns);
        layout.broadcast = parts.broadcast.iter().map(|_| take(block * 8)).collect();
        layout.factor = take(block * 4);
        layout.of_products = take(rows * 4);
        layout.bytes = bytes;
        layout
    }
}

impl StreamExec {
    /// Whether there is a multiplication of strips for all products.
    fn multiplies_strips(&self) -> bool {
        let is_float = |p: &PartProduct| p.dtype == DType::F32;
        strip::panel(self.set).is_some()
            && self.values.dtype() == DType::F32
            && self.parts.scores.products.iter().all(is_float)
    }

    /// Whether the exponents are read after they were exponentiated, or are a value that is read twice.
    pub(super) fn reads_exponents(&self) -> bool {
        let parts = &self.parts;
        let Some(k) = parts.exponent else { return false };
        let is = |t: usize| parts.tiles[t] == parts.tiles[k];
        let reads = |source: &Source| matches!(source, Source::Tile(t) if is(*t));
        parts.weights.iter().any(|w| w.tiles.iter().any(|(_, t)| is(*t)))
            || parts.sums.iter().any(|s| reads(&s.source))
            || reads(&parts.left.0)
    }
}
