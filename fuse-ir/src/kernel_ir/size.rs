//! Launch geometry and facts: numbers that the launcher computes from the arguments of one launch.

use super::{Kernel, ParamKind};
use crate::dtype::Value;
use crate::id::{ArgId, FactId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Mul};

/// An unsigned 64-bit number over scalar parameters. The launcher computes it exactly: what leaves 64 bits is an error.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Size {
    /// A number.
    Const(u64),
    /// An integer parameter of the kernel; negative ones count as 0.
    Param(ArgId),
    /// `a + b`.
    Add(Box<Size>, Box<Size>),
    /// `a - b`, at least 0.
    Sub(Box<Size>, Box<Size>),
    /// `a * b`.
    Mul(Box<Size>, Box<Size>),
    /// `a / b` rounded down; 0 if `b` is 0.
    Div(Box<Size>, Box<Size>),
    /// `a / b` rounded up; 0 if `b` is 0.
    CeilDiv(Box<Size>, Box<Size>),
    /// The lesser.
    Min(Box<Size>, Box<Size>),
    /// The greater.
    Max(Box<Size>, Box<Size>),
}

impl From<u64> for Size {
    fn from(n: u64) -> Self {
        Size::Const(n)
    }
}

impl From<ArgId> for Size {
    fn from(id: ArgId) -> Self {
        Size::Param(id)
    }
}

impl<T: Into<Size>> Add<T> for Size {
    type Output = Size;

    fn add(self, other: T) -> Size {
        match (self, other.into()) {
            (Size::Const(a), Size::Const(b)) if a.checked_add(b).is_some() => Size::Const(a + b),
            (Size::Const(0), s) | (s, Size::Const(0)) => s,
            (a, b) => Size::Add(Box::new(a), Box::new(b)),
        }
    }
}

impl<T: Into<Size>> Mul<T> for Size {
    type Output = Size;

    fn mul(self, other: T) -> Size {
        match (self, other.into()) {
            (Size::Const(a), Size::Const(b)) if a.checked_mul(b).is_some() => Size::Const(a * b),
            (Size::Const(1), s) | (s, Size::Const(1)) => s,
            (a, b) => Size::Mul(Box::new(a), Box::new(b)),
        }
    }
}

impl Size {
    /// `self / other` rounded down.
    pub fn floor_div(self, other: impl Into<Size>) -> Size {
        match (self, other.into()) {
            (Size::Const(a), Size::Const(b)) if b > 0 => Size::Const(a / b),
            (a, Size::Const(1)) => a,
            (a, b) => Size::Div(Box::new(a), Box::new(b)),
        }
    }

    /// `self / other` rounded up.
    pub fn ceil_div(self, other: impl Into<Size>) -> Size {
        match (self, other.into()) {
            (Size::Const(a), Size::Const(b)) if b > 0 => Size::Const(a.div_ceil(b)),
            (a, Size::Const(1)) => a,
            (a, b) => Size::CeilDiv(Box::new(a), Box::new(b)),
        }
    }

    /// The lesser of two.
    pub fn min(self, other: impl Into<Size>) -> Size {
        match (self, other.into()) {
            (Size::Const(a), Size::Const(b)) => Size::Const(a.min(b)),
            (a, b) => Size::Min(Box::new(a), Box::new(b)),
        }
    }

    /// The greater of two.
    pub fn max(self, other: impl Into<Size>) -> Size {
        match (self, other.into()) {
            (Size::Const(a), Size::Const(b)) => Size::Const(a.max(b)),
            (Size::Const(0), s) | (s, Size::Const(0)) => s,
            (a, b) if a == b => a,
            (a, b) => Size::Max(Box::new(a), Box::new(b)),
        }
    }

    /// The least multiple of `step` that is no less.
    pub fn round_up(self, step: u64) -> Size {
        self.ceil_div(step) * step
    }

    /// The number, if it depends on no parameter.
    pub fn as_const(&self) -> Option<u64> {
        if let Size::Const(n) = self { Some(*n) } else { None }
    }

    /// A number that divides it, whatever the arguments: 0 for zero itself.
    pub fn known_divisor(&self, kernel: &Kernel) -> u64 {
        match self {
            Size::Const(n) => *n,
            Size::Param(id) => match kernel.params.get(id.index()).map(|p| p.kind) {
                Some(ParamKind::Scalar { multiple_of, .. }) => multiple_of,
                Some(ParamKind::Pointer { .. }) | None => 1,
            },
            Size::Add(a, b) => gcd(a.known_divisor(kernel), b.known_divisor(kernel)),
            Size::Mul(a, b) => a.known_divisor(kernel).checked_mul(b.known_divisor(kernel)).unwrap_or(1),
            Size::Min(a, b) | Size::Max(a, b) => gcd(a.known_divisor(kernel), b.known_divisor(kernel)),
            Size::Sub(..) | Size::Div(..) | Size::CeilDiv(..) => 1,
        }
    }

