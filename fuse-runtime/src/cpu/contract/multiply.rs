//! Matrix multiplication of strided operands into a flat tile.
//!
//! Floats go to the crates `gemm-f32` and `gemm-f64`: packing and micro-kernels for AVX-512, AVX2 and NEON, any strides.
//! They add the products of a block of reduced positions in order, with fused multiply-add. Integers have loops of their
//! own, which wrap; bytes that are summed in 32 bits have [`super::bytes`].

use super::super::instruction_set::InstructionSet;
use super::bytes;
use fuse_ir::dtype::DType;

/// A matrix: elements of one dtype from `data` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) data: *const u8,
    /// Elements from one row (of the left) or column (of the right) to the next.
    pub(super) side: isize,
    /// Elements from one reduced position to the next.
    pub(super) depth: isize,
}

impl Operand {
    /// What is multiplied over no reduced positions.
    pub(super) const NOTHING: Operand = Operand { data: std::ptr::null(), side: 0, depth: 0 };

    /// The same from a row or column on, which it must have.
    pub(super) fn at_side(self, first: usize, dtype: DType) -> Operand {
        let bytes = (first as isize).wrapping_mul(self.side).wrapping_mul(dtype.size() as isize);
        Operand { data: self.data.wrapping_offset(bytes), ..self }
    }
}

/// The sizes of a multiplication.
#[derive(Clone, Copy, Debug)]
pub(super) struct Multiply {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
    /// Whether the products are added to what the tile holds.
    pub(super) add: bool,
    pub(super) set: InstructionSet,
}

/// `tile[r][c] (+)= Σ left[r][k] · right[k][c]`, the tile row-major without gaps. The dtypes are that of the tile and that of
/// the operands: the same, or bytes that are summed in i32.
///
/// # Safety
/// The operands have `depth` elements of their dtype for each row and column, the tile is writable, and holds numbers if
/// they are added to.
pub(super) unsafe fn multiply(
    (dtype, of_operands): (DType, DType),
    shape: Multiply,
    left: Operand,
    right: Operand,
    tile: *mut u8,
) {
    let Multiply { rows, columns, depth, add, set } = shape;
    if depth == 0 {
        if !add {
            // SAFETY: by the contract; zero bytes are zero of every number.
            unsafe { std::ptr::write_bytes(tile, 0, rows * columns * dtype.size()) };
        }
        return;
    }
    // The micro-kernels hold vectors along the first side, which is that of the tile's neighbours: the columns.
    macro_rules! gemm {
        ($t:ty, $gemm:expr) => {
            $gemm(
                columns,
                rows,
                depth,
                tile.cast::<$t>(),
                columns as isize,
                1,
                add,
                right.data.cast::<$t>(),
                right.depth,
                right.side,
                left.data.cast::<$t>(),
                left.side,
                left.depth,
                1.0,
                1.0,
                false,
                false,
                false,
                gemm_common::Parallelism::None,
            )
        };
    }
    // SAFETY: by the contract; the strides are those of the operands and of the flat tile.
    unsafe {
        match dtype {
            DType::I32 if matches!(of_operands, DType::I8 | DType::U8) => {
                bytes::multiply(of_operands == DType::I8, shape, left, right, tile.cast());
            }
            DType::F32 => gemm!(f32, gemm_f32::gemm::f32::get_gemm_fn()),
            DType::F64 => gemm!(f64, gemm_f64::gemm::f64::get_gemm_fn()),
            DType::I32 | DType::U32 => multiply_integers::<i32>(set, shape, left, right, tile.cast()),
            DType::I64 | DType::U64 => multiply_integers::<i64>(set, shape, left, right, tile.cast()),
            DType::I16 | DType::U16 => multiply_integers::<i16>(set, shape, left, right, tile.cast()),
            DType::I8 | DType::U8 => multiply_integers::<i8>(set, shape, left, right, tile.cast()),
            // No contraction has these: narrow floats are widened, and bools are no numbers.
            DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2 | DType::Bool => {}
        }
    }
}

