//! How a launch walks its domain: the order of the dimensions, and which of them make up the two sides of a block.
//!
//! A block is a rectangle `[a] × [b]` of positions, row-major, at one position `c` of what is left. `b` runs along
//! memory.
//!
//! ```text
//! flat      a: outer dimensions          b: innermost dimensions     a plain domain
//! square    a, b: one dimension each     c: the others               a plain domain that is read transposed
//! rows      a: outer dimensions          b: reduced dimensions       reduced positions lie along memory
//! columns   a: reduced dimensions        b: innermost outer ones     outer positions lie along memory, or rows are short
//! ```

use super::affine::{Domain, Form, MAX_DIMS};
use std::ops::Range;

/// Which dimensions the sides of a block have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Orientation {
    /// No reductions.
    Plain,
    /// `a` outer, `b` reduced.
    Rows,
    /// `a` reduced, `b` and `c` outer.
    Columns,
}

/// The sides of blocks: ranges of the ordered and merged dimensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) orientation: Orientation,
    pub(crate) extents: [usize; MAX_DIMS],
    a_start: usize,
    b_start: usize,
    end: usize,
    /// Positions of each side.
    pub(crate) c: usize,
    pub(crate) a: usize,
    pub(crate) b: usize,
    /// Whether blocks should be about square, because something is read across memory.
    pub(crate) square: bool,
    /// The dimensions of the domain that were merged into each, as bits; for messages.
    members: [u16; MAX_DIMS],
    /// The place of each dimension of the domain in the order before merging.
    rank: [u8; MAX_DIMS],
}

/// A rectangle of positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    pub(crate) c: usize,
    pub(crate) a: usize,
    pub(crate) a_len: usize,
    pub(crate) b: usize,
    pub(crate) b_len: usize,
}

impl Block {
    pub(crate) fn len(&self) -> usize {
        self.a_len * self.b_len
    }
}

/// Rows shorter than this are no work for a loop each: they are walked across.
const SHORT_ROW: usize = 16;

/// Inner sides at least this long are walked as they are; shorter ones take in the next dimension.
const SHORT_SIDE: usize = 256;

impl Geometry {
    /// Orders and merges the dimensions, rewriting `forms` for the new order. `primary` is the form along which memory
    /// is walked (of a store, or of the largest load), `touched` are the address forms of loads and stores. `reduces` says
    /// that there are reduced axes, which may all have extent 1.
    pub(crate) fn new(
        domain: &Domain,
        reduces: bool,
        forms: &mut [Form],
        primary: usize,
        touched: &[usize],
    ) -> Geometry {
        let mut order: [usize; MAX_DIMS] = std::array::from_fn(|k| k);
        let reduced = domain.outer..domain.len;
        if let Some(form) = forms.get(primary) {
            let strides = form.strides;
            order[..domain.outer].sort_by_key(|&k| std::cmp::Reverse(strides[k].unsigned_abs()));
        }
        let mut orientation = Orientation::Plain;
        if domain.len == 0 {
            // One position: its values are outer ones, which are stored after the (empty) sweep.
            orientation = Orientation::Rows;
        } else if reduces {
            orientation = Orientation::Rows;
            if let Some(form) = forms.get(primary) {
                let least = |dims: &[usize]| {
                    dims.iter().map(|&k| form.strides[k].unsigned_abs()).filter(|&s| s > 0).min()
                };
                let along_outer = least(&order[..domain.outer]);
                let along_reduced = least(&order[reduced.clone()]);
                let across = matches!((along_outer, along_reduced), (Some(o), Some(r)) if o < r);
                let positions = |dims: &[usize]| dims.iter().map(|&k| domain.extents[k]).product::<usize>();
                let (outer, reduced) =
                    (positions(&order[..domain.outer]), positions(&order[reduced.clone()]));
                if across || (reduced < SHORT_ROW && reduced < outer) {
                    orientation = Orientation::Columns;
                }
            }
        }
        let mut g = Geometry {
            orientation,
            extents: [1; MAX_DIMS],
            a_start: 0,
            b_start: 0,
            end: domain.len,
            c: 1,
            a: 1,
            b: 1,
            square: false,
            members: [0; MAX_DIMS],
            rank: [0; MAX_DIMS],
        };
        for (k, &from) in order.iter().enumerate() {
            g.members[k] = 1 << from;
            g.rank[from] = k as u8;
        }
        reorder(&order, domain, forms, &mut g.extents);
        // Outer dimensions merge among themselves, reduced ones too; their order within each is kept.
        let merged_reduced = merge(&mut g, domain.outer..domain.len, forms);
        let merged_outer = merge(&mut g, 0..domain.outer, forms);
        let outer = merged_outer;
        g.end = outer + merged_reduced;
        match orientation {
            Orientation::Plain => g.split_plain(forms, touched),
            Orientation::Rows => g.b_start = outer,
            Orientation::Columns => {
                let mut b_start = outer;
                let mut positions = 1;
                while b_start > 0 && positions < SHORT_SIDE / 4 {
                    b_start -= 1;
                    positions *= g.extents[b_start];
                }
                // The reduced dimensions move before the last outer ones.
                let moved = outer - b_start;
                g.rotate(forms, b_start..g.end, moved);
                g.a_start = b_start;
                g.b_start = g.end - moved;
            }
        }
        let product = |range: Range<usize>| g.extents[range].iter().product::<usize>();
        (g.c, g.a, g.b) = (product(0..g.a_start), product(g.a_start..g.b_start), product(g.b_start..g.end));
        g
    }

