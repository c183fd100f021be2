//! Sum, product, extremes and truth: reducers of one component.

use super::super::combine::{All, Any, Combine, Max, Min, Prod, Sum};
use super::super::instruction_set::InstructionSet;
use super::super::prefetch::ask_ahead;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::graph::Reducer;
use fuse_ir::schedule::{CHUNK, LANES};

/// The compiled functions of a reducer of one component.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuiltinFns {
    /// `(acc, data, len)`: element `j` goes to lane `j % 64`.
    pub(crate) lanes: unsafe fn(*mut u8, *const u8, usize),
    /// `(acc)`: folds 64 lanes into the first.
    pub(crate) fold: unsafe fn(*mut u8),
    /// `(acc, width, data, len)`.
    pub(crate) step: unsafe fn(*mut u8, usize, *const u8, usize),
    /// `(data, rows, n, out)`: each of `rows` rows of `n` elements, at most one chunk, to one.
    pub(crate) rows: unsafe fn(*const u8, usize, usize, *mut u8),
}

#[inline(always)]
fn lanes_body<T: Copy, C: Combine<T>, const AHEAD: bool>(acc: &mut [T; LANES], data: &[T]) {
    let (whole, tail) = data.as_chunks::<LANES>();
    // A copy, so that the lanes stay in registers: the tail below indexes the array by numbers known at run time only.
    let mut lanes = *acc;
    for chunk in whole {
        if AHEAD {
            ask_ahead::<LANES, _>(chunk);
        }
        for i in 0..LANES {
            lanes[i] = C::combine(lanes[i], chunk[i]);
        }
    }
    *acc = lanes;
    for (a, x) in acc.iter_mut().zip(tail) {
        *a = C::combine(*a, *x);
    }
}

/// Two whole chunks that lie one after the other, at a time: memory answers two streams sooner than one.
#[inline(always)]
fn two_chunks<T: Copy, C: Combine<T>>(data: &[T; 2 * CHUNK]) -> [T; 2] {
    let (first, second) = data.split_at(CHUNK);
    let (mut one, mut two) = ([C::IDENTITY; LANES], [C::IDENTITY; LANES]);
    for (x, y) in first.as_chunks::<LANES>().0.iter().zip(second.as_chunks::<LANES>().0) {
        ask_ahead::<LANES, _>(y);
        for i in 0..LANES {
            one[i] = C::combine(one[i], x[i]);
        }
        for i in 0..LANES {
            two[i] = C::combine(two[i], y[i]);
        }
    }
    [C::fold(one), C::fold(two)]
}

#[inline(always)]
fn step_body<T: Copy, C: Combine<T>>(acc: &mut [T], data: &[T]) {
    if acc.is_empty() {
        return;
    }
    for part in data.chunks(acc.len()) {
        for (a, x) in acc.iter_mut().zip(part) {
            *a = C::combine(*a, *x);
        }
    }
}

/// Rows shorter than the lanes, in `P` of them (a power of two, at least `n`). Combining with the identity changes
/// nothing for the reducers here, so the fold starts there.
#[inline(always)]
fn short_rows<T: Copy, C: Combine<T>, const P: usize>(data: &[T], n: usize, out: &mut [T]) {
    for (o, row) in out.iter_mut().zip(data.chunks_exact(n)) {
        let mut lanes = [C::IDENTITY; P];
        for (a, x) in lanes.iter_mut().zip(row) {
            *a = C::combine(*a, *x);
        }
        let mut half = P / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] = C::combine(lanes[i], lanes[i + half]);
            }
            half /= 2;
        }
        *o = lanes[0];
    }
}

/// Rows of exactly `N` elements, a power of two below the lanes.
#[inline(always)]
fn even_rows<T: Copy, C: Combine<T>, const N: usize>(data: &[T], out: &mut [T]) {
    for (o, row) in out.iter_mut().zip(data.as_chunks::<N>().0) {
        let mut lanes = row.map(|x| C::combine(C::IDENTITY, x));
        let mut half = N / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] = C::combine(lanes[i], lanes[i + half]);
            }
            half /= 2;
        }
        *o = lanes[0];
    }
}

