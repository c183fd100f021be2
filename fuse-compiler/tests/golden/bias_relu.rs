#[doc = " `bias_relu`, g0 sweep0"]
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
fn g0_sweep0_body<const F: bool>(len: usize, x: &[f32], bias: &[f32], slope: f32, x5_out: &mut [f32]) {
    let x = &x[..len];
    let bias = &bias[..len];
    let x5_out = &mut x5_out[..len];
    let mut start = 0;
    while start < len {
        let n = ::core::cmp::Ord::min(len - start, 64);
        let x = &x[start..][..n];
        let bias = &bias[start..][..n];
        let x5_out = &mut x5_out[start..][..n];
        if F {
            ::fuse::__private::reduce::ask_ahead::<64, _>(x);
            ::fuse::__private::reduce::ask_ahead::<64, _>(bias);
            ::fuse::__private::reduce::ask_ahead::<64, _>(x5_out);
        }
        for j in 0..n {
            let i = start + j;
            let x = x[j];
            let bias = bias[j];
            let x2: f32 = x + bias;
            let x4: f32 = x2 * slope;
            let x5: f32 = ::fuse::__private::math::max_rust(x2, x4);
            x5_out[j] = x5;
        }
        start += 64;
    }
}
fn g0_sweep0_baseline(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        g0_sweep0_body::<{ cfg!(target_arch = "aarch64") }>(
            row.len(),
            row.input(0),
            row.input(1),
            row.scalar(0),
            row.output(0),
        );
    }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn g0_sweep0_avx2(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        g0_sweep0_body::<true>(row.len(), row.input(0), row.input(1), row.scalar(0), row.output(0));
    }
}
#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn g0_sweep0_avx512(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        g0_sweep0_body::<true>(row.len(), row.input(0), row.input(1), row.scalar(0), row.output(0));
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
