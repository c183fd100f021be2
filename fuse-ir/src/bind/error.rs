//! What can be wrong with the sizes of a call, in the user's words.

use crate::graph::{Kernel, Origin};
use crate::index_map::{Extent, IndexExpr};
use std::fmt;

/// Who says what an extent should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// The shape of another argument of that name.
    Tensor(String),
    /// The `Axis<H>` argument of that name.
    Host(String),
    /// The kernel itself: `const C: usize = 3`.
    Declared,
    /// An equation between extents; the text of its right side.
    Equation(String),
}

/// Why the sizes of a call do not fit the kernel.
#[derive(Clone, PartialEq, Debug)]
pub enum BindError {
    /// A tensor has the wrong number of axes.
    Rank {
        /// The kernel.
        kernel: String,
        /// The argument.
        argument: String,
        /// Its number of axes.
        found: usize,
        /// How many the kernel declares.
        expected: usize,
    },
    /// Two extents of one name differ.
    Mismatch {
        /// The kernel.
        kernel: String,
        /// The argument that shows the extent; `None` if an operation made the axis.
        argument: Option<String>,
        /// The axis.
        axis: String,
        /// Its extent in the argument.
        extent: i64,
        /// Who says something else.
        source: Source,
        /// What that is.
        expected: i64,
    },
    /// An equation has no whole, non-negative solution for the axis that it must give.
    NoSolution {
        /// The kernel.
        kernel: String,
        /// The argument that shows the known extent.
        argument: Option<String>,
        /// The known axis.
        axis: String,
        /// Its extent.
        extent: i64,
        /// What it must be equal to.
        expression: String,
        /// The axis that is looked for.
        unknown: String,
    },
    /// A number that cannot be an extent.
    NotAnExtent {
        /// The kernel.
        kernel: String,
        /// The `Axis<H>` argument that has it, if one does.
        argument: Option<String>,
        /// The axis.
        axis: String,
        /// The number.
        value: i128,
        /// How it came about, if not as an argument.
        expression: Option<String>,
    },
    /// Nothing in the call fixes the extent of an axis.
    Unbound {
        /// The kernel.
        kernel: String,
        /// The axis.
        axis: String,
    },
    /// An extent does not fit 63 bits.
    Overflow {
        /// The kernel.
        kernel: String,
        /// What does not fit.
        expression: String,
    },
    /// `max`, `min`, `argmax` or `argmin` over an empty axis.
    Empty {
        /// The kernel.
        kernel: String,
        /// The operation.
        op: String,
        /// The axis.
        axis: String,
        /// Where it is written.
        origin: Origin,
    },
    /// `slice` or `at` outside the axis.
    OutOfBounds {
        /// The kernel.
        kernel: String,
        /// The operation.
        op: String,
        /// The axis.
        axis: String,
        /// Its extent.
        extent: i64,
        /// The first position asked for.
        start: i64,
        /// How many.
        length: i64,
        /// Where it is written.
        origin: Origin,
    },
    /// A number of an operation is less than it may be.
    TooSmall {
        /// The kernel.
        kernel: String,
        /// The operation.
        op: String,
        /// The name of the number.
        name: String,
        /// The number.
        value: i64,
        /// The least that it may be.
        least: i64,
        /// Where the operation is written.
        origin: Origin,
    },
    /// An operation divides an axis into parts whose number does not divide its extent.
    Indivisible {
        /// The kernel.
        kernel: String,
        /// The argument that shows the axis, if one does.
        argument: Option<String>,
        /// The operation.
        op: String,
        /// The axis.
        axis: String,
        /// Its extent.
        extent: i64,
        /// By what it is divided.
        expression: String,
        /// The value of that.
        divisor: i64,
        /// Where it is written.
        origin: Origin,
    },
    /// An operation asks for an extent that the axis does not have.
    Unequal {
        /// The kernel.
        kernel: String,
        /// The argument that shows the axis, if one does.
        argument: Option<String>,
        /// The operation.
        op: String,
        /// The axis.
        axis: String,
        /// Its extent.
        extent: i64,
        /// What it must be equal to.
        expression: String,
        /// The value of that.
        expected: i64,
        /// Where it is written.
        origin: Origin,
    },
}

