// The polynomial with these coefficients from the highest power down.
template <int N>
FUSE_DEVICE f32 horner(f32 x, const f32 (&coefficients)[N]) {
    f32 sum = coefficients[0];
#pragma unroll
    for (int k = 1; k < N; ++k) sum = __fmaf_rn(sum, x, coefficients[k]);
    return sum;
}

// The polynomial with these coefficients from the highest power down.
template <int N>
FUSE_DEVICE f64 horner_wide(f64 x, const f64 (&coefficients)[N]) {
    f64 sum = coefficients[0];
#pragma unroll
    for (int k = 1; k < N; ++k) sum = __fma_rn(sum, x, coefficients[k]);
    return sum;
}

// The number whose bits are those of an f64.
FUSE_DEVICE f64 from_bits_wide(u64 bits) {
    return __longlong_as_double(i64(bits));
}

// e^x as power * (1 + result) for |x| below 700.
FUSE_DEVICE f64 reduce_and_exp_m1_wide(f64 x, f64& power) {
    const f64 coefficients[] = {1.93234731431332e-5, 1.9899248614304663e-4, 1.3900481534980078e-3,
        8.333298525294198e-3, 4.166659697906426e-2, 1.6666666718862337e-1, 5.000000010446751e-1};
    f64 shifted = __fma_rn(x, 1.4426950408889634, 6755399441055744.0);
    f64 n = __dsub_rn(shifted, 6755399441055744.0);
    f64 r = __fma_rn(n, -6.931471803691238e-1, x);
    r = __fma_rn(n, -1.908214929270588e-10, r);
    power = from_bits_wide((u64(__double_as_longlong(shifted)) + 1023) << 52);
    return __fma_rn(horner_wide(r, coefficients), __dmul_rn(r, r), r);
}

// e^x for |x| below 700, good to 1e-10.
FUSE_DEVICE f64 exp_wide(f64 x) {
    f64 power, m = reduce_and_exp_m1_wide(x, power);
    return __fma_rn(m, power, power);
}

// e^x - 1 for |x| below 700, good to 1e-10 however small x is.
FUSE_DEVICE f64 exp_m1_wide(f64 x) {
    f64 power, m = reduce_and_exp_m1_wide(x, power);
    return __fma_rn(m, power, __dsub_rn(power, 1.0));
}

