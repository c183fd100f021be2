//! Conversions against `as`, the `half` crate, and for the eight-bit floats the table of their values.

use super::*;
use half::{bf16, f16};

/// The same bits, or both NaN.
fn same(left: f32, right: f32) -> bool {
    left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan())
}

/// Inputs spread over all f32, and the neighbourhoods of all powers of two and of their midpoints.
fn sample_inputs() -> impl Iterator<Item = f32> {
    let spread = (0..1u32 << 19).map(|i| f32::from_bits(i.wrapping_mul(8191)));
    let near = (0..=0x1ffu32).flat_map(|exponent| {
        [0u32, 0x40_0000, 0x7f_ffff, 0x7f_f000, 0x60_0000, 0x50_0000, 0x70_0000].into_iter().flat_map(
            move |mantissa| {
                (-3i32..=3).map(move |d| f32::from_bits((exponent << 23 | mantissa).wrapping_add_signed(d)))
            },
        )
    });
    spread.chain(near)
}

#[test]
fn half_precision_agrees_with_the_half_crate() {
    for bits in 0..=u16::MAX {
        assert!(same(f16_to_f32(bits), f16::from_bits(bits).to_f32()), "f16 {bits:#x}");
        assert!(same(bf16_to_f32(bits), bf16::from_bits(bits).to_f32()), "bf16 {bits:#x}");
    }
    for x in sample_inputs() {
        let (half, brain) = (f16::from_f32(x), bf16::from_f32(x));
        assert!(same(f16::from_bits(f32_to_f16(x)).to_f32(), half.to_f32()), "{x:e} to f16");
        assert!(same(bf16::from_bits(f32_to_bf16(x)).to_f32(), brain.to_f32()), "{x:e} to bf16");
        assert!(same(round_to_f16(x), half.to_f32()), "{x:e} rounded to f16");
        assert!(same(round_to_bf16(x), brain.to_f32()), "{x:e} rounded to bf16");
    }
}

/// The value of an eight-bit float, from the definition of the format.
fn value_of(bits: u8, exponent_bits: u32, bias: i32) -> f64 {
    let significand_bits = 7 - exponent_bits;
    let exponent = i32::from((bits & 0x7f) >> significand_bits);
    let significand = f64::from(bits & ((1 << significand_bits) - 1)) / f64::from(1 << significand_bits);
    let magnitude = match exponent {
        0 => significand * 2f64.powi(1 - bias),
        _ => (1.0 + significand) * 2f64.powi(exponent - bias),
    };
    if bits & 0x80 != 0 { -magnitude } else { magnitude }
}

/// Narrowing by search: the nearest of the finite values, the even one of two, so also saturating (far beyond them all distances round to one).
fn nearest(x: f32, largest: u8, value: fn(u8) -> f32) -> f32 {
    let distance = |bits: u8| (f64::from(value(bits)) - f64::from(x.abs()).min(1e6)).abs();
    let mut best = 0;
    for bits in 1..=largest {
        let closer = distance(bits) < distance(best) || (distance(bits) == distance(best) && bits % 2 == 0);
        best = if closer { bits } else { best };
    }
    if x.is_nan() { x } else { value(best).copysign(x) }
}

#[test]
fn f8e4m3_follows_its_format() {
    for bits in 0..=u8::MAX {
        let value = f8e4m3_to_f32(bits);
        match bits & 0x7f {
            0x7f => assert!(value.is_nan()),
            _ => assert_eq!(f64::from(value), value_of(bits, 4, 7)),
        }
        assert!(same(F8E4M3::from_f32(value).to_f32(), value), "{bits:#x}");
    }
    for x in sample_inputs().step_by(7) {
        let expected = nearest(x, 0x7e, f8e4m3_to_f32);
        assert!(same(round_to_f8e4m3(x), expected), "{x:e} is {:e}, not {expected:e}", round_to_f8e4m3(x));
        assert!(same(F8E4M3::from_f32(x).to_f32(), expected), "{x:e}");
    }
    assert_eq!(F8E4M3::from_f32(f32::NEG_INFINITY).to_f32(), -448.0);
}

#[test]
fn f8e5m2_follows_its_format() {
    for bits in 0..=u8::MAX {
        let value = f8e5m2_to_f32(bits);
        match bits & 0x7f {
            0x7c => assert!(value.is_infinite()),
            0x7d.. => assert!(value.is_nan()),
            _ => assert_eq!(f64::from(value), value_of(bits, 5, 15)),
        }
        let expected = if value.is_infinite() { 57344f32.copysign(value) } else { value };
        assert!(same(F8E5M2::from_f32(value).to_f32(), expected), "{bits:#x}");
    }
    for x in sample_inputs().step_by(7) {
        let expected = nearest(x, 0x7b, f8e5m2_to_f32);
        assert!(same(round_to_f8e5m2(x), expected), "{x:e} is {:e}, not {expected:e}", round_to_f8e5m2(x));
        assert!(same(F8E5M2::from_f32(x).to_f32(), expected), "{x:e}");
    }
}

/// Checks `cast` against `as` from both floats.
macro_rules! check_casts {
    ($($to:ty),*) => {$(
        for x in sample_inputs() {
            let wide = f64::from(x);
            assert_eq!(cast::<$to, f32>(x), x as $to, "{x:e} as {}", stringify!($to));
            assert_eq!(cast::<$to, f64>(wide), wide as $to, "{x:e} as {}", stringify!($to));
            for d in [-1i64, 1] {
                let wide = f64::from_bits(wide.to_bits().wrapping_add_signed(d));
                assert_eq!(cast::<$to, f64>(wide), wide as $to, "{wide:e} as {}", stringify!($to));
            }
        }
        for limit in [<$to>::MIN as f64, <$to>::MAX as f64] {
            for d in [-1.0, -0.5, 0.0, 0.5, 1.0] {
                assert_eq!(cast::<$to, f64>(limit + d), (limit + d) as $to);
            }
        }
    )*};
}

