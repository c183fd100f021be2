//! Tensors as a user sees them: making, viewing, comparing, printing, and the exact words of errors.

use approx::{assert_abs_diff_eq, assert_relative_eq, assert_relative_ne, assert_ulps_eq};
use fuse_runtime::convert::F8E4M3;
use fuse_runtime::{Device, Element, Error, Tensor};
use half::f16;

fn cpu() -> Device {
    Device::cpu()
}

/// 0, 1, 2, … in that shape.
fn count<const R: usize>(shape: [usize; R]) -> Tensor<i32, R> {
    let n: usize = shape.iter().product();
    Tensor::from_vec((0..n as i32).collect(), shape, &cpu()).expect("as many elements as the shape")
}

/// The elements of a view by their definition: each position's offset.
fn by_definition<const R: usize>(base: &Tensor<i32, 1>, first: usize, view: &Tensor<i32, R>) -> Vec<i32> {
    let all = base.to_vec().expect("free");
    let n: usize = view.shape().iter().product();
    (0..n)
        .map(|k| {
            let (mut rest, mut offset) = (k, first as isize);
            for (&n, &s) in view.shape().iter().zip(&view.strides()).rev() {
                offset += (rest % n) as isize * s;
                rest /= n;
            }
            all[offset as usize]
        })
        .collect()
}

fn message<T>(result: Result<T, Error>) -> String {
    result.err().map_or_else(|| "no error".to_owned(), |e| e.to_string())
}

#[test]
fn constructors() -> Result<(), Error> {
    assert_eq!(Tensor::<f32, 2>::zeros([2, 3], &cpu())?.to_vec()?, [0.0; 6]);
    assert_eq!(Tensor::full(7u8, [5], &cpu())?.to_vec()?, [7; 5]);
    assert_eq!(
        Tensor::from_fn([2, 3], |[i, j]| 10 * i as i64 + j as i64, &cpu())?.to_vec()?,
        [0, 1, 2, 10, 11, 12]
    );
    assert!(Tensor::scalar(true, &cpu())?.item()?);
    assert_eq!(Tensor::from_slice(&[f16::ONE], [1], &cpu())?.item()?, f16::ONE);
    assert!(Tensor::from_fn([2, 0], |_| 1.0f64, &cpu())?.to_vec()?.is_empty());
    Ok(())
}

#[test]
fn views_read_the_right_elements() -> Result<(), Error> {
    let base = count([120]);
    let x = base.reshape([4, 5, 6])?;
    assert_eq!(x.to_vec()?, base.to_vec()?);
    let t = x.transpose(0, 2)?;
    assert_eq!((t.shape(), t.strides()), ([6, 5, 4], [1, 6, 30]));
    assert_eq!(t.to_vec()?, by_definition(&base, 0, &t));
    let p = x.permute([1, 2, 0])?;
    assert_eq!(p.shape(), [5, 6, 4]);
    assert_eq!(p.to_vec()?, by_definition(&base, 0, &p));
    let s = x.slice((1..3, .., 2..=4))?;
    assert_eq!(s.shape(), [2, 5, 3]);
    assert_eq!(s.to_vec()?, by_definition(&base, 32, &s));
    let again = s.transpose(0, 1)?.slice((4, .., 1..))?;
    assert_eq!(again.to_vec()?, [57, 58, 87, 88]);
    let steps = x.step_by(2, 4)?.step_by(0, 3)?;
    assert_eq!(steps.shape(), [2, 5, 2]);
    assert_eq!(steps.to_vec()?, by_definition(&base, 0, &steps));
    let rows = base.slice(0..6)?.broadcast_to([2, 6])?;
    assert_eq!(rows.to_vec()?, [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
    assert!(base.slice(3..3)?.to_vec()?.is_empty());
    assert!(x.slice((4.., 5.., 6..))?.to_vec()?.is_empty());
    Ok(())
}

#[test]
fn views_share_and_clones_do_not() -> Result<(), Error> {
    let x = count([2, 3]);
    let mut column = x.slice((.., 1))?;
    let copy = x.clone();
    column.copy_from_slice(&[70, 80])?;
    assert_eq!(x.to_vec()?, [0, 70, 2, 3, 80, 5]);
    assert_eq!(copy, count([2, 3]));
    assert_eq!(x.transpose(0, 1)?.clone().strides(), [2, 1]);
    assert_eq!(x.transpose(0, 1)?.to_device(&cpu())?.to_vec()?, [0, 3, 70, 80, 2, 5]);
    Ok(())
}

#[test]
fn contiguity() -> Result<(), Error> {
    let x = count([4, 6]);
    assert!(x.is_contiguous() && x.slice((1..3, ..))?.is_contiguous() && x.slice((2, 1..4))?.is_contiguous());
    assert!(!x.transpose(0, 1)?.is_contiguous() && !x.slice((.., 1..))?.is_contiguous());
    Ok(())
}

#[test]
fn comparisons_read_like_tests() -> Result<(), Error> {
    let y = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [2, 2], &cpu())?;
    let near = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.000001], [2, 2], &cpu())?;
    assert_relative_eq!(y, near, max_relative = 1e-5);
    assert_relative_eq!(y, [1.0, 2.0, 3.0, 4.000001], max_relative = 1e-5);
    assert_relative_eq!(y, vec![1.0, 2.0, 3.0, 4.000001], max_relative = 1e-5);
    assert_relative_eq!(y, &[1.0, 2.0, 3.0, 4.000001][..], max_relative = 1e-5);
    assert_relative_ne!(y, near, max_relative = 1e-9);
    // The order of elements decides for slices, the shape too for tensors.
    assert_relative_ne!(y.transpose(0, 1)?, [1.0, 2.0, 3.0, 4.0], max_relative = 1e-5);
    assert_abs_diff_eq!(y.transpose(0, 1)?, [1.0, 3.0, 2.0, 4.0], epsilon = 1e-6);
    assert_relative_ne!(y, near.slice((.., 0..1))?, max_relative = 1.0);
    assert_ulps_eq!(y, near, max_ulps = 4);
    let half = Tensor::from_fn([3], |[i]| f16::from_f32(0.1 * i as f32), &cpu())?;
    assert_relative_eq!(half, [0.0, 0.1, 0.2].map(f16::from_f32), max_relative = 1e-3);
    let eighth = Tensor::full(F8E4M3::from_f32(0.3), [2], &cpu())?;
    assert_abs_diff_eq!(eighth, [F8E4M3::from_f32(0.31); 2], epsilon = 0.05);
    assert_eq!(count([3]), [0, 1, 2]);
    let nan = Tensor::full(f32::NAN, [1], &cpu())?;
    assert_ne!(nan, nan);
    Ok(())
}

