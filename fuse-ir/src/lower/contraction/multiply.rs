//! The products of a stage.

use super::panel::Staged;
use super::shape::{TileShape, Unit};
use crate::dtype::DType;
use crate::id::ArrayId;
use crate::kernel_ir::build::{element, slots};
use crate::kernel_ir::{Builtin, Expr, MmaShape, Unroll};
use crate::lower::body::{Emitter, multiply_add};
use crate::schedule::contraction::Parts;

/// The rows or columns that a thread has of its block's tile, where lanes multiply.
pub(super) struct Owned {
    /// The first row or column of the warp.
    base: Expr,
    /// Which of the lanes along this side it is, a u32.
    pub(super) lane: Expr,
    /// How many lanes there are along this side.
    lanes: u32,
    /// How many it has.
    pub(super) count: u32,
    /// How many of them follow one another.
    pub(super) run: u32,
}

/// Where a thread stands in the tile of its block.
pub(super) struct ThreadPlace {
    /// Its warp among those down and along the tile.
    pub(super) warp_row: Expr,
    pub(super) warp_column: Expr,
    /// What it has of the tile, where lanes multiply.
    pub(super) rows: Owned,
    pub(super) columns: Owned,
}

impl Owned {
    /// The one of that number; `n` is known at compile time.
    pub(super) fn position(&self, n: &Expr) -> Expr {
        if self.run == 1 {
            return &self.base + &self.lane + n * self.lanes;
        }
        let group = (n / self.run) * (self.lanes * self.run);
        &self.base + &self.lane * self.run + group + n % self.run
    }
}

