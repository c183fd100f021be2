//! Loops over the numeric functions, one for each instruction set, for `cargo xtask vectors` to look at in the assembly.
//!
//! Generated kernels are such loops. Run as a program this times them.
#![allow(missing_docs, unreachable_pub, reason = "a program to look at, not an interface")]
#![allow(clippy::print_stdout, reason = "it prints a table")]

#[cfg(target_arch = "x86_64")]
use std::{hint::black_box, time::Instant};

/// Elements of one call: two such buffers stay in the first level of cache.
#[cfg(target_arch = "x86_64")]
const COUNT: usize = 2048;

/// Declares the loop `for all i: outputs[i] = value(inputs[i])` for every instruction set, in modules named after them.
#[cfg(target_arch = "x86_64")]
macro_rules! loops {
    ($($name:ident: $from:ty => $to:ty, |$x:ident| <$fused:ident> $value:expr;)*) => {
        mod generic {
            use fuse_runtime::{convert, math, random};
            $(
                #[inline(always)]
                pub fn $name<const $fused: bool>(inputs: &[$from], outputs: &mut [$to]) {
                    for (output, input) in outputs.iter_mut().zip(inputs) {
                        let $x = *input;
                        *output = $value;
                    }
                }
            )*
        }

        loops!(module base, "sse2", false, $($name: $from => $to),*);
        loops!(module avx2, "avx2,fma", true, $($name: $from => $to),*);
        loops!(module avx512, "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma", true, $($name: $from => $to),*);

        fn main() {
            let (wide, widest) = (is_x86_feature_detected!("avx2"), is_x86_feature_detected!("avx512dq"));
            println!("| ns for each element | baseline | AVX2 | AVX-512 |\n|---|---|---|---|");
            $({
                let inputs: Vec<$from> = (0..COUNT).map(|i| (i as f32 / COUNT as f32) as $from).collect();
                let mut outputs: Vec<$to> = vec![Default::default(); COUNT];
                print!("| {} |", stringify!($name));
                let loops: [(bool, unsafe fn(&[$from], &mut [$to])); 3] =
                    [(true, base::$name), (wide, avx2::$name), (widest, avx512::$name)];
                // The pointers are hidden from the optimiser, which would inline the first into this.
                for (available, run) in black_box(loops) {
                    if !available {
                        print!(" |");
                        continue;
                    }
                    let mut best = f64::INFINITY;
                    for _ in 0..200 {
                        let start = Instant::now();
                        // SAFETY: the instructions were detected.
                        unsafe { run(black_box(&inputs), black_box(&mut outputs)) };
                        best = best.min(start.elapsed().as_secs_f64());
                    }
                    print!(" {:.2} |", best * 1e9 / COUNT as f64);
                }
                println!();
            })*
        }
    };
    (module $module:ident, $features:literal, $fused:literal, $($name:ident: $from:ty => $to:ty),*) => {
        mod $module {
            $(
                #[inline(never)]
                #[target_feature(enable = $features)]
                pub fn $name(inputs: &[$from], outputs: &mut [$to]) {
                    super::generic::$name::<$fused>(inputs, outputs);
                }
            )*
        }
    };
}

