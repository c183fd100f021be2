#[doc = " `quotient`"]
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
fn f0_quotient<const F: bool>(mut a: i32, mut r#type: i32, fault: &mut bool) -> i32 {
    let mut result: i32 = 0i32;
    if a > r#type {
        result = {
            let (a, i) = (a, r#type);
            *fault |= i == 0;
            ::fuse::__private::integer::div(a, i)
        };
    } else {
        result = i32::MIN;
    }
    result
}
#[doc = " `larger`"]
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
fn f1_larger<const F: bool>(mut a: i32, mut b: i32) -> i32 {
    ::core::cmp::Ord::max(a, b)
}
#[doc = " `quotients`, g0 sweep0"]
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
fn g0_sweep0_body<const F: bool>(len: usize, x: &[i32], y: &[i32], x2_out: &mut [i32]) -> [usize; 1usize] {
    let x = &x[..len];
    let y = &y[..len];
    let x2_out = &mut x2_out[..len];
    let mut first_fault_2 = usize::MAX;
    for i in 0..len {
        let x = x[i];
        let y = y[i];
        let mut fault = false;
        let x2: i32 = f0_quotient::<F>(x, y, &mut fault);
        first_fault_2 = ::core::cmp::Ord::min(first_fault_2, if fault { i } else { usize::MAX });
        x2_out[i] = x2;
    }
    [first_fault_2]
}
fn g0_sweep0_baseline(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        let faults = g0_sweep0_body::<{ cfg!(target_arch = "aarch64") }>(
            row.len(),
            row.input(0),
            row.input(1),
            row.output(0),
        );
        row.report_faults(&faults);
    }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn g0_sweep0_avx2(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        let faults = g0_sweep0_body::<true>(row.len(), row.input(0), row.input(1), row.output(0));
        row.report_faults(&faults);
    }
}
#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn g0_sweep0_avx512(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        let faults = g0_sweep0_body::<true>(row.len(), row.input(0), row.input(1), row.output(0));
        row.report_faults(&faults);
    }
}
#[doc = " The combiner `larger`, element by element."]
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
fn g0_combine0_body<const F: bool>(left0: &mut [i32], right0: &[i32]) -> usize {
    let mut fault = false;
    let width = left0.len();
    let mut start = 0;
    while start < right0.len() {
        let len = ::core::cmp::Ord::min(width, right0.len() - start);
        let left0 = &mut left0[..len];
        let right0 = &right0[start..][..len];
        for i in 0..len {
            let value0: i32 = f1_larger::<F>(left0[i], right0[i]);
            left0[i] = value0;
        }
        start = start.wrapping_add(len);
    }
    if fault { 0 } else { usize::MAX }
}
fn g0_combine0_baseline(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        let fault = g0_combine0_body::<{ cfg!(target_arch = "aarch64") }>(row.output(0), row.input(0));
        row.report_faults(&[fault]);
    }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn g0_combine0_avx2(t: &mut ::fuse::__private::Tile<'_>) {
    while let ::core::option::Option::Some(mut row) = t.next_row() {
        let fault = g0_combine0_body::<true>(row.output(0), row.input(0));
        row.report_faults(&[fault]);
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
    combiners: &[::fuse::__private::StageFns {
        baseline: g0_combine0_baseline,
        #[cfg(target_arch = "x86_64")]
        avx2: g0_combine0_avx2,
        #[cfg(target_arch = "x86_64")]
        avx512: g0_combine0_avx2,
    }],
    rows: ::core::option::Option::None,
}];
