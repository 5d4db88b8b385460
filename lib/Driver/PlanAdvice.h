// Explains the answers of a plan search.
#ifndef PARASHARD_LIB_DRIVER_PLANADVICE_H
#define PARASHARD_LIB_DRIVER_PLANADVICE_H

#include "lib/Driver/PlanSearch.h"

namespace parashard::driver {

/// Prices the plans that differ from the best one in one choice and meet the constraints.
std::vector<Alternative> explainNeighbors(const planner::SearchProblem &problem,
                                          const Finalist &best);

/// Finds the best plan under one more constraint, such as "tp=4" or "zero=3". Fails if `text` is
/// not a constraint. `best` is the best plan without this constraint.
llvm::Expected<Alternative> explainWhyNot(PlanSearch &search, planner::SearchProblem problem,
                                          const Finalist &best, llvm::StringRef text);

/// Returns the error that no plan fits the memory. The error has the memory that the leanest plan
/// needs, and the changes with which a compiled plan fits. The search tries these changes: more
/// memory, one flag or axis without its constraint, `--precision bf16` instead of fp32, smaller
/// micro-batches than a fixed export has, and more ranks.
llvm::Error createMisfitError(PlanSearch &search, const planner::SearchProblem &problem,
                              const std::optional<Finalist> &leanest);

} // namespace parashard::driver

#endif
