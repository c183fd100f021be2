//! Shapes and strides: which positions of the memory a view has, and whether two views share one.

/// The strides of a tensor of that shape whose elements lie in order without gaps.
pub(crate) fn row_major<const R: usize>(shape: [usize; R]) -> [isize; R] {
    let mut strides = [0; R];
    let mut step = 1isize;
    for k in (0..R).rev() {
        strides[k] = step;
        step = step.wrapping_mul(shape[k].max(1) as isize);
    }
    strides
}

/// The number of elements, if as many bytes can be addressed.
pub(crate) fn element_count(shape: &[usize], element_size: usize) -> Option<usize> {
    // An extent of 0 makes the count 0, but the others must still multiply: strides are made of them.
    let span = shape.iter().try_fold(element_size, |n, &k| n.checked_mul(k.max(1)))?;
    if span > isize::MAX as usize {
        return None;
    }
    Some(shape.iter().product())
}

/// Whether the elements lie in order without gaps.
pub(crate) fn is_contiguous(shape: &[usize], strides: &[isize]) -> bool {
    let mut step = 1isize;
    if shape.contains(&0) {
        return true;
    }
    for (&n, &stride) in shape.iter().zip(strides).rev() {
        if n > 1 {
            if stride != step {
                return false;
            }
            step *= n as isize;
        }
    }
    true
}

/// The strides by which a view of shape `wanted` reads the elements of this one in order, if there are any.
///
/// Axes of both shapes are taken in groups with equal products; within a group the old axes must be contiguous with
/// one another, and the new ones divide their span.
pub(crate) fn reshape<const Q: usize>(
    shape: &[usize],
    strides: &[isize],
    wanted: [usize; Q],
) -> Option<[isize; Q]> {
    if shape.contains(&0) {
        return Some(row_major(wanted));
    }
    let old: Vec<(usize, isize)> =
        shape.iter().copied().zip(strides.iter().copied()).filter(|&(n, _)| n != 1).collect();
    let mut result = [1isize; Q];
    let (mut o, mut q) = (0, 0);
    while o < old.len() {
        let first = o;
        let (mut have, mut want) = (old[o].0, 1);
        let start = q;
        o += 1;
        while have != want {
            if want < have {
                want *= wanted.get(q)?;
                q += 1;
            } else {
                let (n, _) = *old.get(o)?;
                have *= n;
                o += 1;
            }
        }
        let in_order = old[first..o].windows(2).all(|w| w[0].1 == w[1].1 * w[1].0 as isize);
        if !in_order {
            return None;
        }
        let mut step = old[o - 1].1;
        for k in (start..q).rev() {
            result[k] = step;
            step *= wanted[k] as isize;
        }
    }
    // What is left has extent 1 throughout, for which any stride will do.
    Some(result)
}

/// Whether two positions of the view may be the same element. Exact for what slices, transposes and broadcasts make;
/// else errs towards yes.
pub(crate) fn overlaps_itself(shape: &[usize], strides: &[isize]) -> bool {
    if is_contiguous(shape, strides) {
        return false;
    }
    let mut axes: Vec<(usize, usize)> =
        shape.iter().zip(strides).filter(|&(&n, _)| n > 1).map(|(&n, &s)| (s.unsigned_abs(), n)).collect();
    axes.sort_unstable();
    let mut span = 0usize;
    for (stride, n) in axes {
        if stride <= span {
            return true;
        }
        span = span.saturating_add(stride.saturating_mul(n - 1));
    }
    false
}

/// A view of a storage, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Region<'a> {
    /// The first element, from the start of the storage.
    pub(crate) offset: usize,
    /// Extents.
    pub(crate) shape: &'a [usize],
    /// Strides in elements.
    pub(crate) strides: &'a [isize],
    /// The size of an element.
    pub(crate) element_size: usize,
}

impl Region<'_> {
    /// The least and the greatest byte, the latter exclusive; strides are not negative.
    fn span(&self) -> (usize, usize) {
        let last: usize =
            self.shape.iter().zip(self.strides).map(|(&n, &s)| (n - 1) * s.unsigned_abs()).sum();
        (self.offset, self.offset + (last + 1) * self.element_size)
    }
}

/// How many partial sums the search for a common element looks at before it gives up and says yes.
const SEARCH_STEPS: usize = 10_000;

/// Whether two views of one storage share a byte. Exact unless the search grows long; then it errs towards yes.
pub(crate) fn overlap(a: Region<'_>, b: Region<'_>) -> bool {
    if a.shape.contains(&0) || b.shape.contains(&0) {
        return false;
    }
    let ((a_first, a_end), (b_first, b_end)) = (a.span(), b.span());
    if a_end <= b_first || b_end <= a_first {
        return false;
    }
    // They share a byte if `a.offset + Σ stride i + p = b.offset + Σ stride j + q` for some positions i, j and bytes p, q
    // of their elements. Each term is a step and the range of its factor; equal steps are one term.
    let mut terms: Vec<(i128, i128, i128)> = vec![(1, 0, a.element_size as i128 - 1)];
    let mut add = |step: i128, low: i128, high: i128| match terms.iter_mut().find(|t| t.0 == step) {
        Some(t) => (t.1, t.2) = (t.1 + low, t.2 + high),
        None => terms.push((step, low, high)),
    };
    add(1, 1 - b.element_size as i128, 0);
    for (&n, &s) in a.shape.iter().zip(a.strides) {
        if n > 1 && s != 0 {
            add(s as i128 * a.element_size as i128, 0, n as i128 - 1);
        }
    }
    for (&n, &s) in b.shape.iter().zip(b.strides) {
        if n > 1 && s != 0 {
            add(s as i128 * b.element_size as i128, 1 - n as i128, 0);
        }
    }
    terms.sort_unstable_by_key(|t| std::cmp::Reverse(t.0));
    let target = b.offset as i128 - a.offset as i128;
    let mut steps = SEARCH_STEPS;
    reaches(&terms, target, &mut steps)
}

