// sgemm_flat: C = alpha * A @ B + beta * C in FP32, by gemmdsl 0.1.0.
//
// source    shapes.gemm, schedule flat (gemm 1)
// target    sm_90
// operands  A[M, K] row-major, B[K, N] row-major, C[M, N] row-major
// passes    register_blocking, warp_tiling, stage_shared, transpose, pad,
//           vectorise, async_copies, fma_order, fragments, split_k, specialise
// launch    sgemm_flat_scale, all elements of C
//           ceil(M / 16) * ceil(N / 128) x 8 blocks of 128 threads
// shared    41984 bytes, static
// fast      M % 16 == 0; N % 128 == 0; K % 16 == 0;
//           B, C at multiples of 16 bytes, ldb, ldc multiples of 4
// edge      N % 4 == 0; B, C at multiples of 16 bytes, ldb, ldc multiples of 4
// general   always right
// proved    C tile: 2048 outputs, 16 for each of 128 threads, each written exactly once
//           grid: each tile of C belongs to exactly one block, one for each part of K
//           K: 8 parts of whole tiles, which are disjoint and cover it
//           C stores: 4 neighbours at a time, each vector at a multiple of 4
//           A tile: 256 elements copied exactly once by 128 threads one by one
//           A tile: 256 elements at distinct shared words, padding of 20 unused
//           A reads: 4 elements per thread and k, each where it was stored, 4 at a time, aligned
//           B tile: 2048 elements copied exactly once by 128 threads in 512 vectors of 4, or singly
//           B tile: 2048 elements at distinct shared words, stored 4 at a time, aligned
//           B reads: 4 elements per thread and k, each where it was stored, 4 at a time, aligned
//           guards (fast, edge, general):
//           an axis without guard and a vector in global memory follow from the conditions
//           sums: C is scaled by beta once, and each of 8 parts is added once
//           sweeps: a kernel that goes through C meets each element once
//           K loop: 0 to 10 tiles, then repeating; each multiplied once, in order, through 4 slots
//           shared memory: no two threads touch a word without a barrier between, unless both read
//           limits: 128 threads and 41984 bytes of shared memory per block fit sm_90
//
// Semantics: beta == 0 never reads C; alpha == 0 or K == 0 never reads A or B. NaN and infinity
// propagate. alpha multiplies each part of K: when it is infinite, a part of 0 gives NaN.

#include <cuda_runtime.h>
#include <cuda_pipeline_primitives.h>

#include <climits>
#include <cstdint>

