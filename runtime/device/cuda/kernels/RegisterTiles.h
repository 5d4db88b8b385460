// Multiplies tiles in shared memory with f32 multiply-adds. A block's threads form a grid, and each
// thread holds some rows and columns of the result in registers.
#ifndef PSRT_DEVICE_CUDA_KERNELS_REGISTERTILES_H
#define PSRT_DEVICE_CUDA_KERNELS_REGISTERTILES_H

#include "runtime/device/cuda/kernels/Kernel.h"

namespace psrt::cuda {

/// Tile sizes of attention over heads of up to D elements. Rows and columns are those of the score
/// matrix. Each of them stands for a vector of D elements, such as a query or a key. The vectors of
/// a block's rows stay in shared memory. The vectors of the columns are loaded 32 at a time, in
/// chunks of at most 128 of their elements, so that all data fits into 48 KiB.
template <int D, int threadColumns, int threadRows> struct TileShape {
  static constexpr int threads = 128;
  static constexpr int tx = threadColumns;        ///< threads over columns, adjacent in a warp
  static constexpr int ty = threads / tx;         ///< threads over rows
  static constexpr int rm = threadRows;           ///< adjacent rows per thread
  static constexpr int columns = 32;              ///< columns per step
  static constexpr int rn = columns / tx;         ///< columns per thread, tx apart
  static constexpr int rows = ty * rm;            ///< rows per block
  static constexpr int chunk = D < 128 ? D : 128; ///< elements of a column loaded at once
  static constexpr int chunks = D / chunk;
  static constexpr int units = chunk / (tx * 4); ///< packs of four elements per thread and chunk
  /// Floats from one row to the next. Rows are padded by 16 bytes, so that adjacent rows lie in
  /// different banks.
  static constexpr int stride = D + 4, chunkStride = chunk + 4, scoreStride = columns + 4;

  static PSRT_DEVICE int column() { return threadIndex() % tx; }
  static PSRT_DEVICE int row() { return threadIndex() / tx * rm; }
};

/// Loads `rows` rows of `width` elements as f32, starting at element `first` of the `d` elements of
/// a row. Elements outside the first `valid` rows or beyond d are zero.
template <int rows, int width, int stride, typename T>
PSRT_DEVICE void loadTile(float *to, const T *from, int64_t rowStride, int valid, int first, int d,
                          bool packed) {
  constexpr int units = width / 4;
  for (int at = threadIndex(); at < rows * units; at += 128) {
    int row = at / units, column = at % units * 4, left = d - first - column;
    const T *source = from + row * rowStride + first + column;
    Float4 values = {};
    if (row < valid && packed && left > 0) {
      Pack<T, 4> pack = *reinterpret_cast<const Pack<T, 4> *>(source);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        values[e] = widen(pack.elements[e]);
    } else if (row < valid) {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        values[e] = e < left ? widen(source[e]) : 0;
    }
    *reinterpret_cast<Float4 *>(to + row * stride + column) = values;
  }
}

/// Adds the dot product of row i of lhs and row j of rhs, over one chunk, to result[i][j].
template <typename Shape>
PSRT_DEVICE void addMatmuls(float (&result)[Shape::rm][Shape::rn], const float *lhs,
                            const float *rhs) {
  lhs += Shape::row() * Shape::stride;
  rhs += Shape::column() * Shape::chunkStride;
#pragma unroll 4
  for (int k = 0; k < Shape::chunk; k += 4) {
    Float4 right[Shape::rn];
#pragma unroll
    for (int j = 0; j < Shape::rn; ++j)
      right[j] = *reinterpret_cast<const Float4 *>(rhs + j * Shape::tx * Shape::chunkStride + k);
#pragma unroll
    for (int i = 0; i < Shape::rm; ++i) {
      Float4 left = *reinterpret_cast<const Float4 *>(lhs + i * Shape::stride + k);
#pragma unroll
      for (int j = 0; j < Shape::rn; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          result[i][j] += left[e] * right[j][e];
    }
  }
}

/// Multiplies row i of weights by rhs, and adds the result to result[i]. Each of the `columns` rows
/// of rhs has one chunk of a vector. A thread computes packs of four elements, which are `4 tx`
/// elements apart.
template <typename Shape>
PSRT_DEVICE void addWeighted(Float4 (&result)[Shape::rm][Shape::units], const float *weights,
                             const float *rhs) {
  weights += Shape::row() * Shape::scoreStride;
  rhs += Shape::column() * 4;
#pragma unroll 2
  for (int k = 0; k < Shape::columns; k += 4) {
    Float4 left[Shape::rm];
#pragma unroll
    for (int i = 0; i < Shape::rm; ++i)
      left[i] = *reinterpret_cast<const Float4 *>(weights + i * Shape::scoreStride + k);
#pragma unroll
    for (int e = 0; e < 4; ++e)
#pragma unroll
      for (int u = 0; u < Shape::units; ++u) {
        Float4 right = *reinterpret_cast<const Float4 *>(rhs + (k + e) * Shape::chunkStride +
                                                         u * Shape::tx * 4);
#pragma unroll
        for (int i = 0; i < Shape::rm; ++i)
          result[i][u] += left[i][e] * right;
      }
  }
}

/// Writes a thread's elements of chunk `c`, times `factor`, to the row that begins at `to`.
template <typename Shape, typename T>
PSRT_DEVICE void storeChunk(T *to, const Float4 (&values)[Shape::units], int c, int d,
                            float factor) {
#pragma unroll
  for (int u = 0; u < Shape::units; ++u)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      int at = c * Shape::chunk + (Shape::column() + u * Shape::tx) * 4 + e;
      if (at < d)
        narrow(values[u][e] * factor, to[at]);
    }
}

} // namespace psrt::cuda

#endif
