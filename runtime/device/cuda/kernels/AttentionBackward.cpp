// Computes the gradient of attention. Probabilities are recomputed from the log-sum-exps. One
// kernel keeps rows of q and dout in shared memory and accumulates dq. The other kernel keeps rows
// of k and v, and accumulates dk and dv over query rows, and over the query heads that share a
// key/value head. Each gradient row is accumulated by a single thread block in a fixed order, so
// results are deterministic.
#include "runtime/device/cuda/kernels/Attention.h"
#include "runtime/device/cuda/kernels/RegisterTiles.h"

namespace psrt::cuda {
namespace {

template <int D> using Shape = TileShape<D, D == 64 ? 16 : 32, D == 256 ? 2 : 4>;

/// Shared memory of a block. Rows of two matrices stay in shared memory (q and dout, or k and v),
/// while chunks of the other two are streamed.
template <int D> struct Memory {
  alignas(16) float first[Shape<D>::rows * Shape<D>::stride];
  alignas(16) float second[Shape<D>::rows * Shape<D>::stride];
  alignas(16) float passing[Shape<D>::columns * Shape<D>::chunkStride];
  alignas(16) float weights[Shape<D>::rows * Shape<D>::scoreStride];
};

template <int D> using Scores = float[Shape<D>::rm][Shape<D>::rn];
template <int D> using Sums = Float4[Shape<D>::chunks][Shape<D>::rm][Shape<D>::units];

/// A matrix with rows of d elements.
template <typename T> struct Matrix {
  const T *data;
  int64_t stride;
  int32_t rows;

  PSRT_DEVICE Matrix(const void *data, const HeadStrides &strides, int32_t b, int32_t head,
                     int32_t row, int32_t rows)
      : data(rowOf(static_cast<const T *>(data), strides, b, head, row)), stride(strides.row),
        rows(rows - row) {}
};

template <int D, typename T>
PSRT_DEVICE void loadKept(const AttentionArguments &a, float *to, const Matrix<T> &from) {
  using S = Shape<D>;
  loadTile<S::rows, D, S::stride>(to, from.data, from.stride, from.rows, 0, a.d, a.packed);
}

template <int D, typename T>
PSRT_DEVICE void loadPassing(const AttentionArguments &a, Memory<D> &memory, const Matrix<T> &from,
                             int c) {
  using S = Shape<D>;
  barrier(); // all threads have read the previous chunk
  loadTile<S::columns, S::chunk, S::chunkStride>(memory.passing, from.data, from.stride, from.rows,
                                                 c * S::chunk, a.d, a.packed);
  barrier();
}

template <int D, typename T>
PSRT_DEVICE void multiply(const AttentionArguments &a, Memory<D> &memory, const float *kept,
                          const Matrix<T> &passing, Scores<D> &result) {
#pragma unroll
  for (int c = 0; c < Shape<D>::chunks; ++c) {
    loadPassing<D>(a, memory, passing, c);
    addMatmuls<Shape<D>>(result, kept + c * Shape<D>::chunk, memory.passing);
  }
}

/// Adds the matmul of the weights and the streamed matrix to the sums.
template <int D, typename T>
PSRT_DEVICE void accumulate(const AttentionArguments &a, Memory<D> &memory,
                            const Scores<D> &weights, const Matrix<T> &passing, Sums<D> &sums) {
  using S = Shape<D>;
  barrier(); // all threads have read the previous weights
#pragma unroll
  for (int i = 0; i < S::rm; ++i)
#pragma unroll
    for (int j = 0; j < S::rn; ++j)
      memory.weights[(S::row() + i) * S::scoreStride + S::column() + j * S::tx] =
          rounded<T>(weights[i][j]);
#pragma unroll
  for (int c = 0; c < S::chunks; ++c) {
    loadPassing<D>(a, memory, passing, c);
    addWeighted<S>(sums[c], memory.weights, memory.passing);
  }
}

template <int D, typename T>
PSRT_DEVICE void store(const AttentionArguments &a, void *data, const HeadStrides &strides,
                       int32_t b, int32_t head, int32_t first, int32_t rows, const Sums<D> &sums) {
  using S = Shape<D>;
#pragma unroll
  for (int i = 0; i < S::rm; ++i) {
    int32_t row = first + S::row() + i;
    if (row >= rows)
      continue;
    T *to = rowOf(static_cast<T *>(data), strides, b, head, row);
#pragma unroll
    for (int c = 0; c < S::chunks; ++c)
      storeChunk<S>(to, sums[c][i], c, a.d, 1);
  }
}

//===--- dq ---------------------------------------------------------------===//

template <typename T, int D> PSRT_DEVICE void gradQ(const AttentionArguments &a) {
  using S = Shape<D>;
  PSRT_SHARED(Memory<D>, memory);
  int32_t tiles = (a.t + S::rows - 1) / S::rows;
  int32_t row = (tiles - 1 - int32_t(blockIndex() % tiles)) * S::rows; // most columns first
  Head head = headOf(a, blockIndex() / tiles);
  Dropout dropout = dropoutOf(a);
  loadKept<D>(a, memory.first, Matrix<T>(a.q, a.qStrides, head.b, head.h, row, a.t));
  loadKept<D>(a, memory.second, Matrix<T>(a.dout, a.doutStrides, head.b, head.h, row, a.t));
  Row rows[S::rm];
#pragma unroll
  for (int i = 0; i < S::rm; ++i)
    rows[i] = rowAt(a, dropout, head, row + S::row() + i);
  Sums<D> dq = {};
  Range columns = columnsOfRows(a, row, S::rows);
  for (int32_t at = columns.begin / S::columns * S::columns; at < columns.end; at += S::columns) {
    Matrix<T> k(a.k, a.kStrides, head.b, head.g, at, a.s);
    Matrix<T> v(a.v, a.vStrides, head.b, head.g, at, a.s);
    Scores<D> scores = {}, dp = {};
    multiply<D>(a, memory, memory.second, v, dp);
    multiply<D>(a, memory, memory.first, k, scores);
#pragma unroll
    for (int i = 0; i < S::rm; ++i)
#pragma unroll
      for (int j = 0; j < S::rn; ++j)
        differentiate(a, dropout, head, rows[i], at + S::column() + j * S::tx, scores[i][j],
                      dp[i][j]);
    accumulate<D>(a, memory, dp, k, dq);
  }
  store<D, T>(a, a.dq, a.dqStrides, head.b, head.h, row, a.t, dq);
}

//===--- dk and dv --------------------------------------------------------===//

/// Adds the contribution of the rows [at, at + 32) of a query head.
template <typename T, int D>
PSRT_DEVICE void addRows(const AttentionArguments &a, const Dropout &dropout, const Head &head,
                         int32_t column, int32_t at, Memory<D> &memory, Sums<D> &dk, Sums<D> &dv) {
  using S = Shape<D>;
  Matrix<T> q(a.q, a.qStrides, head.b, head.h, at, a.t);
  Matrix<T> dout(a.dout, a.doutStrides, head.b, head.h, at, a.t);
  Scores<D> scores = {}, dp = {};
  multiply<D>(a, memory, memory.first, q, scores);
  multiply<D>(a, memory, memory.second, dout, dp);
#pragma unroll
  for (int j = 0; j < S::rn; ++j) {
    Row row = rowAt(a, dropout, head, at + S::column() + j * S::tx);
#pragma unroll
    for (int i = 0; i < S::rm; ++i)
      differentiate(a, dropout, head, row, column + S::row() + i, scores[i][j], dp[i][j]);
  }
  accumulate<D>(a, memory, scores, dout, dv);
  accumulate<D>(a, memory, dp, q, dk);
}

template <typename T, int D> PSRT_DEVICE void gradKV(const AttentionArguments &a) {
  using S = Shape<D>;
  PSRT_SHARED(Memory<D>, memory);
  int32_t tiles = (a.s + S::rows - 1) / S::rows, column = int32_t(blockIndex() % tiles) * S::rows;
  int32_t number = int32_t(blockIndex() / tiles), b = number / a.g, g = number % a.g;
  Dropout dropout = dropoutOf(a);
  loadKept<D>(a, memory.first, Matrix<T>(a.k, a.kStrides, b, g, column, a.s));
  loadKept<D>(a, memory.second, Matrix<T>(a.v, a.vStrides, b, g, column, a.s));
  Sums<D> dk = {}, dv = {};
  Range rows = rowsOfColumns(a, column, S::rows);
  int32_t group = a.h / a.g;
  for (int32_t h = g * group; h < (g + 1) * group; ++h)
    for (int32_t at = rows.begin / S::columns * S::columns; at < rows.end; at += S::columns)
      addRows<T, D>(a, dropout, {b, h, g}, column, at, memory, dk, dv);
  store<D, T>(a, a.dk, a.dkStrides, b, g, column, a.s, dk);
  store<D, T>(a, a.dv, a.dvStrides, b, g, column, a.s, dv);
}

} // namespace

PSRT_KERNEL(psrt_attention_dq_f32_64, AttentionArguments) { gradQ<float, 64>(a); }
PSRT_KERNEL(psrt_attention_dq_f32_128, AttentionArguments) { gradQ<float, 128>(a); }
PSRT_KERNEL(psrt_attention_dq_f32_256, AttentionArguments) { gradQ<float, 256>(a); }
PSRT_KERNEL(psrt_attention_dq_bf16_256, AttentionArguments) { gradQ<Bf16, 256>(a); }
PSRT_KERNEL(psrt_attention_dq_f16_256, AttentionArguments) { gradQ<F16, 256>(a); }
PSRT_KERNEL(psrt_attention_dkv_f32_64, AttentionArguments) { gradKV<float, 64>(a); }
PSRT_KERNEL(psrt_attention_dkv_f32_128, AttentionArguments) { gradKV<float, 128>(a); }
PSRT_KERNEL(psrt_attention_dkv_f32_256, AttentionArguments) { gradKV<float, 256>(a); }
PSRT_KERNEL(psrt_attention_dkv_bf16_256, AttentionArguments) { gradKV<Bf16, 256>(a); }
PSRT_KERNEL(psrt_attention_dkv_f16_256, AttentionArguments) { gradKV<F16, 256>(a); }

} // namespace psrt::cuda