#[test]
fn debug_shows_the_shape_and_some_elements() -> Result<(), Error> {
    assert_eq!(format!("{:?}", count([2, 2]).transpose(0, 1)?), "Tensor<i32, 2>[2, 2] [0, 2, 1, 3]");
    assert_eq!(format!("{:?}", Tensor::scalar(0.5f32, &cpu())?), "Tensor<f32, 0>[] [0.5]");
    assert_eq!(format!("{:?}", count([0, 2])), "Tensor<i32, 2>[0, 2] []");
    let long = format!("{:?}", count([100]));
    assert!(long.ends_with("21, 22, 23, ..]"), "{long}");
    Ok(())
}

#[test]
fn errors_say_what_and_how_much() -> Result<(), Error> {
    let x = count([2, 3]);
    assert_eq!(
        message(Tensor::from_vec(vec![1.0f32; 5], [2, 3], &cpu())),
        "5 elements for a tensor of shape [2, 3], which has 6"
    );
    assert_eq!(message(x.reshape([7])), "6 elements for a tensor of shape [7], which has 7");
    assert_eq!(message(x.item()), "6 elements for a tensor of shape [], which has 1");
    assert_eq!(
        message(x.transpose(0, 1)?.reshape([6])),
        "a tensor of shape [3, 2] and strides [1, 3] has no view of shape [6]; its `clone()` has"
    );
    assert_eq!(message(x.broadcast_to([2, 4])), "a tensor of shape [2, 3] cannot be broadcast to [2, 4]");
    assert_eq!(message(x.broadcast_to([3])), "a tensor of shape [2, 3] cannot be broadcast to [3]");
    assert_eq!(
        message(Tensor::<f32, 2>::zeros([1 << 40, 1 << 40], &cpu())),
        "a tensor of shape [1099511627776, 1099511627776] has more elements than can be addressed"
    );
    assert_eq!(
        message(Tensor::<u8, 1>::zeros([1 << 60], &cpu())),
        "no memory for a tensor of 1152921504606846976 bytes, on cpu"
    );
    assert_eq!(
        message(x.broadcast_to([usize::MAX, 2, 3])),
        format!("a tensor of shape [{}, 2, 3] has more elements than can be addressed", usize::MAX)
    );
    Ok(())
}

#[test]
fn views_of_what_is_not_there_are_errors() {
    let x = count([2, 3]);
    let message = |view: Result<Tensor<i32, 2>, Error>| view.expect_err("there is no such view").to_string();
    assert_eq!(message(x.slice((.., 2..4))), "range 2..4 is not within axis 1, which has 3");
    assert_eq!(message(x.slice((2, ..))), "range 2..3 is not within axis 0, which has 2");
    assert_eq!(message(x.transpose(0, 2)), "a tensor of rank 2 has no axis 2");
    assert_eq!(message(x.permute([0, 0])), "[0, 0] does not name each of 2 axes once");
    assert_eq!(message(x.step_by(1, 0)), "a step of 0 along axis 1");
}

#[test]
fn memory_is_aligned_and_recycled_without_leaking_values() -> Result<(), Error> {
    for n in [1, 63, 1000, 1 << 19] {
        let dirty = Tensor::full(7u32, [n], &cpu())?;
        drop(dirty);
        assert!(Tensor::<u32, 1>::zeros([n], &cpu())?.to_vec()?.iter().all(|&x| x == 0));
    }
    Ok(())
}

#[test]
fn tensors_cross_threads() -> Result<(), Error> {
    let x = count([1000]);
    let sum = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| x.to_vec().map(|v| v.iter().map(|&k| i64::from(k)).sum::<i64>())))
            .collect();
        threads.into_iter().map(|t| t.join().expect("no panic")).collect::<Result<Vec<_>, _>>()
    })?;
    assert_eq!(sum, [499_500; 4]);
    assert_eq!(i32::DTYPE.name(), "i32");
    Ok(())
}