/// Whether `target` is a sum of the terms, each a step times a factor in its range; largest steps first.
fn reaches(terms: &[(i128, i128, i128)], target: i128, steps: &mut usize) -> bool {
    let Some((&(step, low, high), rest)) = terms.split_first() else { return target == 0 };
    if *steps == 0 {
        return true;
    }
    *steps -= 1;
    // What the smaller steps can still add limits the factor to a few values.
    let least: i128 = rest.iter().map(|t| t.0 * t.1).sum();
    let most: i128 = rest.iter().map(|t| t.0 * t.2).sum();
    let first = (target - most).div_euclid(step) + i128::from((target - most).rem_euclid(step) != 0);
    let last = (target - least).div_euclid(step);
    (first.max(low)..=last.min(high)).any(|factor| reaches(rest, target - factor * step, steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region<'a>(offset: usize, shape: &'a [usize], strides: &'a [isize]) -> Region<'a> {
        Region { offset: offset * 4, shape, strides, element_size: 4 }
    }

    #[test]
    fn columns_of_a_matrix_are_apart() {
        // Columns 0..2 and 2..4 of [5, 4]: their spans interleave.
        assert!(!overlap(region(0, &[5, 2], &[4, 1]), region(2, &[5, 2], &[4, 1])));
        assert!(overlap(region(0, &[5, 3], &[4, 1]), region(2, &[5, 2], &[4, 1])));
        // Row 1 and column 2 of the transposed view meet; two rows do not.
        assert!(overlap(region(4, &[4], &[1]), region(2, &[5], &[4])));
        assert!(!overlap(region(4, &[4], &[1]), region(8, &[4], &[1])));
        assert!(!overlap(region(4, &[0], &[1]), region(4, &[4], &[1])));
    }

    #[test]
    fn overlap_is_exact_on_small_views() {
        let views: Vec<(usize, [usize; 2], [isize; 2])> = (0..6)
            .flat_map(|o| {
                [([2, 3], [3, 1]), ([3, 2], [1, 3]), ([2, 2], [4, 2]), ([1, 4], [9, 1]), ([2, 3], [5, 0])]
                    .map(|(n, s)| (o, n, s))
            })
            .collect();
        let elements = |(o, n, s): &(usize, [usize; 2], [isize; 2])| -> Vec<isize> {
            (0..n[0])
                .flat_map(|i| (0..n[1]).map(move |j| *o as isize + i as isize * s[0] + j as isize * s[1]))
                .collect()
        };
        for a in &views {
            for b in &views {
                let (ea, eb) = (elements(a), elements(b));
                let want = ea.iter().any(|x| eb.contains(x));
                assert_eq!(
                    overlap(region(a.0, &a.1, &a.2), region(b.0, &b.1, &b.2)),
                    want,
                    "{a:?} and {b:?}"
                );
            }
        }
    }

    #[test]
    fn a_broadcast_overlaps_itself() {
        assert!(overlaps_itself(&[3, 4], &[0, 1]));
        assert!(!overlaps_itself(&[3, 0], &[0, 1]));
        assert!(!overlaps_itself(&[1, 4], &[0, 1]));
        assert!(!overlaps_itself(&[4, 3], &[1, 4]));
        assert!(overlaps_itself(&[4, 3], &[1, 3]));
    }

    #[test]
    fn reshape_keeps_the_order_of_elements() {
        assert_eq!(reshape(&[4, 6], &[6, 1], [2, 2, 3, 2]), Some([12, 6, 2, 1]));
        assert_eq!(reshape(&[4, 6], &[12, 1], [2, 2, 6]), Some([24, 12, 1]));
        assert_eq!(reshape(&[4, 6], &[12, 1], [24]), None);
        assert_eq!(reshape(&[4, 6], &[12, 2], [2, 2, 3, 2]), Some([24, 12, 4, 2]));
        assert_eq!(reshape(&[6, 4], &[1, 6], [6, 2, 2]), Some([1, 12, 6]));
        assert_eq!(reshape(&[6, 4], &[1, 6], [24]), None);
        assert_eq!(reshape(&[1, 4], &[77, 3], [4, 1]).map(|s| s[0]), Some(3));
        assert_eq!(reshape(&[], &[], [1, 1]), Some([1, 1]));
        assert_eq!(reshape(&[2, 3], &[0, 1], [2, 3, 1]).map(|s| [s[0], s[1]]), Some([0, 1]));
    }

    #[test]
    fn contiguity_ignores_axes_of_one_element() {
        assert!(is_contiguous(&[2, 1, 3], &[3, 99, 1]));
        assert!(!is_contiguous(&[2, 3], &[4, 1]));
        assert!(is_contiguous(&[0, 3], &[7, 7]));
        assert!(is_contiguous(&[], &[]));
    }

    #[test]
    fn counts_do_not_wrap() {
        assert_eq!(element_count(&[1 << 40, 1 << 40], 4), None);
        assert_eq!(element_count(&[1 << 61], 4), None);
        assert_eq!(element_count(&[0, 1 << 40, 1 << 40], 4), None);
        assert_eq!(element_count(&[0, 1 << 20], 4), Some(0));
        assert_eq!(element_count(&[], 4), Some(1));
    }
}
