// a / b rounded toward zero: 0 if b is 0, and the least number by -1 is itself.
template <typename T>
FUSE_DEVICE T div_signed(T a, T b) {
    return b == T(0) ? T(0) : b == T(-1) ? T(0 - u64(a)) : T(a / b);
}

// What div_signed leaves; it has the sign of a.
template <typename T>
FUSE_DEVICE T rem_signed(T a, T b) {
    return b == T(0) || b == T(-1) ? T(0) : T(a % b);
}

// a / b, 0 if b is 0.
template <typename T>
FUSE_DEVICE T div_unsigned(T a, T b) {
    return b == T(0) ? T(0) : T(a / b);
}

// a % b, 0 if b is 0.
template <typename T>
FUSE_DEVICE T rem_unsigned(T a, T b) {
    return b == T(0) ? T(0) : T(a % b);
}

// a / b, rounded so that the remainder is not negative.
template <typename T>
FUSE_DEVICE T div_euclid(T a, T b) {
    T quotient = div_signed<T>(a, b);
    if (rem_signed<T>(a, b) >= T(0)) return quotient;
    return b > T(0) ? T(quotient - 1) : T(quotient + 1);
}

// The remainder that is not negative.
template <typename T>
FUSE_DEVICE T rem_euclid(T a, T b) {
    T rest = rem_signed<T>(a, b);
    if (rest >= T(0)) return rest;
    return T(u64(rest) + (b < T(0) ? 0 - u64(b) : u64(b)));
}

// b, noting a fault if it is 0.
template <typename T>
FUSE_DEVICE T divisor(T b, bool& fault) {
    fault = fault || b == T(0);
    return b;
}

// c ? a : b, with both evaluated.
template <typename T>
FUSE_DEVICE T select(bool c, T a, T b) {
    return c ? a : b;
}

// a to the power of n, wrapping.
template <typename T>
FUSE_DEVICE T pow_wrapping(T a, u32 n) {
    u64 result = 1, factor = u64(a);
    for (; n != 0; n >>= 1) {
        if (n & 1) result *= factor;
        factor *= factor;
    }
    return T(result);
}

// The lesser.
template <typename T>
FUSE_DEVICE T min_integer(T a, T b) {
    return a < b ? a : b;
}

// The greater.
template <typename T>
FUSE_DEVICE T max_integer(T a, T b) {
    return a > b ? a : b;
}

// |a|; of the least number itself.
template <typename T>
FUSE_DEVICE T abs_signed(T a) {
    return a < T(0) ? T(0 - u64(a)) : a;
}

// -1, 0 or 1.
template <typename T>
FUSE_DEVICE T signum_signed(T a) {
    return T((a > T(0)) - (a < T(0)));
}

// |a - b|.
template <typename T>
FUSE_DEVICE T abs_diff(T a, T b) {
    return a < b ? T(b - a) : T(a - b);
}

// The greatest number of T if a is not negative, else the least.
template <typename T>
FUSE_DEVICE T bound_signed(T a) {
    u64 greatest = (u64(1) << (8 * sizeof(T) - 1)) - 1;
    return a < T(0) ? T(greatest + 1) : T(greatest);
}

// a + b, bounded instead of wrapped.
template <typename T>
FUSE_DEVICE T saturating_add_signed(T a, T b) {
    T sum = T(u64(a) + u64(b));
    return T((a ^ sum) & (b ^ sum)) < T(0) ? bound_signed<T>(a) : sum;
}

// a - b, bounded instead of wrapped.
template <typename T>
FUSE_DEVICE T saturating_sub_signed(T a, T b) {
    T difference = T(u64(a) - u64(b));
    return T((a ^ b) & (a ^ difference)) < T(0) ? bound_signed<T>(a) : difference;
}

// a + b, bounded instead of wrapped.
template <typename T>
FUSE_DEVICE T saturating_add_unsigned(T a, T b) {
    T sum = T(a + b);
    return sum < a ? T(~T(0)) : sum;
}

// a - b, bounded instead of wrapped.
template <typename T>
FUSE_DEVICE T saturating_sub_unsigned(T a, T b) {
    return a < b ? T(0) : T(a - b);
}

// a - b of sizes, at least 0.
FUSE_DEVICE u64 size_sub(u64 a, u64 b) {
    return a < b ? 0 : a - b;
}

// a / b of sizes rounded up, 0 if b is 0.
FUSE_DEVICE u64 size_ceil_div(u64 a, u64 b) {
    return b == 0 ? 0 : a / b + (a % b != 0);
}

// Word index % 4 of Philox4x32-10 at counter (index / 4, stream) under the key seed.
FUSE_DEVICE u32 philox(u64 seed, u64 stream, i64 index) {
    u64 block = u64(index) / 4;
    u32 c0 = u32(block), c1 = u32(block >> 32), c2 = u32(stream), c3 = u32(stream >> 32);
    u32 key0 = u32(seed), key1 = u32(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        u64 a = u64(c0) * 0xD2511F53u, b = u64(c2) * 0xCD9E8D57u;
        c0 = u32(b >> 32) ^ c1 ^ key0;
        c1 = u32(b);
        c2 = u32(a >> 32) ^ c3 ^ key1;
        c3 = u32(a);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    u32 word = u32(index) & 3u;
    return word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
}
