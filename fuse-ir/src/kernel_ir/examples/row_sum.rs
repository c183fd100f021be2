//! Sums of rows by the reduction tree of [`crate::schedule`], one block a row.

use crate::dtype::{DType, Value};
use crate::kernel_ir::build::{Builder, block_x, element, thread_x};
use crate::kernel_ir::{Builtin, Expr, Kernel, KernelError, ShuffleKind, Size, Unroll, Usage};
use crate::scalar::ScalarOp;
use crate::schedule::CHUNK;

/// Threads of a block.
const THREADS: u32 = 256;

/// `out[row] = sum of x[row, ..]` of f32, rows contiguous. Parameters: `x`, `out`, `rows`, `cols`.
///
/// A warp takes a chunk: lane `l` keeps accumulators `l` and `l + 32`. Chunk results meet in shared memory.
///
/// # Errors
/// Never; the verifier's result.
pub fn row_sum() -> Result<Kernel, KernelError> {
    let mut b = Builder::new("row_sum");
    b.kernel_mut().comment = "sums of rows, one block a row, one warp a chunk".into();
    let x = b.pointer("x", DType::F32, Usage::Read);
    let out = b.pointer("out", DType::F32, Usage::Write);
    let rows = b.scalar("rows", DType::U32);
    let cols = b.scalar("cols", DType::U32);
    let chunks = Size::from(cols).ceil_div(CHUNK as u64);
    b.launch([rows.into(), 1.into(), 1.into()], [THREADS, 1, 1], chunks.clone() * 4);
    let partials = b.view("partials", DType::F32, 0, chunks);

    let chunk = CHUNK as u32;
    let row = b.bind("row", block_x().cast(DType::U64) * Expr::from(cols).cast(DType::U64));
    let chunks = b.bind("chunks", (Expr::from(cols) + (chunk - 1)) / chunk);
    let warp = Expr::from(Builtin::Warp);
    let lane = Expr::from(Builtin::Lane);
    b.for_each("chunk", (warp, &chunks), THREADS / 32, Unroll::None, |b, c| {
        let start = b.bind("start", &c * chunk);
        let end = b.bind("end", (&start + chunk).min(cols));
        let acc = b.array("acc", DType::F32, 2, Some(Value::F32(0.0)));
        b.for_each("position", (&start + &lane, &end), 64u32, Unroll::By(4), |b, position| {
            b.unrolled("half", 2, |b, half| {
                let at = b.bind("at", &position + &half * 32u32);
                b.if_then(at.clone().lt(&end), |b| {
                    let value = b.load("value", x, &row + at.clone().cast(DType::U64), None);
                    b.set_element(acc, &half, element(acc, &half) + value);
                });
            });
        });
        let folded = b.register("folded", element(acc, 0u32) + element(acc, 1u32));
        for distance in [16u32, 8, 4, 2, 1] {
            let other = b.shuffle("other", ShuffleKind::Down, folded, distance, 32);
            b.set(folded, Expr::from(folded) + other);
        }
        b.if_then(lane.clone().equals(0u32), |b| b.store(partials, &c, folded, None));
    });
    b.block_barrier();
    b.comment("adjacent pairs of chunks, level by level");
    let levels = Expr::from(32u32) - (chunks.clone().max(1u32) - 1u32).unary(ScalarOp::LeadingZeros);
    let levels = b.bind("levels", levels);
    b.for_each("level", (0u32, levels), 1u32, Unroll::None, |b, level| {
        let reach = b.bind("reach", Expr::from(1u32) << level);
        b.for_each(
            "left",
            (thread_x() * &reach * 2u32, &chunks),
            &reach * (2 * THREADS),
            Unroll::None,
            |b, left| {
                let right = b.bind("right", &left + &reach);
                b.if_then(right.clone().lt(&chunks), |b| {
                    let a = b.load("a", partials, &left, None);
                    let c = b.load("c", partials, &right, None);
                    b.store(partials, &left, a + c, None);
                });
            },
        );
        b.block_barrier();
    });
    b.if_then(thread_x().equals(0u32), |b| {
        let total = b.load("total", partials, 0u32, Some(Expr::from(0u32).lt(&chunks)));
        b.store(out, block_x(), total, None);
    });
    b.finish()
}