namespace {

// Tiles and threads.
constexpr int BLOCK_M = 16;
constexpr int BLOCK_N = 128;
constexpr int BLOCK_K = 16;
constexpr int BUFFERS = 4;  // slots of each shared tile
constexpr int WARP_SIZE = 32;
constexpr int WARP_M = 8;  // warp tile
constexpr int WARP_N = 64;
constexpr int LANES_M = 2;  // lanes of a warp over its tile
constexpr int THREAD_M = 4;  // outputs of a thread
constexpr int THREAD_N = 4;  // outputs of a thread
constexpr int PARTS = 8;  // blocks that share the K of a tile of C
constexpr int WARPS_M = BLOCK_M / WARP_M;
constexpr int WARPS_N = BLOCK_N / WARP_N;
constexpr int THREADS = WARPS_M * WARPS_N * WARP_SIZE;  // of a block
constexpr int FRAGMENTS = 2;  // sets of fragment registers
constexpr int COPY_STEP = 2;  // of a K tile, in which copies are issued
constexpr int SWEEP_THREADS = 256;  // of a block that goes through C
constexpr int SWEEP_LENGTH = 32;  // of them, along a line
constexpr int SWEEP_LINES = SWEEP_THREADS / SWEEP_LENGTH;  // of them, from line to line
constexpr int SWEEP_BLOCKS = 65535;  // along the second axis of its grid, at most

// How A moves and where its tile lies.
constexpr int A_PAD = 20;  // unused floats at the end of a row
constexpr int A_ROW = BLOCK_M + A_PAD;  // floats from row to row of A's tile
constexpr int A_VECTOR = 1;  // floats per global load of A
constexpr int A_READ = 4;  // floats per shared read
constexpr int A_ROW_VECTORS = BLOCK_K;  // loads per row of the global tile
constexpr int A_VECTORS = BLOCK_M * A_ROW_VECTORS;  // loads per tile
constexpr int A_COPIES = A_VECTORS / THREADS;  // loads per thread and tile

// How B moves and where its tile lies.
constexpr int B_ROW = BLOCK_N;  // floats from row to row of B's tile
constexpr int B_VECTOR = 4;  // floats per global load of B
constexpr int B_READ = 4;  // floats per shared read
constexpr int B_ROW_VECTORS = BLOCK_N / B_VECTOR;  // loads per row of the global tile
constexpr int B_VECTORS = BLOCK_K * B_ROW_VECTORS;  // loads per tile
constexpr int B_COPIES = B_VECTORS / THREADS;  // loads per thread and tile
constexpr int B_WORDS = BLOCK_K * BLOCK_N;  // floats per tile, where vectors are not allowed
constexpr int B_WORD_COPIES = B_WORDS / THREADS;  // of them per thread

// How C moves.
constexpr int C_VECTOR = 4;  // floats per store of C

static_assert(THREADS <= 1024, "CUDA's limit");
static_assert(BLOCK_M * BLOCK_N == THREADS * THREAD_M * THREAD_N, "one owner for each output");
static_assert(LANES_M * THREAD_M == WARP_M, "lanes cover the warp tile");
static_assert(BLOCK_K * BLOCK_M % A_VECTOR == 0, "loads cover the tile of A");
static_assert(A_VECTORS == A_COPIES * THREADS, "threads share the loads of A evenly");
static_assert(THREADS % A_ROW_VECTORS == 0, "loads of A step by whole rows");
static_assert(A_ROW % A_READ == 0, "rows of A keep vectors aligned");
static_assert(THREAD_M % A_READ == 0, "reads of A stay in a piece");
static_assert(BLOCK_K * BLOCK_N % B_VECTOR == 0, "loads cover the tile of B");
static_assert(B_VECTORS == B_COPIES * THREADS, "threads share the loads of B evenly");
static_assert(THREADS % B_ROW_VECTORS == 0, "loads of B step by whole rows");
static_assert(B_WORDS == B_WORD_COPIES * THREADS, "threads share the words of B evenly");
static_assert(THREADS == BLOCK_N, "words of B step from row to row");
static_assert(B_ROW % B_READ == 0, "rows of B keep vectors aligned");
static_assert(THREAD_N % B_READ == 0, "reads of B stay in a piece");
static_assert(BLOCK_K % FRAGMENTS == 0, "sets of fragments take turns from tile to tile");
static_assert(COPY_STEP < BLOCK_K - 1, "the step that issues copies is one of the loop");
static_assert(A_VECTOR == 1, "factors of 1 are left out");

// One K tile of both operands in shared memory.
struct Stage {
  alignas(16) float A[BLOCK_K][A_ROW];  // [k][m]
  alignas(16) float B[BLOCK_K][B_ROW];  // [k][n]
};
static_assert(sizeof(Stage) == 10496, "the shared memory that was planned");

// Distance in floats of a row (or column) from the first one; 64 bits, for it can pass 2^31.
__device__ __forceinline__ int64_t offset(int index, int ld) {
  return static_cast<int64_t>(index) * ld;
}

// index % count for an index below 2 * count.
__device__ __forceinline__ int wrap(int index, int count) {
  return index < count ? index : index - count;
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

// Adds WIDTH neighbouring floats to global memory, each atomically.
template <int WIDTH>
__device__ __forceinline__ void add(float* to, const float* from) {
  if constexpr (WIDTH == 4) {
    atomicAdd(reinterpret_cast<float4*>(to), *reinterpret_cast<const float4*>(from));
  } else if constexpr (WIDTH == 2) {
    atomicAdd(reinterpret_cast<float2*>(to), *reinterpret_cast<const float2*>(from));
  } else {
    atomicAdd(to, *from);
  }
}

// Adds WIDTH neighbours to global memory, but none from `valid` on.
template <int WIDTH, bool ALIGNED>
__device__ __forceinline__ void add_global(float* to, const float (&from)[WIDTH], int valid) {
  if (ALIGNED && valid >= WIDTH) {
    add<WIDTH>(to, from);
  } else {
#pragma unroll
    for (int e = 0; e < WIDTH; ++e) {
      if (e < valid) add<1>(to + e, from + e);
    }
  }
}

// Starts copying WIDTH neighbours from global to shared memory;
// those not inside the matrix are not touched and become zero.
template <int WIDTH>
__device__ __forceinline__ void copy_global_async(float* to, const float* from, bool inside) {
  constexpr int BYTES = WIDTH * sizeof(float);
  const int read = inside ? BYTES : 0;
#ifdef __CUDA_ARCH__
  // The instruction itself fills up with zeros; __pipeline_memcpy_async would branch on how many.
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (WIDTH == 4) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(from),
                 "n"(BYTES), "r"(read) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(from),
                 "n"(BYTES), "r"(read) : "memory");
  }
#else
  // What host compilers get to see: nvcc's own, and those of whoever runs this text on a CPU.
  __pipeline_memcpy_async(to, from, BYTES, BYTES - read);
#endif
}

