// sgemm_odd: C = alpha * A @ B + beta * C in FP32, by gemmdsl 0.1.0.
//
// source    tiles.gemm, schedule odd (gemm 1)
// target    sm_75
// operands  A[M, K] row-major, B[K, N] row-major, C[M, N] row-major
// passes    register_blocking, stage_shared, specialise
// launch    ceil(M / 35) * ceil(N / 50) blocks of 70 threads
// shared    1712 bytes, static
// fast      M % 35 == 0; N % 50 == 0; K % 5 == 0
// general   always right
// proved    C tile: 1750 outputs, 25 for each of 70 threads, each written exactly once
//           grid: each tile of C belongs to exactly one block
//           A tile: 175 elements copied exactly once by 70 threads one by one
//           A tile: 175 elements at distinct shared words
//           A reads: 5 elements per thread and k, each where it was stored
//           B tile: 250 elements copied exactly once by 70 threads one by one
//           B tile: 250 elements at distinct shared words
//           B reads: 5 elements per thread and k, each where it was stored
//           guards (fast, general):
//           an axis without guard and a vector in global memory follow from the conditions
//           K loop: 0 to 4 tiles, then repeating; each multiplied once, in order, through 1 slot
//           shared memory: no two threads touch a word without a barrier between, unless both read
//           limits: 70 threads and 1712 bytes of shared memory per block fit sm_75
//
// Semantics: beta == 0 never reads C;
// alpha == 0 or K == 0 never reads A or B. NaN and infinity propagate.

#include <cuda_runtime.h>

#include <climits>
#include <cstdint>