impl std::error::Error for BindError {}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_argument = |f: &mut fmt::Formatter<'_>, kernel: &str, argument: &Option<String>| {
            write!(f, "kernel `{kernel}`: ")?;
            argument.as_ref().map_or(Ok(()), |a| write!(f, "argument `{a}`: "))
        };
        match self {
            BindError::Rank { kernel, argument, found, expected } => {
                write!(
                    f,
                    "kernel `{kernel}`: argument `{argument}` has rank {found}, but the kernel declares rank {expected}"
                )
            }
            BindError::Mismatch { kernel, argument, axis, extent, source, expected } => {
                in_argument(f, kernel, argument)?;
                write!(f, "axis `{axis}` is {extent}, but ")?;
                match source {
                    Source::Tensor(name) => write!(f, "`{name}` has {expected}"),
                    Source::Host(name) => write!(f, "`{name}` is {expected}"),
                    Source::Declared => write!(f, "the kernel declares {expected}"),
                    Source::Equation(text) => write!(f, "`{text}` is {expected}"),
                }
            }
            BindError::NoSolution { kernel, argument, axis, extent, expression, unknown } => {
                in_argument(f, kernel, argument)?;
                write!(f, "axis `{axis}` is {extent}, but no extent of axis `{unknown}` makes ")?;
                write!(f, "`{expression}` equal to it")
            }
            BindError::NotAnExtent { kernel, argument, axis, value, expression } => {
                in_argument(f, kernel, argument)?;
                match expression {
                    Some(text) => write!(f, "axis `{axis}` is `{text}`, which is {value}"),
                    None => write!(f, "{value} is not an extent for axis `{axis}`"),
                }
            }
            BindError::Unbound { kernel, axis } => {
                write!(f, "kernel `{kernel}`: nothing in the call fixes the extent of axis `{axis}`")
            }
            BindError::Overflow { kernel, expression } => {
                write!(f, "kernel `{kernel}`: the extent `{expression}` does not fit 63 bits")
            }
            BindError::Empty { kernel, op, axis, origin } => {
                write!(f, "kernel `{kernel}`: `{op}` over axis `{axis}`, which is empty")?;
                write_place(f, origin)
            }
            BindError::OutOfBounds { kernel, op, axis, extent, start, length, origin } => {
                write!(f, "kernel `{kernel}`: `{op}` ")?;
                match (op.as_str(), length) {
                    ("at", _) => write!(f, "reads position {start}")?,
                    (_, length) => write!(f, "takes {length} positions from {start}")?,
                }
                write!(f, " of axis `{axis}`, which has {extent}")?;
                write_place(f, origin)
            }
            BindError::TooSmall { kernel, op, name, value, least, origin } => {
                write!(f, "kernel `{kernel}`: `{op}`: `{name}` is {value}, but must be at least {least}")?;
                write_place(f, origin)
            }
            BindError::Indivisible { kernel, argument, op, axis, extent, expression, divisor, origin } => {
                in_argument(f, kernel, argument)?;
                write!(
                    f,
                    "axis `{axis}` is {extent}, but `{op}` divides it by `{expression}`, which is {divisor}"
                )?;
                write_place(f, origin)
            }
            BindError::Unequal { kernel, argument, op, axis, extent, expression, expected, origin } => {
                in_argument(f, kernel, argument)?;
                write!(f, "`{op}`: axis `{axis}` is {extent}, but `{expression}` is {expected}")?;
                write_place(f, origin)
            }
        }
    }
}

/// ` (file:line)`, if the place is known.
fn write_place(f: &mut fmt::Formatter<'_>, origin: &Origin) -> fmt::Result {
    if origin.line == 0 { Ok(()) } else { write!(f, " ({}:{})", origin.file, origin.line) }
}

/// The text of an extent with the user's names.
pub(super) fn name_axes(kernel: &Kernel, extent: &Extent) -> String {
    // The precedence of sums is 1, of products 2; an operand of lower precedence is put in parentheses.
    fn write(kernel: &Kernel, e: &Extent, outer: u8) -> String {
        let (a, sign, b, own) = match e {
            IndexExpr::Const(c) => return c.to_string(),
            IndexExpr::Extent(axis) | IndexExpr::Index(axis) => return kernel.axis(*axis).name.clone(),
            IndexExpr::Param(p) => return kernel.param(*p).name.clone(),
            IndexExpr::Indirect(node) => return node.to_string(),
            IndexExpr::Add(a, b) => (a, "+", b, 1),
            IndexExpr::Sub(a, b) => (a, "-", b, 1),
            IndexExpr::Mul(a, b) => (a, "*", b, 2),
            IndexExpr::FloorDiv(a, b) => (a, "/", b, 2),
            IndexExpr::Mod(a, b) => (a, "%", b, 2),
        };
        let text = format!("{} {sign} {}", write(kernel, a, own - 1), write(kernel, b, own));
        if own <= outer { format!("({text})") } else { text }
    }
    write(kernel, extent, 0)
}
