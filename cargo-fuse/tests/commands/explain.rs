//! Which kernels are seen, and what is said of them.

use super::crates::{Crate, check_golden};
use serde_json::Value;

/// Kernels behind features and cfgs, in modules, functions, made by `macro_rules!`, and instances of a generic one.
const MANY: &str = r#"
use fuse::fuse;

fuse! {
    #[kernel]
    pub fn plain<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x + 1.0 }

    #[kernel(T = [f32, f16])]
    pub fn generic<T: Float, N>(x: Tensor<T, N>) -> Tensor<T, N> { x }

    #[cfg(feature = "extra")]
    #[kernel]
    pub fn with_cfg<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x }
}

#[cfg(feature = "extra")]
fuse! {
    #[kernel]
    pub fn extra<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }
}

#[cfg(not(feature = "extra"))]
fuse! {
    #[kernel]
    pub fn without_extra<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 3.0 }
}

macro_rules! scaled {
    ($module:ident, $factor:literal) => {
        pub mod $module {
            fuse::fuse! {
                #[kernel]
                pub fn scaled<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * $factor }
            }
        }
    };
}

scaled!(by_two, 2.0);
scaled!(by_three, 3.0);
scaled!(by_three_again, 3.0);

mod file;

pub fn call() {
    fuse! {
        #[kernel]
        fn inside<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x - 1.0 }
    }
    let _ = inside::plan();
}
"#;

const FILE: &str = r#"
fuse::fuse! {
    #[kernel]
    pub fn in_file<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.sum(N) }
}

#[cfg(test)]
fuse::fuse! {
    #[kernel]
    pub fn in_test<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.sum(N) }
}
"#;

/// The kernels of `explain --json`, sorted, each with its crate.
fn list(demo: &Crate, arguments: &str) -> Vec<String> {
    let text = demo.fuse(&format!("explain --json {arguments}")).ok();
    let kernels: Value = serde_json::from_str(&text).expect("JSON");
    let name = |kernel: &Value| {
        let text = |key: &str| kernel[key].as_str().expect("a name").to_owned();
        format!("{}::{}", text("crate"), text("kernel"))
    };
    let mut names: Vec<String> = kernels.as_array().expect("a list").iter().map(name).collect();
    names.sort();
    names
}

#[test]
fn the_kernels_are_those_that_rustc_compiles() {
    let demo = Crate::new("kernels", MANY);
    demo.write("src/file.rs", FILE);
    demo.write(
        "src/main.rs",
        "fuse::fuse! { #[kernel] fn of_program<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x } }\nfn main() {}",
    );
    // A kernel with a cfg is expanded, and the cfg is on what comes of it: the macro does not see features.
    let always = [
        "generic::<f16>",
        "generic::<f32>",
        "in_file",
        "inside",
        "of_program",
        "plain",
        "scaled",
        "scaled",
        "scaled",
        "with_cfg",
    ];
    let expected = |more: &[&str]| {
        let mut names: Vec<String> = always.iter().chain(more).map(|name| format!("demo::{name}")).collect();
        names.sort();
        names
    };
    let without = expected(&["without_extra"]);
    assert_eq!(list(&demo, ""), without);
    // What was compiled before is seen again.
    assert_eq!(list(&demo, ""), without);
    assert_eq!(list(&demo, "--features extra"), expected(&["extra"]));
    assert_eq!(list(&demo, ""), without);
    assert_eq!(list(&demo, "--all-targets"), expected(&["without_extra", "in_test"]));
    assert_eq!(list(&demo, "--bin demo inside"), ["demo::inside"]);

    // Lines that move take their kernels with them, and none is left behind.
    demo.write("src/lib.rs", &MANY.replace("fn plain<", "fn renamed<").replacen('\n', "\n\n\n", 1));
    let renamed = list(&demo, "");
    assert!(!renamed.contains(&"demo::plain".to_owned()) && renamed.contains(&"demo::renamed".to_owned()));
    assert_eq!(renamed.len(), without.len());
}

#[test]
fn kernels_of_a_dependency_in_the_workspace_are_those_of_its_crate() {
    let demo = Crate::new(
        "workspace",
        "fuse::fuse! { #[kernel] pub fn f<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x } }",
    );
    let manifest = demo.read("Cargo.toml");
    demo.write(
        "Cargo.toml",
        &manifest
            .replace("[workspace]\n", "[workspace]\nmembers = [\"ops\"]\n")
            .replace("[dependencies]\n", "[dependencies]\nops = { path = \"ops\" }\n"),
    );
    demo.write(
        "ops/Cargo.toml",
        &manifest.replace("name = \"demo\"", "name = \"ops\"").replace("[workspace]\n", ""),
    );
    demo.write(
        "ops/src/lib.rs",
        "fuse::fuse! { #[kernel] pub fn f<N>(x: Tensor<f32, N>) -> Tensor<f32> { x.sum(N) } }",
    );
    assert_eq!(list(&demo, ""), ["demo::f", "ops::f"]);
    assert_eq!(list(&demo, "f"), ["demo::f", "ops::f"]);
    assert_eq!(list(&demo, "ops::f"), ["ops::f"]);
    assert_eq!(list(&demo, "-p ops"), ["ops::f"]);
}

