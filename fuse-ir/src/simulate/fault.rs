//! What a kernel did that has no meaning.

use super::shadow::AccessKind;
use crate::kernel_ir::{Block, Kernel, Scope, Stmt};
use std::collections::HashSet;
use std::fmt;

/// A fault of one thread. Of several by one statement the first of each kind is kept.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// The kernel's name.
    pub kernel: String,
    /// The block's position in the grid.
    pub block: [u32; 3],
    /// The thread's position in its block.
    pub thread: [u32; 3],
    /// Where the statement stands: the position in the body, in the block of that statement, and so on. Positions in an
    /// `else` count on from the other branch.
    pub path: Vec<u32>,
    /// The statement's first line.
    pub statement: String,
    /// What is wrong.
    pub kind: FaultKind,
}

/// What is wrong.
#[derive(Clone, PartialEq, Debug)]
pub enum FaultKind {
    /// Two accesses conflict and have no order.
    Race {
        /// The name of the memory.
        memory: String,
        /// The byte, from the start of the memory.
        at: i64,
        /// How this thread accesses it.
        access: AccessKind,
        /// Who else does.
        other: Other,
    },
    /// The bytes are being written by a `cp.async` that nobody waited for.
    InFlight {
        /// The name of the memory.
        memory: String,
        /// The byte, from the start of the memory.
        at: i64,
        /// How this thread accesses it.
        access: AccessKind,
        /// The thread that issued the copy.
        issuer: [u32; 3],
    },
    /// The bytes are being read by a `cp.async` that nobody waited for, and written.
    SourceInFlight {
        /// The name of the memory.
        memory: String,
        /// The byte, from the start of the memory.
        at: i64,
    },
    /// Not all threads of the block, or lanes of the warp, come to the statement.
    Divergent {
        /// Who would have to.
        scope: Scope,
    },
    /// The access leaves the memory.
    OutOfBounds {
        /// The name of the memory.
        memory: String,
        /// The first byte, from the start of the memory.
        at: i64,
        /// Bytes of the access.
        width: u64,
    },
    /// The address is no multiple of the access's width.
    Misaligned {
        /// The name of the memory.
        memory: String,
        /// The first byte, from the start of the memory.
        at: i64,
        /// Bytes of the access.
        width: u64,
    },
    /// Nobody wrote the bytes that are read.
    Uninitialised {
        /// The name of the memory.
        memory: String,
        /// The byte, from the start of the memory.
        at: i64,
    },
    /// An element of an array is read before it is set.
    UndefinedRegister {
        /// The array.
        array: String,
    },
    /// The block ends with a copy in flight.
    Unfinished,
    /// More bytes are valid than are copied.
    CopyTooLong {
        /// As many.
        valid: u32,
    },
    /// A shuffle names a lane outside the segment.
    NoSuchLane {
        /// Which.
        lane: u32,
    },
    /// The step of a loop is not positive, or the variable leaves its dtype.
    InvalidLoop,
    /// The launch takes more instructions than the caller allows.
    TooLong,
}

/// The other side of a race.
#[derive(Clone, PartialEq, Debug)]
pub struct Other {
    /// How it accesses the memory.
    pub access: AccessKind,
    /// The block's position in the grid.
    pub block: [u32; 3],
    /// The thread's position in its block, if it is known.
    pub thread: Option<[u32; 3]>,
    /// The statement's first line.
    pub statement: String,
}

