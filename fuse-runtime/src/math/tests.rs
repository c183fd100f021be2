//! A sample of what `cargo xtask ulp` measures in full, and the special values.

use super::*;
use core::f32::consts;

/// Bits of about `count` inputs spread over all f32, and the neighbourhoods of values where formulas change.
fn sample_inputs(count: u32) -> impl Iterator<Item = f32> {
    let step = (u32::MAX / count) | 1;
    let spread = (0..count).map(move |i| f32::from_bits(i.wrapping_mul(step)));
    let edges = [
        0.0,
        f32::MIN_POSITIVE,
        1e-8,
        2f32.powi(-12),
        0.25,
        0.347,
        0.5,
        0.625,
        consts::LN_2,
        consts::FRAC_1_SQRT_2,
        consts::FRAC_PI_4,
        0.92,
        1.0,
        consts::SQRT_2,
        consts::FRAC_PI_2,
        2.0,
        consts::PI,
        4.0,
        10.0,
        10.2,
        17.0,
        87.33,
        88.37,
        88.72,
        100.0,
        104.0,
        105.0,
        128.0,
        150.0,
        8_388_608.0,
        2f32.powi(50),
        2f32.powi(77),
        2f32.powi(104),
        f32::MAX,
    ];
    let near = edges
        .into_iter()
        .flat_map(|edge| (-40i32..=40).map(move |d| f32::from_bits(edge.to_bits().wrapping_add_signed(d))));
    spread.chain(near.clone()).chain(near.map(|x| -x))
}

