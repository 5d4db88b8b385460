// Which of its choices each segment of a rank takes, for any bytes that all may keep.
#ifndef PARASHARD_LIB_MEMORY_CHOICEFRONTIER_H
#define PARASHARD_LIB_MEMORY_CHOICEFRONTIER_H

#include "SegmentChoices.h"
#include "llvm/ADT/ArrayRef.h"

namespace parashard {

/// A segment of a rank.
struct WeighedSegment {
  const std::vector<SegmentChoice> *choices =
      nullptr;        ///< as findChoices has them; equal for equals
  int64_t weight = 1; ///< micro-batches of which it is kept when the rank is fullest
};

/// One choice for each segment.
struct FrontierPoint {
  int64_t bytes = 0; ///< kept by all, with their weights
  int64_t cost = 0;  ///< of a micro-batch
  std::vector<int> picks;
};

/// Ways to choose, the fewest bytes first, each cheaper than those before it: a knapsack with one
/// item of each segment. Exact while no sum over segments has more than `most` of them; above,
/// the one with the most bytes stays in each of so many equal intervals. Of equal segments the
/// earlier ones keep less, as theirs would stay for longer.
std::vector<FrontierPoint> findFrontier(llvm::ArrayRef<WeighedSegment> segments,
                                        size_t most = 4096);

} // namespace parashard

#endif