impl AccessKind {
    fn name(self) -> &'static str {
        match self {
            AccessKind::Read => "reads",
            AccessKind::Write => "writes",
            AccessKind::Atomic => "changes",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::Race { memory, at, access, other } => {
                write!(f, "{} byte {at} of `{memory}`, which ", access.name())?;
                match other.thread {
                    Some(thread) => write!(f, "thread {thread:?}")?,
                    None => write!(f, "a thread")?,
                }
                write!(f, " of block {:?} {}", other.block, other.access.name())?;
                write!(f, " at `{}`, and nothing orders the two", other.statement)
            }
            FaultKind::InFlight { memory, at, access, issuer } => write!(
                f,
                "{} byte {at} of `{memory}` while the copy of thread {issuer:?} to it is in flight",
                access.name()
            ),
            FaultKind::SourceInFlight { memory, at } => {
                write!(f, "writes byte {at} of `{memory}` while a copy from it is in flight")
            }
            FaultKind::Divergent { scope: Scope::Block } => {
                write!(f, "is missing at a barrier of its block")
            }
            FaultKind::Divergent { scope: Scope::Warp } => {
                write!(f, "is missing at a statement of its whole warp")
            }
            FaultKind::OutOfBounds { memory, at, width } => {
                write!(f, "accesses {width} bytes at byte {at} of `{memory}`, out of bounds")
            }
            FaultKind::Misaligned { memory, at, width } => {
                write!(f, "accesses {width} bytes at byte {at} of `{memory}`, misaligned")
            }
            FaultKind::Uninitialised { memory, at } => {
                write!(f, "reads byte {at} of `{memory}`, which nobody wrote")
            }
            FaultKind::UndefinedRegister { array } => write!(f, "reads an undefined element of `{array}`"),
            FaultKind::Unfinished => write!(f, "ends with this copy in flight"),
            FaultKind::CopyTooLong { valid } => write!(f, "copies {valid} bytes, more than there are"),
            FaultKind::NoSuchLane { lane } => write!(f, "names lane {lane}, outside its segment"),
            FaultKind::InvalidLoop => write!(f, "has a step that is not positive, or a variable too large"),
            FaultKind::TooLong => write!(f, "is stopped: the launch takes too many instructions"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: Vec<String> = self.path.iter().map(u32::to_string).collect();
        write!(
            f,
            "kernel `{}`, block {:?}: thread {:?} at {} `{}` {}",
            self.kernel,
            self.block,
            self.thread,
            path.join("."),
            self.statement,
            self.kind
        )
    }
}

impl std::error::Error for Fault {}

/// The statement at a path as [`Fault::path`] has it.
pub(super) fn find_statement<'a>(body: &'a Block, path: &[u32]) -> Option<&'a Stmt> {
    let (first, rest) = path.split_first()?;
    let stmt = body.get(*first as usize)?;
    let Some((next, deeper)) = rest.split_first() else { return Some(stmt) };
    match stmt {
        Stmt::For { body, .. } => find_statement(body, rest),
        Stmt::If { then, .. } if (*next as usize) < then.len() => find_statement(then, rest),
        Stmt::If { then, otherwise, .. } => {
            let within = next - then.len() as u32;
            find_statement(otherwise, &[&[within], deeper].concat())
        }
        _ => None,
    }
}

/// The faults of a launch so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) list: Vec<Fault>,
    seen: HashSet<(u32, std::mem::Discriminant<FaultKind>)>,
    raced: HashSet<u32>,
}

impl Faults {
    /// How many are kept.
    const LIMIT: usize = 32;

    /// Whether the statement had no race so far; from now on it has.
    pub(super) fn is_first_race(&mut self, stmt: u32) -> bool {
        self.raced.insert(stmt)
    }

    /// Keeps a fault unless one like it was kept; `fault` makes it.
    pub(super) fn note(&mut self, stmt: u32, kind: FaultKind, fault: impl FnOnce(FaultKind) -> Fault) {
        if self.list.len() < Self::LIMIT && self.seen.insert((stmt, std::mem::discriminant(&kind))) {
            self.list.push(fault(kind));
        }
    }
}

/// The first line of the statement at a path.
pub(super) fn show_statement(kernel: &Kernel, path: &[u32]) -> String {
    find_statement(&kernel.body, path).map_or_else(String::new, |s| kernel.show_stmt(s))
}
