//! Products of bytes, summed in 32 bits.
//!
//! Both sources are packed as pairs of reduced positions, widened to 16 bits: what one instruction of every vector set since
//! SSE2 multiplies and adds to 32 bits, exactly for all values (two products of bytes are below 2^17). AVX-512 VNNI adds them
//! to the sums in the same instruction. The form of that set that takes bytes would do twice as much at once, but wants one
//! side without a sign and a correction for it; it could not be measured where this was written.
//!
//! ```text
//! left    groups of six rows: for each pair of positions the pairs of the six rows
//! right   panels of sixteen columns: for each pair of positions the pairs of the sixteen columns
//! sums    six rows by sixteen columns, in registers over a block of positions
//! ```

use super::super::instruction_set::InstructionSet;
use super::multiply::{Multiply, Operand};
use std::cell::RefCell;

/// Rows and columns whose sums stay in registers.
const ROWS: usize = 6;
const COLUMNS: usize = 16;
/// Reduced positions of a block: a panel of the right source then has half of an L1 cache.
const DEPTH: usize = 512;

/// Two neighbouring reduced positions.
type Pair = [i16; 2];
/// Those of the columns of a panel.
type Line = [Pair; COLUMNS];
/// Those of the rows of a group.
type Group = [Pair; ROWS];
type Sums = [[i32; COLUMNS]; ROWS];

/// A byte, widened.
trait Byte: Copy {
    fn widen(self) -> i16;
}

impl Byte for i8 {
    #[inline(always)]
    fn widen(self) -> i16 {
        self.into()
    }
}

impl Byte for u8 {
    #[inline(always)]
    fn widen(self) -> i16 {
        self.into()
    }
}

#[derive(Default)]
struct Packed {
    left: Vec<Group>,
    right: Vec<Line>,
}

thread_local! {
    static PACKED: RefCell<Packed> = RefCell::default();
}

/// `tile[r][c] (+)= Σ left[r][k] · right[k][c]` of bytes, signed or not, wrapping.
///
/// # Safety
/// As for [`super::multiply::multiply`].
pub(super) unsafe fn multiply(signed: bool, shape: Multiply, left: Operand, right: Operand, tile: *mut i32) {
    let mut packed = PACKED.take();
    // SAFETY: by the contract.
    unsafe {
        match signed {
            true => multiply_blocks::<i8>(&mut packed, shape, left, right, tile),
            false => multiply_blocks::<u8>(&mut packed, shape, left, right, tile),
        }
    }
    PACKED.set(packed);
}

unsafe fn multiply_blocks<T: Byte>(
    packed: &mut Packed,
    shape: Multiply,
    left: Operand,
    right: Operand,
    tile: *mut i32,
) {
    let Multiply { rows, columns, depth, set, .. } = shape;
    let multiply_group = choose(set);
    for k in (0..depth).step_by(DEPTH) {
        let depth = DEPTH.min(depth - k);
        let add = shape.add || k > 0;
        // SAFETY: by the contract: the positions lie in the sources.
        unsafe { pack_left::<T>(&mut packed.left, left, rows, (k, depth)) };
        let pairs = depth.div_ceil(2);
        for first in (0..columns).step_by(COLUMNS) {
            let width = COLUMNS.min(columns - first);
            // SAFETY: as above.
            unsafe { pack_right::<T>(&mut packed.right, right, (first, width), (k, depth)) };
            for (group, row) in packed.left.chunks_exact(pairs).zip((0..rows).step_by(ROWS)) {
                // SAFETY: the processor has the set.
                let sums = unsafe { multiply_group(group, &packed.right) };
                for (r, sums) in sums.iter().enumerate().take(rows - row) {
                    // SAFETY: the row lies in the tile, which nothing else touches.
                    let out = unsafe {
                        std::slice::from_raw_parts_mut(tile.add((row + r) * columns + first), width)
                    };
                    for (o, sum) in out.iter_mut().zip(sums) {
                        *o = if add { o.wrapping_add(*sum) } else { *sum };
                    }
                }
            }
        }
    }
}

/// The pairs of all rows; rows past the last and a position past the last are zero.
unsafe fn pack_left<T: Byte>(to: &mut Vec<Group>, source: Operand, rows: usize, (k, depth): (usize, usize)) {
    let pairs = depth.div_ceil(2);
    to.clear();
    to.resize(rows.div_ceil(ROWS) * pairs, [[0; 2]; ROWS]);
    for (group, row) in to.chunks_exact_mut(pairs).zip((0..rows).step_by(ROWS)) {
        for r in 0..ROWS.min(rows - row) {
            let from = source.data.cast::<T>().wrapping_offset((row + r) as isize * source.side);
            for (pair, at) in group.iter_mut().zip((k..k + depth).step_by(2)) {
                // SAFETY: by the contract of `multiply`.
                unsafe {
                    pair[r][0] = (*from.offset(at as isize * source.depth)).widen();
                    if at + 1 < k + depth {
                        pair[r][1] = (*from.offset((at + 1) as isize * source.depth)).widen();
                    }
                }
            }
        }
    }
}

