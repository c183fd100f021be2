//! Identifiers of generated code: the user's names kept, reserved words escaped, made distinct.

use fuse_ir::graph::Kernel;
use fuse_ir::id::ValueId;
use fuse_ir::schedule::{BodyOp, BufferRef, Operand, ScheduledGroup};
use proc_macro2::{Ident, Span};
use std::collections::{HashMap, HashSet};

/// Names that generated code uses for itself.
const TAKEN: [&str; 13] =
    ["len", "i", "j", "n", "start", "first", "size", "at", "t", "row", "fault", "F", "KERNEL"];

/// The names of one generated function.
#[derive(Default)]
pub(super) struct Names {
    used: HashSet<String>,
    /// The number that the last name of each wish got.
    last: HashMap<String, u32>,
    of_value: HashMap<ValueId, Ident>,
}

impl Names {
    /// A name like `wish` that is not in use.
    pub(super) fn distinct(&mut self, wish: &str) -> Ident {
        let mut wish = sanitize(wish);
        if is_like_function(&wish) {
            wish.insert(0, 'x');
        }
        let last = self.last.entry(wish.clone()).or_insert(0);
        loop {
            *last += 1;
            let name = if *last == 1 { wish.clone() } else { format!("{wish}_{last}") };
            if !TAKEN.contains(&name.as_str()) && self.used.insert(name.clone()) {
                return ident(&name);
            }
        }
    }

    /// The name of a value of a body: the user's `let`, else the tensor it loads, else `x3`.
    pub(super) fn value(&mut self, kernel: &Kernel, group: &ScheduledGroup, v: ValueId) -> Ident {
        if let Some(name) = self.of_value.get(&v) {
            return name.clone();
        }
        let wish = wished_name(kernel, group, v).unwrap_or_else(|| v.to_string());
        let name = self.distinct(&wish);
        self.of_value.insert(v, name.clone());
        name
    }
}

fn wished_name(kernel: &Kernel, group: &ScheduledGroup, v: ValueId) -> Option<String> {
    let value = group.value(v);
    match &value.op {
        BodyOp::Load(operand) => {
            if let Operand::Buffer { buffer: BufferRef::Param(p), .. } =
                group.operands.get(operand.index())?
            {
                return Some(kernel.param(*p).name.clone());
            }
        }
        BodyOp::Param(p) => return Some(kernel.param(*p).name.clone()),
        BodyOp::Constant(_) | BodyOp::Extent(_) | BodyOp::Map { .. } => {}
        BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => {}
    }
    kernel.origins.get(value.node?.index())?.name.clone()
}

/// Whether a name may be that of a generated function, `f0_gelu`, which a variable of that name would hide.
fn is_like_function(name: &str) -> bool {
    let rest = name.strip_prefix('f').unwrap_or_default();
    rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains('_')
}

/// The letters, digits and underscores of a name, in a form that starts like an identifier.
pub(super) fn sanitize(name: &str) -> String {
    let name = name.strip_prefix("r#").unwrap_or(name);
    let mut clean: String =
        name.chars().map(|c| if c == '_' || c.is_alphanumeric() { c } else { '_' }).collect();
    if clean.is_empty() || clean.starts_with(|c: char| c.is_numeric()) || clean == "_" {
        clean.insert(0, 'x');
    }
    clean
}

/// The identifier of that name, raw if it is a keyword.
pub(super) fn ident(name: &str) -> Ident {
    if matches!(name, "self" | "Self" | "super" | "crate") {
        return Ident::new(&format!("{name}_"), Span::call_site());
    }
    if syn::parse_str::<Ident>(name).is_ok() {
        Ident::new(name, Span::call_site())
    } else {
        Ident::new_raw(name, Span::call_site())
    }
}
