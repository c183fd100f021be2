//! Random views: slice, reverse, pad, window, split, merge, rename, transpose, at, broadcast, gather, concat.

use super::generate::Generator;
use crate::dtype::{DType, Value};
use crate::graph::{CheckKind, Op};
use crate::id::{AxisId, NodeId};
use crate::index_map::{Bound, IndexExpr, IndexMap};
use crate::scalar::ScalarOp;

impl Generator {
    /// A view of some node, or none where the one drawn does not fit.
    pub(super) fn grow_view(&mut self) -> Option<NodeId> {
        let source = self.pick_node();
        let axes = self.axes(source);
        let kind = self.rng.below(16);
        if axes.is_empty() || kind == 0 {
            return self.broadcast(source);
        }
        let axis = self.rng.pick(&axes);
        match kind {
            1 => Some(self.reverse(source, axis)),
            2 | 3 => self.slice(source, axis),
            4 => self.pad(source, axis),
            5 => self.window(source, axis),
            6 => self.split(source, axis),
            7 => self.merge(source),
            8 => self.rename(source, axis),
            9 => self.transpose(source),
            10..=13 => self.gather(source, axis),
            _ if self.rng.one_in(3) => self.pick_position(source, axis),
            _ => self.concat(source, axis),
        }
    }

    /// The source read at `at` on `axis` and at its own positions elsewhere, with `new` in the place of that axis.
    fn replace_axis(
        &mut self,
        source: NodeId,
        axis: AxisId,
        at: IndexExpr,
        new: &[AxisId],
        bounded: bool,
    ) -> Option<NodeId> {
        let axes = self.axes(source);
        let mut reader: Vec<AxisId> = axes.iter().copied().filter(|&a| a != axis).collect();
        reader.extend(new);
        if !self.fits(&reader) {
            return None;
        }
        let position = |a: AxisId| if a == axis { at.clone() } else { IndexExpr::index(a) };
        let indices = axes.iter().map(|&a| (a, position(a))).collect();
        let bounds =
            if bounded { vec![Bound { expr: at.clone(), extent: IndexExpr::extent(axis) }] } else { vec![] };
        let dtype = self.dtype(source);
        let fill =
            bounded.then(|| if self.rng.one_in(2) { Value::zero(dtype) } else { Value::I64(3).cast(dtype) });
        Some(self.b.view(source, &reader, IndexMap { indices, bounds }, fill))
    }

    fn reverse(&mut self, source: NodeId, axis: AxisId) -> NodeId {
        let axes = self.axes(source);
        let back = IndexExpr::extent(axis).minus(1).minus(IndexExpr::index(axis));
        let position = |a: AxisId| if a == axis { back.clone() } else { IndexExpr::index(a) };
        let indices = axes.iter().map(|&a| (a, position(a))).collect();
        self.b.view(source, &axes, IndexMap { indices, bounds: Vec::new() }, None)
    }

    fn slice(&mut self, source: NodeId, axis: AxisId) -> Option<NodeId> {
        let extent = self.extent(axis);
        let fitting: Vec<(crate::id::ParamId, i64)> =
            self.integers.iter().copied().filter(|&(_, x)| (0..=extent as i64).contains(&x)).collect();
        let (start, first) = if !fitting.is_empty() && self.rng.one_in(2) {
            let (param, x) = self.rng.pick(&fitting);
            (IndexExpr::Param(param), x as usize)
        } else {
            let x = self.rng.below(extent + 1);
            (IndexExpr::Const(x as i64), x)
        };
        let length = self.rng.below(extent - first + 1);
        let part = self.new_axis(IndexExpr::Const(length as i64), length);
        let at = IndexExpr::index(part).plus(start.clone());
        let op = "slice".to_owned();
        self.check(CheckKind::InBounds { op, axis, start, length: IndexExpr::extent(part) });
        self.replace_axis(source, axis, at, &[part], false)
    }

    fn pad(&mut self, source: NodeId, axis: AxisId) -> Option<NodeId> {
        let (low, high) = (self.rng.below(4), self.rng.below(4));
        let more = IndexExpr::extent(axis).plus((low + high) as i64);
        let padded = self.new_axis(more, self.extent(axis) + low + high);
        let at = IndexExpr::index(padded).minus(low as i64);
        self.replace_axis(source, axis, at, &[padded], true)
    }

