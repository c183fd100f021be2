//! Attention on tensor cores: two products with an online softmax between them.

use crate::dtype::{DType, Value};
use crate::id::{ArgId, ArrayId, ViewId};
use crate::kernel_ir::build::{Builder, block_x, element, slots, thread_x};
use crate::kernel_ir::{Builtin, Expr, Kernel, KernelError, MmaShape, ShuffleKind, Size, Unroll, Usage};
use crate::scalar::ScalarOp;

/// Features of a head.
const D: u32 = 64;
/// Keys of a tile.
const KEYS: u32 = 64;
/// Queries of a block: 16 for each warp.
const QUERIES: u32 = 64;
const THREADS: u32 = 128;
/// Elements of a tile of keys or values.
const TILE: u32 = KEYS * D;
/// Elements of a 16-byte chunk.
const CHUNK: u32 = 8;

/// `out = softmax(q · kᵀ · scale) · v` for each head, f16, contiguous `[heads, S or T, 64]`, softmax over T. Parameters:
/// `q`, `k`, `v`, `out`, `heads`, `s`, `t`, `scale_log2` (the scale times log2 e). A head without keys gives zeros.
///
/// Keys and values come in two stages of `cp.async`. Rows of shared memory are 128 bytes; the 16-byte chunk `c` of row
/// `r` stands at `c ^ (r % 8)`, so that `ldmatrix` meets every bank once.
///
/// # Errors
/// Never; the verifier's result.
pub fn attention() -> Result<Kernel, KernelError> {
    let mut b = Builder::new("attention");
    b.kernel_mut().comment = "64 queries a block, 16 a warp; keys in tiles of 64, two stages".into();
    let pointer = |b: &mut Builder, name: &str, usage| b.pointer_aligned(name, DType::F16, usage, 16);
    let (q, k) = (pointer(&mut b, "q", Usage::Read), pointer(&mut b, "k", Usage::Read));
    let (v, out) = (pointer(&mut b, "v", Usage::Read), pointer(&mut b, "out", Usage::Write));
    let heads = b.scalar("heads", DType::U32);
    let (s, t) = (b.scalar("s", DType::U32), b.scalar("t", DType::U32));
    let scale = b.scalar("scale_log2", DType::F32);
    let blocks = Size::from(s).ceil_div(u64::from(QUERIES));
    let half = |elements: u32| u64::from(elements) * 2;
    b.launch([blocks, heads.into(), 1.into()], [THREADS, 1, 1], half(QUERIES * D + 4 * TILE));
    let q_tile = b.view("q_tile", DType::F16, 0, u64::from(QUERIES * D));
    let k_tiles = b.view("k_tiles", DType::F16, half(QUERIES * D), u64::from(2 * TILE));
    let v_tiles = b.view("v_tiles", DType::F16, half(QUERIES * D + 2 * TILE), u64::from(2 * TILE));

    let head = Expr::from(Builtin::Block(1)).cast(DType::U64);
    let base = |n: ArgId| head.clone() * (Expr::from(n).cast(DType::U64) * u64::from(D));
    let of_queries = b.bind("of_queries", base(s));
    let of_keys = b.bind("of_keys", base(t));
    let first_query = b.bind("first_query", block_x() * QUERIES);
    let tiles = b.bind("tiles", (Expr::from(t) + (KEYS - 1)) / KEYS);
    let zero = Some(Value::F32(0.0));
    let output = b.array("output", DType::F32, D / 2, zero);
    let row_max = b.array("row_max", DType::F32, 2, Some(Value::F32(f32::NEG_INFINITY)));
    let row_sum = b.array("row_sum", DType::F32, 2, zero);

    copy_tile(&mut b, (q_tile, 0u32.into()), (q, &of_queries), &first_query, s.into());
    b.commit_async();
    copy_tile(&mut b, (k_tiles, 0u32.into()), (k, &of_keys), &0u32.into(), t.into());
    copy_tile(&mut b, (v_tiles, 0u32.into()), (v, &of_keys), &0u32.into(), t.into());
    b.commit_async();
    b.wait_async(1);
    b.block_barrier();
    let queries = b.array("queries", DType::U32, D / 4, None);
    let (warp, lane) = (Expr::from(Builtin::Warp), Expr::from(Builtin::Lane));
    b.unrolled("k_step", D / 16, |b, step| {
        let row = &warp * 16u32 + (&lane & 15u32);
        let at = swizzled(&row, &(&step * 2u32 + (&lane >> 4u32)));
        b.load_matrix(slots(queries, step * 4u32, 4), q_tile, at, false);
    });

    b.for_each("tile", (0u32, &tiles), 1u32, Unroll::None, |b, tile| {
        let next = b.bind("next", &tile + 1u32);
        b.if_then(next.clone().lt(&tiles), |b| {
            let stage = b.bind("stage_next", (&next & 1u32) * TILE);
            let key = b.bind("key_next", &next * KEYS);
            copy_tile(b, (k_tiles, stage.clone()), (k, &of_keys), &key, t.into());
            copy_tile(b, (v_tiles, stage), (v, &of_keys), &key, t.into());
        });
        b.commit_async();
        b.wait_async(1);
        b.block_barrier();
        let stage = b.bind("stage", (&tile & 1u32) * TILE);
        let scores = b.array("scores", DType::F32, KEYS / 2, zero);
        multiply_queries(b, scores, queries, k_tiles, &stage);
        let last = b.bind("last", Expr::from(t) - &tile * KEYS);
        mask_tail(b, scores, &last);
        rescale(b, [scores, output, row_max, row_sum], scale.into());
        multiply_values(b, output, scores, v_tiles, &stage);
        b.block_barrier();
    });
    b.wait_async(0);

    b.unrolled("half", 2, |b, half| {
        let total = b.register("total", element(row_sum, &half));
        for distance in [1u32, 2] {
            let other = b.shuffle("other", ShuffleKind::Xor, total, distance, 4);
            b.set(total, Expr::from(total) + other);
        }
        let empty = Expr::from(total).equals(0.0f32);
        let inverse = b.bind("inverse", empty.select(0.0f32, Expr::from(1.0f32) / Expr::from(total)));
        let row = b.bind("query", &first_query + (&warp * 16u32 + (&lane / 4u32)) + &half * 8u32);
        let at = b.bind("at", &of_queries + row.clone().cast(DType::U64) * u64::from(D));
        b.unrolled("d_tile", D / 8, |b, d| {
            let pair = b.array("pair", DType::F32, 2, None);
            for part in 0..2u32 {
                let slot = &d * 4u32 + &half * 2u32 + part;
                let value = (element(output, slot) * &inverse).cast(DType::F16);
                b.set_element(pair, part, value);
            }
            let column = (&d * 8u32 + (&lane & 3u32) * 2u32).cast(DType::U64);
            b.store_from(out, &at + column, slots(pair, 0u32, 2), Some(row.clone().lt(s)));
        });
    });
    b.finish()
}

