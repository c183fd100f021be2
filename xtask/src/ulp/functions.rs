//! The functions under measurement and their references.

use super::BLOCK;
use fuse_runtime::math;

/// A unary f32 function in both builds, over a block.
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) fused: fn(&[f32; BLOCK], &mut [f32; BLOCK]),
    pub(super) plain: fn(&[f32; BLOCK], &mut [f32; BLOCK]),
    pub(super) reference: fn(f64) -> f64,
}

/// Compiles a loop over a function with and without fused multiply-add. The second is baseline code, as on a processor
/// without the instruction.
macro_rules! functions {
    ($($name:ident = $reference:expr;)*) => {
        pub(super) const FUNCTIONS: &[Function] = &[$(Function {
            name: stringify!($name),
            fused: {
                #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
                fn fused(inputs: &[f32; BLOCK], outputs: &mut [f32; BLOCK]) {
                    for (output, input) in outputs.iter_mut().zip(inputs) {
                        *output = math::$name::<true>(*input);
                    }
                }
                |inputs, outputs| {
                    // SAFETY: the task checks for the instructions before it measures anything.
                    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_unsafe, reason = "no features elsewhere"))]
                    unsafe { fused(inputs, outputs) }
                }
            },
            plain: |inputs, outputs| {
                for (output, input) in outputs.iter_mut().zip(inputs) {
                    *output = math::$name::<false>(*input);
                }
            },
            reference: $reference,
        }),*];
    };
}

functions! {
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
    sigmoid = math::sigmoid_f64;
    erf = libm::erf;
    erfc = libm::erfc;
    cbrt = f64::cbrt;
    rsqrt = |x| 1.0 / x.sqrt();
}
