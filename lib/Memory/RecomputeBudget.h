// Chooses which ops are recomputed so that a rank's memory stays within a budget.
#ifndef PARASHARD_LIB_MEMORY_RECOMPUTEBUDGET_H
#define PARASHARD_LIB_MEMORY_RECOMPUTEBUDGET_H

#include "lib/Costs/Cluster.h"
#include "mlir/IR/BuiltinOps.h"

namespace parashard::memory {

struct MemoryBudget {
  int64_t bytes = 0; ///< maximum size of each rank's arena
  std::string text;  ///< the budget as the user wrote it
  /// The passes after ps-recompute, up to level `placed`, as a textual pass pipeline. The search
  /// runs these passes on a copy of the module to measure the memory of a choice.
  std::string laterPasses;
};

/// Recomputes forward ops of a module at level 2 so that each rank's arena fits the budget. Among
/// the fitting choices that the search finds, applies the choice that adds the least time on
/// `device` (`getTime`). If no choice fits, emits an error with the least memory that was measured,
/// and with the largest buffers of that measurement.
mlir::LogicalResult recomputeUnderBudget(mlir::ModuleOp module, const MemoryBudget &budget,
                                         const costs::Device &device);

} // namespace parashard::memory

#endif
