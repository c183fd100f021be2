//! Rust from scheduled groups: one flat loop for each stage, once for each instruction set.
//!
//! Takes a group and gives items (functions) and an expression that names them, `GroupFns`. The loops know nothing of
//! layout, dtypes in memory, the reduction tree or threads: that is the engine's part, in the runtime
//! (`fuse_runtime::cpu`). What a stage reads and writes is decided by [`fuse_ir::stage::cut_into_stages`], which both
//! sides call.
//!
//! ```text
//! #[inline(always)] fn g0_sweep0_body<const F: bool>(len: usize, x: &[f32], y: &mut [f32]) { .. }
//! fn g0_sweep0_baseline(t: &mut Tile<'_>) {
//!     while let Some(mut row) = t.next_row() { g0_sweep0_body::<false>(row.len(), row.input(0), row.output(0)); }
//! }
//! #[target_feature(enable = "avx2,fma,f16c")] fn g0_sweep0_avx2(t: &mut Tile<'_>) { .. }
//! ```
//!
//! A group whose passes over a row are loops and nothing else also gets a row function, which does all of them.
//!
//! The slices are parameters of a function of their own because only parameters tell LLVM that they do not overlap; a
//! loop over slices that are locals needs overlap checks at run time, and with many of them is not vectorised at all.
//! Without optimisation (`cfg(debug_assertions)`) AVX-512 runs the versions for AVX2, which give the same bits, and loops have
//! no form for whole blocks.
//!
//! A `#[target_feature]` function coerces to an `unsafe fn` pointer without the word `unsafe` in the expansion. `F` says
//! that fused multiply-add is there, for the polynomials of the runtime; plain `*` and `+` are never contracted.

mod combiner;
mod function;
mod inline;
mod literal;
mod loops;
mod names;
mod operation;
mod row;
mod segment;
mod stage;
mod values;

use fuse_ir::graph::Kernel;
use fuse_ir::schedule::contraction::{Panel, cut_contraction_by_rows};
use fuse_ir::schedule::depthwise::cut_depthwise;
use fuse_ir::schedule::streamed::cut_streamed;
use fuse_ir::schedule::{ScheduleKind, ScheduledGroup};
use fuse_ir::stage::{Place, Stage, cut_into_stages, find_row_function};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

/// What is emitted for a group.
#[derive(Clone, Debug)]
pub struct EmittedGroup {
    /// The functions. They call those of [`emit_functions`], which must stand in the same scope.
    pub items: TokenStream,
    /// An expression of type `GroupFns`, usable in a constant.
    pub functions: TokenStream,
}