    fn window(&mut self, source: NodeId, axis: AxisId) -> Option<NodeId> {
        let (kernel, stride) = (1 + self.rng.below(3), 1 + self.rng.below(2));
        let (dilation, padding) = (1 + self.rng.below(2), self.rng.below(3));
        let span = dilation * (kernel - 1) + 1;
        let padded = self.extent(axis) + 2 * padding;
        if padded < span {
            return None;
        }
        let count = IndexExpr::extent(axis)
            .plus((2 * padding) as i64)
            .minus(span as i64)
            .floor_div(stride as i64)
            .plus(1);
        let out = self.new_axis(count, (padded - span) / stride + 1);
        let tap = self.new_axis(IndexExpr::Const(kernel as i64), kernel);
        let at = IndexExpr::index(out)
            .times(stride as i64)
            .plus(IndexExpr::index(tap).times(dilation as i64))
            .minus(padding as i64);
        self.replace_axis(source, axis, at, &[out, tap], padding > 0)
    }

    fn split(&mut self, source: NodeId, axis: AxisId) -> Option<NodeId> {
        let extent = self.extent(axis);
        let divisors: Vec<usize> = (1..=extent.min(64)).filter(|d| extent.is_multiple_of(*d)).collect();
        if divisors.is_empty() {
            return None;
        }
        let inner = self.rng.pick(&divisors);
        let low = self.new_axis(IndexExpr::Const(inner as i64), inner);
        let high = self.new_axis(IndexExpr::extent(axis).floor_div(inner as i64), extent / inner);
        let expected = IndexExpr::extent(high).times(IndexExpr::extent(low));
        self.check(CheckKind::Equal { op: "split".to_owned(), axis, expected });
        let at = IndexExpr::index(high).times(IndexExpr::extent(low)).plus(IndexExpr::index(low));
        self.replace_axis(source, axis, at, &[high, low], false)
    }

    fn merge(&mut self, source: NodeId) -> Option<NodeId> {
        let axes = self.axes(source);
        if axes.len() < 2 {
            return None;
        }
        let two = self.rng.shuffled(&axes);
        let (high, low) = (two[0], two[1]);
        let all = IndexExpr::extent(high).times(IndexExpr::extent(low));
        let merged = self.new_axis(all, self.extent(high) * self.extent(low));
        let position = |a: AxisId| {
            if a == high {
                IndexExpr::index(merged).floor_div(IndexExpr::extent(low))
            } else if a == low {
                IndexExpr::index(merged).modulo(IndexExpr::extent(low))
            } else {
                IndexExpr::index(a)
            }
        };
        let indices = axes.iter().map(|&a| (a, position(a))).collect();
        let mut reader: Vec<AxisId> = axes.iter().copied().filter(|&a| a != high && a != low).collect();
        reader.push(merged);
        Some(self.b.view(source, &reader, IndexMap { indices, bounds: Vec::new() }, None))
    }

    /// An axis takes another name: one of the same extent that the source lacks, or a new one.
    fn rename(&mut self, source: NodeId, axis: AxisId) -> Option<NodeId> {
        let axes = self.axes(source);
        let others: Vec<AxisId> = (0..self.extents.len())
            .map(AxisId::from_index)
            .filter(|&a| !axes.contains(&a) && self.extent(a) == self.extent(axis))
            .collect();
        let to = if others.is_empty() || self.rng.one_in(2) {
            self.new_axis(IndexExpr::extent(axis), self.extent(axis))
        } else {
            let to = self.rng.pick(&others);
            self.check(CheckKind::Equal { op: "rename".to_owned(), axis, expected: IndexExpr::extent(to) });
            to
        };
        self.replace_axis(source, axis, IndexExpr::index(to), &[to], false)
    }

