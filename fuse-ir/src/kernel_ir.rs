//! Kernel IR: a small structured SIMT language, the form in which a group is ordered, threaded and placed in memory.
//!
//! Two things consume it, each in one walk: the CUDA printer and the simulator. Whatever they must agree on is said
//! here and at each variant. A kernel has typed parameters, launch geometry as expressions of its scalar parameters,
//! typed views over one dynamic allocation of shared memory, and a body of statements.
//!
//! # Threads
//! A block has `block[0] * block[1] * block[2]` threads, always a multiple of 32. The *linear* index of a thread is
//! `x + block[0] * (y + block[1] * z)`; 32 threads of one `linear / 32` are a warp, `linear % 32` is the lane. A lane is
//! *active* at a statement if every `if` around it took the branch for that lane and every `for` around it is in an
//! iteration for that lane. Inactive lanes do nothing: no access, no change of a register, no part in a vote. A branch
//! with no active lane has no effect.
//!
//! # Values and registers
//! Expressions are pure: they read registers and parameters, never memory. Their operations are
//! [`crate::scalar::ScalarOp`] with the meaning of [`crate::eval::eval_op`]; integer division by zero gives 0 and no
//! fault (a kernel that reports faults tests for it). Registers have compute dtypes: f32, f64, integers, bool. A value
//! of a narrow float travels as the f32 of the same value; a cast to a narrow float rounds and stays f32. Loads widen
//! narrow floats, exactly; stores round to nearest even by the rule of [`crate::dtype::Value::stored`] (f8 saturates), but
//! an infinity that is stored as f8e5m2 stays: only a load of f8e5m2 brings one, and no cast is written.
//! A `let` names a value for the rest of its block. A register (`reg`) and an array of registers are declared by a
//! statement and live to the end of its block; each execution of the declaration makes them anew. An array without a
//! fill has undefined elements: reading one is an error. Indexes of arrays are known at compile time once the loops
//! with [`Unroll::Full`] around them are unrolled.
//!
//! # Memory
//! An access names its memory, the dtype it reads or writes, the index of its first element *in units of that dtype*,
//! and how many consecutive elements (1, 2, 4 … such that the width is 1, 2, 4, 8 or 16 bytes). The index is sign- or
//! zero-extended to 64 bits by its dtype and the address is formed in 64 bits, wrapping. The address must be a multiple
//! of the width. A lane that is inactive, or whose predicate `when` is false, touches nothing and needs no valid index;
//! for loads it gets the fill. The dtype of an access is the memory's own, or an unsigned integer (a raw view).
//!
//! *Order.* Each lane performs its statements in order. Two accesses to one byte *conflict* if at least one writes, not
//! both are atomic, and they are made by different lanes. A conflict is a race unless the lanes are of one block and
//! between the two accesses both passed one barrier of that block (or, if they are of one warp, one barrier of the
//! warp). Lanes of different blocks are never ordered: every conflict across blocks is a race. Two lanes that store to
//! one byte in one statement race, even with equal values. Shuffles, votes, `ldmatrix` and `mma` order nothing.
//! A kernel with a race has no meaning; a simulator reports it. So the order in which lanes run is not observable, and
//! a simulator may run each statement for all active lanes of a block before the next.
//!
//! *Epochs*, as a simulator counts them: a block has an epoch that each block barrier raises, a warp one that each
//! warp barrier and each block barrier raises. Two accesses of different warps are ordered iff their block epochs
//! differ; of one warp iff their warp epochs differ.
//!
//! *`cp.async`.* From the statement until the issuing lane has waited for the group of the copy, the bytes written are
//! in flight: any access to them by any lane is a race. The source is read at any time of that span: a write to it in
//! the span is a race. When the wait is over the bytes count as written by the issuing lane at the wait. A block that
//! ends with a copy in flight is an error.
//!
//! *Warp-wide statements* (shuffle, vote, `ldmatrix`, `mma`, warp barrier) need all 32 lanes of the warp active, a
//! block barrier all threads of the block. Everything else is an error ("divergent").
//!
//! Shared memory is uninitialised when a block starts, global memory is what the launcher says. Reads of bytes that
//! nobody wrote are errors.

pub mod size;

pub mod expr;

pub mod mma;

pub mod stmt;

pub mod build;

mod display;

mod verify;

#[doc(hidden)]
pub mod examples;

