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

// Copies 4 bytes to shared memory in the background: the first `valid` from memory, the rest are zero.
FUSE_DEVICE void copy_async_4(void* to, const void* from, u32 valid) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(valid) : "memory");
#else
    copy_now<4>(to, from, valid);
#endif
}

// Copies 8 bytes to shared memory in the background: the first `valid` from memory, the rest are zero.
FUSE_DEVICE void copy_async_8(void* to, const void* from, u32 valid) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_address(to)), "l"(from), "r"(valid) : "memory");
#else
    copy_now<8>(to, from, valid);
#endif
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

// A matrix of 8 x 8 16-bit elements, spread over the warp.
FUSE_DEVICE void load_matrix_x1(u32& a, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(shared_address(row)) : "memory");
}

// Two matrices of 8 x 8 16-bit elements, spread over the warp.
FUSE_DEVICE void load_matrix_x2(u32& a, u32& b, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(a), "=r"(b) : "r"(shared_address(row)) : "memory");
}

// Four matrices of 8 x 8 16-bit elements, spread over the warp.
FUSE_DEVICE void load_matrix_x4(u32& a, u32& b, u32& c, u32& d, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(shared_address(row)) : "memory");
}

// A matrix of 8 x 8 16-bit elements, transposed and spread over the warp.
FUSE_DEVICE void load_matrix_x1_transposed(u32& a, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(a) : "r"(shared_address(row)) : "memory");
}

// Two matrices of 8 x 8 16-bit elements, transposed and spread over the warp.
FUSE_DEVICE void load_matrix_x2_transposed(u32& a, u32& b, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(a), "=r"(b) : "r"(shared_address(row)) : "memory");
}

// Four matrices of 8 x 8 16-bit elements, transposed and spread over the warp.
FUSE_DEVICE void load_matrix_x4_transposed(u32& a, u32& b, u32& c, u32& d, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(shared_address(row)) : "memory");
}
