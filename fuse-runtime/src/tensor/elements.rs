//! Copying elements between strided views and memory in row-major order.

/// Calls `row` with the offset, in elements, of each innermost row, in row-major order. A view without axes is one row.
fn for_each_row(shape: &[usize], strides: &[isize], mut row: impl FnMut(isize)) {
    if shape.contains(&0) {
        return;
    }
    let outer = shape.len().saturating_sub(1);
    let mut position = vec![0usize; outer];
    let mut offset = 0isize;
    loop {
        row(offset);
        let mut k = outer;
        loop {
            if k == 0 {
                return;
            }
            k -= 1;
            position[k] += 1;
            offset += strides[k];
            if position[k] < shape[k] {
                break;
            }
            offset -= strides[k] * shape[k] as isize;
            position[k] = 0;
        }
    }
}

/// The extent and stride of the innermost axis.
fn innermost(shape: &[usize], strides: &[isize]) -> (usize, isize) {
    (shape.last().copied().unwrap_or(1), strides.last().copied().unwrap_or(1))
}

/// Copies the elements of a view to `target` in row-major order.
///
/// # Safety
/// Every element of the view at `source` can be read, `target` has room for as many elements, and they do not overlap.
pub(super) unsafe fn copy_elements<T: Copy>(
    source: *const T,
    shape: &[usize],
    strides: &[isize],
    mut target: *mut T,
) {
    if super::layout::is_contiguous(shape, strides) {
        // SAFETY: a contiguous view is one stretch of memory.
        unsafe { target.copy_from_nonoverlapping(source, shape.iter().product()) };
        return;
    }
    let (n, step) = innermost(shape, strides);
    for_each_row(shape, strides, |offset| {
        // SAFETY: the row is in the view; `target` moves on by one row for each, as many as there is room for.
        unsafe {
            let row = source.offset(offset);
            if step == 1 {
                target.copy_from_nonoverlapping(row, n);
            } else {
                for k in 0..n {
                    target.add(k).write(row.offset(k as isize * step).read());
                }
            }
            target = target.add(n);
        }
    });
}

/// Copies elements in row-major order into a view.
///
/// # Safety
/// Every element of the view at `target` can be written, `source` has one for each, and they do not overlap.
pub(super) unsafe fn scatter_elements<T: Copy>(
    source: &[T],
    target: *mut T,
    shape: &[usize],
    strides: &[isize],
) {
    let (n, step) = innermost(shape, strides);
    let mut rest = source;
    for_each_row(shape, strides, |offset| {
        let Some((row, after)) = rest.split_at_checked(n) else { return };
        rest = after;
        for (k, &x) in row.iter().enumerate() {
            // SAFETY: the position is in the view.
            unsafe { target.offset(offset + k as isize * step).write(x) };
        }
    });
}

/// The elements of a view in row-major order.
///
/// # Safety
/// Every element of the view at `source` can be read.
pub(super) unsafe fn collect_elements<T: Copy>(
    source: *const T,
    shape: &[usize],
    strides: &[isize],
) -> Vec<T> {
    let count = shape.iter().product();
    let mut elements = Vec::with_capacity(count);
    // SAFETY: by the caller; the new vector has room for `count` elements, all of which are then written.
    unsafe {
        copy_elements(source, shape, strides, elements.as_mut_ptr());
        elements.set_len(count);
    }
    elements
}
