// Finds constraints on plans that contradict each other.
#ifndef PARASHARD_LIB_PLANNER_CONFLICTS_H
#define PARASHARD_LIB_PLANNER_CONFLICTS_H

#include "lib/Planner/Constraints.h"

namespace parashard::planner {

/// Numbers that every plan must have, in addition to the constraints.
struct PlanNumbers {
  int64_t ranks = 1;
  std::string ranksFlag; ///< how the ranks were given: "ranks 8", "cluster h100-sxm:8"
  int64_t globalBatch = 1;
  /// Samples per micro-batch over all data-parallel ranks, if the export fixes them.
  std::optional<int64_t> fixedBatch;
  /// Number of stages, if `--split-method` names the modules that begin them.
  std::optional<int64_t> stages;
};

/// Fails if no plan has these numbers and satisfies the constraints, for any model. The error is a
/// FlagError. It names the smallest set of flags that contradict each other, the rule that they
/// break, and values with which the flags are consistent. Example: `--batch 8` and a global batch
/// of 12 give "--batch 8 and --global-batch 12 contradict each other: ...; use --batch 4 or 6, or
/// --global-batch 8 or 16".
llvm::Error checkConflicts(const PlanNumbers &numbers, const Constraints &constraints);

} // namespace parashard::planner

#endif
