// Defines tiles of 16-bit elements in shared memory, and their matmuls by a block's four warps.
#ifndef PSRT_DEVICE_CUDA_KERNELS_TENSORTILES_H
#define PSRT_DEVICE_CUDA_KERNELS_TENSORTILES_H

#include "runtime/device/cuda/kernels/TensorCore.h"

namespace psrt::cuda {

/// Calls visit(n, sums[n]) for each n. The loop is not unrolled, so that expensive code that is
/// rarely needed is not instantiated up to 32 times. As registers cannot be indexed, the loop
/// rotates the array: sums[n] is at index 0 in iteration n.
template <int count, typename Visit>
PSRT_DEVICE void forEachSums(Sums (&sums)[count], Visit visit) {
#pragma nounroll
  for (int n = 0; n < count; ++n) {
    Sums first;
#pragma unroll
    for (int e = 0; e < 4; ++e)
      first[e] = sums[0][e];
    visit(n, first);
#pragma unroll
    for (int i = 0; i < count; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sums[i][e] = i + 1 < count ? sums[i + 1][e] : first[e];
  }
}

/// A matrix of 16-bit elements in shared memory, for heads of up to D elements. Each row has an odd
/// number of 16-byte units, so that eight consecutive rows lie in different banks.
template <int D, int rowCount> struct TensorTile {
  static constexpr int rows = rowCount, stride = D + 8;
  alignas(128) uint16_t data[rows * stride];

  PSRT_DEVICE const uint16_t *at(int row, int column) const { return data + row * stride + column; }

  /// Starts loading rows of d elements. Elements outside the first `valid` rows or beyond d are
  /// zero.
  template <typename T>
  PSRT_DEVICE void load(const T *from, int64_t rowStride, int valid, int d, bool packed) {
    constexpr int units = D / 8;
    for (int i = threadIndex(); i < rows * units; i += 128) {
      int row = i / units, column = i % units * 8;
      uint16_t *to = data + row * stride + column;
      bool isThere = row < valid && column < d;
      const T *source = isThere ? from + row * rowStride + column : from;
      if (packed) {
        beginCopy(to, source, isThere);
        continue;
      }
#pragma unroll
      for (int e = 0; e < 8; ++e)
        to[e] = isThere && column + e < d ? source[e].bits : 0;
    }
  }
};

/// Multiplies 16 rows of left (D elements each) by the transpose of `columns` rows of right, and
/// adds the result to `sums`. sums[n] has the eight columns from 8 n on.
template <typename T, int D, int columns, typename LoadLeft, int rows>
PSRT_DEVICE void addMatmuls(Sums (&sums)[columns / 8], LoadLeft loadLeftAt,
                            const TensorTile<D, rows> &right) {
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    Fragment left, pair;
    loadLeftAt(left, k);
#pragma unroll
    for (int n = 0; n < columns / 16; ++n) {
      loadRightFromRows(pair, right.at(n * 16, k * 16), right.stride);
      multiplyAdd<T>(sums[2 * n], left, pair[0], pair[1]);
      multiplyAdd<T>(sums[2 * n + 1], left, pair[2], pair[3]);
    }
  }
}

/// Multiplies 16 rows of weights by the rows of right, and adds the result to `sums`. sums[n] has
/// the eight columns from 8 n on.
template <typename T, int D, int rows>
PSRT_DEVICE void addWeighted(Sums (&sums)[D / 8], const Sums (&weights)[rows / 8],
                             const TensorTile<D, rows> &right) {
#pragma unroll
  for (int k = 0; k < rows / 16; ++k) {
    Fragment left, pair;
    toLeft<T>(left, weights[2 * k], weights[2 * k + 1]);
#pragma unroll
    for (int n = 0; n < D / 16; ++n) {
      loadRight(pair, right.at(k * 16, n * 16), right.stride);
      multiplyAdd<T>(sums[2 * n], left, pair[0], pair[1]);
      multiplyAdd<T>(sums[2 * n + 1], left, pair[2], pair[3]);
    }
  }
}

/// Writes the sums of one of the lane's two rows, times `factor`, to `to`. `r` selects the row.
template <typename T, int D>
PSRT_DEVICE void storeRow(T *to, const Sums (&sums)[D / 8], int r, int d, float factor,
                          bool packed) {
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
    int at = n * 8 + laneColumn();
    uint32_t pair = pairOf<T>(sums[n][2 * r] * factor, sums[n][2 * r + 1] * factor);
    if (packed && at < d)
      *reinterpret_cast<uint32_t *>(to + at) = pair;
    else {
      if (at < d)
        to[at].bits = uint16_t(pair);
      if (at + 1 < d)
        to[at + 1].bits = uint16_t(pair >> 16);
    }
  }
}

} // namespace psrt::cuda

#endif
