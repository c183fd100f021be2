//! f16 and bf16 by their bits. Equal to the `half` crate for every input, except that a NaN that is narrowed keeps its
//! sign but not its payload.

/// f16 to f32: exact for every input.
#[inline(always)]
pub fn f16_to_f32(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let shifted = u32::from(half & 0x7fff) << 13;
    // One multiplication by 2^112 corrects the bias, and makes denormals normal.
    let finite = (f32::from_bits(shifted) * f32::from_bits(0x7780_0000)).to_bits();
    let bits = if half & 0x7c00 == 0x7c00 { shifted | 0x7f80_0000 } else { finite };
    f32::from_bits(bits | sign)
}

/// f32 to f16: to nearest, ties to even; beyond 65504 by half a step or more to infinity.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // A normal result: the bias changed, and rounded in the integers.
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_sub(0x3800_0000).wrapping_add(0xfff).wrapping_add(odd) >> 13;
    // A denormal one: the last place of 1/2 is that of the f16 denormals, so the addition rounds.
    let denormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let half = if magnitude < 0x3880_0000 { denormal } else { normal };
    let half = if magnitude >= 0x477f_f000 { 0x7c00 } else { half };
    let half = if magnitude > 0x7f80_0000 { 0x7e00 } else { half };
    (half | sign) as u16
}

/// bf16 to f32: exact for every input.
#[inline(always)]
pub fn bf16_to_f32(brain: u16) -> f32 {
    f32::from_bits(u32::from(brain) << 16)
}

/// f32 to bf16: to nearest, ties to even.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u16 {
    (round_to_bf16(x).to_bits() >> 16) as u16
}

/// `x` rounded to f16 and widened again.
#[inline(always)]
pub fn round_to_f16(x: f32) -> f32 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_add(0xfff).wrapping_add(odd) & !0x1fff;
    let denormal = ((f32::from_bits(magnitude) + 0.5) - 0.5).to_bits();
    let rounded = if magnitude < 0x3880_0000 { denormal } else { normal };
    let rounded = if magnitude >= 0x477f_f000 { 0x7f80_0000 } else { rounded };
    let rounded = if magnitude > 0x7f80_0000 { 0x7fc0_0000 } else { rounded };
    f32::from_bits(rounded | (bits & 0x8000_0000))
}

/// `x` rounded to bf16 and widened again.
#[inline(always)]
pub fn round_to_bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    let odd = (bits >> 16) & 1;
    let rounded = bits.wrapping_add(0x7fff).wrapping_add(odd) & 0xffff_0000;
    let nan = (bits & 0x8000_0000) | 0x7fc0_0000;
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { rounded })
}
