//! Statistics of rows that come in a tile at a time: greatest values, sums, and exponentials less the greatest so far.
//!
//! Each row keeps the greatest exponent so far. When a tile has a greater one, what was added up before is scaled; so no
//! exponential is greater than 1, whatever the scores.

#[cfg(target_arch = "x86_64")]
mod wide;

use super::super::combine::{Combine, Max, Sum};
use super::super::instruction_set::InstructionSet;
use crate::math::{exp, maximum};
use fuse_ir::schedule::LANES;

/// A tile of rows of f32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) data: *mut f32,
    /// Elements from one row to the next.
    pub(super) stride: usize,
    pub(super) rows: usize,
    pub(super) len: usize,
}

impl Rows {
    /// # Safety
    /// The tile is initialised, and nothing else touches it for `'a`.
    #[inline(always)]
    unsafe fn row<'a>(self, k: usize) -> &'a mut [f32] {
        // SAFETY: by the contract.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(k * self.stride), self.len) }
    }
}

/// What a row is shifted by: its greatest exponent; 0 where there is none but −∞, and no more than the greatest number, so that
/// an infinite exponent has an infinite exponential.
#[inline(always)]
pub(super) fn reference(greatest: f32) -> f32 {
    let bounded = if greatest == f32::INFINITY { f32::MAX } else { greatest };
    if greatest == f32::NEG_INFINITY { 0.0 } else { bounded }
}

/// The elements of a row as one, in lanes.
#[inline(always)]
fn reduce<C: Combine<f32>>(row: &[f32]) -> f32 {
    let mut lanes = [C::IDENTITY; LANES];
    let (whole, tail) = row.as_chunks::<LANES>();
    for chunk in whole {
        for i in 0..LANES {
            lanes[i] = C::combine(lanes[i], chunk[i]);
        }
    }
    let last = tail.iter().fold(C::IDENTITY, |sum, x| C::combine(sum, *x));
    C::combine(C::fold(lanes), last)
}

/// Puts `exp(x - c)` in place of `x` and gives the sum.
#[inline(always)]
fn exponentiate<const F: bool>(row: &mut [f32], c: f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (whole, tail) = row.as_chunks_mut::<LANES>();
    for chunk in whole {
        for i in 0..LANES {
            chunk[i] = exp::<F>(chunk[i] - c);
            lanes[i] += chunk[i];
        }
    }
    let mut sum = Sum::fold(lanes);
    for x in tail {
        *x = exp::<F>(*x - c);
        sum += *x;
    }
    sum
}

/// What becomes of the rows of a tile of exponents.
pub(super) struct Advance<'a> {
    /// The exponents, and then their exponentials.
    pub(super) tile: Rows,
    /// The greatest exponent of each row so far.
    pub(super) greatest: &'a mut [f32],
    /// By which what was added up so far is to be scaled.
    pub(super) factors: &'a mut [f32],
    /// The sums of the exponentials of the tile.
    pub(super) sums: &'a mut [f32],
    pub(super) set: InstructionSet,
}

/// By what is scaled that was taken less one greatest exponent, if it becomes another.
#[inline(always)]
fn rescale<const F: bool>(before: f32, now: f32) -> f32 {
    // Before the first finite exponent there is nothing to scale.
    let unchanged = before == now || before == f32::NEG_INFINITY;
    if unchanged { 1.0 } else { exp::<F>(reference(before) - reference(now)) }
}

/// Rows of products, each to be scaled, of two ranges; the sum goes to the second.
pub(super) struct Join<'a> {
    pub(super) before: Rows,
    pub(super) now: Rows,
    pub(super) of_before: &'a [f32],
    pub(super) of_now: &'a [f32],
}

#[inline(always)]
unsafe fn join_greatest_body<const F: bool>(
    before: &[f32],
    now: &mut [f32],
    of_before: &mut [f32],
    of_now: &mut [f32],
) {
    for k in 0..now.len() {
        let most = maximum(before[k], now[k]);
        (of_before[k], of_now[k]) = (rescale::<F>(before[k], most), rescale::<F>(now[k], most));
        now[k] = most;
    }
}

#[inline(always)]
unsafe fn join_rows_body<const F: bool>(join: Join<'_>) {
    for k in 0..join.now.rows {
        let (a, b) = (join.of_before[k], join.of_now[k]);
        // SAFETY: by the contract of `join_rows`.
        let (before, now) = unsafe { (join.before.row(k), join.now.row(k)) };
        now.iter_mut().zip(&*before).for_each(|(x, before)| *x = before * a + *x * b);
    }
}

/// The greatest exponent of a row and those before, the exponentials less that in place of the row, and their sum.
#[inline(always)]
fn advance_row<const F: bool>(row: &mut [f32], before: f32, set: InstructionSet) -> (f32, f32) {
    #[cfg(target_arch = "x86_64")]
    if set == InstructionSet::Avx512 {
        // SAFETY: the processor has the instruction set.
        let (now, sum) = unsafe {
            let now = maximum(before, wide::greatest(row));
            (now, wide::exponentiate(row, reference(now)))
        };
        if !sum.is_nan() {
            return (now, sum);
        }
        // The greatest of what contains NaN is NaN, and so are all exponentials less that.
        row.fill(f32::NAN);
        return (f32::NAN, f32::NAN);
    }
    let _ = set;
    let now = maximum(before, reduce::<Max>(row));
    (now, exponentiate::<F>(row, reference(now)))
}

#[inline(always)]
unsafe fn advance_body<const F: bool>(a: &mut Advance<'_>) {
    for k in 0..a.tile.rows {
        // SAFETY: by the contract of `advance`.
        let row = unsafe { a.tile.row(k) };
        let before = a.greatest[k];
        let (now, sum) = advance_row::<F>(row, before, a.set);
        (a.greatest[k], a.sums[k]) = (now, sum);
        a.factors[k] = rescale::<F>(before, now);
    }
}