impl Emitter<'_> {
    /// Adds the products of the stage `slot` to the sums.
    pub(super) fn multiply(
        &mut self,
        parts: &Parts,
        staged: &[Staged],
        shape: TileShape,
        slot: &Expr,
        sums: &[ArrayId],
        thread: &ThreadPlace,
    ) {
        match shape.unit {
            Unit::Tensor(mma) => self.multiply_matrices(parts, staged, shape, mma, slot, sums, thread),
            Unit::Scalar(_) => self.multiply_numbers(parts, staged, shape, slot, sums, thread),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "everything that takes part in a product")]
    fn multiply_matrices(
        &mut self,
        parts: &Parts,
        staged: &[Staged],
        shape: TileShape,
        mma: MmaShape,
        slot: &Expr,
        sums: &[ArrayId],
        thread: &ThreadPlace,
    ) {
        let [warp_rows, warp_columns] = shape.of_warp();
        let (down, along) = (warp_rows / 16, warp_columns / 8);
        let [_, _, step_depth] = mma.extents();
        let warp_row = &thread.warp_row * warp_rows;
        let warp_column = &thread.warp_column * warp_columns;
        let lane = Expr::from(Builtin::Lane);
        self.repeat("k_step", shape.depth / step_depth, Unroll::Full, |em, step| {
            let mut operands: Vec<ArrayId> = Vec::new();
            for panel in staged {
                let is_left = parts.panels[panel.panel].is_left;
                let name = if is_left { "left" } else { "right" };
                // Four matrices of 8 × 8: 16 rows, or 16 columns, by the depth of a product.
                let (base, tiles) = if is_left { (&warp_row, down) } else { (&warp_column, along / 2) };
                let array = em.builder.array(name, DType::U32, 4 * tiles, None);
                em.repeat("tile", tiles, Unroll::Full, |em, tile| {
                    let of_side = base + &tile * 16u32;
                    let inner = &lane & 7u32;
                    // Of the matrices 0 to 3 the second is further down for a left operand, further along the reduced
                    // positions for a right one.
                    let (second, fourth) = ((&lane >> 3u32) & 1u32, &lane >> 4u32);
                    let (of_side_block, of_depth_block) =
                        if is_left { (second, fourth) } else { (fourth, second) };
                    let at = match panel.along_depth {
                        true => panel.chunk(
                            &(of_side + of_side_block * 8u32 + inner),
                            &(&step * 2u32 + of_depth_block),
                        ),
                        false => panel.chunk(
                            &(&step * 16u32 + of_depth_block * 8u32 + inner),
                            &(of_side / 8u32 + of_side_block),
                        ),
                    };
                    let at = panel.stage(slot) + at;
                    em.builder.load_matrix(slots(array, &tile * 4u32, 4), panel.view, at, !panel.along_depth);
                });
                operands.push(array);
            }
            let operand = |panel: usize| staged.iter().position(|s| s.panel == panel).map(|k| operands[k]);
            em.repeat("down", down, Unroll::Full, |em, i| {
                em.repeat("along", along, Unroll::Full, |em, j| {
                    for (product, array) in parts.products.iter().zip(sums) {
                        let (Some(a), Some(b)) = (operand(product.left), operand(product.right)) else {
                            continue;
                        };
                        let acc = slots(*array, (&i * along + &j) * 4u32, 4);
                        let a = slots(a, &i * 4u32, 4);
                        let b = slots(b, &j * 2u32, 2);
                        em.builder.mma(mma, acc, a, b);
                    }
                });
            });
        });
    }

    fn multiply_numbers(
        &mut self,
        parts: &Parts,
        staged: &[Staged],
        shape: TileShape,
        slot: &Expr,
        sums: &[ArrayId],
        thread: &ThreadPlace,
    ) {
        let of_chunk = staged.first().map_or(1, Staged::of_chunk);
        let (rows, columns) = (&thread.rows, &thread.columns);
        self.repeat("k_part", shape.depth / of_chunk, Unroll::None, |em, part| {
            // Of a panel along the depth a chunk is the depth of one position: all of them are held through the chunk. Of
            // others it is some positions at one depth, and they are held for that alone.
            let mut operands: Vec<Option<ArrayId>> = Vec::new();
            for panel in staged {
                let held = panel.along_depth.then(|| {
                    let (name, own) = side_of(parts, panel, thread);
                    let dtype = em.builder.kernel().view(panel.view).dtype;
                    let array = em.builder.array(name, dtype, own.count * of_chunk, None);
                    let from = panel.stage(slot);
                    em.repeat("n", own.count, Unroll::Full, |em, n| {
                        let at = &from + panel.chunk(&own.position(&n), &part);
                        em.builder.load_into(slots(array, &n * of_chunk, of_chunk), panel.view, at, None);
                    });
                    array
                });
                operands.push(held);
            }
            em.repeat("k", of_chunk, Unroll::Full, |em, k| {
                let mut operands = operands.clone();
                for (panel, held) in staged.iter().zip(&mut operands) {
                    held.get_or_insert_with(|| {
                        let (name, own) = side_of(parts, panel, thread);
                        let dtype = em.builder.kernel().view(panel.view).dtype;
                        let array = em.builder.array(name, dtype, own.count, None);
                        let from = panel.stage(slot);
                        em.repeat("n", own.count / of_chunk, Unroll::Full, |em, n| {
                            let first = &n * of_chunk;
                            let chunk = own.position(&first) / of_chunk;
                            let at = &from + panel.chunk(&(&part * of_chunk + &k), &chunk);
                            em.builder.load_into(slots(array, first, of_chunk), panel.view, at, None);
                        });
                        array
                    });
                }
                // The register of the operand's element for the row or column `n`.
                let operand = |number: usize, n: &Expr| {
                    let at = staged.iter().position(|s| s.panel == number)?;
                    let index = if staged[at].along_depth { n * of_chunk + &k } else { n.clone() };
                    Some(element(operands[at]?, index))
                };
                em.repeat("down", rows.count, Unroll::Full, |em, i| {
                    em.repeat("along", columns.count, Unroll::Full, |em, j| {
                        for (product, array) in parts.products.iter().zip(sums) {
                            let (Some(a), Some(b)) = (operand(product.left, &i), operand(product.right, &j))
                            else {
                                continue;
                            };
                            let slot = &i * columns.count + &j;
                            let sum = element(*array, &slot);
                            let sum = multiply_add(product.dtype, [a, b], sum);
                            em.builder.set_element(*array, slot, sum);
                        }
                    });
                });
            });
        });
    }

    /// Where this thread stands in the tile of its block.
    pub(super) fn place_thread(&mut self, parts: &Parts, staged: &[Staged], shape: TileShape) -> ThreadPlace {
        let [warp_rows, warp_columns] = shape.of_warp();
        let [_, warps_along] = shape.warps();
        let warp = Expr::from(Builtin::Warp);
        let warp_row = self.builder.bind("warp_row", &warp / warps_along);
        let warp_column = self.builder.bind("warp_column", warp % warps_along);
        let (down, along) = (shape.rows_at_once(), shape.columns_at_once());
        let mut lanes = [Expr::from(Builtin::Lane) / along, Expr::from(Builtin::Lane) % along];
        if !shape.is_tensor() {
            lanes =
                [("lane_row", &lanes[0]), ("lane_column", &lanes[1])].map(|(n, e)| self.builder.bind(n, e));
        }
        let run = |is_left: bool| {
            let first = parts.panels.iter().position(|p| p.is_left == is_left);
            let panel = first.and_then(|k| staged.iter().find(|s| s.panel == k));
            panel.map_or(1, |p| if p.along_depth { 1 } else { p.of_chunk() })
        };
        let [lane_row, lane_column] = lanes;
        let of = |warp: &Expr, size: u32, lane: Expr, lanes: u32, run: u32| Owned {
            base: warp * size,
            lane,
            lanes,
            count: size / lanes,
            run,
        };
        let rows = of(&warp_row, warp_rows, lane_row, down, run(true));
        let columns = of(&warp_column, warp_columns, lane_column, along, run(false));
        ThreadPlace { warp_row, warp_column, rows, columns }
    }
}

/// What a panel is called in registers, and which rows or columns of it the thread has.
fn side_of<'t>(parts: &Parts, panel: &Staged, thread: &'t ThreadPlace) -> (&'static str, &'t Owned) {
    if parts.panels[panel.panel].is_left { ("left", &thread.rows) } else { ("right", &thread.columns) }
}
