//! Ops, composites and combiners of other blocks, modules and crates: one launch, and the numbers of the same thing written
//! in plain Rust.

use fuse::{Device, Tensor, fuse};

/// A row of values around zero.
fn row() -> Vec<f32> {
    (0..23).map(|k| (k as f32 - 11.0) * 0.37).collect()
}

fn tensor(values: &[f32]) -> Tensor<f32, 1> {
    Tensor::from_vec(values.to_vec(), [values.len()], &Device::cpu()).expect("there is memory")
}

/// Asserts that a kernel of one row is one launch, and gives within rounding what `want` gives of each element.
macro_rules! check {
    ($($kernel:ident)::+, $want:expr) => {{
        assert_eq!($($kernel)::+::plan().launch_count(), 1, "{}", $($kernel)::+::plan());
        let got = $($kernel)::+(&tensor(&row())).expect("the kernel runs").to_vec().expect("values");
        let want: Vec<f32> = row().into_iter().map($want).collect();
        approx::assert_relative_eq!(got[..], want[..], max_relative = 1e-6, epsilon = 1e-6);
        println!("{}", $($kernel)::+::verify().run().expect("as its reference"));
    }};
}

fn squareplus(x: f32) -> f32 {
    0.5 * (x + (x * x + 4.0).sqrt())
}

/// By which paths an op of another crate is called.
mod paths {
    mod by_path {
        fuse::fuse! {
            #[kernel]
            pub(super) fn ramp<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { ::example_ops::squareplus(x * 2.0) + 1.0 }
        }
    }

    mod by_use {
        use example_ops::squareplus;
        fuse::fuse! {
            #[kernel]
            pub(super) fn ramp<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { squareplus(x * 2.0) + 1.0 }
        }
    }

    mod by_renamed_use {
        use example_ops::squareplus as above;
        fuse::fuse! {
            #[kernel]
            pub(super) fn ramp<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { above(x * 2.0) + 1.0 }
        }
    }

    mod by_glob_of_reexports {
        use example_ops::prelude::*;
        fuse::fuse! {
            #[kernel]
            pub(super) fn ramp<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { soft_ramp(x * 2.0) + 1.0 }
        }
    }

    mod by_use_in_the_block {
        fuse::fuse! {
            // The prelude's `gelu` is not meant then.
            use example_ops::squareplus as gelu;
            use example_ops::{curves::*, prelude::soft_ramp};

            #[op]
            fn both(x: f32) -> f32 { gelu(x) * 0.5 + soft_ramp(x) * 0.5 + smooth_step(x) - smooth_step(x) }

            #[kernel]
            pub(super) fn ramp<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { both(x * 2.0) + 1.0 }
        }

        pub(super) fn host(x: f32) -> f32 {
            both(2.0 * x) + 1.0
        }
    }

    mod by_attribute {
        use crate::reexported as other;
        #[fuse::kernel]
        pub(super) fn ramp<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
            other::deeper::name(x * 2.0) + 1.0
        }
    }

    mod made_by_a_macro {
        macro_rules! ramp {
            ($name:ident, $op:path, $factor:literal) => {
                fuse::fuse! {
                    #[kernel]
                    pub(super) fn $name<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { $op(x * $factor) + 1.0 }
                }
            };
        }
        ramp!(ramp, example_ops::squareplus, 2.0);
    }

    #[test]
    fn every_path_to_an_op_of_a_crate() {
        use super::*;
        let want = |x: f32| super::squareplus(2.0 * x) + 1.0;
        check!(by_path::ramp, want);
        check!(by_use::ramp, want);
        check!(by_renamed_use::ramp, want);
        check!(by_glob_of_reexports::ramp, want);
        check!(by_use_in_the_block::ramp, want);
        check!(by_use_in_the_block::ramp, by_use_in_the_block::host);
        check!(by_attribute::ramp, want);
        check!(made_by_a_macro::ramp, want);
    }

    #[test]
    fn a_block_in_a_function() {
        use super::*;
        use example_ops::prelude::*;
        fuse! {
            #[kernel]
            fn ramp<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { soft_ramp(x) - squareplus_of_the_function(x) }
        }
        use example_ops::squareplus as squareplus_of_the_function;
        check!(ramp, |_| 0.0);
    }
}

mod reexported {
    pub(crate) mod deeper {
        pub(crate) use example_ops::squareplus as name;
    }
}

/// Other blocks and modules of this crate, before and after those that call them.
mod inside {
    fuse::fuse! {
        #[kernel]
        pub(super) fn later<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
            super::inside::defined_later::twice(x) + crate::inside::defined_later::deep::thrice(x)
        }

        /// The block's own goes before the prelude's, here and nowhere else.
        #[op]
        fn silu(x: f32) -> f32 { x * 100.0 }

        /// Its helper is called like one of the caller's.
        #[op]
        fn helper(x: f32) -> f32 { x - 1000.0 }

        /// Its constant too.
        const FACTOR: f32 = 5.0;

