//! What an expansion writes down for tools: each kernel of a block with its plan, its texts, and where its operations stand.
//!
//! It is asked for by the environment variable `FUSE_PLAN_DIR`, the name of a folder; each block writes one file there.
//! So a tool that runs `cargo check` with the variable set learns of the kernels that rustc compiles, under the features,
//! cfgs and versions of that build, blocks made by `macro_rules!` included, and parses no source. The expansion names the
//! variable, so that cargo expands again when its value changes.
//!
//! The form of the files changes with the version; [`FORMAT`] is part of them.

use crate::diagnostic::{Diagnostics, Location, Place, messages};
use crate::emit_cuda::lower_variants;
use crate::emit_rust::{emit_functions, emit_group};
use crate::planning::PlannedKernel;
use crate::syntax::{Block, Item, TensorFn};
use fuse_ir::print_cuda::print_cuda;
use fuse_ir::program::Program;
use proc_macro2::{Span, TokenStream};
use quote::quote;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The form of the files.
pub const FORMAT: u32 = 1;

/// A block of a crate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BlockRecord {
    /// [`FORMAT`] of the version that wrote it.
    pub format: u32,
    /// That version.
    pub version: String,
    /// The name of the package, as cargo gives it.
    pub package: String,
    /// The name of the crate, as cargo gives it.
    pub crate_name: String,
    /// The folder of the package's manifest.
    pub manifest_dir: PathBuf,
    /// The folder in which rustc ran; relative names of files start there.
    pub directory: PathBuf,
    /// Its kernels, instances of generic ones one by one.
    pub kernels: Vec<KernelRecord>,
}

/// A kernel, or an instance of one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KernelRecord {
    /// The user's name, for an instance with the dtypes: `softmax::<f16>`.
    pub name: String,
    /// Its name in the source.
    pub place: Option<SourceRange>,
    /// The whole item, attributes and documentation included.
    pub item: Option<SourceRange>,
    /// Where each node of the graph stands.
    pub nodes: Vec<Option<SourceRange>>,
    /// [`Program::to_bytes`] in hexadecimal digits.
    pub program: String,
    /// A contract that the plan does not keep: the launches that it allows. The build fails then.
    pub broken_contract: Option<u32>,
    /// The plan as JSON, with the user's names.
    pub plan: serde_json::Value,
    /// What is generated of it.
    pub texts: Texts,
}

impl KernelRecord {
    /// The kernel with its plan. `None` if the bytes are of another version.
    pub fn to_program(&self) -> Option<Program> {
        let digits = self.program.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        Program::from_bytes(&digits.map(byte).collect::<Option<Vec<u8>>>()?).ok()
    }
}

/// A stretch of source.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SourceRange {
    /// The file, as rustc names it.
    pub file: String,
    /// The first line, from 1.
    pub line: u32,
    /// The first character on it, from 1.
    pub column: u32,
    /// The last line.
    pub end_line: u32,
    /// The character behind the last.
    pub end_column: u32,
}

impl SourceRange {
    /// From the start of a place to its end. Where these are not one stretch of a file, because a `macro_rules!` put tokens
    /// of several places together, its first token. `None` outside a macro.
    pub fn of(place: Place) -> Option<SourceRange> {
        let start = Location::of(place.start)?;
        let end = Location::end_of(place.end)
            .filter(|end| end.file == start.file && (end.line, end.column) > (start.line, start.column));
        let end = end.or_else(|| Location::end_of(place.start))?;
        let Location { file, line, column } = start;
        Some(SourceRange { file, line, column, end_line: end.line, end_column: end.column })
    }
}

/// What is generated of a kernel, to be read.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Texts {
    /// The graph.
    pub graph: String,
    /// The plan.
    pub plan: String,
    /// The loops for the CPU, as tokens that nobody formatted.
    pub rust: String,
    /// Its kernels for GPUs.
    pub gpu: Vec<GpuText>,
}

/// A kernel for GPUs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GpuText {
    /// The launch, from 0.
    pub launch: usize,
    /// Its step: a split reduction takes two.
    pub step: usize,
    /// The variant of the step; the launcher takes the first that fits the call.
    pub variant: usize,
    /// The kernel IR.
    pub kernel_ir: String,
    /// CUDA C++.
    pub cuda: String,
}