/// Features, cfgs, a block made by `macro_rules!`, attribute forms, and ops of a dependency.
const WITH_IMPORTS: &str = r#"
use ops::prelude::*;

fuse::fuse! {
    #[kernel]
    pub fn by_glob<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { curve(x * 2.0) + 1.0 }
}

macro_rules! scaled {
    ($name:ident, $op:path) => {
        fuse::fuse! {
            #[kernel]
            pub fn $name<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { $op(x) * 3.0 }
        }
    };
}
scaled!(by_macro, ops::squared);

#[cfg(feature = "extra")]
#[fuse::kernel]
pub fn with_feature<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
    ops::kept::<N>(x)
}

#[fuse::kernel]
#[cfg(not(feature = "extra"))]
pub fn without_feature<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
    local(x)
}

#[cfg(not(feature = "extra"))]
#[fuse::op]
fn local(x: f32) -> f32 {
    ops::squared(x) + 1.0
}
"#;

const OPS: &str = "\
fuse::fuse! {
    #[op]
    fn helper(x: f32) -> f32 { x * x }

    #[op]
    pub fn squared(x: f32) -> f32 { helper(x) }

    pub fn kept<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let y = x.exp().materialize();
        squared(y) / y.sum(N)
    }

    #[kernel]
    pub fn of_ops<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { squared(x) }
}

pub mod prelude {
    pub use crate::squared as curve;
}
";

#[test]
fn kernels_of_imported_ops_are_those_that_rustc_compiles() {
    let demo = Crate::new("imports", WITH_IMPORTS);
    let manifest = demo.read("Cargo.toml");
    demo.write(
        "Cargo.toml",
        &manifest.replace("[dependencies]\n", "[dependencies]\nops = { path = \"ops\" }\n"),
    );
    let manifest = manifest.replace("name = \"demo\"", "name = \"ops\"").replace("[workspace]\n", "");
    demo.write("ops/Cargo.toml", &manifest);
    demo.write("ops/src/lib.rs", OPS);
    assert_eq!(list(&demo, ""), ["demo::by_glob", "demo::by_macro", "demo::without_feature", "ops::of_ops"]);
    assert_eq!(
        list(&demo, "--features extra"),
        ["demo::by_glob", "demo::by_macro", "demo::with_feature", "ops::of_ops"]
    );
    // The test of the list is rustc: each kernel that it names is there, with the launches that are told.
    let call = |kernel: &str| format!("assert_eq!(demo::{kernel}::plan().launch_count(), 1);");
    let calls: String = ["by_glob", "by_macro", "without_feature"].map(call).concat();
    demo.write("tests/run.rs", &format!("#[test] fn run() {{ {calls} }}"));
    demo.cargo("test --test run", &[]).ok();
    let explained = demo.fuse("explain").ok();
    assert_eq!(explained.matches("for cpu: 1 launch").count(), 4, "{explained}");
    // What is refused within an import stands at its call, and names the remedy.
    let refused = demo.fuse("explain --refused --features extra with_feature").ok();
    check_golden("explain_imported.txt", &refused);
}

/// A kernel that is one launch, and one that is cut.
const EXPLAINED: &str = "\
use fuse::fuse;

fuse! {
    /// Rows of unit length.
    #[kernel(launches = 1)]
    pub fn normalise<M, N>(x: Tensor<f32, M, N>, eps: f32) -> Tensor<f32, M, N> {
        x * (x.square().sum(N) + eps).rsqrt()
    }

    #[kernel]
    pub fn cut<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let y = x.exp().materialize();
        (y + 1.0).sqrt()
    }
}
";

#[test]
fn an_explanation_names_each_edge_at_its_line() {
    let demo = Crate::new("explain", EXPLAINED);
    check_golden("explain.txt", &demo.fuse("explain").ok());
    check_golden("explain_refused.txt", &demo.fuse("explain --refused demo::cut").ok());
    check_golden(
        "explain_gpu.txt",
        &demo.fuse("explain normalise --target sm_90 --assume M=4096 --assume N=128").ok(),
    );
    check_golden("explain.json", &demo.fuse("explain cut --json").ok());
}

#[test]
fn a_remedy_that_is_followed_has_the_edge_fused() {
    let demo = Crate::new("remedy", EXPLAINED);
    let before = demo.fuse("explain cut").ok();
    assert!(
        before.contains("= help: drop `materialize()`")
            && before.contains("3 dataflow edges: 2 fused, 1 not")
    );
    demo.write("src/lib.rs", &EXPLAINED.replace(".materialize()", ""));
    let after = demo.fuse("explain cut").ok();
    assert!(after.contains("2 dataflow edges: 2 fused, 0 not") && !after.contains("help"), "{after}");
}
