// Finds constraints on plans that contradict each other.
#ifndef PARASHARD_LIB_PLANNER_CONFLICTS_H
#define PARASHARD_LIB_PLANNER_CONFLICTS_H

#include "lib/Planner/Constraints.h"

namespace parashard::planner {

/// The numbers that a plan must have, besides its constraints.
struct PlanNumbers {
  int64_t ranks = 1;
  std::string ranksFlag; ///< how the ranks were given: "ranks 8", "cluster h100-sxm:8"
  int64_t globalBatch = 1;
  /// Samples per micro-batch over all data-parallel ranks, if the export fixes them.
  std::optional<int64_t> fixedBatch;
  /// Number of stages, if `--split-method` names the modules that begin them.
  std::optional<int64_t> stages;
};

/// Fails if no plan has these numbers and meets the constraints, whatever the model. The error is a
/// FlagError. It names the fewest flags that contradict each other, the rule that they break, and
/// values that do not contradict the rest. Example: `--batch 8` and a global batch of 12 give
/// "--batch 8 and --global-batch 12 contradict each other: ...; use --batch 4 or 6, or
/// --global-batch 8 or 16".
llvm::Error checkConflicts(const PlanNumbers &numbers, const Constraints &constraints);

} // namespace parashard::planner

#endif
