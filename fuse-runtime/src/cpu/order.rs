//! Choices between values that generated code makes.

/// `x.clamp(low, high)` without the check of the bounds: a NaN stays, and of crossed bounds the upper one wins.
#[inline(always)]
pub fn clamp<T: PartialOrd>(x: T, low: T, high: T) -> T {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}
