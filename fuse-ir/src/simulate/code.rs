//! A kernel made ready to run: names are registers, loops with `unroll` are written out, what is constant is computed.

use crate::dtype::{DType, Value};
use crate::id::{ArgId, ArrayId, FnId};
use crate::kernel_ir::{AtomicOp, Memory, MmaShape, Scope, ShuffleKind, VoteKind};
use crate::scalar::ScalarOp;

/// A register of every lane of a warp.
pub(super) type Reg = u32;

/// A value for each lane of a warp.
pub(super) type Lanes = [Value; 32];

/// Where an operand stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Src {
    /// In a register of the warp.
    Reg(Reg),
    /// In a register that all warps share: constants, parameters, the block's position.
    Uniform(u32),
}

/// An access to memory.
#[derive(Clone, Debug)]
pub(super) struct AccessCode {
    pub(super) memory: Memory,
    pub(super) dtype: DType,
    pub(super) index: Src,
    pub(super) count: u32,
    pub(super) when: Option<Src>,
}

impl AccessCode {
    /// Bytes of the access of one lane.
    pub(super) fn width(&self) -> u64 {
        u64::from(self.count) * self.dtype.size() as u64
    }
}

/// One step for the active lanes of a block.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Op {
        op: ScalarOp,
        dst: Reg,
        args: [Src; 3],
        arity: u8,
    },
    Copy {
        dst: Reg,
        src: Src,
    },
    Pack {
        dtype: DType,
        dst: Reg,
        parts: Vec<Src>,
    },
    Unpack {
        dtype: DType,
        part: u32,
        dst: Reg,
        src: Src,
    },
    /// From here on the registers are undefined.
    Undefine {
        first: Reg,
        count: u32,
    },
    /// They have been set by every active lane, or it is a fault.
    Require {
        first: Reg,
        count: u32,
        array: ArrayId,
    },
    Load {
        access: AccessCode,
        dst: Reg,
        fill: Value,
    },
    Store {
        access: AccessCode,
        from: Src,
    },
    Atomic {
        op: AtomicOp,
        access: AccessCode,
        value: Src,
        old: Option<Reg>,
    },
    CopyAsync {
        to: AccessCode,
        from: AccessCode,
        pointer: ArgId,
        valid: Option<Src>,
    },
    CommitAsync,
    WaitAsync {
        pending: u32,
    },
    LoadMatrix {
        access: AccessCode,
        dst: Reg,
        matrices: u32,
        transpose: bool,
    },
    Mma {
        shape: MmaShape,
        d: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    Shuffle {
        dst: Reg,
        kind: ShuffleKind,
        value: Src,
        lane: Src,
        width: u32,
    },
    Vote {
        dst: Reg,
        kind: VoteKind,
        value: Src,
    },
    Call {
        function: FnId,
        args: Vec<Src>,
        results: Vec<Option<Reg>>,
        fault: Option<Reg>,
    },
    If {
        condition: Src,
        then: Vec<Coded>,
        otherwise: Vec<Coded>,
    },
    Loop {
        variable: Reg,
        start: Src,
        end: Src,
        step: Src,
        body: Vec<Coded>,
    },
    Barrier(Scope),
}

/// A step with the statement it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Coded {
    pub(super) step: Step,
    /// By number in [`Code::statements`].
    pub(super) stmt: u32,
}

/// What a shared register starts with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Uniform {
    Constant(Value),
    Block(u8),
}

/// A kernel for one launch.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub(super) body: Vec<Coded>,
    /// Registers of a warp; the first are [`Code::PLACE`], then locals, arrays and what is between.
    pub(super) registers: u32,
    pub(super) uniforms: Vec<Uniform>,
    /// For each statement where it stands.
    pub(super) statements: Vec<Vec<u32>>,
}

impl Code {
    /// Registers for thread x, y, z, lane and warp.
    pub(super) const PLACE: u32 = 5;
}