    /// A plain domain of which the sides are given, as numbers of dimensions in its order: `c`, `a`, then `b`. With `swap`
    /// the last two change places. Dimensions merge within a side.
    pub(crate) fn of_sides(domain: &Domain, forms: &mut [Form], dims: [usize; 3], swap: bool) -> Geometry {
        let mut g = Geometry {
            orientation: Orientation::Plain,
            extents: domain.extents,
            a_start: 0,
            b_start: 0,
            end: domain.len,
            c: 1,
            a: 1,
            b: 1,
            square: false,
            members: std::array::from_fn(|k| 1 << k),
            rank: std::array::from_fn(|k| k as u8),
        };
        let [c, a, _] = dims;
        let b = merge(&mut g, c + a..domain.len, forms);
        let a = merge(&mut g, c..c + a, forms);
        let c = merge(&mut g, 0..c, forms);
        g.end = c + a + b;
        (g.a_start, g.b_start) = (c, c + a);
        if swap {
            g.rotate(forms, c..g.end, a);
            g.b_start = c + b;
        }
        let product = |range: Range<usize>| g.extents[range].iter().product::<usize>();
        (g.c, g.a, g.b) = (product(0..g.a_start), product(g.a_start..g.b_start), product(g.b_start..g.end));
        g
    }

    fn split_plain(&mut self, forms: &mut [Form], touched: &[usize]) {
        if self.end < 2 {
            return;
        }
        let last = self.end - 1;
        let across = |form: &Form| {
            let step = form.strides[last].unsigned_abs();
            let along = (0..last).find(|&k| form.strides[k].unsigned_abs() == 1 && self.extents[k] >= 8);
            along.filter(|_| step > 1 && self.extents[last] >= 8)
        };
        if let Some(along) = touched.iter().filter_map(|&f| forms.get(f)).find_map(across) {
            self.rotate(forms, along..last, 1);
            self.square = true;
            (self.a_start, self.b_start) = (last - 1, last);
            return;
        }
        self.b_start = self.choose_split(forms);
    }

    /// Where side `b` of a plain domain begins. A long innermost dimension is a side of its own. Of short ones the split
    /// is taken for which the fewest runs have to be copied: a side on which a form has one stride is walked in one go,
    /// and a form that does not move along `a` has one tile for all blocks.
    fn choose_split(&self, forms: &[Form]) -> usize {
        let last = self.end - 1;
        if self.extents[last] >= SHORT_SIDE {
            return last;
        }
        let runs = |start: usize| {
            let inner: usize = self.extents[start..self.end].iter().product();
            let of_form = |form: &Form| {
                let along = self.linear_stride(form, start..self.end);
                let down = self.linear_stride(form, 0..start);
                let still = form.strides[..start].iter().all(|&s| s == 0) && inner <= SHORT_SIDE * 16;
                match (down, along) {
                    _ if still => 0.0,
                    _ if self.linear_stride(form, 0..self.end) == Some(1) => 0.0,
                    (_, Some(_)) => 1.0 / inner as f64,
                    (_, None) => 1.0 / self.extents[last] as f64,
                }
            };
            forms.iter().map(of_form).sum::<f64>()
        };
        let mut best = last;
        for start in (0..last).rev() {
            if runs(start) < runs(best) {
                best = start;
            }
        }
        best
    }

    /// Moves the first `count` dimensions of the range to its end.
    fn rotate(&mut self, forms: &mut [Form], range: Range<usize>, count: usize) {
        self.extents[range.clone()].rotate_left(count);
        self.members[range.clone()].rotate_left(count);
        for form in forms {
            form.strides[range.clone()].rotate_left(count);
        }
    }