/// `SPECIAL`: with loops of their own for short rows, which are worth their code for the elements that are reduced most
/// on the processors that run most.
#[inline(always)]
fn rows_body<T: Copy, C: Combine<T>, const SPECIAL: bool>(data: &[T], n: usize, out: &mut [T]) {
    debug_assert!(n <= CHUNK);
    let special = SPECIAL && size_of::<T>() >= 4;
    match n {
        0 => out.fill(C::IDENTITY),
        1 => {
            for (o, x) in out.iter_mut().zip(data) {
                *o = C::combine(C::IDENTITY, *x);
            }
        }
        2 => {
            for (o, [x, y]) in out.iter_mut().zip(data.as_chunks::<2>().0) {
                *o = C::combine(C::combine(C::IDENTITY, *x), C::combine(C::IDENTITY, *y));
            }
        }
        3 => {
            for (o, [x, y, z]) in out.iter_mut().zip(data.as_chunks::<3>().0) {
                let [x, y, z] = [x, y, z].map(|v| C::combine(C::IDENTITY, *v));
                *o = C::combine(C::combine(x, z), y);
            }
        }
        4 => {
            for (o, row) in out.iter_mut().zip(data.as_chunks::<4>().0) {
                let [x, y, z, w] = row.map(|v| C::combine(C::IDENTITY, v));
                *o = C::combine(C::combine(x, z), C::combine(y, w));
            }
        }
        8 if special => even_rows::<T, C, 8>(data, out),
        16 if special => even_rows::<T, C, 16>(data, out),
        32 if special => even_rows::<T, C, 32>(data, out),
        5..=8 if special => short_rows::<T, C, 8>(data, n, out),
        5..=16 => short_rows::<T, C, 16>(data, n, out),
        17..LANES => short_rows::<T, C, LANES>(data, n, out),
        // The lanes of two chunks fill the registers.
        CHUNK if special && size_of::<T>() == 4 && out.len() > 1 => {
            let (pairs, last) = data.as_chunks::<{ 2 * CHUNK }>();
            let (results, last_result) = out.as_chunks_mut::<2>();
            for (o, pair) in results.iter_mut().zip(pairs) {
                *o = two_chunks::<T, C>(pair);
            }
            rows_body::<T, C, SPECIAL>(last, n, last_result);
        }
        _ => {
            for (o, row) in out.iter_mut().zip(data.chunks_exact(n)) {
                let mut lanes = [C::IDENTITY; LANES];
                // A whole chunk is most likely one of a long row, which lies in memory.
                match n {
                    CHUNK => lanes_body::<T, C, true>(&mut lanes, row),
                    _ => lanes_body::<T, C, false>(&mut lanes, row),
                }
                *o = C::fold(lanes);
            }
        }
    }
}

