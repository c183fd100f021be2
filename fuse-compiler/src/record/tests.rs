use super::{BlockRecord, FORMAT, SourceRange, Texts, record_block};
use crate::diagnostic::Diagnostics;
use crate::pipeline::with_plans;
use crate::syntax::parse_block;
use proc_macro2::TokenStream;
use quote::quote;
use std::path::{Path, PathBuf};

const BLOCK: &str = "\
#[op]
fn halve(x: f32) -> f32 { 0.5 * x }

/// Rows.
#[kernel]
pub fn rows<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
    let twice = halve(x) + 1.0;
    twice.sum(N)
}

#[kernel(T = [f32, f16])]
fn same<T: Float, N>(x: Tensor<T, N>) -> Tensor<T, N> { x }
";

/// An empty folder of that name.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("fuse-record-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// Records a block as its expansion does.
fn record(folder: &Path, source: &str) -> Diagnostics {
    record_tokens(folder, source.parse().expect("tokens"))
}

fn record_tokens(folder: &Path, tokens: TokenStream) -> Diagnostics {
    let mut diagnostics = Diagnostics::new();
    let block = parse_block(tokens.clone(), &mut diagnostics);
    with_plans(&tokens, &block, &[], true, &mut diagnostics, |_, planned, diagnostics| {
        record_block(folder, &tokens, &block, &planned, diagnostics);
    });
    diagnostics
}

fn read(folder: &Path) -> Vec<(String, BlockRecord)> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path()).collect();
    files.sort();
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    let parse = |path: &Path| serde_json::from_str(&std::fs::read_to_string(path).expect("text"));
    files.iter().map(|path| (name(path), parse(path).expect("a record"))).collect()
}

/// The source that a range names.
fn text(range: &SourceRange) -> String {
    let lines: Vec<&str> = BLOCK.lines().collect();
    let line = |k: u32| lines[k as usize - 1];
    if range.line == range.end_line {
        return line(range.line)[range.column as usize - 1..range.end_column as usize - 1].to_owned();
    }
    let inner = (range.line + 1..range.end_line).map(|k| line(k).to_owned());
    let first = line(range.line)[range.column as usize - 1..].to_owned();
    let last = line(range.end_line)[..range.end_column as usize - 1].to_owned();
    std::iter::once(first).chain(inner).chain([last]).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_record_holds_every_kernel_with_its_places() {
    let folder = folder("whole");
    assert!(record(&folder, BLOCK).is_empty());
    let records = read(&folder);
    assert_eq!(records.len(), 1, "{records:?}");
    let block = &records[0].1;
    assert_eq!((block.format, block.version.as_str()), (FORMAT, env!("CARGO_PKG_VERSION")));
    assert_eq!(block.package, "fuse-compiler");
    let names: Vec<&str> = block.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    assert_eq!(names, ["rows", "same::<f32>", "same::<f16>"]);

    let rows = &block.kernels[0];
    assert_eq!(text(rows.place.as_ref().expect("a place")), "rows");
    let item = text(rows.item.as_ref().expect("a place"));
    assert!(
        item.starts_with("/// Rows.\n#[kernel]\npub fn rows") && item.ends_with("twice.sum(N)\n}"),
        "{item}"
    );
    let nodes: Vec<String> = rows.nodes.iter().flatten().map(text).collect();
    for expected in ["halve(x)", "halve(x) + 1.0", "twice.sum(N)"] {
        assert!(nodes.iter().any(|node| node == expected), "no `{expected}` in {nodes:?}");
    }

    let program = rows.to_program().expect("a program");
    assert_eq!(rows.nodes.len(), program.kernel.nodes.len());
    assert_eq!(rows.plan["launch_count"], program.plan.launch_count());
    assert_eq!(rows.texts, Texts::of(&quote!(::fuse), &program));
    assert!(rows.texts.graph.contains("sum<N>") && rows.texts.rust.contains("fn g0_"), "{:?}", rows.texts);
    let gpu = rows.texts.gpu.first().expect("a kernel for GPUs");
    assert!(gpu.cuda.contains("__global__") && gpu.kernel_ir.contains("kernel"), "{gpu:?}");
    std::fs::remove_dir_all(folder).expect("the folder is removed");
}

#[test]
fn the_name_of_a_file_follows_from_the_block_and_equal_blocks_are_numbered() {
    let source = "#[kernel] fn other<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x }";
    let (first, second) = (folder("first"), folder("second"));
    // Positions are counted on from one text that is parsed to the next.
    let tokens: TokenStream = source.parse().expect("tokens");
    assert!(record_tokens(&first, tokens.clone()).is_empty());
    assert!(record_tokens(&first, tokens).is_empty());
    assert!(record(&second, &source.replace("other", "another")).is_empty());
    let names: Vec<String> = read(&first).into_iter().map(|(name, _)| name).collect();
    let stem = |name: &str| name.rsplit_once('-').map(|(stem, _)| stem.to_owned());
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(stem(&names[0]), stem(&names[1]));
    assert!(names[0].ends_with("-1.json") && names[1].ends_with("-2.json"), "{names:?}");
    assert_ne!(stem(&names[0]), stem(&read(&second)[0].0));
    for folder in [first, second] {
        std::fs::remove_dir_all(folder).expect("the folder is removed");
    }
}

#[test]
fn a_kernel_that_breaks_its_contract_is_recorded_without() {
    let folder = folder("broken");
    let source = "#[kernel(launches = 1)]
        fn cut<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.exp().materialize() + 1.0 }";
    let codes: Vec<&str> = record(&folder, source).iter().map(|d| d.code).collect();
    assert_eq!(codes, ["too_many_launches"]);
    let kernel = &read(&folder)[0].1.kernels[0];
    let program = kernel.to_program().expect("a program");
    assert_eq!((kernel.broken_contract, program.plan.launch_count()), (Some(1), 2));
    std::fs::remove_dir_all(folder).expect("the folder is removed");
}

#[test]
fn a_folder_that_takes_no_files_is_an_error() {
    let file = folder("file");
    std::fs::write(&file, "no folder").expect("a file");
    let diagnostics = record(&file, BLOCK);
    let found: Vec<(&str, String)> = diagnostics.iter().map(|d| (d.code, d.text())).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "plans_not_written");
    assert!(found[0].1.contains(&format!("cannot be written to `{}`", file.display())), "{}", found[0].1);
    assert!(found[0].1.contains("`FUSE_PLAN_DIR`"), "{}", found[0].1);
    std::fs::remove_file(file).expect("the file is removed");
}
