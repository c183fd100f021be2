//! The part of a source that a tile needs, copied so that lanes are neighbours and padding is there.
//!
//! The axis along which lanes move is the innermost one of the box. Lanes that move on it by more than one position are taken
//! apart by what their position leaves when it is divided: each of these *phases* is a run of its own.
//!
//! ```text
//! lanes move by two     memory  a b c d e f g       box  a c e g | b d f
//! ```

use super::super::geometry::Block;
use super::windows::{Affine, Guard, SourceAxis, Windows};

/// Elements of a box that is looked for, and of one at most.
const WANTED: usize = 1 << 13;
const MOST: usize = 1 << 18;

/// How the box of a launch lies.
#[derive(Debug)]
pub(super) struct Boxed {
    /// Where each tap reads from.
    pub(super) places: Vec<usize>,
    /// From one row to the next.
    pub(super) step: isize,
    /// Of each axis of the source the positions in the box, and the elements from one to the next.
    axes: Vec<BoxAxis>,
    /// Which axis is the innermost, how many phases it has, and their length.
    inner: usize,
    phases: usize,
    phase_len: usize,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct BoxAxis {
    len: usize,
    step: usize,
}

impl Boxed {
    /// The box for tiles of these rows and lanes, of which there will be fewer if it were too large; `None` if the windows
    /// are no part of the source with zeros around it.
    pub(super) fn find(windows: &Windows, tile: &mut (usize, usize)) -> Option<Boxed> {
        let guards = |g: &Guard| windows.axes.iter().any(|a| a.position == g.number && a.extent == g.limit);
        let forwards = |a: &SourceAxis| {
            let Affine { row, lane, taps, .. } = &a.position;
            *row >= 0 && *lane >= 0 && taps.iter().all(|&t| t >= 0)
        };
        let axes = &windows.axes;
        if axes.is_empty() || !windows.guards.iter().all(guards) || !axes.iter().all(forwards) {
            return None;
        }
        // A filter of its own for each row would be read row by row.
        if windows.filter.row != 0 {
            tile.0 = 1;
        }
        let moved: Vec<usize> = (0..axes.len()).filter(|&k| axes[k].position.lane > 0).collect();
        let inner = match moved[..] {
            [] => axes.len() - 1,
            [inner] if axes[inner].position.row % axes[inner].position.lane == 0 => inner,
            _ => return None,
        };
        loop {
            let boxed = Boxed::new(windows, inner, *tile);
            if boxed.len > WANTED && tile.0 > 1 {
                tile.0 = tile.0.div_ceil(2);
            } else {
                return (boxed.len <= MOST).then_some(boxed);
            }
        }
    }

    fn new(windows: &Windows, inner: usize, (rows, lanes): (usize, usize)) -> Boxed {
        let along = |x: i64, n: usize| (x as usize).saturating_mul(n.saturating_sub(1));
        let len = |axis: &SourceAxis| {
            let Affine { row, lane, taps, .. } = &axis.position;
            let reach = taps.iter().copied().max().unwrap_or(0) as usize;
            reach.saturating_add(along(*row, rows)).saturating_add(along(*lane, lanes)).saturating_add(1)
        };
        let phases = windows.axes[inner].position.lane.max(1) as usize;
        let phase_len = len(&windows.axes[inner]).div_ceil(phases);
        let mut axes = vec![BoxAxis { len: 1, step: 0 }; windows.axes.len()];
        let mut step = phases.saturating_mul(phase_len);
        for (k, axis) in windows.axes.iter().enumerate().rev().filter(|(k, _)| *k != inner) {
            axes[k] = BoxAxis { len: len(axis), step };
            step = step.saturating_mul(axes[k].len);
        }
        let place = |t: usize| {
            let on = |(axis, own): (&SourceAxis, &BoxAxis)| axis.position.taps[t] as usize * own.step;
            let at = windows.axes[inner].position.taps[t] as usize;
            let outer: usize = windows.axes.iter().zip(&axes).map(on).sum();
            outer + at % phases * phase_len + at / phases
        };
        // A box that is too large has no places.
        let taps = if step > MOST { 0 } else { windows.taps() };
        let of_row = |(axis, own): (&SourceAxis, &BoxAxis)| {
            (axis.position.row as isize).saturating_mul(own.step as isize)
        };
        let on_inner = windows.axes[inner].position.row as isize / phases as isize;
        let outer = windows.axes.iter().zip(&axes).map(of_row).fold(0isize, isize::saturating_add);
        let places = (0..taps).map(place).collect();
        let step_of_row = outer.saturating_add(on_inner);
        Boxed { places, step: step_of_row, axes, inner, phases, phase_len, len: step }
    }

    /// Elements of the box.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Copies what a tile needs.
    ///
    /// # Safety
    /// The bindings vouch for the source; the box has room for [`Self::len`].
    pub(super) unsafe fn fill(&self, windows: &Windows, tile: &Block, to: *mut f32) {
        let starts: Vec<i64> =
            windows.axes.iter().map(|a| a.position.at(&windows.rest_extents, tile)).collect();
        let line = self.phases * self.phase_len;
        let mut index = vec![0usize; self.axes.len()];
        for at in (0..self.len).step_by(line.max(1)) {
            let mut inside = true;
            let mut from = 0isize;
            for (k, axis) in windows.axes.iter().enumerate().filter(|(k, _)| *k != self.inner) {
                let position = starts[k] + index[k] as i64;
                inside &= (0..axis.extent).contains(&position);
                from += position as isize * axis.stride;
            }
            let source = windows.source_base(from);
            // SAFETY: the line lies in the box, and what is read of it in the source.
            unsafe {
                let line = std::slice::from_raw_parts_mut(to.add(at), line);
                match inside {
                    true => self.fill_line(&windows.axes[self.inner], starts[self.inner], source, line),
                    false => line.fill(0.0),
                }
            }
            for k in (0..self.axes.len()).rev().filter(|k| *k != self.inner) {
                index[k] += 1;
                if index[k] < self.axes[k].len {
                    break;
                }
                index[k] = 0;
            }
        }
    }

    /// # Safety
    /// The source is readable at the positions of the axis.
    unsafe fn fill_line(&self, axis: &SourceAxis, start: i64, source: *const f32, line: &mut [f32]) {
        let phases = self.phases as i64;
        for (phase, run) in line.chunks_exact_mut(self.phase_len).enumerate() {
            let first = start + phase as i64;
            let ceil = |x: i64| (-(-x).div_euclid(phases)).clamp(0, run.len() as i64) as usize;
            let (low, high) = (ceil(-first), ceil(axis.extent - first));
            let high = high.max(low);
            run[..low].fill(0.0);
            run[high..].fill(0.0);
            let step = axis.stride * self.phases as isize;
            // SAFETY: by the contract: these positions are on the axis.
            unsafe {
                let from = source.wrapping_offset((first + low as i64 * phases) as isize * axis.stride);
                let run = &mut run[low..high];
                if step == 1 {
                    std::ptr::copy_nonoverlapping(from, run.as_mut_ptr(), run.len());
                } else {
                    for (j, x) in run.iter_mut().enumerate() {
                        *x = *from.offset(j as isize * step);
                    }
                }
            }
        }
    }
}

impl Windows {
    /// The address that many elements from the start of the source.
    fn source_base(&self, elements: isize) -> *const f32 {
        self.source_data.wrapping_offset(elements)
    }
}
