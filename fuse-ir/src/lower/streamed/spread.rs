//! How the tiles of a block lie in the registers of its threads.

use super::panels::PITCH;
use crate::id::{ArrayId, ViewId};
use crate::kernel_ir::build::{Builder, slots, thread_x};
use crate::kernel_ir::{Builtin, Expr, ShuffleKind};
use std::fmt;

/// A spread of rows × keys and of rows × columns over threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spread {
    /// Sixteen neighbouring lanes share four rows: of the keys each has every sixteenth, of the columns four side by side.
    Scalar {
        /// What scores are made of on the side of rows stays in shared memory while keys go by.
        keeps_rows: bool,
    },
    /// As tensor cores leave sums: a warp has sixteen rows, four neighbouring lanes share two of them, and have pairs of keys
    /// and columns.
    Matrix {
        /// Columns of a block.
        width: u32,
    },
}

/// Threads that share rows where one multiplies after the other, and rows, keys and columns of each.
const SHARERS: u32 = 16;
const OWN: u32 = 4;
/// Lanes that share the rows of a product of tensor cores.
const QUAD: u32 = 4;

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, keys, columns) = (self.rows(), self.keys(), self.columns());
        write!(f, "weights of {rows} rows and {keys} keys at a time, {columns} columns")?;
        match self {
            Spread::Scalar { keeps_rows: false } => Ok(()),
            Spread::Scalar { keeps_rows: true } => write!(f, ", rows kept in shared memory"),
            Spread::Matrix { .. } => write!(f, ", tensor cores"),
        }
    }
}

impl Spread {
    /// One that fits every call.
    pub(crate) const PLAIN: Spread = Spread::Scalar { keeps_rows: false };

    /// Threads of a block.
    pub(super) fn threads(self) -> u32 {
        match self {
            Spread::Scalar { .. } => super::super::THREADS,
            Spread::Matrix { .. } => 128,
        }
    }

    /// Blocks that shall fit a multiprocessor; 0 leaves it to the compiler, which moves registers of sums to memory for more.
    pub(super) fn resident_blocks(self) -> u32 {
        match self {
            Spread::Scalar { .. } => 0,
            Spread::Matrix { .. } => 2,
        }
    }

    /// Rows of a block.
    pub(super) fn rows(self) -> u32 {
        64
    }

    /// Keys of a tile.
    pub(super) fn keys(self) -> u32 {
        match self {
            Spread::Scalar { .. } => SHARERS * OWN,
            // As many as there are registers for.
            Spread::Matrix { width } => 4096 / width,
        }
    }

    /// Columns of a block.
    pub(super) fn columns(self) -> u32 {
        match self {
            Spread::Scalar { .. } => SHARERS * OWN,
            Spread::Matrix { width } => width,
        }
    }

    /// Rows, keys and columns of a thread.
    pub(super) fn own(self) -> [u32; 3] {
        match self {
            Spread::Scalar { .. } => [OWN; 3],
            Spread::Matrix { width } => [2, self.keys() / QUAD, width / QUAD],
        }
    }

    /// Columns of a thread that lie side by side.
    pub(super) fn neighbours(self) -> u32 {
        match self {
            Spread::Scalar { .. } => OWN,
            Spread::Matrix { .. } => 2,
        }
    }

    /// Columns of which a thread notes what excluded tiles add.
    pub(super) fn noted(self) -> u32 {
        match self {
            Spread::Scalar { .. } => OWN,
            Spread::Matrix { .. } => 8,
        }
    }

    /// Which of the block's rows is the thread's `i`-th.
    pub(super) fn row(self, i: &Expr) -> Expr {
        match self {
            Spread::Scalar { .. } => (thread_x() / SHARERS) * OWN + i,
            Spread::Matrix { .. } => {
                let (warp, lane) = (Expr::from(Builtin::Warp), Expr::from(Builtin::Lane));
                warp * 16u32 + lane / QUAD + i * 8u32
            }
        }
    }

