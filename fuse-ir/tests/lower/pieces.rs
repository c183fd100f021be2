//! Contractions whose reduced positions are shared among blocks, and those of a narrow side: that they are taken, their
//! numbers in every layout, at every edge, and what they cost.

use super::contractions::{
    check_gated, check_golden, check_linear, gated, inputs, linear, lowered, run, ways,
};
use fuse_ir::dtype::DType;
use fuse_ir::lower::{LowerOptions, lower_launch};
use fuse_ir::print_cuda::print_cuda;
use fuse_ir::program::Program;
use fuse_ir::simulate::{ProgramOptions, ProgramReport};

/// Dtypes of sources with that of a result.
const DTYPES: [(DType, DType); 5] = [
    (DType::F32, DType::F32),
    (DType::F16, DType::F16),
    (DType::Bf16, DType::F32),
    (DType::F64, DType::F64),
    (DType::I8, DType::I32),
];

/// What ran in the first kernel, and how many blocks the second had.
fn taken(program: &Program, report: &ProgramReport) -> (String, u64) {
    let first = &report.kernels[0];
    let text = lowered(program)[first.variant].kernel.comment.clone();
    (text, report.kernels.get(1).map_or(0, |k| k.report.counters.warps / 8))
}

/// Each size in some of the ways; each way comes up.
fn check_sizes(sizes: &[[usize; 3]], expected: &dyn Fn(&str, u64, [usize; 3]) -> bool) {
    for (number, (dtype, to)) in DTYPES.into_iter().enumerate() {
        for transposed in [false, true] {
            let name = format!("linear_{dtype}_{}", if transposed { "nk" } else { "kn" });
            let program = linear(&name, dtype, to, transposed);
            for (k, size) in sizes.iter().enumerate() {
                let ways: Vec<ProgramOptions> =
                    ways().into_iter().skip((number + k) % 8).step_by(4).collect();
                check_linear(&program, transposed, *size, &ways);
                let report = run(&program, &inputs(&program, size), &ProgramOptions::default());
                let (text, blocks) = taken(&program, &report);
                assert!(
                    expected(&text, blocks, *size),
                    "{dtype} {transposed} {size:?}: {text}, {blocks} blocks"
                );
            }
        }
    }
}

#[test]
fn few_tiles_of_long_sums_are_split() {
    // Two pieces and a bit, two whole ones, one position over, more rows than a tile.
    let sizes = [[9, 1100, 10], [20, 1024, 17], [65, 1030, 12]];
    check_sizes(&sizes, &|text, blocks, [m, _, _]| text.contains("tiles of") && (blocks > 0) == (m <= 64));
}

#[test]
fn narrow_rows_are_read_without_tiles() {
    let sizes = [[1, 256, 40], [1, 300, 70], [2, 1100, 9], [4, 513, 24], [3, 257, 1]];
    check_sizes(&sizes, &|text, blocks, [_, k, _]| text.contains(" rows, ") && (blocks > 0) == (k >= 1024));
}

#[test]
fn narrow_columns_are_read_without_tiles() {
    let sizes = [[40, 256, 1], [70, 300, 2], [9, 1100, 3], [33, 513, 4]];
    check_sizes(&sizes, &|text, blocks, [_, k, _]| {
        text.contains(" columns, ") && (blocks > 0) == (k >= 1024)
    });
}

#[test]
fn narrow_siblings_of_a_batch_share_a_launch() {
    for dtype in [DType::F32, DType::F16] {
        let program = gated(dtype);
        for extents in [[2, 3, 300, 20], [1, 2, 1100, 9], [2, 9, 264, 3]] {
            check_gated(&program, extents, &ways());
        }
    }
}

