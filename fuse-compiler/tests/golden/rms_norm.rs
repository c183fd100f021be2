#[doc = " `rms_norm`, g0 sweep0"]
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
fn g0_sweep0_body<const F: bool>(len: usize, x: &[f32], x2_out: &mut [f32]) {
    let x = &x[..len];
    let x2_out = &mut x2_out[..len];
    for i in 0..len {
        let x = x[i];
        let x1: f32 = x;
        let x2: f32 = x1 * x1;
        x2_out[i] = x2;
    }
}
fn g0_sweep0_baseline(t: &mut ::fuse::__private::Tile<'_>) {
    g0_sweep0_body::<{ cfg!(target_arch = "aarch64") }>(t.len(), t.input(0), t.output(0));
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn g0_sweep0_avx2(t: &mut ::fuse::__private::Tile<'_>) {
    g0_sweep0_body::<true>(t.len(), t.input(0), t.output(0));
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn g0_sweep0_avx512(t: &mut ::fuse::__private::Tile<'_>) {
    g0_sweep0_body::<true>(t.len(), t.input(0), t.output(0));
}
#[doc = " `rms_norm`, g0 epilogue0"]
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
fn g0_epilogue0_body<const F: bool>(len: usize, x3: &[f32], x4: i64, x7_out: &mut [f32]) {
    let x3 = &x3[..len];
    let x7_out = &mut x7_out[..len];
    let x5: f32 = ::fuse::__private::convert::cast::<f32, _>(x4);
    for i in 0..len {
        let x3 = x3[i];
        let x6: f32 = x3 / x5;
        let x7: f32 = 1.0 / f32::sqrt(x6);
        x7_out[i] = x7;
    }
}
fn g0_epilogue0_baseline(t: &mut ::fuse::__private::Tile<'_>) {
    g0_epilogue0_body::<{ cfg!(target_arch = "aarch64") }>(t.len(), t.input(0), t.scalar(0), t.output(0));
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn g0_epilogue0_avx2(t: &mut ::fuse::__private::Tile<'_>) {
    g0_epilogue0_body::<true>(t.len(), t.input(0), t.scalar(0), t.output(0));
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn g0_epilogue0_avx512(t: &mut ::fuse::__private::Tile<'_>) {
    g0_epilogue0_body::<true>(t.len(), t.input(0), t.scalar(0), t.output(0));
}
#[doc = " `rms_norm`, g0 sweep1"]
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
fn g0_sweep1_body<const F: bool>(len: usize, x: &[f32], x7: &[f32], x9_out: &mut [f32]) {
    let x = &x[..len];
    let x7 = &x7[..len];
    let x9_out = &mut x9_out[..len];
    for i in 0..len {
        let x = x[i];
        let x7 = x7[i];
        let x1: f32 = x;
        let x8: f32 = x1 * x7;
        let x9: f32 = x8;
        x9_out[i] = x9;
    }
}
fn g0_sweep1_baseline(t: &mut ::fuse::__private::Tile<'_>) {
    g0_sweep1_body::<{ cfg!(target_arch = "aarch64") }>(t.len(), t.input(0), t.input(1), t.output(0));
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn g0_sweep1_avx2(t: &mut ::fuse::__private::Tile<'_>) {
    g0_sweep1_body::<true>(t.len(), t.input(0), t.input(1), t.output(0));
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn g0_sweep1_avx512(t: &mut ::fuse::__private::Tile<'_>) {
    g0_sweep1_body::<true>(t.len(), t.input(0), t.input(1), t.output(0));
}
pub static GROUPS: &[::fuse::__private::GroupFns] = &[::fuse::__private::GroupFns {
    stages: &[
        ::fuse::__private::StageFns {
            baseline: g0_sweep0_baseline,
            #[cfg(target_arch = "x86_64")]
            avx2: g0_sweep0_avx2,
            #[cfg(target_arch = "x86_64")]
            avx512: g0_sweep0_avx512,
        },
        ::fuse::__private::StageFns {
            baseline: g0_epilogue0_baseline,
            #[cfg(target_arch = "x86_64")]
            avx2: g0_epilogue0_avx2,
            #[cfg(target_arch = "x86_64")]
            avx512: g0_epilogue0_avx512,
        },
        ::fuse::__private::StageFns {
            baseline: g0_sweep1_baseline,
            #[cfg(target_arch = "x86_64")]
            avx2: g0_sweep1_avx2,
            #[cfg(target_arch = "x86_64")]
            avx512: g0_sweep1_avx512,
        },
    ],
    combiners: &[],
}];