        #[kernel]
        pub(super) fn names_stay_apart<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
            silu(x) + helper(x) * FACTOR + defined_later::with_names(x)
        }
    }

    pub(crate) mod defined_later {
        fuse::fuse! {
            const FACTOR: f32 = 3.0;

            #[op]
            fn helper(x: f32) -> f32 { silu(x) * FACTOR }

            #[op]
            pub(super) fn with_names(x: f32) -> f32 { helper(x) + FACTOR }

            #[op]
            pub(crate) fn twice(x: f32) -> f32 { x + x }
        }

        pub(crate) mod deep {
            #[fuse::op]
            pub(in crate::inside) fn thrice(x: f32) -> f32 {
                super::twice(x) + x
            }
        }
    }

    /// Private, and under an attribute: what stands in this module can call it.
    #[fuse::op]
    fn quadruple(x: f32) -> f32 {
        defined_later::twice(defined_later::twice(x))
    }

    #[fuse::kernel]
    pub(super) fn by_attribute<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        quadruple(x) + eightfold(x)
    }

    #[fuse::op]
    fn eightfold(x: f32) -> f32 {
        quadruple(x) * 2.0
    }

    #[cfg(test)]
    #[fuse::op]
    fn chosen_by_cfg(x: f32) -> f32 {
        x + 1.0
    }

    #[fuse::op]
    #[cfg(not(test))]
    fn chosen_by_cfg(x: f32) -> f32 {
        x - 1.0
    }

    #[fuse::kernel]
    pub(super) fn under_cfg<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        chosen_by_cfg(x)
    }
}

#[test]
fn other_modules_of_the_crate() {
    check!(inside::later, |x| 5.0 * x);
    check!(inside::by_attribute, |x| 12.0 * x);
    check!(inside::under_cfg, |x| x + 1.0);
}

#[test]
fn an_import_sees_its_own_names_alone() {
    let silu = |x: f32| x / (1.0 + (-x).exp());
    check!(inside::names_stay_apart, |x| 100.0 * x + 5.0 * (x - 1000.0) + 3.0 * silu(x) + 3.0);
}

/// Composites and combiners, which bring axes, reductions and dtypes.
mod composites {
    use example_ops::prelude::{halfway, nearest, share, stretch};

    fuse::fuse! {
        /// Of this block, and used by the import's name for something else.
        #[op]
        fn smooth_step(x: f32) -> f32 { x - 7.0 }

        #[kernel(launches = 1)]
        pub(super) fn rows<M, N>(x: Tensor<f32, M, N>) -> (Tensor<f32, M, N>, Tensor<i64, M>) {
            let (_, place) = (x.abs(), index(N)).reduce(N, nearest);
            (share::<N>(smooth_step(x)) + stretch::<N>(x), place)
        }

        #[kernel(launches = 1, T = [f32, f64])]
        pub(super) fn between<T: Float, N>(a: Tensor<T, N>, b: Tensor<T, N>) -> Tensor<T, N> {
            halfway(a, b) + wide::activated(a)
        }
    }

    mod wide {
        /// In whatever float, with an op of the prelude that has a copy for each.
        #[fuse::composite]
        pub(super) fn activated<T: Float, N>(x: Tensor<T, N>) -> Tensor<T, N> {
            silu(x)
        }
    }
}

#[test]
fn composites_and_combiners() {
    use composites::{between, rows};
    let values: Vec<f32> = (0..30).map(|k| ((k * 7) % 30) as f32 * 0.25 - 3.0).collect();
    let x = Tensor::from_vec(values.clone(), [3, 10], &Device::cpu()).expect("a tensor");
    assert_eq!(rows::plan().launch_count(), 1);
    let (got, places) = rows(&x).expect("runs");
    let mut want = Vec::new();
    let mut nearest = Vec::new();
    for row in values.chunks(10) {
        let sum: f32 = row.iter().map(|x| x - 7.0).sum();
        let (low, high) = row.iter().fold((f32::MAX, f32::MIN), |(l, h), x| (l.min(*x), h.max(*x)));
        let step = |t: f32| t * t * (3.0 - 2.0 * t);
        let silu = |x: f32| x / (1.0 + (-x).exp());
        want.extend(row.iter().map(|x| (x - 7.0) / sum + step((x - low) / (high - low)) + silu(*x)));
        let least = row.iter().map(|x| x.abs()).fold(f32::MAX, f32::min);
        nearest.push(row.iter().position(|x| x.abs() == least).expect("there is one") as i64);
    }
    approx::assert_relative_eq!(
        got.to_vec().expect("values")[..],
        want[..],
        max_relative = 1e-5,
        epsilon = 1e-5
    );
    assert_eq!(places.to_vec().expect("values"), nearest);
    rows::verify().run().expect("as its reference");

    let wide = |x: f64| Tensor::from_vec(vec![x; 3], [3], &Device::cpu()).expect("a tensor");
    let got = between(&wide(1e-12), &wide(3.0)).expect("runs").item_at_start();
    let silu = 1e-12 / (1.0 + (-1e-12f64).exp());
    approx::assert_relative_eq!(got, 0.5 * (1e-12 + 3.0) + silu, max_relative = 1e-15);
    assert_eq!(between::plan::<f64>().launch_count(), 1);
}

/// The first element.
trait First {
    fn item_at_start(&self) -> f64;
}

impl First for Tensor<f64, 1> {
    fn item_at_start(&self) -> f64 {
        self.to_vec().expect("values")[0]
    }
}

/// As many imports as the default recursion limit of rustc allows.
mod many {
    macro_rules! add_ops {
        ($($name:ident)*) => {
            mod ops { $(#[fuse::op] pub(super) fn $name(x: f32) -> f32 { x + 1.0 })* }
            fuse::fuse! {
                #[kernel]
                pub(super) fn sum<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x $(+ ops::$name(x))* }
            }
        };
    }
    add_ops!(
        a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 b0 b1 b2 b3 b4 b5 b6 b7 b8 b9 c0 c1 c2 c3 c4 c5 c6 c7 c8 c9
        d0 d1 d2 d3 d4 d5 d6 d7 d8 d9 e0 e1 e2 e3 e4 e5 e6 e7 e8 e9 f0 f1 f2 f3 f4 f5 f6 f7 f8 f9
    );
}

#[test]
fn sixty_imports() {
    check!(many::sum, |x| 61.0 * x + 60.0);
}
