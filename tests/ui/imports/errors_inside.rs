// messages: literal_of_other_kind, too_many_launches, mismatched_operands

use fuse::fuse;

mod ops {
    fuse::fuse! {
        #[op]
        pub(crate) fn with_an_error(x: f32) -> f32 { x + 1 }

        pub(crate) fn doubled<T: Number, N>(x: Tensor<T, N>) -> Tensor<T, N> { x * 2.0 }
    }

    #[fuse::composite]
    pub(crate) fn tripled<T: Number, N>(x: Tensor<T, N>) -> Tensor<T, N> { x * 3.0 }
}

// The error is reported in the op, and not again here.
fuse! {
    #[kernel]
    fn silent<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { ops::with_an_error(x) + ops::doubled(x) }
}

fuse! {
    #[kernel]
    fn integers<N>(x: Tensor<i32, N>) -> Tensor<i32, N> { example_ops::halfway(x, x) }
}

#[fuse::kernel]
fn in_this_crate<N>(x: Tensor<i32, N>) -> Tensor<i32, N> { ops::tripled(x) }

fuse! {
    #[kernel(launches = 1)]
    fn two_launches<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { example_ops::kept(x) }
}

fn main() {
    // Kernels with errors keep their signatures.
    let x = fuse::Tensor::full(1, [2], &fuse::Device::cpu()).unwrap();
    let _ = integers(&x).and_then(|y| in_this_crate(&y));
}
