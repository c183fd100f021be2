//! The functions that printed kernels call: short ones of our own, since a user's NVRTC has no headers on its path.
//!
//! Each file is a list of sections between blank lines, a section one function with its comment. A kernel gets those
//! that its text names, and those that these name, in the order of the files.

use crate::kernel_ir::MmaShape;
use std::collections::BTreeSet;
use std::sync::OnceLock;

const FILES: [&str; 5] = [
    include_str!("device/integer.cuh"),
    include_str!("device/float.cuh"),
    include_str!("device/narrow.cuh"),
    include_str!("device/function.cuh"),
    include_str!("device/memory.cuh"),
];

/// One function.
struct Section {
    name: String,
    text: String,
    /// The sections that it names.
    calls: Vec<usize>,
    /// Which of [`TYPES`] it names.
    types: Vec<usize>,
}

/// All functions there are, in order.
fn all_sections() -> &'static [Section] {
    static SECTIONS: OnceLock<Vec<Section>> = OnceLock::new();
    SECTIONS.get_or_init(|| {
        let of_files = FILES.iter().flat_map(|file| file.trim_end().split("\n\n"));
        let of_files = of_files.map(|text| (section_name(text).to_owned(), text.to_owned()));
        let products = MmaShape::ALL.map(|shape| {
            (super::tensor_core::function_name(shape), super::tensor_core::print_section(shape))
        });
        let all: Vec<(String, String)> = of_files.chain(products).collect();
        let find = |words: &BTreeSet<&str>| {
            let named = all.iter().enumerate().filter(|(_, (name, _))| words.contains(name.as_str()));
            named.map(|(k, _)| k).collect()
        };
        let sections = all.iter().map(|(name, text)| {
            let words = identifiers(text);
            Section { name: name.clone(), text: text.clone(), calls: find(&words), types: find_types(&words) }
        });
        sections.collect()
    })
}

/// What stands before the kernel: the types and functions that `text` uses.
pub(super) fn print_prelude(text: &str) -> String {
    let sections = all_sections();
    let called = members_of_fuse(text);
    let is_called = |k: &usize| called.contains(sections[*k].name.as_str());
    let mut open: Vec<usize> = (0..sections.len()).filter(is_called).collect();
    let mut wanted: BTreeSet<usize> = BTreeSet::new();
    while let Some(k) = open.pop() {
        if wanted.insert(k) {
            open.extend(&sections[k].calls);
        }
    }
    let functions: Vec<&str> = wanted.iter().map(|&k| sections[k].text.as_str()).collect();
    let functions = functions.join("\n\n");
    let mut types: BTreeSet<usize> = find_types(&identifiers(text)).into_iter().collect();
    types.extend(wanted.iter().flat_map(|&k| &sections[k].types));
    let mut prelude = print_types(&types);
    if !functions.is_empty() {
        prelude.push_str("#define FUSE_DEVICE static __device__ __forceinline__\n\n");
        prelude.push_str(&format!("namespace fuse {{\n\n{functions}\n\n}}  // namespace fuse\n\n"));
    } else if text.contains("FUSE_DEVICE") {
        prelude.push_str("#define FUSE_DEVICE static __device__ __forceinline__\n\n");
    }
    prelude
}

/// The names of Rust's types and those of CUDA; narrow floats stand for their bits.
const TYPES: [(&str, &str); 14] = [
    ("f32", "float"),
    ("f64", "double"),
    ("i8", "signed char"),
    ("i16", "short"),
    ("i32", "int"),
    ("i64", "long long"),
    ("u8", "unsigned char"),
    ("u16", "unsigned short"),
    ("u32", "unsigned int"),
    ("u64", "unsigned long long"),
    ("f16", "unsigned short"),
    ("bf16", "unsigned short"),
    ("f8e4m3", "unsigned char"),
    ("f8e5m2", "unsigned char"),
];

/// Which of [`TYPES`] are among these words.
fn find_types(words: &BTreeSet<&str>) -> Vec<usize> {
    (0..TYPES.len()).filter(|&k| words.contains(TYPES[k].0)).collect()
}

/// Definitions of some of [`TYPES`].
fn print_types(types: &BTreeSet<usize>) -> String {
    let mut lines = String::new();
    for (name, of) in types.iter().map(|&k| TYPES[k]) {
        let bits = if name.starts_with("f8") || name.ends_with("f16") { "  // its bits" } else { "" };
        lines.push_str(&format!("using {name} = {of};{bits}\n"));
    }
    if !lines.is_empty() {
        lines.push('\n');
    }
    lines
}

/// The function that a section defines: what stands before the first parenthesis of its `FUSE_DEVICE` line.
fn section_name(text: &str) -> &str {
    let head = text.lines().find(|l| l.starts_with("FUSE_DEVICE")).unwrap_or_default();
    let head = head.split('(').next().unwrap_or_default();
    head.rsplit(' ').next().unwrap_or_default()
}

/// The identifiers of a text.
fn identifiers(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect()
}

/// The names after `fuse::` in a text.
fn members_of_fuse(text: &str) -> BTreeSet<&str> {
    let after = text.split("fuse::").skip(1);
    after
        .map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            &rest[..end]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_defines_one_function() {
        let sections = all_sections();
        let names: BTreeSet<&str> = sections.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names.len(), sections.len());
        for section in sections {
            assert!(section.text.starts_with("// "), "{}", section.text);
            assert_eq!(section.text.matches("FUSE_DEVICE").count(), 1, "{}", section.text);
            assert!(!section.name.is_empty(), "{}", section.text);
        }
    }

    #[test]
    fn functions_come_with_what_they_call_and_no_others() {
        let prelude = print_prelude("y = fuse::is_nan_f32(x);");
        assert!(prelude.contains("magnitude_f32(f32 a)"));
        assert!(!prelude.contains("f64"));
        assert_eq!(print_prelude("y = x + 1;"), "");
    }
}