/// The distance from the truth in units of the f32 spacing there; infinite where a special value is not met.
fn error_in_ulp(result: f32, truth: f64) -> f64 {
    if truth.is_nan() || result.is_nan() {
        return if truth.is_nan() && result.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if truth == 0.0 || truth.is_infinite() || truth.abs() >= 2f64.powi(128) {
        return if result.to_bits() == (truth as f32).to_bits() { 0.0 } else { f64::INFINITY };
    }
    let exponent = ((truth.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let value = if result.is_infinite() { 2f64.powi(128).copysign(result.into()) } else { f64::from(result) };
    (value - truth).abs() / 2f64.powi(exponent.max(-126) - 23)
}

#[track_caller]
fn check_unary(functions: [fn(f32) -> f32; 2], truth: fn(f64) -> f64) {
    for x in sample_inputs(1 << 19) {
        let truth = truth(f64::from(x));
        for (function, with) in functions.into_iter().zip(["with", "without"]) {
            let (result, error) = (function(x), error_in_ulp(function(x), truth));
            assert!(
                error <= 2.0,
                "{error} ulp at {x:e} ({:#x}) {with} FMA: {result:e}, not {truth:e}",
                x.to_bits()
            );
        }
    }
}

/// One test for each unary function. `NAME::<true>` compiled without the instruction is exact by libm, only slow.
macro_rules! within_two_ulp {
    ($($name:ident = $truth:expr;)*) => {
        mod within_two_ulp {
            $(#[test]
            fn $name() {
                super::check_unary([super::$name::<true>, super::$name::<false>], $truth);
            })*
        }
    };
}

within_two_ulp! {
    exp = f64::exp;
    exp2 = f64::exp2;
    exp_m1 = f64::exp_m1;
    ln = f64::ln;
    log2 = f64::log2;
    log10 = f64::log10;
    ln_1p = f64::ln_1p;
    sin = f64::sin;
    cos = f64::cos;
    tan = f64::tan;
    asin = f64::asin;
    acos = f64::acos;
    atan = f64::atan;
    sinh = f64::sinh;
    cosh = f64::cosh;
    tanh = f64::tanh;
    asinh = libm::asinh;
    acosh = f64::acosh;
    atanh = libm::atanh;
    sigmoid = crate::math::sigmoid_f64;
    erf = libm::erf;
    erfc = libm::erfc;
    cbrt = f64::cbrt;
    rsqrt = |x| 1.0 / x.sqrt();
}

/// Values at which two-argument functions meet zeros, ones, integers, halves, infinities and NaN.
const CORNERS: [f32; 31] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.5,
    -0.5,
    1.5,
    -1.5,
    1e-45,
    -1e-45,
    1e-30,
    -1e-30,
    1e30,
    -1e30,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    16_777_215.0,
    -16_777_215.0,
    16_777_216.0,
    0.999_999_94,
    1.000_000_1,
    8_388_607.5,
    -8_388_608.0,
    127.0,
];

/// A repeatable sequence of words.
fn random_words() -> impl Iterator<Item = u32> {
    (0..).map(|index| crate::random::philox(7, 0, index))
}

#[track_caller]
fn check_binary(
    functions: [fn(f32, f32) -> f32; 2],
    truth: fn(f64, f64) -> f64,
    special: fn(f32, f32) -> f32,
) {
    let check = |x: f32, y: f32, truth: f64| {
        for function in functions {
            let (result, error) = (function(x, y), error_in_ulp(function(x, y), truth));
            assert!(error <= 2.0, "{error} ulp at ({x:e}, {y:e}): {result:e}, not {truth:e}");
        }
    };
    for x in CORNERS {
        for y in CORNERS {
            let wide = truth(f64::from(x), f64::from(y));
            // Where std's f32 is special so must this be: its rules are the C standard's.
            let narrow = special(x, y);
            let truth = if narrow.is_finite() && narrow != 0.0 { wide } else { f64::from(narrow) };
            // A result that rounds to zero or infinity only just is left to the bound.
            check(x, y, if wide.is_finite() && wide != 0.0 && truth.is_finite() { wide } else { truth });
        }
    }
    let mut words = random_words();
    let mut next = || words.next().unwrap_or_default();
    for _ in 0..300_000 {
        // Any bits, and pairs of like size, for which powers and angles are neither zero nor infinite.
        let (x, y) = (f32::from_bits(next()), f32::from_bits(next()));
        check(x, y, truth(f64::from(x), f64::from(y)));
        let near_one = |word: u32| f32::from_bits(0x3d00_0000 + (word & 0x83ff_ffff));
        let (x, y) = (near_one(next()), near_one(next()));
        check(x, y, truth(f64::from(x), f64::from(y)));
        let (x, y) = (x.abs(), y * 40.0);
        check(x, y, truth(f64::from(x), f64::from(y)));
    }
}

#[test]
fn powf_is_within_two_ulp() {
    check_binary([powf::<true>, powf::<false>], f64::powf, f32::powf);
    assert_eq!(powf::<false>(-2.0, 2.0), 4.0);
}

#[test]
fn atan2_is_within_two_ulp() {
    check_binary([atan2::<true>, atan2::<false>], f64::atan2, f32::atan2);
}

#[test]
fn hypot_is_within_two_ulp() {
    check_binary([hypot::<true>, hypot::<false>], f64::hypot, f32::hypot);
}

#[test]
fn powi_is_within_two_ulp() {
    let exponents = (-70..=70).chain([-1000, -255, 255, 1000, 1_000_001, i32::MIN, i32::MAX]);
    for n in exponents {
        for x in CORNERS.into_iter().chain(random_words().take(4000).map(f32::from_bits)) {
            let truth = f64::from(x).powf(f64::from(n));
            for result in [powi::<true>(x, n), powi::<false>(x, n)] {
                let error = error_in_ulp(result, truth);
                assert!(error <= 2.0, "{error} ulp at {x:e}^{n}: {result:e}, not {truth:e}");
            }
        }
    }
    assert_eq!(powi::<false>(1.1, 2), 1.1 * 1.1);
}

/// The same bits, or both NaN.
fn same(left: f32, right: f32) -> bool {
    left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan())
}

#[test]
fn rounding_is_that_of_std() {
    type Unary = fn(f32) -> f32;
    let pairs: [(&str, Unary, Unary); 13] = [
        ("floor", floor::<false>, f32::floor),
        ("ceil", ceil::<false>, f32::ceil),
        ("trunc", trunc::<false>, f32::trunc),
        ("round", round::<false>, f32::round),
        ("round_ties_even", round_ties_even::<false>, f32::round_ties_even),
        ("fract", fract::<false>, f32::fract),
        ("floor", floor::<true>, f32::floor),
        ("ceil", ceil::<true>, f32::ceil),
        ("trunc", trunc::<true>, f32::trunc),
        ("round", round::<true>, f32::round),
        ("round_ties_even", round_ties_even::<true>, f32::round_ties_even),
        ("fract", fract::<true>, f32::fract),
        ("signum", signum, f32::signum),
    ];
    let halves = (-2000..2000).map(|i| i as f32 * 0.25);
    for x in sample_inputs(1 << 18).chain(halves) {
        for (name, ours, std) in pairs {
            assert!(same(ours(x), std(x)), "{name}({x:e}) is {:e}, not {:e}", ours(x), std(x));
        }
    }
}

#[test]
fn extrema_follow_their_rule_for_nan() {
    for a in CORNERS {
        for b in CORNERS {
            assert!(
                max_rust(a, b) == a.max(b) || a.max(b).is_nan() && max_rust(a, b).is_nan(),
                "max({a}, {b})"
            );
            assert!(
                min_rust(a, b) == a.min(b) || a.min(b).is_nan() && min_rust(a, b).is_nan(),
                "min({a}, {b})"
            );
            if a.is_nan() || b.is_nan() {
                assert!(maximum(a, b).is_nan() && minimum(a, b).is_nan());
                assert!(maximum(f64::from(a), f64::from(b)).is_nan());
            } else {
                assert_eq!((maximum(a, b), minimum(a, b)), (a.max(b), a.min(b)));
            }
        }
    }
}

#[test]
fn mul_add_rounds_once_without_the_instruction() {
    let check = |a: f32, b: f32, c: f32| {
        let (ours, std) = (mul_add::<false>(a, b, c), a.mul_add(b, c));
        assert!(same(ours, std), "{a:e} * {b:e} + {c:e} is {ours:e}, not {std:e}");
    };
    for a in CORNERS {
        for b in CORNERS {
            for c in CORNERS {
                check(a, b, c);
            }
        }
    }
    let mut words = random_words();
    let mut next = || words.next().unwrap_or_default();
    for _ in 0..500_000 {
        check(f32::from_bits(next()), f32::from_bits(next()), f32::from_bits(next()));
        // Few significant bits and like sizes make ties and near ties, denormal results among them.
        let mut short = |exponent: u32| f32::from_bits(exponent.wrapping_add(next() & 0x83ff_f000));
        let (a, b) = (short(0x3e00_0000), short(0x3e00_0000));
        let c = short(0x4a00_0000);
        check(a, b, c);
        check(a, b * f32::MIN_POSITIVE, c * f32::from_bits(1) * 0.000_5);
        check(a, c, -(a * c));
    }
}

/// Where π/2 - 2√((1-x)/2) crosses one, its rounding once cost a whole ulp of the result.
#[test]
fn asin_is_within_two_ulp_where_its_first_difference_crosses_one() {
    for bits in 0.838f32.to_bits()..0.848f32.to_bits() {
        let x = f32::from_bits(bits);
        for result in [asin::<true>(x), asin::<false>(x), -asin::<false>(-x)] {
            let error = error_in_ulp(result, f64::from(x).asin());
            assert!(error <= 1.2, "{error} ulp at {x:e}");
        }
    }
}
