// sgemm_v0_naive: C = alpha * A @ B + beta * C in FP32, by gemmdsl 0.1.0.
//
// source    ladder.gemm, schedule v0_naive (gemm 1)
// target    sm_75
// operands  A[M, K] row-major, B[K, N] row-major, C[M, N] row-major
// passes    specialise
// launch    ceil(M / 32) * ceil(N / 32) blocks of 1024 threads
// shared    none
// fast      M % 32 == 0; N % 32 == 0
// general   always right
// proved    C tile: 1024 outputs, 1 for each of 1024 threads, each written exactly once
//           grid: each tile of C belongs to exactly one block
//           guards (fast, general):
//           an axis without guard and a vector in global memory follow from the conditions
//           limits: 1024 threads and 0 bytes of shared memory per block fit sm_75
//
// Semantics: beta == 0 never reads C;
// alpha == 0 or K == 0 never reads A or B. NaN and infinity propagate.

#include <cuda_runtime.h>

#include <climits>
#include <cstdint>

namespace {

// Tiles and threads.
constexpr int BLOCK_M = 32;
constexpr int BLOCK_N = 32;
constexpr int THREAD_M = 1;  // outputs of a thread
constexpr int THREAD_N = 1;  // outputs of a thread
constexpr int THREADS_M = BLOCK_M;
constexpr int THREADS_N = BLOCK_N;
constexpr int THREADS = THREADS_M * THREADS_N;  // of a block

// How C moves.
constexpr int C_VECTOR = 1;  // floats per store of C

static_assert(THREADS <= 1024, "CUDA's limit");
static_assert(BLOCK_M * BLOCK_N == THREADS * THREAD_M * THREAD_N, "one owner for each output");
static_assert(C_VECTOR == 1 && THREAD_M == 1 && THREAD_N == 1, "factors of 1 are left out");

// Distance in floats of a row (or column) from the first one; 64 bits, for it can pass 2^31.
__device__ __forceinline__ int64_t offset(int index, int ld) {
  return static_cast<int64_t>(index) * ld;
}

// Moves WIDTH neighbouring floats by one access of the memory that `to` or `from` points into.
template <int WIDTH>
__device__ __forceinline__ void move(float* to, const float* from) {
  static_assert(WIDTH == 1 || WIDTH == 2 || WIDTH == 4, "vectors of 1, 2 or 4 floats");
  if constexpr (WIDTH == 4) {
    *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
  } else if constexpr (WIDTH == 2) {
    *reinterpret_cast<float2*>(to) = *reinterpret_cast<const float2*>(from);
  } else {
    *to = *from;
  }
}

// Reads WIDTH neighbours of global memory; those from `valid` on are not touched and become zero.
template <int WIDTH, bool ALIGNED>
__device__ __forceinline__ void load_global(float (&to)[WIDTH], const float* from, int valid) {
  const bool whole = ALIGNED && valid >= WIDTH;
#pragma unroll
  for (int e = 0; e < WIDTH; ++e) to[e] = !whole && e < valid ? from[e] : 0.0f;
  if (whole) move<WIDTH>(to, from);
}

// Writes WIDTH neighbours to global memory, but none from `valid` on.
template <int WIDTH, bool ALIGNED>
__device__ __forceinline__ void store_global(float* to, const float (&from)[WIDTH], int valid) {
  if (ALIGNED && valid >= WIDTH) {
    move<WIDTH>(to, from);
  } else {
#pragma unroll
    for (int e = 0; e < WIDTH; ++e) {
      if (e < valid) to[e] = from[e];
    }
  }
}

// acc += a outer b: one FMA per output.
__device__ __forceinline__ void multiply(float (&acc)[THREAD_M][THREAD_N],
                                         const float (&a)[THREAD_M], const float (&b)[THREAD_N]) {
#pragma unroll
  for (int i = 0; i < THREAD_M; ++i) {
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
      acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
    }
  }
}

