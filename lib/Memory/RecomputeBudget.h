// Chooses what is computed again so that a rank's memory stays under a budget.
#ifndef PARASHARD_LIB_MEMORY_RECOMPUTEBUDGET_H
#define PARASHARD_LIB_MEMORY_RECOMPUTEBUDGET_H

#include "mlir/IR/BuiltinOps.h"

namespace parashard {

struct MemoryBudget {
  int64_t bytes = 0; ///< of the arena of each rank
  std::string text;  ///< as the user wrote it
  /// The passes that bring the module from here to level `placed`, as a pipeline's text: what a
  /// choice takes is measured, on a copy.
  std::string then;
};

/// On the module: the bytes that the arena of a rank may have (`placed_c6`).
inline constexpr llvm::StringLiteral kMemoryBudgetMark = "ps.memory_budget";

/// Makes forward ops of a module at level 2 run again: those that add the least time, by the cost
/// interface, of the ways to hold the budget that are looked at. Fails where the least memory is
/// over it, with an error that says how much that is and what holds it.
mlir::LogicalResult recomputeUnderBudget(mlir::ModuleOp module, const MemoryBudget &budget);

} // namespace parashard

#endif
