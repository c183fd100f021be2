//! Kernel IR as CUDA C++: one text for a reader and for NVRTC, with no `#include`.
//!
//! The text defines one entry, [`entry_name`], whose parameters are those of the kernel in order. It means what the IR
//! says, operation by operation, if it is compiled with [`compile_options`]; above all products and sums must not be
//! contracted. Names are the user's unless they mean something in C++; then they end in `_`.
//!
//! ```text
//! types, device functions    what the text uses, no more       device.rs
//! namespace op               the user's scalar functions       function.rs
//! the entry                  statements one by one             statement.rs, memory.rs, tensor_core.rs
//!                            expressions                       expression.rs, operation.rs, literal.rs
//! ```
//!
//! Precision of f32 functions: those that CUDA documents within 2 ulp are CUDA's (`expf`, `erff` …), the others are those
//! of the CPU backend, as are all special values. f64 functions are CUDA's.

mod names;
mod writer;

mod operand;

mod literal;
mod operation;

mod expression;
mod function;

mod memory;
mod statement;
mod tensor_core;

mod device;

use crate::id::FactId;
use crate::kernel_ir::{Geometry, Kernel, Memory, Param, ParamKind, Stmt, Usage};
use expression::Expressions;
use operand::rank;
use statement::Statements;
use writer::Writer;

/// The kernel as CUDA C++. It must be a verified one.
pub fn print_cuda(kernel: &Kernel) -> String {
    let expressions = Expressions::new(kernel);
    let functions = function::declare_functions(&kernel.functions);
    let head = print_head(kernel, &expressions);
    let mut body = Statements { expressions: &expressions, functions: &functions, out: Writer::new(1) };
    body.print_block(&kernel.body);
    let body = body.out.finish();
    let mut start = Writer::new(1);
    expressions.print_places().iter().for_each(|line| start.line(line));
    let views = print_views(kernel, &expressions);
    views.iter().for_each(|line| start.line(line));
    let functions = function::print_functions(&kernel.functions, &functions, kernel.fast);
    let text = format!("{functions}{head}{}{body}}}\n", start.finish());
    format!("{}{}{}{text}", print_comment(kernel), print_facts(kernel), device::print_prelude(&text))
}

/// The name of the entry in the compiled text.
pub fn entry_name(kernel: &Kernel) -> String {
    names::entry(&kernel.name)
}

/// The macro that says whether a fact holds: 1 or 0, which is what the text takes it for if it is not defined.
pub fn fact_macro(kernel: &Kernel, fact: FactId) -> String {
    names::fact_macro(&kernel.fact(fact).name)
}

/// The options of NVRTC under which the text means what the kernel says, for these facts; the architecture is not among
/// them.
pub fn compile_options(kernel: &Kernel, facts: &[bool]) -> Vec<String> {
    let contract = if kernel.fast { "--fmad=true" } else { "--fmad=false" };
    // Stores of 16 bytes are those of one number.
    let fixed =
        ["--std=c++17", contract, "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--device-int128"];
    let defines = kernel.facts.iter().zip(facts);
    let defines =
        defines.map(|(fact, holds)| format!("-D{}={}", names::fact_macro(&fact.name), u8::from(*holds)));
    fixed.map(str::to_owned).into_iter().chain(defines).collect()
}

/// Whether no store may reach what a parameter points to.
fn is_read_only(param: &Param) -> bool {
    matches!(param.kind, ParamKind::Pointer { usage: Usage::Read, .. })
}

fn print_comment(kernel: &Kernel) -> String {
    let Geometry { grid: [x, y, z], block, shared_bytes, .. } = &kernel.geometry;
    let [x, y, z] = [x, y, z].map(|s| kernel.size(s));
    let what = match kernel.comment.as_str() {
        "" => String::new(),
        comment => format!(": {}", comment.replace('\n', " ").trim_end_matches(['\\', ' '])),
    };
    let contract = if kernel.fast { "" } else { "// compile with --fmad=false\n" };
    let [bx, by, bz] = block;
    format!(
        "// {}{what}\n// grid {x} x {y} x {z}, block {bx} x {by} x {bz}, {} bytes of shared memory\n{contract}\n",
        kernel.name,
        kernel.size(shared_bytes),
    )
}

fn print_facts(kernel: &Kernel) -> String {
    let mut text = String::new();
    for fact in &kernel.facts {
        let name = names::fact_macro(&fact.name);
        text.push_str(&format!("#ifndef {name}\n#define {name} 0\n#endif\n"));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn print_head(kernel: &Kernel, expressions: &Expressions<'_>) -> String {
    let names = expressions.names.borrow();
    let print = |(k, param): (usize, &Param)| {
        let name = names.param(crate::id::ArgId::from_index(k));
        match param.kind {
            ParamKind::Pointer { dtype, unaliased, .. } => {
                let read_only = if is_read_only(param) { "const " } else { "" };
                let restrict = if unaliased { " __restrict__" } else { "" };
                format!("    {read_only}{}*{restrict} {name}", memory::memory_type(dtype))
            }
            ParamKind::Scalar { dtype, .. } => format!("    {dtype} {name}"),
        }
    };
    let params: Vec<String> = kernel.params.iter().enumerate().map(print).collect();
    let threads = kernel.geometry.threads();
    let bounds = match kernel.geometry.resident_blocks {
        0 => threads.to_string(),
        n => format!("{threads}, {n}"),
    };
    let params = if params.is_empty() { String::new() } else { format!("\n{}", params.join(",\n")) };
    format!(
        "extern \"C\" __global__ void __launch_bounds__({bounds})\n{}({params}) {{\n",
        names::entry(&kernel.name)
    )
}

/// Declares the views that the body uses.
fn print_views(kernel: &Kernel, expressions: &Expressions<'_>) -> Vec<String> {
    let mut used = vec![false; kernel.views.len()];
    mark_views(&kernel.body, &mut used);
    let mut lines = Vec::new();
    let shared = expressions.names.borrow_mut().helper("shared");
    for (k, view) in kernel.views.iter().enumerate().filter(|(k, _)| used[*k]) {
        let name = expressions.names.borrow().view(crate::id::ViewId::from_index(k)).to_owned();
        let of = memory::memory_type(view.dtype);
        let place = match view.offset.as_const() {
            Some(0) => shared.clone(),
            Some(n) => format!("{shared} + {n}"),
            None => format!("{shared} + {}", expressions.print_size(&view.offset).at_least(rank::SUM)),
        };
        lines.push(format!("{of}* const {name} = reinterpret_cast<{of}*>({place});"));
    }
    if !lines.is_empty() {
        lines.insert(0, format!("extern __shared__ __align__(128) unsigned char {shared}[];"));
    }
    lines
}

fn mark_views(block: &[Stmt], used: &mut [bool]) {
    for stmt in block {
        let view = match stmt {
            Stmt::Load { access, .. } | Stmt::Store { access, .. } | Stmt::Atomic { access, .. } => {
                if let Memory::Shared(id) = access.memory {
                    Some(id)
                } else {
                    None
                }
            }
            Stmt::CopyAsync { to, .. } => Some(*to),
            Stmt::LoadMatrix { view, .. } => Some(*view),
            _ => None,
        };
        if let Some(slot) = view.and_then(|id| used.get_mut(id.index())) {
            *slot = true;
        }
        match stmt {
            Stmt::If { then, otherwise, .. } => {
                mark_views(then, used);
                mark_views(otherwise, used);
            }
            Stmt::For { body, .. } => mark_views(body, used),
            _ => {}
        }
    }
}
