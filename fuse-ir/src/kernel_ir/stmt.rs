//! Statements of a kernel. Each says which lanes take part and what it does to memory.

use super::expr::Expr;
use super::mma::MmaShape;
use crate::dtype::{DType, Value};
use crate::id::{ArgId, ArrayId, FnId, LocalId, ViewId};
use serde::{Deserialize, Serialize};

/// Statements in order.
pub type Block = Vec<Stmt>;

/// A place with elements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Memory {
    /// What a pointer parameter points to.
    Global(ArgId),
    /// A view of the block's shared memory.
    Shared(ViewId),
}

/// An access of each active lane to consecutive elements.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Access {
    /// Where.
    pub memory: Memory,
    /// What is read or written: the memory's own dtype, or an unsigned integer (raw bits) of any width.
    pub dtype: DType,
    /// The first element, in units of `dtype` from the start of the memory; an integer expression, 32 or 64 bits.
    pub index: Expr,
    /// How many elements: `count * dtype.size()` is 1, 2, 4, 8 or 16 bytes.
    pub count: u32,
    /// Lanes where it is false touch nothing.
    pub when: Option<Expr>,
}

impl Access {
    /// Bytes of the access of one lane.
    pub fn width(&self) -> u64 {
        u64::from(self.count) * self.dtype.size() as u64
    }
}

/// Consecutive elements of a register array.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Slots {
    /// The array.
    pub array: ArrayId,
    /// The first; known at compile time like every index of an array.
    pub first: Expr,
    /// How many.
    pub count: u32,
}

/// What a load sets.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Target {
    /// A `let`, declared here; for one element.
    Let(LocalId),
    /// As many elements of an array as are loaded.
    Slots(Slots),
}

/// What a store takes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Source {
    /// One value.
    Value(Expr),
    /// As many elements of an array as are stored.
    Slots(Slots),
}

/// How a loop is unrolled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Unroll {
    /// Not.
    None,
    /// By that factor; the compiler adds the tail.
    By(u32),
    /// Wholly: start, end and step are literals, and the variable may index register arrays.
    Full,
}

/// Who waits for whom.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Scope {
    /// The lanes of a warp (`__syncwarp`).
    Warp,
    /// The threads of a block (`__syncthreads`).
    Block,
}

/// Whose value a lane gets. `lane` is that of the statement, `width` cuts the warp into segments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ShuffleKind {
    /// Lane `own ^ lane`; `lane < width`.
    Xor,
    /// Lane `own - lane` of the segment, its own value if that is outside.
    Up,
    /// Lane `own + lane` of the segment, its own value if that is outside.
    Down,
    /// Lane `lane % width` of the segment.
    Idx,
}

/// What a vote gives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum VoteKind {
    /// bool: whether any lane says true.
    Any,
    /// bool: whether all lanes say true.
    All,
    /// u32: bit `i` is what lane `i` says.
    Ballot,
}

/// What an atomic does to an i32, u32, i64 or u64. There are none on floats.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum AtomicOp {
    /// `old + value`, wrapping.
    Add,
    /// The lesser.
    Min,
    /// The greater.
    Max,
    /// `old & value`.
    And,
    /// `old | value`.
    Or,
    /// `old ^ value`.
    Xor,
    /// `value`.
    Exchange,
}

