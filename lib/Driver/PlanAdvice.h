// Explains the answers of a plan search.
#ifndef PARASHARD_LIB_DRIVER_PLANADVICE_H
#define PARASHARD_LIB_DRIVER_PLANADVICE_H

#include "lib/Driver/PlanSearch.h"

namespace parashard::driver {

/// Prices the plans that differ from the best one in one choice and meet the constraints.
std::vector<Alternative> explainNeighbors(const planner::SearchProblem &problem,
                                          const Finalist &best);

/// Finds the best plan with another constraint: "tp=4", "zero=3". Fails for another text. `best` is
/// the best plan without it.
llvm::Expected<Alternative> explainWhyNot(PlanSearch &search, planner::SearchProblem problem,
                                          const Finalist &best, llvm::StringRef text);

/// Returns the error that no plan fits the memory: what the leanest one needs, and changes with
/// which a compiled plan fits. The changes are more memory, no constraint on one flag or axis,
/// `--precision bf16` instead of fp32, smaller micro-batches than those of a fixed export, and more
/// ranks.
llvm::Error createMisfitError(PlanSearch &search, const planner::SearchProblem &problem,
                              const std::optional<Finalist> &leanest);

} // namespace parashard::driver

#endif