// acc += A @ B over the whole of K, straight from global memory.
template <bool FULL>
__device__ __forceinline__ void multiply_global(float (&acc)[THREAD_M][THREAD_N], const float* A,
                                                int lda, const float* B, int ldb, int m_left,
                                                int n_left, int depth, int thread_row,
                                                int thread_col) {
  for (int k = 0; k < depth; ++k) {
    float a[THREAD_M];
    float b[THREAD_N];
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i) {
      const int m = thread_row + i * THREADS_M;
      a[i] = FULL || m < m_left ? A[offset(m, lda) + k] : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
      const int n = thread_col + j * THREADS_N;
      b[j] = FULL || n < n_left ? B[offset(k, ldb) + n] : 0.0f;
    }
    multiply(acc, a, b);
  }
}

// C = alpha * A @ B + beta * C for this thread's outputs; C is read only when beta != 0.
template <bool FULL>
__device__ __forceinline__ void store_c(float* C, int ldc, int m_left, int n_left, float scale,
                                        float beta, const float (&acc)[THREAD_M][THREAD_N],
                                        int thread_row, int thread_col) {
#pragma unroll
  for (int i = 0; i < THREAD_M; ++i) {
#pragma unroll
    for (int j = 0; j < THREAD_N; j += C_VECTOR) {
      const int m = thread_row + i * THREADS_M;
      const int n = thread_col + j * THREADS_N;
      const int valid = FULL ? C_VECTOR : (m < m_left ? n_left - n : 0);
      float* const to = C + offset(m, ldc) + n;
      alignas(16) float out[C_VECTOR];
      if (beta != 0.0f) {
        load_global<C_VECTOR, true>(out, to, valid);
#pragma unroll
        for (int e = 0; e < C_VECTOR; ++e) out[e] = fmaf(beta, out[e], scale * acc[i][j]);
      } else {
#pragma unroll
        for (int e = 0; e < C_VECTOR; ++e) out[e] = scale * acc[i][j];
      }
      store_global<C_VECTOR, true>(to, out, valid);
    }
  }
}

// One block: the tile of C whose first row and column are block_row and block_col.
// FULL: M, N and K are whole tiles, no guards.
template <bool FULL>
__device__ __forceinline__ void compute_block(int M, int N, int K, float alpha,
                                              const float* __restrict__ A, int lda,
                                              const float* __restrict__ B, int ldb, float beta,
                                              float* __restrict__ C, int ldc) {
  const int thread = static_cast<int>(threadIdx.x);
  const int thread_row = thread / THREADS_N;
  const int thread_col = thread % THREADS_N;
  const int block = static_cast<int>(blockIdx.x);
  const int blocks_n = N / BLOCK_N + (N % BLOCK_N != 0);
  const int block_row = (block / blocks_n) * BLOCK_M;
  const int block_col = (block % blocks_n) * BLOCK_N;
  const int m_left = M - block_row;  // rows of C from here on
  const int n_left = N - block_col;  // columns of C from here on
  A += offset(block_row, lda);
  B += block_col;
  const int depth = alpha == 0.0f ? 0 : K;  // alpha == 0 reads neither A nor B

  float acc[THREAD_M][THREAD_N] = {};

  multiply_global<FULL>(acc, A, lda, B, ldb, m_left, n_left, depth, thread_row, thread_col);
  C += offset(block_row, ldc) + block_col;
  store_c<FULL>(C, ldc, m_left, n_left,
                depth > 0 ? alpha : 0.0f, beta, acc, thread_row, thread_col);
}

}  // namespace

// Requires M % 32 == 0; N % 32 == 0.
extern "C" __global__ void __launch_bounds__(THREADS)
sgemm_v0_naive_fast(int M, int N, int K, float alpha, const float* __restrict__ A, int lda,
                    const float* __restrict__ B, int ldb, float beta, float* __restrict__ C,
                    int ldc) {
  compute_block<true>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}

