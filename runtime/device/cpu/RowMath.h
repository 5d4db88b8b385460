// Vectorized functions on rows of f32 in scratch memory, chosen by instruction set at run time.
#ifndef PSRT_DEVICE_CPU_ROWMATH_H
#define PSRT_DEVICE_CPU_ROWMATH_H

#include <cstdint>

namespace psrt {

/// A value that no score has: stands for a hidden column (finite, so that arithmetic stays
/// NaN-free).
inline constexpr float hiddenScore = -3.0e38f;

/// The lowest score of a column that is seen: what a mask of very low but finite values is raised
/// to. A row that has nothing else weighs all such columns alike, as arithmetic on them does.
inline constexpr float lowestScore = -1.0e38f;

/// Beyond this a log-sum-exp in f32 cannot hold the sum to 1e-4: probabilities made from it are
/// divided by theirs.
inline constexpr float largeLse = 1024;

/// Rows are written up to `padded`, a multiple of 16 floats, n <= padded. Sums have 64 partials by
/// index mod 64.
struct RowMath {
  /// row[j] = exp(scale row[j] - max) / sum over visible columns [lo, hi), 0 elsewhere in [0,
  /// padded). A column that holds `hiddenScore` or less is not visible. Sets max (of scaled scores)
  /// and sum; sum 0: nothing visible.
  void (*softmax)(float *row, int64_t lo, int64_t hi, int64_t padded, float scale, float *max,
                  float *sum);
  /// row[j] = exp(scale row[j] - lse) over visible columns, 0 elsewhere in [0, padded).
  void (*probabilities)(float *row, int64_t lo, int64_t hi, int64_t padded, float scale, float lse);
  /// dp[j] = p[j] (dp[j] - delta) scale, 0 where p is 0.
  void (*gradient)(const float *p, float *dp, int64_t padded, float delta, float scale);
  /// x[j] *= y[j] on [0, padded).
  void (*multiply)(float *x, const float *y, int64_t padded);
  /// sum of x[j] y[j], n any size.
  float (*dot)(const float *x, const float *y, int64_t n);
  /// keep[j] = u_j >= p ? 1 / (1 - p) : 0 with the uniforms of counters counter + j, j < n; 0 up to
  /// padded.
  void (*dropout)(float *keep, int64_t n, int64_t padded, float p, uint64_t key, uint64_t counter);
  /// x[j] += y[j].
  void (*add)(float *x, const float *y, int64_t n);
  /// Rows of 16-bit floats to f32, n any size.
  void (*widenBfloat16)(const uint16_t *from, float *to, int64_t n);
  void (*widenHalf)(const uint16_t *from, float *to, int64_t n);
  /// And back: to the nearest, ties to even; a NaN stays one. `to` may begin where `from` does.
  void (*narrowToBfloat16)(const float *from, uint16_t *to, int64_t n);
  void (*narrowToHalf)(const float *from, uint16_t *to, int64_t n);
};

/// The functions of the best instruction set that this machine has.
const RowMath &rowMath();

} // namespace psrt

#endif
