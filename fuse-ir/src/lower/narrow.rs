//! Whether the indices of a launch fit 32 bits.

use super::streamed::is_streamed;
use crate::id::{AxisId, ParamId};
use crate::index_map::IndexExpr;
use crate::program::Program;
use crate::schedule::{BufferRef, Operand, ScheduledGroup};

/// Numbers from the first to the second.
type Interval = (i128, i128);

const LIMIT: i128 = 1 << 31;

/// What is known of a call.
struct Sizes<'a> {
    extents: &'a [i64],
    params: &'a [i64],
}

/// Whether a launch may be lowered with 32-bit indices: every number that an index expression goes through, and every
/// element that is accessed, lies within 31 bits. `extents` are by axis, `params` by parameter (0 for what is no
/// integer), `stride(b, k)` is the stride of a buffer along its axis `k`.
pub fn fits_narrow(
    program: &Program,
    launch: usize,
    extents: &[i64],
    params: &[i64],
    stride: &dyn Fn(BufferRef, u32) -> i64,
) -> bool {
    let sizes = Sizes { extents, params };
    let Some(launch) = program.plan.launches.get(launch) else { return false };
    launch.parts.iter().all(|group| {
        let streamed = is_streamed(program, group);
        group_fits(group, streamed, &sizes, stride)
    })
}

fn group_fits(
    group: &ScheduledGroup,
    streamed: bool,
    sizes: &Sizes<'_>,
    stride: &dyn Fn(BufferRef, u32) -> i64,
) -> bool {
    let positions = |axes: &mut dyn Iterator<Item = &AxisId>| {
        axes.map(|a| i128::from(sizes.extent(*a))).try_fold(1i128, |n, e| n.checked_mul(e))
    };
    // A quarter is left for the steps of loops past the end. Where a kernel streams, rows, streamed positions and columns are
    // numbers of their own.
    let (outer, reduced) = (&mut group.outer.iter(), &mut group.reduced.iter());
    let fits = |n: Option<i128>| n.is_some_and(|n| n < LIMIT / 2);
    let all_fit = match streamed {
        true => fits(positions(outer)) && fits(positions(reduced)),
        false => fits(positions(&mut outer.chain(reduced))),
    };
    if !all_fit {
        return false;
    }
    let buffer_fits = |buffer: BufferRef, indices: &[(AxisId, IndexExpr)]| {
        let mut all = (0i128, 0i128);
        for (k, (axis, e)) in indices.iter().enumerate() {
            // What is read lies within the buffer, whatever the expression can be where bounds fail.
            let last = i128::from(sizes.extent(*axis) - 1).max(0);
            let Some((_, high)) = sizes.interval(e) else { return false };
            let stride = i128::from(stride(buffer, k as u32));
            if stride < 0 {
                return false;
            }
            all.1 += high.min(last).max(0) * stride;
        }
        all.1 < LIMIT
    };
    let operands = group.operands.iter().all(|o| {
        let mut fits = true;
        o.for_each_expr(|e| fits &= sizes.interval(e).is_some());
        match o {
            Operand::Buffer { buffer, map, .. } => {
                fits && buffer_fits(*buffer, &map.indices)
                    && map.bounds.iter().all(|b| sizes.interval(&b.extent).is_some())
            }
            Operand::Index(_) => fits,
            Operand::Mask(bounds) => fits && bounds.iter().all(|b| sizes.interval(&b.extent).is_some()),
            Operand::Check { when, bounds } => {
                fits && when.iter().chain(bounds).all(|b| sizes.interval(&b.extent).is_some())
            }
        }
    });
    operands && group.stores.iter().all(|s| buffer_fits(s.buffer, &s.indices))
}

impl Sizes<'_> {
    fn extent(&self, axis: AxisId) -> i64 {
        self.extents.get(axis.index()).copied().unwrap_or(0)
    }

    fn param(&self, param: ParamId) -> i64 {
        self.params.get(param.index()).copied().unwrap_or(0)
    }

    /// What an expression can be, if every part of it fits 32 bits. Expressions with scalar parameters or indirect parts
    /// are computed in 64 bits and only their result is narrowed, which bounds have tested by then.
    fn interval(&self, e: &IndexExpr) -> Option<Interval> {
        let mut far = false;
        e.for_each_leaf(&mut |leaf| far |= matches!(leaf, IndexExpr::Param(_) | IndexExpr::Indirect(_)));
        if far {
            return Some((i128::from(i64::MIN), i128::from(i64::MAX)));
        }
        let (low, high) = match e {
            IndexExpr::Const(n) => (i128::from(*n), i128::from(*n)),
            IndexExpr::Index(a) => (0, i128::from(self.extent(*a) - 1).max(0)),
            IndexExpr::Extent(a) => (self.extent(*a).into(), self.extent(*a).into()),
            IndexExpr::Param(p) => (self.param(*p).into(), self.param(*p).into()),
            IndexExpr::Indirect(_) => return None,
            IndexExpr::Add(a, b) => {
                let (a, b) = (self.interval(a)?, self.interval(b)?);
                (a.0 + b.0, a.1 + b.1)
            }
            IndexExpr::Sub(a, b) => {
                let (a, b) = (self.interval(a)?, self.interval(b)?);
                (a.0 - b.1, a.1 - b.0)
            }
            IndexExpr::Mul(a, b) => {
                let (a, b) = (self.interval(a)?, self.interval(b)?);
                let all = [a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1];
                (all.into_iter().min()?, all.into_iter().max()?)
            }
            IndexExpr::FloorDiv(a, b) => {
                let (a, b) = (self.interval(a)?, self.interval(b)?);
                let b = (b.0.max(1), b.1.max(1));
                let all =
                    [a.0.div_euclid(b.0), a.0.div_euclid(b.1), a.1.div_euclid(b.0), a.1.div_euclid(b.1)];
                (all.into_iter().min()?.min(0), all.into_iter().max()?)
            }
            IndexExpr::Mod(a, b) => {
                self.interval(a)?;
                (0, (self.interval(b)?.1 - 1).max(0))
            }
        };
        (low > -LIMIT && high < LIMIT).then_some((low, high))
    }
}
