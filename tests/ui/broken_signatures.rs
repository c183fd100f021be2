// messages: unknown_dtype, kernel_argument_expected, syntax, unknown_name

use fuse::{Error, Tensor, fuse};

fuse! {
    #[kernel]
    pub fn no_dtype<N>(x: Tensor<float, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel = 1]
    pub fn no_parentheses<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    #[kernel]
    pub fn no_syntax<N>(x Tensor<f32, N>) -> Tensor<f32, N> { x * 2.0 }

    fn half<N>(x: Tensor<half, N>) -> Tensor<f32, N> { x * 0.5 }

    #[kernel]
    pub fn caller_in_the_block<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { half(x) }

    #[kernel]
    pub fn still_checked<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x + y }
}

/// Names of kernels that cannot be read stay known: a caller is not wrong too.
pub fn caller(x: &Tensor<f32, 1>) -> Result<(), Error> {
    let y = no_dtype(x)?;
    no_parentheses::into(&y, &mut no_syntax(&y)?)?;
    println!("{}", no_syntax::plan());
    Ok(())
}

fn main() {}
