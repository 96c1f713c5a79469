#include <cuda_runtime.h>
#include <cstdint>

constexpr int BLOCK_M = 8;
constexpr int BLOCK_N = 16;

extern "C" __global__ void __launch_bounds__(BLOCK_M * BLOCK_N)
naive_general(int M, int N, int K, float alpha, const float* __restrict__ A, int lda,
              const float* __restrict__ B, int ldb, float beta, float* __restrict__ C, int ldc) {
    const int columns = (N + BLOCK_N - 1) / BLOCK_N;
    const int row = static_cast<int>(blockIdx.x) / columns * BLOCK_M + static_cast<int>(threadIdx.x) / BLOCK_N;
    const int col = static_cast<int>(blockIdx.x) % columns * BLOCK_N + static_cast<int>(threadIdx.x) % BLOCK_N;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    if (alpha != 0.0f) {
        for (int k = 0; k < K; ++k) {
            sum = fmaf(A[static_cast<int64_t>(row) * lda + k], B[static_cast<int64_t>(k) * ldb + col], sum);
        }
    }
    float* out = C + static_cast<int64_t>(row) * ldc + col;
    *out = beta == 0.0f ? alpha * sum : fmaf(beta, *out, alpha * sum);
}

extern "C" int naive(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                     float beta, float* C, int ldc, cudaStream_t stream) {
    if (M < 0 || N < 0 || K < 0) return 1;
    if (lda < (K > 1 ? K : 1) || ldb < (N > 1 ? N : 1) || ldc < (N > 1 ? N : 1)) return 2;
    if (M == 0 || N == 0) return 0;
    if (C == nullptr || (K > 0 && (A == nullptr || B == nullptr))) return 3;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(((M + BLOCK_M - 1) / BLOCK_M) * ((N + BLOCK_N - 1) / BLOCK_N));
    config.blockDim = dim3(BLOCK_M * BLOCK_N);
    config.stream = stream;
    const cudaError_t error =
        cudaLaunchKernelEx(&config, naive_general, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
    return error == cudaSuccess ? 0 : 7;
}
