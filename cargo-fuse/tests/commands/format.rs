//! Blocks are formatted, and what is not is found.

use super::crates::Crate;

const WRITTEN: &str = "pub mod inner;\n\nfuse::fuse! {\n  #[kernel]\n  pub fn k<N>(x: Tensor<f32,N>) -> Tensor<f32,N> { x }\n}\n";
const INNER: &str = "// Nothing to do here.\nfuse::fuse! {\n    const ONE: f32 = 1.0;\n}\n";
const FORMATTED: &str = "pub mod inner;\n\nfuse::fuse! {\n    #[kernel]\n    pub fn k<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {\n        x\n    }\n}\n";

#[test]
fn a_crate_is_formatted() {
    let demo = Crate::new("format", WRITTEN);
    demo.write("src/inner.rs", INNER);
    let file = demo.root().join("src/lib.rs");
    let check = demo.fuse("fmt --check");
    assert_eq!(check.failure(), (1, "1 block is not formatted; `cargo fuse fmt` formats them"));
    assert_eq!(check.out, format!("{}:3: not formatted\n", file.display()));
    assert_eq!(demo.read("src/lib.rs"), WRITTEN);

    assert_eq!(demo.fuse("fmt").ok(), format!("{}:3: formatted\n", file.display()));
    assert_eq!(demo.read("src/lib.rs"), FORMATTED);
    assert_eq!(demo.read("src/inner.rs"), INNER);
    assert_eq!(demo.fuse("fmt --check").ok(), "");

    // A width that the crate asks for.
    demo.write("rustfmt.toml", "max_width = 50\n");
    demo.fuse("fmt src/lib.rs").ok();
    assert!(
        demo.read("src/lib.rs")
            .contains("    pub fn k<N>(\n        x: Tensor<f32, N>,\n    ) -> Tensor<f32, N> {\n")
    );

    demo.write("src/inner.rs", "fuse::fuse! { fn k(x) -> }\n");
    let left = demo.fuse("fmt");
    assert_eq!(left.failure(), (2, "1 block is left as it is"));
    assert!(left.out.contains("inner.rs:1: left as it is: rustfmt does not read it: "), "{left:?}");
}
