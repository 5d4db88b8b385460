// Computes the values of a batch whose labels are all ignored.
#ifndef PARASHARD_LIB_TRAINING_IGNOREDROWS_H
#define PARASHARD_LIB_TRAINING_IGNOREDROWS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/DenseMap.h"

namespace parashard::training {

/// The values of a function when every label equals the ignored label (`kIgnoreMark`). A value is
/// known if all its elements are the same number, whatever the other inputs and the variables are.
/// Ops are folded. An op that is linear in operands that are zero returns zero, which assumes that
/// its other operands are finite.
class IgnoredRows {
public:
  explicit IgnoredRows(mlir::Block &block);
  /// Returns true if all elements of `value` are 0.
  bool isZero(mlir::Value value) const;

private:
  void visit(mlir::Operation *op);
  /// Folds the op, and records the result. Returns false if the op does not fold.
  bool fold(mlir::Operation *op);
  /// Returns true if the op is linear in a group of operands that are all zero.
  bool isLinearInZeros(mlir::Operation *op) const;
  void setZero(mlir::Value value);

  llvm::DenseMap<mlir::Value, mlir::DenseElementsAttr> splats;
};

} // namespace parashard::training

#endif