impl Texts {
    /// Those of a program. `facade` is the path of the facade crate in the Rust text.
    pub fn of(facade: &TokenStream, program: &Program) -> Texts {
        let Program { kernel, plan } = program;
        let functions = emit_functions(facade, kernel);
        let groups = plan.groups().map(|group| emit_group(facade, kernel, group).items);
        let gpu = lower_variants(program).into_iter().map(|([launch, step, variant], kernel)| GpuText {
            launch,
            step,
            variant,
            kernel_ir: kernel.to_string(),
            cuda: print_cuda(&kernel),
        });
        Texts {
            graph: kernel.to_string(),
            plan: plan.display(kernel).to_string(),
            rust: quote!(#functions #(#groups)*).to_string(),
            gpu: gpu.collect(),
        }
    }
}

/// What `FUSE_PLAN_DIR` names, if it is set and not empty.
pub(crate) fn record_folder() -> Option<PathBuf> {
    std::env::var_os("FUSE_PLAN_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// An item that has cargo expand again when `FUSE_PLAN_DIR` changes.
pub(crate) fn emit_dependency() -> TokenStream {
    quote! {
        const _: ::core::option::Option<&'static ::core::primitive::str> = ::core::option_env!("FUSE_PLAN_DIR");
    }
}

/// Writes the record of a block to a folder. That it cannot be written is an error of the build: a tool that asked for it
/// would miss kernels.
pub(crate) fn record_block(
    folder: &Path,
    tokens: &TokenStream,
    block: &Block,
    planned: &[PlannedKernel],
    diagnostics: &mut Diagnostics,
) {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let record = BlockRecord {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        package: variable("CARGO_PKG_NAME"),
        crate_name: variable("CARGO_CRATE_NAME"),
        manifest_dir: PathBuf::from(variable("CARGO_MANIFEST_DIR")),
        directory: std::env::current_dir().unwrap_or_default(),
        kernels: planned.iter().filter_map(|kernel| record_kernel(block, kernel)).collect(),
    };
    let at = Place::from(Span::call_site());
    if let Err(error) = write_record(folder, &record, tokens) {
        diagnostics.report(messages::plans_not_written(at, folder, &error));
    }
}

fn record_kernel(block: &Block, planned: &PlannedKernel) -> Option<KernelRecord> {
    let Some(Item::Fn(function)) = block.items.get(planned.item) else { return None };
    let program = &planned.program;
    let nodes = program.kernel.node_ids().map(|node| SourceRange::of(planned.place_of(node)?));
    // Ids and lengths of a plan always fit the encoding.
    let bytes = program.to_bytes().ok()?;
    Some(KernelRecord {
        name: program.kernel.name.clone(),
        place: SourceRange::of(Place::from(function.name.span())),
        item: SourceRange::of(place_of_item(function)),
        nodes: nodes.collect(),
        program: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        broken_contract: planned.broken_contract,
        plan: serde_json::from_str(&program.plan.to_json(&program.kernel)).unwrap_or_default(),
        texts: Texts::of(&quote!(::fuse), program),
    })
}

/// From the first attribute of a kernel to the end of its body.
fn place_of_item(function: &TensorFn) -> Place {
    let start = |place: &Span| Location::of(*place).map(|at| (at.line, at.column));
    let attrs = function.attrs.iter().map(|attr| attr.pound_token.spans[0]);
    let marker = function.kernel.iter().map(|args| args.span);
    let first = attrs.chain(marker).chain([function.name.span()]).min_by_key(start);
    Place {
        start: first.unwrap_or_else(|| function.name.span()),
        end: function.body.brace_token.span.close(),
        within: None,
    }
}

/// Writes a file beside and renames it, so that nobody reads half of it. Its name follows from the crate and from the block
/// with its place; blocks that agree in all of that, as a `macro_rules!` makes them, are numbered.
fn write_record(folder: &Path, record: &BlockRecord, tokens: &TokenStream) -> io::Result<()> {
    static WRITTEN: Mutex<Option<HashMap<u64, u32>>> = Mutex::new(None);
    let place = tokens.clone().into_iter().next().and_then(|token| Location::of(token.span()));
    let place = place.map_or_else(String::new, |place| place.to_string());
    let key = hash(&[&record.package, &record.crate_name, &place, &tokens.to_string()]);
    let number = {
        let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
        let count = written.get_or_insert_default().entry(key).or_default();
        *count += 1;
        *count
    };
    let name = format!("{}-{key:016x}-{number}", record.crate_name);
    std::fs::create_dir_all(folder)?;
    let beside = folder.join(format!("{name}.{}.tmp", std::process::id()));
    let text = serde_json::to_string(record)?;
    let written = std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, folder.join(format!("{name}.json"))));
    if written.is_err() {
        // What is left of it would only take space.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// FNV-1a over parts, 64 bits: the same in every build, unlike the standard library's.
pub(crate) fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests;
