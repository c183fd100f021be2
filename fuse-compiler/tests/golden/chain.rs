#[doc = " `bend`"]
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    dead_code,
    non_snake_case,
    unused_assignments,
    unused_braces,
    unused_mut,
    unused_parens,
    unused_variables,
    reason = "generated code"
)]
#[inline(always)]
fn f0_bend<const F: bool>(mut x: f32) -> f32 {
    let mut a: f32 = 0f32;
    a = (::fuse::__private::math::tanh::<F>(x)) + 1f32;
    let unused: f32 = ::fuse::__private::math::sin::<F>(x);
    a = (::fuse::__private::math::ln::<F>(a)) * x;
    a + 1f32
}
#[doc = " `chain`, g0 sweep0"]
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    dead_code,
    non_snake_case,
    unused_assignments,
    unused_braces,
    unused_mut,
    unused_parens,
    unused_variables,
    reason = "generated code"
)]
#[inline(always)]
fn g0_sweep0_body<const F: bool>(len: usize, x: &[f32], x1_out: &mut [f32]) {
    let x = &x[..len];
    let x1_out = &mut x1_out[..len];
    let mut x4_block = [<f32 as ::core::default::Default>::default(); 128];
    let mut start = 0;
    while start < len {
        let n = ::core::cmp::Ord::min(len - start, 128);
        let x = &x[start..][..n];
        let x1_out = &mut x1_out[start..][..n];
        if F {
            ::fuse::__private::reduce::ask_ahead::<128, _>(x);
            ::fuse::__private::reduce::ask_ahead::<128, _>(x1_out);
        }
        for j in 0..n {
            let i = start + j;
            let x = x[j];
            let x2: f32 = ::fuse::__private::math::tanh::<F>(x);
            let x4: f32 = x2 + 1f32;
            x4_block[j] = x4;
        }
        for j in 0..n {
            let i = start + j;
            let x = x[j];
            let x4 = x4_block[j];
            let x5: f32 = ::fuse::__private::math::ln::<F>(x4);
            let x6: f32 = x5 * x;
            let x7: f32 = x6 + 1f32;
            let x1: f32 = x7;
            x1_out[j] = x1;
        }
        start += 128;
    }
}
fn g0_sweep0_baseline(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        g0_sweep0_body::<{ cfg!(target_arch = "aarch64") }>(row.len(), row.input(0), row.output(0));
    }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn g0_sweep0_avx2(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        g0_sweep0_body::<true>(row.len(), row.input(0), row.output(0));
    }
}
#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn g0_sweep0_avx512(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        g0_sweep0_body::<true>(row.len(), row.input(0), row.output(0));
    }
}
pub static GROUPS: &[::fuse::__private::GroupFns] = &[::fuse::__private::GroupFns {
    stages: &[::fuse::__private::StageFns {
        baseline: g0_sweep0_baseline,
        #[cfg(target_arch = "x86_64")]
        avx2: g0_sweep0_avx2,
        #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
        avx512: g0_sweep0_avx512,
        #[cfg(all(target_arch = "x86_64", debug_assertions))]
        avx512: g0_sweep0_avx2,
    }],
    combiners: &[],
    rows: ::core::option::Option::None,
}];
