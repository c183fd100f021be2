//! The kernels of the tests' and benches' blocks, planned and lowered for a GPU.

use fuse_compiler::diagnostic::Diagnostics;
use fuse_compiler::pipeline::plan_block;
use fuse_ir::kernel_ir::Kernel;
use fuse_ir::lower::{LowerOptions, lower_launch};
use fuse_ir::plan::{PlanOptions, plan_kernel};
use fuse_ir::program::Program;
use fuse_ir::target::Target;
use proc_macro2::{TokenStream, TokenTree};
use std::path::Path;

/// The files with the blocks.
const FILES: [&str; 5] = [
    "tests/patterns.rs",
    "tests/contractions.rs",
    "tests/convolutions.rs",
    "tests/attention.rs",
    "benches/harness/kernels.rs",
];

/// Every variant of every launch of every kernel, with 32-bit indices and with 64-bit ones; names say which.
///
/// # Errors
/// A file or kernel that is not what it should be.
pub(crate) fn planned_kernels(architecture: &str) -> Result<Vec<Kernel>, String> {
    let target = Target::gpu(architecture).ok_or_else(|| format!("`{architecture}` is no target"))?;
    let mut kernels = Vec::new();
    for (_, Program { kernel, .. }) in programs()? {
        let name = kernel.name.clone();
        // A contract may hold on the CPU alone; it is that plan's to keep.
        let plan = plan_kernel(&kernel, &target, &PlanOptions::default());
        let plan = plan.map_err(|e| format!("`{name}` is not planned: {e:?}"))?;
        let program = Program { kernel, plan };
        for wide in [false, true] {
            kernels.extend(lower(&program, &target, wide).map_err(|e| format!("`{name}`: {e}"))?);
        }
    }
    Ok(kernels)
}

/// Every kernel with the plan that its binary carries, and its file.
///
/// # Errors
/// A file or kernel that is not what it should be.
pub(crate) fn programs() -> Result<Vec<(&'static str, Program)>, String> {
    let mut programs = Vec::new();
    for file in FILES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let text = std::fs::read_to_string(&path).map_err(|e| format!("`{}`: {e}", path.display()))?;
        let tokens: TokenStream = text.parse().map_err(|e| format!("`{file}`: {e}"))?;
        let mut diagnostics = Diagnostics::new();
        for planned in blocks(tokens).into_iter().flat_map(|block| plan_block(block, &mut diagnostics)) {
            programs.push((file, planned.program));
        }
        if let Some(problem) = diagnostics.iter().next() {
            return Err(format!("`{file}`: {problem:?}"));
        }
    }
    Ok(programs)
}

fn lower(program: &Program, target: &Target, wide: bool) -> Result<Vec<Kernel>, String> {
    let options = LowerOptions::for_target(target, wide);
    let mut kernels = Vec::new();
    for launch in 0..program.plan.launches.len() {
        let lowered = lower_launch(program, launch, &options).map_err(|e| e.to_string())?;
        for (step, variants) in lowered.steps.into_iter().enumerate() {
            for (number, variant) in variants.into_iter().enumerate() {
                let mut kernel = variant.kernel;
                let bits = if wide { 64 } else { 32 };
                // Of an instance of a generic kernel: `half::<f16>` is `half_f16`.
                let instance = program.kernel.name.replace("::<", "_").replace(", ", "_").replace('>', "");
                kernel.name = format!("{instance}_{launch}_{step}_{number}_{bits}");
                kernels.push(kernel);
            }
        }
    }
    Ok(kernels)
}

/// The contents of the `fuse! { … }` of a file.
fn blocks(tokens: TokenStream) -> Vec<TokenStream> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut found = Vec::new();
    for (k, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        let before = [k.checked_sub(2), k.checked_sub(1)].map(|k| k.and_then(|k| tokens.get(k)));
        match before {
            [Some(TokenTree::Ident(name)), Some(TokenTree::Punct(bang))]
                if name == "fuse" && bang.as_char() == '!' =>
            {
                found.push(group.stream());
            }
            _ => found.extend(blocks(group.stream())),
        }
    }
    found
}
