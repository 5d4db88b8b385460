// What the gradient of attention needs of each row before its products: the sum of dout times out,
// and a factor for probabilities where the log-sum is too large to hold the sum.
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

/// 1 over the sum of the probabilities that the log-sum of a row gives. Slow, as a lane multiplies
/// whole columns; few programs have such rows, and few of them.
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

/// A warp for each row.
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

} // namespace

PSRT_KERNEL(psrt_attention_rows_f32, AttentionArguments) { prepareRows<float>(a); }
PSRT_KERNEL(psrt_attention_rows_bf16, AttentionArguments) { prepareRows<Bf16>(a); }
PSRT_KERNEL(psrt_attention_rows_f16, AttentionArguments) { prepareRows<F16>(a); }

} // namespace psrt::cuda
