//! Literals, operators, casts, constants and methods.

use super::same_as_rustc;

#[test]
fn arithmetic_of_floats() {
    same_as_rustc!(Bits: fn f(x: f32, y: f32) -> f32 { (x + y) * (x - y) / (0.5 + y) % 3.0 - -x });
    same_as_rustc!(Bits: fn f(x: f64, y: f64) -> f64 { let mut z = x; z += y; z *= 2.0; z -= 0.1; z /= y; z %= 7.0; z });
}

#[test]
fn arithmetic_of_integers() {
    same_as_rustc!(Bits: fn f(x: i32, y: i32) -> i32 { x / y + x % y - (x & y) * (x | 3) ^ !y });
    same_as_rustc!(Bits: fn f(x: u8, y: u8) -> u8 { let mut z = x; z += y; z |= 1; z &= y; z ^= 0x0f; z });
    same_as_rustc!(Bits: fn f(x: i64, y: i64) -> i64 { x.div_euclid(y) + x.rem_euclid(y) });
    same_as_rustc!(Bits: fn f(x: i8) -> i8 { -x + -128 });
}

#[test]
fn integers_wrap_and_shift_counts_are_masked() {
    same_as_rustc!(Bits: fn f(x: i32, y: i32) -> i32 { x.wrapping_add(y).wrapping_mul(x).wrapping_sub(3).wrapping_neg() });
    same_as_rustc!(Bits: fn f(x: u8, y: u8) -> u8 { x.wrapping_neg().wrapping_sub(y) });
    same_as_rustc!(Bits: fn f(x: i32, n: u32) -> i32 { x.wrapping_shl(n) ^ x.wrapping_shr(n) });
    let items = super::lower_valid("fn f(x: i32, n: i8) -> i32 { (x + x) << n }");
    super::compare(
        &items,
        "f",
        |(x, n): (i32, i8)| x.wrapping_add(x).wrapping_shl(n as u32),
        super::Closeness::Bits,
    );
    let items = super::lower_valid("fn f(x: i32) -> i32 { -x.abs() - x.pow(3) }");
    let native = |(x,): (i32,)| x.wrapping_abs().wrapping_neg().wrapping_sub(x.wrapping_pow(3));
    super::compare(&items, "f", native, super::Closeness::Bits);
}

#[test]
fn shifts_take_any_count() {
    same_as_rustc!(Bits: fn f(x: u32, n: i64) -> u32 { x >> n });
    same_as_rustc!(Bits: fn f(x: u64, n: u8) -> u64 { let mut y = x; y <<= n; y >>= 3; y });
}

#[test]
fn casts() {
    same_as_rustc!(Bits: fn f(x: f32) -> (i8, (u32, i64)) { (x as i8, (x as u32, x as i64)) });
    same_as_rustc!(Bits: fn f(x: i64) -> (f32, f64, u8) { (x as f32, x as f64, x as u8) });
    same_as_rustc!(Bits: fn f(x: i32) -> (u64, i16) { (x as u64, x as u32 as i16) });
    same_as_rustc!(Bits: fn f(x: u8, b: bool) -> (i8, u8) { (x as i8, b as u8 + 1) });
    same_as_rustc!(Bits: fn f(x: f64) -> f32 { x as f32 });
    same_as_rustc!(Bits: fn f(x: i16) -> i64 { 5_000_000_000 as i64 + i64::from(x) });
    same_as_rustc!(Bits: fn f(x: u16) -> f64 { f64::from(x) + f64::from(0.1f32) });
}

#[test]
fn casts_through_narrow_floats_round() {
    let items = super::lower_valid("fn f(x: f32) -> f32 { (x as f16) as f32 + (1.0 + x) as bf16 as f32 }");
    let native = |(x,): (f32,)| half::f16::from_f32(x).to_f32() + half::bf16::from_f32(1.0 + x).to_f32();
    super::compare(&items, "f", native, super::Closeness::Bits);
}

