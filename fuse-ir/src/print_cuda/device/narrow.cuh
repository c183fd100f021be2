// The bits of a as f16, to nearest even.
FUSE_DEVICE u16 f32_to_f16(f32 a) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(a));
    return bits;
}

// The value of the bits of an f16.
FUSE_DEVICE f32 f16_to_f32(u16 bits) {
    f32 a;
    asm("cvt.f32.f16 %0, %1;" : "=f"(a) : "h"(bits));
    return a;
}

// Two f16, low in the lower half.
FUSE_DEVICE u32 pack_f16(f32 low, f32 high) {
#if __CUDA_ARCH__ >= 800
    u32 bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
#else
    return u32(f32_to_f16(low)) | u32(f32_to_f16(high)) << 16;
#endif
}

// The bits of a as bf16, to nearest even.
FUSE_DEVICE u16 f32_to_bf16(f32 a) {
#if __CUDA_ARCH__ >= 800
    u16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(a));
    return result;
#else
    u32 bits = __float_as_uint(a);
    return a != a ? u16(0x7fff) : u16((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
}

// The value of the bits of a bf16.
FUSE_DEVICE f32 bf16_to_f32(u16 bits) {
    return __uint_as_float(u32(bits) << 16);
}

// Two bf16, low in the lower half.
FUSE_DEVICE u32 pack_bf16(f32 low, f32 high) {
#if __CUDA_ARCH__ >= 800
    u32 bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
#else
    return u32(f32_to_bf16(low)) | u32(f32_to_bf16(high)) << 16;
#endif
}

// The bits of |a| in a format of eight bits with `kept` bits of significand, to nearest even, bounded to the largest
// value. All three are bits of an f32: of the least normal value, of the largest, and of the value whose last place is
// that of the format's denormals.
FUSE_DEVICE u32 round_to_f8(f32 a, u32 kept, u32 normal, u32 largest, u32 unit) {
    u32 bits = __float_as_uint(a) & 0x7fffffffu, dropped = 23u - kept;
    bits = bits < largest ? bits : largest;
    u32 denormal = __float_as_uint(__fadd_rn(__uint_as_float(bits), __uint_as_float(unit))) - unit;
    u32 rounded = (bits + ((1u << (dropped - 1u)) - 1u) + (bits >> dropped & 1u)) >> dropped;
    return bits < normal ? denormal : rounded - ((normal >> dropped) - (1u << kept));
}

// The bits of a as f8e4m3, to nearest even and bounded; NaN stays.
FUSE_DEVICE u8 f32_to_f8e4m3(f32 a) {
#if __CUDA_ARCH__ >= 890
    u16 bits;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0f), "f"(a));
    return u8(bits);
#else
    u32 sign = __float_as_uint(a) >> 24 & 0x80u;
    u32 bits = a != a ? 0x7fu : round_to_f8(a, 3u, 0x3c800000u, 0x43e00000u, 0x46800000u);
    return u8(bits | sign);
#endif
}

// The bits of a as f8e5m2, to nearest even and bounded; NaN stays.
FUSE_DEVICE u8 f32_to_f8e5m2(f32 a) {
#if __CUDA_ARCH__ >= 890
    u16 bits;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0f), "f"(a));
    return u8(bits);
#else
    u32 sign = __float_as_uint(a) >> 24 & 0x80u;
    u32 bits = a != a ? 0x7fu : round_to_f8(a, 2u, 0x38800000u, 0x47600000u, 0x43000000u);
    return u8(bits | sign);
#endif
}

// The same for a store: infinities, which only a load brings here, stay.
FUSE_DEVICE u8 store_f8e5m2(f32 a) {
    u32 sign = __float_as_uint(a) >> 24 & 0x80u;
    return (__float_as_uint(a) & 0x7fffffffu) == 0x7f800000u ? u8(0x7cu | sign) : f32_to_f8e5m2(a);
}

// The value of the bits of an f8e4m3.
FUSE_DEVICE f32 f8e4m3_to_f32(u8 bits) {
    u32 sign = u32(bits & 0x80) << 24, magnitude = u32(bits & 0x7f);
    // One product corrects the bias and makes denormals normal.
    u32 finite = __float_as_uint(__fmul_rn(__uint_as_float(magnitude << 20), __uint_as_float(0x7b800000u)));
    return __uint_as_float((magnitude == 0x7fu ? 0x7fc00000u : finite) | sign);
}

// The value of the bits of an f8e5m2: the upper half of an f16.
FUSE_DEVICE f32 f8e5m2_to_f32(u8 bits) {
    return f16_to_f32(u16(bits << 8));
}

// Four bytes, the first lowest.
FUSE_DEVICE u32 pack_bytes(u8 a, u8 b, u8 c, u8 d) {
    return u32(a) | u32(b) << 8 | u32(c) << 16 | u32(d) << 24;
}

// a rounded to f16.
FUSE_DEVICE f32 round_f16(f32 a) {
    return f16_to_f32(f32_to_f16(a));
}

// a rounded to bf16.
FUSE_DEVICE f32 round_bf16(f32 a) {
    return bf16_to_f32(f32_to_bf16(a));
}

// a rounded to f8e4m3.
FUSE_DEVICE f32 round_f8e4m3(f32 a) {
    return f8e4m3_to_f32(f32_to_f8e4m3(a));
}

// a rounded to f8e5m2.
FUSE_DEVICE f32 round_f8e5m2(f32 a) {
    return f8e5m2_to_f32(f32_to_f8e5m2(a));
}

// a as f32, rounded to odd: rounding that to a narrower format is rounding a once.
FUSE_DEVICE f32 round_to_odd(f64 a) {
    f32 toward_zero = __double2float_rz(a);
    bool inexact = f64(toward_zero) != a && a == a;
    return inexact ? __uint_as_float(__float_as_uint(toward_zero) | 1u) : toward_zero;
}
