//! The three kernels written by hand: their numbers against plain loops, and what they cost.

use super::run::{Launch, noise};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{Array, Input, Inputs, Precision, evaluate};
use fuse_ir::graph::Reducer;
use fuse_ir::kernel_ir::examples;
use fuse_ir::simulate::Report;

/// The launch of `row_sum` for that shape.
pub(super) fn launch_row_sum(rows: usize, cols: usize) -> (Launch, usize, Vec<f64>) {
    let mut launch = Launch::default();
    let x = noise(7, DType::F32, rows * cols);
    launch.pass(DType::F32, x.clone());
    let out = launch.pass_empty(DType::F32, rows);
    launch.scalar(Value::U32(rows as u32));
    launch.scalar(Value::U32(cols as u32));
    (launch, out, x)
}

/// The launch of `transpose` for that shape.
pub(super) fn launch_transpose(rows: usize, cols: usize) -> (Launch, usize, Vec<f64>) {
    let mut launch = Launch::default();
    let x = noise(11, DType::F32, rows * cols);
    launch.pass(DType::F32, x.clone());
    let out = launch.pass_empty(DType::F32, rows * cols);
    launch.scalar(Value::U32(rows as u32));
    launch.scalar(Value::U32(cols as u32));
    (launch, out, x)
}

/// The launch of `attention` for that shape, with its inputs.
pub(super) fn launch_attention(heads: usize, s: usize, t: usize) -> (Launch, usize, [Vec<f64>; 3]) {
    let mut launch = Launch::default();
    let inputs = [(1, s), (2, t), (3, t)].map(|(seed, n)| noise(seed, DType::F16, heads * n * 64));
    inputs.iter().for_each(|x| {
        launch.pass(DType::F16, x.clone());
    });
    let out = launch.pass_empty(DType::F16, heads * s * 64);
    for n in [heads, s, t] {
        launch.scalar(Value::U32(n as u32));
    }
    launch.scalar(Value::F32((std::f64::consts::LOG2_E / 8.0) as f32));
    (launch, out, inputs)
}

/// The sums of rows by the reference, in the order of the reduction tree.
fn sum_rows(x: &[f64], rows: usize, cols: usize) -> Vec<f64> {
    use fuse_ir::random::KernelBuilder;
    let mut b = KernelBuilder::new("sums");
    let (n, m) = (b.axis("N"), b.axis("M"));
    let source = b.tensor("x", DType::F32, &[n, m]);
    let sum = b.reduce(Reducer::Sum, source, &[m]);
    b.result(sum, &[n]);
    let kernel = b.build();
    let data = x.iter().map(|x| Value::F32(*x as f32)).collect();
    let x = Array::new(DType::F32, vec![rows, cols], data).unwrap();
    let outputs = evaluate(&kernel, &Inputs(vec![Input::Tensor(x)]), Precision::Exact).unwrap();
    outputs.results[0].data.iter().map(|v| v.as_f64().unwrap()).collect()
}

#[test]
fn row_sum_gives_the_bits_of_the_reference() {
    let kernel = examples::row_sum().unwrap();
    for (rows, cols) in [(1, 1), (3, 31), (2, 64), (2, 97), (2, 4096), (2, 4097), (1, 40_000), (2, 0)] {
        let (mut launch, out, x) = launch_row_sum(rows, cols);
        let report = launch.run_clean(&kernel);
        assert_eq!(launch.read(out, DType::F32), sum_rows(&x, rows, cols), "{rows} x {cols}");
        assert_eq!(report.counters.shared().conflicts(), 0, "{rows} x {cols}");
    }
}

#[test]
fn row_sum_reads_every_sector_once() {
    let kernel = examples::row_sum().unwrap();
    let (mut launch, _, _) = launch_row_sum(4, 8192);
    let counters = launch.run_clean(&kernel).counters;
    assert_eq!(counters.global_loads.sectors, 4 * 8192 * 4 / 32);
    assert_eq!(counters.global_loads.sectors, counters.global_loads.least_sectors);
    assert_eq!(counters.global_loads.requests, 4 * 8192 / 32);
    // Of the folds of two chunks in each of four rows.
    assert_eq!(counters.shuffles, 4 * 2 * 5);
    // One before the levels and one for the only level.
    assert_eq!(counters.block_barriers, 4 * 2);
    assert_eq!(counters.warps, 4 * 8);
}

