//! The names of a kernel as C++ takes them: the user's own, unless they mean something else there.

use crate::id::{ArgId, ArrayId, FactId, LocalId, ViewId};
use crate::kernel_ir::Kernel;
use std::collections::{BTreeMap, BTreeSet};

/// Words of C++ and CUDA, names of the prelude, and macros that NVRTC defines.
const RESERVED: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "atomic_cancel",
    "atomic_commit",
    "atomic_noexcept",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char8_t",
    "char16_t",
    "char32_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "typeof",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
    "threadIdx",
    "blockIdx",
    "blockDim",
    "gridDim",
    "warpSize",
    "fuse",
    "op",
    "f32",
    "f64",
    "f16",
    "bf16",
    "f8e4m3",
    "f8e5m2",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "NULL",
    "NOMINMAX",
    "va_start",
    "va_end",
    "va_arg",
    "va_copy",
    "linux",
    "unix",
    "assert",
    "main",
    "float2",
    "float4",
    "double2",
    "int2",
    "int4",
    "uint2",
    "uint4",
    "longlong2",
    "ulonglong2",
    "size_t",
    "std",
];

/// Names in use, each once.
#[derive(Debug, Default)]
pub(super) struct Scope {
    taken: BTreeSet<String>,
}

impl Scope {
    /// `wish`, or the like of it that is valid and free.
    pub(super) fn take(&mut self, wish: &str) -> String {
        let valid = identifier(wish);
        let mut name = valid.clone();
        let mut number = 1;
        while !self.taken.insert(name.clone()) {
            number += 1;
            name = format!("{}_{number}", valid.trim_end_matches('_'));
        }
        name
    }
}

/// `wish` as an identifier that C++ leaves to the user.
fn identifier(wish: &str) -> String {
    let wish = wish.strip_prefix("r#").unwrap_or(wish);
    let mut name: String =
        wish.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    while name.contains("__") {
        name = name.replace("__", "_");
    }
    // Leading underscores, doubled ones and the macros of the text itself are not the user's.
    let macros = ["FUSE_", "FACT_"].iter().any(|m| name.starts_with(m));
    let first = name.chars().next();
    if macros || first.is_none_or(|c| c.is_ascii_digit() || c == '_') {
        name.insert(0, 'v');
    }
    if RESERVED.contains(&name.as_str()) {
        name.push('_');
    }
    name
}

/// The names of everything in a kernel.
pub(super) struct Names {
    scope: Scope,
    params: Vec<String>,
    facts: Vec<String>,
    views: Vec<String>,
    locals: Vec<String>,
    arrays: Vec<String>,
    helpers: BTreeMap<&'static str, String>,
}

impl Names {
    /// Takes every name of the kernel.
    pub(super) fn new(kernel: &Kernel) -> Self {
        let mut scope = Scope::default();
        let params = kernel.params.iter().map(|p| scope.take(&p.name)).collect();
        let views = kernel.views.iter().map(|v| scope.take(&v.name)).collect();
        let locals = kernel.locals.iter().map(|l| scope.take(&l.name)).collect();
        let arrays = kernel.arrays.iter().map(|a| scope.take(&a.name)).collect();
        let facts = kernel.facts.iter().map(|f| fact_macro(&f.name)).collect();
        Names { scope, params, facts, views, locals, arrays, helpers: BTreeMap::new() }
    }

    /// A name of the printer's own, the same each time.
    pub(super) fn helper(&mut self, wish: &'static str) -> String {
        let scope = &mut self.scope;
        self.helpers.entry(wish).or_insert_with(|| scope.take(wish)).clone()
    }

    /// A name that nothing else has.
    pub(super) fn fresh(&mut self, wish: &str) -> String {
        self.scope.take(wish)
    }

    pub(super) fn param(&self, id: ArgId) -> &str {
        self.params.get(id.index()).map_or("", String::as_str)
    }

    pub(super) fn fact(&self, id: FactId) -> &str {
        self.facts.get(id.index()).map_or("", String::as_str)
    }

    pub(super) fn view(&self, id: ViewId) -> &str {
        self.views.get(id.index()).map_or("", String::as_str)
    }

    pub(super) fn local(&self, id: LocalId) -> &str {
        self.locals.get(id.index()).map_or("", String::as_str)
    }

    pub(super) fn array(&self, id: ArrayId) -> &str {
        self.arrays.get(id.index()).map_or("", String::as_str)
    }
}

/// The macro of a fact.
pub(super) fn fact_macro(name: &str) -> String {
    format!("FACT_{name}")
}

/// The name of a kernel's entry, which nothing of CUDA has.
pub(super) fn entry(name: &str) -> String {
    format!("fuse_{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_users_where_they_can_be() {
        let mut scope = Scope::default();
        let taken = ["x", "double", "r#type", "été", "x", "__p", "double_", "exp"].map(|n| scope.take(n));
        assert_eq!(
            taken,
            ["x", "double_", "type", "v_t_", "x_2", "v_p", "double_2", "exp"].map(str::to_owned)
        );
    }
}
