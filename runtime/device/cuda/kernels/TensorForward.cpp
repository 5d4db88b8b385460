// Computes attention of 16-bit floats with tensor cores. The algorithm is that of
// AttentionForward.cpp, with one warp per 16 rows. Scores stay in registers between the two
// matmuls.
#include "runtime/device/cuda/kernels/Attention.h"
#include "runtime/device/cuda/kernels/TensorTiles.h"

namespace psrt::cuda {
namespace {

constexpr int kRows = 64, kColumns = 64; ///< rows per block, columns per step

/// Shared memory of a block. The queries are first loaded into the memory of v, then into
/// registers.
template <int D> struct Memory {
  TensorTile<D, kColumns> k, v;
};

/// The state of a lane for its two rows.
template <int D> struct Rows {
  Sums out[D / 8] = {};
  float top[2] = {hiddenScore, hiddenScore},
        sum[2] = {}; ///< row maxima; sums over the lane's columns
  int32_t row[2];
  uint64_t counter[2];
  Range all; ///< columns visible to all rows of the warp

  /// Raises a row's maximum to `to` and rescales the accumulated sums.
  PSRT_DEVICE void raise(int r, float to) {
    float factor = isHidden(top[r]) ? 0 : exponential(top[r] - to);
    top[r] = to;
    sum[r] *= factor;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      out[n][2 * r] *= factor;
      out[n][2 * r + 1] *= factor;
    }
  }
};

/// Turns the products q * k of a step into scaled and masked scores.
template <int D>
PSRT_DEVICE void score(const AttentionArguments &a, const Head &head, int32_t column,
                       const Rows<D> &rows, Sums (&scores)[kColumns / 8]) {
  bool isPlain = !a.padding && a.maskKind == NoMask && column >= rows.all.begin &&
                 column + kColumns <= rows.all.end;
  if (isPlain) {
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        scores[n][e] *= a.scale;
    return;
  }
  forEachSums(scores, [&](int n, Sums &sums) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      sums[e] = scoreOf(a, head, rows.row[e / 2], column + n * 8 + laneColumn() + e % 2, sums[e]);
  });
}

/// Turns the scores of a step into unnormalized probabilities (weights).
template <int D>
PSRT_DEVICE void weigh(const AttentionArguments &a, const Dropout &dropout, const Head &head,
                       int32_t column, Rows<D> &rows, Sums (&scores)[kColumns / 8]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float top = hiddenScore;
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        top = scores[n][2 * r + e] > top ? scores[n][2 * r + e] : top;
    top = maximumOverLanes<4>(top);
    if (top > rows.top[r])
      rows.raise(r, top);
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float &weight = scores[n][2 * r + e];
        weight = isHidden(weight) ? 0 : roughExponential(weight - rows.top[r]);
        rows.sum[r] += weight;
      }
  }
  if (!(a.dropout > 0))
    return;
  forEachSums(scores, [&](int n, Sums &sums) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      sums[e] *= keepOf(a, dropout, head, rows.counter[e / 2], rows.row[e / 2],
                        column + n * 8 + laneColumn() + e % 2);
  });
}

template <typename T, int D>
PSRT_DEVICE void finish(const AttentionArguments &a, const Head &head, const Rows<D> &rows) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = sumOverLanes<4>(rows.sum[r]);
    int32_t at = rows.row[r];
    if (at >= a.t)
      continue;
    bool seesAny = !isHidden(rows.top[r]);
    if (a.lse && laneColumn() == 0)
      a.lse[rowNumber(a, head, at)] = seesAny ? rows.top[r] + logarithm(sum) : -infinity();
    T *out = rowOf(static_cast<T *>(a.out), a.outStrides, head.b, head.h, at);
    storeRow<T, D>(out, rows.out, r, a.d, seesAny ? 1 / sum : 0, a.packed);
  }
}

template <int D>
PSRT_DEVICE Rows<D> beginRows(const AttentionArguments &a, const Dropout &dropout, const Head &head,
                              int32_t row) {
  Rows<D> rows;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    rows.row[r] = row + laneRow() + r * 8;
    rows.counter[r] = counterOfRow(a, dropout, head, rows.row[r]);
  }
  rows.all = {columnsOf(a, atMost(row + 15, a.t - 1)).begin, columnsOf(a, row).end};
  return rows;
}

template <typename T, int D> PSRT_DEVICE void forward(const AttentionArguments &a) {
  PSRT_SHARED(Memory<D>, memory);
  int32_t tiles = (a.t + kRows - 1) / kRows;
  // The last rows come first: with a causal mask, they have the most columns and take longest.
  int32_t row = (tiles - 1 - int32_t(blockIndex() % tiles)) * kRows;
  Head head = headOf(a, blockIndex() / tiles);
  auto load = [&](TensorTile<D, kColumns> &to, const void *data, const HeadStrides &strides,
                  int32_t column) {
    to.load(rowOf(static_cast<const T *>(data), strides, head.b, head.g, column), strides.row,
            a.s - column, a.d, a.packed);
  };
  Range columns = columnsOfRows(a, row, kRows);
  int32_t at = columns.begin / kColumns * kColumns;
  memory.v.load(rowOf(static_cast<const T *>(a.q), a.qStrides, head.b, head.h, row), a.qStrides.row,
                a.t - row, a.d, a.packed);
  load(memory.k, a.k, a.kStrides, at);
  Dropout dropout = dropoutOf(a);
  Rows<D> rows = beginRows<D>(a, dropout, head, row + warp() * 16);
  finishCopies();
  barrier();
  Fragment q[D / 16];
#pragma unroll
  for (int k = 0; k < D / 16; ++k)
    loadLeft(q[k], memory.v.at(warp() * 16, k * 16), memory.v.stride);
  barrier();
  auto queries = [&](Fragment &to, int k) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      to[e] = q[k][e];
  };
  // The values are loaded while the scores are computed. The next keys are loaded while the values
  // are accumulated.
  for (; at < columns.end; at += kColumns) {
    load(memory.v, a.v, a.vStrides, at);
    Sums scores[kColumns / 8] = {};
    addMatmuls<T, D, kColumns>(scores, queries, memory.k);
    finishCopies();
    barrier();
    if (at + kColumns < columns.end)
      load(memory.k, a.k, a.kStrides, at + kColumns);
    score<D>(a, head, at, rows, scores);
    weigh<D>(a, dropout, head, at, rows, scores);
    addWeighted<T, D>(rows.out, scores, memory.v);
    finishCopies();
    barrier();
  }
  finish<T, D>(a, head, rows);
}

} // namespace

PSRT_KERNEL(psrt_attention_bf16_64, AttentionArguments) { forward<Bf16, 64>(a); }
PSRT_KERNEL(psrt_attention_bf16_128, AttentionArguments) { forward<Bf16, 128>(a); }
PSRT_KERNEL(psrt_attention_f16_64, AttentionArguments) { forward<F16, 64>(a); }
PSRT_KERNEL(psrt_attention_f16_128, AttentionArguments) { forward<F16, 128>(a); }

} // namespace psrt::cuda