// Starts copying a K tile of A into shared memory, kept as [k][m]; `from` moves on.
template <bool FULL>
__device__ __forceinline__ void copy_a_async(float* to, const float*& from, int lda, int m_left,
                                             int k_left, int thread) {
#pragma unroll
  for (int copy = 0; copy < A_COPIES; ++copy) {
    const int m = thread / A_ROW_VECTORS + copy * (THREADS / A_ROW_VECTORS);
    const int k = thread % A_ROW_VECTORS;
    const bool inside = FULL || (m < m_left && k < k_left);
    copy_global_async<A_VECTOR>(to + copy * (THREADS / A_ROW_VECTORS),
                                from + offset(copy * (THREADS / A_ROW_VECTORS), lda), inside);
  }
  from += BLOCK_K;
}

// Starts copying a K tile of B into shared memory, kept as [k][n]; `from` moves on.
template <bool FULL, bool ALIGNED>
__device__ __forceinline__ void copy_b_async(float* to, const float*& from, int ldb, int n_left,
                                             int k_left, int thread) {
  if constexpr (ALIGNED) {
#pragma unroll
    for (int copy = 0; copy < B_COPIES; ++copy) {
      const int n = (thread % B_ROW_VECTORS) * B_VECTOR;
      const int k = thread / B_ROW_VECTORS + copy * (THREADS / B_ROW_VECTORS);
      const bool inside = FULL || (k < k_left && n < n_left);
      copy_global_async<B_VECTOR>(to + copy * (THREADS / B_ROW_VECTORS) * B_ROW,
                                  from + offset(copy * (THREADS / B_ROW_VECTORS), ldb), inside);
    }
  } else {
#pragma unroll
    for (int copy = 0; copy < B_WORD_COPIES; ++copy) {
      const int n = thread;
      const int k = copy;
      const bool inside = FULL || (k < k_left && n < n_left);
      copy_global_async<1>(to + copy * B_ROW, from + offset(copy, ldb), inside);
    }
  }
  from += offset(BLOCK_K, ldb);
}

// acc += a outer b: one FMA per output.
__device__ __forceinline__ void multiply(float (&acc)[THREAD_M][THREAD_N],
                                         const float (&a)[THREAD_M], const float (&b)[THREAD_N]) {
#pragma unroll
  for (int j = 0; j < THREAD_N; ++j) {
#pragma unroll
    for (int step = 0; step < THREAD_M; ++step) {
      const int i = j % 2 == 0 ? step : THREAD_M - 1 - step;  // there and back again
      acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
    }
  }
}