#[test]
fn literals_adopt_the_other_side() {
    same_as_rustc!(Bits: fn f(x: f32) -> f32 { let mut acc = 0.0; for _ in 0..4 { acc = acc * x + 0.5; } acc });
    same_as_rustc!(Bits: fn f(x: i64) -> bool { let zero = 0; let limit = 3_000_000_000; x > zero && x < limit });
    same_as_rustc!(Bits: fn f(x: f32) -> f32 { let (a, b) = (0.1, 0.2); let c = a; x + a + b + c });
    same_as_rustc!(Bits: fn f(x: f32) -> f32 { let n = 3; let scale = 0.1; x * (n as f32) * (scale as f32) });
    same_as_rustc!(Bits: fn f(x: u8) -> u8 { 0xff - x + 1u8 - 0b1 });
    same_as_rustc!(Bits: fn f(x: f64) -> f64 { let t = 0.1; let u = 0.1f32; x + t + u as f64 });
}

#[test]
fn comparisons() {
    same_as_rustc!(Bits: fn f(x: f32, y: f32) -> (bool, bool, bool) { (x < y, x <= y, x == y) });
    same_as_rustc!(Bits: fn f(x: f32, y: f32) -> (bool, bool, bool) { (x > y, x >= y, x != y) });
    same_as_rustc!(Bits: fn f(a: bool, b: bool) -> (bool, bool, bool) { (a < b, a ^ b, !a | b & a) });
}

#[test]
fn std_constants() {
    {
        use std::f32::consts::{E, FRAC_1_SQRT_2, PI};
        same_as_rustc!(Bits: fn f(x: f32) -> f32 { x * PI + E - FRAC_1_SQRT_2 });
    }
    same_as_rustc!(Bits: fn f(x: f64) -> f64 { x * std::f64::consts::PI + core::f64::consts::LN_2 });
    same_as_rustc!(Bits: fn f(x: f32) -> f32 { x * f32::EPSILON + f32::MIN_POSITIVE - f32::MAX });
    same_as_rustc!(Bits: fn f(x: i32) -> bool { x == i32::MIN || x == i32::MAX || x as u32 == u32::BITS });
}

#[test]
fn methods_of_floats() {
    same_as_rustc!(Bits: fn f(x: f32) -> (f32, f32, f32) { (x.abs(), x.signum(), x.sqrt()) });
    same_as_rustc!(Bits: fn f(x: f32) -> (f32, f32, f32) { (x.floor(), x.ceil(), x.trunc()) });
    same_as_rustc!(Bits: fn f(x: f32) -> (f32, f32, f32) { (x.round(), x.round_ties_even(), x.fract()) });
    same_as_rustc!(Bits: fn f(x: f32) -> (f32, f32, f32) { (x.recip(), x.to_degrees(), x.to_radians()) });
    same_as_rustc!(Bits: fn f(x: f64) -> (f64, f64, f64) { (x.recip(), x.to_degrees(), x.to_radians()) });
    same_as_rustc!(Bits: fn f(x: f32) -> (f32, f32) { (x.rsqrt(), x.square()) });
    same_as_rustc!(Bits: fn f(x: f32) -> (bool, bool, bool) { (x.is_nan(), x.is_infinite(), x.is_finite()) });
    same_as_rustc!(Bits: fn f(x: f32) -> (bool, bool) { (x.is_normal(), x.is_subnormal()) });
    same_as_rustc!(Bits: fn f(x: f64) -> (bool, bool) { (x.is_normal(), x.is_subnormal()) });
    same_as_rustc!(Bits: fn f(x: f32) -> u32 { if x.is_nan() { 0 } else { x.to_bits() } });
    same_as_rustc!(Bits: fn f(n: u32) -> f32 { f32::from_bits(n) });
    same_as_rustc!(Bits: fn f(x: f32, y: f32) -> f32 { x.copysign(y) });
    same_as_rustc!(Bits: fn f(x: f32, y: f32, z: f32) -> f32 { x.mul_add(y, z) });
    same_as_rustc!(Bits: fn f(x: f32, y: f32) -> (f32, f32) { (x.div_euclid(y), x.rem_euclid(y)) });
}

#[test]
fn sign_of_a_nan_is_free() {
    same_as_rustc!(Bits: fn f(x: f32) -> (bool, bool) {
        (x.is_sign_positive() && !x.is_nan(), x.is_sign_negative() && !x.is_nan())
    });
}