namespace {

// Tiles and threads.
constexpr int BLOCK_M = 35;
constexpr int BLOCK_N = 50;
constexpr int BLOCK_K = 5;
constexpr int THREAD_M = 5;  // outputs of a thread
constexpr int THREAD_N = 5;  // outputs of a thread
constexpr int THREADS_M = BLOCK_M / THREAD_M;
constexpr int THREADS_N = BLOCK_N / THREAD_N;
constexpr int THREADS = THREADS_M * THREADS_N;  // of a block

// How A moves and where its tile lies.
constexpr int A_ROW = BLOCK_K;  // floats from row to row of A's tile
constexpr int A_VECTOR = 1;  // floats per global load of A
constexpr int A_STORE = 1;  // floats per shared store
constexpr int A_READ = 1;  // floats per shared read
constexpr int A_ROW_VECTORS = BLOCK_K;  // loads per row of the global tile
constexpr int A_VECTORS = BLOCK_M * A_ROW_VECTORS;  // loads per tile
constexpr int A_COPIES = (A_VECTORS + THREADS - 1) / THREADS;  // loads per thread and tile

// How B moves and where its tile lies.
constexpr int B_ROW = BLOCK_N;  // floats from row to row of B's tile
constexpr int B_VECTOR = 1;  // floats per global load of B
constexpr int B_STORE = 1;  // floats per shared store
constexpr int B_READ = 1;  // floats per shared read
constexpr int B_ROW_VECTORS = BLOCK_N;  // loads per row of the global tile
constexpr int B_VECTORS = BLOCK_K * B_ROW_VECTORS;  // loads per tile
constexpr int B_COPIES = (B_VECTORS + THREADS - 1) / THREADS;  // loads per thread and tile

// How C moves.
constexpr int C_VECTOR = 1;  // floats per store of C

static_assert(THREADS <= 1024, "CUDA's limit");
static_assert(BLOCK_M * BLOCK_N == THREADS * THREAD_M * THREAD_N, "one owner for each output");
static_assert(BLOCK_M * BLOCK_K % A_VECTOR == 0, "loads cover the tile of A");
static_assert(THREADS % A_ROW_VECTORS == 0, "loads of A step by whole rows");
static_assert(BLOCK_K * BLOCK_N % B_VECTOR == 0, "loads cover the tile of B");
static_assert(C_VECTOR == 1 && A_VECTOR == 1 && A_STORE == 1 && A_READ == 1 && B_VECTOR == 1 &&
                  B_STORE == 1 && B_READ == 1, "factors of 1 are left out");

// One K tile of both operands in shared memory.
struct Stage {
  alignas(16) float A[BLOCK_M][A_ROW];  // [m][k]
  alignas(16) float B[BLOCK_K][B_ROW];  // [k][n]
};
static_assert(sizeof(Stage) == 1712, "the shared memory that was planned");

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

// Reads this thread's share of a K tile of A into registers; `from` moves on to the next tile.
template <bool FULL>
__device__ __forceinline__ void load_a(float (&to)[A_COPIES][A_VECTOR], const float*& from, int lda,
                                       int m_left, int k_left, int thread) {
#pragma unroll
  for (int copy = 0; copy < A_COPIES; ++copy) {
    if (thread + copy * THREADS >= A_VECTORS) continue;
    const int m = thread / A_ROW_VECTORS + copy * (THREADS / A_ROW_VECTORS);
    const int k = thread % A_ROW_VECTORS;
    const int valid = FULL ? A_VECTOR : (m < m_left ? k_left - k : 0);
    load_global<A_VECTOR, true>(to[copy], from + offset(copy * (THREADS / A_ROW_VECTORS), lda),
                                valid);
  }
  from += BLOCK_K;
}

// Stores what load_a read into a shared tile, kept as [m][k].
__device__ __forceinline__ void store_a(float* to, const float (&from)[A_COPIES][A_VECTOR],
                                        int thread) {
#pragma unroll
  for (int copy = 0; copy < A_COPIES; ++copy) {
    if (thread + copy * THREADS >= A_VECTORS) continue;
#pragma unroll
    for (int e = 0; e < A_VECTOR; e += A_STORE) {
      move<A_STORE>(to + copy * (THREADS / A_ROW_VECTORS) * A_ROW + e, &from[copy][e]);
    }
  }
}

// Copies a K tile of A into shared memory; `from` moves on to the next tile.
template <bool FULL>
__device__ __forceinline__ void copy_a(float* to, const float*& from, int lda, int m_left,
                                       int k_left, int thread) {
  alignas(16) float staged[A_COPIES][A_VECTOR];
  load_a<FULL>(staged, from, lda, m_left, k_left, thread);
  store_a(to, staged, thread);
}

// Reads this thread's share of a K tile of B into registers; `from` moves on to the next tile.
template <bool FULL>
__device__ __forceinline__ void load_b(float (&to)[B_COPIES][B_VECTOR], const float*& from, int ldb,
                                       int n_left, int k_left, int thread) {
#pragma unroll
  for (int copy = 0; copy < B_COPIES; ++copy) {
    if (thread + copy * THREADS >= B_VECTORS) continue;
    const int n = (thread + copy * THREADS) % B_ROW_VECTORS;
    const int k = (thread + copy * THREADS) / B_ROW_VECTORS;
    const int valid = FULL ? B_VECTOR : (k < k_left ? n_left - n : 0);
    load_global<B_VECTOR, true>(to[copy], from + offset(k, ldb) + n, valid);
  }
  from += offset(BLOCK_K, ldb);
}

// Stores what load_b read into a shared tile, kept as [k][n].
__device__ __forceinline__ void store_b(float* to, const float (&from)[B_COPIES][B_VECTOR],
                                        int thread) {
#pragma unroll
  for (int copy = 0; copy < B_COPIES; ++copy) {
    if (thread + copy * THREADS >= B_VECTORS) continue;
    const int n = (thread + copy * THREADS) % B_ROW_VECTORS;
    const int k = (thread + copy * THREADS) / B_ROW_VECTORS;
#pragma unroll
    for (int e = 0; e < B_VECTOR; e += B_STORE) {
      move<B_STORE>(to + k * B_ROW + n + e, &from[copy][e]);
    }
  }
}

// Copies a K tile of B into shared memory; `from` moves on to the next tile.
template <bool FULL>
__device__ __forceinline__ void copy_b(float* to, const float*& from, int ldb, int n_left,
                                       int k_left, int thread) {
  alignas(16) float staged[B_COPIES][B_VECTOR];
  load_b<FULL>(staged, from, ldb, n_left, k_left, thread);
  store_b(to, staged, thread);
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

// Reads this thread's fragment of A at one k from a shared tile.
__device__ __forceinline__ void read_a(float (&to)[THREAD_M], const float (&tile)[BLOCK_M][A_ROW],
                                       int k, int thread_row) {
#pragma unroll
  for (int i = 0; i < THREAD_M; i += A_READ) {
    move<A_READ>(&to[i], &tile[thread_row + i][k]);
  }
}

// Reads this thread's fragment of B at one k from a shared tile.
__device__ __forceinline__ void read_b(float (&to)[THREAD_N], const float (&tile)[BLOCK_K][B_ROW],
                                       int k, int thread_col) {
#pragma unroll
  for (int j = 0; j < THREAD_N; j += B_READ) {
    move<B_READ>(&to[j], &tile[k][thread_col + j]);
  }
}

// acc += A tile @ B tile, step by step along K.
__device__ __forceinline__ void multiply_tile(float (&acc)[THREAD_M][THREAD_N], const Stage& stage,
                                              int thread_row, int thread_col) {
#pragma unroll
  for (int k = 0; k < BLOCK_K; ++k) {
    alignas(16) float a[THREAD_M];
    alignas(16) float b[THREAD_N];
    read_a(a, stage.A, k, thread_row);
    read_b(b, stage.B, k, thread_col);
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
      const int m = thread_row + i;
      const int n = thread_col + j;
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
__device__ __forceinline__ void compute_block(Stage& stage, int M, int N, int K, float alpha,
                                              const float* __restrict__ A, int lda,
                                              const float* __restrict__ B, int ldb, float beta,
                                              float* __restrict__ C, int ldc) {
  const int thread = static_cast<int>(threadIdx.x);
  const int thread_row = (thread / THREADS_N) * THREAD_M;
  const int thread_col = (thread % THREADS_N) * THREAD_N;
  const int block = static_cast<int>(blockIdx.x);
  const int blocks_n = N / BLOCK_N + (N % BLOCK_N != 0);
  const int block_row = (block / blocks_n) * BLOCK_M;
  const int block_col = (block % blocks_n) * BLOCK_N;
  const int m_left = M - block_row;  // rows of C from here on
  const int n_left = N - block_col;  // columns of C from here on
  // Where this thread's copies of the next K tile begin, in global memory and in the shared tile.
  const float* a_from = A + offset(block_row + thread / A_ROW_VECTORS, lda)
      + thread % A_ROW_VECTORS;
  const int a_to = (thread / A_ROW_VECTORS) * A_ROW + thread % A_ROW_VECTORS;
  const float* b_from = B + block_col;
  const int b_to = 0;
  const int depth = alpha == 0.0f ? 0 : K;  // alpha == 0 reads neither A nor B
  const int k_tiles = depth / BLOCK_K + (depth % BLOCK_K != 0);

  float acc[THREAD_M][THREAD_N] = {};

  for (int tile = 0; tile < k_tiles; ++tile) {
    copy_a<FULL>(stage.A[0] + a_to, a_from, lda, m_left, depth - tile * BLOCK_K, thread);
    copy_b<FULL>(stage.B[0] + b_to, b_from, ldb, n_left, depth - tile * BLOCK_K, thread);
    __syncthreads();  // the tile is complete before anyone reads it
    multiply_tile(acc, stage, thread_row, thread_col);
    __syncthreads();  // everyone has read the tile before the next one overwrites it
  }
  C += offset(block_row, ldc) + block_col;
  store_c<FULL>(C, ldc, m_left, n_left,
                depth > 0 ? alpha : 0.0f, beta, acc, thread_row, thread_col);
}

}  // namespace

// Requires M % 35 == 0; N % 50 == 0; K % 5 == 0.
extern "C" __global__ void __launch_bounds__(THREADS)
sgemm_odd_fast(int M, int N, int K, float alpha, const float* __restrict__ A, int lda,
               const float* __restrict__ B, int ldb, float beta, float* __restrict__ C, int ldc) {
  __shared__ Stage stage;
  compute_block<true>(stage, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}

// Right for every size, leading dimension and alignment.
extern "C" __global__ void __launch_bounds__(THREADS)
sgemm_odd_general(int M, int N, int K, float alpha, const float* __restrict__ A, int lda,
                  const float* __restrict__ B, int ldb, float beta, float* __restrict__ C,
                  int ldc) {
  __shared__ Stage stage;
  compute_block<false>(stage, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
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
extern "C" int sgemm_odd(int M, int N, int K, float alpha, const float* A, int lda, const float* B,
                         int ldb, float beta, float* C, int ldc, cudaStream_t stream) {
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
  const bool full_tiles = M % BLOCK_M == 0 && N % BLOCK_N == 0 && K % BLOCK_K == 0;
  if (full_tiles) {
    return launch(sgemm_odd_fast, blocks, stream, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
  }
  return launch(sgemm_odd_general, blocks, stream, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}
