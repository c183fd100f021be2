// causal_f16: g0: weights of 64 rows and 64 keys at a time, 64 columns, tensor cores
// grid ((h * max(ceil_div(e, 64), 1)) * ceil_div(s, 64)) * max((min((multiprocessors + 1) - ((h * (ceil_div(s, 64) * max(ceil_div(e, 64), 1))) * 2), 1) * min(131073 - ((h * s) * ceil_div(t, 512)), 1)) * ceil_div(t, max(ceil_div(t, 32768) * 512, 512)), 1) x 1 x 1, block 128 x 1 x 1, 41232 bytes of shared memory
// compile with --fmad=false

using f32 = float;
using i64 = long long;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using f16 = unsigned short;  // its bits

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

// The greater, NaN if either is; of equal zeros it is b.
template <typename T>
FUSE_DEVICE T maximum(T a, T b) {
    return a != a || a > b ? a : b;
}

// The bits of |a|.
FUSE_DEVICE u32 magnitude_f32(f32 a) {
    return __float_as_uint(a) & 0x7fffffffu;
}

// Whether a is infinite.
FUSE_DEVICE bool is_infinite_f32(f32 a) {
    return magnitude_f32(a) == 0x7f800000u;
}

// Whether a is neither infinite nor NaN.
FUSE_DEVICE bool is_finite_f32(f32 a) {
    return magnitude_f32(a) < 0x7f800000u;
}

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

// a rounded to f16.
FUSE_DEVICE f32 round_f16(f32 a) {
    return f16_to_f32(f32_to_f16(a));
}

// The address of shared memory as instructions take it.
FUSE_DEVICE u32 shared_address(const void* pointer) {
    return u32(__cvta_generic_to_shared(pointer));
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

// A copy to shared memory without the instruction for it: the first `valid` bytes are copied, the rest is zero.
template <int BYTES>
FUSE_DEVICE void copy_now(void* to, const void* from, u32 valid) {
    for (u32 k = 0; k < BYTES; ++k) {
        static_cast<u8*>(to)[k] = k < valid ? static_cast<const u8*>(from)[k] : u8(0);
    }
}

// Copies 16 bytes to shared memory in the background: the first `valid` from memory, the rest are zero.
FUSE_DEVICE void copy_async_16(void* to, const void* from, u32 valid) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(valid) : "memory");
#else
    copy_now<16>(to, from, valid);
#endif
}

// Closes the group of copies.
FUSE_DEVICE void commit_async() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most PENDING groups of copies are in flight.
template <int PENDING>
FUSE_DEVICE void wait_async() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

// Four matrices of 8 x 8 16-bit elements, spread over the warp.
FUSE_DEVICE void load_matrix_x4(u32& a, u32& b, u32& c, u32& d, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(shared_address(row)) : "memory");
}

// Four matrices of 8 x 8 16-bit elements, transposed and spread over the warp.
FUSE_DEVICE void load_matrix_x4_transposed(u32& a, u32& b, u32& c, u32& d, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(shared_address(row)) : "memory");
}

// D = A * B + C on tensor cores, 16 x 8 x 16.
FUSE_DEVICE void mma_m16n8k16_f16(f32& d0, f32& d1, f32& d2, f32& d3, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, f32 c0, f32 c1, f32 c2, f32 c3) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(c0), "f"(c1), "f"(c2), "f"(c3));
}

// D = A * B + C on tensor cores, 16 x 8 x 8.
FUSE_DEVICE void mma_m16n8k8_tf32(f32& d0, f32& d1, f32& d2, f32& d3, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, f32 c0, f32 c1, f32 c2, f32 c3) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(c0), "f"(c1), "f"(c2), "f"(c3));
}

}  // namespace fuse

