// Defines the arguments of the kernels that sort rows, with the same layout on host and device.
#ifndef PSRT_DEVICE_CUDA_KERNELS_SORTARGUMENTS_H
#define PSRT_DEVICE_CUDA_KERNELS_SORTARGUMENTS_H

#include <cstdint>

namespace psrt::cuda {

inline constexpr int kSortTile = 256; ///< length of the runs that the first kernel sorts

/// Sorts runs of kSortTile elements of each row, or merges pairs of runs of `width` elements. The
/// tensors have outer x size x inner elements, and a row extends along the dim of size `size`. A
/// sorted run is a list of indices into its row.
struct SortArguments {
  const void *x;
  const int64_t *runs; ///< the runs to merge; null in the first kernel
  int64_t *indices;    ///< the new runs
  void *out;           ///< the sorted elements; null unless this launch sorts entire rows
  int64_t elements, size, inner, width;
  int32_t descending;
};

/// Sets out[indices[i]] = x[i] along each row.
struct SortGradArguments {
  const void *x;
  const int64_t *indices;
  /// Must contain zeros. `indices` that are not from a sort may omit positions of a row, and these
  /// positions are not written.
  void *out;
  int64_t elements, size, inner;
};

} // namespace psrt::cuda

#endif
