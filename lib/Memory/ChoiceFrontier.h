// Combines the recomputation choices of a rank's segments, for every total of saved bytes.
#ifndef PARASHARD_LIB_MEMORY_CHOICEFRONTIER_H
#define PARASHARD_LIB_MEMORY_CHOICEFRONTIER_H

#include "SegmentChoices.h"
#include "llvm/ADT/ArrayRef.h"

namespace parashard::memory {

/// A segment of a rank.
struct WeighedSegment {
  const std::vector<SegmentChoice> *choices =
      nullptr;        ///< from findChoices; shared by equal segments
  int64_t weight = 1; ///< micro-batches whose values are live at the peak
};

/// One choice for each segment.
struct FrontierPoint {
  int64_t bytes = 0; ///< kept by all segments, with their weights
  int64_t cost = 0;  ///< per micro-batch
  std::vector<int> picks;
};

/// Returns the Pareto front of bytes and cost over all combinations of choices, fewest bytes first:
/// a knapsack with one item per segment. The front is exact while it has at most `most` entries
/// after each segment. A longer front is thinned: of each of `most` equal intervals of bytes, only
/// the last entry remains. Among equal segments, the earlier ones keep less, since their values are
/// live longer. Example: two segments that each keep 0 bytes at cost 5 or 10 bytes at cost 0, with
/// weight 1, give (0 bytes, cost 10), (10, 5) and (20, 0).
std::vector<FrontierPoint> findFrontier(llvm::ArrayRef<WeighedSegment> segments,
                                        size_t most = 4096);

} // namespace parashard::memory

#endif