#[test]
fn minima_and_maxima() {
    same_as_rustc!(Number: fn f(x: f32, y: f32) -> (f32, f32, f32) { (x.min(y), x.max(y), x.clamp(-1.0, 2.0)) });
    same_as_rustc!(Number: fn f(x: f32, y: f32) -> (f32, f32) { (f32::min(x, y), f32::max(0.0, y)) });
    same_as_rustc!(Bits: fn f(x: i32, y: i32) -> (i32, i32, i32) { (x.min(y), x.max(y), x.clamp(-5, 5)) });
    let items = super::lower_valid("fn f(x: f32, y: f32) -> (f32, f32) { (maximum(x, y), x.minimum(y)) }");
    let native = |(x, y): (f32, f32)| {
        if x.is_nan() || y.is_nan() { (f32::NAN, f32::NAN) } else { (x.max(y), x.min(y)) }
    };
    super::compare(&items, "f", native, super::Closeness::Number);
}

#[test]
fn transcendental_functions() {
    same_as_rustc!(Near: fn f(x: f32) -> (f32, f32, f32) { (x.exp(), x.ln(), x.tanh()) });
    same_as_rustc!(Near: fn f(x: f32) -> (f32, f32, f32) { (x.exp2(), x.exp_m1(), x.ln_1p()) });
    same_as_rustc!(Near: fn f(x: f64) -> (f64, f64) { (x.log2(), x.log10()) });
    same_as_rustc!(Near: fn f(x: f32) -> (f32, f32) { x.sin_cos() });
    same_as_rustc!(Near: fn f(x: f64, y: f64) -> f64 { x.log(y) });
    same_as_rustc!(Near: fn f(x: f32, y: f32) -> (f32, f32) { (x.hypot(y), x.atan2(y)) });
    same_as_rustc!(Near: fn f(x: f32, y: f32) -> f32 { x.powf(y) });
    same_as_rustc!(Near: fn f(x: f32) -> (f32, f32) { (x.powi(2), x.powi(-3)) });
    same_as_rustc!(Near: fn f(x: f32) -> f32 { x.sigmoid() });
    same_as_rustc!(Near: fn f(x: f32) -> (f32, f32, f32) { (x.cbrt(), x.atan(), x.asinh()) });
}

#[test]
fn methods_of_integers() {
    same_as_rustc!(Bits: fn f(x: i32) -> (u32, u32, u32) { (x.count_ones(), x.leading_zeros(), x.trailing_zeros()) });
    same_as_rustc!(Bits: fn f(x: u16) -> (u32, u32, u32) { (x.count_zeros(), x.leading_ones(), x.trailing_ones()) });
    same_as_rustc!(Bits: fn f(x: i8, n: u32) -> (i8, i8) { (x.rotate_left(n), x.rotate_right(n)) });
    same_as_rustc!(Bits: fn f(x: u64, n: u32) -> (u64, u64) { (x.rotate_left(n), x.rotate_right(n)) });
    same_as_rustc!(Bits: fn f(x: i32, y: i32) -> (i32, i32, u32) { (x.saturating_add(y), x.saturating_sub(y), x.abs_diff(y)) });
    same_as_rustc!(Bits: fn f(x: u8, y: u8) -> (u8, u8, u8) { (x.saturating_add(y), x.saturating_sub(y), x.abs_diff(y)) });
    same_as_rustc!(Bits: fn f(x: i64) -> (i64, u64, i64) { (x.signum(), x.unsigned_abs(), x.wrapping_abs()) });
    same_as_rustc!(Bits: fn f(x: i16) -> (bool, bool) { (x.is_positive(), x.is_negative()) });
    same_as_rustc!(Bits: fn f(x: u32, y: u32) -> (bool, u32) { (x.is_power_of_two(), x.div_ceil(y)) });
    same_as_rustc!(Bits: fn f(x: i32, n: u32) -> i32 { x.wrapping_pow(n) });
    same_as_rustc!(Bits: fn f(x: i32, y: i32) -> i32 { i32::wrapping_add(x, y) });
}
