// causal_f32: g0: weights of 64 rows and 64 keys at a time, 64 columns, rows kept in shared memory
// grid ((h * max(ceil_div(e, 64), 1)) * ceil_div(s, 64)) * max((min((multiprocessors + 1) - ((h * (ceil_div(s, 64) * max(ceil_div(e, 64), 1))) * 2), 1) * min(131073 - ((h * s) * ceil_div(t, 512)), 1)) * ceil_div(t, max(ceil_div(t, 32768) * 512, 512)), 1) x 1 x 1, block 256 x 1 x 1, max((((8704 + (ceil_div(((ceil_div(d, 16) * 16) * 68) * 4, 16) * 16)) + 17408) + 17408) + 16, 18432) + 256 bytes of shared memory
// compile with --fmad=false

using f32 = float;
using i64 = long long;
using u32 = unsigned int;
using u64 = unsigned long long;

#define FUSE_DEVICE static __device__ __forceinline__

namespace fuse {

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

// a / b of sizes rounded up, 0 if b is 0.
FUSE_DEVICE u64 size_ceil_div(u64 a, u64 b) {
    return b == 0 ? 0 : a / b + (a % b != 0);
}

// The greater, NaN if either is; of equal zeros it is b.
template <typename T>
FUSE_DEVICE T maximum(T a, T b) {
    return a != a || a > b ? a : b;
}

// The bits of |a|.
FUSE_DEVICE u32 magnitude_f32(f32 a) {
    return __float_as_uint(a) & 0x7fffffffu;
}

// Whether a is neither infinite nor NaN.
FUSE_DEVICE bool is_finite_f32(f32 a) {
    return magnitude_f32(a) < 0x7f800000u;
}

// Stores two numbers as one of twice their size: a vector the compiler takes apart, and does not always store as one again.
// (NVRTC knows numbers of 16 bytes by --device-int128.)
template <class T>
FUSE_DEVICE void store_2(void* to, T a, T b) {
    if constexpr (sizeof(T) == 4) {
        *static_cast<u64*>(to) = u64(reinterpret_cast<const u32&>(a)) | u64(reinterpret_cast<const u32&>(b)) << 32;
    } else {
        using whole = unsigned __int128;
        *static_cast<whole*>(to) = whole(reinterpret_cast<const u64&>(a)) | whole(reinterpret_cast<const u64&>(b)) << 64;
    }
}

// Stores four numbers of 4 bytes as one.
template <class T>
FUSE_DEVICE void store_4(void* to, T a, T b, T c, T d) {
    const u64 low = u64(reinterpret_cast<const u32&>(a)) | u64(reinterpret_cast<const u32&>(b)) << 32;
    const u64 high = u64(reinterpret_cast<const u32&>(c)) | u64(reinterpret_cast<const u32&>(d)) << 32;
    store_2<u64>(to, low, high);
}

}  // namespace fuse

