// Rust's min: a NaN is ignored, of equal zeros it is b.
template <typename T>
FUSE_DEVICE T min_rust(T a, T b) {
    return b != b || a < b ? a : b;
}

// Rust's max: a NaN is ignored, of equal zeros it is b.
template <typename T>
FUSE_DEVICE T max_rust(T a, T b) {
    return b != b || a > b ? a : b;
}

// The lesser, NaN if either is; of equal zeros it is b.
template <typename T>
FUSE_DEVICE T minimum(T a, T b) {
    return a != a || a < b ? a : b;
}

// The greater, NaN if either is; of equal zeros it is b.
template <typename T>
FUSE_DEVICE T maximum(T a, T b) {
    return a != a || a > b ? a : b;
}

// low below it, high above it, NaN stays.
template <typename T>
FUSE_DEVICE T clamp(T a, T low, T high) {
    T raised = a < low ? low : a;
    return raised > high ? high : raised;
}

// 1 with the sign of a, NaN for NaN.
FUSE_DEVICE f32 signum_f32(f32 a) {
    return a != a ? a : ::copysignf(1.0f, a);
}

// 1 with the sign of a, NaN for NaN.
FUSE_DEVICE f64 signum_f64(f64 a) {
    return a != a ? a : ::copysign(1.0, a);
}

// a / b, rounded so that the remainder is not negative.
FUSE_DEVICE f32 div_euclid_f32(f32 a, f32 b) {
    f32 quotient = ::truncf(__fdiv_rn(a, b));
    if (!(::fmodf(a, b) < 0.0f)) return quotient;
    return b > 0.0f ? __fsub_rn(quotient, 1.0f) : __fadd_rn(quotient, 1.0f);
}

// a / b, rounded so that the remainder is not negative.
FUSE_DEVICE f64 div_euclid_f64(f64 a, f64 b) {
    f64 quotient = ::trunc(__ddiv_rn(a, b));
    if (!(::fmod(a, b) < 0.0)) return quotient;
    return b > 0.0 ? __dsub_rn(quotient, 1.0) : __dadd_rn(quotient, 1.0);
}

// The remainder that is not negative.
FUSE_DEVICE f32 rem_euclid_f32(f32 a, f32 b) {
    f32 rest = ::fmodf(a, b);
    return rest < 0.0f ? __fadd_rn(rest, ::fabsf(b)) : rest;
}

// The remainder that is not negative.
FUSE_DEVICE f64 rem_euclid_f64(f64 a, f64 b) {
    f64 rest = ::fmod(a, b);
    return rest < 0.0 ? __dadd_rn(rest, ::fabs(b)) : rest;
}

// The part after the point.
FUSE_DEVICE f32 fract_f32(f32 a) {
    return __fsub_rn(a, ::truncf(a));
}

// The part after the point.
FUSE_DEVICE f64 fract_f64(f64 a) {
    return __dsub_rn(a, ::trunc(a));
}

// The bits of |a|.
FUSE_DEVICE u32 magnitude_f32(f32 a) {
    return __float_as_uint(a) & 0x7fffffffu;
}

// The bits of |a|.
FUSE_DEVICE u64 magnitude_f64(f64 a) {
    return u64(__double_as_longlong(a)) & 0x7fffffffffffffffull;
}

// Whether a is NaN.
FUSE_DEVICE bool is_nan_f32(f32 a) {
    return magnitude_f32(a) > 0x7f800000u;
}

// Whether a is NaN.
FUSE_DEVICE bool is_nan_f64(f64 a) {
    return magnitude_f64(a) > 0x7ff0000000000000ull;
}

// Whether a is infinite.
FUSE_DEVICE bool is_infinite_f32(f32 a) {
    return magnitude_f32(a) == 0x7f800000u;
}

// Whether a is infinite.
FUSE_DEVICE bool is_infinite_f64(f64 a) {
    return magnitude_f64(a) == 0x7ff0000000000000ull;
}

// Whether a is neither infinite nor NaN.
FUSE_DEVICE bool is_finite_f32(f32 a) {
    return magnitude_f32(a) < 0x7f800000u;
}

// Whether a is neither infinite nor NaN.
FUSE_DEVICE bool is_finite_f64(f64 a) {
    return magnitude_f64(a) < 0x7ff0000000000000ull;
}

// Whether a has a minus sign.
FUSE_DEVICE bool is_sign_negative_f32(f32 a) {
    return __float_as_uint(a) >> 31 != 0;
}

// Whether a has a minus sign.
FUSE_DEVICE bool is_sign_negative_f64(f64 a) {
    return __double_as_longlong(a) < 0;
}

// a as an integer: toward zero, bounded, 0 for NaN.
FUSE_DEVICE i32 f32_to_i32(f32 a) {
    return a != a ? 0 : __float2int_rz(a);
}

// a as an integer: toward zero, bounded, 0 for NaN.
FUSE_DEVICE u32 f32_to_u32(f32 a) {
    return a != a ? 0 : __float2uint_rz(a);
}

// a as an integer: toward zero, bounded, 0 for NaN.
FUSE_DEVICE i64 f32_to_i64(f32 a) {
    return a != a ? 0 : __float2ll_rz(a);
}

// a as an integer: toward zero, bounded, 0 for NaN.
FUSE_DEVICE u64 f32_to_u64(f32 a) {
    return a != a ? 0 : __float2ull_rz(a);
}

// a as an integer: toward zero, bounded, 0 for NaN.
FUSE_DEVICE i32 f64_to_i32(f64 a) {
    return a != a ? 0 : __double2int_rz(a);
}

// a as an integer: toward zero, bounded, 0 for NaN.
FUSE_DEVICE u32 f64_to_u32(f64 a) {
    return a != a ? 0 : __double2uint_rz(a);
}

// a as an integer: toward zero, bounded, 0 for NaN.
FUSE_DEVICE i64 f64_to_i64(f64 a) {
    return a != a ? 0 : __double2ll_rz(a);
}

// a as an integer: toward zero, bounded, 0 for NaN.
FUSE_DEVICE u64 f64_to_u64(f64 a) {
    return a != a ? 0 : __double2ull_rz(a);
}

// a bounded to what the narrower signed T holds.
template <typename T>
FUSE_DEVICE T narrow_signed(i32 a) {
    i32 greatest = i32((1u << (8 * sizeof(T) - 1)) - 1u);
    return T(a > greatest ? greatest : a < -greatest - 1 ? -greatest - 1 : a);
}

// a bounded to what the narrower unsigned T holds.
template <typename T>
FUSE_DEVICE T narrow_unsigned(u32 a) {
    u32 greatest = (1u << (8 * sizeof(T))) - 1u;
    return T(a > greatest ? greatest : a);
}
