// transpose: tiles of 32 x 32; rows of 33 keep columns in distinct banks
// grid ceil_div(cols, 32) x ceil_div(rows, 32) x 1, block 32 x 8 x 1, 4224 bytes of shared memory
// compile with --fmad=false

using f32 = float;
using u32 = unsigned int;
using u64 = unsigned long long;

extern "C" __global__ void __launch_bounds__(256)
fuse_transpose(
    const f32* __restrict__ x,
    f32* __restrict__ y,
    u32 rows,
    u32 cols) {
    extern __shared__ __align__(128) unsigned char shared[];
    f32* const tile = reinterpret_cast<f32*>(shared);
    const u32 top = blockIdx.y * 32u;
    const u32 left = blockIdx.x * 32u;
#pragma unroll
    for (u32 step = 0u; step < 4u; ++step) {
        const u32 y_in = threadIdx.y + step * 8u;
        const u32 r = top + y_in;
        const u32 c = left + threadIdx.x;
        if (r < rows && c < cols) {
            const f32 value = x[u64(r) * u64(cols) + u64(c)];
            tile[y_in * 33u + threadIdx.x] = value;
        }
    }
    __syncthreads();
#pragma unroll
    for (u32 step_2 = 0u; step_2 < 4u; ++step_2) {
        const u32 y_out = threadIdx.y + step_2 * 8u;
        const u32 r_2 = top + threadIdx.x;
        const u32 c_2 = left + y_out;
        if (r_2 < rows && c_2 < cols) {
            const f32 value_2 = tile[threadIdx.x * 33u + y_out];
            y[u64(c_2) * u64(rows) + u64(r_2)] = value_2;
        }
    }
}