// Right for every size, leading dimension and alignment.
extern "C" __global__ void __launch_bounds__(THREADS)
sgemm_v0_naive_general(int M, int N, int K, float alpha, const float* __restrict__ A, int lda,
                       const float* __restrict__ B, int ldb, float beta, float* __restrict__ C,
                       int ldc) {
  compute_block<false>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}

namespace {

// What the launcher returns; the header repeats these.
enum Status {
  SUCCESS = 0,
  NEGATIVE_SIZE = 1,
  LEADING_DIMENSION = 2,
  NULL_POINTER = 3,
  OVERLAP = 4,
  PRECONDITION = 5,
  TOO_LARGE = 6,
  LAUNCH_FAILED = 7,
};

// Whether C, `c_lines` lines of `c_length` floats, may share memory with such lines of an input.
bool overlap(const float* C, int c_lines, int c_length, int ldc, const float* x, int lines,
             int length, int ld) {
  const auto bytes = [](int64_t count, int64_t extent, int64_t stride) {
    return static_cast<uint64_t>((count - 1) * stride + extent) * sizeof(float);
  };
  const auto c_begin = reinterpret_cast<uintptr_t>(C);
  const auto x_begin = reinterpret_cast<uintptr_t>(x);
  const bool apart = c_begin >= x_begin + bytes(lines, length, ld) ||
                     x_begin >= c_begin + bytes(c_lines, c_length, ldc);
  if (apart || ldc != ld) return !apart;
  // Two panels of one matrix: their lines are apart when they are so within one leading dimension.
  const auto distance = static_cast<int64_t>(x_begin - c_begin);
  const int64_t pitch = static_cast<int64_t>(ld) * static_cast<int64_t>(sizeof(float));
  const int64_t start = (distance % pitch + pitch) % pitch;
  return start < c_length * static_cast<int64_t>(sizeof(float)) ||
         start + length * static_cast<int64_t>(sizeof(float)) > pitch;
}

template <typename... Parameters, typename... Arguments>
int launch(void (*kernel)(Parameters...), int64_t blocks, cudaStream_t stream,
           Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(THREADS);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...) == cudaSuccess ? SUCCESS : LAUNCH_FAILED;
}

}  // namespace

// Checks the arguments; on `stream`, launches the first entry whose conditions hold.
extern "C" int sgemm_v0_naive(int M, int N, int K, float alpha, const float* A, int lda,
                              const float* B, int ldb, float beta, float* C, int ldc,
                              cudaStream_t stream) {
  if (M < 0 || N < 0 || K < 0) return NEGATIVE_SIZE;
  if (lda < K || lda < 1) return LEADING_DIMENSION;
  if (ldb < N || ldb < 1) return LEADING_DIMENSION;
  if (ldc < N || ldc < 1) return LEADING_DIMENSION;
  if (M == 0 || N == 0) return SUCCESS;
  const bool reads_inputs = K > 0 && alpha != 0.0f;
  if (C == nullptr || (reads_inputs && (A == nullptr || B == nullptr))) return NULL_POINTER;
  if (reads_inputs && overlap(C, M, N, ldc, A, M, K, lda)) return OVERLAP;
  if (reads_inputs && overlap(C, M, N, ldc, B, K, N, ldb)) return OVERLAP;
  const int64_t blocks_m = M / BLOCK_M + (M % BLOCK_M != 0);
  const int64_t blocks_n = N / BLOCK_N + (N % BLOCK_N != 0);
  const int64_t blocks = blocks_m * blocks_n;
  if (blocks > INT_MAX) return TOO_LARGE;
  const bool full_tiles = M % BLOCK_M == 0 && N % BLOCK_N == 0;
  if (full_tiles) {
    return launch(sgemm_v0_naive_fast, blocks, stream, M, N, K, alpha, A, lda, B, ldb, beta, C,
                  ldc);
  }
  return launch(sgemm_v0_naive_general, blocks, stream, M, N, K, alpha, A, lda, B, ldb, beta, C,
                ldc);
}