/// The element at which chunk `chunk` of row `row` stands.
fn swizzled(row: &Expr, chunk: &Expr) -> Expr {
    row * D + (chunk ^ (row & 7u32)) * CHUNK
}

/// Starts the copy of 64 rows from `first` on; rows from `end` on become zeros.
fn copy_tile(b: &mut Builder, to: (ViewId, Expr), from: (ArgId, &Expr), first: &Expr, end: Expr) {
    b.unrolled("part", TILE / CHUNK / THREADS, |b, part| {
        let chunk = b.bind("chunk", thread_x() + part * THREADS);
        let row = b.bind("row", &chunk / (D / CHUNK));
        let column = b.bind("column", chunk % (D / CHUNK));
        let source = b.bind("source", first + &row);
        let at = (source.clone() * D + &column * CHUNK).cast(DType::U64);
        let valid = source.lt(end).select(16u32, 0u32);
        b.copy_async((to.0, &to.1 + swizzled(&row, &column)), (from.0, from.1 + at), 16, Some(valid));
    });
}

/// `scores += q · kᵀ` of the warp's 16 queries and the 64 keys of a stage.
fn multiply_queries(b: &mut Builder, scores: ArrayId, queries: ArrayId, keys: ViewId, stage: &Expr) {
    let lane = Expr::from(Builtin::Lane);
    b.unrolled("key_tile", KEYS / 8, |b, n| {
        b.unrolled("k_pair", D / 32, |b, pair| {
            let operand = b.array("k_operand", DType::U32, 4, None);
            let row = &n * 8u32 + (&lane & 7u32);
            let at = stage + swizzled(&row, &(&pair * 4u32 + (&lane >> 3u32)));
            b.load_matrix(slots(operand, 0u32, 4), keys, at, false);
            for step in 0..2u32 {
                let a = slots(queries, (&pair * 2u32 + step) * 4u32, 4);
                let acc = slots(scores, &n * 4u32, 4);
                b.mma(MmaShape::M16N8K16F16, acc, a, slots(operand, 2 * step, 2));
            }
        });
    });
}