/// A statement, executed by the active lanes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Stmt {
    /// A line for the reader; no newline in it.
    Comment(String),
    /// `let local = value`. In scope to the end of the block.
    Let {
        /// What is named.
        local: LocalId,
        /// Its value.
        value: Expr,
    },
    /// `reg local = value`: a register that may be set again. In scope to the end of the block.
    Register {
        /// What is declared.
        local: LocalId,
        /// Its first value.
        value: Expr,
    },
    /// `local = value` of a register in scope.
    Set {
        /// Which.
        local: LocalId,
        /// Its new value.
        value: Expr,
    },
    /// Declares an array of registers, in scope to the end of the block; elements are undefined if there is no fill.
    Array {
        /// Which.
        array: ArrayId,
        /// The value of every element, of the array's dtype.
        fill: Option<Value>,
    },
    /// `array[index] = value`.
    SetElement {
        /// Which array.
        array: ArrayId,
        /// Which element, known at compile time.
        index: Expr,
        /// Its new value.
        value: Expr,
    },
    /// Reads memory. Where `when` is false the target gets `fill`, as often as there are elements.
    Load {
        /// What is set; registers of the compute dtype of the access.
        target: Target,
        /// Where from.
        access: Access,
        /// Of the compute dtype of the access.
        fill: Value,
    },
    /// Writes memory; narrow floats are rounded.
    Store {
        /// What; registers of the compute dtype of the access.
        source: Source,
        /// Where to.
        access: Access,
    },
    /// One indivisible read, change and write; `access.count` is 1.
    Atomic {
        /// What happens.
        op: AtomicOp,
        /// A `let` for the old value, declared here; 0 where `when` is false.
        old: Option<LocalId>,
        /// Where.
        access: Access,
        /// The operand.
        value: Expr,
    },
    /// `cp.async`: 4, 8 or 16 bytes from global to shared memory, in the background. The first `valid` bytes are
    /// copied, the rest is zero; where `valid` is 0 the source is not read and its index need not be valid. Both
    /// addresses are multiples of `bytes`. The copy joins the lane's open group.
    CopyAsync {
        /// Where to.
        to: ViewId,
        /// The first element there, in units of the view's dtype.
        to_index: Expr,
        /// Where from.
        from: ArgId,
        /// The first element there, in units of the pointer's dtype.
        from_index: Expr,
        /// How many.
        bytes: u32,
        /// A u32, at most `bytes`; all if `None`.
        valid: Option<Expr>,
    },
    /// Closes each lane's open group of copies, which may be empty; the next copy opens another.
    CommitAsync,
    /// Each lane waits until at most `pending` of its latest closed groups are unfinished. The copies of the others
    /// are then writes of this lane; other lanes see them after a barrier.
    WaitAsync {
        /// How many may stay in flight.
        pending: u32,
    },
    /// `ldmatrix`: loads `target.count` (1, 2 or 4) matrices of 8 × 8 16-bit elements. Lane `8 i + j` gives the index of
    /// row `j` of matrix `i`, whose 16 bytes are aligned to 16; indexes of further lanes are ignored. Lane `l` gets of
    /// matrix `i`, in slot `i`, the elements `2 (l % 4)` and `2 (l % 4) + 1` of row `l / 4`, the first in the low half; of
    /// the transposed matrix if `transpose`. For the order of memory every lane of the warp reads every row. Warp-wide.
    LoadMatrix {
        /// u32 registers.
        target: Slots,
        /// Whether each matrix is transposed on the way.
        transpose: bool,
        /// Where from.
        view: ViewId,
        /// The first element of the lane's row, in units of the view's dtype.
        index: Expr,
    },
    /// `D = A · B + C` on tensor cores; all operands are read before D is set. Warp-wide.
    Mma {
        /// Shape and dtypes.
        shape: MmaShape,
        /// Registers of D.
        d: Slots,
        /// Registers of A.
        a: Slots,
        /// Registers of B.
        b: Slots,
        /// Registers of C; may be those of D.
        c: Slots,
    },
    /// Each lane gets the value that another one has. The lanes of a warp may differ in `lane` but for `width`.
    /// Warp-wide.
    Shuffle {
        /// A `let` of the value's dtype, declared here.
        result: LocalId,
        /// Whose value.
        kind: ShuffleKind,
        /// What each lane offers; any compute dtype.
        value: Expr,
        /// A u32.
        lane: Expr,
        /// 2, 4, 8, 16 or 32.
        width: u32,
    },
    /// The lanes of a warp tell one another a bool. Warp-wide.
    Vote {
        /// A `let`, declared here.
        result: LocalId,
        /// What it gives.
        kind: VoteKind,
        /// A bool.
        value: Expr,
    },
    /// Calls a scalar function for each active lane, as [`crate::eval::eval_fn`] defines it.
    Call {
        /// A `let` for each result, declared here; `None` where it is not wanted.
        results: Vec<Option<LocalId>>,
        /// Which function of the kernel.
        function: FnId,
        /// One value for each parameter.
        args: Vec<Expr>,
        /// A bool `let`, declared here: whether an integer division by zero happened on the way.
        fault: Option<LocalId>,
    },
    /// Lanes for which `condition` is true execute `then`, the others `otherwise`.
    If {
        /// A bool.
        condition: Expr,
        /// The one branch.
        then: Block,
        /// The other.
        otherwise: Block,
    },
    /// `for local in start..end` by `step`. Each lane evaluates the three once, before the loop; they do not read
    /// registers that the body sets. The step is positive. The last value plus the step must fit the dtype. Lanes whose
    /// variable has reached the end wait for the others. An unrolled loop means the same.
    For {
        /// The loop variable: u32, i32, u64 or i64.
        local: LocalId,
        /// Its first value.
        start: Expr,
        /// The exclusive end.
        end: Expr,
        /// What is added.
        step: Expr,
        /// How it is unrolled.
        unroll: Unroll,
        /// What is executed for each value.
        body: Block,
    },
    /// All lanes of the scope arrive before any goes on; what they did to memory before is ordered before what they do
    /// after.
    Barrier(Scope),
}
