// Combines the recomputation choices of a rank's segments.
#ifndef PARASHARD_LIB_MEMORY_CHOICEFRONTIER_H
#define PARASHARD_LIB_MEMORY_CHOICEFRONTIER_H

#include "SegmentChoices.h"
#include "llvm/ADT/ArrayRef.h"

namespace parashard::memory {

struct WeighedSegment {
  const std::vector<SegmentChoice> *choices =
      nullptr;        ///< from `findChoices`; equal segments share one list
  int64_t weight = 1; ///< number of micro-batches whose saved values are live at the peak
};

struct FrontierPoint {
  int64_t bytes = 0;      ///< bytes saved for backward: sum of weight x bytes of each choice
  int64_t cost = 0;       ///< added time per micro-batch, in picoseconds
  std::vector<int> picks; ///< per segment: index of its choice
};

/// Returns the Pareto front of bytes and cost over all combinations of choices, fewest bytes first.
/// A front of more than `most` points is divided into `most` equal intervals of bytes, and keeps
/// about one point per interval. Among equal segments, the earlier ones save fewer bytes, because
/// their values are live longer. Example: two segments with weight 1, which each save 0 bytes at
/// cost 5 or 10 bytes at cost 0, give (0 bytes, cost 10), (10, 5) and (20, 0).
std::vector<FrontierPoint> findFrontier(llvm::ArrayRef<WeighedSegment> segments,
                                        size_t most = 4096);

} // namespace parashard::memory

#endif
