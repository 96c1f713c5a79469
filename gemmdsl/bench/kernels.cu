// What a measurement needs beside the kernel that is measured: operands, a reference in double, a comparison
// of all elements, and the two ceilings.

#include <cstdint>

namespace {

constexpr int TILE = 32;    // outputs of a block along each axis of the reference
constexpr int ROWS = 8;     // rows of threads; each has TILE / ROWS outputs
constexpr int CHAINS = 16;  // independent sums per thread, more than an FMA is long
constexpr int STEPS = 32;   // FMAs of each chain per round

// The element at a place in memory: an integer in [-largest, largest], or with largest = 0 a number in
// [-1, 1) of 24 bits.  The same place and seed give the same value, so nothing has to be kept.
__device__ float value(int64_t place, unsigned seed, int largest) {
  uint64_t x = static_cast<uint64_t>(place) + 0x9E3779B97F4A7C15ull * (seed + 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  const unsigned bits = static_cast<unsigned>((x ^ (x >> 31)) >> 32);
  if (largest > 0) return static_cast<float>(static_cast<int>(bits % (2u * largest + 1u)) - largest);
  return static_cast<float>(static_cast<int>(bits >> 8) - (1 << 23)) * 0x1p-23f;
}

}  // namespace

extern "C" __global__ void gemmdsl_fill(float* to, int64_t count, unsigned seed, int largest) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += threads) {
    to[i] = value(i, seed, largest);
  }
}

// sum = A @ B and size = |A| @ |B|, row-major M x N; strides in elements.  A block is TILE x TILE outputs.
extern "C" __global__ void __launch_bounds__(TILE* ROWS)
gemmdsl_reference(int M, int N, int K, const float* A, int64_t a_row, int64_t a_col, const float* B,
                  int64_t b_row, int64_t b_col, double* sum, double* size) {
  __shared__ float a[TILE][TILE + 1];
  __shared__ float b[TILE][TILE + 1];
  const int blocks_n = (N - 1) / TILE + 1;
  const int64_t row = static_cast<int64_t>(blockIdx.x / blocks_n) * TILE;
  const int64_t col = static_cast<int64_t>(blockIdx.x % blocks_n) * TILE;
  const int x = threadIdx.x % TILE, y = threadIdx.x / TILE;
  double sums[TILE / ROWS] = {}, sizes[TILE / ROWS] = {};
  for (int64_t k = 0; k < K; k += TILE) {
    for (int r = y; r < TILE; r += ROWS) {
      a[r][x] = row + r < M && k + x < K ? A[(row + r) * a_row + (k + x) * a_col] : 0.0f;
      b[r][x] = k + r < K && col + x < N ? B[(k + r) * b_row + (col + x) * b_col] : 0.0f;
    }
    __syncthreads();
    for (int kk = 0; kk < TILE; ++kk) {
      const double right = b[kk][x];
#pragma unroll
      for (int i = 0; i < TILE / ROWS; ++i) {
        const double product = a[y + i * ROWS][kk] * right;
        sums[i] += product;
        sizes[i] += fabs(product);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TILE / ROWS; ++i) {
    const int64_t m = row + y + i * ROWS, n = col + x;
    if (m < M && n < N) {
      sum[m * N + n] = sums[i];
      size[m * N + n] = sizes[i];
    }
  }
}

// Compares C with alpha * sum + beta * old within gamma * (|alpha| * size + |beta * old|); gamma = 0 asks for
// equality.  What C held before is made again from its seed.  tally: wrong elements, the first of them (its
// place in row-major order), the largest error's bits.
extern "C" __global__ void gemmdsl_check(int M, int N, const float* C, int64_t c_row, int64_t c_col,
                                         const double* sum, const double* size, double alpha, double beta,
                                         double gamma, unsigned seed, unsigned long long* tally) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t count = static_cast<int64_t>(M) * N;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += threads) {
    const int64_t place = i / N * c_row + i % N * c_col;
    const double old = beta != 0.0 ? beta * value(place, seed, 0) : 0.0;
    const double error = fabs(C[place] - (alpha * sum[i] + old));
    // NaN fails both comparisons, and its bits are larger than any number's.
    if (!(error <= gamma * (fabs(alpha) * size[i] + fabs(old)))) {
      atomicAdd(tally, 1ull);
      atomicMin(tally + 1, static_cast<unsigned long long>(i));
    }
    if (!(error == 0.0)) atomicMax(tally + 2, static_cast<unsigned long long>(__double_as_longlong(error)));
  }
}

// CHAINS * STEPS FMAs per thread and round, all in registers.
extern "C" __global__ void __launch_bounds__(256) gemmdsl_peak(float* out, int rounds, float factor) {
  float sums[CHAINS];
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) sums[i] = static_cast<float>(threadIdx.x + i);
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
      for (int i = 0; i < CHAINS; ++i) sums[i] = fmaf(sums[i], factor, factor);
    }
  }
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < CHAINS; ++i) total += sums[i];
  // Never so, but the compiler cannot know.
  if (total == 1.25f) out[threadIdx.x] = total;
}
