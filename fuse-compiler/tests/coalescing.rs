//! What is told of reads and writes across the grain of memory: where neighbouring threads are apart, how much that moves, and
//! nothing where tiles of shared memory or another order of threads mend it. What is predicted is what the simulator counts.

use fuse_compiler::diagnostic::Diagnostics;
use fuse_compiler::pipeline::{expand_block, plan_block};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{Array, Input, Inputs};
use fuse_ir::graph::ParamKind;
use fuse_ir::id::ParamId;
use fuse_ir::lower::coalescing::{Uncoalesced, find_uncoalesced};
use fuse_ir::program::Program;
use fuse_ir::schedule::BufferRef;
use fuse_ir::simulate::{ProgramOptions, simulate_program};

/// The only kernel of a block, planned.
#[track_caller]
fn plan(source: &str) -> Program {
    let mut diagnostics = Diagnostics::new();
    let mut planned = plan_block(source.parse().expect("tokens"), &mut diagnostics);
    let errors: Vec<String> = diagnostics.iter().map(|error| error.text()).collect();
    assert!(errors.is_empty(), "{source}\n{errors:#?}");
    planned.swap_remove(0).program
}

/// The sectors that global loads and stores take on the simulator, and the fewest that would do, with all extents as the
/// plan assumes them. A sector that several loads of a thread touch counts as often there, since the simulator has no cache.
fn simulate(program: &Program) -> (u64, u64) {
    let extent = |axis| program.plan.assumed.iter().find(|(a, _)| *a == axis).map_or(1, |(_, n)| *n as usize);
    let inputs = program.kernel.params.iter().map(|param| match &param.kind {
        ParamKind::Tensor { dtype: DType::F32, axes, .. } => {
            let shape: Vec<usize> = axes.iter().map(|axis| extent(*axis)).collect();
            let count = shape.iter().product::<usize>();
            let data = (0..count).map(|k| Value::F32((k % 7) as f32)).collect();
            Input::Tensor(Array { dtype: DType::F32, shape, data })
        }
        other => panic!("{other:?}"),
    });
    let report = simulate_program(program, &Inputs(inputs.collect()), &ProgramOptions::default());
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.faults().count(), 0);
    report.kernels.iter().fold((0, 0), |(all, least), ran| {
        let (loads, stores) = (ran.report.counters.global_loads, ran.report.counters.global_stores);
        (all + loads.sectors + stores.sectors, least + loads.least_sectors + stores.least_sectors)
    })
}

/// Of the program nothing is told.
#[track_caller]
fn check_silent(source: &str) -> Program {
    let program = plan(source);
    assert_eq!(find_uncoalesced(&program), [], "{}", program.plan.display(&program.kernel));
    program
}

/// Of the program nothing is told, and the simulator counts no more than a sixteenth above the fewest sectors.
#[track_caller]
fn check_along(source: &str) {
    let (sectors, least) = simulate(&check_silent(source));
    assert!(sectors <= least + least / 16, "{sectors} sectors where {least} would do");
}

/// One thing is told, and the excess is what the simulator counts, to a sixteenth.
#[track_caller]
fn check_across(source: &str) -> Uncoalesced {
    let program = plan(source);
    let mut found = find_uncoalesced(&program);
    let shown = program.plan.display(&program.kernel).to_string();
    assert_eq!(found.len(), 1, "{found:#?}\n{shown}");
    let (sectors, least) = simulate(&program);
    let (excess, counted) = (found[0].moved - found[0].least, 32 * (sectors - least));
    assert!(excess.abs_diff(counted) <= counted / 16, "{excess} bytes are told, {counted} counted\n{shown}");
    found.remove(0)
}

/// The text with 64 for the extents of the first two axes.
fn small(arguments: &str) -> String {
    format!("#[kernel(assume(M = 64, N = 64))] {arguments}")
}

#[test]
fn what_lies_along_the_threads_is_silent() {
    check_along(&small(
        "fn k<M, N>(x: Tensor<f32, M, N>, b: Tensor<f32, N>) -> Tensor<f32, M, N> { x.exp() + b }",
    ));
    check_along(&small("fn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.softmax(N) }"));
    check_silent(&small("fn k<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.reverse(N).exp() }"));
}

#[test]
fn a_broadcast_is_one_sector_for_all() {
    check_along(&small("fn k<M, N>(x: Tensor<f32, M, N>, b: Tensor<f32, M>) -> Tensor<f32, M, N> { x * b }"));
}

#[test]
fn a_sum_over_rows_has_neighbouring_columns_as_neighbours() {
    check_along(&small("fn k<M, N>(x: Tensor<f32, N, M>) -> Tensor<f32, M> { x.sum(N) }"));
}

