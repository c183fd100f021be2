//! Floors of memory traffic: plain parallel loops that read and write as many arrays as a kernel does.

use super::inputs::Aligned;
use rayon::prelude::*;
use std::hint::black_box;

/// Elements of a task.
pub const TASK: usize = 1 << 14;

/// The arrays that a kernel reads and writes, by number and length.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Arrays read.
    pub reads: usize,
    /// Arrays written.
    pub writes: usize,
    /// Elements of each.
    pub length: usize,
    /// Bytes of an element: 4, or 1.
    pub width: usize,
}

impl Traffic {
    /// `reads` arrays read and `writes` written, of `length` f32 each.
    pub const fn floats(reads: usize, writes: usize, length: usize) -> Self {
        Traffic { reads, writes, length, width: 4 }
    }

    /// The bytes moved.
    pub fn bytes(&self) -> usize {
        (self.reads + self.writes) * self.length * self.width
    }

    /// A loop that moves these bytes and computes next to nothing, with its arrays in place.
    pub fn mover(&self) -> Box<dyn FnMut()> {
        let floats = self.length * self.width / 4;
        let inputs: Vec<Aligned> = (0..self.reads).map(|k| Aligned::filled(floats, k as f32 + 0.5)).collect();
        let mut outputs: Vec<Aligned> = (0..self.writes).map(|_| Aligned::filled(floats, 0.0)).collect();
        Box::new(move || {
            if let Some((first, rest)) = inputs.split_first() {
                move_arrays(first, rest, &mut outputs);
            }
            black_box(&mut outputs);
        })
    }
}

/// Every output becomes a sum of the inputs; without outputs the first input is summed. Short arrays stay on this thread.
fn move_arrays(first: &[f32], rest: &[Aligned], outputs: &mut [Aligned]) {
    if outputs.is_empty() {
        black_box(first.par_chunks(TASK).map(sum_in_lanes).sum::<f32>());
        return;
    }
    if first.len() <= TASK {
        for output in outputs {
            move_task(first, rest, 0, output);
        }
        return;
    }
    let mut tasks: Vec<Vec<&mut [f32]>> = (0..first.len().div_ceil(TASK)).map(|_| Vec::new()).collect();
    for output in outputs {
        for (task, part) in tasks.iter_mut().zip(output.chunks_mut(TASK)) {
            task.push(part);
        }
    }
    tasks.into_par_iter().enumerate().for_each(|(k, parts)| {
        for part in parts {
            move_task(first, rest, k * TASK, part);
        }
    });
}

/// One part of one output, whose first element has the position `at`.
fn move_task(first: &[f32], rest: &[Aligned], at: usize, out: &mut [f32]) {
    let n = out.len();
    let x = &first[at..][..n];
    match rest {
        [] => out.copy_from_slice(x),
        [y] => {
            let y = &y[at..][..n];
            for i in 0..n {
                out[i] = x[i] + 1.5 * y[i];
            }
        }
        [y, z, ..] => {
            let (y, z) = (&y[at..][..n], &z[at..][..n]);
            for i in 0..n {
                out[i] = x[i] * y[i] + z[i];
            }
        }
    }
}

/// The sum by 64 accumulators, which a compiler turns into vectors.
fn sum_in_lanes(x: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 64];
    for chunk in x.as_chunks::<64>().0 {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += x;
        }
    }
    lanes.iter().sum()
}
