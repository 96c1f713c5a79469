/* sgemm_ as BLAS has it, made of four launchers with column-major C, and what BLAS promises about it.
 *
 * Exits with 0 when every case is right; else with 1, after a line that says which is not.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn_s.h"
#include "nt_s.h"
#include "tn_s.h"
#include "tt_s.h"

static int status;

void sgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c,
            const int* ldc) {
  const int ta = *transa != 'N', tb = *transb != 'N';
  int (*launch)(int, int, int, float, const float*, int, const float*, int, float, float*, int, cudaStream_t) =
      ta ? (tb ? tt_s : tn_s) : (tb ? nt_s : nn_s);
  status = launch(*m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc, NULL);
}

enum { PAD = 3 };

/* Small integers, or NaN when the operand must not be read; NaN in the padding. */
static float* matrix(int rows, int cols, int ld, int seed, int readable) {
  float* values = malloc(((size_t)ld * cols + 1) * sizeof(float));
  for (int col = 0; col < cols; ++col) {
    for (int row = 0; row < ld; ++row) {
      values[row + (size_t)col * ld] = row < rows && readable ? (float)((row * 7 + col * 3 + seed) % 17 - 8) : NAN;
    }
  }
  return values;
}

static int fail(const char* what, const char* ta, const char* tb, int m, int n, int k, float alpha, float beta) {
  printf("%s: %s%s, %d x %d x %d, alpha = %g, beta = %g, status %d\n", what, ta, tb, m, n, k, alpha, beta, status);
  return 1;
}

static int check(const char* ta, const char* tb, int m, int n, int k, float alpha, float beta) {
  const int a_rows = *ta == 'N' ? m : k, a_cols = *ta == 'N' ? k : m;
  const int b_rows = *tb == 'N' ? k : n, b_cols = *tb == 'N' ? n : k;
  const int lda = a_rows + PAD, ldb = b_rows + PAD + 1, ldc = m + PAD + 2;
  float* a = matrix(a_rows, a_cols, lda, 1, alpha != 0);
  float* b = matrix(b_rows, b_cols, ldb, 5, alpha != 0);
  float* c = matrix(m, n, ldc, 2, beta != 0);
  float* old = matrix(m, n, ldc, 2, beta != 0);
  int wrong = 0;
  sgemm_(ta, tb, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
  if (status != GEMMDSL_SUCCESS) wrong = fail("refused", ta, tb, m, n, k, alpha, beta);
  for (int col = 0; col < n && !wrong; ++col) {
    for (int row = 0; row < ldc && !wrong; ++row) {
      const float got = c[row + (size_t)col * ldc];
      if (row >= m) {
        if (!isnan(got)) wrong = fail("padding was written", ta, tb, m, n, k, alpha, beta);
        continue;
      }
      double want = beta != 0 ? beta * old[row + (size_t)col * ldc] : 0;
      for (int i = 0; i < k && alpha != 0; ++i) {
        const float left = *ta == 'N' ? a[row + (size_t)i * lda] : a[i + (size_t)row * lda];
        const float right = *tb == 'N' ? b[i + (size_t)col * ldb] : b[col + (size_t)i * ldb];
        want += alpha * left * right;
      }
      if (!(got == want)) wrong = fail("wrong result", ta, tb, m, n, k, alpha, beta);
    }
  }
  free(a), free(b), free(c), free(old);
  return wrong;
}

static int check_refusals(void) {
  float a[64] = {0}, b[64] = {0}, c[64] = {0};
  const float one = 1;
  const int four = 4, three = 3, minus = -1, nothing = 0;
  c[0] = 5;
  sgemm_("N", "N", &four, &four, &four, &one, a, &three, b, &four, &one, c, &four);
  if (status != GEMMDSL_LEADING_DIMENSION) return fail("lda is too small", "N", "N", 4, 4, 4, 1, 1);
  sgemm_("N", "T", &four, &four, &four, &one, a, &four, b, &three, &one, c, &four);
  if (status != GEMMDSL_LEADING_DIMENSION) return fail("ldb is too small", "N", "T", 4, 4, 4, 1, 1);
  sgemm_("T", "N", &four, &four, &four, &one, a, &four, b, &four, &one, c, &nothing);
  if (status != GEMMDSL_LEADING_DIMENSION) return fail("ldc is too small", "T", "N", 4, 4, 4, 1, 1);
  sgemm_("T", "T", &minus, &four, &four, &one, a, &four, b, &four, &one, c, &four);
  if (status != GEMMDSL_NEGATIVE_SIZE) return fail("m is negative", "T", "T", -1, 4, 4, 1, 1);
  sgemm_("N", "N", &four, &four, &four, &one, NULL, &four, b, &four, &one, c, &four);
  if (status != GEMMDSL_NULL_POINTER) return fail("a is null", "N", "N", 4, 4, 4, 1, 1);
  sgemm_("N", "N", &four, &four, &four, &one, c, &four, b, &four, &one, c, &four);
  if (status != GEMMDSL_OVERLAP) return fail("c is a", "N", "N", 4, 4, 4, 1, 1);
  if (c[0] != 5 || strcmp(nn_s_message(), "") != 0) return fail("a refusal did something", "N", "N", 4, 4, 4, 1, 1);
  return 0;
}

int main(void) {
  static const int sizes[] = {0, 1, 5, 33};
  static const float alphas[] = {1, 0, -2}, betas[] = {0, 1, 3};
  int cases = 0;
  for (int layout = 0; layout < 4; ++layout) {
    const char *ta = layout & 1 ? "T" : "N", *tb = layout & 2 ? "T" : "N";
    for (int i = 0; i < 64; ++i) {
      for (int j = 0; j < 9; ++j, ++cases) {
        if (check(ta, tb, sizes[i / 16], sizes[i / 4 % 4], sizes[i % 4], alphas[j / 3], betas[j % 3])) return 1;
      }
    }
  }
  if (check_refusals()) return 1;
  printf("%d cases are right\n", cases);
  return 0;
}
