// Finds plans with smaller micro-batches than those of an export with a fixed batch.
#ifndef PARASHARD_LIB_DRIVER_SMALLERMICROBATCH_H
#define PARASHARD_LIB_DRIVER_SMALLERMICROBATCH_H

#include "lib/Driver/PlanSearch.h"

namespace parashard::driver {

/// Smaller micro-batches than the export allows.
struct SmallerMicroBatch {
  /// Samples over all data-parallel ranks: the most with which a plan fits or, without such a plan,
  /// the most that the constraints allow.
  int64_t batch = 0;
  /// Why the model cannot be imported with them, and how to export it.
  std::string reason;
  std::optional<planner::Candidate> plan; ///< fits the memory
};

/// Returns the largest micro-batch with which a plan without ZeRO fits. Returns nullopt if the
/// export does not fix the batch, and if the constraints allow no smaller micro-batch.
///
/// The model cannot be compiled with fewer samples per micro-batch, but with more data-parallel
/// ranks. A rank then has as many samples, and its program needs as much memory. Example: the
/// export fixes 8 samples. The plan dp=2 with 4 samples per micro-batch has 2 samples per rank, as
/// the plan dp=4 with 8 samples, which is compiled. With ZeRO, ranks of the latter would hold a
/// smaller part of the states. A plan is not found if the cluster has too few ranks for this.
std::optional<SmallerMicroBatch> findSmallerMicroBatch(PlanSearch &search,
                                                       const planner::SearchProblem &problem);

} // namespace parashard::driver

#endif
