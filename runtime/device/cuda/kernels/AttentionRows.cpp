// Computes inputs of attention kernels.
// - For the fallback gradient kernels: the row sums of dout * out, and a factor per row. The factor
//   differs from 1 if the row's log-sum-exp is too large to represent the row's sum of
//   exponentials.
// - For cuDNN's attention: masks as additive biases, cotangents scaled by these factors, and the
//   dropout mask.
#include "runtime/device/cuda/kernels/Attention.h"

namespace psrt::cuda {
namespace {

PSRT_DEVICE int32_t lane() { return threadIndex() % 32; }

template <typename T> PSRT_DEVICE float dot(const T *x, const T *y, int32_t d) {
  float sum = 0;
  for (int32_t e = 0; e < d; ++e)
    sum += widen(x[e]) * widen(y[e]);
  return sum;
}

/// Returns 1 / sum, where `sum` is the sum of the probabilities computed from a row's log-sum-exp.
/// Returns 0 if this sum is 0. This function is slow, because each lane computes complete dot
/// products. Few rows need this factor.
template <typename T>
PSRT_DEVICE float factorOf(const AttentionArguments &a, const Head &head, int32_t i, float lse) {
  const T *q = rowOf(static_cast<const T *>(a.q), a.qStrides, head.b, head.h, i);
  const T *k = rowOf(static_cast<const T *>(a.k), a.kStrides, head.b, head.g, 0);
  Range columns = columnsOf(a, i);
  float sum = 0;
  for (int32_t j = columns.begin + lane(); j < columns.end; j += 32)
    sum += probabilityOf(scoreOf(a, head, i, j, dot(q, k + j * a.kStrides.row, a.d)), lse, 1);
  sum = sumOverLanes<32>(sum);
  return sum > 0 ? 1 / sum : 0;
}

/// Computes `delta` and `factor` of each row, with one warp per row.
template <typename T> PSRT_DEVICE void prepareRows(const AttentionArguments &a) {
  int64_t rows = int64_t(a.b) * a.h * a.t;
  for (int64_t row = gridThread() / 32; row < rows; row += gridThreads() / 32) {
    int32_t i = int32_t(row % a.t);
    Head head = headOf(a, uint32_t(row / a.t));
    const T *out = rowOf(static_cast<const T *>(a.out), a.outStrides, head.b, head.h, i);
    const T *dout = rowOf(static_cast<const T *>(a.dout), a.doutStrides, head.b, head.h, i);
    float sum = 0, lse = a.lse[row], factor = 1;
    for (int32_t e = lane(); e < a.d; e += 32)
      sum += widen(out[e]) * widen(dout[e]);
    sum = sumOverLanes<32>(sum);
    if (__builtin_fabsf(lse) > largeLse && lse > hiddenScore)
      factor = factorOf<T>(a, head, i, lse);
    if (lane() == 0) {
      a.delta[row] = sum;
      a.factor[row] = factor;
    }
  }
}

PSRT_DEVICE float biasOf(const AttentionBiasArguments &a, int64_t at) {
  int64_t j = at % a.s, rest = at / a.s, i = rest % a.t, head = rest / a.t;
  int64_t h = head % a.h, b = head / a.h;
  if (a.padding && !a.padding[b * a.s + j])
    return -infinity();
  if (a.maskKind == NoMask)
    return 0;
  int64_t from =
      b * a.maskStrides[0] + h * a.maskStrides[1] + i * a.maskStrides[2] + j * a.maskStrides[3];
  if (a.maskKind == BoolMask)
    return static_cast<const uint8_t *>(a.mask)[from] ? 0 : -infinity();
  float value = readMask(a.mask, a.maskKind, from);
  return value > -infinity() && value < lowestScore ? lowestScore : value;
}

/// Writes a dense copy of dout times the factor of each row, with one warp per row.
template <typename T> PSRT_DEVICE void scaleDout(const AttentionArguments &a) {
  int64_t rows = int64_t(a.b) * a.h * a.t;
  for (int64_t row = gridThread() / 32; row < rows; row += gridThreads() / 32) {
    Head head = headOf(a, uint32_t(row / a.t));
    const T *dout =
        rowOf(static_cast<const T *>(a.dout), a.doutStrides, head.b, head.h, int32_t(row % a.t));
    T *out = static_cast<T *>(a.out) + row * a.d;
    float factor = a.factor[row];
    for (int32_t e = lane(); e < a.d; e += 32) {
      T value = dout[e];
      if (factor != 1)
        narrow(widen(value) * factor, value);
      out[e] = value;
    }
  }
}

/// Writes the dropout mask: 1 for kept probabilities, else 0. Uses one warp per row.
template <typename T> PSRT_DEVICE void writeKept(const AttentionArguments &a) {
  Dropout dropout = dropoutOf(a);
  int64_t rows = int64_t(a.b) * a.h * a.t;
  for (int64_t row = gridThread() / 32; row < rows; row += gridThreads() / 32) {
    Head head = headOf(a, uint32_t(row / a.t));
    int32_t i = int32_t(row % a.t);
    uint64_t counter = counterOfRow(a, dropout, head, i);
    T *out = static_cast<T *>(a.out) + row * a.s;
    for (int32_t j = lane(); j < a.s; j += 32)
      narrow(keepOf(a, dropout, head, counter, i, j) > 0 ? 1.0f : 0.0f, out[j]);
  }
}

} // namespace

PSRT_KERNEL(psrt_attention_bias, AttentionBiasArguments) {
  int64_t count = int64_t(a.b) * a.h * a.t * a.s;
  for (int64_t at = gridThread(); at < count; at += gridThreads())
    a.out[at] = biasOf(a, at);
}

PSRT_KERNEL(psrt_attention_dout_bf16, AttentionArguments) { scaleDout<Bf16>(a); }
PSRT_KERNEL(psrt_attention_dout_f16, AttentionArguments) { scaleDout<F16>(a); }

PSRT_KERNEL(psrt_attention_kept_bf16, AttentionArguments) { writeKept<Bf16>(a); }
PSRT_KERNEL(psrt_attention_kept_f16, AttentionArguments) { writeKept<F16>(a); }

PSRT_KERNEL(psrt_attention_lse, AttentionArguments) {
  int64_t rows = int64_t(a.b) * a.h * a.t;
  for (int64_t row = gridThread(); row < rows; row += gridThreads())
    a.delta[row] = a.lse[row] > hiddenScore ? a.lse[row] : infinity();
}

PSRT_KERNEL(psrt_attention_rows_f32, AttentionArguments) { prepareRows<float>(a); }
PSRT_KERNEL(psrt_attention_rows_bf16, AttentionArguments) { prepareRows<Bf16>(a); }
PSRT_KERNEL(psrt_attention_rows_f16, AttentionArguments) { prepareRows<F16>(a); }

} // namespace psrt::cuda