// ln m with u + correction = 2^k m and m about one, for positive normal u and a correction below its last bit.
FUSE_DEVICE f64 split_ln_wide(f64 u, f64 correction, f64& k) {
    const f64 coefficients[] = {0.19584693106569775, 0.2217615313818977, 0.285721099571518, 0.39999995614821454,
        0.6666666667581995};
    u64 bits = u64(__double_as_longlong(u)), exponent = bits >> 52;
    f64 m = from_bits_wide((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
    bool upper = m > 1.4142135623730951;
    k = f64(i64(exponent)) - 1023.0 + (upper ? 1.0 : 0.0);
    m = upper ? m * 0.5 : m;
    f64 inverse_power = from_bits_wide((2046 - exponent) << 52) * (upper ? 0.5 : 1.0);
    f64 f = __fma_rn(correction, inverse_power, __dsub_rn(m, 1.0));
    f64 s = __ddiv_rn(f, __dadd_rn(2.0, f)), square = __dmul_rn(s, s);
    return __fma_rn(__dmul_rn(horner_wide(square, coefficients), square), s, __dadd_rn(s, s));
}

// ln(1 + y), good to 1e-13 however small y is.
FUSE_DEVICE f64 ln_1p_wide(f64 y) {
    f64 u = __dadd_rn(1.0, y), k;
    f64 ln_m = split_ln_wide(u, __dsub_rn(y, __dsub_rn(u, 1.0)), k);
    return __fma_rn(k, 0.6931471805599453, ln_m);
}

// log2 of a positive finite x, good to 1e-13.
FUSE_DEVICE f64 log2_wide(f64 x) {
    f64 k, ln_m = split_ln_wide(x, 0.0, k);
    return __fma_rn(ln_m, 1.4426950408889634, k);
}

// The logistic function 1 / (1 + e^-x); what the rounding of the denominator loses is put back.
FUSE_DEVICE f32 sigmoid_f32(f32 x) {
    f32 z = ::expf(-::fabsf(x)), denominator = __fadd_rn(1.0f, z);
    f32 lost = __fsub_rn(z, __fsub_rn(denominator, 1.0f));
    f32 quotient = __fdiv_rn(x < 0.0f ? z : 1.0f, denominator);
    f32 reciprocal = x < 0.0f ? __fsub_rn(1.0f, quotient) : quotient;
    return __fsub_rn(quotient, __fmul_rn(__fmul_rn(quotient, reciprocal), lost));
}

// The logistic function 1 / (1 + e^-x).
FUSE_DEVICE f64 sigmoid_f64(f64 x) {
    f64 z = ::exp(-::fabs(x));
    return __ddiv_rn(x < 0.0 ? z : 1.0, __dadd_rn(1.0, z));
}

// |x| in f64, bounded to what still fits the exponential.
FUSE_DEVICE f64 bounded_magnitude(f32 x) {
    f32 magnitude = ::fabsf(x);
    return f64(magnitude > 100.0f ? 100.0f : magnitude);
}

// The hyperbolic sine.
FUSE_DEVICE f32 sinh_f32(f32 x) {
    f64 m = exp_m1_wide(bounded_magnitude(x));
    return ::copysignf(f32(__dmul_rn(__dadd_rn(m, __ddiv_rn(m, __dadd_rn(m, 1.0))), 0.5)), x);
}

// The inverse hyperbolic sine.
FUSE_DEVICE f32 asinh_f32(f32 x) {
    f64 a = f64(::fabsf(x)), square = __dmul_rn(a, a);
    f64 root = __dsqrt_rn(__dadd_rn(square, 1.0));
    f32 result = f32(ln_1p_wide(__dadd_rn(a, __ddiv_rn(square, __dadd_rn(1.0, root)))));
    return ::copysignf(a < 3.5e38 ? result : ::fabsf(x), x);
}

// The inverse hyperbolic cosine.
FUSE_DEVICE f32 acosh_f32(f32 x) {
    f64 t = __dsub_rn(f64(x), 1.0);
    f64 root = __dsqrt_rn(__dmul_rn(t, __dadd_rn(t, 2.0)));
    f32 result = f32(ln_1p_wide(__dadd_rn(t, root)));
    result = x >= 1.0f ? result : __uint_as_float(0x7fc00000u);
    return t > 3.5e38 ? x : result;
}

// The inverse hyperbolic tangent.
FUSE_DEVICE f32 atanh_f32(f32 x) {
    f64 a = f64(::fabsf(x));
    f32 result = f32(__dmul_rn(0.5, ln_1p_wide(__ddiv_rn(__dadd_rn(a, a), __dsub_rn(1.0, a)))));
    f32 elsewhere = __uint_as_float(a == 1.0 ? 0x7f800000u : 0x7fc00000u);
    return ::copysignf(a < 1.0 ? result : elsewhere, x);
}

// The complement of the error function, down to denormal results.
FUSE_DEVICE f32 erfc_f32(f32 x) {
    const f64 coefficients[] = {-2.6717930151829866e-4, -7.751162293823501e-4, 2.0033550201241502e-3,
        2.5665613719936521e-3, -2.3798539495521912e-2, 6.829574980264032e-2, -0.1192707953584777,
        0.12964643368598654, -4.756240966066159e-2, -0.13562114013071727, 1.253008059216554};
    f32 magnitude = ::fabsf(x);
    f64 bounded = f64(magnitude > 10.2f ? 10.2f : magnitude);
    f64 t = __ddiv_rn(__dsub_rn(bounded, 3.0), __dadd_rn(bounded, 3.0));
    f64 power = exp_wide(__dmul_rn(-bounded, bounded));
    f64 tail = __ddiv_rn(__dmul_rn(power, horner_wide(t, coefficients)), __dadd_rn(1.0, __dmul_rn(2.0, bounded)));
    f64 result = x < 0.0f ? __dsub_rn(2.0, tail) : tail;
    return x != x ? x : f32(result);
}

// The root of x^2 + y^2, infinite if either is, NaN or not.
FUSE_DEVICE f32 hypot_f32(f32 x, f32 y) {
    f32 infinity = __uint_as_float(0x7f800000u);
    f64 wide_x = f64(x), wide_y = f64(y);
    f32 root = f32(__dsqrt_rn(__fma_rn(wide_x, wide_x, __dmul_rn(wide_y, wide_y))));
    return ::fabsf(x) == infinity || ::fabsf(y) == infinity ? infinity : root;
}

// x^y in f64 with the sign apart, with the special values of pow.
FUSE_DEVICE f32 signed_power(f32 x, f64 y, bool y_is_integer, bool y_is_odd) {
    f64 infinity = from_bits_wide(0x7ff0000000000000ull);
    f64 magnitude = f64(::fabsf(x));
    bool finite = magnitude < infinity;
    f64 log = finite ? log2_wide(magnitude) : magnitude;
    log = magnitude == 0.0 ? -infinity : log;
    f64 exponent = log == 0.0 || y == 0.0 ? 0.0 : __dmul_rn(log, y);
    exponent = exponent > 300.0 ? 300.0 : exponent;
    exponent = exponent < -300.0 ? -300.0 : exponent;
    f32 power = f32(exp_wide(__dmul_rn(exponent, 0.6931471805599453)));
    bool is_undefined = x < 0.0f && finite && !y_is_integer && y != 0.0;
    power = is_undefined ? __uint_as_float(0x7fc00000u) : power;
    return __uint_as_float(__float_as_uint(power) ^ (y_is_odd ? __float_as_uint(x) & 0x80000000u : 0u));
}

// x^y.
FUSE_DEVICE f32 powf_f32(f32 x, f32 y) {
    // From 2^24 on every f32 is an even integer.
    f32 even = 16777216.0f;
    bool is_large = ::fabsf(y) >= even;
    i32 whole = __float2int_rz(::fabsf(y) < even ? y : even);
    bool is_integer = is_large || f32(whole) == y;
    return signed_power(x, f64(y), is_integer, is_integer && (whole & 1) != 0);
}

// x^n: by products up to 31, then as powf.
FUSE_DEVICE f32 powi_f32(f32 x, i32 n) {
    u32 count = n < 0 ? 0u - u32(n) : u32(n);
    f32 square = __fmul_rn(x, x);
    if (n == -1) return __fdiv_rn(1.0f, x);
    if (n == 0) return 1.0f;
    if (n == 1) return x;
    if (n == 2) return square;
    if (n == 3) return __fmul_rn(square, x);
    if (n == 4) return __fmul_rn(square, square);
    if (count >= 32) return signed_power(x, f64(n), true, (n & 1) != 0);
    f64 product = 1.0, factor = f64(x);
#pragma unroll
    for (u32 bit = 1; bit < 32; bit <<= 1) {
        product = count & bit ? __dmul_rn(product, factor) : product;
        factor = __dmul_rn(factor, factor);
    }
    return f32(n < 0 ? __ddiv_rn(1.0, product) : product);
}

// x^n.
FUSE_DEVICE f64 powi_f64(f64 x, i32 n) {
    u32 count = n < 0 ? 0u - u32(n) : u32(n);
    f64 product = 1.0, factor = x;
    for (; count != 0; count >>= 1) {
        if (count & 1) product = __dmul_rn(product, factor);
        factor = __dmul_rn(factor, factor);
    }
    return n < 0 ? __ddiv_rn(1.0, product) : product;
}

// x in quarter turns, less `quadrant` of them: within 1/2, for arguments of every size.
FUSE_DEVICE f64 reduce_angle(f32 x, u32& quadrant) {
    const f64 step = 134217728.0, first = 1125899906842624.0, round = 6755399441055744.0;
    f64 a = f64(x), magnitude = f64(::fabsf(x)), inverse = 1.0;
    // 2 / pi times 2^(27 j) modulo 4 in three parts: of large arguments whole turns are left out.
    f64 part_0 = 0.6366197690367699, part_1 = 3.3308114738561656e-9, part_2 = 2.276010073078396e-18;
    if (magnitude >= first) {
        inverse = 1.0 / step;
        part_0 = -0.5529460534453392, part_1 = 2.168126039814311e-9, part_2 = 1.0330342399379403e-17;
    }
    if (magnitude >= first * step) {
        inverse = 1.0 / (step * step);
        part_0 = 1.291000947356224, part_1 = 5.111805381763368e-9, part_2 = 3.0053182646326145e-18;
    }
    if (magnitude >= first * step * step) {
        inverse = 1.0 / (step * step * step);
        part_0 = -1.3139050975441933, part_1 = 2.2660121279383105e-9, part_2 = 1.0688538751642284e-17;
    }
    f64 y = __dmul_rn(a, inverse);
    f64 high = __dmul_rn(y, part_0), middle = __dmul_rn(y, part_1), low = __dmul_rn(y, part_2);
    f64 shifted_high = __dadd_rn(high, round), shifted_middle = __dadd_rn(middle, round);
    f64 rest_high = __dsub_rn(high, __dsub_rn(shifted_high, round));
    f64 rest_middle = __dsub_rn(middle, __dsub_rn(shifted_middle, round));
    f64 fraction = __dadd_rn(rest_high, rest_middle), shifted_fraction = __dadd_rn(fraction, round);
    quadrant = u32(__double2loint(shifted_high)) + u32(__double2loint(shifted_middle))
        + u32(__double2loint(shifted_fraction));
    return __dadd_rn(__dsub_rn(fraction, __dsub_rn(shifted_fraction, round)), low);
}

// The tangent.
FUSE_DEVICE f32 tan_f32(f32 x) {
    const f64 of_sine[] = {-2.4761406805735648e-8, 2.7555354449170818e-6, -1.984126380784272e-4,
        8.33333332524499e-3, -0.1666666666663145};
    const f64 of_cosine[] = {-2.755551948398388e-7, 2.4801580687298655e-5, -1.388888887756602e-3,
        4.166666666659618e-2};
    u32 quadrant;
    f64 r = __dmul_rn(reduce_angle(x, quadrant), 1.5707963267948966), square = __dmul_rn(r, r);
    f64 sine = __fma_rn(__dmul_rn(horner_wide(square, of_sine), square), r, r);
    f64 tail = __fma_rn(square, -0.5, 1.0);
    f64 cosine = __fma_rn(__dmul_rn(horner_wide(square, of_cosine), square), square, tail);
    bool odd = (quadrant & 1) != 0;
    f32 tangent = f32(__ddiv_rn(odd ? -cosine : sine, odd ? sine : cosine));
    return x == 0.0f ? x : tangent;
}

// The angle of the point (x, y), counted from the positive x axis.
FUSE_DEVICE f32 atan2_f32(f32 y, f32 x) {
    const f32 coefficients[] = {-0.0017936357f, 0.010914669f, -0.031177964f, 0.057957713f, -0.08403457f, 0.10952188f,
        -0.14264242f, 0.19998549f, -0.333333f};
    f32 height = ::fabsf(y), width = ::fabsf(x);
    bool steep = height > width, left = __float_as_uint(x) >> 31 != 0;
    f32 q = __fdiv_rn(steep ? width : height, steep ? height : width);
    // Both zero counts as an angle of zero, both infinite as the diagonal; a NaN equals nothing and stays.
    q = height == width ? (height == 0.0f ? 0.0f : 1.0f) : q;
    f32 square = __fmul_rn(q, q);
    f32 p = __fmaf_rn(__fmul_rn(horner(square, coefficients), square), q, q);
    f32 base = steep ? 1.5707964f : left ? 3.1415927f : 0.0f;
    f32 base_low = steep ? -4.371139e-8f : left ? -8.742278e-8f : 0.0f;
    return ::copysignf(__fadd_rn(base, __fadd_rn(steep != left ? -p : p, base_low)), y);
}

// 2^x to about 2 ulp, denormals as 0.
FUSE_DEVICE f32 exp2_fast(f32 x) {
    f32 power;
    asm("ex2.approx.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// The logistic function by approximate instructions.
FUSE_DEVICE f32 sigmoid_fast(f32 x) {
    return __frcp_rn(1.0f + __expf(-x));
}
