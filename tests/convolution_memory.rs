//! A convolution keeps no windows in memory: what it allocates is counted, in a process of its own.

#[path = "support/allocations.rs"]
mod allocations;

use fuse::{Device, Error, Tensor, fuse};

fuse! {
    #[kernel(launches = 1)]
    fn conv_relu<B, C, H, W, K, R, S, P, Q>(x: Tensor<f32, B, C, H, W>, w: Tensor<f32, K, C, R, S>) -> Tensor<f32, B, K, P, Q> {
        relu(conv2d::<C, H, W, K, R, S, P, Q>(x, w, 1, 1))
    }
}

/// The windows of this convolution are 36 MiB; each thread may have 8 MiB beside inputs and outputs.
#[test]
fn windows_are_never_stored() -> Result<(), Error> {
    let (b, c, side, k, r) = (2, 32, 128, 8, 3);
    let x = Tensor::full(1.0f32, [b, c, side, side], &Device::cpu())?;
    let w = Tensor::full(0.5f32, [k, c, r, r], &Device::cpu())?;
    let (y, more) = allocations::peak(|| conv_relu(&x, &w));
    let y = y?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let allowed = y.len() * 4 + threads * (8 << 20);
    assert!(4 * b * c * side * side * r * r > 2 * allowed, "the windows would be no more than is allowed");
    assert!(more <= allowed, "{more} bytes more, {allowed} allowed");
    assert_eq!(y.to_vec()?[side + 1], 0.5 * (c * r * r) as f32);
    Ok(())
}
