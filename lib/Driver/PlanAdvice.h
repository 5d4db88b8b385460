// Explains the answers of a plan search.
#ifndef PARASHARD_LIB_DRIVER_PLANADVICE_H
#define PARASHARD_LIB_DRIVER_PLANADVICE_H

#include "lib/Driver/PlanSearch.h"

namespace parashard::driver {

/// Prices the plans that meet the constraints and differ from the best plan in one choice. Compiles
/// the plans that would be faster than the best plan according to their estimates. If the program
/// of such a plan is faster, and fits the memory, sets `faster` to the fastest one.
std::vector<Alternative> explainNeighbors(PlanSearch &search, const planner::SearchProblem &problem,
                                          const Finalist &best, std::optional<Finalist> &faster);

/// Adds the constraint of `--why-not`, such as "tp=4" or "zero=3". Fails if `text` is not a
/// constraint on axes of the mesh or on a searched flag.
llvm::Error addConstraint(planner::Constraints &constraints, llvm::StringRef text);

/// Finds the best plan under one more constraint, such as "tp=4" or "zero=3". Fails if `text` is
/// not a constraint. `best` is the best plan without this constraint.
llvm::Expected<Alternative> explainWhyNot(PlanSearch &search, planner::SearchProblem problem,
                                          const Finalist &best, llvm::StringRef text);

/// Creates the error for a search in which no plan fits the memory. The message has the memory that
/// the leanest plan needs, and lists the changes after which a compiled plan fits. These changes
/// are tried: more memory, one flag or axis without its constraint, `--precision bf16` instead of
/// fp32, a global batch that the ranks divide, micro-batches smaller than the fixed batch of the
/// export, and more ranks.
llvm::Error createMisfitError(PlanSearch &search, const planner::SearchProblem &problem,
                              const PlanSearch::Found &found);

/// Creates the error for a search whose constraints allow no plan. `reason` is the error of the
/// search. The message lists the changes after which a plan is possible; the same changes as above
/// are tried, except more memory.
llvm::Error createEmptyError(PlanSearch &search, const planner::SearchProblem &problem,
                             llvm::StringRef reason);

} // namespace parashard::driver

#endif
