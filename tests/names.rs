//! Names that mean something elsewhere: types, keywords, and what generated code uses for itself.

#![allow(non_snake_case, non_camel_case_types, reason = "names of every kind are tried")]

use fuse::{Device, Error, Tensor, fuse};

fn cpu<const R: usize>(data: Vec<f32>, shape: [usize; R]) -> Result<Tensor<f32, R>, Error> {
    Tensor::from_vec(data, shape, &Device::cpu())
}

mod two_blocks {
    fuse::fuse! {
        #[kernel]
        pub(crate) fn first<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { gelu(x) + silu(x) }
    }
    fuse::fuse! {
        #[op]
        fn twice(x: f32) -> f32 { 2.0 * gelu(x) }

        #[kernel]
        pub(crate) fn second<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { twice(x) + 2.0 * silu(x) }
    }
}

#[test]
fn two_blocks_of_a_module_share_ops_of_the_prelude() -> Result<(), Error> {
    let x = cpu(vec![-1.0, 0.5, 2.0], [3])?;
    let (first, second) = (two_blocks::first(&x)?.to_vec()?, two_blocks::second(&x)?.to_vec()?);
    assert!(first.iter().zip(&second).all(|(a, b)| (2.0 * a - b).abs() < 1e-6), "{first:?} {second:?}");
    Ok(())
}

fuse! {
    #[op]
    fn f32_of(F: f32, len: f32, r#type: f32, f0_f32_of: f32) -> f32 {
        let i = F + len;
        let fault = i * r#type;
        fault - f0_f32_of
    }

    #[kernel]
    fn r#match<N>(f32: Tensor<f32, N>, fuse: Tensor<f32, N>, r#type: Tensor<f32, N>, t: f32) -> Tensor<f32, N> {
        let r#fn = f32 + fuse;
        f32_of(r#fn, fuse, r#type, t)
    }

    /// The names of generated code, as parameters, values and axes.
    #[kernel]
    fn plan<len, i, F, Vec, Option, String>(
        x: Tensor<f32, len, i>,
        F_out: Tensor<f32, F>,
        f0_f32_of: Tensor<f32, len, i>,
        KERNEL: Tensor<f32, Vec, Option, String>,
        result: f32,
        start: f32,
        n: f32,
        j: f32,
        first_fault_0: f32,
    ) -> (Tensor<f32, len, i>, Tensor<f32, Vec, String>, Tensor<f32>) {
        let args = x * start + n * j;
        let value0 = f32_of(args, result, first_fault_0, f0_f32_of);
        (value0, KERNEL.sum(Option) * result, F_out.sum(F))
    }

    #[kernel]
    fn into<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x + 1.0 }

    #[kernel]
    fn verify<N>(into: Tensor<f32, N>, program: Tensor<f32, N>) -> Tensor<f32, N> { into + program }

    #[kernel]
    fn of_nothing<const N: usize = 4>() -> (Tensor<i64, N>, Tensor<f32>) { (index(N) * 2, 1.5) }
}

#[test]
fn parameters_are_named_like_types_keywords_and_crates() -> Result<(), Error> {
    let (a, b) = (cpu(vec![1.0, 2.0], [2])?, cpu(vec![10.0, 20.0], [2])?);
    assert_eq!(r#match(&a, &b, &a, 0.5)?.to_vec()?, [20.5, 83.5]);
    r#match::into(&a, &b, &a, 0.5, &mut cpu(vec![0.0, 0.0], [2])?)?;
    r#match::verify().run()?;
    assert_eq!(f32_of(1.0, 2.0, 3.0, 4.0), 5.0);
    Ok(())
}

#[test]
fn names_of_generated_code_are_the_user_s_too() -> Result<(), Error> {
    let (x, f) = (cpu(vec![1.0, 2.0], [1, 2])?, cpu(vec![1.0, 2.0, 3.0], [3])?);
    let k = cpu(vec![1.0, 2.0], [1, 2, 1])?;
    let (a, b, c) = plan(&x, &f, &x, &k, 2.0, 3.0, 4.0, 5.0, 6.0)?;
    assert_eq!((a.to_vec()?, b.to_vec()?, c.to_vec()?), (vec![149.0, 166.0], vec![6.0], vec![6.0]));
    plan::verify().run()?;
    assert_eq!(plan::plan().launches, plan::program().plan.launches);
    assert_eq!(into(&f)?.to_vec()?, [2.0, 3.0, 4.0]);
    into::into(&f, &mut cpu(vec![0.0; 3], [3])?)?;
    assert_eq!(verify(&f, &f)?.to_vec()?, [2.0, 4.0, 6.0]);
    verify::verify().run()?;
    Ok(())
}

#[test]
fn a_kernel_without_parameters() -> Result<(), Error> {
    let (positions, number) = of_nothing()?;
    assert_eq!((positions.to_vec()?, number.to_vec()?), (vec![0, 2, 4, 6], vec![1.5]));
    of_nothing::verify().run()?;
    Ok(())
}
