// Declares vectorized functions on rows of f32 in scratch memory, chosen by instruction set at run
// time.
#ifndef PSRT_DEVICE_CPU_ROWMATH_H
#define PSRT_DEVICE_CPU_ROWMATH_H

#include <cstdint>

namespace psrt {

/// The score of a hidden column. This score is below all real scores, and finite, because -inf
/// would lead to NaN.
inline constexpr float hiddenScore = -3.0e38f;

/// The lowest score of a visible column. If a very low but finite mask value, such as -3.4e38,
/// gives a lower score, the score is raised to this value. If all scores of a row are raised, the
/// row's probabilities are equal.
inline constexpr float lowestScore = -1.0e38f;

/// Above this magnitude, an f32 log-sum-exp is less precise than 1e-4. Probabilities that are
/// recomputed from such a log-sum-exp are therefore divided by their sum.
inline constexpr float largeLse = 1024;

/// Functions on rows of n <= `padded` floats. `padded` is a multiple of 16; rows are written up to
/// `padded`. A sum over a row has 64 partial sums: element j is added to partial sum j mod 64.
struct RowMath {
  /// Sets row[j] = exp(scale row[j] - max) / sum for each visible column j in [lo, hi), and 0 for
  /// all other j in [0, padded). A column with a score of `hiddenScore` / 2 or less is not visible.
  /// Sets `max` to the largest scaled score, and `sum` to the sum of the exponentials. If no column
  /// is visible, `sum` is 0.
  void (*softmax)(float *row, int64_t lo, int64_t hi, int64_t padded, float scale, float *max,
                  float *sum);
  /// Sets row[j] = exp(scale row[j] - lse) for visible columns, 0 elsewhere in [0, padded).
  void (*probabilities)(float *row, int64_t lo, int64_t hi, int64_t padded, float scale, float lse);
  /// Sets dp[j] = p[j] (dp[j] - delta) scale, and 0 where p is 0.
  void (*gradient)(const float *p, float *dp, int64_t padded, float delta, float scale);
  /// Sets x[j] = x[j] y[j] for j < padded.
  void (*multiply)(float *x, const float *y, int64_t padded);
  /// Returns the sum of x[j] y[j]; n need not be a multiple of 16. The last n mod 16 products have
  /// their own partial sum.
  float (*dot)(const float *x, const float *y, int64_t n);
  /// Sets keep[j] = u_j >= p ? 1 / (1 - p) : 0 for j < n, and keep[j] = 0 for n <= j < padded. u_j
  /// is the uniform random number at index `counter + j` under `key`.
  void (*dropout)(float *keep, int64_t n, int64_t padded, float p, uint64_t key, uint64_t counter);
  /// Sets x[j] = x[j] + y[j] for j < n.
  void (*add)(float *x, const float *y, int64_t n);
  /// Convert 16-bit floats to f32; n need not be a multiple of 16.
  void (*widenBfloat16)(const uint16_t *from, float *to, int64_t n);
  void (*widenHalf)(const uint16_t *from, float *to, int64_t n);
  /// Convert f32 to 16-bit floats: round to nearest, ties to even; a NaN stays a NaN. `to` may
  /// equal `from`.
  void (*narrowToBfloat16)(const float *from, uint16_t *to, int64_t n);
  void (*narrowToHalf)(const float *from, uint16_t *to, int64_t n);
};

/// Returns the functions for the best instruction set that this machine supports.
const RowMath &rowMath();

} // namespace psrt

#endif
