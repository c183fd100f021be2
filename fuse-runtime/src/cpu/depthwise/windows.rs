//! Where the elements under the windows of a launch lie, and which of them there are.

use super::super::affine::{CallEnv, Domain, Form};
use super::super::bindings::{Bindings, Buffer};
use super::super::geometry::Block;
use super::super::launch::find_buffer;
use fuse_ir::id::AxisId;
use fuse_ir::index_map::IndexExpr;
use fuse_ir::schedule::{Operand, ScheduledGroup};

/// A number that is affine in the position: `base + Σ rest + row · a + lane · b + taps[t]`.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Affine {
    base: i64,
    /// By axis of the rest.
    rest: Vec<i64>,
    pub(super) row: i64,
    pub(super) lane: i64,
    /// By reduced position, without that of the first.
    pub(super) taps: Vec<i64>,
}

impl Affine {
    /// At the first position of a block, under the first tap.
    pub(super) fn at(&self, rest_extents: &[usize], block: &Block) -> i64 {
        let mut number = self.base + self.row * block.a as i64 + self.lane * block.b as i64;
        let mut c = block.c;
        for (&extent, &stride) in rest_extents.iter().zip(&self.rest).rev() {
            number += stride * (c % extent) as i64;
            c /= extent;
        }
        number
    }
}

/// Something that must lie from 0 to below a limit; else the element is zero.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    pub(super) number: Affine,
    pub(super) limit: i64,
}

/// One axis of the source.
#[derive(Clone, Debug)]
pub(super) struct SourceAxis {
    pub(super) position: Affine,
    pub(super) extent: i64,
    /// Elements from one position to the next in memory.
    pub(super) stride: isize,
}

/// The windows of a launch.
#[derive(Debug)]
pub(super) struct Windows {
    /// Extents of the outer axes that are neither rows nor lanes.
    pub(super) rest_extents: Vec<usize>,
    pub(super) rows: usize,
    pub(super) lanes: usize,
    /// The address of what is read, in elements.
    pub(super) source: Affine,
    pub(super) source_data: *const f32,
    pub(super) axes: Vec<SourceAxis>,
    /// What may fail.
    pub(super) guards: Vec<Guard>,
    pub(super) filter: Affine,
    pub(super) filter_data: *const f32,
}

// SAFETY: the pointers are those of the bindings and only read; the caller of the launch vouches that nobody writes there.
unsafe impl Sync for Windows {}

/// What forms are made for.
struct Walk<'a> {
    domain: Domain,
    env: CallEnv<'a>,
    sides: [&'a [AxisId]; 3],
    /// The index on each dimension of every reduced position.
    taps: Vec<Vec<usize>>,
}

impl Windows {
    /// Resolves the windows of a call; `None` if an address is not affine, which the plan excludes.
    pub(super) fn new(
        group: &ScheduledGroup,
        (source, filter): (&Operand, &Operand),
        sides: [&[AxisId]; 3],
        bindings: &Bindings<'_>,
    ) -> Option<Windows> {
        let env = CallEnv { extents: bindings.extents, scalars: bindings.scalars };
        let domain = Domain::new(&group.outer, &group.reduced, &[], env)?;
        let walk =
            Walk { domain, env, sides, taps: list_positions(&domain.extents[domain.outer..domain.len]) };
        let (Operand::Buffer { buffer, map, .. }, Operand::Buffer { buffer: of_filter, map: filter_map, .. }) =
            (source, filter)
        else {
            return None;
        };
        let (memory, of_filter) = (find_buffer(bindings, *buffer), find_buffer(bindings, *of_filter));
        let mut axes = Vec::with_capacity(map.indices.len());
        for ((axis, expr), &stride) in map.indices.iter().zip(memory.strides) {
            let position = walk.affine(&walk.form(expr)?);
            axes.push(SourceAxis { position, extent: env.extent(*axis), stride });
        }
        let mut guards = Vec::new();
        for bound in &map.bounds {
            let (form, limit) = (walk.form(&bound.expr)?, env.constant(&bound.extent));
            let (low, high) = form.range(&domain);
            if low < 0 || high >= limit {
                guards.push(Guard { number: walk.affine(&form), limit });
            }
        }
        let count = |axis: &AxisId| bindings.extents[axis.index()].max(0) as usize;
        let [rest, rows, lanes] = sides;
        Some(Windows {
            rest_extents: rest.iter().map(count).collect(),
            rows: rows.iter().map(count).product(),
            lanes: lanes.iter().map(count).product(),
            source: walk.address(&map.indices, memory)?,
            source_data: memory.data.cast(),
            axes,
            guards,
            filter: walk.address(&filter_map.indices, of_filter)?,
            filter_data: of_filter.data.cast(),
        })
    }