/// The pairs of some columns, likewise.
unsafe fn pack_right<T: Byte>(
    to: &mut Vec<Line>,
    source: Operand,
    (first, width): (usize, usize),
    (k, depth): (usize, usize),
) {
    to.clear();
    to.resize(depth.div_ceil(2), [[0; 2]; COLUMNS]);
    let from = source.data.cast::<T>().wrapping_offset(first as isize * source.side);
    for (half, start) in [k, k + 1].into_iter().enumerate() {
        for (line, at) in to.iter_mut().zip((start..k + depth).step_by(2)) {
            let from = from.wrapping_offset(at as isize * source.depth);
            if source.side == 1 && width == COLUMNS {
                // SAFETY: by the contract of `multiply`.
                let bytes = unsafe { *from.cast::<[T; COLUMNS]>() };
                line.iter_mut().zip(bytes).for_each(|(pair, byte)| pair[half] = byte.widen());
                continue;
            }
            for (c, pair) in line.iter_mut().enumerate().take(width) {
                // SAFETY: by the contract of `multiply`.
                pair[half] = unsafe { *from.offset(c as isize * source.side) }.widen();
            }
        }
    }
}

type MultiplyGroup = unsafe fn(&[Group], &[Line]) -> Sums;

/// The sums of a group of rows and a panel of columns by what the processor has.
fn choose(set: InstructionSet) -> MultiplyGroup {
    match set {
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 if is_x86_feature_detected!("avx512vnni") => multiply_vnni,
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => multiply_avx512,
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => multiply_avx2,
        #[cfg(not(target_arch = "x86_64"))]
        InstructionSet::Avx512 | InstructionSet::Avx2 => multiply_portable,
        InstructionSet::Baseline => multiply_portable,
    }
}

/// For any processor.
fn multiply_portable(left: &[Group], right: &[Line]) -> Sums {
    let mut sums = [[0i32; COLUMNS]; ROWS];
    for (group, line) in left.iter().zip(right) {
        for (sums, a) in sums.iter_mut().zip(group) {
            for (sum, b) in sums.iter_mut().zip(line) {
                let products = i32::from(a[0]) * i32::from(b[0]) + i32::from(a[1]) * i32::from(b[1]);
                *sum = sum.wrapping_add(products);
            }
        }
    }
    sums
}

/// A pair as the 32 bits that a broadcast takes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn bits(pair: Pair) -> i32 {
    i32::from(pair[0] as u16) | i32::from(pair[1]) << 16
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn multiply_avx2(left: &[Group], right: &[Line]) -> Sums {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi32, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_set1_epi32,
        _mm256_setzero_si256, _mm256_storeu_si256,
    };
    let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
    for (group, line) in left.iter().zip(right) {
        let from = line.as_ptr().cast::<__m256i>();
        // SAFETY: a line has 64 bytes.
        let columns = unsafe { [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))] };
        for (sums, pair) in sums.iter_mut().zip(group) {
            let row = _mm256_set1_epi32(bits(*pair));
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(row, column));
            }
        }
    }
    let mut result = [[0; COLUMNS]; ROWS];
    for (to, sums) in result.iter_mut().zip(sums) {
        for (half, sum) in sums.into_iter().enumerate() {
            // SAFETY: each half of a row has eight numbers.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().add(8 * half).cast(), sum) };
        }
    }
    result
}