/// Declares the functions of one combiner for one instruction set.
macro_rules! version {
    ($t:ty, $c:ty, $special:expr $(, #[$feature:meta])?) => {{
        $(#[$feature])?
        unsafe fn lanes(acc: *mut u8, data: *const u8, len: usize) {
            // SAFETY: the caller gives 64 accumulators and `len` elements that do not overlap.
            unsafe { lanes_body::<$t, $c, false>(&mut *acc.cast(), std::slice::from_raw_parts(data.cast(), len)) }
        }
        $(#[$feature])?
        unsafe fn fold(acc: *mut u8) {
            // SAFETY: the caller gives 64 accumulators.
            unsafe { *acc.cast::<$t>() = <$c as Combine<$t>>::fold(*acc.cast()) }
        }
        $(#[$feature])?
        unsafe fn step(acc: *mut u8, width: usize, data: *const u8, len: usize) {
            // SAFETY: the caller gives `width` accumulators and `len` elements that do not overlap.
            unsafe {
                step_body::<$t, $c>(
                    std::slice::from_raw_parts_mut(acc.cast(), width),
                    std::slice::from_raw_parts(data.cast(), len),
                );
            }
        }
        $(#[$feature])?
        unsafe fn rows(data: *const u8, rows: usize, n: usize, out: *mut u8) {
            // SAFETY: the caller gives `rows * n` elements and `rows` results.
            unsafe {
                rows_body::<$t, $c, { $special }>(
                    std::slice::from_raw_parts(data.cast(), rows * n),
                    n,
                    std::slice::from_raw_parts_mut(out.cast(), rows),
                );
            }
        }
        BuiltinFns { lanes, fold, step, rows }
    }};
}

macro_rules! versions {
    ($set:expr, $t:ty, $c:ty) => {
        match $set {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => {
                version!($t, $c, true, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")])
            }
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => version!($t, $c, true, #[target_feature(enable = "avx2,fma,f16c")]),
            #[cfg(not(target_arch = "x86_64"))]
            InstructionSet::Avx512 | InstructionSet::Avx2 => version!($t, $c, true),
            InstructionSet::Baseline => version!($t, $c, cfg!(not(target_arch = "x86_64"))),
        }
    };
}

/// The identity of `Max` (`greatest` false: of `Min`) for a dtype of numbers.
pub(super) fn extreme(dtype: DType, greatest: bool) -> Option<Value> {
    macro_rules! extreme {
        ($variant:ident, $low:expr, $high:expr) => {
            Some(Value::$variant(if greatest { $high } else { $low }))
        };
    }
    match dtype {
        DType::F32 => extreme!(F32, f32::NEG_INFINITY, f32::INFINITY),
        DType::F64 => extreme!(F64, f64::NEG_INFINITY, f64::INFINITY),
        DType::I8 => extreme!(I8, i8::MIN, i8::MAX),
        DType::I16 => extreme!(I16, i16::MIN, i16::MAX),
        DType::I32 => extreme!(I32, i32::MIN, i32::MAX),
        DType::I64 => extreme!(I64, i64::MIN, i64::MAX),
        DType::U8 => extreme!(U8, u8::MIN, u8::MAX),
        DType::U16 => extreme!(U16, u16::MIN, u16::MAX),
        DType::U32 => extreme!(U32, u32::MIN, u32::MAX),
        DType::U64 => extreme!(U64, u64::MIN, u64::MAX),
        DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2 | DType::Bool => None,
    }
}

impl BuiltinFns {
    /// The functions and the identity of a reducer over a dtype; `None` if there is none.
    pub(super) fn new(reducer: &Reducer, dtype: DType, set: InstructionSet) -> Option<(BuiltinFns, Value)> {
        macro_rules! of_numbers {
            ($c:ty) => {
                match dtype {
                    DType::F32 => versions!(set, f32, $c),
                    DType::F64 => versions!(set, f64, $c),
                    DType::I8 => versions!(set, i8, $c),
                    DType::I16 => versions!(set, i16, $c),
                    DType::I32 => versions!(set, i32, $c),
                    DType::I64 => versions!(set, i64, $c),
                    DType::U8 => versions!(set, u8, $c),
                    DType::U16 => versions!(set, u16, $c),
                    DType::U32 => versions!(set, u32, $c),
                    DType::U64 => versions!(set, u64, $c),
                    DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2 | DType::Bool => return None,
                }
            };
        }
        Some(match reducer {
            Reducer::Sum => (of_numbers!(Sum), Value::I64(0).cast(dtype)),
            Reducer::Prod => (of_numbers!(Prod), Value::I64(1).cast(dtype)),
            Reducer::Max => (of_numbers!(Max), extreme(dtype, false)?),
            Reducer::Min => (of_numbers!(Min), extreme(dtype, true)?),
            Reducer::Any if dtype == DType::Bool => (versions!(set, bool, Any), Value::Bool(false)),
            Reducer::All if dtype == DType::Bool => (versions!(set, bool, All), Value::Bool(true)),
            Reducer::Any | Reducer::All => return None,
            Reducer::ArgMax | Reducer::ArgMin | Reducer::Dot | Reducer::User { .. } => return None,
        })
    }
}
