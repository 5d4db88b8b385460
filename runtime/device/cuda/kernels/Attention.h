// Defines functions that all attention kernels use: the columns visible to a row, masked scores,
// the random numbers of dropout, and probabilities computed from a log-sum-exp.
#ifndef PSRT_DEVICE_CUDA_KERNELS_ATTENTION_H
#define PSRT_DEVICE_CUDA_KERNELS_ATTENTION_H

#include "runtime/device/cpu/RowMath.h"
#include "runtime/device/cuda/kernels/Arguments.h"
#include "runtime/device/cuda/kernels/Kernel.h"
#include "shared/Philox.h"

namespace psrt::cuda {

/// A batch index and query head, and the key/value head that the query head reads.
struct Head {
  int32_t b, h, g;
};

PSRT_DEVICE Head headOf(const AttentionArguments &a, uint32_t number) {
  int32_t b = int32_t(number) / a.h, h = int32_t(number) - b * a.h;
  return {b, h, h / (a.h / a.g)};
}

template <typename T>
PSRT_DEVICE T *rowOf(T *data, const HeadStrides &strides, int32_t b, int32_t head, int32_t row) {
  return data + b * strides.batch + head * strides.head + row * strides.row;
}

/// Returns the index of a row in [b, h, t] tensors.
PSRT_DEVICE int64_t rowNumber(const AttentionArguments &a, const Head &head, int32_t i) {
  return (int64_t(head.b) * a.h + head.h) * a.t + i;
}

//===--- visible columns and rows -----------------------------------------------------===//

struct Range {
  int32_t begin, end;
};

PSRT_DEVICE int32_t atLeast(int32_t x, int32_t least) { return x > least ? x : least; }
PSRT_DEVICE int32_t atMost(int32_t x, int32_t most) { return x < most ? x : most; }

/// Returns the columns visible to row i under `causal` and `window`. Neither end of the range
/// decreases with i. Example: t = s = 4, causal, window 2: row 2 sees columns [1, 3).
PSRT_DEVICE Range columnsOf(const AttentionArguments &a, int32_t i) {
  int32_t diagonal = i + a.s - a.t;
  int32_t end = a.causal ? atMost(a.s, atLeast(diagonal + 1, 0)) : a.s;
  int32_t begin = a.window > 0 ? atLeast(diagonal - a.window + 1, 0) : 0;
  return {atMost(begin, end), end};
}

/// Returns the columns that any of the rows [first, first + rows) may see.
PSRT_DEVICE Range columnsOfRows(const AttentionArguments &a, int32_t first, int32_t rows) {
  int32_t last = atMost(first + rows, a.t) - 1;
  return {columnsOf(a, first).begin, columnsOf(a, last).end};
}

/// Returns the rows that may see any of the columns [first, first + columns).
PSRT_DEVICE Range rowsOfColumns(const AttentionArguments &a, int32_t first, int32_t columns) {
  int32_t shift = a.t - a.s, last = atMost(first + columns, a.s) - 1;
  return {a.causal ? atLeast(first + shift, 0) : 0,
          a.window > 0 ? atLeast(atMost(last + shift + a.window, a.t), 0) : a.t};
}

/// Reads an element of a floating-point mask.
PSRT_DEVICE float readMask(const void *mask, MaskKind kind, int64_t at) {
  if (kind == F32Mask)
    return static_cast<const float *>(mask)[at];
  if (kind == Bf16Mask)
    return widen(static_cast<const Bf16 *>(mask)[at]);
  return widen(static_cast<const F16 *>(mask)[at]);
}

PSRT_DEVICE bool isHidden(float score) { return score <= hiddenScore * 0.5f; }

/// Returns the scaled and masked score of element (i, j); `product` is q_i * k_j. Returns
/// `hiddenScore` if the element is not visible or out of range.
PSRT_DEVICE float scoreOf(const AttentionArguments &a, const Head &head, int32_t i, int32_t j,
                          float product) {
  Range seen = columnsOf(a, i);
  if (i >= a.t || j < seen.begin || j >= seen.end)
    return hiddenScore;
  if (a.padding && !a.padding[int64_t(head.b) * a.s + j])
    return hiddenScore;
  float score = product * a.scale;
  if (a.maskKind == NoMask)
    return score;
  int64_t at = head.b * a.maskStrides[0] + head.h * a.maskStrides[1] + i * a.maskStrides[2] +
               j * a.maskStrides[3];
  if (a.maskKind == BoolMask)
    return static_cast<const uint8_t *>(a.mask)[at] ? score : hiddenScore;
  float added = readMask(a.mask, a.maskKind, at), sum = score + added;
  if (added == -infinity())
    return hiddenScore;
  return sum < lowestScore ? lowestScore : sum;
}

/// Returns a probability: exp(score - log-sum-exp), times the row's factor.
PSRT_DEVICE float probabilityOf(float score, float lse, float factor) {
  if (isHidden(score) || !(lse > hiddenScore))
    return 0;
  return exponential(score - lse) * factor;
}

//===--- random numbers ---------------------------------------------------===//

/// The key, first counter and scale of the random numbers in one run of the op.
struct Dropout {
  uint64_t key = 0, start = 0;
  float kept = 1;
};

PSRT_DEVICE Dropout dropoutOf(const AttentionArguments &a) {
  if (!(a.dropout > 0))
    return {};
  return {philoxKey(a.scalars[0], a.key, a.scalars[1]),
          uint64_t(a.scalars[2]) * a.globalSize + (a.offset ? *a.offset : 0),
          1.0f / (1.0f - a.dropout)};
}

/// Returns the index of element (i, j) in the unsharded tensor, minus the index of this rank's
/// first element.
PSRT_DEVICE uint64_t elementIndex(const AttentionArguments &a, const Head &head, int32_t i,
                                  int32_t j) {
  int64_t linear = rowNumber(a, head, i) * a.s + j, result = 0;
  if (a.factors == 0)
    return linear;
  for (int f = a.factors; f-- > 0;) {
    result += linear % a.factorSizes[f] * a.factorStrides[f];
    linear /= a.factorSizes[f];
  }
  return result;
}

/// Returns the random counter of a row's first column. With `runsOfCounters`, the counter of column
/// j is this counter plus j.
PSRT_DEVICE uint64_t counterOfRow(const AttentionArguments &a, const Dropout &dropout,
                                  const Head &head, int32_t i) {
  return a.dropout > 0 ? dropout.start + elementIndex(a, head, i, 0) : 0;
}

/// Returns the factor that dropout applies to the probability of element (i, j).
PSRT_DEVICE float keepOf(const AttentionArguments &a, const Dropout &dropout, const Head &head,
                         uint64_t counterOfRow, int32_t i, int32_t j) {
  if (!(a.dropout > 0))
    return 1;
  uint64_t counter =
      a.runsOfCounters ? counterOfRow + j : dropout.start + elementIndex(a, head, i, j);
  return philoxUniform(dropout.key, counter) >= a.dropout ? dropout.kept : 0;
}

//===--- gradients --------------------------------------------------------===//

/// Returns the gradient of a score before rounding; `dp` is the gradient of the probability `p`.
PSRT_DEVICE float gradientOf(const AttentionArguments &a, float p, float dp, float delta) {
  return p == 0 ? 0 : p * (dp - delta) * a.scale;
}

/// The values of one row that the gradients of the row's scores need.
struct Row {
  int32_t i;
  float lse, factor, delta;
  uint64_t counter;
};

PSRT_DEVICE Row rowAt(const AttentionArguments &a, const Dropout &dropout, const Head &head,
                      int32_t i) {
  int64_t number = rowNumber(a, head, i);
  if (i >= a.t)
    return {i, -infinity(), 0, 0, 0};
  return {i, a.lse[number], a.factor[number], a.delta[number], counterOfRow(a, dropout, head, i)};
}

/// Replaces `product` (q * k) by the probability after dropout, and `dp` (dout * v) by the gradient
/// of the score.
PSRT_DEVICE void differentiate(const AttentionArguments &a, const Dropout &dropout,
                               const Head &head, const Row &row, int32_t j, float &product,
                               float &dp) {
  float p = probabilityOf(scoreOf(a, head, row.i, j, product), row.lse, row.factor);
  float keep = keepOf(a, dropout, head, row.counter, row.i, j);
  dp = gradientOf(a, p, dp * keep, row.delta);
  product = p * keep;
}

} // namespace psrt::cuda

#endif
