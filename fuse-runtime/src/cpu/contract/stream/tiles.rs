//! What is done with a tile: scores, exponentials, weights, statistics, products.

use super::super::super::geometry::Block;
use super::super::BLOCK;
use super::super::multiply::{self, Multiply, Operand};
use super::super::online::{self, Advance, Rows};
use super::super::panel::PanelPlace;
use super::super::strip::{self, Strip};
use super::{Place, Run, Thread};
use fuse_ir::dtype::DType;
use fuse_ir::id::ValueId;
use fuse_ir::schedule::streamed::Source;

impl Run<'_> {
    /// The tiles of a block, which masks may admit as a whole.
    pub(super) fn make_scores(&self, thread: &mut Thread<'_>, place: Place, admitted: bool) {
        let (e, layout) = (&self.e, &self.layout);
        let products = &self.exec.parts.scores.products;
        for k in (0..e.depth.max(1)).step_by(e.tile_depth) {
            let depth = e.tile_depth.min(e.depth - k.min(e.depth));
            let mut operands = Vec::with_capacity(self.panels.len());
            for (i, panel) in self.panels.iter().enumerate() {
                operands.push(match panel.exec.is_left {
                    true => {
                        let rows = (place.task, place.of_task);
                        let all = self.panel(thread, i, place.c, rows, (k, depth));
                        all.at_side(place.first, panel.exec.dtype())
                    }
                    false => self.columns(thread, i, place.c, (place.key, place.of_block), (k, depth)),
                });
            }
            for (p, at) in products.iter().zip(&layout.products) {
                let operand = |k: usize| operands.get(k).copied().unwrap_or(Operand::NOTHING);
                let shape =
                    Multiply { rows: place.rows, columns: place.keys, depth, add: k > 0, set: self.exec.set };
                // SAFETY: the operands have that many rows, columns and reduced positions; the tile is the task's own.
                unsafe { self.multiply(p.dtype, shape, operand(p.left), operand(p.right), thread.at(*at)) };
            }
        }
        let parts = &self.exec.parts;
        let admitted = parts.admitted.as_ref().filter(|_| admitted);
        let place_of = match admitted {
            Some(_) => &mut thread.admitted,
            None => &mut thread.scores,
        };
        let Some(mut worker) = place_of.take() else { return };
        // The products and the tiles, by their values in the group.
        let own = |v: ValueId| match admitted {
            Some(a) => a.products.iter().find(|(_, p)| *p == v).map(|(own, _)| *own),
            None => Some(v),
        };
        let tiles: Vec<(ValueId, usize)> = match admitted {
            Some(a) => a.tiles.clone(),
            None => parts.tiles.iter().copied().enumerate().map(|(k, v)| (v, k)).collect(),
        };
        let step = (BLOCK / place.keys).max(1).min(worker.launch.steps.a);
        for row in (0..place.rows).step_by(step) {
            let rows = step.min(place.rows - row);
            let block =
                Block { c: place.c, a: place.row() + row, a_len: rows, b: place.key, b_len: place.keys };
            let at = |offset: usize, size: usize| thread.at::<u8>(offset + row * place.keys * size);
            for (p, offset) in products.iter().zip(&layout.products) {
                if let Some(v) = own(p.value) {
                    worker.give_tile(v, at(*offset, p.dtype.size()), place.keys);
                }
            }
            for &(v, k) in &tiles {
                let size = self.exec.dtype_of_score(parts.tiles[k]).size();
                worker.give_row_buffer(v, at(layout.tiles[k], size));
            }
            worker.run_sweeps(&block);
        }
        match admitted {
            Some(_) => thread.admitted = Some(worker),
            None => thread.scores = Some(worker),
        }
    }

    /// The values among the sources of products: they are the last.
    pub(super) fn index_of_values(&self) -> usize {
        self.exec.panels.len()
    }

    /// A source of products, if there is anything of it.
    fn source_place(&self, index: usize) -> Option<&PanelPlace<'_>> {
        self.panels.get(index).or(self.values.as_ref())
    }

    /// A source of products at these positions: where it lies, or its panel.
    pub(super) fn panel(
        &self,
        thread: &mut Thread<'_>,
        index: usize,
        c: usize,
        side: (usize, usize),
        depth: (usize, usize),
    ) -> Operand {
        let Some(place) = self.source_place(index) else { return Operand::NOTHING };
        if let Some(operand) = place.direct(c, side.0, depth.0) {
            return operand;
        }
        let memory = thread.at(self.layout.sources[index].panel);
        let wanted = Some([c, side.0, depth.0]);
        if std::mem::replace(&mut thread.held[index].panel, wanted) != wanted
            && let Some(worker) = thread.panels.get_mut(index).or(thread.values.as_mut())
        {
            place.fill(worker, memory, c, side, depth);
        }
        place.operand(memory, side.1, depth.1)
    }

    /// A source of columns as it is multiplied: strips take it packed.
    fn columns(
        &self,
        thread: &mut Thread<'_>,
        index: usize,
        c: usize,
        side: (usize, usize),
        depth: (usize, usize),
    ) -> Operand {
        let (operand, set) = (self.panel(thread, index, c, side, depth), self.exec.set);
        if !self.e.in_strips || strip::is_packed(set, operand, side.1) {
            return operand;
        }
        let memory = thread.at(self.layout.sources[index].packed);
        let wanted = Some([c, side.0, depth.0]);
        if std::mem::replace(&mut thread.held[index].packed, wanted) != wanted {
            // SAFETY: the operand has that many columns and positions, and the scratch room for them.
            unsafe { strip::pack(set, operand, side.1, depth.1, memory) };
        }
        strip::packed(set, memory, depth.1)
    }

    /// # Safety
    /// As for [`multiply::multiply`].
    unsafe fn multiply(&self, dtype: DType, shape: Multiply, left: Operand, right: Operand, tile: *mut u8) {
        if !self.e.in_strips {
            // SAFETY: by the contract.
            return unsafe { multiply::multiply((dtype, dtype), shape, left, right, tile) };
        }
        let Multiply { rows, columns, depth, add, set } = shape;
        let strip =
            Strip { rows, columns, depth, left, right, result: tile.cast(), result_step: columns, add };
        // SAFETY: by the contract; strips are of f32, packed, and their instruction set has a multiplication of them.
        unsafe { strip::multiply(set, strip) };
    }

    pub(super) fn rows_at(&self, thread: &Thread<'_>, offset: usize, place: Place) -> Rows {
        Rows { data: thread.at(offset), stride: place.keys, rows: place.rows, len: place.keys }
    }

    pub(super) fn source(&self, source: Source) -> usize {
        let layout = &self.layout;
        match source {
            Source::Tile(k) => layout.tiles[k],
            Source::Exponential => layout.exponentials,
            Source::Weight(v) => layout.weights.iter().find(|(u, _)| *u == v).map_or(0, |(_, at)| *at),
        }
    }

    /// The greatest values of a block, and its exponentials.
    pub(super) fn exponentiate(&self, thread: &mut Thread<'_>, place: Place) {
        let (layout, parts, set) = (&self.layout, &self.exec.parts, self.exec.set);
        let (n, of_rows) = (place.rows, place.first * size_of::<f32>());
        for (m, at) in parts.maxima.iter().zip(&layout.maxima) {
            if Some(m.tile) != parts.exponent {
                let tile = self.rows_at(thread, layout.tiles[m.tile], place);
                // SAFETY: tile and array are the task's own.
                unsafe { online::take_greatest(set, tile, thread.row_array(*at + of_rows, n)) };
            }
        }
        if let Some(k) = parts.exponent {
            let (from, to) = (layout.tiles[k], layout.exponentials);
            // SAFETY: the arrays are the task's own and differ from one another; the tiles have that many elements.
            unsafe {
                if from != to {
                    let (from, to) = (thread.at::<f32>(from), thread.at::<f32>(to));
                    std::ptr::copy_nonoverlapping(from, to, n * place.keys);
                }
                let mut advance = Advance {
                    tile: self.rows_at(thread, to, place),
                    greatest: thread.row_array(layout.greatest + of_rows, n),
                    factors: thread.row_array(layout.factors + of_rows, n),
                    sums: thread.row_array(layout.of_tile + of_rows, n),
                    set,
                };
                online::advance(set, &mut advance);
            }
        }
    }

    /// The weights of a block, where they are more than exponentials.
    pub(super) fn make_weights(&self, thread: &mut Thread<'_>, place: Place) {
        let (layout, parts, n) = (&self.layout, &self.exec.parts, place.rows);
        if let (Some(exec), Some(weights), Some(mut worker)) =
            (&self.exec.weights, &parts.weights, thread.weights.take())
        {
            let step = (BLOCK / place.keys).max(1).min(worker.launch.steps.a);
            for row in (0..n).step_by(step) {
                let rows = step.min(n - row);
                let block =
                    Block { c: place.c, a: place.row() + row, a_len: rows, b: place.key, b_len: place.keys };
                let at = |offset: usize, size: usize| thread.at::<u8>(offset + row * place.keys * size);
                if let Some(v) = weights.exponential {
                    worker.give_tile(v, at(layout.exponentials, 4), place.keys);
                }
                for &(v, k) in &weights.tiles {
                    let size = self.exec.dtype_of_score(parts.tiles[k]).size();
                    worker.give_tile(v, at(layout.tiles[k], size), place.keys);
                }
                for &(v, offset) in &layout.weights {
                    worker.give_row_buffer(v, at(offset, exec.group.value(v).dtype.compute().size()));
                }
                worker.run_sweeps(&block);
            }
            thread.weights = Some(worker);
        }
    }

    /// Adds the sums of a block to those before, which are scaled.
    pub(super) fn take_along(&self, thread: &mut Thread<'_>, place: Place) {
        let (layout, parts, set) = (&self.layout, &self.exec.parts, self.exec.set);
        let (n, of_rows) = (place.rows, place.first * size_of::<f32>());
        // SAFETY: the arrays are the task's own and differ from one another.
        unsafe {
            let (factors, of_tile) = (
                thread.row_array(layout.factors + of_rows, n),
                thread.row_array(layout.of_tile + of_rows, n),
            );
            // The sums of exponentials stand there already.
            let mut order: Vec<usize> = (0..parts.sums.len()).collect();
            order.sort_by_key(|&s| parts.sums[s].source != Source::Exponential);
            for s in order {
                let sum = &parts.sums[s];
                if sum.source != Source::Exponential {
                    online::sum_rows(set, self.rows_at(thread, self.source(sum.source), place), of_tile);
                }
                let total = thread.row_array(layout.sums[s] + of_rows, n);
                for ((total, more), factor) in total.iter_mut().zip(&*of_tile).zip(&*factors) {
                    *total = if sum.scaled { *total * factor } else { *total } + more;
                }
            }
            if parts.left.1 && factors.iter().any(|f| *f != 1.0) {
                let columns = self.e.columns;
                let data = thread.at(layout.sum + of_rows * columns);
                let sum = Rows { data, stride: columns, rows: n, len: columns };
                online::scale_rows(set, sum, factors);
            }
        }
    }

    /// Adds the products of a block.
    pub(super) fn add_products(&self, thread: &mut Thread<'_>, place: Place) {
        if self.values.is_none() {
            return;
        }
        let depth = (place.key, place.of_block);
        let columns = self.e.columns;
        let right = self.columns(thread, self.index_of_values(), place.c, (0, columns), depth);
        let left = Operand {
            data: thread.at::<u8>(self.source(self.exec.parts.left.0)),
            side: place.keys as isize,
            depth: 1,
        };
        let shape = Multiply { rows: place.rows, columns, depth: place.keys, add: true, set: self.exec.set };
        let sum = thread.at(self.layout.sum + place.first * columns * size_of::<f32>());
        // SAFETY: the weights are a tile of that many rows, the values have that many columns and positions, and the products
        // are the task's own.
        unsafe { self.multiply(DType::F32, shape, left, right, sum) };
    }
}