extern "C" __global__ void __launch_bounds__(128, 2)
fuse_causal_f16(
    u32 h,
    u32 s,
    u32 e,
    u32 t,
    u32 d,
    f32* __restrict__ scratch,
    f32* __restrict__ scratch_2,
    f32* __restrict__ scratch_3,
    f32 scale,
    u32 architecture,
    const f16* __restrict__ q,
    u32 q_stride_h,
    u32 q_stride_s,
    u32 q_stride_d,
    const f16* __restrict__ k,
    u32 k_stride_h,
    u32 k_stride_t,
    u32 k_stride_d,
    const f16* __restrict__ v,
    u32 v_stride_h,
    u32 v_stride_t,
    u32 v_stride_e,
    u32 out_stride_h,
    u32 out_stride_s,
    u32 out_stride_e,
    f16* __restrict__ out,
    u32 multiprocessors) {
    const u32 warp = threadIdx.x / 32u;
    const u32 lane = threadIdx.x % 32u;
    extern __shared__ __align__(128) unsigned char shared[];
    f16* const rows_tile = reinterpret_cast<f16*>(shared);
    f16* const key_tiles = reinterpret_cast<f16*>(shared + 8192);
    f16* const value_tiles = reinterpret_cast<f16*>(shared + 24576);
    f32* const excluded_tile = reinterpret_cast<f32*>(shared + 8192);
    u32* const again_2 = reinterpret_cast<u32*>(shared + 40960);
    f32* const products_tile = reinterpret_cast<f32*>(shared);
    f32* const of_rows = reinterpret_cast<f32*>(shared + 40976);
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
    f32 products[32] = {};
    f32 greatest[2] = {__uint_as_float(0xff800000u), __uint_as_float(0xff800000u)};
    f32 row_max[2] = {__uint_as_float(0xff800000u), __uint_as_float(0xff800000u)};
    f32 row_sum[2] = {};
    f32 excluded[8] = {};
    f32 scale_2[2] = {1.0f, 1.0f};
    bool again = false;
#pragma unroll
    for (u32 part = 0u; part < 4u; ++part) {
        const u32 chunk = threadIdx.x + part * 128u;
        const u32 line = chunk / 8u;
        const u32 part_of_line = chunk % 8u;
        const u32 position = first_row + line;
        const u32 first = part_of_line * 8u;
        fuse::copy_async_16(&rows_tile[line * 64u + (part_of_line ^ (line & 7u)) * 8u], &q[batch * q_stride_h + position * q_stride_s + first], position < s && first < d ? 16u : 0u);
    }
    if (threadIdx.x == 0u) {
        again_2[0u] = 0u;
    }
    f32 of_row[2] = {};
#pragma unroll 1
    for (u32 round = 0u; round < 2u; ++round) {
        if (round == 0u || again) {
#pragma unroll
            for (u32 slot = 0u; slot < 32u; ++slot) {
                products[slot] = 0.0f;
            }
            bool is_excluded = false;
#pragma unroll 1
            for (u32 next = first_of_range; next < end_of_range + 64u; next += 64u) {
                const i64 first_2 = i64(first_row);
                const i64 last = i64(fuse::min_integer<u32>(first_row + 63u, s - 1u));
                const i64 first_3 = i64(next);
                const i64 last_2 = i64(fuse::min_integer<u32>(next + 63u, t - 1u));
                const bool always = first_2 >= last_2;
                const bool never = last < first_3;
                const bool excludes_next = round == 0u && never;
                if (next < end_of_range) {
                    if (!excludes_next) {
                        const u32 stage = ((next / 64u) & 1u) * 4096u;
#pragma unroll
                        for (u32 part_2 = 0u; part_2 < 4u; ++part_2) {
                            const u32 chunk_2 = threadIdx.x + part_2 * 128u;
                            const u32 line_2 = chunk_2 / 8u;
                            const u32 part_of_line_2 = chunk_2 % 8u;
                            const u32 position_2 = next + line_2;
                            const u32 first_4 = part_of_line_2 * 8u;
                            fuse::copy_async_16(&key_tiles[stage + (line_2 * 64u + (part_of_line_2 ^ (line_2 & 7u)) * 8u)], &k[batch * k_stride_h + position_2 * k_stride_t + first_4], position_2 < t && first_4 < d ? 16u : 0u);
                        }
                    }
                    const u32 stage_2 = ((next / 64u) & 1u) * 4096u;
#pragma unroll
                    for (u32 part_3 = 0u; part_3 < 4u; ++part_3) {
                        const u32 chunk_3 = threadIdx.x + part_3 * 128u;
                        const u32 line_3 = chunk_3 / 8u;
                        const u32 part_of_line_3 = chunk_3 % 8u;
                        const u32 position_3 = next + line_3;
                        const u32 first_5 = first_column + part_of_line_3 * 8u;
                        fuse::copy_async_16(&value_tiles[stage_2 + (line_3 * 64u + (part_of_line_3 ^ (line_3 & 7u)) * 8u)], &v[batch * v_stride_h + position_3 * v_stride_t + first_5], position_3 < t && first_5 < e ? 16u : 0u);
                    }
                }
                fuse::commit_async();
                if (next >= first_of_range + 64u) {
                    fuse::wait_async<1>();
                    __syncthreads();
                    const u32 first_key = next - 64u;
                    if (is_excluded) {
                        const u32 stage_5 = ((first_key / 64u) & 1u) * 4096u;
#pragma unroll
                        for (u32 part_4 = 0u; part_4 < 4u; ++part_4) {
                            const u32 chunk_4 = threadIdx.x + part_4 * 128u;
                            f32 value[8];
                            {
                                const uint4 loaded = *reinterpret_cast<uint4*>(&value_tiles[stage_5 + (chunk_4 / 8u * 64u + ((chunk_4 % 8u) ^ ((chunk_4 / 8u) & 7u)) * 8u)]);
                                value[0] = fuse::f16_to_f32(u16(loaded.x));
                                value[1] = fuse::f16_to_f32(u16(loaded.x >> 16));
                                value[2] = fuse::f16_to_f32(u16(loaded.y));
                                value[3] = fuse::f16_to_f32(u16(loaded.y >> 16));
                                value[4] = fuse::f16_to_f32(u16(loaded.z));
                                value[5] = fuse::f16_to_f32(u16(loaded.z >> 16));
                                value[6] = fuse::f16_to_f32(u16(loaded.w));
                                value[7] = fuse::f16_to_f32(u16(loaded.w >> 16));
                            }
#pragma unroll
                            for (u32 j_6 = 0u; j_6 < 8u; ++j_6) {
                                excluded[j_6] = excluded[j_6] + value[j_6] * 0.0f;
                            }
                        }
                    } else {
                        const u32 stage_3 = ((first_key / 64u) & 1u) * 4096u;
                        f32 scores[32] = {};
#pragma unroll
                        for (u32 pair = 0u; pair < 2u; ++pair) {
                            u32 row_operands[8];
                            fuse::load_matrix_x4(row_operands[0], row_operands[1], row_operands[2], row_operands[3], &rows_tile[(warp * 16u + (lane & 15u)) * 64u + ((pair * 2u * 2u + (lane >> 4u)) ^ ((warp * 16u + (lane & 15u)) & 7u)) * 8u]);
                            fuse::load_matrix_x4(row_operands[4], row_operands[5], row_operands[6], row_operands[7], &rows_tile[(warp * 16u + (lane & 15u)) * 64u + (((pair * 2u + 1u) * 2u + (lane >> 4u)) ^ ((warp * 16u + (lane & 15u)) & 7u)) * 8u]);
#pragma unroll
                            for (u32 key_block = 0u; key_block < 8u; ++key_block) {
                                u32 key_operands[4];
                                fuse::load_matrix_x4(key_operands[0], key_operands[1], key_operands[2], key_operands[3], &key_tiles[stage_3 + ((key_block * 8u + (lane & 7u)) * 64u + ((pair * 4u + (lane >> 3u)) ^ ((key_block * 8u + (lane & 7u)) & 7u)) * 8u)]);
                                fuse::mma_m16n8k16_f16(scores[key_block * 4u], scores[key_block * 4u + 1u], scores[key_block * 4u + 2u], scores[key_block * 4u + 3u], row_operands[0], row_operands[1], row_operands[2], row_operands[3], key_operands[0], key_operands[1], scores[key_block * 4u], scores[key_block * 4u + 1u], scores[key_block * 4u + 2u], scores[key_block * 4u + 3u]);
                                fuse::mma_m16n8k16_f16(scores[key_block * 4u], scores[key_block * 4u + 1u], scores[key_block * 4u + 2u], scores[key_block * 4u + 3u], row_operands[4], row_operands[5], row_operands[6], row_operands[7], key_operands[2], key_operands[3], scores[key_block * 4u], scores[key_block * 4u + 1u], scores[key_block * 4u + 2u], scores[key_block * 4u + 3u]);
                            }
                        }
                        f32 select[32];
                        const i64 first_6 = i64(first_row);
                        const i64 last_3 = i64(fuse::min_integer<u32>(first_row + 63u, s - 1u));
                        const i64 first_7 = i64(first_key);
                        const i64 last_4 = i64(fuse::min_integer<u32>(first_key + 63u, t - 1u));
                        const bool always_2 = first_6 >= last_4;
                        const bool never_2 = last_3 < first_7;
                        const bool is_admitted = always_2 && first_key + 64u <= t;
                        if (is_admitted) {
#pragma unroll
                            for (u32 i = 0u; i < 2u; ++i) {
#pragma unroll
                                for (u32 j = 0u; j < 16u; ++j) {
                                    const f32 mul = scores[j / 2u * 4u + i * 2u + j % 2u] * scale;
                                    select[j / 2u * 4u + i * 2u + j % 2u] = mul;
                                }
                            }
                        } else {
#pragma unroll
                            for (u32 i_2 = 0u; i_2 < 2u; ++i_2) {
                                const u32 row = first_row + (warp * 16u + lane / 4u + i_2 * 8u);
                                const bool is_row = row < s;
#pragma unroll
                                for (u32 j_2 = 0u; j_2 < 16u; ++j_2) {
                                    const u32 key = first_key + (j_2 / 2u * 8u + lane % 4u * 2u + j_2 % 2u);
                                    const bool is_key = key < t;
                                    const bool inside = is_row && is_key;
                                    const i64 position_4 = i64(row);
                                    const i64 position_5 = i64(key);
                                    const bool ge = position_4 >= position_5;
                                    const f32 mul_2 = scores[j_2 / 2u * 4u + i_2 * 2u + j_2 % 2u] * scale;
                                    const f32 select_2 = ge ? mul_2 : __uint_as_float(0xff800000u);
                                    select[j_2 / 2u * 4u + i_2 * 2u + j_2 % 2u] = is_key ? select_2 : __uint_as_float(0xff800000u);
                                }
                            }
                        }
                        f32 shift[2];
#pragma unroll
                        for (u32 i_3 = 0u; i_3 < 2u; ++i_3) {
                            const f32 before = greatest[i_3];
                            f32 most = before;
#pragma unroll
                            for (u32 j_3 = 0u; j_3 < 16u; ++j_3) {
                                most = fuse::maximum<f32>(most, select[j_3 / 2u * 4u + i_3 * 2u + j_3 % 2u]);
                            }
                            const f32 own = most;
                            const f32 other = __shfl_xor_sync(0xffffffffu, own, 1, 4);
                            const f32 own_2 = fuse::maximum<f32>(own, other);
                            const f32 other_2 = __shfl_xor_sync(0xffffffffu, own_2, 2, 4);
                            const f32 of_all = fuse::maximum<f32>(own_2, other_2);
                            const f32 shifted_by = of_all == __uint_as_float(0xff800000u) ? 0.0f : of_all == __uint_as_float(0x7f800000u) ? 3.4028235e38f : of_all;
                            const f32 factor = before == of_all || before == __uint_as_float(0xff800000u) || !(round == 0u) ? 1.0f : ::expf((before == __uint_as_float(0xff800000u) ? 0.0f : before == __uint_as_float(0x7f800000u) ? 3.4028235e38f : before) - shifted_by);
                            greatest[i_3] = of_all;
                            row_sum[i_3] = row_sum[i_3] * factor;
#pragma unroll
                            for (u32 j_4 = 0u; j_4 < 16u; ++j_4) {
                                products[j_4 / 2u * 4u + i_3 * 2u + j_4 % 2u] = products[j_4 / 2u * 4u + i_3 * 2u + j_4 % 2u] * factor;
                            }
                            shift[i_3] = shifted_by;
                        }
#pragma unroll
                        for (u32 i_4 = 0u; i_4 < 2u; ++i_4) {
                            const u32 row_2 = first_row + (warp * 16u + lane / 4u + i_4 * 8u);
                            const bool is_row_2 = row_2 < s;
#pragma unroll
                            for (u32 j_5 = 0u; j_5 < 16u; ++j_5) {
                                const u32 key_2 = first_key + (j_5 / 2u * 8u + lane % 4u * 2u + j_5 % 2u);
                                const bool is_key_2 = key_2 < t;
                                const f32 exponential = ::expf(select[j_5 / 2u * 4u + i_4 * 2u + j_5 % 2u] - shift[i_4]);
                                row_sum[i_4] = row_sum[i_4] + exponential;
                                select[j_5 / 2u * 4u + i_4 * 2u + j_5 % 2u] = exponential * scale_2[i_4];
                            }
                        }
                        const u32 stage_4 = ((first_key / 64u) & 1u) * 4096u;
#pragma unroll
                        for (u32 key_step = 0u; key_step < 4u; ++key_step) {
                            u32 weights_high[4];
                            u32 weights_low[4];
                            const f32 weight = select[key_step * 2u * 4u];
                            const u32 high = __float_as_uint(weight) & 4294959104u;
                            const u32 low = fuse::is_infinite_f32(weight) ? 0u : (__float_as_uint(weight - __uint_as_float(high)) + 4096u) & 4294959104u;
                            weights_high[0] = high;
                            weights_low[0] = low;
                            const f32 weight_2 = select[key_step * 2u * 4u + 2u];
                            const u32 high_2 = __float_as_uint(weight_2) & 4294959104u;
                            const u32 low_2 = fuse::is_infinite_f32(weight_2) ? 0u : (__float_as_uint(weight_2 - __uint_as_float(high_2)) + 4096u) & 4294959104u;
                            weights_high[1] = high_2;
                            weights_low[1] = low_2;
                            const f32 weight_3 = select[key_step * 2u * 4u + 1u];
                            const u32 high_3 = __float_as_uint(weight_3) & 4294959104u;
                            const u32 low_3 = fuse::is_infinite_f32(weight_3) ? 0u : (__float_as_uint(weight_3 - __uint_as_float(high_3)) + 4096u) & 4294959104u;
                            weights_high[2] = high_3;
                            weights_low[2] = low_3;
                            const f32 weight_4 = select[key_step * 2u * 4u + 2u + 1u];
                            const u32 high_4 = __float_as_uint(weight_4) & 4294959104u;
                            const u32 low_4 = fuse::is_infinite_f32(weight_4) ? 0u : (__float_as_uint(weight_4 - __uint_as_float(high_4)) + 4096u) & 4294959104u;
                            weights_high[3] = high_4;
                            weights_low[3] = low_4;
                            u32 weights_high_2[4];
                            u32 weights_low_2[4];
                            const f32 weight_5 = select[(key_step * 2u + 1u) * 4u];
                            const u32 high_5 = __float_as_uint(weight_5) & 4294959104u;
                            const u32 low_5 = fuse::is_infinite_f32(weight_5) ? 0u : (__float_as_uint(weight_5 - __uint_as_float(high_5)) + 4096u) & 4294959104u;
                            weights_high_2[0] = high_5;
                            weights_low_2[0] = low_5;
                            const f32 weight_6 = select[(key_step * 2u + 1u) * 4u + 2u];
                            const u32 high_6 = __float_as_uint(weight_6) & 4294959104u;
                            const u32 low_6 = fuse::is_infinite_f32(weight_6) ? 0u : (__float_as_uint(weight_6 - __uint_as_float(high_6)) + 4096u) & 4294959104u;
                            weights_high_2[1] = high_6;
                            weights_low_2[1] = low_6;
                            const f32 weight_7 = select[(key_step * 2u + 1u) * 4u + 1u];
                            const u32 high_7 = __float_as_uint(weight_7) & 4294959104u;
                            const u32 low_7 = fuse::is_infinite_f32(weight_7) ? 0u : (__float_as_uint(weight_7 - __uint_as_float(high_7)) + 4096u) & 4294959104u;
                            weights_high_2[2] = high_7;
                            weights_low_2[2] = low_7;
                            const f32 weight_8 = select[(key_step * 2u + 1u) * 4u + 2u + 1u];
                            const u32 high_8 = __float_as_uint(weight_8) & 4294959104u;
                            const u32 low_8 = fuse::is_infinite_f32(weight_8) ? 0u : (__float_as_uint(weight_8 - __uint_as_float(high_8)) + 4096u) & 4294959104u;
                            weights_high_2[3] = high_8;
                            weights_low_2[3] = low_8;
#pragma unroll
                            for (u32 column_pair = 0u; column_pair < 4u; ++column_pair) {
                                u32 value_pairs[4];
                                fuse::load_matrix_x4_transposed(value_pairs[0], value_pairs[1], value_pairs[2], value_pairs[3], &value_tiles[stage_4 + ((key_step * 16u + (lane & 15u)) * 64u + ((column_pair * 2u + (lane >> 4u)) ^ ((key_step * 16u + (lane & 15u)) & 7u)) * 8u)]);
                                u32 value_operands[2];
                                value_operands[0] = __float_as_uint(fuse::f16_to_f32(u16(value_pairs[0])));
                                value_operands[1] = __float_as_uint(fuse::f16_to_f32(u16(value_pairs[0] >> 16)));
                                fuse::mma_m16n8k8_tf32(products[column_pair * 2u * 4u], products[column_pair * 2u * 4u + 1u], products[column_pair * 2u * 4u + 2u], products[column_pair * 2u * 4u + 3u], weights_high[0], weights_high[1], weights_high[2], weights_high[3], value_operands[0], value_operands[1], products[column_pair * 2u * 4u], products[column_pair * 2u * 4u + 1u], products[column_pair * 2u * 4u + 2u], products[column_pair * 2u * 4u + 3u]);
                                fuse::mma_m16n8k8_tf32(products[column_pair * 2u * 4u], products[column_pair * 2u * 4u + 1u], products[column_pair * 2u * 4u + 2u], products[column_pair * 2u * 4u + 3u], weights_low[0], weights_low[1], weights_low[2], weights_low[3], value_operands[0], value_operands[1], products[column_pair * 2u * 4u], products[column_pair * 2u * 4u + 1u], products[column_pair * 2u * 4u + 2u], products[column_pair * 2u * 4u + 3u]);
                                u32 value_operands_2[2];
                                value_operands_2[0] = __float_as_uint(fuse::f16_to_f32(u16(value_pairs[1])));
                                value_operands_2[1] = __float_as_uint(fuse::f16_to_f32(u16(value_pairs[1] >> 16)));
                                fuse::mma_m16n8k8_tf32(products[column_pair * 2u * 4u], products[column_pair * 2u * 4u + 1u], products[column_pair * 2u * 4u + 2u], products[column_pair * 2u * 4u + 3u], weights_high_2[0], weights_high_2[1], weights_high_2[2], weights_high_2[3], value_operands_2[0], value_operands_2[1], products[column_pair * 2u * 4u], products[column_pair * 2u * 4u + 1u], products[column_pair * 2u * 4u + 2u], products[column_pair * 2u * 4u + 3u]);
                                fuse::mma_m16n8k8_tf32(products[column_pair * 2u * 4u], products[column_pair * 2u * 4u + 1u], products[column_pair * 2u * 4u + 2u], products[column_pair * 2u * 4u + 3u], weights_low_2[0], weights_low_2[1], weights_low_2[2], weights_low_2[3], value_operands_2[0], value_operands_2[1], products[column_pair * 2u * 4u], products[column_pair * 2u * 4u + 1u], products[column_pair * 2u * 4u + 2u], products[column_pair * 2u * 4u + 3u]);
                                u32 value_operands_3[2];
                                value_operands_3[0] = __float_as_uint(fuse::f16_to_f32(u16(value_pairs[2])));
                                value_operands_3[1] = __float_as_uint(fuse::f16_to_f32(u16(value_pairs[2] >> 16)));
                                fuse::mma_m16n8k8_tf32(products[(column_pair * 2u + 1u) * 4u], products[(column_pair * 2u + 1u) * 4u + 1u], products[(column_pair * 2u + 1u) * 4u + 2u], products[(column_pair * 2u + 1u) * 4u + 3u], weights_high[0], weights_high[1], weights_high[2], weights_high[3], value_operands_3[0], value_operands_3[1], products[(column_pair * 2u + 1u) * 4u], products[(column_pair * 2u + 1u) * 4u + 1u], products[(column_pair * 2u + 1u) * 4u + 2u], products[(column_pair * 2u + 1u) * 4u + 3u]);
                                fuse::mma_m16n8k8_tf32(products[(column_pair * 2u + 1u) * 4u], products[(column_pair * 2u + 1u) * 4u + 1u], products[(column_pair * 2u + 1u) * 4u + 2u], products[(column_pair * 2u + 1u) * 4u + 3u], weights_low[0], weights_low[1], weights_low[2], weights_low[3], value_operands_3[0], value_operands_3[1], products[(column_pair * 2u + 1u) * 4u], products[(column_pair * 2u + 1u) * 4u + 1u], products[(column_pair * 2u + 1u) * 4u + 2u], products[(column_pair * 2u + 1u) * 4u + 3u]);
                                u32 value_operands_4[2];
                                value_operands_4[0] = __float_as_uint(fuse::f16_to_f32(u16(value_pairs[3])));
                                value_operands_4[1] = __float_as_uint(fuse::f16_to_f32(u16(value_pairs[3] >> 16)));
                                fuse::mma_m16n8k8_tf32(products[(column_pair * 2u + 1u) * 4u], products[(column_pair * 2u + 1u) * 4u + 1u], products[(column_pair * 2u + 1u) * 4u + 2u], products[(column_pair * 2u + 1u) * 4u + 3u], weights_high_2[0], weights_high_2[1], weights_high_2[2], weights_high_2[3], value_operands_4[0], value_operands_4[1], products[(column_pair * 2u + 1u) * 4u], products[(column_pair * 2u + 1u) * 4u + 1u], products[(column_pair * 2u + 1u) * 4u + 2u], products[(column_pair * 2u + 1u) * 4u + 3u]);
                                fuse::mma_m16n8k8_tf32(products[(column_pair * 2u + 1u) * 4u], products[(column_pair * 2u + 1u) * 4u + 1u], products[(column_pair * 2u + 1u) * 4u + 2u], products[(column_pair * 2u + 1u) * 4u + 3u], weights_low_2[0], weights_low_2[1], weights_low_2[2], weights_low_2[3], value_operands_4[0], value_operands_4[1], products[(column_pair * 2u + 1u) * 4u], products[(column_pair * 2u + 1u) * 4u + 1u], products[(column_pair * 2u + 1u) * 4u + 2u], products[(column_pair * 2u + 1u) * 4u + 3u]);
                            }
                        }
                    }
                    __syncthreads();
                }
                is_excluded = excludes_next;
            }
            fuse::wait_async<0>();
            if (round == 0u) {
                __syncthreads();
#pragma unroll
                for (u32 part_5 = 0u; part_5 < 2u; ++part_5) {
                    fuse::store_4<f32>(&excluded_tile[threadIdx.x / 8u * 64u + threadIdx.x % 8u * 8u + part_5 * 4u], excluded[part_5 * 4u], excluded[part_5 * 4u + 1u], excluded[part_5 * 4u + 2u], excluded[part_5 * 4u + 3u]);
                }
                __syncthreads();
#pragma unroll 1
                for (u32 line_4 = 0u; line_4 < 16u; ++line_4) {
#pragma unroll
                    for (u32 j_7 = 0u; j_7 < 16u; ++j_7) {
                        const f32 more = excluded_tile[line_4 * 64u + (j_7 / 2u * 8u + lane % 4u * 2u + j_7 % 2u)];
#pragma unroll
                        for (u32 i_5 = 0u; i_5 < 2u; ++i_5) {
                            products[j_7 / 2u * 4u + i_5 * 2u + j_7 % 2u] = products[j_7 / 2u * 4u + i_5 * 2u + j_7 % 2u] + more;
                        }
                    }
                }
                __syncthreads();
#pragma unroll
                for (u32 i_6 = 0u; i_6 < 2u; ++i_6) {
                    const f32 own_3 = row_sum[i_6];
                    const f32 other_3 = __shfl_xor_sync(0xffffffffu, own_3, 1, 4);
                    const f32 own_4 = own_3 + other_3;
                    const f32 other_4 = __shfl_xor_sync(0xffffffffu, own_4, 2, 4);
                    const f32 of_all_2 = own_4 + other_4;
                    row_sum[i_6] = of_all_2;
                }
                if (!is_split) {
#pragma unroll
                    for (u32 i_7 = 0u; i_7 < 2u; ++i_7) {
                        const u32 row_3 = first_row + (warp * 16u + lane / 4u + i_7 * 8u);
                        const bool is_row_3 = row_3 < s;
                        const bool eq = greatest[i_7] == __uint_as_float(0xff800000u);
                        const f32 select_3 = eq ? 0.0f : greatest[i_7];
                        const f32 sub = (greatest[i_7] == __uint_as_float(0xff800000u) ? 0.0f : greatest[i_7] == __uint_as_float(0x7f800000u) ? 3.4028235e38f : greatest[i_7]) - select_3;
                        const f32 exp = ::expf(sub);
                        const f32 mul_3 = exp * row_sum[i_7];
                        const bool eq_2 = mul_3 == 0.0f;
                        const f32 select_4 = eq_2 ? 1.0f : mul_3;
                        const f32 div = exp / select_4;
                        of_row[i_7] = div;
                        const bool leads = is_row_3 && threadIdx.x % 4u == 0u && first_column == 0u;
                    }
                    bool lost = false;
#pragma unroll
                    for (u32 i_8 = 0u; i_8 < 2u; ++i_8) {
                        bool is_kept = ::fabsf(of_row[i_8]) < 4294967300.0f;
#pragma unroll
                        for (u32 j_8 = 0u; j_8 < 16u; ++j_8) {
                            is_kept = is_kept && fuse::is_finite_f32(products[j_8 / 2u * 4u + i_8 * 2u + j_8 % 2u]);
                        }
                        lost = lost || (first_row + (warp * 16u + lane / 4u + i_8 * 8u) < s && !is_kept);
                    }
                    __syncthreads();
                    if (lost) ::atomicOr(&again_2[0u], 1u);
                    __syncthreads();
                    const u32 found = again_2[0u];
                    again = found == 1u;
#pragma unroll
                    for (u32 i_9 = 0u; i_9 < 2u; ++i_9) {
                        scale_2[i_9] = again ? of_row[i_9] : 1.0f;
                    }
                }
            }
        }
    }
    if (!is_split) {
        __syncthreads();
#pragma unroll
        for (u32 i_10 = 0u; i_10 < 2u; ++i_10) {
            const u32 row_4 = warp * 16u + lane / 4u + i_10 * 8u;
#pragma unroll
            for (u32 part_6 = 0u; part_6 < 8u; ++part_6) {
                fuse::store_2<f32>(&products_tile[row_4 * 72u + (part_6 * 2u / 2u * 8u + lane % 4u * 2u + part_6 * 2u % 2u)], products[part_6 * 2u / 2u * 4u + i_10 * 2u + part_6 * 2u % 2u], products[part_6 * 2u / 2u * 4u + i_10 * 2u + part_6 * 2u % 2u + 1u]);
            }
            if (threadIdx.x % 4u == 0u) {
                of_rows[row_4] = of_row[i_10];
            }
        }
        __syncthreads();
#pragma unroll 4
        for (u32 part_7 = 0u; part_7 < 32u; ++part_7) {
            const u32 number_2 = threadIdx.x + part_7 * 128u;
            const u32 line_5 = number_2 / 64u;
            const u32 at = number_2 % 64u;
            const f32 product = products_tile[line_5 * 72u + at];
            const f32 of_row_2 = of_rows[line_5];
            const u32 row_5 = first_row + line_5;
            const bool is_row_4 = row_5 < s;
            const u32 column = first_column + at;
            const bool inside_2 = is_row_4 && column < e;
            const f32 mul_4 = product * (again ? 1.0f : of_row_2);
            const f32 as_f16 = fuse::round_f16(mul_4);
            if (inside_2) {
                out[batch * out_stride_h + row_5 * out_stride_s + column * out_stride_e] = fuse::f32_to_f16(as_f16);
            }
        }
    }
    if (is_split) {
#pragma unroll
        for (u32 i_11 = 0u; i_11 < 2u; ++i_11) {
            const u32 row_6 = first_row + (warp * 16u + lane / 4u + i_11 * 8u);
            const bool is_row_5 = row_6 < s;
            const u32 line_6 = range * all_rows + batch * s + row_6;
            const bool leads_2 = is_row_5 && threadIdx.x % 4u == 0u && first_column == 0u;
            if (leads_2) {
                scratch_2[line_6] = greatest[i_11];
            }
            if (leads_2) {
                scratch_3[line_6] = row_sum[i_11];
            }
#pragma unroll
            for (u32 j_9 = 0u; j_9 < 16u; ++j_9) {
                const u32 column_2 = first_column + (j_9 / 2u * 8u + lane % 4u * 2u + j_9 % 2u);
                if (is_row_5 && column_2 < e) {
                    scratch[line_6 * e + column_2] = products[j_9 / 2u * 4u + i_11 * 2u + j_9 % 2u];
                }
            }
        }
    }
}
