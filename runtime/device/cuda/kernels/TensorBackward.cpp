// Computes the gradient of attention of 16-bit floats with tensor cores. The algorithm is that of
// AttentionBackward.cpp, with one warp per 16 kept rows (rows that stay in shared memory).
// Probabilities and score gradients stay in registers.
#include "runtime/device/cuda/kernels/Attention.h"
#include "runtime/device/cuda/kernels/TensorTiles.h"

namespace psrt::cuda {
namespace {

constexpr int kRows = 64; ///< kept rows per block

/// Number of streamed rows per step. Kept and streamed rows together must fit into 48 KiB.
template <int D> constexpr int kStep = D == 64 ? 32 : 16;

/// Shared memory of a block. Rows of two matrices stay in shared memory (q and dout, or k and v),
/// while rows of the other two are streamed.
template <int D> struct Memory {
  TensorTile<D, kRows> first, second;
  TensorTile<D, kStep<D>> passingFirst, passingSecond;
};

template <int D> using Scores = Sums[kStep<D> / 8];

template <typename T, int D, int rows>
PSRT_DEVICE void load(const AttentionArguments &a, TensorTile<D, rows> &to, const void *data,
                      const HeadStrides &strides, int32_t b, int32_t head, int32_t row,
                      int32_t end) {
  to.load(rowOf(static_cast<const T *>(data), strides, b, head, row), strides.row, end - row, a.d,
          a.packed);
}

/// Multiplies the warp's kept rows by the streamed rows.
template <typename T, int D>
PSRT_DEVICE void multiply(const TensorTile<D, kRows> &kept, const TensorTile<D, kStep<D>> &passing,
                          Scores<D> &result) {
  auto left = [&](Fragment &to, int k) { loadLeft(to, kept.at(warp() * 16, k * 16), kept.stride); };
  addMatmuls<T, D, kStep<D>>(result, left, passing);
}

template <typename T, int D>
PSRT_DEVICE void store(const AttentionArguments &a, void *data, const HeadStrides &strides,
                       int32_t b, int32_t head, int32_t first, int32_t end,
                       const Sums (&sums)[D / 8]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    int32_t row = first + warp() * 16 + laneRow() + r * 8;
    if (row < end)
      storeRow<T, D>(rowOf(static_cast<T *>(data), strides, b, head, row), sums, r, a.d, 1,
                     a.packed);
  }
}

/// Calls visit(n, scores[n], dp[n]) for each n, in the same way as forEachSums().
template <int count, typename Visit>
PSRT_DEVICE void forEachPair(Sums (&scores)[count], Sums (&dp)[count], Visit visit) {
#pragma nounroll
  for (int n = 0; n < count; ++n) {
    Sums score, gradient;
#pragma unroll
    for (int e = 0; e < 4; ++e)
      score[e] = scores[0][e], gradient[e] = dp[0][e];
    visit(n, score, gradient);
#pragma unroll
    for (int i = 0; i < count; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        scores[i][e] = i + 1 < count ? scores[i + 1][e] : score[e];
        dp[i][e] = i + 1 < count ? dp[i + 1][e] : gradient[e];
      }
  }
}

//===--- dq ---------------------------------------------------------------===//

template <typename T, int D> PSRT_DEVICE void gradQ(const AttentionArguments &a) {
  constexpr int step = kStep<D>;
  PSRT_SHARED(Memory<D>, memory);
  int32_t tiles = (a.t + kRows - 1) / kRows;
  int32_t first = (tiles - 1 - int32_t(blockIndex() % tiles)) * kRows; // most columns first
  Head head = headOf(a, blockIndex() / tiles);
  Dropout dropout = dropoutOf(a);
  load<T>(a, memory.first, a.q, a.qStrides, head.b, head.h, first, a.t);
  load<T>(a, memory.second, a.dout, a.doutStrides, head.b, head.h, first, a.t);
  Row rows[2];
#pragma unroll
  for (int r = 0; r < 2; ++r)
    rows[r] = rowAt(a, dropout, head, first + warp() * 16 + laneRow() + r * 8);
  Sums dq[D / 8] = {};
  Range columns = columnsOfRows(a, first, kRows);
  for (int32_t at = columns.begin / step * step; at < columns.end; at += step) {
    load<T>(a, memory.passingFirst, a.k, a.kStrides, head.b, head.g, at, a.s);
    load<T>(a, memory.passingSecond, a.v, a.vStrides, head.b, head.g, at, a.s);
    finishCopies();
    barrier();
    Scores<D> scores = {}, dp = {};
    multiply<T, D>(memory.first, memory.passingFirst, scores);
    multiply<T, D>(memory.second, memory.passingSecond, dp);
    forEachPair(scores, dp, [&](int n, Sums &score, Sums &gradient) {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        differentiate(a, dropout, head, rows[e / 2], at + n * 8 + laneColumn() + e % 2, score[e],
                      gradient[e]);
    });
    addWeighted<T, D>(dq, dp, memory.passingFirst);
    barrier(); // all threads have read the streamed rows
  }
  store<T, D>(a, a.dq, a.dqStrides, head.b, head.h, first, a.t, dq);
}

//===--- dk and dv --------------------------------------------------------===//

/// Adds the contribution of the rows [at, at + kStep) of a query head. `column` is the lane's first
/// column.
template <typename T, int D>
PSRT_DEVICE void addRows(const AttentionArguments &a, const Dropout &dropout, const Head &head,
                         int32_t column, int32_t at, Memory<D> &memory, Sums (&dk)[D / 8],
                         Sums (&dv)[D / 8]) {
  load<T>(a, memory.passingFirst, a.q, a.qStrides, head.b, head.h, at, a.t);
  load<T>(a, memory.passingSecond, a.dout, a.doutStrides, head.b, head.h, at, a.t);
  finishCopies();
  barrier();
  Scores<D> scores = {}, dp = {};
  multiply<T, D>(memory.first, memory.passingFirst, scores);
  multiply<T, D>(memory.second, memory.passingSecond, dp);
  forEachPair(scores, dp, [&](int n, Sums &score, Sums &gradient) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      Row row = rowAt(a, dropout, head, at + n * 8 + laneColumn() + e);
#pragma unroll
      for (int r = 0; r < 2; ++r)
        differentiate(a, dropout, head, row, column + r * 8, score[2 * r + e], gradient[2 * r + e]);
    }
  });
  addWeighted<T, D>(dv, scores, memory.passingSecond);
  addWeighted<T, D>(dk, dp, memory.passingFirst);
  barrier(); // all threads have read the streamed rows
}

