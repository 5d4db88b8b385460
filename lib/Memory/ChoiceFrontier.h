// Chooses what each segment of a rank keeps, for every total of kept bytes.
#ifndef PARASHARD_LIB_MEMORY_CHOICEFRONTIER_H
#define PARASHARD_LIB_MEMORY_CHOICEFRONTIER_H

#include "SegmentChoices.h"
#include "llvm/ADT/ArrayRef.h"

namespace parashard::memory {

/// A segment of a rank.
struct WeighedSegment {
  const std::vector<SegmentChoice> *choices =
      nullptr;        ///< from findChoices; shared by equal segments
  int64_t weight = 1; ///< micro-batches that keep it at the peak
};

/// One choice for each segment.
struct FrontierPoint {
  int64_t bytes = 0; ///< kept by all segments, with their weights
  int64_t cost = 0;  ///< per micro-batch
  std::vector<int> picks;
};

/// Returns ways to choose, fewest bytes first, each cheaper than those before: a knapsack with one
/// item per segment. The result is exact while no sum over segments has more than `most` entries.
/// Beyond that, only the entry with the most bytes of each of `most` equal intervals remains. Among
/// equal segments, the earlier ones keep less, since their values would stay longer.
/// Example: two segments that each keep 0 bytes at cost 5 or 10 bytes at cost 0, with weight 1,
/// give (0 bytes, cost 10), (10, 5) and (20, 0).
std::vector<FrontierPoint> findFrontier(llvm::ArrayRef<WeighedSegment> segments,
                                        size_t most = 4096);

} // namespace parashard::memory

#endif
