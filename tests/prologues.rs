//! What contractions read: concatenations without copies, and what is left in memory with its reason.

#[path = "support/devices.rs"]
mod devices;
#[path = "support/golden.rs"]
mod golden;
#[path = "support/numbers.rs"]
mod numbers;

use devices::{device, on_every_device};
use fuse::{Error, Tensor, fuse};
use numbers::values;

fuse! {
    /// Two inputs side by side, times weights.
    #[kernel(launches = 1, assume(M = 512, N = 256, Q = 512, K = 1024))]
    pub fn joined<M, N, Q, P, K>(
        a: Tensor<f32, M, N>, b: Tensor<f32, M, Q>, w: Tensor<f32, P, K>, bias: Tensor<f32, K>,
    ) -> Tensor<f32, M, K> {
        relu(concat(P, (a, N), (b, Q)).dot(w, P) + bias)
    }

    /// A norm of rows before a product: the norm needs the whole row.
    #[kernel(launches = 2, assume(M = 512, E = 1024, K = 1024))]
    pub fn normed<M, E, K>(x: Tensor<f32, M, E>, g: Tensor<f32, E>, w: Tensor<f32, E, K>) -> Tensor<f32, M, K> {
        let scale = (x.square().mean(E) + 1e-6).rsqrt();
        (x * scale * g).dot(w, E)
    }

    /// A softmax over the columns of a product.
    #[kernel(launches = 2, assume(M = 512, E = 1024, K = 64))]
    pub fn likely<M, E, K>(x: Tensor<f32, M, E>, w: Tensor<f32, E, K>, b: Tensor<f32, K>) -> Tensor<f32, M, K> {
        (x.dot(w, E) + b).softmax(K)
    }
}

golden::plans! {
    "prologues",
    joined: 1,
    normed: 2,
    likely: 2,
}

/// A tensor on the device that the test runs on.
fn place<const R: usize>(data: &[f32], shape: [usize; R]) -> Result<Tensor<f32, R>, Error> {
    Tensor::from_vec(data.to_vec(), shape, &device())
}

#[test]
fn concatenations_are_read_where_they_lie() {
    let plan = joined::plan().to_string();
    assert!(plan.contains("reads  a[") && plan.contains("reads  b[") && !plan.contains("temp"), "{plan}");
}

/// Both are two launches: a refusal says why, with what it costs.
#[test]
fn what_stays_in_memory_has_its_reason() {
    for plan in [normed::plan(), likely::plan()] {
        assert_eq!(plan.launch_count(), 2, "{plan}");
        let refused: Vec<_> = plan.decisions.iter().filter(|d| d.refusal.is_some()).collect();
        assert!(!refused.is_empty(), "{plan}");
        for decision in refused {
            assert!(!decision.reason.is_empty(), "{plan}");
            assert!(decision.seconds.0 > 0.0 || decision.seconds.1 > 0.0, "{plan}");
        }
    }
}

on_every_device! { concatenations_are_multiplied }

#[test]
fn concatenations_are_multiplied() -> Result<(), Error> {
    for (m, n, q, k) in [(1, 1, 1, 1), (5, 3, 0, 7), (33, 17, 40, 70), (130, 64, 65, 24)] {
        let (a, b, w, bias) = (values(m * n, 1), values(m * q, 2), values((n + q) * k, 3), values(k, 4));
        let got =
            joined(&place(&a, [m, n])?, &place(&b, [m, q])?, &place(&w, [n + q, k])?, &place(&bias, [k])?)?;
        for (at, got) in got.to_vec()?.into_iter().enumerate() {
            let (row, column) = (at / k, at % k);
            let (mut sum, mut magnitude) = (f64::from(bias[column]), f64::from(bias[column].abs()));
            for p in 0..n + q {
                let x = if p < n { a[row * n + p] } else { b[row * q + p - n] };
                let product = f64::from(x) * f64::from(w[p * k + column]);
                (sum, magnitude) = (sum + product, magnitude + product.abs());
            }
            let bound = 8.0 * f64::from(f32::EPSILON) * magnitude * ((n + q) as f64).sqrt().max(1.0);
            let want = sum.max(0.0);
            assert!((f64::from(got) - want).abs() <= bound, "{m}x({n}+{q})x{k} at {at}: {got}, not {want}");
        }
    }
    Ok(())
}