/// Integers whose bits are multiplied and added alike with and without a sign.
trait Wrapping: Copy {
    fn multiply_add(self, a: Self, b: Self) -> Self;
    const ZERO: Self;
    const ONE: Self;
}

macro_rules! wrapping {
    ($($t:ty),*) => {$(
        impl Wrapping for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            #[inline(always)]
            fn multiply_add(self, a: Self, b: Self) -> Self {
                self.wrapping_add(a.wrapping_mul(b))
            }
        }
    )*};
}

wrapping!(i8, i16, i32, i64);

/// Columns that are worked on together, and rows whose sums stay in registers.
const LANES: usize = 32;
const ROWS: usize = 4;

#[inline(always)]
unsafe fn multiply_body<T: Wrapping>(shape: Multiply, left: Operand, right: Operand, tile: *mut T) {
    let (a, b) = (left.data.cast::<T>(), right.data.cast::<T>());
    let mut packed = vec![[T::ZERO; LANES]; shape.depth];
    for c in (0..shape.columns).step_by(LANES) {
        let width = LANES.min(shape.columns - c);
        for (k, lanes) in packed.iter_mut().enumerate() {
            // SAFETY: by the contract of `multiply`: the columns lie in the operand.
            unsafe {
                let from = b.offset(k as isize * right.depth + c as isize * right.side);
                if right.side == 1 && width == LANES {
                    *lanes = *from.cast::<[T; LANES]>();
                    continue;
                }
                for (j, x) in lanes.iter_mut().take(width).enumerate() {
                    *x = *from.offset(j as isize * right.side);
                }
            }
        }
        for r in (0..shape.rows).step_by(ROWS) {
            let height = ROWS.min(shape.rows - r);
            let mut sums = [[T::ZERO; LANES]; ROWS];
            for (k, lanes) in packed.iter().enumerate() {
                for (i, row) in sums.iter_mut().enumerate() {
                    // Rows past the last repeat it; their sums are not stored.
                    let at = (r + i.min(height - 1)) as isize;
                    // SAFETY: by the contract of `multiply`.
                    let x = unsafe { *a.offset(at * left.side + k as isize * left.depth) };
                    for (sum, y) in row.iter_mut().zip(lanes) {
                        *sum = sum.multiply_add(x, *y);
                    }
                }
            }
            for (i, row) in sums.iter().enumerate().take(height) {
                // SAFETY: the row lies in the tile.
                let out =
                    unsafe { std::slice::from_raw_parts_mut(tile.add((r + i) * shape.columns + c), width) };
                for (o, x) in out.iter_mut().zip(row) {
                    *o = if shape.add { o.multiply_add(*x, T::ONE) } else { *x };
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn multiply_avx2<T: Wrapping>(shape: Multiply, left: Operand, right: Operand, tile: *mut T) {
    // SAFETY: by the contract.
    unsafe { multiply_body(shape, left, right, tile) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn multiply_avx512<T: Wrapping>(shape: Multiply, left: Operand, right: Operand, tile: *mut T) {
    // SAFETY: by the contract.
    unsafe { multiply_body(shape, left, right, tile) }
}

/// # Safety
/// As for [`multiply`]; the processor has the instruction set.
unsafe fn multiply_integers<T: Wrapping>(
    set: InstructionSet,
    shape: Multiply,
    left: Operand,
    right: Operand,
    tile: *mut T,
) {
    // SAFETY: by the contract.
    unsafe {
        match set {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => multiply_avx512(shape, left, right, tile),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => multiply_avx2(shape, left, right, tile),
            #[cfg(not(target_arch = "x86_64"))]
            InstructionSet::Avx512 | InstructionSet::Avx2 => multiply_body(shape, left, right, tile),
            InstructionSet::Baseline => multiply_body(shape, left, right, tile),
        }
    }
}