/// What a matrix times a few vectors costs: the matrix is read once, by whole sectors, and the vectors by each block once.
#[test]
fn a_matrix_is_read_once() {
    for (dtype, to) in [(DType::F16, DType::F16), (DType::F32, DType::F32), (DType::I8, DType::I32)] {
        for transposed in [false, true] {
            for rows in [1, 4] {
                let program = linear("traffic", dtype, to, transposed);
                let (depth, columns) = (512, 128);
                let inputs = inputs(&program, &[rows, depth, columns]);
                let report = run(&program, &inputs, &ProgramOptions::default());
                let kernel = &report.kernels[0];
                let what = format!("{dtype}, transposed: {transposed}, {rows} rows");
                assert_eq!(kernel.variant, 0, "{what}");
                let counters = kernel.report.counters;
                let loads = counters.global_loads;
                assert_eq!(loads.sectors, loads.least_sectors, "{what}");
                let (size, blocks) = (dtype.size() as u64, counters.warps / 8);
                let matrix = (depth * columns) as u64 * size;
                let vectors = blocks * (rows * depth) as u64 * size;
                let bias = (rows * columns) as u64 * 4;
                // Of a team's threads all ask for the vectors; lanes that ask for the same have it at once.
                let most = matrix + 8 * vectors + bias;
                assert!(loads.bytes >= matrix && loads.bytes <= most, "{what}: {} of {most}", loads.bytes);
                // No tile goes through shared memory.
                assert_eq!((counters.async_copies, counters.products), (0, 0), "{what}");
            }
        }
    }
}

/// What a tile of few costs: its loop meets no bank twice and reads whole sectors, and each sum is kept once for each piece.
#[test]
fn pieces_cost_what_tiles_do() {
    for (dtype, to) in [(DType::F16, DType::F16), (DType::F32, DType::F32), (DType::I8, DType::I32)] {
        let program = linear("traffic", dtype, to, false);
        let (rows, depth, columns) = (64, 1024, 64);
        let inputs = inputs(&program, &[rows, depth, columns]);
        let report = run(&program, &inputs, &ProgramOptions::default());
        let [first, second] = [0, 1].map(|k| report.kernels[k].report.counters);
        let loads = first.global_loads;
        assert_eq!(loads.sectors, loads.least_sectors, "{dtype}");
        let stores = first.global_stores;
        assert_eq!(stores.sectors, stores.least_sectors, "{dtype}");
        let results = (rows * columns) as u64;
        assert_eq!(stores.bytes, 2 * results * 4, "{dtype}");
        assert_eq!(second.global_loads.sectors, second.global_loads.least_sectors, "{dtype}");
        assert_eq!(second.global_stores.bytes, results * to.size() as u64, "{dtype}");
    }
}

/// A contract that leaves no room for a second launch rules pieces out; where there is room they are there.
#[test]
fn contracts_bind_kernels_that_split() {
    let mut program = linear("contract", DType::F32, DType::F32, false);
    let options = LowerOptions { wide: false, shared_memory: 99 << 10 };
    let steps = |program: &Program| {
        let lowered = lower_launch(program, 0, &options).unwrap();
        (lowered.steps.len(), lowered.scratch.len())
    };
    assert_eq!(steps(&program), (2, 1));
    program.kernel.launches = Some(1);
    assert_eq!(steps(&program), (1, 0));
    program.kernel.launches = Some(2);
    assert_eq!(steps(&program), (2, 1));

    // Where the second kernel has no blocks there is no scratch memory either.
    assert_eq!(lower_launch(&program, 0, &options).unwrap().last_reader(0), Some(1));
}

/// The CUDA of a linear layer of few rows, and of what adds pieces, to be read.
#[test]
fn the_texts_of_a_narrow_layer() {
    let program = linear("narrow_f16", DType::F16, DType::F16, false);
    let options = LowerOptions { wide: false, shared_memory: 99 << 10 };
    let steps = lower_launch(&program, 0, &options).unwrap().steps;
    check_golden("narrow_f16", &print_cuda(&steps[0][0].kernel));
    check_golden("pieces_f16", &print_cuda(&steps[1][0].kernel));
}
