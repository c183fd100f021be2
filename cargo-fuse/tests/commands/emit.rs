//! What is printed of a kernel.

use super::crates::Crate;

const LIBRARY: &str = "\
fuse::fuse! {
    #[kernel]
    pub fn total<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M> { (x + 1.0).sum(N) }

    #[kernel(T = [f32, f16])]
    pub fn twice<T: Float, N>(x: Tensor<T, N>) -> Tensor<T, N> { (x as f32 * 2.0) as T }
}
";

#[test]
fn each_kind_of_text_is_printed() {
    let demo = Crate::new("emit", LIBRARY);
    let graph = demo.fuse("emit total --graph").ok();
    assert!(graph.starts_with("kernel total(x: f32[M, N]) {") && graph.contains("sum<N>"), "{graph}");

    let plan = demo.fuse("emit total --plan").ok();
    assert!(plan.starts_with("plan of `total` for cpu: 1 launch, unfused 2\n"), "{plan}");

    let cuda = demo.fuse("emit total --cuda").ok();
    assert!(
        cuda.starts_with("// CUDA C++ of `demo::total`, planned for cpu\n\n// launch 1, step 1, variant 1\n"),
        "{cuda}"
    );
    assert!(cuda.contains("extern \"C\" __global__"), "{cuda}");

    let ir = demo.fuse("emit total --kernel-ir").ok();
    assert!(
        ir.starts_with("// kernel IR of `demo::total`, planned for cpu\n")
            && ir.contains("\nkernel total(m: u32"),
        "{ir}"
    );

    let rust = demo.fuse("emit total --rust").ok();
    let file = syn::parse_file(&rust).expect("Rust");
    assert!(rust.starts_with("// Rust of `demo::total`, planned for cpu\n"), "{rust}");
    assert!(file.items.len() > 3 && file.items.iter().all(|item| matches!(item, syn::Item::Fn(_))), "{rust}");
}

#[test]
fn a_name_without_dtypes_is_every_instance() {
    let demo = Crate::new("instances", LIBRARY);
    let both = demo.fuse("emit twice --graph").ok();
    assert!(both.contains("kernel twice::<f32>(") && both.contains("kernel twice::<f16>("), "{both}");
    let one = demo.fuse("emit twice::<f16> --graph").ok();
    assert!(!one.contains("kernel twice::<f32>(") && one.contains("kernel twice::<f16>("), "{one}");
}

#[test]
fn another_target_has_another_plan() {
    let demo = Crate::new("target", LIBRARY);
    let plan = demo.fuse("emit total --plan --target sm_80 --assume N=65536").ok();
    assert!(plan.starts_with("plan of `total` for sm_80:") && plan.contains("N = 65536"), "{plan}");
    let cuda = demo.fuse("emit total --cuda --target sm_80 --assume N=65536").ok();
    assert!(cuda.starts_with("// CUDA C++ of `demo::total`, planned for sm_80\n"), "{cuda}");
}
