//! `u32` newtypes that name the entries of arenas, printed in dumps as they are in code.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! define_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub struct $name(pub u32);

        impl $name {
            /// The position in the arena.
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of the entry at `index`.
            pub fn from_index(index: usize) -> Self {
                Self(index as u32)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

define_id!(
    /// A named axis of a kernel, after inlining; printed `i0`.
    AxisId, "i"
);
define_id!(
    /// A parameter of a kernel, in the order of its signature; printed `p0`.
    ParamId, "p"
);
define_id!(
    /// A node of the graph; printed `%3`.
    NodeId, "%"
);
define_id!(
    /// A scalar function of a kernel; printed `f0`.
    FnId, "f"
);
define_id!(
    /// A local variable of a scalar function; printed `v0`.
    VarId, "v"
);
define_id!(
    /// A value of a scalar body; printed `x0`.
    ValueId, "x"
);
define_id!(
    /// What a scalar body loads: a buffer, an index or a mask; printed `a0`.
    OperandId, "a"
);
define_id!(
    /// An intermediate buffer between two launches; printed `t0`.
    TempId, "t"
);
define_id!(
    /// A fusion group; printed `g2`.
    GroupId, "g"
);
define_id!(
    /// A name for a value in a kernel's text: a `let`, a register or a loop variable; printed `l0`.
    LocalId, "l"
);
define_id!(
    /// An array of registers of a kernel; printed `r0`.
    ArrayId, "r"
);
define_id!(
    /// A typed view of a kernel's shared memory; printed `s0`.
    ViewId, "s"
);
define_id!(
    /// An argument of a kernel's launch; printed `k0`.
    ArgId, "k"
);
define_id!(
    /// Something the launcher knows of the arguments; printed `c0`.
    FactId, "c"
);
