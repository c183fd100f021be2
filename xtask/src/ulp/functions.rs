//! The functions under measurement and their references.

use super::BLOCK;
use fuse_runtime::math;

/// What `f(-x)` is, bit for bit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Symmetry {
    /// Nothing that follows from `f(x)`.
    None,
    /// `-f(x)`.
    Odd,
    /// `f(x)`.
    Even,
}

/// A unary f32 function in both builds, over a block.
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) symmetry: Symmetry,
    pub(super) fused: fn(&[f32; BLOCK], &mut [f32; BLOCK]),
    pub(super) plain: fn(&[f32; BLOCK], &mut [f32; BLOCK]),
    pub(super) reference: fn(f64) -> f64,
}

/// Compiles a loop over a function with and without fused multiply-add. The second is baseline code, as on a processor
/// without the instruction.
macro_rules! functions {
    ($($name:ident: $symmetry:ident = $reference:expr;)*) => {
        pub(super) const FUNCTIONS: &[Function] = &[$(Function {
            name: stringify!($name),
            symmetry: Symmetry::$symmetry,
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
    exp: None = f64::exp;
    exp2: None = f64::exp2;
    exp_m1: None = f64::exp_m1;
    ln: None = f64::ln;
    log2: None = f64::log2;
    log10: None = f64::log10;
    ln_1p: None = f64::ln_1p;
    sin: Odd = f64::sin;
    cos: Even = f64::cos;
    tan: Odd = f64::tan;
    asin: Odd = f64::asin;
    acos: None = f64::acos;
    atan: Odd = f64::atan;
    sinh: Odd = f64::sinh;
    cosh: Even = f64::cosh;
    tanh: Odd = f64::tanh;
    asinh: Odd = libm::asinh;
    acosh: None = f64::acosh;
    atanh: Odd = libm::atanh;
    sigmoid: None = math::sigmoid_f64;
    erf: Odd = libm::erf;
    erfc: None = libm::erfc;
    cbrt: Odd = f64::cbrt;
    rsqrt: None = |x| 1.0 / x.sqrt();
}
