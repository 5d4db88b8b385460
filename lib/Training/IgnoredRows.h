// Declares constant propagation for a batch whose labels are all ignored.
#ifndef PARASHARD_LIB_TRAINING_IGNOREDROWS_H
#define PARASHARD_LIB_TRAINING_IGNOREDROWS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/DenseMap.h"

namespace parashard::training {

/// Propagates constants from labels that all equal the ignored label (`ps.ignore`). Tracks only
/// splats: values whose elements all equal one constant, whatever the other inputs and the
/// variables are. The result of an op is 0 if the op is linear in a group of operands that are all
/// 0. This rule assumes that the other operands are finite.
class IgnoredRows {
public:
  explicit IgnoredRows(mlir::Block &block);
  /// Returns true if all elements of `value` are known to be 0.
  bool isZero(mlir::Value value) const;

private:
  void visit(mlir::Operation *op);
  /// Folds the op, and records the result. Returns false if the op does not fold.
  bool fold(mlir::Operation *op);
  /// Returns true if the op is linear in operands that are all zero.
  bool isLinearInZeros(mlir::Operation *op) const;
  void setZero(mlir::Value value);

  llvm::DenseMap<mlir::Value, mlir::DenseElementsAttr> splats;
};

} // namespace parashard::training

#endif