    /// Two axes of one extent swap: the element at `[i, j]` is that of `[j, i]`.
    fn transpose(&mut self, source: NodeId) -> Option<NodeId> {
        let axes = self.axes(source);
        for (i, &a) in axes.iter().enumerate() {
            for &b in &axes[i + 1..] {
                if self.extent(a) == self.extent(b) {
                    self.check(CheckKind::Equal {
                        op: "transpose".to_owned(),
                        axis: a,
                        expected: IndexExpr::extent(b),
                    });
                    let swapped = |x: AxisId| {
                        if x == a {
                            b
                        } else if x == b {
                            a
                        } else {
                            x
                        }
                    };
                    let indices = axes.iter().map(|&x| (x, IndexExpr::index(swapped(x)))).collect();
                    return Some(self.b.view(source, &axes, IndexMap { indices, bounds: vec![] }, None));
                }
            }
        }
        None
    }

    fn pick_position(&mut self, source: NodeId, axis: AxisId) -> Option<NodeId> {
        let extent = self.extent(axis);
        if extent == 0 {
            return None;
        }
        let at = IndexExpr::Const(self.rng.below(extent) as i64);
        Some(self.fix_axis(source, axis, at))
    }

    fn broadcast(&mut self, source: NodeId) -> Option<NodeId> {
        let have = self.axes(source);
        let more = AxisId::from_index(self.rng.below(self.extents.len()));
        let mut reader = have.clone();
        reader.push(more);
        if have.contains(&more) || !self.fits(&reader) {
            return None;
        }
        Some(self.b.view(source, &reader, IndexMap::identity(&have), None))
    }

    /// `source.gather(axis, ids)`, mostly in range.
    fn gather(&mut self, source: NodeId, axis: AxisId) -> Option<NodeId> {
        let ids = self.pick_node();
        if self.axes(ids).contains(&axis) {
            return None;
        }
        let mut reader: Vec<AxisId> = self.axes(source).into_iter().filter(|&a| a != axis).collect();
        for a in self.axes(ids) {
            if !reader.contains(&a) {
                reader.push(a);
            }
        }
        if !self.fits(&reader) {
            return None;
        }
        let mut ids = if self.dtype(ids).is_int() { ids } else { self.cast(ids, DType::I64) };
        if !self.rng.one_in(4) {
            ids = self.cast(ids, DType::I64);
            let extent = self.b.push(Op::Extent(IndexExpr::extent(axis)));
            let one = self.b.constant(Value::I64(1));
            // An empty axis has no position in range; the gather faults and not the division.
            let extent = self.b.map(ScalarOp::Max, &[extent, one]);
            ids = self.b.map(ScalarOp::RemEuclid, &[ids, extent]);
        }
        let axes = self.axes(source);
        let at = IndexExpr::Indirect(ids);
        let indices =
            axes.iter().map(|&a| (a, if a == axis { at.clone() } else { IndexExpr::index(a) })).collect();
        let filled = self.rng.one_in(3);
        let bounds = if filled { vec![Bound { expr: at, extent: IndexExpr::extent(axis) }] } else { vec![] };
        let fill = filled.then(|| Value::I64(5).cast(self.dtype(source)));
        Some(self.b.view(source, &reader, IndexMap { indices, bounds }, fill))
    }

    /// `concat(P, (a, N), (b, Q))`: two predicated views and a choice between them.
    fn concat(&mut self, a: NodeId, axis: AxisId) -> Option<NodeId> {
        let b = self.pick_node();
        let dtype = self.dtype(a);
        let b = self.cast(b, dtype);
        let of_b = self.axes(b);
        if of_b.is_empty() {
            return None;
        }
        let axis_b = self.rng.pick(&of_b);
        let all = IndexExpr::extent(axis).plus(IndexExpr::extent(axis_b));
        let joined = self.new_axis(all, self.extent(axis) + self.extent(axis_b));
        let here = IndexExpr::index(joined);
        let there = IndexExpr::index(joined).minus(IndexExpr::extent(axis));
        let first = self.replace_axis(a, axis, here, &[joined], true)?;
        let second = self.replace_axis(b, axis_b, there, &[joined], true)?;
        let axes = self.join(&[first, second]);
        if !self.fits(&axes) {
            return None;
        }
        let at = self.b.push(Op::Index(joined));
        let extent = self.b.push(Op::Extent(IndexExpr::extent(axis)));
        let before = self.b.map(ScalarOp::Lt, &[at, extent]);
        Some(self.b.map(ScalarOp::Select, &[before, first, second]))
    }
}