#[test]
fn transpose_moves_each_element_and_meets_no_bank_twice() {
    let kernel = examples::transpose().unwrap();
    for (rows, cols) in [(32, 32), (64, 96), (1, 1), (33, 31), (5, 130)] {
        let (mut launch, out, x) = launch_transpose(rows, cols);
        let Report { counters, .. } = launch.run_clean(&kernel);
        let want: Vec<f64> =
            (0..cols).flat_map(|c| (0..rows).map(move |r| (r, c))).map(|(r, c)| x[r * cols + c]).collect();
        assert_eq!(launch.read(out, DType::F32), want, "{rows} x {cols}");
        assert_eq!(counters.shared().conflicts(), 0, "{rows} x {cols}");
        if rows % 32 == 0 && cols % 32 == 0 {
            let sectors = (rows * cols * 4 / 32) as u64;
            assert_eq!(counters.global_loads.sectors, sectors);
            assert_eq!(counters.global_stores.sectors, sectors);
            assert_eq!(counters.shared().wavefronts, 2 * (rows * cols / 32) as u64);
        }
    }
}

/// A row of 32 has all of a column in one bank.
#[test]
fn a_tile_without_padding_has_conflicts() {
    let mut kernel = examples::transpose().unwrap();
    replace_constant(&mut kernel.body, Value::U32(33), Value::U32(32));
    let (mut launch, _, _) = launch_transpose(32, 32);
    let counters = launch.run_clean(&kernel).counters;
    assert_eq!(counters.shared_loads[2].wavefronts, 32 * 32);
    assert_eq!(counters.shared_loads[2].conflicts(), 31 * 32);
    assert_eq!(counters.shared_stores[2].conflicts(), 0);
}

/// Replaces a literal in the indexes of accesses.
fn replace_constant(block: &mut fuse_ir::kernel_ir::Block, from: Value, to: Value) {
    use fuse_ir::kernel_ir::{Expr, Stmt};
    fn in_expr(e: &mut Expr, from: Value, to: Value) {
        match e {
            Expr::Const(v) if *v == from => *v = to,
            Expr::Op(_, args) => args.iter_mut().for_each(|a| in_expr(a, from, to)),
            _ => {}
        }
    }
    for stmt in block {
        match stmt {
            Stmt::Load { access, .. } | Stmt::Store { access, .. } => in_expr(&mut access.index, from, to),
            Stmt::For { body, .. } => replace_constant(body, from, to),
            Stmt::If { then, .. } => replace_constant(then, from, to),
            _ => {}
        }
    }
}

/// Softmax of the scaled scores of each query, times the values, in f64.
fn attend([q, k, v]: &[Vec<f64>; 3], heads: usize, s: usize, t: usize) -> Vec<f64> {
    let mut out = vec![0.0; heads * s * 64];
    for head in 0..heads {
        for query in 0..s {
            let row = |x: &[f64], n: usize, i: usize| x[(head * n + i) * 64..][..64].to_vec();
            let own = row(q, s, query);
            let scores: Vec<f64> = (0..t)
                .map(|key| own.iter().zip(row(k, t, key)).map(|(a, b)| a * b).sum::<f64>() / 8.0)
                .collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|x| (x - most).exp()).collect();
            let total: f64 = weights.iter().sum();
            for (key, weight) in weights.iter().enumerate() {
                let values = row(v, t, key);
                for (d, value) in values.into_iter().enumerate() {
                    out[(head * s + query) * 64 + d] += weight / total * value;
                }
            }
        }
    }
    out
}

#[test]
fn attention_is_near_plain_loops() {
    let kernel = examples::attention().unwrap();
    for (heads, s, t) in [(1, 64, 64), (2, 100, 130), (1, 1, 1), (1, 70, 200)] {
        let (mut launch, out, inputs) = launch_attention(heads, s, t);
        let counters = launch.run_clean(&kernel).counters;
        let got = launch.read(out, DType::F16);
        let want = attend(&inputs, heads, s, t);
        let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        // Weights and results are rounded to f16.
        assert!(worst < 1e-3, "{heads} {s} {t}: {worst}");
        let blocks = (heads * s.div_ceil(64)) as u64;
        let tiles = t.div_ceil(64) as u64;
        assert_eq!(counters.products, blocks * 4 * tiles * (32 + 32));
        assert_eq!(counters.block_barriers, blocks * (1 + 2 * tiles));
        // The swizzle keeps rows of `ldmatrix` and of copies in distinct banks.
        assert_eq!(counters.shared().conflicts(), 0, "{heads} {s} {t}");
        assert_eq!(counters.global_loads.sectors, counters.global_loads.least_sectors);
    }
}

/// A head without keys gives zeros.
#[test]
fn attention_over_nothing_is_zero() {
    let (mut launch, out, _) = launch_attention(1, 3, 0);
    launch.run_clean(&examples::attention().unwrap());
    assert!(launch.read(out, DType::F16).iter().all(|x| *x == 0.0));
}
