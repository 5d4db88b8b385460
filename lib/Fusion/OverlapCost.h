// Decides whether to split a matmul and its collective into chunks that overlap.
#ifndef PARASHARD_LIB_FUSION_OVERLAPCOST_H
#define PARASHARD_LIB_FUSION_OVERLAPCOST_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include <cstdint>

namespace parashard::fusion {

/// A matmul and the collective that is split with it.
struct OverlapCase {
  /// These functions return the seconds of one of `count` equal chunks. Small chunks have a lower
  /// rate.
  llvm::function_ref<double(int64_t count)> matmul;
  llvm::function_ref<double(int64_t count)> collective;
  double independent = 0; ///< seconds of other ops that overlap with the collective
  /// The share of overlapped time that is hidden (`Cluster::getOverlapShare`). It is 0 if the cores
  /// that compute matmuls also move and add the transferred data.
  double overlap = 0;
};

/// Returns the seconds of the matmul and the collective in `count` chunks, minus the seconds of the
/// collective that overlap with independent ops. The first matmul chunk and the last transfer run
/// alone. Each of the count - 1 steps in between overlaps a matmul chunk with a transfer. Example
/// without latency and other losses: a matmul of 8 s and a transfer of 8 s take 16 s in 1 chunk, 12
/// s in 2 chunks and 9 s in 8 chunks.
double getOverlapTime(const OverlapCase &overlap, int64_t count);
/// Returns the fastest number of chunks: a divisor of `size`, at most 16. Returns 1 if splitting
/// gains less than one percent.
int64_t chooseChunks(const OverlapCase &overlap, int64_t size);

} // namespace parashard::fusion

#endif
