//! What `Tensor::slice` takes: a range for each axis.

use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A part of an axis: a range, or one position.
pub trait AxisRange {
    /// The first position and the one after the last, for an axis of that extent. Not checked.
    fn resolve(&self, extent: usize) -> (usize, usize);
}

fn resolve_bounds(range: &impl RangeBounds<usize>, extent: usize) -> (usize, usize) {
    let start = match range.start_bound() {
        Bound::Included(&n) => n,
        Bound::Excluded(&n) => n.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&n) => n.saturating_add(1),
        Bound::Excluded(&n) => n,
        Bound::Unbounded => extent,
    };
    (start, end)
}

macro_rules! axis_range {
    ($($range:ty),*) => { $(
        impl AxisRange for $range {
            fn resolve(&self, extent: usize) -> (usize, usize) {
                resolve_bounds(self, extent)
            }
        }

        impl SliceRanges<1> for $range {
            fn resolve(&self, shape: [usize; 1]) -> [(usize, usize); 1] {
                [resolve_bounds(self, shape[0])]
            }
        }
    )* };
}

axis_range!(
    Range<usize>,
    RangeFrom<usize>,
    RangeFull,
    RangeInclusive<usize>,
    RangeTo<usize>,
    RangeToInclusive<usize>
);

impl AxisRange for usize {
    fn resolve(&self, _: usize) -> (usize, usize) {
        (*self, self.saturating_add(1))
    }
}

/// A range for each of `R` axes: a tuple, an array, or one range for one axis.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a range for each of {R} axes",
    label = "expected a tuple of {R} ranges or positions"
)]
pub trait SliceRanges<const R: usize> {
    /// The first position and the one after the last of each axis, for a tensor of that shape. Not checked.
    fn resolve(&self, shape: [usize; R]) -> [(usize, usize); R];
}

impl<A: AxisRange, const R: usize> SliceRanges<R> for [A; R] {
    fn resolve(&self, shape: [usize; R]) -> [(usize, usize); R] {
        std::array::from_fn(|k| self[k].resolve(shape[k]))
    }
}

macro_rules! tuple_of_ranges {
    ($($rank:literal: $($range:ident $axis:tt),*;)*) => { $(
        impl<$($range: AxisRange),*> SliceRanges<$rank> for ($($range,)*) {
            fn resolve(&self, shape: [usize; $rank]) -> [(usize, usize); $rank] {
                [$(self.$axis.resolve(shape[$axis])),*]
            }
        }
    )* };
}

tuple_of_ranges! {
    1: A 0;
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
    5: A 0, B 1, C 2, D 3, E 4;
    6: A 0, B 1, C 2, D 3, E 4, F 5;
    7: A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
}
