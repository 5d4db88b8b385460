// Chooses which ops are recomputed so that a rank's memory stays within a budget.
#ifndef PARASHARD_LIB_MEMORY_RECOMPUTEBUDGET_H
#define PARASHARD_LIB_MEMORY_RECOMPUTEBUDGET_H

#include "lib/Costs/Cluster.h"
#include "mlir/IR/BuiltinOps.h"

namespace parashard::memory {

struct MemoryBudget {
  int64_t bytes = 0; ///< maximum size of each rank's arena
  std::string text;  ///< as the user wrote it
  /// The passes from level 2 to level `placed`, as a textual pass pipeline. The search runs them on
  /// a copy of the module to measure the memory of a choice.
  std::string then;
};

/// Recomputes forward ops of a module at level 2 so that each rank's arena fits the budget. Among
/// the choices that the search visits, applies the one that adds the least time on `device`
/// (`getTime`). If no choice fits, emits an error with the least memory found and its largest
/// buffers.
mlir::LogicalResult recomputeUnderBudget(mlir::ModuleOp module, const MemoryBudget &budget,
                                         const costs::Device &device);

} // namespace parashard::memory

#endif
