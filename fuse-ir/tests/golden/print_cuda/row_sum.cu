// row_sum: sums of rows, one block a row, one warp a chunk
// grid rows x 1 x 1, block 256 x 1 x 1, ceil_div(cols, 4096) * 4 bytes of shared memory
// compile with --fmad=false

using f32 = float;
using u32 = unsigned int;
using u64 = unsigned long long;

#define FUSE_DEVICE static __device__ __forceinline__

namespace fuse {

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

}  // namespace fuse

extern "C" __global__ void __launch_bounds__(256)
fuse_row_sum(
    const f32* __restrict__ x,
    f32* __restrict__ out,
    u32 rows,
    u32 cols) {
    const u32 warp = threadIdx.x / 32u;
    const u32 lane = threadIdx.x % 32u;
    extern __shared__ __align__(128) unsigned char shared[];
    f32* const partials = reinterpret_cast<f32*>(shared);
    const u64 row = u64(blockIdx.x) * u64(cols);
    const u32 chunks = (cols + 4095u) / 4096u;
#pragma unroll 1
    for (u32 chunk = warp; chunk < chunks; chunk += 8u) {
        const u32 start = chunk * 4096u;
        const u32 end = fuse::min_integer<u32>(start + 4096u, cols);
        f32 acc[2] = {};
#pragma unroll 4
        for (u32 position = start + lane; position < end; position += 64u) {
#pragma unroll
            for (u32 half = 0u; half < 2u; ++half) {
                const u32 at = position + half * 32u;
                if (at < end) {
                    const f32 value = x[row + u64(at)];
                    acc[half] = acc[half] + value;
                }
            }
        }
        f32 folded = acc[0] + acc[1];
        const f32 other = __shfl_down_sync(0xffffffffu, folded, 16, 32);
        folded = folded + other;
        const f32 other_2 = __shfl_down_sync(0xffffffffu, folded, 8, 32);
        folded = folded + other_2;
        const f32 other_3 = __shfl_down_sync(0xffffffffu, folded, 4, 32);
        folded = folded + other_3;
        const f32 other_4 = __shfl_down_sync(0xffffffffu, folded, 2, 32);
        folded = folded + other_4;
        const f32 other_5 = __shfl_down_sync(0xffffffffu, folded, 1, 32);
        folded = folded + other_5;
        if (lane == 0u) {
            partials[chunk] = folded;
        }
    }
    __syncthreads();
    // adjacent pairs of chunks, level by level
    const u32 levels = 32u - u32(__clz(fuse::max_integer<u32>(chunks, 1u) - 1u));
#pragma unroll 1
    for (u32 level = 0u; level < levels; ++level) {
        const u32 reach = 1u << (level & 31u);
#pragma unroll 1
        for (u32 left = threadIdx.x * reach * 2u; left < chunks; left += reach * 512u) {
            const u32 right = left + reach;
            if (right < chunks) {
                const f32 a = partials[left];
                const f32 c = partials[right];
                partials[left] = a + c;
            }
        }
        __syncthreads();
    }
    if (threadIdx.x == 0u) {
        const f32 total = 0u < chunks ? partials[0u] : 0.0f;
        out[blockIdx.x] = total;
    }
}
