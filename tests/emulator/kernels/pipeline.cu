#include <cuda_runtime.h>
#include <cuda_pipeline_primitives.h>
#include <cstdint>

// Three stages of asynchronous copies in dynamic shared memory, more than may be used without the opt-in.
constexpr int BLOCK_M = 32;
constexpr int BLOCK_N = 64;
constexpr int BLOCK_K = 48;
constexpr int STAGES = 3;
constexpr int THREAD_M = 4;
constexpr int THREAD_N = 4;
constexpr int THREADS = BLOCK_M * BLOCK_N / (THREAD_M * THREAD_N);

struct alignas(16) Stage {
    float a[BLOCK_M][BLOCK_K];
    float b[BLOCK_K][BLOCK_N];
};
constexpr int SHARED_BYTES = STAGES * sizeof(Stage);

// `valid` floats of four are copied, the others become zero.
__device__ __forceinline__ void copy_4(float* shared, const float* global, int valid) {
    const int read = valid < 0 ? 0 : valid > 4 ? 4 : valid;
    __pipeline_memcpy_async(shared, global, 16, 16 - 4 * read);
}

__device__ __forceinline__ void copy_tiles(Stage& stage, int M, int N, int K, const float* A, int lda,
                                           const float* B, int ldb, int row, int col, int k) {
    for (int i = threadIdx.x * 4; i < BLOCK_M * BLOCK_K; i += THREADS * 4) {
        const int m = row + i / BLOCK_K, kk = k + i % BLOCK_K;
        const bool inside = m < M && kk < K;
        copy_4(&stage.a[i / BLOCK_K][i % BLOCK_K], inside ? A + static_cast<int64_t>(m) * lda + kk : A,
               inside ? K - kk : 0);
    }
    for (int i = threadIdx.x * 4; i < BLOCK_K * BLOCK_N; i += THREADS * 4) {
        const int kk = k + i / BLOCK_N, n = col + i % BLOCK_N;
        const bool inside = kk < K && n < N;
        copy_4(&stage.b[i / BLOCK_N][i % BLOCK_N], inside ? B + static_cast<int64_t>(kk) * ldb + n : B,
               inside ? N - n : 0);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
pipeline_edge(int M, int N, int K, float alpha, const float* __restrict__ A, int lda,
              const float* __restrict__ B, int ldb, float beta, float* __restrict__ C, int ldc) {
    extern __shared__ float4 shared_memory[];
    Stage* stages = reinterpret_cast<Stage*>(shared_memory);
    const int columns = (N + BLOCK_N - 1) / BLOCK_N;
    const int row = static_cast<int>(blockIdx.x) / columns * BLOCK_M;
    const int col = static_cast<int>(blockIdx.x) % columns * BLOCK_N;
    const int tm = static_cast<int>(threadIdx.x) / (BLOCK_N / THREAD_N) * THREAD_M;
    const int tn = static_cast<int>(threadIdx.x) % (BLOCK_N / THREAD_N) * THREAD_N;
    float sum[THREAD_M][THREAD_N] = {};
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage * BLOCK_K < K) copy_tiles(stages[stage], M, N, K, A, lda, B, ldb, row, col, stage * BLOCK_K);
        __pipeline_commit();
    }
    int tile = 0;
    for (int k = 0; k < K; k += BLOCK_K, ++tile) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();  // this tile has landed for all threads, and nobody reads the one before it
        const int ahead = k + (STAGES - 1) * BLOCK_K;
        if (ahead < K) copy_tiles(stages[(tile + STAGES - 1) % STAGES], M, N, K, A, lda, B, ldb, row, col, ahead);
        __pipeline_commit();
        const Stage& stage = stages[tile % STAGES];
#pragma unroll
        for (int kk = 0; kk < BLOCK_K; ++kk) {
            const float4 b = *reinterpret_cast<const float4*>(&stage.b[kk][tn]);
#pragma unroll
            for (int i = 0; i < THREAD_M; ++i) {
                const float a = stage.a[tm + i][kk];
                sum[i][0] = fmaf(a, b.x, sum[i][0]);
                sum[i][1] = fmaf(a, b.y, sum[i][1]);
                sum[i][2] = fmaf(a, b.z, sum[i][2]);
                sum[i][3] = fmaf(a, b.w, sum[i][3]);
            }
        }
    }
    for (int i = 0; i < THREAD_M; ++i) {
        for (int j = 0; j < THREAD_N; ++j) {
            if (row + tm + i >= M || col + tn + j >= N) continue;
            float* out = C + static_cast<int64_t>(row + tm + i) * ldc + col + tn + j;
            *out = beta == 0.0f ? alpha * sum[i][j] : fmaf(beta, *out, alpha * sum[i][j]);
        }
    }
}

extern "C" int pipeline(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                        float beta, float* C, int ldc, cudaStream_t stream) {
    if (M == 0 || N == 0) return 0;
    if (lda % 4 != 0 || ldb % 4 != 0) return 5;
    if (cudaFuncSetAttribute(pipeline_edge, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES) !=
        cudaSuccess) {
        return 7;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(((M + BLOCK_M - 1) / BLOCK_M) * ((N + BLOCK_N - 1) / BLOCK_N));
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = SHARED_BYTES;
    config.stream = stream;
    const cudaError_t error =
        cudaLaunchKernelEx(&config, pipeline_edge, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
    return error == cudaSuccess ? 0 : 7;
}