pub use expr::{Builtin, Expr};
pub use mma::MmaShape;
pub use size::{Condition, Dims, GeometryError, LaunchArg, Size};
pub use stmt::{
    Access, AtomicOp, Block, Memory, Scope, ShuffleKind, Slots, Source, Stmt, Target, Unroll, VoteKind,
};
pub use verify::{KernelError, verify_kernel};

pub(crate) use verify::verify_types;

use crate::dtype::{DType, Value};
use crate::id::{ArgId, ArrayId, FactId, LocalId, ParamId, ViewId};
use crate::index_map::Extent;
use crate::scalar::ScalarFn;
use crate::schedule::BufferRef;
use serde::{Deserialize, Serialize};

/// Lanes of a warp.
pub const WARP: u32 = 32;

/// A kernel: what one launch runs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Kernel {
    /// A valid identifier, from the user's name.
    pub name: String,
    /// One line on what it does, for the header of the printed text.
    pub comment: String,
    /// The arguments of a launch, in order.
    pub params: Vec<Param>,
    /// What the text may be specialised on.
    pub facts: Vec<Fact>,
    /// What must hold of the arguments, or the kernel must not be launched with them. The launcher tests it.
    pub requires: Vec<Condition>,
    /// How many blocks and threads.
    pub geometry: Geometry,
    /// Typed views over the shared memory of a block. They may overlap: conflicts are found by byte.
    pub views: Vec<View>,
    /// Scalar functions that the body calls, callees before callers.
    pub functions: Vec<ScalarFn>,
    /// Lets, registers and loop variables.
    pub locals: Vec<Local>,
    /// Arrays of registers.
    pub arrays: Vec<Array>,
    /// What every thread does.
    pub body: Block,
    /// Contraction and approximate functions are allowed (`#[kernel(fast)]`).
    pub fast: bool,
}

/// An argument of a launch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Param {
    /// Unique among all names of the kernel.
    pub name: String,
    /// What is passed.
    pub kind: ParamKind,
    /// Where the launcher finds it.
    pub source: Origin,
}

/// What is passed for a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ParamKind {
    /// The address of global memory.
    Pointer {
        /// The dtype of its elements.
        dtype: DType,
        /// What the kernel does with it.
        usage: Usage,
        /// The address is a multiple of this, promised by the launcher; a power of two, at least the element's size.
        align: u32,
        /// No other parameter gives access to the same bytes in this launch, unless both only read.
        unaliased: bool,
    },
    /// A number in a register.
    Scalar {
        /// Its dtype: a compute dtype.
        dtype: DType,
        /// It is a multiple of this, promised by the launcher; 1 if nothing is known or it is no integer.
        multiple_of: u64,
    },
}

/// What a kernel does with global memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Usage {
    /// Loads and `cp.async` only.
    Read,
    /// Stores only.
    Write,
    /// Both, or atomics.
    ReadWrite,
}

/// Where the launcher finds an argument.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Origin {
    /// Given by position: kernels written by hand.
    Given,
    /// The address of the element at position zero of a buffer of the plan.
    Buffer(BufferRef),
    /// Scratch memory of the launch, by number, uninitialised.
    Scratch(u32),
    /// Where faults are noted.
    Faults,
    /// A number that the shapes decide.
    Extent(Extent),
    /// The stride, in elements, of a buffer along its axis of that number in layout order; wraps if it is negative.
    /// Along an axis of extent 1 or less the launcher passes what a contiguous buffer of the shape has.
    Stride {
        /// Which buffer.
        buffer: BufferRef,
        /// Which axis.
        axis: u32,
    },
    /// A scalar that the user passes, widened to its compute dtype.
    Scalar(ParamId),
    /// A number of the device, by which variants are chosen.
    Device(DeviceNumber),
}

/// A number by which the variants of a kernel are chosen for a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum DeviceNumber {
    /// The compute capability: 90 for `sm_90`.
    Architecture,
    /// Streaming multiprocessors.
    Multiprocessors,
}

impl DeviceNumber {
    /// A name for a parameter.
    pub fn name(self) -> &'static str {
        match self {
            DeviceNumber::Architecture => "architecture",
            DeviceNumber::Multiprocessors => "multiprocessors",
        }
    }
}

