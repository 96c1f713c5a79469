#include <cuda_runtime.h>
#include <cstdint>

// Column-major A, no scalars; a static shared tile and two barriers per tile.
constexpr int BLOCK = 16;

struct Tiles {
    float a[BLOCK][BLOCK + 1];
    float b[BLOCK][BLOCK];
};

template <int SIZE>
__device__ __forceinline__ float row_times_column(const Tiles& tiles, int row, int col, float sum) {
#pragma unroll
    for (int k = 0; k < SIZE; ++k) sum = fmaf(tiles.a[row][k], tiles.b[k][col], sum);
    return sum;
}

extern "C" __global__ void __launch_bounds__(BLOCK * BLOCK, 2)
shared_tile_general(int M, int N, int K, const float* __restrict__ A, int lda, const float* __restrict__ B,
                    int ldb, float* __restrict__ C, int ldc) {
    __shared__ Tiles tiles;
    const int columns = (N + BLOCK - 1) / BLOCK;
    const int y = static_cast<int>(threadIdx.x) / BLOCK;
    const int x = static_cast<int>(threadIdx.x) % BLOCK;
    const int row = static_cast<int>(blockIdx.x) / columns * BLOCK + y;
    const int col = static_cast<int>(blockIdx.x) % columns * BLOCK + x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += BLOCK) {
        tiles.a[y][x] = row < M && k + x < K ? A[static_cast<int64_t>(k + x) * lda + row] : 0.0f;
        tiles.b[y][x] = k + y < K && col < N ? B[static_cast<int64_t>(k + y) * ldb + col] : 0.0f;
        __syncthreads();  // the tiles are complete
        sum = row_times_column<BLOCK>(tiles, y, x, sum);
        __syncthreads();  // nobody reads them any more
    }
    if (row < M && col < N) C[static_cast<int64_t>(row) * ldc + col] = sum;
}

extern "C" int shared_tile(int M, int N, int K, const float* A, int lda, const float* B, int ldb, float* C,
                           int ldc, cudaStream_t stream) {
    if (M == 0 || N == 0) return 0;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(((M + BLOCK - 1) / BLOCK) * ((N + BLOCK - 1) / BLOCK));
    config.blockDim = dim3(BLOCK * BLOCK);
    config.stream = stream;
    if (cudaLaunchKernelEx(&config, shared_tile_general, M, N, K, A, lda, B, ldb, C, ldc) != cudaSuccess) return 7;
    return cudaGetLastError() == cudaSuccess ? 0 : 7;
}