    /// Which of the tile's keys is the thread's `j`-th.
    pub(super) fn key(self, j: &Expr) -> Expr {
        match self {
            Spread::Scalar { .. } => (thread_x() % SHARERS) + j * SHARERS,
            Spread::Matrix { .. } => pair_of_quad(j),
        }
    }

    /// Which of the block's columns is the thread's `j`-th.
    pub(super) fn column(self, j: &Expr) -> Expr {
        match self {
            Spread::Scalar { .. } => (thread_x() % SHARERS) * OWN + j,
            Spread::Matrix { .. } => pair_of_quad(j),
        }
    }

    /// The register of a score: one after the other multiply the rows of a key side by side.
    pub(super) fn score(self, i: &Expr, j: &Expr) -> Expr {
        match self {
            Spread::Scalar { .. } => j * OWN + i,
            Spread::Matrix { .. } => sum_register(i, j),
        }
    }

    /// The register of a product.
    pub(super) fn product(self, i: &Expr, j: &Expr) -> Expr {
        match self {
            Spread::Scalar { .. } => i * OWN + j,
            Spread::Matrix { .. } => sum_register(i, j),
        }
    }

    fn sharers(self) -> u32 {
        match self {
            Spread::Scalar { .. } => SHARERS,
            Spread::Matrix { .. } => QUAD,
        }
    }

    /// Whether the thread stores what its rows have in common.
    pub(super) fn leads(self) -> Expr {
        (thread_x() % self.sharers()).equals(0u32)
    }

    /// Combines a value over the threads that share rows; all of them have the result.
    pub(super) fn combine(self, b: &mut Builder, value: Expr, join: impl Fn(Expr, Expr) -> Expr) -> Expr {
        let mut all = value;
        let mut distance = 1;
        while distance < self.sharers() {
            let own = b.bind("own", all);
            let other = b.shuffle("other", ShuffleKind::Xor, &own, distance, self.sharers());
            all = join(own, other);
            distance *= 2;
        }
        b.bind("of_all", all)
    }
}

/// The `j`-th of the columns of a product that a lane has sums of: two of every eight.
fn pair_of_quad(j: &Expr) -> Expr {
    (j / 2u32) * 8u32 + (Expr::from(Builtin::Lane) % QUAD) * 2u32 + j % 2u32
}

/// The register of the sum of the lane's `i`-th row and `j`-th column.
fn sum_register(i: &Expr, j: &Expr) -> Expr {
    (j / 2u32) * 4u32 + i * 2u32 + j % 2u32
}

/// Where the key of that number stands in a line, where one after the other multiply: those of a thread side by side.
pub(super) fn place_of_key(key: &Expr) -> Expr {
    (key % SHARERS) * OWN + key / SHARERS
}

/// Loads what a thread has of the columns, or keys, of a line: four side by side.
pub(super) fn load_columns(b: &mut Builder, view: ViewId, line: &Expr, target: ArrayId) {
    load_side(b, view, line * PITCH + (thread_x() % SHARERS) * OWN, target);
}

/// Loads what a thread has of the rows of a line.
pub(super) fn load_rows(b: &mut Builder, view: ViewId, line: &Expr, target: ArrayId) {
    load_side(b, view, line * PITCH + (thread_x() / SHARERS) * OWN, target);
}

/// Stores the weights of the thread's `j`-th key in its line, whose elements are rows.
pub(super) fn store_rows(b: &mut Builder, view: ViewId, j: &Expr, weights: ArrayId) {
    let at = Spread::PLAIN.key(j) * PITCH + (thread_x() / SHARERS) * OWN;
    b.store_from(view, at, slots(weights, j * OWN, OWN), None);
}

/// Four elements side by side, in accesses of 16 bytes.
fn load_side(b: &mut Builder, view: ViewId, at: Expr, target: ArrayId) {
    let step = if b.kernel().view(view).dtype.size() > 4 { 2 } else { 4 };
    for first in (0..OWN).step_by(step as usize) {
        b.load_into(slots(target, first, step), view, &at + first, None);
    }
}