/// The scalar functions of a kernel, which the stages of its groups call; once for each kernel.
///
/// `facade` is the path of the facade crate, `::fuse` unless the dependency is renamed.
pub fn emit_functions(facade: &TokenStream, kernel: &Kernel) -> TokenStream {
    let private = quote!(#facade::__private);
    let context = function::FunctionContext::new(&private, kernel);
    (0..kernel.functions.len()).map(|k| function::emit_function(&context, k)).collect()
}

/// The loops of a group.
///
/// `facade` is the path of the facade crate, `::fuse` unless the dependency is renamed.
pub fn emit_group(facade: &TokenStream, kernel: &Kernel, group: &ScheduledGroup) -> EmittedGroup {
    let private = quote!(#facade::__private);
    if let Some(parts) = cut_contraction_by_rows(group) {
        let mut named = name_panels(&parts.panels);
        named.push(("epilogue".to_owned(), &parts.epilogue));
        return emit_parts(&private, kernel, &named);
    }
    if let Some(parts) = cut_depthwise(group) {
        return emit_parts(&private, kernel, &[("epilogue".to_owned(), &parts.epilogue)]);
    }
    if let (ScheduleKind::Streamed, Ok(parts)) = (group.kind, cut_streamed(group)) {
        let mut named = name_panels(&parts.scores.panels);
        named.push(("scores".to_owned(), &parts.scores.epilogue));
        named.extend(parts.admitted.iter().map(|a| ("admitted".to_owned(), &a.group)));
        named.extend(parts.weights.iter().map(|w| ("weights".to_owned(), &w.group)));
        named.push(("values".to_owned(), &parts.values.group));
        named.push(("rows".to_owned(), &parts.of_rows));
        named.push(("epilogue".to_owned(), &parts.epilogue));
        return emit_parts(&private, kernel, &named);
    }
    let staged = cut_into_stages(kernel, group);
    let row = find_row_function(group, &staged);
    let mut items = TokenStream::new();
    let mut stages = Vec::new();
    for stage in &staged.stages {
        let name = format_ident!("{}_{}", group.id.to_string(), stage.name);
        let versions = Versions::of_stage(stage, row.is_some());
        items.extend(stage::emit_stage(&private, kernel, group, &staged, stage, (&name, versions)));
        stages.push(versions_expr(&private, &name, versions));
    }
    let mut combiners = Vec::new();
    for (k, (function, dtypes)) in staged.combiners.iter().enumerate() {
        let name = format_ident!("{}_combine{}", group.id.to_string(), k);
        items.extend(combiner::emit_combiner(&private, kernel, *function, dtypes, &name));
        combiners.push(versions_expr(&private, &name, Versions::Narrow));
    }
    let rows = match row {
        Some(row) => {
            let name = format_ident!("{}_rows", group.id.to_string());
            items.extend(row::emit_row_function(&private, kernel, group, &staged, &row, &name));
            let versions = versions_expr(&private, &name, Versions::Rows);
            quote!(::core::option::Option::Some(#versions))
        }
        None => quote!(::core::option::Option::None),
    };
    let functions = quote!(#private::GroupFns {
        stages: &[#(#stages),*], combiners: &[#(#combiners),*], rows: #rows,
    });
    EmittedGroup { items, functions }
}

fn name_panels(panels: &[Panel]) -> Vec<(String, &ScheduledGroup)> {
    panels.iter().enumerate().map(|(k, panel)| (format!("panel{k}"), &panel.group)).collect()
}

/// The loops of the parts of a contraction, in the order in which the engine takes them. The products are the engine's.
fn emit_parts(private: &TokenStream, kernel: &Kernel, parts: &[(String, &ScheduledGroup)]) -> EmittedGroup {
    let mut items = TokenStream::new();
    let mut stages = Vec::new();
    for (part, group) in parts {
        let staged = cut_into_stages(kernel, group);
        for stage in &staged.stages {
            let name = format_ident!("{}_{part}_{}", group.id.to_string(), stage.name);
            let versions = Versions::of_stage(stage, false);
            items.extend(stage::emit_stage(private, kernel, group, &staged, stage, (&name, versions)));
            stages.push(versions_expr(private, &name, versions));
        }
    }
    let functions = quote!(#private::GroupFns {
        stages: &[#(#stages),*], combiners: &[], rows: ::core::option::Option::None,
    });
    EmittedGroup { items, functions }
}

/// What clippy and rustc would say of generated loops, whatever the user's crate denies.
fn lint_allowances() -> TokenStream {
    quote!(#[allow(
        clippy::all, clippy::pedantic, clippy::nursery, dead_code, non_snake_case, unused_assignments,
        unused_braces, unused_mut, unused_parens, unused_variables, reason = "generated code"
    )])
}

/// What a body is compiled for. Each version takes its time to compile, most of it in LLVM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Versions {
    /// Every instruction set: the runtime's `StageFns`.
    Wide,
    /// The same, but what AVX-512 runs is the version for AVX2: for what is a small part of the work.
    Narrow,
    /// Those whose registers hold the lanes of a reduction, that is all but SSE2: the runtime's `RowFns`.
    Rows,
}

impl Versions {
    /// Those of a stage: the values of rows are few beside their elements, and where a row function does the work the stages
    /// are for rows that do not lie in one piece.
    fn of_stage(stage: &Stage, has_row_function: bool) -> Versions {
        if stage.place == Place::Inner && !has_row_function { Versions::Wide } else { Versions::Narrow }
    }

    /// The runtime's type, and the condition under which it has a version for every processor of the architecture.
    fn parts(self) -> (TokenStream, TokenStream) {
        match self {
            Versions::Wide | Versions::Narrow => (quote!(StageFns), TokenStream::new()),
            Versions::Rows => (quote!(RowFns), quote!(#[cfg(not(target_arch = "x86_64"))])),
        }
    }

    /// Whether AVX-512 has a version of its own, if there is optimisation: without it would bring nothing but a third of the
    /// time of compiling. That there is none is what a macro takes debug assertions to say.
    fn have_avx512(self) -> bool {
        self != Versions::Narrow
    }
}

/// The wrappers of a body: one for each instruction set, which take the tile apart. `call` is given whether fused
/// multiply-add is there, and calls the body for a `row`.
fn emit_versions(
    private: &TokenStream,
    name: &Ident,
    versions: Versions,
    call: impl Fn(TokenStream) -> TokenStream,
) -> TokenStream {
    let (baseline, avx2, avx512) =
        (format_ident!("{name}_baseline"), format_ident!("{name}_avx2"), format_ident!("{name}_avx512"));
    let (_, has_baseline) = versions.parts();
    let each_row =
        |call: TokenStream| quote!(while let ::core::option::Option::Some(mut row) = t.next_row() { #call });
    let fused = each_row(call(quote!(true)));
    // NEON, the baseline of AArch64, has fused multiply-add.
    let base = each_row(call(quote!({ cfg!(target_arch = "aarch64") })));
    let wide = versions.have_avx512().then(|| {
        quote! {
            #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
            fn #avx512(t: &mut #private::Tile<'_>) { #fused }
        }
    });
    quote! {
        #has_baseline
        fn #baseline(t: &mut #private::Tile<'_>) { #base }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn #avx2(t: &mut #private::Tile<'_>) { #fused }
        #wide
    }
}

/// An expression that names what [`emit_versions`] has made.
fn versions_expr(private: &TokenStream, name: &Ident, versions: Versions) -> TokenStream {
    let (baseline, avx2, avx512) =
        (format_ident!("{name}_baseline"), format_ident!("{name}_avx2"), format_ident!("{name}_avx512"));
    let (all, has_baseline) = versions.parts();
    let wide = if versions.have_avx512() {
        quote! {
            #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
            avx512: #avx512,
            #[cfg(all(target_arch = "x86_64", debug_assertions))]
            avx512: #avx2,
        }
    } else {
        quote! {
            #[cfg(target_arch = "x86_64")]
            avx512: #avx2,
        }
    };
    quote!(#private::#all {
        #has_baseline
        baseline: #baseline,
        #[cfg(target_arch = "x86_64")]
        avx2: #avx2,
        #wide
    })
}
