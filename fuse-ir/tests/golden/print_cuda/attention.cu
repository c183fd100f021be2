// attention: 64 queries a block, 16 a warp; keys in tiles of 64, two stages
// grid ceil_div(s, 64) x heads x 1, block 128 x 1 x 1, 40960 bytes of shared memory
// compile with --fmad=false

using f32 = float;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using f16 = unsigned short;  // its bits

#define FUSE_DEVICE static __device__ __forceinline__

namespace fuse {

// Rust's max: a NaN is ignored, of equal zeros it is b.
template <typename T>
FUSE_DEVICE T max_rust(T a, T b) {
    return b != b || a > b ? a : b;
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

// a rounded to f16.
FUSE_DEVICE f32 round_f16(f32 a) {
    return f16_to_f32(f32_to_f16(a));
}

// The address of shared memory as instructions take it.
FUSE_DEVICE u32 shared_address(const void* pointer) {
    return u32(__cvta_generic_to_shared(pointer));
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

}  // namespace fuse

extern "C" __global__ void __launch_bounds__(128)
fuse_attention(
    const f16* __restrict__ q,
    const f16* __restrict__ k,
    const f16* __restrict__ v,
    f16* __restrict__ out,
    u32 heads,
    u32 s,
    u32 t,
    f32 scale_log2) {
    const u32 warp = threadIdx.x / 32u;
    const u32 lane = threadIdx.x % 32u;
    extern __shared__ __align__(128) unsigned char shared[];
    f16* const q_tile = reinterpret_cast<f16*>(shared);
    f16* const k_tiles = reinterpret_cast<f16*>(shared + 8192);
    f16* const v_tiles = reinterpret_cast<f16*>(shared + 24576);
    const u64 of_queries = u64(blockIdx.y) * (u64(s) * 64ull);
    const u64 of_keys = u64(blockIdx.y) * (u64(t) * 64ull);
    const u32 first_query = blockIdx.x * 64u;
    const u32 tiles = (t + 63u) / 64u;
    f32 output[32] = {};
    f32 row_max[2] = {__uint_as_float(0xff800000u), __uint_as_float(0xff800000u)};
    f32 row_sum[2] = {};
#pragma unroll
    for (u32 part = 0u; part < 4u; ++part) {
        const u32 chunk = threadIdx.x + part * 128u;
        const u32 row = chunk / 8u;
        const u32 column = chunk % 8u;
        const u32 source = first_query + row;
        fuse::copy_async_16(&q_tile[row * 64u + (column ^ (row & 7u)) * 8u], &q[of_queries + u64(source * 64u + column * 8u)], source < s ? 16u : 0u);
    }
    fuse::commit_async();
#pragma unroll
    for (u32 part_2 = 0u; part_2 < 4u; ++part_2) {
        const u32 chunk_2 = threadIdx.x + part_2 * 128u;
        const u32 row_2 = chunk_2 / 8u;
        const u32 column_2 = chunk_2 % 8u;
        fuse::copy_async_16(&k_tiles[row_2 * 64u + (column_2 ^ (row_2 & 7u)) * 8u], &k[of_keys + u64(row_2 * 64u + column_2 * 8u)], row_2 < t ? 16u : 0u);
    }
#pragma unroll
    for (u32 part_3 = 0u; part_3 < 4u; ++part_3) {
        const u32 chunk_3 = threadIdx.x + part_3 * 128u;
        const u32 row_3 = chunk_3 / 8u;
        const u32 column_3 = chunk_3 % 8u;
        fuse::copy_async_16(&v_tiles[row_3 * 64u + (column_3 ^ (row_3 & 7u)) * 8u], &v[of_keys + u64(row_3 * 64u + column_3 * 8u)], row_3 < t ? 16u : 0u);
    }
    fuse::commit_async();
    fuse::wait_async<1>();
    __syncthreads();
    u32 queries[16];
#pragma unroll
    for (u32 k_step = 0u; k_step < 4u; ++k_step) {
        fuse::load_matrix_x4(queries[k_step * 4u], queries[k_step * 4u + 1u], queries[k_step * 4u + 2u], queries[k_step * 4u + 3u], &q_tile[(warp * 16u + (lane & 15u)) * 64u + ((k_step * 2u + (lane >> 4u)) ^ ((warp * 16u + (lane & 15u)) & 7u)) * 8u]);
    }
#pragma unroll 1
    for (u32 tile = 0u; tile < tiles; ++tile) {
        const u32 next = tile + 1u;
        if (next < tiles) {
            const u32 stage_next = (next & 1u) * 4096u;
            const u32 key_next = next * 64u;
#pragma unroll
            for (u32 part_4 = 0u; part_4 < 4u; ++part_4) {
                const u32 chunk_4 = threadIdx.x + part_4 * 128u;
                const u32 row_4 = chunk_4 / 8u;
                const u32 column_4 = chunk_4 % 8u;
                const u32 source_2 = key_next + row_4;
                fuse::copy_async_16(&k_tiles[stage_next + (row_4 * 64u + (column_4 ^ (row_4 & 7u)) * 8u)], &k[of_keys + u64(source_2 * 64u + column_4 * 8u)], source_2 < t ? 16u : 0u);
            }
#pragma unroll
            for (u32 part_5 = 0u; part_5 < 4u; ++part_5) {
                const u32 chunk_5 = threadIdx.x + part_5 * 128u;
                const u32 row_5 = chunk_5 / 8u;
                const u32 column_5 = chunk_5 % 8u;
                const u32 source_3 = key_next + row_5;
                fuse::copy_async_16(&v_tiles[stage_next + (row_5 * 64u + (column_5 ^ (row_5 & 7u)) * 8u)], &v[of_keys + u64(source_3 * 64u + column_5 * 8u)], source_3 < t ? 16u : 0u);
            }
        }
        fuse::commit_async();
        fuse::wait_async<1>();
        __syncthreads();
        const u32 stage = (tile & 1u) * 4096u;
        f32 scores[32] = {};
#pragma unroll
        for (u32 key_tile = 0u; key_tile < 8u; ++key_tile) {
#pragma unroll
            for (u32 k_pair = 0u; k_pair < 2u; ++k_pair) {
                u32 k_operand[4];
                fuse::load_matrix_x4(k_operand[0], k_operand[1], k_operand[2], k_operand[3], &k_tiles[stage + ((key_tile * 8u + (lane & 7u)) * 64u + ((k_pair * 4u + (lane >> 3u)) ^ ((key_tile * 8u + (lane & 7u)) & 7u)) * 8u)]);
                fuse::mma_m16n8k16_f16(scores[key_tile * 4u], scores[key_tile * 4u + 1u], scores[key_tile * 4u + 2u], scores[key_tile * 4u + 3u], queries[k_pair * 2u * 4u], queries[k_pair * 2u * 4u + 1u], queries[k_pair * 2u * 4u + 2u], queries[k_pair * 2u * 4u + 3u], k_operand[0], k_operand[1], scores[key_tile * 4u], scores[key_tile * 4u + 1u], scores[key_tile * 4u + 2u], scores[key_tile * 4u + 3u]);
                fuse::mma_m16n8k16_f16(scores[key_tile * 4u], scores[key_tile * 4u + 1u], scores[key_tile * 4u + 2u], scores[key_tile * 4u + 3u], queries[(k_pair * 2u + 1u) * 4u], queries[(k_pair * 2u + 1u) * 4u + 1u], queries[(k_pair * 2u + 1u) * 4u + 2u], queries[(k_pair * 2u + 1u) * 4u + 3u], k_operand[2], k_operand[3], scores[key_tile * 4u], scores[key_tile * 4u + 1u], scores[key_tile * 4u + 2u], scores[key_tile * 4u + 3u]);
            }
        }
        const u32 last = t - tile * 64u;
        if (last < 64u) {
#pragma unroll
            for (u32 slot = 0u; slot < 32u; ++slot) {
                scores[slot] = slot / 4u * 8u + (lane & 3u) * 2u + (slot & 1u) < last ? scores[slot] : __uint_as_float(0xff800000u);
            }
        }
#pragma unroll
        for (u32 half = 0u; half < 2u; ++half) {
            f32 most = row_max[half];
#pragma unroll
            for (u32 key_tile_2 = 0u; key_tile_2 < 8u; ++key_tile_2) {
                most = fuse::max_rust<f32>(most, scores[key_tile_2 * 4u + half * 2u]);
                most = fuse::max_rust<f32>(most, scores[key_tile_2 * 4u + half * 2u + 1u]);
            }
            const f32 other = __shfl_xor_sync(0xffffffffu, most, 1, 4);
            most = fuse::max_rust<f32>(most, other);
            const f32 other_2 = __shfl_xor_sync(0xffffffffu, most, 2, 4);
            most = fuse::max_rust<f32>(most, other_2);
            const f32 shift = most == __uint_as_float(0xff800000u) ? 0.0f : most;
            const f32 factor = ::exp2f((row_max[half] - shift) * scale_log2);
            row_max[half] = most;
            row_sum[half] = row_sum[half] * factor;
#pragma unroll
            for (u32 key_tile_3 = 0u; key_tile_3 < 8u; ++key_tile_3) {
                const f32 weight = ::exp2f((scores[key_tile_3 * 4u + half * 2u] - shift) * scale_log2);
                scores[key_tile_3 * 4u + half * 2u] = weight;
                row_sum[half] = row_sum[half] + weight;
                const f32 weight_2 = ::exp2f((scores[key_tile_3 * 4u + half * 2u + 1u] - shift) * scale_log2);
                scores[key_tile_3 * 4u + half * 2u + 1u] = weight_2;
                row_sum[half] = row_sum[half] + weight_2;
            }
#pragma unroll
            for (u32 d_tile = 0u; d_tile < 8u; ++d_tile) {
                output[d_tile * 4u + half * 2u] = output[d_tile * 4u + half * 2u] * factor;
                output[d_tile * 4u + half * 2u + 1u] = output[d_tile * 4u + half * 2u + 1u] * factor;
            }
        }
#pragma unroll
        for (u32 key_step = 0u; key_step < 4u; ++key_step) {
            u32 weights[4];
            weights[0] = fuse::pack_f16(scores[key_step * 2u * 4u], scores[key_step * 2u * 4u + 1u]);
            weights[1] = fuse::pack_f16(scores[key_step * 2u * 4u + 2u], scores[key_step * 2u * 4u + 2u + 1u]);
            weights[2] = fuse::pack_f16(scores[(key_step * 2u + 1u) * 4u], scores[(key_step * 2u + 1u) * 4u + 1u]);
            weights[3] = fuse::pack_f16(scores[(key_step * 2u + 1u) * 4u + 2u], scores[(key_step * 2u + 1u) * 4u + 2u + 1u]);
#pragma unroll
            for (u32 d_pair = 0u; d_pair < 4u; ++d_pair) {
                u32 v_operand[4];
                fuse::load_matrix_x4_transposed(v_operand[0], v_operand[1], v_operand[2], v_operand[3], &v_tiles[stage + ((key_step * 16u + (lane & 15u)) * 64u + ((d_pair * 2u + (lane >> 4u)) ^ ((key_step * 16u + (lane & 15u)) & 7u)) * 8u)]);
                fuse::mma_m16n8k16_f16(output[d_pair * 2u * 4u], output[d_pair * 2u * 4u + 1u], output[d_pair * 2u * 4u + 2u], output[d_pair * 2u * 4u + 3u], weights[0], weights[1], weights[2], weights[3], v_operand[0], v_operand[1], output[d_pair * 2u * 4u], output[d_pair * 2u * 4u + 1u], output[d_pair * 2u * 4u + 2u], output[d_pair * 2u * 4u + 3u]);
                fuse::mma_m16n8k16_f16(output[(d_pair * 2u + 1u) * 4u], output[(d_pair * 2u + 1u) * 4u + 1u], output[(d_pair * 2u + 1u) * 4u + 2u], output[(d_pair * 2u + 1u) * 4u + 3u], weights[0], weights[1], weights[2], weights[3], v_operand[2], v_operand[3], output[(d_pair * 2u + 1u) * 4u], output[(d_pair * 2u + 1u) * 4u + 1u], output[(d_pair * 2u + 1u) * 4u + 2u], output[(d_pair * 2u + 1u) * 4u + 3u]);
            }
        }
        __syncthreads();
    }
    fuse::wait_async<0>();
#pragma unroll
    for (u32 half_2 = 0u; half_2 < 2u; ++half_2) {
        f32 total = row_sum[half_2];
        const f32 other_3 = __shfl_xor_sync(0xffffffffu, total, 1, 4);
        total = total + other_3;
        const f32 other_4 = __shfl_xor_sync(0xffffffffu, total, 2, 4);
        total = total + other_4;
        const f32 inverse = total == 0.0f ? 0.0f : 1.0f / total;
        const u32 query = first_query + (warp * 16u + lane / 4u) + half_2 * 8u;
        const u64 at = of_queries + u64(query) * 64ull;
#pragma unroll
        for (u32 d_tile_2 = 0u; d_tile_2 < 8u; ++d_tile_2) {
            f32 pair[2];
            pair[0] = fuse::round_f16(output[d_tile_2 * 4u + half_2 * 2u] * inverse);
            pair[1] = fuse::round_f16(output[d_tile_2 * 4u + half_2 * 2u + 1u] * inverse);
            if (query < s) {
                *reinterpret_cast<u32*>(&out[at + u64(d_tile_2 * 8u + (lane & 3u) * 2u)]) = fuse::pack_f16(pair[0], pair[1]);
            }
        }
    }
}
