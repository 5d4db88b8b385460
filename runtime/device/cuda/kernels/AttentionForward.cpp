// Computes attention. Each thread block keeps rows of q in shared memory, streams k and v, and
// updates the softmax online (Dao, FlashAttention-2, 2023). Scores are never written to global
// memory.
#include "runtime/device/cuda/kernels/Attention.h"
#include "runtime/device/cuda/kernels/RegisterTiles.h"

namespace psrt::cuda {
namespace {

/// A block has fewer rows if the heads have more elements.
template <int D> using Shape = TileShape<D, D == 64 ? 8 : D == 128 ? 16 : 32, 4>;

template <int D> struct Memory {
  alignas(16) float q[Shape<D>::rows * Shape<D>::stride];
  alignas(16) float kv[Shape<D>::columns * Shape<D>::chunkStride];
  alignas(16) float p[Shape<D>::rows * Shape<D>::scoreStride];
};

/// The state of a thread for its rows.
template <int D> struct Rows {
  using S = Shape<D>;
  Float4 out[S::chunks][S::rm][S::units] = {};
  float top[S::rm], sum[S::rm] = {}; ///< row maxima; sums over the thread's columns
  uint64_t counter[S::rm];

  /// Raises a row's maximum to `to` and rescales the accumulated sums.
  PSRT_DEVICE void raise(int i, float to) {
    float factor = isHidden(top[i]) ? 0 : exponential(top[i] - to);
    top[i] = to;
    sum[i] *= factor;
#pragma unroll
    for (int c = 0; c < S::chunks; ++c)
#pragma unroll
      for (int u = 0; u < S::units; ++u)
        out[c][i][u] *= factor;
  }
};

/// Turns the scores of a step (one tile of columns) into unnormalized probabilities (weights), and
/// writes the weights to shared memory.
template <typename T, int D>
PSRT_DEVICE void weigh(const AttentionArguments &a, const Dropout &dropout, const Head &head,
                       int32_t row, int32_t column, float (&scores)[Shape<D>::rm][Shape<D>::rn],
                       Rows<D> &rows, float *p) {
  using S = Shape<D>;
#pragma unroll
  for (int i = 0; i < S::rm; ++i) {
    int32_t at = row + S::row() + i;
    float top = hiddenScore;
#pragma unroll
    for (int j = 0; j < S::rn; ++j) {
      float &score = scores[i][j];
      score = scoreOf(a, head, at, column + S::column() + j * S::tx, score);
      top = score > top ? score : top;
    }
    top = maximumOverLanes<S::tx>(top);
    if (top > rows.top[i])
      rows.raise(i, top);
#pragma unroll
    for (int j = 0; j < S::rn; ++j) {
      int32_t to = column + S::column() + j * S::tx;
      float weight = isHidden(scores[i][j]) ? 0 : exponential(scores[i][j] - rows.top[i]);
      rows.sum[i] += weight;
      weight *= keepOf(a, dropout, head, rows.counter[i], at, to);
      p[(S::row() + i) * S::scoreStride + S::column() + j * S::tx] = rounded<T>(weight);
    }
  }
}

template <typename T, int D>
PSRT_DEVICE void step(const AttentionArguments &a, const Dropout &dropout, const Head &head,
                      int32_t row, int32_t column, Memory<D> &memory, Rows<D> &rows) {
  using S = Shape<D>;
  auto load = [&](const void *data, const HeadStrides &strides, int c) {
    const T *from = rowOf(static_cast<const T *>(data), strides, head.b, head.g, column);
    barrier(); // all threads have read the previous chunk
    loadTile<S::columns, S::chunk, S::chunkStride>(memory.kv, from, strides.row, a.s - column,
                                                   c * S::chunk, a.d, a.packed);
    barrier();
  };
  float scores[S::rm][S::rn] = {};
#pragma unroll
  for (int c = 0; c < S::chunks; ++c) {
    load(a.k, a.kStrides, c);
    addMatmuls<S>(scores, memory.q + c * S::chunk, memory.kv);
  }
  weigh<T, D>(a, dropout, head, row, column, scores, rows, memory.p);
#pragma unroll
  for (int c = 0; c < S::chunks; ++c) {
    load(a.v, a.vStrides, c);
    addWeighted<S>(rows.out[c], memory.p, memory.kv);
  }
}

template <typename T, int D>
PSRT_DEVICE void finish(const AttentionArguments &a, const Head &head, int32_t row,
                        const Rows<D> &rows) {
  using S = Shape<D>;
#pragma unroll
  for (int i = 0; i < S::rm; ++i) {
    float sum = sumOverLanes<S::tx>(rows.sum[i]);
    int32_t at = row + S::row() + i;
    if (at >= a.t)
      continue;
    bool seesAny = !isHidden(rows.top[i]);
    if (a.lse && S::column() == 0)
      a.lse[rowNumber(a, head, at)] = seesAny ? rows.top[i] + logarithm(sum) : -infinity();
    T *out = rowOf(static_cast<T *>(a.out), a.outStrides, head.b, head.h, at);
#pragma unroll
    for (int c = 0; c < S::chunks; ++c)
      storeChunk<S>(out, rows.out[c][i], c, a.d, seesAny ? 1 / sum : 0);
  }
}

template <typename T, int D> PSRT_DEVICE void forward(const AttentionArguments &a) {
  using S = Shape<D>;
  PSRT_SHARED(Memory<D>, memory);
  int32_t tiles = (a.t + S::rows - 1) / S::rows;
  // Under a causal mask, the last rows have the most columns, so they start first.
  int32_t row = (tiles - 1 - int32_t(blockIndex() % tiles)) * S::rows;
  Head head = headOf(a, blockIndex() / tiles);
  Dropout dropout = dropoutOf(a);
  Rows<D> rows;
#pragma unroll
  for (int i = 0; i < S::rm; ++i) {
    rows.top[i] = hiddenScore;
    rows.counter[i] = counterOfRow(a, dropout, head, row + S::row() + i);
  }
  const T *q = rowOf(static_cast<const T *>(a.q), a.qStrides, head.b, head.h, row);
  loadTile<S::rows, D, S::stride>(memory.q, q, a.qStrides.row, a.t - row, 0, a.d, a.packed);
  Range columns = columnsOfRows(a, row, S::rows);
  for (int32_t at = columns.begin / S::columns * S::columns; at < columns.end; at += S::columns)
    step<T, D>(a, dropout, head, row, at, memory, rows);
  finish<T, D>(a, head, row, rows);
}

} // namespace

PSRT_KERNEL(psrt_attention_f32_64, AttentionArguments) { forward<float, 64>(a); }
PSRT_KERNEL(psrt_attention_f32_128, AttentionArguments) { forward<float, 128>(a); }
PSRT_KERNEL(psrt_attention_f32_256, AttentionArguments) { forward<float, 256>(a); }
PSRT_KERNEL(psrt_attention_bf16_256, AttentionArguments) { forward<Bf16, 256>(a); }
PSRT_KERNEL(psrt_attention_f16_256, AttentionArguments) { forward<F16, 256>(a); }

} // namespace psrt::cuda
