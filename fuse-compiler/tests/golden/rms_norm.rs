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
fn g0_sweep0_body<const F: bool>(len: usize, x: &[f32], x3_lanes: &mut [f32]) {
    let x = &x[..len];
    let mut start = 0;
    #[cfg(not(debug_assertions))]
    if F && x3_lanes.len() == 64 {
        let mut own_x3_lanes: [f32; 64] = *::fuse::__private::reduce::block(x3_lanes, 0);
        while len - start >= 64 {
            let n = 64;
            let x = ::fuse::__private::reduce::block(x, start);
            ::fuse::__private::reduce::ask_ahead::<64, _>(x);
            let x3_lanes = &mut own_x3_lanes;
            for j in 0..n {
                let i = start + j;
                let x = x[j];
                let x1: f32 = x;
                let x2: f32 = x1 * x1;
                x3_lanes[j] =
                    <::fuse::__private::reduce::Sum as ::fuse::__private::reduce::Combine<_>>::combine(
                        x3_lanes[j],
                        x2,
                    );
            }
            start += 64;
        }
        *::fuse::__private::reduce::block_mut(x3_lanes, 0) = own_x3_lanes;
    }
    while start < len {
        let n = ::core::cmp::Ord::min(len - start, 64);
        let x = &x[start..][..n];
        let at = if x3_lanes.len() > 64 { start } else { 0 };
        let x3_lanes = &mut x3_lanes[at..][..n];
        for j in 0..n {
            let i = start + j;
            let x = x[j];
            let x1: f32 = x;
            let x2: f32 = x1 * x1;
            x3_lanes[j] = <::fuse::__private::reduce::Sum as ::fuse::__private::reduce::Combine<_>>::combine(
                x3_lanes[j],
                x2,
            );
        }
        start += 64;
    }
}
fn g0_sweep0_baseline(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        g0_sweep0_body::<{ cfg!(target_arch = "aarch64") }>(row.len(), row.input(0), row.lanes(0));
    }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn g0_sweep0_avx2(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        g0_sweep0_body::<true>(row.len(), row.input(0), row.lanes(0));
    }
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
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        g0_epilogue0_body::<{ cfg!(target_arch = "aarch64") }>(
            row.len(),
            row.input(0),
            row.scalar(0),
            row.output(0),
        );
    }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn g0_epilogue0_avx2(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        g0_epilogue0_body::<true>(row.len(), row.input(0), row.scalar(0), row.output(0));
    }
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
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        g0_sweep1_body::<{ cfg!(target_arch = "aarch64") }>(
            row.len(),
            row.input(0),
            row.input(1),
            row.output(0),
        );
    }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn g0_sweep1_avx2(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        g0_sweep1_body::<true>(row.len(), row.input(0), row.input(1), row.output(0));
    }
}
#[doc = " `rms_norm`, g0: all passes over a row"]
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
fn g0_rows_body<const F: bool>(len: usize, x: &[f32], x4: i64, x9_out: &mut [f32]) {
    let x = &x[..len];
    let x9_out = &mut x9_out[..len];
    let x5: f32 = ::fuse::__private::convert::cast::<f32, _>(x4);
    let mut x3_tree = ::fuse::__private::reduce::Tree::<f32, ::fuse::__private::reduce::Sum>::new();
    let mut first = 0;
    while first < len {
        let size = ::core::cmp::Ord::min(len - first, 4096);
        let x = &x[first..][..size];
        {
            let len = size;
            let x3_lanes = x3_tree.lanes();
            let mut start = 0;
            #[cfg(not(debug_assertions))]
            if F && x3_lanes.len() == 64 {
                let mut own_x3_lanes: [f32; 64] = *::fuse::__private::reduce::block(x3_lanes, 0);
                while len - start >= 64 {
                    let n = 64;
                    let x = ::fuse::__private::reduce::block(x, start);
                    ::fuse::__private::reduce::ask_ahead::<64, _>(x);
                    let x3_lanes = &mut own_x3_lanes;
                    for j in 0..n {
                        let i = start + j;
                        let x = x[j];
                        let x1: f32 = x;
                        let x2: f32 = x1 * x1;
                        x3_lanes [j] = < :: fuse :: __private :: reduce :: Sum as :: fuse :: __private :: reduce :: Combine < _ >> :: combine (x3_lanes [j] , x2) ;
                    }
                    start += 64;
                }
                *::fuse::__private::reduce::block_mut(x3_lanes, 0) = own_x3_lanes;
            }
            while start < len {
                let n = ::core::cmp::Ord::min(len - start, 64);
                let x = &x[start..][..n];
                let at = if x3_lanes.len() > 64 { start } else { 0 };
                let x3_lanes = &mut x3_lanes[at..][..n];
                for j in 0..n {
                    let i = start + j;
                    let x = x[j];
                    let x1: f32 = x;
                    let x2: f32 = x1 * x1;
                    x3_lanes[j] =
                        <::fuse::__private::reduce::Sum as ::fuse::__private::reduce::Combine<_>>::combine(
                            x3_lanes[j],
                            x2,
                        );
                }
                start += 64;
            }
        }
        x3_tree.close_chunk();
        first += 4096;
    }
    let x3: f32 = x3_tree.finish();
    let x6: f32 = x3 / x5;
    let x7: f32 = 1.0 / f32::sqrt(x6);
    {
        let x9_out = &mut *x9_out;
        let mut start = 0;
        while start < len {
            let n = ::core::cmp::Ord::min(len - start, 64);
            let x = &x[start..][..n];
            let x9_out = &mut x9_out[start..][..n];
            if F {
                ::fuse::__private::reduce::ask_ahead::<64, _>(x9_out);
            }
            for j in 0..n {
                let i = start + j;
                let x = x[j];
                let x1: f32 = x;
                let x8: f32 = x1 * x7;
                let x9: f32 = x8;
                x9_out[j] = x9;
            }
            start += 64;
        }
    }
}
#[cfg(not(target_arch = "x86_64"))]
fn g0_rows_baseline(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        g0_rows_body::<{ cfg!(target_arch = "aarch64") }>(
            row.len(),
            row.input(0),
            row.scalar(0),
            row.output(0),
        );
    }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn g0_rows_avx2(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        g0_rows_body::<true>(row.len(), row.input(0), row.scalar(0), row.output(0));
    }
}
#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn g0_rows_avx512(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        g0_rows_body::<true>(row.len(), row.input(0), row.scalar(0), row.output(0));
    }
}
pub static GROUPS: &[::fuse::__private::GroupFns] = &[::fuse::__private::GroupFns {
    stages: &[
        ::fuse::__private::StageFns {
            baseline: g0_sweep0_baseline,
            #[cfg(target_arch = "x86_64")]
            avx2: g0_sweep0_avx2,
            #[cfg(target_arch = "x86_64")]
            avx512: g0_sweep0_avx2,
        },
        ::fuse::__private::StageFns {
            baseline: g0_epilogue0_baseline,
            #[cfg(target_arch = "x86_64")]
            avx2: g0_epilogue0_avx2,
            #[cfg(target_arch = "x86_64")]
            avx512: g0_epilogue0_avx2,
        },
        ::fuse::__private::StageFns {
            baseline: g0_sweep1_baseline,
            #[cfg(target_arch = "x86_64")]
            avx2: g0_sweep1_avx2,
            #[cfg(target_arch = "x86_64")]
            avx512: g0_sweep1_avx2,
        },
    ],
    combiners: &[],
    rows: ::core::option::Option::Some(::fuse::__private::RowFns {
        #[cfg(not(target_arch = "x86_64"))]
        baseline: g0_rows_baseline,
        #[cfg(target_arch = "x86_64")]
        avx2: g0_rows_avx2,
        #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
        avx512: g0_rows_avx512,
        #[cfg(all(target_arch = "x86_64", debug_assertions))]
        avx512: g0_rows_avx2,
    }),
}];