    /// Positions that are neither rows nor lanes.
    pub(super) fn rest(&self) -> usize {
        self.rest_extents.iter().product()
    }

    /// How many taps there are.
    pub(super) fn taps(&self) -> usize {
        self.source.taps.len()
    }

    /// Multiply-adds.
    pub(super) fn work(&self) -> usize {
        let outer = self.rest().saturating_mul(self.rows).saturating_mul(self.lanes);
        outer.saturating_mul(self.taps().max(16))
    }

    /// Whether the lanes of the source are neighbours in memory and windows do not slide along them.
    pub(super) fn is_direct(&self) -> bool {
        let still = |g: &Guard| g.number.lane == 0;
        (self.source.lane == 1 || self.lanes == 1) && self.guards.iter().all(still)
    }

    /// Whether the taps of lanes are neither one element nor neighbours.
    pub(super) fn filter_is_packed(&self) -> bool {
        !matches!(self.filter.lane, 0 | 1)
    }

    /// The guarded numbers at the first position of a block under the first tap.
    pub(super) fn find_starts(&self, block: &Block, starts: &mut Vec<i64>) {
        starts.clear();
        starts.extend(self.guards.iter().map(|g| g.number.at(&self.rest_extents, block)));
    }

    /// Whether there is an element under a tap, that many rows from where the numbers are `starts`.
    pub(super) fn is_inside(&self, starts: &[i64], row: usize, tap: usize) -> bool {
        self.guards.iter().zip(starts).all(|(g, start)| {
            let number = start + g.number.row * row as i64 + g.number.taps[tap];
            (0..g.limit).contains(&number)
        })
    }

    /// Cuts rows where the taps change under which there is an element.
    pub(super) fn find_cuts(&self, starts: &[i64], rows: usize, cuts: &mut Vec<usize>) {
        cuts.clear();
        cuts.extend([0, rows]);
        for (g, start) in self.guards.iter().zip(starts) {
            // Taps of one number are cut alike.
            let mut last = None;
            for tap in g.number.taps.iter().filter(|&&t| last.replace(t) != Some(t)) {
                let inside = find_inside(start + tap, g.number.row, g.limit, rows);
                // There are few: as many as taps along one axis reach over the edges.
                for at in [inside.start, inside.end] {
                    if !cuts.contains(&at) {
                        cuts.push(at);
                    }
                }
            }
        }
        cuts.sort_unstable();
    }