/// The loop of both forms for AVX-512, which differ in how products are added.
#[cfg(target_arch = "x86_64")]
macro_rules! multiply_wide {
    ($left:expr, $right:expr, $add:expr) => {{
        use std::arch::x86_64::{
            _mm512_loadu_si512, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_storeu_si512,
        };
        let mut sums = [_mm512_setzero_si512(); ROWS];
        for (group, line) in $left.iter().zip($right) {
            // SAFETY: a line has 64 bytes.
            let columns = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
            for (sum, pair) in sums.iter_mut().zip(group) {
                *sum = $add(*sum, _mm512_set1_epi32(bits(*pair)), columns);
            }
        }
        let mut result = [[0; COLUMNS]; ROWS];
        for (to, sum) in result.iter_mut().zip(sums) {
            // SAFETY: a row has sixteen numbers.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), sum) };
        }
        result
    }};
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn multiply_avx512(left: &[Group], right: &[Line]) -> Sums {
    use std::arch::x86_64::{_mm512_add_epi32, _mm512_madd_epi16};
    multiply_wide!(left, right, |sum, a, b| _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn multiply_vnni(left: &[Group], right: &[Line]) -> Sums {
    use std::arch::x86_64::_mm512_dpwssd_epi32;
    multiply_wide!(left, right, |sum, a, b| _mm512_dpwssd_epi32(sum, a, b))
}

#[cfg(test)]
#[allow(clippy::print_stderr, reason = "what is skipped is said")]
mod tests {
    use super::*;

    /// Bytes of every value, the extremes often.
    fn noise(count: usize, seed: usize) -> Vec<u8> {
        let byte = |k: usize| {
            let x = (k + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            if x.is_multiple_of(5) { [0x80, 0x7f, 0xff, 0][x / 5 % 4] } else { x as u8 }
        };
        (0..count).map(byte).collect()
    }

    /// The functions that this processor has, by name.
    fn functions() -> Vec<(&'static str, MultiplyGroup)> {
        let mut list: Vec<(&str, MultiplyGroup)> = vec![("portable", multiply_portable)];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                list.push(("avx2", multiply_avx2));
            }
            let avx512 = is_x86_feature_detected!("avx512bw");
            if avx512 {
                list.push(("avx512", multiply_avx512));
            }
            if avx512 && is_x86_feature_detected!("avx512vnni") {
                list.push(("vnni", multiply_vnni));
            } else {
                eprintln!("skipped: this processor has no AVX-512 VNNI");
            }
        }
        list
    }

    #[test]
    fn every_instruction_set_gives_the_same_sums() {
        for pairs in [0, 1, 7, 256] {
            let halves = noise(pairs * 2 * (ROWS + COLUMNS), pairs);
            let pair = |k: usize| [i16::from(halves[2 * k] as i8), i16::from(halves[2 * k + 1] as i8)];
            let left: Vec<Group> = (0..pairs).map(|k| std::array::from_fn(|r| pair(k * ROWS + r))).collect();
            let right: Vec<Line> =
                (0..pairs).map(|k| std::array::from_fn(|c| pair(pairs * ROWS + k * COLUMNS + c))).collect();
            let want: Sums = std::array::from_fn(|r| {
                std::array::from_fn(|c| {
                    let product = |k: usize, h: usize| i32::from(left[k][r][h]) * i32::from(right[k][c][h]);
                    (0..pairs).map(|k| product(k, 0) + product(k, 1)).sum()
                })
            });
            for (name, function) in functions() {
                // SAFETY: the processor has what the function needs.
                assert_eq!(unsafe { function(&left, &right) }, want, "{name}, {pairs} pairs");
            }
        }
    }

    #[test]
    fn bytes_of_every_shape_and_layout_are_multiplied() {
        let sizes = [(1, 1, 1), (6, 16, 512), (7, 17, 513), (13, 40, 1030), (2, 3, 2), (20, 1, 31)];
        for (rows, columns, depth) in sizes {
            for signed in [true, false] {
                for transposed in [false, true] {
                    check(rows, columns, depth, signed, transposed);
                }
            }
        }
    }

    fn check(rows: usize, columns: usize, depth: usize, signed: bool, transposed: bool) {
        let (left, right) = (noise(rows * depth, 1), noise(depth * columns, 2));
        let number = |byte: u8| if signed { i32::from(byte as i8) } else { i32::from(byte) };
        let of = |data: &[u8], side: usize, depth: usize| Operand {
            data: data.as_ptr(),
            side: side as isize,
            depth: depth as isize,
        };
        let (a, b) = match transposed {
            false => (of(&left, depth, 1), of(&right, 1, columns)),
            true => (of(&left, 1, rows), of(&right, depth, 1)),
        };
        let at = |data: &[u8], o: Operand, side: usize, k: usize| {
            number(data[side * o.side as usize + k * o.depth as usize])
        };
        for set in InstructionSet::available() {
            let mut tile = vec![i32::MAX; rows * columns];
            for add in [false, true] {
                let shape = Multiply { rows, columns, depth, add, set };
                // SAFETY: the vectors have these sizes; the processor has the set.
                unsafe { multiply(signed, shape, a, b, tile.as_mut_ptr()) };
            }
            for (n, got) in tile.into_iter().enumerate() {
                let (r, c) = (n / columns, n % columns);
                let sum: i32 = (0..depth).map(|k| at(&left, a, r, k) * at(&right, b, c, k)).sum();
                assert_eq!(got, 2 * sum, "{rows}x{columns}x{depth} {set} at {r}, {c}");
            }
        }
    }
}