    /// The index on each dimension of the domain at the position `j` of a block.
    pub(crate) fn indices(&self, domain: &Domain, block: &Block, j: usize) -> [usize; MAX_DIMS] {
        let (row, column) = (j / block.b_len.max(1), j % block.b_len.max(1));
        let mut linear =
            [(self.c_dims(), block.c), (self.a_dims(), block.a + row), (self.b_dims(), block.b + column)];
        let mut indices = [0; MAX_DIMS];
        for (dims, at) in &mut linear {
            for k in dims.clone().rev() {
                let mut inside = *at % self.extents[k].max(1);
                *at /= self.extents[k].max(1);
                let mut members: Vec<usize> =
                    (0..domain.len).filter(|&d| self.members[k] >> d & 1 == 1).collect();
                members.sort_by_key(|&d| self.rank[d]);
                for &d in members.iter().rev() {
                    indices[d] = inside % domain.extents[d].max(1);
                    inside /= domain.extents[d].max(1);
                }
            }
        }
        indices
    }

    /// How many dimensions there are after merging.
    pub(crate) fn dims(&self) -> usize {
        self.end
    }

    /// The dimensions of side `a`.
    pub(crate) fn a_dims(&self) -> Range<usize> {
        self.a_start..self.b_start
    }

    /// The dimensions of side `b`.
    pub(crate) fn b_dims(&self) -> Range<usize> {
        self.b_start..self.end
    }

    /// The dimensions of neither side.
    pub(crate) fn c_dims(&self) -> Range<usize> {
        0..self.a_start
    }

    /// Outer positions of the domain.
    pub(crate) fn outer(&self) -> usize {
        match self.orientation {
            Orientation::Plain | Orientation::Rows => self.c * self.a,
            Orientation::Columns => self.c * self.b,
        }
    }

    /// Reduced positions of the domain.
    pub(crate) fn reduced(&self) -> usize {
        match self.orientation {
            Orientation::Plain => 1,
            Orientation::Rows => self.b,
            Orientation::Columns => self.a,
        }
    }

    /// What a form adds at the position `linear` of these dimensions, counted row-major.
    #[inline]
    pub(crate) fn offset(&self, form: &Form, dims: Range<usize>, mut linear: usize) -> i64 {
        let mut offset = 0i64;
        let (start, mut k) = (dims.start, dims.end);
        while k > start {
            k -= 1;
            if k == start {
                return offset.wrapping_add(form.strides[k].wrapping_mul(linear as i64));
            }
            if linear == 0 {
                return offset;
            }
            let extent = self.extents[k];
            offset = offset.wrapping_add(form.strides[k].wrapping_mul((linear % extent) as i64));
            linear /= extent;
        }
        offset
    }

    /// The form at the first position of a block.
    #[inline]
    pub(crate) fn at_block(&self, form: &Form, block: &Block) -> i64 {
        form.base
            .wrapping_add(self.offset(form, self.c_dims(), block.c))
            .wrapping_add(self.offset(form, self.a_dims(), block.a))
            .wrapping_add(self.offset(form, self.b_dims(), block.b))
    }

    /// The one stride that a form has over these dimensions, if it has one.
    pub(crate) fn linear_stride(&self, form: &Form, dims: Range<usize>) -> Option<i64> {
        let Some(last) = dims.clone().last() else { return Some(0) };
        let mut expected = form.strides[last];
        for k in dims.rev().skip(1) {
            expected = expected.wrapping_mul(self.extents[k + 1] as i64);
            if form.strides[k] != expected {
                return None;
            }
        }
        Some(form.strides[last])
    }
}

fn reorder(order: &[usize; MAX_DIMS], domain: &Domain, forms: &mut [Form], extents: &mut [usize; MAX_DIMS]) {
    for (k, &from) in order.iter().enumerate().take(domain.len) {
        extents[k] = domain.extents[from];
    }
    if order.iter().take(domain.len).enumerate().all(|(k, &from)| k == from) {
        return;
    }
    for form in forms {
        let old = form.strides;
        for (k, &from) in order.iter().enumerate().take(domain.len) {
            form.strides[k] = old[from];
        }
    }
}

/// Merges neighbours of the range that every form walks as one; returns how many dimensions are left in it. What lies
/// behind the range moves up.
fn merge(g: &mut Geometry, range: Range<usize>, forms: &mut [Form]) -> usize {
    let (start, mut end) = (range.start, range.end);
    let mut k = start;
    while k + 1 < end {
        let inner = g.extents[k + 1] as i64;
        let one = forms.iter().all(|f| f.strides[k] == f.strides[k + 1].wrapping_mul(inner));
        if !one {
            k += 1;
            continue;
        }
        g.extents[k + 1] *= g.extents[k];
        g.members[k + 1] |= g.members[k];
        remove_dim(&mut g.extents, k);
        remove_dim(&mut g.members, k);
        for form in forms.iter_mut() {
            remove_dim(&mut form.strides, k);
        }
        end -= 1;
    }
    end - start
}

fn remove_dim<T: Copy>(dims: &mut [T; MAX_DIMS], k: usize) {
    dims.copy_within(k + 1.., k);
}