// Reads this thread's fragment of A at one k from a shared tile.
__device__ __forceinline__ void read_a(float (&to)[THREAD_M], const float (&tile)[BLOCK_K][A_ROW],
                                       int k, int thread_row) {
#pragma unroll
  for (int i = 0; i < THREAD_M; i += A_READ) {
    move<A_READ>(&to[i], &tile[k][thread_row + i]);
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

// Adds alpha times this thread's products to C, to which other blocks add as well.
template <bool FULL, bool ALIGNED>
__device__ __forceinline__ void add_c(float* C, int ldc, int m_left, int n_left, float scale,
                                      const float (&acc)[THREAD_M][THREAD_N], int thread_row,
                                      int thread_col) {
#pragma unroll
  for (int i = 0; i < THREAD_M; ++i) {
#pragma unroll
    for (int j = 0; j < THREAD_N; j += C_VECTOR) {
      const int m = thread_row + i;
      const int n = thread_col + j;
      const int valid = FULL ? C_VECTOR : (m < m_left ? n_left - n : 0);
      alignas(16) float out[C_VECTOR];
#pragma unroll
      for (int e = 0; e < C_VECTOR; ++e) out[e] = scale * acc[i][j + e];
      add_global<C_VECTOR, ALIGNED>(C + offset(m, ldc) + n, out, valid);
    }
  }
}

// One block: the tile of C whose first row and column are block_row and block_col.
// FULL: M, N and K are whole tiles, no guards; ALIGNED: vectors are allowed in global memory.
template <bool FULL, bool ALIGNED>
__device__ __forceinline__ void compute_block(Stage* stages, int M, int N, int K, float alpha,
                                              const float* __restrict__ A, int lda,
                                              const float* __restrict__ B, int ldb,
                                              float* __restrict__ C, int ldc) {
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / WARP_SIZE;
  const int lane = thread % WARP_SIZE;
  const int thread_row = (warp / WARPS_N) * WARP_M + ((lane / 2) % LANES_M) * THREAD_M;
  const int thread_col = (warp % WARPS_N) * WARP_N
      + ((lane / (LANES_M * 2)) * 2 + lane % 2) * THREAD_N;
  const int block = static_cast<int>(blockIdx.x);
  const int blocks_n = N / BLOCK_N + (N % BLOCK_N != 0);
  const int block_row = (block / blocks_n) * BLOCK_M;
  const int block_col = (block % blocks_n) * BLOCK_N;
  const int m_left = M - block_row;  // rows of C from here on
  const int n_left = N - block_col;  // columns of C from here on
  const int whole = alpha == 0.0f ? 0 : K;  // alpha == 0 reads neither A nor B
  const int split = static_cast<int>(blockIdx.y);  // which part of K is this block's
  const int all_tiles = whole / BLOCK_K + (whole % BLOCK_K != 0);
  const int k_first = min(whole,
                          (split * (all_tiles / PARTS) + min(split, all_tiles % PARTS)) * BLOCK_K);
  const int depth = min(whole - k_first,
                        (all_tiles / PARTS + (split < all_tiles % PARTS)) * BLOCK_K);
  // Where this thread's copies of the next K tile begin, in global memory and in the shared tile.
  const float* a_from = A + offset(block_row + thread / A_ROW_VECTORS, lda) + k_first
      + thread % A_ROW_VECTORS;
  const int a_to = (thread % A_ROW_VECTORS) * A_ROW + thread / A_ROW_VECTORS;
  const float* b_from = ALIGNED
      ? B + offset(k_first + thread / B_ROW_VECTORS, ldb) + block_col
          + (thread % B_ROW_VECTORS) * B_VECTOR
      : B + offset(k_first, ldb) + block_col + thread;
  const int b_to = ALIGNED
      ? (thread / B_ROW_VECTORS) * B_ROW + (thread % B_ROW_VECTORS) * B_VECTOR
      : thread;
  const int k_tiles = depth / BLOCK_K + (depth % BLOCK_K != 0);

  float acc[THREAD_M][THREAD_N] = {};
  alignas(16) float a[FRAGMENTS][THREAD_M];
  alignas(16) float b[FRAGMENTS][THREAD_N];

#pragma unroll
  for (int tile = 0; tile < BUFFERS - 1; ++tile) {
    if (tile < k_tiles) {
      copy_a_async<FULL>(stages[tile].A[0] + a_to, a_from, lda, m_left, depth - tile * BLOCK_K,
                         thread);
      copy_b_async<FULL, ALIGNED>(stages[tile].B[0] + b_to, b_from, ldb, n_left,
                                  depth - tile * BLOCK_K, thread);
    }
    __pipeline_commit();
  }
  __pipeline_wait_prior(BUFFERS - 2);
  __syncthreads();  // the first tile is complete before anyone reads it
  if (0 < k_tiles) {
    read_b(b[0], stages[0].B, 0, thread_col);
    read_a(a[0], stages[0].A, 0, thread_row);
  }
  int slot = 0, free_slot = BUFFERS - 1;
  for (int tile = 0; tile < k_tiles; ++tile) {
#pragma unroll
    for (int k = 0; k < BLOCK_K - 1; ++k) {
      read_b(b[(k + 1) % FRAGMENTS], stages[slot].B, k + 1, thread_col);
      read_a(a[(k + 1) % FRAGMENTS], stages[slot].A, k + 1, thread_row);
      if (k == COPY_STEP) {
        if (tile + BUFFERS - 1 < k_tiles) {
          copy_a_async<FULL>(stages[free_slot].A[0] + a_to, a_from, lda, m_left,
                             depth - (tile + BUFFERS - 1) * BLOCK_K, thread);
          copy_b_async<FULL, ALIGNED>(stages[free_slot].B[0] + b_to, b_from, ldb, n_left,
                                      depth - (tile + BUFFERS - 1) * BLOCK_K, thread);
        }
      }
      multiply(acc, a[k % FRAGMENTS], b[k % FRAGMENTS]);
    }
    __pipeline_commit();
    __pipeline_wait_prior(BUFFERS - 2);
    __syncthreads();  // the next tile has landed for all, and nobody reads this one any more
    read_b(b[0], stages[wrap(slot + (tile + 1 < k_tiles), BUFFERS)].B, 0, thread_col);
    read_a(a[0], stages[wrap(slot + (tile + 1 < k_tiles), BUFFERS)].A, 0, thread_row);
    multiply(acc, a[(BLOCK_K - 1) % FRAGMENTS], b[(BLOCK_K - 1) % FRAGMENTS]);
    slot = wrap(slot + 1, BUFFERS);
    free_slot = wrap(free_slot + 1, BUFFERS);
  }
  if (depth > 0) {  // a part without tiles has nothing to add
    C += offset(block_row, ldc) + block_col;
    add_c<FULL, ALIGNED>(C, ldc, m_left, n_left, alpha, acc, thread_row, thread_col);
  }
}

}  // namespace

// C = beta * C; C is not read when beta == 0.
extern "C" __global__ void __launch_bounds__(SWEEP_THREADS)
sgemm_flat_scale(int M, int N, float beta, float* __restrict__ C, int ldc) {
  if (beta == 1.0f) return;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * SWEEP_LENGTH + threadIdx.x % SWEEP_LENGTH;
  if (at >= N) return;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * SWEEP_LINES + threadIdx.x / SWEEP_LENGTH;
  for (int64_t line = first; line < M; line += static_cast<int64_t>(gridDim.y) * SWEEP_LINES) {
    float* const to = C + offset(line, ldc) + at;
    float out = 0.0f;
    if (beta != 0.0f) out = beta * *to;
    *to = out;
  }
}

// Requires M % 16 == 0; N % 128 == 0; K % 16 == 0;
// B, C at multiples of 16 bytes, ldb, ldc multiples of 4.
extern "C" __global__ void __launch_bounds__(THREADS)
sgemm_flat_fast(int M, int N, int K, float alpha, const float* __restrict__ A, int lda,
                const float* __restrict__ B, int ldb, float beta, float* __restrict__ C, int ldc) {
  __shared__ Stage stages[BUFFERS];
  compute_block<true, true>(stages, M, N, K, alpha, A, lda, B, ldb, C, ldc);
}

// Requires N % 4 == 0; B, C at multiples of 16 bytes, ldb, ldc multiples of 4.
extern "C" __global__ void __launch_bounds__(THREADS)
sgemm_flat_edge(int M, int N, int K, float alpha, const float* __restrict__ A, int lda,
                const float* __restrict__ B, int ldb, float beta, float* __restrict__ C, int ldc) {
  __shared__ Stage stages[BUFFERS];
  compute_block<false, true>(stages, M, N, K, alpha, A, lda, B, ldb, C, ldc);
}

// Right for every size, leading dimension and alignment.
extern "C" __global__ void __launch_bounds__(THREADS)
sgemm_flat_general(int M, int N, int K, float alpha, const float* __restrict__ A, int lda,
                   const float* __restrict__ B, int ldb, float beta, float* __restrict__ C,
                   int ldc) {
  __shared__ Stage stages[BUFFERS];
  compute_block<false, false>(stages, M, N, K, alpha, A, lda, B, ldb, C, ldc);
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

// Whether every row (or column) starts at an address that allows vectors of `width` floats.
bool aligned(const float* matrix, int ld, int width) {
  return reinterpret_cast<uintptr_t>(matrix) % (width * sizeof(float)) == 0 && ld % width == 0;
}

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
int launch(void (*kernel)(Parameters...), dim3 grid, int threads, cudaStream_t stream,
           Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...) == cudaSuccess ? SUCCESS : LAUNCH_FAILED;
}

}  // namespace

// Checks the arguments; on `stream`, multiplies C by beta,
// then launches the first entry whose conditions hold.
extern "C" int sgemm_flat(int M, int N, int K, float alpha, const float* A, int lda, const float* B,
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
  const bool vectors = N % B_VECTOR == 0 && aligned(B, ldb, B_VECTOR) && aligned(C, ldc, C_VECTOR);
  const dim3 grid(static_cast<unsigned>(blocks), PARTS);
  const dim3 sweep(N / SWEEP_LENGTH + (N % SWEEP_LENGTH != 0),
                   min(M / SWEEP_LINES + (M % SWEEP_LINES != 0), SWEEP_BLOCKS));
  const int status = launch(sgemm_flat_scale, sweep, SWEEP_THREADS, stream, M, N, beta, C, ldc);
  if (status != SUCCESS) return status;
  auto entry = sgemm_flat_general;
  if (full_tiles && vectors) {
    entry = sgemm_flat_fast;
  } else if (vectors) {
    entry = sgemm_flat_edge;
  }
  return launch(entry, grid, THREADS, stream, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}
