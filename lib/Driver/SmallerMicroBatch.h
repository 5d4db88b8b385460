// Finds plans with micro-batches that are smaller than the fixed batch of an export.
#ifndef PARASHARD_LIB_DRIVER_SMALLERMICROBATCH_H
#define PARASHARD_LIB_DRIVER_SMALLERMICROBATCH_H

#include "lib/Driver/PlanSearch.h"

namespace parashard::driver {

/// Describes micro-batches that are smaller than the export allows.
struct SmallerMicroBatch {
  /// Samples per micro-batch, over all data-parallel ranks: the largest number with which a plan
  /// fits. If no plan fits, the largest number that the constraints allow.
  int64_t batch = 0;
  /// Why the model cannot be imported with `batch` samples, and how to export the model instead.
  std::string reason;
  std::optional<planner::Candidate> plan; ///< a plan that fits the memory
};

/// Returns the largest micro-batch with which a plan without ZeRO fits. Returns nullopt if the
/// export does not fix the batch, or if the constraints allow no smaller micro-batch.
///
/// The model cannot be compiled with fewer samples per micro-batch. Instead, the search compiles
/// plans with more data-parallel ranks. Their ranks have equally few samples and need the same
/// memory. Example: the export fixes 8 samples. The plan dp=2 with 4 samples per micro-batch has 2
/// samples per rank. The plan dp=4 with 8 samples has 2 samples per rank, too, so dp=4 is compiled
/// in place of dp=2. With ZeRO, a rank of dp=4 would hold a smaller part of the states than a rank
/// of dp=2. No plan is found if the cluster has too few ranks for this replacement.
std::optional<SmallerMicroBatch> findSmallerMicroBatch(PlanSearch &search,
                                                       const planner::SearchProblem &problem);

} // namespace parashard::driver

#endif
