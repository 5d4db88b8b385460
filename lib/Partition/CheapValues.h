// Which values a stage of a pipeline computes for itself rather than receive.
#ifndef PARASHARD_LIB_PARTITION_CHEAPVALUES_H
#define PARASHARD_LIB_PARTITION_CHEAPVALUES_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// Values that follow from constants and the function's inputs (masks, positions, rotary tables)
/// at less cost than sending them: up to 1000 floating-point operations a byte, about what a
/// processor does in the time in which a link moves one.
class CheapValues {
public:
  explicit CheapValues(mlir::func::FuncOp function);

  bool isCheap(mlir::Value value) const;
  /// What computes a cheap value, in order; without what every segment builds for itself.
  llvm::SmallVector<mlir::Operation *> getCone(mlir::Value value) const;

private:
  llvm::DenseSet<mlir::Operation *> cloneable;  ///< by every segment
  llvm::DenseSet<mlir::Operation *> fromInputs; ///< forward ops that follow from inputs
};

} // namespace parashard::ps

#endif