    /// The sums of a tile element by element.
    ///
    /// # Safety
    /// The bindings vouch for the elements that the plan reads; the sums are those of the tile.
    pub(super) unsafe fn sum_single(&self, tile: &Block, sums: *mut f32) {
        for row in 0..tile.a_len {
            let block = Block { a: tile.a + row, a_len: 1, ..*tile };
            // SAFETY: by the contract.
            let sums = unsafe { std::slice::from_raw_parts_mut(sums.add(row * tile.b_len), tile.b_len) };
            sums.fill(0.0);
            let source = self.source.at(&self.rest_extents, &block);
            let filter = self.filter.at(&self.rest_extents, &block);
            for t in 0..self.taps() {
                let mut inside = 0..tile.b_len;
                for g in &self.guards {
                    let start = g.number.at(&self.rest_extents, &block) + g.number.taps[t];
                    let own = find_inside(start, g.number.lane, g.limit, tile.b_len);
                    inside = inside.start.max(own.start)..inside.end.min(own.end);
                }
                for (j, sum) in sums.iter_mut().enumerate() {
                    let at =
                        |first: i64, form: &Affine| (first + form.taps[t] + form.lane * j as i64) as isize;
                    // SAFETY: by the contract: the element is one that the plan reads.
                    unsafe {
                        let x = match inside.contains(&j) {
                            true => *self.source_data.offset(at(source, &self.source)),
                            false => 0.0,
                        };
                        *sum += x * *self.filter_data.offset(at(filter, &self.filter));
                    }
                }
            }
        }
    }
}

/// For which of the positions below `len` the number `start + stride · position` lies from 0 to below `limit`.
fn find_inside(start: i64, stride: i64, limit: i64, len: usize) -> std::ops::Range<usize> {
    let ceil = |x: i64| -(-x).div_euclid(stride.abs().max(1));
    let (low, high) = match stride {
        0 if (0..limit).contains(&start) => (0, len as i64),
        0 => (0, 0),
        1.. => (ceil(-start), ceil(limit - start)),
        _ => (ceil(start - limit + 1), ceil(start + 1)),
    };
    let clip = |x: i64| x.clamp(0, len as i64) as usize;
    let (low, high) = (clip(low), clip(high));
    low..high.max(low)
}

/// All positions of dimensions, the last of them the fastest.
fn list_positions(extents: &[usize]) -> Vec<Vec<usize>> {
    let count: usize = extents.iter().product();
    let position = |mut linear: usize| {
        let mut indices = vec![0; extents.len()];
        for (index, &extent) in indices.iter_mut().zip(extents).rev() {
            *index = linear % extent;
            linear /= extent;
        }
        indices
    };
    (0..count).map(position).collect()
}

impl Walk<'_> {
    fn form(&self, expr: &IndexExpr) -> Option<Form> {
        self.domain.affine(expr, self.env)
    }

    /// The address of an element in a buffer.
    fn address(&self, indices: &[(AxisId, IndexExpr)], buffer: Buffer<'_>) -> Option<Affine> {
        let mut form = Form::default();
        for ((_, expr), &stride) in indices.iter().zip(buffer.strides) {
            form.add_scaled(&self.form(expr)?, stride as i64);
        }
        Some(self.affine(&form))
    }

    fn affine(&self, form: &Form) -> Affine {
        let d = &self.domain;
        // An axis of one position is no dimension and moves nothing.
        let along = |axis: &AxisId| {
            let found = (0..d.outer).find(|&k| d.parts[k].0 == *axis);
            found.map_or(0, |k| form.strides[k])
        };
        let [rest, rows, lanes] = self.sides;
        let reduced = &form.strides[d.outer..d.len];
        let of_tap = |indices: &Vec<usize>| indices.iter().zip(reduced).map(|(&i, s)| i as i64 * s).sum();
        Affine {
            base: form.base,
            rest: rest.iter().map(along).collect(),
            row: rows.iter().map(along).sum(),
            lane: lanes.iter().map(along).sum(),
            taps: self.taps.iter().map(of_tap).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::find_inside;

    #[test]
    fn positions_inside_are_those_whose_numbers_are() {
        for stride in -3i64..=3 {
            for start in -9i64..=9 {
                for limit in 0i64..=7 {
                    for len in 0usize..=6 {
                        let inside = find_inside(start, stride, limit, len);
                        for k in 0..len {
                            let holds = (0..limit).contains(&(start + stride * k as i64));
                            assert_eq!(inside.contains(&k), holds, "{start} {stride} {limit} {len}: {k}");
                        }
                        assert!(inside.end <= len);
                    }
                }
            }
        }
    }
}