#[test]
fn a_transposed_operand_comes_through_tiles() {
    check_along(&small(
        "fn k<M, N>(x: Tensor<f32, M, N>, y: Tensor<f32, N, M>) -> Tensor<f32, M, N> { x.exp() + y }",
    ));
}

#[test]
fn short_sides_have_no_tiles() {
    let found = check_across(
        "#[kernel(assume(M = 8, N = 64))]
         fn k<M, N>(x: Tensor<f32, M, N>, y: Tensor<f32, N, M>) -> Tensor<f32, M, N> { x.exp() + y }",
    );
    assert_eq!((found.buffer, found.written, found.distance), (BufferRef::Param(ParamId(1)), false, 8));
}

#[test]
fn an_operand_that_lies_across_the_others() {
    let source =
        small("fn k<M, N>(x: Tensor<f32, M, N>, y: Tensor<f32, N, M>) -> Tensor<f32, M> { (x * y).sum(N) }");
    let found = check_across(&source);
    assert_eq!((found.buffer, found.written, found.skips), (BufferRef::Param(ParamId(0)), false, false));
    // Each element lies in a sector of its own.
    assert_eq!((found.distance, found.moved, found.least), (64, 64 * 64 * 32, 64 * 64 * 4));
    // The remedy.
    check_along(&source.replace("x: Tensor<f32, M, N>", "x: Tensor<f32, N, M>"));
}

#[test]
fn an_operand_of_a_row_that_lies_across_it() {
    let source = small(
        "fn k<M, N>(x: Tensor<f32, M, N>, y: Tensor<f32, N, M>) -> Tensor<f32, M, N> { (x + y).softmax(N) }",
    );
    let found = check_across(&source);
    assert_eq!((found.buffer, found.written, found.skips), (BufferRef::Param(ParamId(1)), false, false));
    check_along(&source.replace("y: Tensor<f32, N, M>", "y: Tensor<f32, M, N>"));
}

#[test]
fn a_result_that_lies_across() {
    let source = small(
        "fn k<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M, N>, Tensor<f32, N, M>) { (x.exp(), x.sin()) }",
    );
    let found = check_across(&source);
    assert!(found.written && !found.skips && matches!(found.buffer, BufferRef::Result(_)), "{found:?}");
    check_along(&source.replace("Tensor<f32, N, M>)", "Tensor<f32, M, N>)"));
}

const PAIRS: &str = "fn k<M, N, const F: usize = { 2 * N }, const TWO: usize = 2>(x: Tensor<f32, M, F>) -> Tensor<f32, M, N> {
    let p = x.split(F, (N, TWO));
    VALUE
}";

#[test]
fn one_half_of_interleaved_pairs() {
    let found = find_uncoalesced(&plan(&small(&PAIRS.replace("VALUE", "p.at(TWO, 0).exp()"))));
    let [found] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!((found.written, found.skips, found.distance, found.moved), (false, true, 2, 2 * found.least));
    // The remedy: pairs apart.
    check_along(&small(
        "fn k<M, N, const TWO: usize = 2>(x: Tensor<f32, M, TWO, N>) -> Tensor<f32, M, N> { x.at(TWO, 0).exp() }",
    ));
}

#[test]
fn both_halves_share_their_sectors() {
    check_silent(&small(&PAIRS.replace("VALUE", "p.at(TWO, 0) * p.at(TWO, 1)")));
}

#[test]
fn what_a_table_says_is_not_known() {
    let source =
        "fn k<M, N, V>(x: Tensor<f32, V>, ids: Tensor<i32, M, N>) -> Tensor<f32, M, N> { x.gather(V, ids) }";
    check_silent(&small(source));
}

/// What a kernel that denies it is told, with that extent for both axes.
fn told(extent: u64) -> Vec<String> {
    let source = format!(
        "#[kernel(deny(uncoalesced), assume(M = {extent}, N = {extent}))]
         fn k<M, N>(x: Tensor<f32, M, N>, y: Tensor<f32, N, M>) -> Tensor<f32, M> {{ (x * y).sum(N) }}"
    );
    let mut diagnostics = Diagnostics::new();
    expand_block(&"::fuse".parse().expect("a path"), source.parse().expect("tokens"), &mut diagnostics);
    diagnostics.iter().map(|diagnostic| diagnostic.text()).collect()
}

#[test]
fn a_little_is_not_told() {
    assert_eq!(told(64), [""; 0]);
    let expected = "`x` is read across the grain of memory\n\n\
                    note: threads that are neighbours along `M` are 1024 elements apart in it: 32.0 MiB are moved where 4.0 MiB \
                    would do, under the assumed extents\n\
                    help: declare `x` as `Tensor<f32, N, M>`, which lies along them";
    assert_eq!(told(1024), [expected]);
}
