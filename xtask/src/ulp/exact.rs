//! Functions that have one right result, compared with the standard library, the `half` crate and
//! the compiler's own casts.

use super::{ALL_INPUTS, Options, visit_inputs};
use fuse_ir::dtype::{DType, Value};
use fuse_runtime::{convert, math};
use half::{bf16, f16};

/// A comparison of one function with its reference at one input.
pub(super) struct Check {
    pub(super) name: &'static str,
    holds: fn(f32) -> bool,
}

/// The same bits, or both NaN.
fn same(left: f32, right: f32) -> bool {
    left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan())
}

/// `x` as the compiler casts constants, by division in f64.
fn cast_by_compiler(x: f32, to: DType) -> f32 {
    Value::F32(x).cast(to).as_f64().map_or(f32::NAN, |value| value as f32)
}

/// Declares a check that two expressions are the same.
macro_rules! checks {
    ($($name:ident: |$x:ident| $holds:expr;)*) => {
        pub(super) const CHECKS: &[Check] = &[$(Check { name: stringify!($name), holds: |$x| $holds }),*];
    };
}

checks! {
    floor: |x| same(math::floor::<false>(x), x.floor());
    ceil: |x| same(math::ceil::<false>(x), x.ceil());
    trunc: |x| same(math::trunc::<false>(x), x.trunc());
    round: |x| same(math::round::<false>(x), x.round());
    round_ties_even: |x| same(math::round_ties_even::<false>(x), x.round_ties_even());
    fract: |x| same(math::fract::<false>(x), x.fract());
    signum: |x| same(math::signum(x), x.signum());
    cast_to_i8: |x| convert::cast::<i8, f32>(x) == x as i8;
    cast_to_i16: |x| convert::cast::<i16, f32>(x) == x as i16;
    cast_to_i32: |x| convert::cast::<i32, f32>(x) == x as i32;
    cast_to_i64: |x| convert::cast::<i64, f32>(x) == x as i64;
    cast_to_u8: |x| convert::cast::<u8, f32>(x) == x as u8;
    cast_to_u16: |x| convert::cast::<u16, f32>(x) == x as u16;
    cast_to_u32: |x| convert::cast::<u32, f32>(x) == x as u32;
    cast_to_u64: |x| convert::cast::<u64, f32>(x) == x as u64;
    f32_to_f16: |x| same(f16::from_bits(convert::f32_to_f16(x)).to_f32(), f16::from_f32(x).to_f32());
    f32_to_bf16: |x| same(bf16::from_bits(convert::f32_to_bf16(x)).to_f32(), bf16::from_f32(x).to_f32());
    round_to_f16: |x| same(convert::round_to_f16(x), f16::from_f32(x).to_f32());
    round_to_bf16: |x| same(convert::round_to_bf16(x), bf16::from_f32(x).to_f32());
    round_to_f8e4m3: |x| same(convert::round_to_f8e4m3(x), cast_by_compiler(x, DType::F8E4M3));
    round_to_f8e5m2: |x| same(convert::round_to_f8e5m2(x), cast_by_compiler(x, DType::F8E5M2));
    f32_to_f8e4m3: |x| same(convert::F8E4M3::from_f32(x).to_f32(), convert::round_to_f8e4m3(x));
    f32_to_f8e5m2: |x| same(convert::F8E5M2::from_f32(x).to_f32(), convert::round_to_f8e5m2(x));
}

/// Runs the checks asked for and prints those that fail, and one line if none does.
pub(super) fn run(options: &Options) -> bool {
    let mut all_hold = true;
    let mut equal = Vec::new();
    for check in CHECKS.iter().filter(|check| options.wants(check.name)) {
        let states = visit_inputs(
            options,
            ALL_INPUTS,
            || (0u64, 0u32),
            |(wrong, input), start, end| {
                for bits in (start.next_multiple_of(options.stride)..end).step_by(options.stride as usize) {
                    if !(check.holds)(f32::from_bits(bits as u32)) {
                        *wrong += 1;
                        *input = bits as u32;
                    }
                }
            },
        );
        let wrong: u64 = states.iter().map(|(wrong, _)| wrong).sum();
        if wrong == 0 {
            equal.push(format!("`{}`", check.name));
            continue;
        }
        all_hold = false;
        let example = states.iter().find(|(wrong, _)| *wrong > 0).map_or(0, |(_, input)| *input);
        println!("\n`{}` is wrong for {wrong} inputs, such as {}", check.name, super::show_input(example));
    }
    if !equal.is_empty() {
        println!("\nEqual to the reference for every input tried: {}.", equal.join(", "));
    }
    all_hold
}