#[inline(always)]
unsafe fn greatest_body<const F: bool>(tile: Rows, greatest: &mut [f32]) {
    for (k, m) in greatest.iter_mut().enumerate().take(tile.rows) {
        // SAFETY: by the contract of `take_greatest`.
        *m = maximum(*m, reduce::<Max>(unsafe { tile.row(k) }));
    }
}

#[inline(always)]
unsafe fn sum_body<const F: bool>(tile: Rows, sums: &mut [f32]) {
    for (k, s) in sums.iter_mut().enumerate().take(tile.rows) {
        // SAFETY: by the contract of `sum_rows`.
        *s = reduce::<Sum>(unsafe { tile.row(k) });
    }
}

#[inline(always)]
unsafe fn scale_body<const F: bool>(tile: Rows, factors: &[f32]) {
    for (k, &factor) in factors.iter().enumerate().take(tile.rows) {
        if factor == 1.0 {
            continue;
        }
        // SAFETY: by the contract of `scale_rows`.
        unsafe { tile.row(k) }.iter_mut().for_each(|x| *x *= factor);
    }
}

#[inline(always)]
unsafe fn finite_body<const F: bool>(tile: Rows) -> bool {
    let mut finite = true;
    for k in 0..tile.rows {
        // SAFETY: by the contract of `is_finite`.
        let row = unsafe { tile.row(k) };
        // The exponent of what is not finite has all bits set.
        let most = row.iter().fold(0u32, |m, x| m.max(x.to_bits() & 0x7f80_0000));
        finite &= most != 0x7f80_0000;
    }
    finite
}

/// The versions of a function for each instruction set, and the one that picks. The function is told whether there is fused
/// multiply-add.
macro_rules! versions {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?, $body:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The tile is initialised and nothing else touches it; the processor has the instruction set.
        pub(super) unsafe fn $name(set: InstructionSet, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn avx2($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: by the contract.
                unsafe { $body::<true>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
            unsafe fn avx512($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: by the contract.
                unsafe { $body::<true>($($arg),*) }
            }
            // SAFETY: by the contract.
            unsafe {
                match set {
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx512 => avx512($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx2 => avx2($($arg),*),
                    #[cfg(not(target_arch = "x86_64"))]
                    InstructionSet::Avx512 | InstructionSet::Avx2 => $body::<{ cfg!(target_arch = "aarch64") }>($($arg),*),
                    InstructionSet::Baseline => $body::<{ cfg!(target_arch = "aarch64") }>($($arg),*),
                }
            }
        }
    };
}

versions! {
    /// Takes a tile of exponents along.
    advance(a: &mut Advance<'_>), advance_body
}
versions! {
    /// Takes the greatest values of a tile along.
    take_greatest(tile: Rows, greatest: &mut [f32]), greatest_body
}
versions! {
    /// The greatest exponents of two ranges, in place of those of the second, and by what each range is scaled.
    join_greatest(before: &[f32], now: &mut [f32], of_before: &mut [f32], of_now: &mut [f32]), join_greatest_body
}
versions! {
    /// Adds the products of two ranges.
    join_rows(join: Join<'_>), join_rows_body
}
versions! {
    /// The sum of each row.
    sum_rows(tile: Rows, sums: &mut [f32]), sum_body
}
versions! {
    /// Multiplies each row by its factor.
    scale_rows(tile: Rows, factors: &[f32]), scale_body
}
versions! {
    /// Whether there is neither an infinity nor a NaN.
    is_finite(tile: Rows) -> bool, finite_body
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Greatest values, sums and exponentials of a tile after another, for an instruction set, as bits; NaN is one.
    fn advance_bits(set: InstructionSet, rows: &[Vec<f32>]) -> Vec<u32> {
        let (mut greatest, mut factors, mut sums) = ([f32::NEG_INFINITY], [0.0], [0.0]);
        let mut bits = Vec::new();
        for row in rows {
            let mut row = row.clone();
            let tile = Rows { data: row.as_mut_ptr(), stride: row.len(), rows: 1, len: row.len() };
            let (greatest, factors, sums) = (&mut greatest[..], &mut factors[..], &mut sums[..]);
            let mut a = Advance { tile, greatest, factors, sums, set };
            // SAFETY: the tile is the row; the set is one that the processor has.
            unsafe { advance(set, &mut a) };
            let all = [a.greatest[0], a.factors[0], a.sums[0]];
            let one_nan = |x: f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
            bits.extend(row.into_iter().chain(all).map(one_nan));
        }
        bits
    }

    #[test]
    fn instruction_sets_with_fused_multiply_add_give_the_same_bits() {
        if !InstructionSet::available().contains(&InstructionSet::Avx512) {
            return;
        }
        let special =
            [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, -0.0, 0.0, f32::MAX, f32::MIN, 1e-40, -87.4, -103.9];
        let mut seed = 1u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 8
        };
        for case in 0..2000 {
            let len = 1 + next() as usize % 200;
            let mut row = || -> Vec<f32> {
                let usual = |x: u32| x as f32 / 65536.0 - 200.0;
                let mut row: Vec<f32> = (0..len).map(|_| usual(next())).collect();
                if case % 3 == 0 {
                    let at = next() as usize;
                    row[at % len] = special[at % special.len()];
                }
                if case % 50 == 0 {
                    row.fill(special[case / 50 % special.len()]);
                }
                row
            };
            let rows = [row(), row(), row()];
            assert_eq!(
                advance_bits(InstructionSet::Avx512, &rows),
                advance_bits(InstructionSet::Avx2, &rows),
                "{rows:?}"
            );
        }
    }
}
