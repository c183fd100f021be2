// messages: literal_of_other_kind, unknown_tensor_method, unknown_name, axes_differ

use fuse::{Error, Tensor, fuse};

fuse! {
    #[kernel]
    fn wrong<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let a = x + 1;
        let b = x.nonsense();
        a * b + y
    }

    #[kernel]
    fn reduced<M, N>(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { x.sum(N) }

    #[kernel]
    fn right<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }
}

/// Kernels with errors keep their signatures: a caller is not wrong too.
pub fn caller(x: &Tensor<f32, 1>, y: &Tensor<f32, 2>) -> Result<(), Error> {
    let z = right(&wrong(x)?)?;
    reduced::into(y, &mut reduced(y)?)?;
    println!("{z:?} {}", wrong::plan());
    Ok(())
}

fn main() {}