template <typename T, int D> PSRT_DEVICE void gradKV(const AttentionArguments &a) {
  constexpr int step = kStep<D>;
  PSRT_SHARED(Memory<D>, memory);
  int32_t tiles = (a.s + kRows - 1) / kRows, first = int32_t(blockIndex() % tiles) * kRows;
  int32_t number = int32_t(blockIndex() / tiles), b = number / a.g, g = number % a.g;
  Dropout dropout = dropoutOf(a);
  load<T>(a, memory.first, a.k, a.kStrides, b, g, first, a.s);
  load<T>(a, memory.second, a.v, a.vStrides, b, g, first, a.s);
  Sums dk[D / 8] = {}, dv[D / 8] = {};
  Range rows = rowsOfColumns(a, first, kRows);
  int32_t group = a.h / a.g, column = first + warp() * 16 + laneRow();
  for (int32_t h = g * group; h < (g + 1) * group; ++h)
    for (int32_t at = rows.begin / step * step; at < rows.end; at += step)
      addRows<T, D>(a, dropout, {b, h, g}, column, at, memory, dk, dv);
  store<T, D>(a, a.dk, a.dkStrides, b, g, first, a.s, dk);
  store<T, D>(a, a.dv, a.dvStrides, b, g, first, a.s, dv);
}

} // namespace

PSRT_KERNEL(psrt_attention_dq_bf16_64, AttentionArguments) { gradQ<Bf16, 64>(a); }
PSRT_KERNEL(psrt_attention_dq_bf16_128, AttentionArguments) { gradQ<Bf16, 128>(a); }
PSRT_KERNEL(psrt_attention_dq_f16_64, AttentionArguments) { gradQ<F16, 64>(a); }
PSRT_KERNEL(psrt_attention_dq_f16_128, AttentionArguments) { gradQ<F16, 128>(a); }
PSRT_KERNEL(psrt_attention_dkv_bf16_64, AttentionArguments) { gradKV<Bf16, 64>(a); }
PSRT_KERNEL(psrt_attention_dkv_bf16_128, AttentionArguments) { gradKV<Bf16, 128>(a); }
PSRT_KERNEL(psrt_attention_dkv_f16_64, AttentionArguments) { gradKV<F16, 64>(a); }
PSRT_KERNEL(psrt_attention_dkv_f16_128, AttentionArguments) { gradKV<F16, 128>(a); }

} // namespace psrt::cuda