/// Scores of keys from `last` on become −∞.
fn mask_tail(b: &mut Builder, scores: ArrayId, last: &Expr) {
    let lane = Expr::from(Builtin::Lane);
    b.if_then(last.clone().lt(KEYS), |b| {
        b.unrolled("slot", KEYS / 2, |b, slot| {
            let key = (&slot / 4u32) * 8u32 + (&lane & 3u32) * 2u32 + (&slot & 1u32);
            let kept = key.lt(last).select(element(scores, &slot), f32::NEG_INFINITY);
            b.set_element(scores, slot, kept);
        });
    });
}

/// The online softmax: scores become weights, what was summed before is scaled to the new maximum. `arrays` are scores,
/// output, maxima and sums.
fn rescale(b: &mut Builder, arrays: [ArrayId; 4], scale: Expr) {
    let [scores, output, row_max, row_sum] = arrays;
    b.unrolled("half", 2, |b, half| {
        let slot = |n: &Expr, part: u32| n * 4u32 + &half * 2u32 + part;
        let most = b.register("most", element(row_max, &half));
        b.unrolled("key_tile", KEYS / 8, |b, n| {
            for part in 0..2 {
                b.set(most, Expr::from(most).max(element(scores, slot(&n, part))));
            }
        });
        for distance in [1u32, 2] {
            let other = b.shuffle("other", ShuffleKind::Xor, most, distance, 4);
            b.set(most, Expr::from(most).max(other));
        }
        let none = Expr::from(most).equals(f32::NEG_INFINITY);
        let shift = b.bind("shift", none.select(0.0f32, most));
        let before = (element(row_max, &half) - &shift) * &scale;
        let factor = b.bind("factor", before.unary(ScalarOp::Exp2));
        b.set_element(row_max, &half, most);
        b.set_element(row_sum, &half, element(row_sum, &half) * &factor);
        b.unrolled("key_tile", KEYS / 8, |b, n| {
            for part in 0..2 {
                let score = element(scores, slot(&n, part));
                let weight = b.bind("weight", ((score - &shift) * &scale).unary(ScalarOp::Exp2));
                b.set_element(scores, slot(&n, part), &weight);
                b.set_element(row_sum, &half, element(row_sum, &half) + weight);
            }
        });
        b.unrolled("d_tile", D / 8, |b, d| {
            for part in 0..2 {
                b.set_element(output, slot(&d, part), element(output, slot(&d, part)) * &factor);
            }
        });
    });
}

/// `output += weights · v`: the accumulator of the first product is the operand of the second.
fn multiply_values(b: &mut Builder, output: ArrayId, weights: ArrayId, values: ViewId, stage: &Expr) {
    let lane = Expr::from(Builtin::Lane);
    b.unrolled("key_step", KEYS / 16, |b, step| {
        let operand = b.array("weights", DType::U32, 4, None);
        for register in 0..4u32 {
            let slot = (&step * 2u32 + register / 2) * 4u32 + 2 * (register % 2);
            let parts = vec![element(weights, slot.clone()), element(weights, slot + 1u32)];
            b.set_element(operand, register, Expr::Pack(DType::F16, parts));
        }
        b.unrolled("d_pair", D / 16, |b, pair| {
            let v_operand = b.array("v_operand", DType::U32, 4, None);
            let row = &step * 16u32 + (&lane & 15u32);
            let at = stage + swizzled(&row, &(&pair * 2u32 + (&lane >> 4u32)));
            b.load_matrix(slots(v_operand, 0u32, 4), values, at, true);
            for side in 0..2u32 {
                let acc = slots(output, (&pair * 2u32 + side) * 4u32, 4);
                let a = slots(operand, 0u32, 4);
                b.mma(MmaShape::M16N8K16F16, acc, a, slots(v_operand, 2 * side, 2));
            }
        });
    });
}