extern "C" __global__ void __launch_bounds__(256)
fuse_causal_f32(
    u32 h,
    u32 s,
    u32 e,
    u32 t,
    u32 d,
    f32* __restrict__ scratch,
    f32* __restrict__ scratch_2,
    f32* __restrict__ scratch_3,
    f32 scale,
    u32 q_stride_h,
    u32 q_stride_s,
    u32 q_stride_d,
    const f32* __restrict__ q,
    u32 v_stride_h,
    u32 v_stride_t,
    u32 v_stride_e,
    const f32* __restrict__ v,
    u32 k_stride_h,
    u32 k_stride_t,
    u32 k_stride_d,
    const f32* __restrict__ k,
    u32 out_stride_h,
    u32 out_stride_s,
    u32 out_stride_e,
    f32* __restrict__ out,
    u32 multiprocessors) {
    extern __shared__ __align__(128) unsigned char shared[];
    f32* const right_tile = reinterpret_cast<f32*>(shared + 4352);
    f32* const rows_tile = reinterpret_cast<f32*>(shared + 8704);
    f32* const weights_tile = reinterpret_cast<f32*>(shared + 8704ull + fuse::size_ceil_div(fuse::size_ceil_div(u64(d), 16ull) * 16ull * 68ull * 4ull, 16ull) * 16ull);
    f32* const values_tile = reinterpret_cast<f32*>(shared + 8704ull + fuse::size_ceil_div(fuse::size_ceil_div(u64(d), 16ull) * 16ull * 68ull * 4ull, 16ull) * 16ull + 17408ull);
    u32* const again_2 = reinterpret_cast<u32*>(shared + 8704ull + fuse::size_ceil_div(fuse::size_ceil_div(u64(d), 16ull) * 16ull * 68ull * 4ull, 16ull) * 16ull + 17408ull + 17408ull);
    f32* const products_tile = reinterpret_cast<f32*>(shared);
    f32* const of_rows = reinterpret_cast<f32*>(shared + fuse::max_integer<u64>(8704ull + fuse::size_ceil_div(fuse::size_ceil_div(u64(d), 16ull) * 16ull * 68ull * 4ull, 16ull) * 16ull + 17408ull + 17408ull + 16ull, 18432ull));
    const u32 row_tiles = (s + 63u) / 64u;
    const u32 column_tiles = fuse::max_integer<u32>((e + 63u) / 64u, 1u);
    const u32 keys_of_range = fuse::max_integer<u32>((t + 32767u) / 32768u * 512u, 512u);
    const u32 all_rows = h * s;
    const u32 whole = fuse::max_integer<u32>(row_tiles * column_tiles * h, 1u);
    const u32 range = fuse::div_unsigned<u32>(blockIdx.x, whole);
    const u32 number = fuse::rem_unsigned<u32>(blockIdx.x, whole);
    const bool is_split = 1u < fuse::div_unsigned<u32>(gridDim.x, whole);
    const u32 ranges = fuse::div_unsigned<u32>(gridDim.x, whole);
    const u32 first_of_range = range * keys_of_range;
    const u32 end_of_range = is_split ? fuse::min_integer<u32>(first_of_range + keys_of_range, t) : t;
    const u32 first_row = fuse::rem_unsigned<u32>(number, row_tiles) * 64u;
    const u32 rest = fuse::div_unsigned<u32>(number, row_tiles);
    const u32 first_column = fuse::rem_unsigned<u32>(rest, column_tiles) * 64u;
    const u32 batch = fuse::div_unsigned<u32>(rest, column_tiles);
    const bool has_keys = !(t == 0u);
    f32 products[16] = {};
    f32 greatest[4] = {__uint_as_float(0xff800000u), __uint_as_float(0xff800000u), __uint_as_float(0xff800000u), __uint_as_float(0xff800000u)};
    f32 row_max[4] = {__uint_as_float(0xff800000u), __uint_as_float(0xff800000u), __uint_as_float(0xff800000u), __uint_as_float(0xff800000u)};
    f32 row_sum[4] = {};
    f32 excluded[4] = {};
    f32 scale_2[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    bool again = false;
    if (threadIdx.x == 0u) {
        again_2[0u] = 0u;
    }
    f32 of_row[4] = {};
#pragma unroll 1
    for (u32 round = 0u; round < 2u; ++round) {
        if (round == 0u || again) {
#pragma unroll
            for (u32 slot = 0u; slot < 16u; ++slot) {
                products[slot] = 0.0f;
            }
#pragma unroll 1
            for (u32 first_depth = 0u; first_depth < d; first_depth += 16u) {
                const u32 first_line = first_depth * 68u;
#pragma unroll 4
                for (u32 part = 0u; part < 4u; ++part) {
                    const u32 number_2 = threadIdx.x + part * 256u;
                    const u32 line = number_2 % 16u;
                    const u32 at = number_2 / 16u;
                    const u32 position = first_row + at;
                    const u32 position_2 = first_depth + line;
                    const bool inside = position < s && position_2 < d;
                    const f32 q_value = inside ? q[batch * q_stride_h + position * q_stride_s + position_2 * q_stride_d] : 0.0f;
                    rows_tile[line * 68u + (first_line + at)] = q_value;
                }
            }
#pragma unroll 1
            for (u32 first_key = first_of_range; first_key < end_of_range; first_key += 64u) {
                __syncthreads();
#pragma unroll 4
                for (u32 part_2 = 0u; part_2 < 16u; ++part_2) {
                    const u32 number_3 = threadIdx.x + part_2 * 256u;
                    const u32 line_2 = number_3 / 64u;
                    const u32 at_2 = number_3 % 64u;
                    const u32 position_3 = first_column + at_2;
                    const u32 position_4 = first_key + line_2;
                    const bool inside_2 = position_3 < e && position_4 < t;
                    const f32 v_value = inside_2 ? v[batch * v_stride_h + position_4 * v_stride_t + position_3 * v_stride_e] : 0.0f;
                    values_tile[line_2 * 68u + at_2] = v_value;
                }
                const i64 first = i64(first_row);
                const i64 last = i64(fuse::min_integer<u32>(first_row + 63u, s - 1u));
                const i64 first_2 = i64(first_key);
                const i64 last_2 = i64(fuse::min_integer<u32>(first_key + 63u, t - 1u));
                const bool always = first >= last_2;
                const bool never = last < first_2;
                const bool is_excluded = round == 0u && never;
                if (is_excluded) {
                    __syncthreads();
#pragma unroll
                    for (u32 i_7 = 0u; i_7 < 4u; ++i_7) {
                        f32 value_2[4];
                        {
                            const float4 loaded = *reinterpret_cast<float4*>(&values_tile[(threadIdx.x / 16u * 4u + i_7) * 68u + threadIdx.x % 16u * 4u]);
                            value_2[0] = loaded.x;
                            value_2[1] = loaded.y;
                            value_2[2] = loaded.z;
                            value_2[3] = loaded.w;
                        }
#pragma unroll
                        for (u32 j_9 = 0u; j_9 < 4u; ++j_9) {
                            excluded[j_9] = excluded[j_9] + value_2[j_9] * 0.0f;
                        }
                    }
                } else {
                    f32 scores[16] = {};
#pragma unroll 1
                    for (u32 first_depth_2 = 0u; first_depth_2 < d; first_depth_2 += 16u) {
#pragma unroll 4
                        for (u32 part_3 = 0u; part_3 < 4u; ++part_3) {
                            const u32 number_4 = threadIdx.x + part_3 * 256u;
                            const u32 line_3 = number_4 % 16u;
                            const u32 at_3 = number_4 / 16u;
                            const u32 position_5 = first_key + at_3;
                            const u32 position_6 = first_depth_2 + line_3;
                            const bool inside_3 = position_5 < t && position_6 < d;
                            const f32 k_value = inside_3 ? k[batch * k_stride_h + position_5 * k_stride_t + position_6 * k_stride_d] : 0.0f;
                            right_tile[line_3 * 68u + (at_3 % 16u * 4u + at_3 / 16u)] = k_value;
                        }
                        __syncthreads();
#pragma unroll 4
                        for (u32 line_4 = 0u; line_4 < 16u; ++line_4) {
                            f32 left[4];
                            f32 right[4];
                            {
                                const float4 loaded = *reinterpret_cast<float4*>(&rows_tile[(first_depth_2 + line_4) * 68u + threadIdx.x / 16u * 4u]);
                                left[0] = loaded.x;
                                left[1] = loaded.y;
                                left[2] = loaded.z;
                                left[3] = loaded.w;
                            }
                            {
                                const float4 loaded = *reinterpret_cast<float4*>(&right_tile[line_4 * 68u + threadIdx.x % 16u * 4u]);
                                right[0] = loaded.x;
                                right[1] = loaded.y;
                                right[2] = loaded.z;
                                right[3] = loaded.w;
                            }
#pragma unroll
                            for (u32 j = 0u; j < 4u; ++j) {
#pragma unroll
                                for (u32 i = 0u; i < 4u; ++i) {
                                    scores[j * 4u + i] = __fmaf_rn(left[i], right[j], scores[j * 4u + i]);
                                }
                            }
                        }
                        __syncthreads();
                    }
                    f32 select[16];
                    const i64 first_3 = i64(first_row);
                    const i64 last_3 = i64(fuse::min_integer<u32>(first_row + 63u, s - 1u));
                    const i64 first_4 = i64(first_key);
                    const i64 last_4 = i64(fuse::min_integer<u32>(first_key + 63u, t - 1u));
                    const bool always_2 = first_3 >= last_4;
                    const bool never_2 = last_3 < first_4;
                    const bool is_admitted = always_2 && first_key + 64u <= t;
                    if (is_admitted) {
#pragma unroll
                        for (u32 i_2 = 0u; i_2 < 4u; ++i_2) {
#pragma unroll
                            for (u32 j_2 = 0u; j_2 < 4u; ++j_2) {
                                const f32 mul = scores[j_2 * 4u + i_2] * scale;
                                select[j_2 * 4u + i_2] = mul;
                            }
                        }
                    } else {
#pragma unroll
                        for (u32 i_3 = 0u; i_3 < 4u; ++i_3) {
                            const u32 row = first_row + (threadIdx.x / 16u * 4u + i_3);
                            const bool is_row = row < s;
#pragma unroll
                            for (u32 j_3 = 0u; j_3 < 4u; ++j_3) {
                                const u32 key = first_key + (threadIdx.x % 16u + j_3 * 16u);
                                const bool is_key = key < t;
                                const bool inside_4 = is_row && is_key;
                                const i64 position_7 = i64(row);
                                const i64 position_8 = i64(key);
                                const bool ge = position_7 >= position_8;
                                const f32 mul_2 = scores[j_3 * 4u + i_3] * scale;
                                const f32 select_2 = ge ? mul_2 : __uint_as_float(0xff800000u);
                                select[j_3 * 4u + i_3] = is_key ? select_2 : __uint_as_float(0xff800000u);
                            }
                        }
                    }
                    f32 shift[4];
#pragma unroll
                    for (u32 i_4 = 0u; i_4 < 4u; ++i_4) {
                        const f32 before = greatest[i_4];
                        f32 most = before;
#pragma unroll
                        for (u32 j_4 = 0u; j_4 < 4u; ++j_4) {
                            most = fuse::maximum<f32>(most, select[j_4 * 4u + i_4]);
                        }
                        const f32 own = most;
                        const f32 other = __shfl_xor_sync(0xffffffffu, own, 1, 16);
                        const f32 own_2 = fuse::maximum<f32>(own, other);
                        const f32 other_2 = __shfl_xor_sync(0xffffffffu, own_2, 2, 16);
                        const f32 own_3 = fuse::maximum<f32>(own_2, other_2);
                        const f32 other_3 = __shfl_xor_sync(0xffffffffu, own_3, 4, 16);
                        const f32 own_4 = fuse::maximum<f32>(own_3, other_3);
                        const f32 other_4 = __shfl_xor_sync(0xffffffffu, own_4, 8, 16);
                        const f32 of_all = fuse::maximum<f32>(own_4, other_4);
                        const f32 shifted_by = of_all == __uint_as_float(0xff800000u) ? 0.0f : of_all == __uint_as_float(0x7f800000u) ? 3.4028235e38f : of_all;
                        const f32 factor = before == of_all || before == __uint_as_float(0xff800000u) || !(round == 0u) ? 1.0f : ::expf((before == __uint_as_float(0xff800000u) ? 0.0f : before == __uint_as_float(0x7f800000u) ? 3.4028235e38f : before) - shifted_by);
                        greatest[i_4] = of_all;
                        row_sum[i_4] = row_sum[i_4] * factor;
#pragma unroll
                        for (u32 j_5 = 0u; j_5 < 4u; ++j_5) {
                            products[i_4 * 4u + j_5] = products[i_4 * 4u + j_5] * factor;
                        }
                        shift[i_4] = shifted_by;
                    }
#pragma unroll
                    for (u32 i_5 = 0u; i_5 < 4u; ++i_5) {
                        const u32 row_2 = first_row + (threadIdx.x / 16u * 4u + i_5);
                        const bool is_row_2 = row_2 < s;
#pragma unroll
                        for (u32 j_6 = 0u; j_6 < 4u; ++j_6) {
                            const u32 key_2 = first_key + (threadIdx.x % 16u + j_6 * 16u);
                            const bool is_key_2 = key_2 < t;
                            const f32 exponential = ::expf(select[j_6 * 4u + i_5] - shift[i_5]);
                            row_sum[i_5] = row_sum[i_5] + exponential;
                            select[j_6 * 4u + i_5] = exponential * scale_2[i_5];
                        }
                    }
#pragma unroll
                    for (u32 j_7 = 0u; j_7 < 4u; ++j_7) {
                        fuse::store_4<f32>(&weights_tile[(threadIdx.x % 16u + j_7 * 16u) * 68u + threadIdx.x / 16u * 4u], select[j_7 * 4u], select[j_7 * 4u + 1u], select[j_7 * 4u + 2u], select[j_7 * 4u + 3u]);
                    }
                    __syncthreads();
#pragma unroll 4
                    for (u32 key_3 = 0u; key_3 < 64u; ++key_3) {
                        f32 weight[4];
                        f32 value[4];
                        {
                            const float4 loaded = *reinterpret_cast<float4*>(&weights_tile[key_3 * 68u + threadIdx.x / 16u * 4u]);
                            weight[0] = loaded.x;
                            weight[1] = loaded.y;
                            weight[2] = loaded.z;
                            weight[3] = loaded.w;
                        }
                        {
                            const float4 loaded = *reinterpret_cast<float4*>(&values_tile[key_3 * 68u + threadIdx.x % 16u * 4u]);
                            value[0] = loaded.x;
                            value[1] = loaded.y;
                            value[2] = loaded.z;
                            value[3] = loaded.w;
                        }
#pragma unroll
                        for (u32 i_6 = 0u; i_6 < 4u; ++i_6) {
#pragma unroll
                            for (u32 j_8 = 0u; j_8 < 4u; ++j_8) {
                                products[i_6 * 4u + j_8] = __fmaf_rn(weight[i_6], value[j_8], products[i_6 * 4u + j_8]);
                            }
                        }
                    }
                }
            }
            if (round == 0u) {
                __syncthreads();
#pragma unroll
                for (u32 j_10 = 0u; j_10 < 4u; ++j_10) {
                    values_tile[threadIdx.x / 16u * 4u / 4u * 68u + (threadIdx.x % 16u * 4u + j_10)] = excluded[j_10];
                }
                __syncthreads();
#pragma unroll 1
                for (u32 line_5 = 0u; line_5 < 16u; ++line_5) {
#pragma unroll
                    for (u32 j_11 = 0u; j_11 < 4u; ++j_11) {
                        const f32 more = values_tile[line_5 * 68u + (threadIdx.x % 16u * 4u + j_11)];
#pragma unroll
                        for (u32 i_8 = 0u; i_8 < 4u; ++i_8) {
                            products[i_8 * 4u + j_11] = products[i_8 * 4u + j_11] + more;
                        }
                    }
                }
#pragma unroll
                for (u32 i_9 = 0u; i_9 < 4u; ++i_9) {
                    const f32 own_5 = row_sum[i_9];
                    const f32 other_5 = __shfl_xor_sync(0xffffffffu, own_5, 1, 16);
                    const f32 own_6 = own_5 + other_5;
                    const f32 other_6 = __shfl_xor_sync(0xffffffffu, own_6, 2, 16);
                    const f32 own_7 = own_6 + other_6;
                    const f32 other_7 = __shfl_xor_sync(0xffffffffu, own_7, 4, 16);
                    const f32 own_8 = own_7 + other_7;
                    const f32 other_8 = __shfl_xor_sync(0xffffffffu, own_8, 8, 16);
                    const f32 of_all_2 = own_8 + other_8;
                    row_sum[i_9] = of_all_2;
                }
                if (!is_split) {
#pragma unroll
                    for (u32 i_10 = 0u; i_10 < 4u; ++i_10) {
                        const u32 row_3 = first_row + (threadIdx.x / 16u * 4u + i_10);
                        const bool is_row_3 = row_3 < s;
                        const bool eq = greatest[i_10] == __uint_as_float(0xff800000u);
                        const f32 select_3 = eq ? 0.0f : greatest[i_10];
                        const f32 sub = (greatest[i_10] == __uint_as_float(0xff800000u) ? 0.0f : greatest[i_10] == __uint_as_float(0x7f800000u) ? 3.4028235e38f : greatest[i_10]) - select_3;
                        const f32 exp = ::expf(sub);
                        const f32 mul_3 = exp * row_sum[i_10];
                        const bool eq_2 = mul_3 == 0.0f;
                        const f32 select_4 = eq_2 ? 1.0f : mul_3;
                        const f32 div = exp / select_4;
                        of_row[i_10] = div;
                        const bool leads = is_row_3 && threadIdx.x % 16u == 0u && first_column == 0u;
                    }
                    bool lost = false;
#pragma unroll
                    for (u32 i_11 = 0u; i_11 < 4u; ++i_11) {
                        bool is_kept = ::fabsf(of_row[i_11]) < 4294967300.0f;
#pragma unroll
                        for (u32 j_12 = 0u; j_12 < 4u; ++j_12) {
                            is_kept = is_kept && fuse::is_finite_f32(products[i_11 * 4u + j_12]);
                        }
                        lost = lost || (first_row + (threadIdx.x / 16u * 4u + i_11) < s && !is_kept);
                    }
                    __syncthreads();
                    if (lost) ::atomicOr(&again_2[0u], 1u);
                    __syncthreads();
                    const u32 found = again_2[0u];
                    again = found == 1u;
#pragma unroll
                    for (u32 i_12 = 0u; i_12 < 4u; ++i_12) {
                        scale_2[i_12] = again ? of_row[i_12] : 1.0f;
                    }
                }
            }
        }
    }
    if (!is_split) {
        __syncthreads();
#pragma unroll
        for (u32 i_13 = 0u; i_13 < 4u; ++i_13) {
            const u32 row_4 = threadIdx.x / 16u * 4u + i_13;
#pragma unroll
            for (u32 part_4 = 0u; part_4 < 1u; ++part_4) {
                fuse::store_4<f32>(&products_tile[row_4 * 72u + (threadIdx.x % 16u * 4u + part_4 * 4u)], products[i_13 * 4u + part_4 * 4u], products[i_13 * 4u + part_4 * 4u + 1u], products[i_13 * 4u + part_4 * 4u + 2u], products[i_13 * 4u + part_4 * 4u + 3u]);
            }
            if (threadIdx.x % 16u == 0u) {
                of_rows[row_4] = of_row[i_13];
            }
        }
        __syncthreads();
#pragma unroll 4
        for (u32 part_5 = 0u; part_5 < 16u; ++part_5) {
            const u32 number_5 = threadIdx.x + part_5 * 256u;
            const u32 line_6 = number_5 / 64u;
            const u32 at_4 = number_5 % 64u;
            const f32 product = products_tile[line_6 * 72u + at_4];
            const f32 of_row_2 = of_rows[line_6];
            const u32 row_5 = first_row + line_6;
            const bool is_row_4 = row_5 < s;
            const u32 column = first_column + at_4;
            const bool inside_5 = is_row_4 && column < e;
            const f32 mul_4 = product * (again ? 1.0f : of_row_2);
            if (inside_5) {
                out[batch * out_stride_h + row_5 * out_stride_s + column * out_stride_e] = mul_4;
            }
        }
    }
    if (is_split) {
#pragma unroll
        for (u32 i_14 = 0u; i_14 < 4u; ++i_14) {
            const u32 row_6 = first_row + (threadIdx.x / 16u * 4u + i_14);
            const bool is_row_5 = row_6 < s;
            const u32 line_7 = range * all_rows + batch * s + row_6;
            const bool leads_2 = is_row_5 && threadIdx.x % 16u == 0u && first_column == 0u;
            if (leads_2) {
                scratch_2[line_7] = greatest[i_14];
            }
            if (leads_2) {
                scratch_3[line_7] = row_sum[i_14];
            }
#pragma unroll
            for (u32 j_13 = 0u; j_13 < 4u; ++j_13) {
                const u32 column_2 = first_column + (threadIdx.x % 16u * 4u + j_13);
                if (is_row_5 && column_2 < e) {
                    scratch[line_7 * e + column_2] = products[i_14 * 4u + j_13];
                }
            }
        }
    }
}
