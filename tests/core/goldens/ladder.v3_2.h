// sgemm_v3_2: C = alpha * A @ B + beta * C in FP32, by gemmdsl 0.1.0.
#ifndef SGEMM_V3_2_H
#define SGEMM_V3_2_H

#ifndef GEMMDSL_CPU
#include <cuda_runtime_api.h>
#elif !defined(GEMMDSL_STREAM)
#define GEMMDSL_STREAM
typedef void* cudaStream_t;  // not looked at
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef GEMMDSL_STATUS
#define GEMMDSL_STATUS
// What a launcher returns.
enum GemmdslStatus {
  GEMMDSL_SUCCESS = 0,  // launched, or nothing to do
  GEMMDSL_NEGATIVE_SIZE = 1,  // M, N or K is negative
  GEMMDSL_LEADING_DIMENSION = 2,  // a leading dimension is too small
  GEMMDSL_NULL_POINTER = 3,  // a pointer is null where data is needed
  GEMMDSL_OVERLAP = 4,  // C shares memory with A or B
  GEMMDSL_PRECONDITION = 5,  // an assumption of the schedule does not hold
  GEMMDSL_TOO_LARGE = 6,  // more blocks than a grid can have
  GEMMDSL_LAUNCH_FAILED = 7,  // CUDA refused the launch; see cudaGetLastError
  GEMMDSL_NO_MEMORY = 8,  // no memory for partial sums; see cudaGetLastError
};
#endif

// C = alpha * A @ B + beta * C for FP32 matrices in device memory, on `stream`.
//
// A[M, K] row-major; its leading dimension lda is at least max(1, K).
// B[K, N] row-major; its leading dimension ldb is at least max(1, N).
// C[M, N] row-major; its leading dimension ldc is at least max(1, N).
// C must not share memory with A or B:
// address ranges that meet are refused, unless both are panels of one
// matrix (equal leading dimensions) whose lines are apart. beta == 0 never reads C;
// alpha == 0 or K == 0 never reads A or B. NaN and infinity propagate.
// Returns a GemmdslStatus; errors of the kernel itself show at the next synchronisation.
int sgemm_v3_2(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
               float beta, float* C, int ldc, cudaStream_t stream);

#ifdef GEMMDSL_CPU
// Of a library that runs the kernel on the CPU, with all matrices in the host's memory:
// why the calling
// thread's last launch failed, "" when it did not.
const char* sgemm_v3_2_message(void);
#endif

#ifdef __cplusplus
}
#endif

#endif  // SGEMM_V3_2_H