/// What a launcher knows of its device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceNumbers {
    /// [`DeviceNumber::Architecture`].
    pub architecture: u32,
    /// [`DeviceNumber::Multiprocessors`].
    pub multiprocessors: u32,
}

impl DeviceNumbers {
    /// What the simulator passes for its device: `sm_80`, with so few multiprocessors that small launches fill them and
    /// take the variants that large ones take on a GPU.
    pub const SIMULATED: DeviceNumbers = DeviceNumbers { architecture: 80, multiprocessors: 2 };

    /// The number that is asked for.
    pub fn get(self, number: DeviceNumber) -> u32 {
        match number {
            DeviceNumber::Architecture => self.architecture,
            DeviceNumber::Multiprocessors => self.multiprocessors,
        }
    }
}

/// A truth about the arguments that the launcher tests and the text is compiled for, a `-D` define of one text.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fact {
    /// Unique among all names of the kernel.
    pub name: String,
    /// It is true iff all of these hold.
    pub conditions: Vec<Condition>,
}

/// How many blocks and threads a launch has.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Geometry {
    /// Blocks along x, y, z. A launch with a zero is not made. At most 2^31 − 1, 65535, 65535.
    pub grid: [Size; 3],
    /// Threads of a block along x, y, z: numbers, because the register budget is theirs. At most 1024 in all.
    pub block: [u32; 3],
    /// Bytes of shared memory of a block.
    pub shared_bytes: Size,
    /// Blocks that shall fit one multiprocessor (`__launch_bounds__`); 0 leaves it to the compiler.
    pub resident_blocks: u32,
}

impl Default for Geometry {
    fn default() -> Self {
        Geometry {
            grid: [1.into(), 1.into(), 1.into()],
            block: [32, 1, 1],
            shared_bytes: 0.into(),
            resident_blocks: 0,
        }
    }
}

impl Geometry {
    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.block.iter().fold(1, |n, &d| n.saturating_mul(d))
    }
}

/// A typed view of shared memory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct View {
    /// Unique among all names of the kernel.
    pub name: String,
    /// The dtype of its elements.
    pub dtype: DType,
    /// Where it starts, in bytes from the start of the allocation, which is a multiple of 16 (128 on devices).
    pub offset: Size,
    /// How many elements it has; accesses outside are errors.
    pub len: Size,
}

/// What a local is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum LocalKind {
    /// Set once, where it is declared.
    Let,
    /// May be set again.
    Register,
    /// Set by its `for`.
    Loop,
}

/// A let, a register or a loop variable.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Local {
    /// Unique among all names of the kernel.
    pub name: String,
    /// A compute dtype.
    pub dtype: DType,
    /// What it is.
    pub kind: LocalKind,
}

/// An array of registers of each thread.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Array {
    /// Unique among all names of the kernel.
    pub name: String,
    /// A compute dtype.
    pub dtype: DType,
    /// How many elements.
    pub len: u32,
}

impl Kernel {
    /// The parameter of that id.
    pub fn param(&self, id: ArgId) -> &Param {
        &self.params[id.index()]
    }

    /// The local of that id.
    pub fn local(&self, id: LocalId) -> &Local {
        &self.locals[id.index()]
    }

    /// The array of that id.
    pub fn array(&self, id: ArrayId) -> &Array {
        &self.arrays[id.index()]
    }

    /// The view of that id.
    pub fn view(&self, id: ViewId) -> &View {
        &self.views[id.index()]
    }

    /// The fact of that id.
    pub fn fact(&self, id: FactId) -> &Fact {
        &self.facts[id.index()]
    }

    /// The dtype of the elements of a memory.
    pub fn memory_dtype(&self, memory: Memory) -> Option<DType> {
        match memory {
            Memory::Global(id) => match self.params.get(id.index())?.kind {
                ParamKind::Pointer { dtype, .. } => Some(dtype),
                ParamKind::Scalar { .. } => None,
            },
            Memory::Shared(id) => self.views.get(id.index()).map(|v| v.dtype),
        }
    }

    /// The name of a memory.
    pub fn memory_name(&self, memory: Memory) -> &str {
        match memory {
            Memory::Global(id) => &self.param(id).name,
            Memory::Shared(id) => &self.view(id).name,
        }
    }

    /// The dtype of a parameter or constant that is a value of an expression.
    pub fn constant_dtype(value: Value) -> DType {
        value.dtype().compute()
    }
}
