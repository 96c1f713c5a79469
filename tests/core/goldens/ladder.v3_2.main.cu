// Verifies sgemm_v3_2 against the host, then times it.
//
//   nvcc -O3 -std=c++17 -arch=sm_75 sgemm_v3_2.cu sgemm_v3_2_main.cu -o sgemm_v3_2
//   ./sgemm_v3_2 [M N K [repeats]]
//
// Exit status: 0 when every row of C is right, 1
// when one is not, 2 when CUDA or the arguments fail.

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "sgemm_v3_2.h"

namespace {

void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}

// A matrix of `rows` x `cols` in the kernel's layout, on the host and on the device.
struct Matrix {
  int rows, cols, ld;
  bool row_major;
  std::vector<float> host;
  float* device = nullptr;

  Matrix(int rows, int cols, bool row_major)
      : rows(rows),
        cols(cols),
        ld(row_major ? (cols > 0 ? cols : 1) : (rows > 0 ? rows : 1)),
        row_major(row_major),
        host(static_cast<size_t>(ld) * (row_major ? rows : cols)) {
    require(cudaMalloc(&device, (host.size() + 1) * sizeof(float)), "cudaMalloc");
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() { cudaFree(device); }

  float at(int row, int col) const {
    const int line = row_major ? row : col;
    return host[static_cast<size_t>(line) * ld + (row_major ? col : row)];
  }
  void upload() {
    require(cudaMemcpy(device, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice),
            "upload");
  }
  void download() {
    require(cudaMemcpy(host.data(), device, host.size() * sizeof(float), cudaMemcpyDeviceToHost),
            "download");
  }
};

// y = matrix @ x in double; exact while all values are integers below 2^53.
std::vector<double> times(const Matrix& matrix, const std::vector<double>& x) {
  std::vector<double> y(matrix.rows, 0.0);
  if (matrix.row_major) {
    for (int row = 0; row < matrix.rows; ++row) {
      for (int col = 0; col < matrix.cols; ++col) y[row] += matrix.at(row, col) * x[col];
    }
  } else {
    for (int col = 0; col < matrix.cols; ++col) {
      for (int row = 0; row < matrix.rows; ++row) y[row] += matrix.at(row, col) * x[col];
    }
  }
  return y;
}

int launch(const Matrix& A, const Matrix& B, const Matrix& C, float alpha, float beta) {
  const int M = C.rows, N = C.cols, K = A.cols;
  return sgemm_v3_2(M, N, K, alpha, A.device, A.ld, B.device, B.ld, beta, C.device, C.ld, nullptr);
}

// The largest error of C @ x against the host, over all rows, for a random x (Freivalds' check).
// Operands are small integers, so the right result is exact and a wrong element shows as an error.
double worst_error(int M, int N, int K, std::mt19937& random) {
  const int range = std::max(1,
                             std::min(8, static_cast<int>(std::sqrt(4194304.0 / std::max(1, K)))));
  std::uniform_int_distribution<int> value(-range, range), weight(1, 1024);
  Matrix A(M, K, true), B(K, N, true), C(M, N, true);
  for (Matrix* matrix : {&A, &B, &C}) {
    for (float& element : matrix->host) element = static_cast<float>(value(random));
    matrix->upload();
  }
  std::vector<double> x(N);
  for (double& element : x) element = weight(random);
  const double alpha = 2.0, beta = -1.0;
  const std::vector<double> product = times(A, times(B, x)), old = times(C, x);
  const int status = launch(A, B, C, 2.0f, -1.0f);
  if (status != GEMMDSL_SUCCESS) {
    std::fprintf(stderr, "the launcher refused with status %d\n", status);
    std::exit(2);
  }
  require(cudaDeviceSynchronize(), "kernel");
  C.download();
  const std::vector<double> result = times(C, x);
  double worst = 0.0;
  for (int row = 0; row < M; ++row) {
    const double error = std::fabs(result[row] - (alpha * product[row] + beta * old[row]));
    if (!(error <= worst)) worst = error;  // NaN counts as an error, and stays
    if (std::isnan(worst)) break;
  }
  return worst;
}

double milliseconds(int M, int N, int K, int repeats, std::mt19937& random) {
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  Matrix A(M, K, true), B(K, N, true), C(M, N, true);
  for (Matrix* matrix : {&A, &B, &C}) {
    for (float& element : matrix->host) element = value(random);
    matrix->upload();
  }
  cudaEvent_t start, stop;
  require(cudaEventCreate(&start), "cudaEventCreate");
  require(cudaEventCreate(&stop), "cudaEventCreate");
  for (int warm_up = 0; warm_up < 3; ++warm_up) launch(A, B, C, 1.0f, 0.0f);
  require(cudaEventRecord(start), "cudaEventRecord");
  for (int repeat = 0; repeat < repeats; ++repeat) launch(A, B, C, 1.0f, 0.0f);
  require(cudaEventRecord(stop), "cudaEventRecord");
  require(cudaEventSynchronize(stop), "kernel");
  float elapsed = 0.0f;
  require(cudaEventElapsedTime(&elapsed, start, stop), "cudaEventElapsedTime");
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  return elapsed / repeats;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 1 && count != 4 && count != 5) {
    std::fprintf(stderr, "usage: %s [M N K [repeats]]\n", arguments[0]);
    return 2;
  }
  int values[4] = {1024, 1024, 1024, 20};
  for (int index = 1; index < count; ++index) {
    char* end = nullptr;
    const long value = std::strtol(arguments[index], &end, 10);
    if (*arguments[index] == '\0' || *end != '\0' || value < 1 || value > INT32_MAX) {
      std::fprintf(stderr, "%s is no positive number\n", arguments[index]);
      return 2;
    }
    values[index - 1] = static_cast<int>(value);
  }
  const int M = values[0], N = values[1], K = values[2], repeats = values[3];
  std::mt19937 random(1);
  const double error = worst_error(M, N, K, random);
  std::printf("%dx%dx%d  error %g\n", M, N, K, error);
  if (!(error == 0.0)) {
    std::fprintf(stderr, "wrong result: not timed\n");
    return 1;
  }
  const double time = milliseconds(M, N, K, repeats, random);
  std::printf("%.4f ms  %.1f GFLOP/s\n", time, 2e-6 * M * N * K / time);
  return 0;
}
