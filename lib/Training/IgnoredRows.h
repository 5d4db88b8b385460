// What a batch is worth whose labels are all ignored.
#ifndef PARASHARD_LIB_TRAINING_IGNOREDROWS_H
#define PARASHARD_LIB_TRAINING_IGNOREDROWS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/DenseMap.h"

namespace parashard {

/// The values of a function when every label has the value that its loss ignores (`kIgnoreMark`),
/// as far as they are one number whatever the other inputs and the variables hold. Ops are folded;
/// an op that is linear in operands that are zero gives zero, so other operands must be finite.
class IgnoredRows {
public:
  explicit IgnoredRows(mlir::Block &block);
  /// Whether all elements of `value` are 0.
  bool isZero(mlir::Value value) const;

private:
  void visit(mlir::Operation *op);
  /// Sets what folding the op gives. Returns false when that is nothing.
  bool fold(mlir::Operation *op);
  /// Whether the op has zeros where it is linear.
  bool isLinearInZeros(mlir::Operation *op) const;
  void setZero(mlir::Value value);

  llvm::DenseMap<mlir::Value, mlir::DenseElementsAttr> splats;
};

} // namespace parashard

#endif