    /// Its number for these arguments; `None` if it leaves 64 bits or names no integer.
    pub fn eval(&self, args: &[LaunchArg]) -> Option<u64> {
        Some(match self {
            Size::Const(n) => *n,
            Size::Param(id) => match args.get(id.index())? {
                LaunchArg::Scalar(value) => u64::try_from(value.as_i128()?.max(0)).ok()?,
                LaunchArg::Pointer(_) => return None,
            },
            Size::Add(a, b) => a.eval(args)?.checked_add(b.eval(args)?)?,
            Size::Sub(a, b) => a.eval(args)?.saturating_sub(b.eval(args)?),
            Size::Mul(a, b) => a.eval(args)?.checked_mul(b.eval(args)?)?,
            Size::Div(a, b) => a.eval(args)?.checked_div(b.eval(args)?).unwrap_or(0),
            Size::CeilDiv(a, b) => match (a.eval(args)?, b.eval(args)?) {
                (_, 0) => 0,
                (a, b) => a.div_ceil(b),
            },
            Size::Min(a, b) => a.eval(args)?.min(b.eval(args)?),
            Size::Max(a, b) => a.eval(args)?.max(b.eval(args)?),
        })
    }

    /// Calls `f` on every parameter.
    pub fn for_each_param(&self, f: &mut impl FnMut(ArgId)) {
        match self {
            Size::Const(_) => {}
            Size::Param(id) => f(*id),
            Size::Add(a, b)
            | Size::Sub(a, b)
            | Size::Mul(a, b)
            | Size::Div(a, b)
            | Size::CeilDiv(a, b)
            | Size::Min(a, b)
            | Size::Max(a, b) => {
                a.for_each_param(f);
                b.for_each_param(f);
            }
        }
    }
}

/// The greatest common divisor; that of 0 and `n` is `n`.
pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Something that the launcher can test of the arguments.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Condition {
    /// The address passed for a pointer is a multiple of `bytes`.
    Aligned {
        /// Which pointer.
        pointer: ArgId,
        /// A power of two.
        bytes: u32,
    },
    /// `size` is a multiple of `of`.
    Multiple {
        /// What.
        size: Size,
        /// Of what; not 0.
        of: u64,
    },
    /// Two sizes are equal.
    Equal(Size, Size),
    /// The first is at most the second.
    AtMost(Size, Size),
}

impl Condition {
    /// Whether it holds for these arguments.
    pub fn holds(&self, args: &[LaunchArg]) -> bool {
        let both = |a: &Size, b: &Size| Some((a.eval(args)?, b.eval(args)?));
        match self {
            Condition::Aligned { pointer, bytes } => match args.get(pointer.index()) {
                Some(LaunchArg::Pointer(address)) => address % u64::from((*bytes).max(1)) == 0,
                Some(LaunchArg::Scalar(_)) | None => false,
            },
            Condition::Multiple { size, of } => size.eval(args).is_some_and(|n| n % (*of).max(1) == 0),
            Condition::Equal(a, b) => both(a, b).is_some_and(|(a, b)| a == b),
            Condition::AtMost(a, b) => both(a, b).is_some_and(|(a, b)| a <= b),
        }
    }
}

/// An argument of one launch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LaunchArg {
    /// The address of global memory.
    Pointer(u64),
    /// A number of the parameter's dtype.
    Scalar(Value),
}

/// The numbers of one launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dims {
    /// Blocks along x, y, z. If one is 0 there is nothing to launch.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Which facts of the kernel hold, a bit for each from the least on.
    pub facts: u64,
}

impl Dims {
    /// Whether a fact holds.
    pub fn holds(&self, fact: FactId) -> bool {
        self.facts.checked_shr(fact.index() as u32).is_some_and(|bits| bits & 1 == 1)
    }
}

/// Why arguments do not make a launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GeometryError {
    /// A size leaves its range, or the device's limit.
    TooLarge {
        /// `grid.x`, `shared` …
        what: &'static str,
    },
    /// The arguments are not those of the kernel's parameters.
    Arguments {
        /// The name of the first parameter that does not fit.
        parameter: String,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GeometryError::TooLarge { what } => write!(f, "`{what}` of the launch is out of range"),
            GeometryError::Arguments { parameter } => {
                write!(f, "the argument for `{parameter}` does not fit")
            }
        }
    }
}

impl std::error::Error for GeometryError {}

impl Kernel {
    /// The numbers of a launch with these arguments.
    ///
    /// # Errors
    /// If the arguments are not of the parameters' kinds or a size is out of range.
    pub fn evaluate_geometry(&self, args: &[LaunchArg]) -> Result<Dims, GeometryError> {
        for (k, param) in self.params.iter().enumerate() {
            let fits = match (&param.kind, args.get(k)) {
                (ParamKind::Pointer { .. }, Some(LaunchArg::Pointer(_))) => true,
                (ParamKind::Scalar { dtype, .. }, Some(LaunchArg::Scalar(v))) => v.dtype() == *dtype,
                (_, _) => false,
            };
            if !fits || args.len() != self.params.len() {
                return Err(GeometryError::Arguments { parameter: param.name.clone() });
            }
        }
        let limited = |size: &Size, limit: u32, what: &'static str| match size.eval(args) {
            Some(n) if n <= u64::from(limit) => Ok(n as u32),
            Some(_) | None => Err(GeometryError::TooLarge { what }),
        };
        let [x, y, z] = &self.geometry.grid;
        Ok(Dims {
            grid: [
                limited(x, i32::MAX as u32, "grid.x")?,
                limited(y, 65535, "grid.y")?,
                limited(z, 65535, "grid.z")?,
            ],
            block: self.geometry.block,
            shared_bytes: limited(&self.geometry.shared_bytes, i32::MAX as u32, "shared memory")?,
            facts: match self.facts.len() {
                0..=64 => self.facts.iter().rev().fold(0, |bits, fact| {
                    bits << 1 | u64::from(fact.conditions.iter().all(|c| c.holds(args)))
                }),
                _ => return Err(GeometryError::TooLarge { what: "facts" }),
            },
        })
    }
}