#[test]
fn casts_to_integers_are_those_of_as() {
    check_casts!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);
    assert_eq!(cast::<i8, i32>(300), 44);
    assert_eq!(cast::<u64, i8>(-1), u64::MAX);
    assert_eq!(cast::<f32, u64>(u64::MAX), u64::MAX as f32);
    assert!(cast::<bool, f32>(f32::NAN));
    assert!(!cast::<bool, f32>(-0.0));
}

/// Checks a pair of slice conversions against the scalar ones, for lengths around the vector widths.
macro_rules! check_slices {
    ($type:ty, $widen:ident, $narrow:ident, $from:expr, $to:expr) => {
        let inputs: Vec<f32> = sample_inputs().step_by(29).collect();
        for length in [0, 1, 7, 8, 9, 31, 32, 33, 100, inputs.len()] {
            let inputs = &inputs[inputs.len() - length..];
            let mut narrow = vec![<$type>::default(); length + 1];
            $narrow(inputs, &mut narrow);
            let expected: Vec<f32> = inputs.iter().map(|x| $to($from(*x))).collect();
            let mut wide = vec![-1.0; length + 1];
            $widen(&narrow[..length], &mut wide);
            assert!(wide.iter().zip(&expected).all(|(a, b)| same(*a, *b)), stringify!($widen));
            assert_eq!((wide[length], $to(narrow[length])), (-1.0, 0.0));
            // A destination that is shorter than the source.
            $narrow(inputs, &mut narrow[..length / 2]);
            $widen(&narrow[..length], &mut wide[..length / 2]);
            assert!(wide.iter().zip(&expected).take(length).all(|(a, b)| same(*a, *b)), stringify!($narrow));
        }
    };
}

#[test]
fn slices_convert_like_their_elements() {
    check_slices!(f16, widen_f16, narrow_f16, f16::from_f32, f16::to_f32);
    check_slices!(bf16, widen_bf16, narrow_bf16, bf16::from_f32, bf16::to_f32);
    check_slices!(F8E4M3, widen_f8e4m3, narrow_f8e4m3, F8E4M3::from_f32, F8E4M3::to_f32);
    // A store keeps the infinities of f8e5m2, a cast saturates.
    let store = |x: f32| {
        if x == f32::INFINITY {
            F8E5M2::from_bits(0x7c)
        } else if x == f32::NEG_INFINITY {
            F8E5M2::from_bits(0xfc)
        } else {
            F8E5M2::from_f32(x)
        }
    };
    check_slices!(F8E5M2, widen_f8e5m2, narrow_f8e5m2, store, F8E5M2::to_f32);
}

/// Checks that `rounded` is the value next to `x` in a format of finite values `value(0..=largest)`, the even one of two.
#[track_caller]
fn check_nearest(x: f64, rounded: f32, largest: u16, value: impl Fn(u16) -> f32) {
    let magnitude = f64::from(rounded.abs());
    let (mut low, mut high) = (0, largest);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if f64::from(value(middle)) <= x.abs() { low = middle } else { high = middle - 1 }
    }
    // x lies between this value and the next, if there is one; the differences are exact.
    let below = f64::from(value(low));
    let above = if low < largest { f64::from(value(low + 1)) } else { below };
    let to_below = (x.abs() - below).abs() < (above - x.abs()).abs()
        || ((x.abs() - below) == (above - x.abs()) && low % 2 == 0);
    let expected = if to_below { below } else { above };
    assert!(
        magnitude == expected && rounded.is_sign_negative() == x.is_sign_negative(),
        "{x:e} is {rounded:e}, not {expected:e}"
    );
}

#[test]
fn doubles_round_once() {
    for x in sample_inputs().step_by(5).filter(|x| x.is_finite() && *x != 0.0).map(f64::from) {
        for d in [-1i64, 0, 1] {
            let x = f64::from_bits(x.to_bits().wrapping_add_signed(d));
            if x.abs() < 65504.0 {
                check_nearest(x, round_f64_to_f16(x), 0x7bff, f16_to_f32);
            }
            check_nearest(x, round_f64_to_f8e4m3(x), 0x7e, |bits| f8e4m3_to_f32(bits as u8));
            check_nearest(x, round_f64_to_f8e5m2(x), 0x7b, |bits| f8e5m2_to_f32(bits as u8));
            if x.abs() < 3.38e38 {
                check_nearest(x, round_f64_to_bf16(x), 0x7f7f, bf16_to_f32);
            }
        }
    }
    // Just above a tie of f16: by way of the nearest f32 it would become the tie, and round down to even.
    let above_tie = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    assert_eq!(round_f64_to_f16(above_tie), 1.0 + 2f32.powi(-10));
    assert_eq!(round_f64_to_f16(1e300), f32::INFINITY);
    assert_eq!(round_f64_to_bf16(-3.4e38), f32::NEG_INFINITY);
    assert_eq!(round_f64_to_f8e5m2(f64::NEG_INFINITY), -57344.0);
    assert!(round_f64_to_bf16(f64::NAN).is_nan() && round_f64_to_f8e4m3(f64::NAN).is_nan());
}
