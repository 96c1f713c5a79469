// The part of the CUDA runtime and of CUDA C++ that emitted kernels and their launchers use, for a CPU.

#pragma once

#include "cuda_runtime_api.h"
#include "gemm_emulator.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// In a function this also means static; an unsized `extern` array is defined beside the kernel by the builder.
// "used" keeps the compiler from dropping stores that nobody reads and from knowing what nobody wrote.
#define __shared__ __attribute__((used)) thread_local

#define warpSize 32

#define __syncthreads() ::gemm_emu::barrier(__LINE__)
#define __syncwarp(...) (::gemm_emu::SyncWarp{__LINE__}(__VA_ARGS__))
#define __shfl_sync(...) ::gemm_emu::shuffle(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) ::gemm_emu::shuffle_xor(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) ::gemm_emu::shuffle_up(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) ::gemm_emu::shuffle_down(__LINE__, __VA_ARGS__)
#define __ballot_sync(mask, predicate) ::gemm_emu::ballot(mask, predicate, __LINE__)
#define __any_sync(mask, predicate) (::gemm_emu::ballot(mask, predicate, __LINE__) != 0)
#define __all_sync(mask, predicate) (::gemm_emu::ballot(mask, !(predicate), __LINE__) == 0)

using uint3 = gemm_emu::Index3;

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

#if defined(GEMM_EMU_CHECKED) && defined(__clang__)
// Clang splits a vector into its elements before it places calls of the checker, which then could not see that
// the vector was misaligned; so copies of a vector tell it themselves.
#define GEMM_EMU_VECTOR_COPIES(NAME)                                                    \
    NAME() = default;                                                                   \
    NAME(const NAME& from) { *this = from; }                                            \
    NAME& operator=(const NAME& from) {                                                 \
        gemm_emu::check_vector(this, &from, sizeof(NAME));                              \
        copy(from);                                                                     \
        return *this;                                                                   \
    }
#define GEMM_EMU_VECTOR2_COPIES(T, NAME)                                                \
    constexpr NAME(T x_, T y_) : x(x_), y(y_) {}                                        \
    void copy(const NAME& from) { x = from.x, y = from.y; }                             \
    GEMM_EMU_VECTOR_COPIES(NAME)
#define GEMM_EMU_VECTOR4_COPIES(T, NAME)                                                \
    constexpr NAME(T x_, T y_, T z_, T w_) : x(x_), y(y_), z(z_), w(w_) {}              \
    void copy(const NAME& from) { x = from.x, y = from.y, z = from.z, w = from.w; }     \
    GEMM_EMU_VECTOR_COPIES(NAME)
#else
#define GEMM_EMU_VECTOR2_COPIES(T, NAME)
#define GEMM_EMU_VECTOR4_COPIES(T, NAME)
#endif

#define GEMM_EMU_VECTOR_TYPES(T, NAME)                                                  \
    struct alignas(2 * sizeof(T)) NAME##2 { T x, y; GEMM_EMU_VECTOR2_COPIES(T, NAME##2) }; \
    struct NAME##3 { T x, y, z; };                                                      \
    struct alignas(4 * sizeof(T)) NAME##4 { T x, y, z, w; GEMM_EMU_VECTOR4_COPIES(T, NAME##4) }; \
    inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                          \
    inline NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; }                  \
    inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
GEMM_EMU_VECTOR_TYPES(float, float)
GEMM_EMU_VECTOR_TYPES(int, int)
#undef GEMM_EMU_VECTOR_TYPES

// On a GPU atomic additions to global memory take subnormal numbers for 0, as these do.
inline void atomicAdd(float* to, float value) { gemm_emu::atomic_add(to, &value, 1); }
inline void atomicAdd(float2* to, float2 value) { gemm_emu::atomic_add(&to->x, &value.x, 2); }
inline void atomicAdd(float4* to, float4 value) { gemm_emu::atomic_add(&to->x, &value.x, 4); }

// Everything is done when a call returns, so that streams have no say.
template <typename T>
inline cudaError_t cudaMallocAsync(T** memory, size_t bytes, cudaStream_t) {
    *memory = static_cast<T*>(gemm_emu::allocate(bytes));
    return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFreeAsync(void* memory, cudaStream_t) {
    return gemm_emu::release(memory) ? cudaSuccess : cudaErrorInvalidValue;
}

// Builtins, so that one multiply-add is one instruction where the machine has it.
extern "C" float fmaf(float, float, float) noexcept;
inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }

template <typename T>
inline T __ldg(const T* address) { return *address; }
template <typename T>
inline T __ldcs(const T* address) { return *address; }
template <typename T>
inline void __stcs(T* address, T value) { *address = value; }

inline constexpr int min(int a, int b) { return a < b ? a : b; }
inline constexpr int max(int a, int b) { return a < b ? b : a; }
inline constexpr unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline constexpr unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline constexpr long long min(long long a, long long b) { return a < b ? a : b; }
inline constexpr long long max(long long a, long long b) { return a < b ? b : a; }

inline size_t __cvta_generic_to_shared(const void* address) { return reinterpret_cast<size_t>(address); }

namespace gemm_emu {

inline int lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % warpSize;
}

// A call through it may leave the mask out.
struct SyncWarp {
    int line;
    void operator()(unsigned mask = 0xffffffffu) const { exchange(mask, 0, lane(), line); }
};

template <typename T>
inline T exchange_value(int line, unsigned mask, T value, int source) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "shuffles move at most eight bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    bits = exchange(mask, bits, source, line);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}

template <typename T>
inline T shuffle(int line, unsigned mask, T value, int source, int width = warpSize) {
    const int first = lane() & ~(width - 1);
    return exchange_value(line, mask, value, first + (source & (width - 1)));
}

template <typename T>
inline T shuffle_xor(int line, unsigned mask, T value, int lanes, int width = warpSize) {
    const int source = lane() ^ lanes;
    return exchange_value(line, mask, value, source < (lane() & ~(width - 1)) + width ? source : lane());
}

template <typename T>
inline T shuffle_up(int line, unsigned mask, T value, unsigned delta, int width = warpSize) {
    const int source = lane() - static_cast<int>(delta);
    return exchange_value(line, mask, value, source >= (lane() & ~(width - 1)) ? source : lane());
}

template <typename T>
inline T shuffle_down(int line, unsigned mask, T value, unsigned delta, int width = warpSize) {
    const int source = lane() + static_cast<int>(delta);
    return exchange_value(line, mask, value, source < (lane() & ~(width - 1)) + width ? source : lane());
}

}  // namespace gemm_emu

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

struct cudaLaunchAttribute;

struct cudaLaunchConfig_t {
    dim3 gridDim;
    dim3 blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned numAttrs;
};

template <typename... Parameters, typename... Arguments>
inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                                      Arguments&&... arguments) {
    const dim3 grid = config->gridDim;
    const dim3 block = config->blockDim;
    return static_cast<cudaError_t>(gemm_emu::launch_kernel<Parameters...>(
        kernel, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, config->dynamicSmemBytes,
        static_cast<Parameters>(arguments)...));
}

template <typename Kernel>
inline cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute, int value) {
    return static_cast<cudaError_t>(
        gemm_emu::allow_dynamic_shared(reinterpret_cast<const void*>(kernel), value));
}