#[cfg(target_arch = "x86_64")]
loops! {
    exp: f32 => f32, |x| <F> math::exp::<F>(x);
    exp2: f32 => f32, |x| <F> math::exp2::<F>(x);
    exp_m1: f32 => f32, |x| <F> math::exp_m1::<F>(x);
    ln: f32 => f32, |x| <F> math::ln::<F>(x);
    log2: f32 => f32, |x| <F> math::log2::<F>(x);
    log10: f32 => f32, |x| <F> math::log10::<F>(x);
    ln_1p: f32 => f32, |x| <F> math::ln_1p::<F>(x);
    sin: f32 => f32, |x| <F> math::sin::<F>(x);
    cos: f32 => f32, |x| <F> math::cos::<F>(x);
    tan: f32 => f32, |x| <F> math::tan::<F>(x);
    asin: f32 => f32, |x| <F> math::asin::<F>(x);
    acos: f32 => f32, |x| <F> math::acos::<F>(x);
    atan: f32 => f32, |x| <F> math::atan::<F>(x);
    atan2: f32 => f32, |x| <F> math::atan2::<F>(x, 0.5 - x);
    sinh: f32 => f32, |x| <F> math::sinh::<F>(x);
    cosh: f32 => f32, |x| <F> math::cosh::<F>(x);
    tanh: f32 => f32, |x| <F> math::tanh::<F>(x);
    asinh: f32 => f32, |x| <F> math::asinh::<F>(x);
    acosh: f32 => f32, |x| <F> math::acosh::<F>(1.0 + x);
    atanh: f32 => f32, |x| <F> math::atanh::<F>(x);
    sigmoid: f32 => f32, |x| <F> math::sigmoid::<F>(x);
    erf: f32 => f32, |x| <F> math::erf::<F>(x);
    erfc: f32 => f32, |x| <F> math::erfc::<F>(x);
    cbrt: f32 => f32, |x| <F> math::cbrt::<F>(x);
    rsqrt: f32 => f32, |x| <F> math::rsqrt::<F>(x);
    powf: f32 => f32, |x| <F> math::powf::<F>(x, 1.5 + x);
    powi_3: f32 => f32, |x| <F> math::powi::<F>(x, 3);
    powi_11: f32 => f32, |x| <F> math::powi::<F>(x, 11);
    powi_100: f32 => f32, |x| <F> math::powi::<F>(x, 100);
    hypot: f32 => f32, |x| <F> math::hypot::<F>(x, 0.5 - x);
    mul_add: f32 => f32, |x| <F> math::mul_add::<F>(x, 1.3, x * x);
    floor: f32 => f32, |x| <F> math::floor::<F>(x);
    ceil: f32 => f32, |x| <F> math::ceil::<F>(x);
    trunc: f32 => f32, |x| <F> math::trunc::<F>(x);
    round: f32 => f32, |x| <F> math::round::<F>(x);
    round_ties_even: f32 => f32, |x| <F> math::round_ties_even::<F>(x);
    fract: f32 => f32, |x| <F> math::fract::<F>(x);
    signum: f32 => f32, |x| <F> math::signum(x);
    max_rust: f32 => f32, |x| <F> math::max_rust(x, 0.3);
    maximum: f32 => f32, |x| <F> math::maximum(x, 0.3);
    cast_to_i8: f32 => i8, |x| <F> convert::cast::<i8, f32>(x);
    cast_to_i16: f32 => i16, |x| <F> convert::cast::<i16, f32>(x);
    cast_to_i32: f32 => i32, |x| <F> convert::cast::<i32, f32>(x);
    cast_to_u8: f32 => u8, |x| <F> convert::cast::<u8, f32>(x);
    cast_to_u16: f32 => u16, |x| <F> convert::cast::<u16, f32>(x);
    cast_to_u32: f32 => u32, |x| <F> convert::cast::<u32, f32>(x);
    f16_to_f32: u16 => f32, |x| <F> convert::f16_to_f32(x);
    f32_to_f16: f32 => u16, |x| <F> convert::f32_to_f16(x);
    f32_to_bf16: f32 => u16, |x| <F> convert::f32_to_bf16(x);
    f8e4m3_to_f32: u8 => f32, |x| <F> convert::f8e4m3_to_f32(x);
    f32_to_f8e4m3: f32 => u8, |x| <F> convert::f32_to_f8e4m3(x);
    f8e5m2_to_f32: u8 => f32, |x| <F> convert::f8e5m2_to_f32(x);
    f32_to_f8e5m2: f32 => u8, |x| <F> convert::f32_to_f8e5m2(x);
    round_to_f16: f32 => f32, |x| <F> convert::round_to_f16(x);
    round_to_bf16: f32 => f32, |x| <F> convert::round_to_bf16(x);
    round_to_f8e4m3: f32 => f32, |x| <F> convert::round_to_f8e4m3(x);
    round_to_f8e5m2: f32 => f32, |x| <F> convert::round_to_f8e5m2(x);
    philox: u64 => f32, |x| <F> random::uniform(random::philox(7, 0, x));
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    println!("this program is about the instruction sets of x86-64");
}
