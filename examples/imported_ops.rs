//! A kernel of ops that another crate defines: `examples/ops` is that crate. They are fused as if they stood here.
//!
//! ```text
//! cargo run --release --example imported_ops
//! ```

#![allow(clippy::print_stdout, reason = "a program that speaks to its user")]

use example_ops::prelude::*;
use fuse::{Device, Error, Tensor};

/// A row through an activation and a curve of `example_ops`, and the place that is nearest to `at`.
#[fuse::kernel(launches = 1)]
fn develop_rows<M, N>(
    x: Tensor<f32, M, N>,
    b: Tensor<f32, N>,
    at: f32,
) -> (Tensor<f32, M, N>, Tensor<i64, M>) {
    let ramp = soft_ramp(x + b);
    let (_, place) = ((ramp - at).abs(), index(N)).reduce(N, nearest);
    (share::<N>(smooth_step(ramp)), place)
}

fn main() -> Result<(), Error> {
    let device = Device::cpu();
    let x = Tensor::from_vec((0..12).map(|i| 0.3 * i as f32 - 2.0).collect(), [3, 4], &device)?;
    let (shares, places) = develop_rows(&x, &Tensor::zeros([4], &device)?, 0.5)?;
    println!("shares {:.3?}\nnearest to 0.5 at {:?}", shares.to_vec()?, places.to_vec()?);
    println!("{}", develop_rows::plan());
    println!("{}", develop_rows::verify().run()?);
    Ok(())
}
