// Decides which values a pipeline stage recomputes instead of receiving them.
#ifndef PARASHARD_LIB_PARTITION_CHEAPVALUES_H
#define PARASHARD_LIB_PARTITION_CHEAPVALUES_H

#include "dialects/ps/Ps.h"

namespace parashard::partition {

/// Finds values that are computed only from constants, buffers and the function's inputs (masks,
/// positions, rotary tables) and cost at most 1000 flops per byte of the value. Recomputing such a
/// value takes less time than sending the value to another device.
class CheapValues {
public:
  explicit CheapValues(mlir::func::FuncOp function);

  bool isCheap(mlir::Value value) const;
  /// Returns the ops from which a cheap value is computed, in program order. Omits cloneable ops,
  /// because each segment clones the cloneable ops that it uses.
  llvm::SmallVector<mlir::Operation *> getCone(mlir::Value value) const;

private:
  llvm::DenseSet<mlir::Operation *> cloneable;  ///< from findCloneableOps
  llvm::DenseSet<mlir::Operation *> fromInputs; ///< forward ops on constants and inputs
};

} // namespace parashard::partition

#endif
