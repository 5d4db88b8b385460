// Declares reverse-mode differentiation of a block.
#ifndef PARASHARD_LIB_TRAINING_BACKWARD_H
#define PARASHARD_LIB_TRAINING_BACKWARD_H

#include "dialects/ps/Ps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace parashard::training {

/// Builds the backward of a block: visits its forward ops in reverse, and inserts the backward ops
/// before its terminator.
class Backward {
public:
  /// Numbers the ops of the block (`ps.origin`). All of them must be forward ops. `isTrained`
  /// returns true for the symbol of a variable that requires a gradient.
  Backward(mlir::Block &block, llvm::function_ref<bool(mlir::SymbolRefAttr)> isTrained);

  /// Returns true if `value` has a derivative with respect to a trained variable.
  bool isActive(mlir::Value value) const { return active.contains(value); }

  /// Adds a cotangent to an active value; ignores inactive values.
  void seed(mlir::Value value, mlir::Value cotangent);
  /// Returns a builder for the backward ops of the op that produces `value`.
  ps::BackwardBuilder makeBuilder(mlir::Value value);

  /// Builds the backward ops. Afterwards, `getGradients` returns the contributions to the gradient
  /// of each variable, in the order in which they were built.
  mlir::LogicalResult run();
  using Contributions = llvm::SmallVector<std::pair<mlir::Value, ps::ReadOp>>;
  const llvm::MapVector<mlir::SymbolRefAttr, Contributions> &getGradients() const {
    return gradients;
  }

  /// Returns the number of a forward op (`ps.origin`).
  int64_t getOrdinal(mlir::Operation *op) const { return ordinals.lookup(op); }

private:
  mlir::LogicalResult differentiate(mlir::Operation *op);
  mlir::Value takeSum(mlir::Value value);
  ps::BackwardBuilder makeBuilder(mlir::Operation *op, llvm::ArrayRef<bool> needed);

  mlir::Block &block;
  llvm::SmallVector<mlir::Operation *> forward;
  llvm::DenseMap<mlir::Operation *, int64_t> ordinals;
  llvm::DenseSet<mlir::Value> active;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> cotangents;
  llvm::MapVector<mlir::SymbolRefAttr, Contributions> gradients;
};

/// Moves each `backward_input` op with an operand of phase `backward_weight` to the phase
/// `backward_weight`.
void spreadWeightPhase(mlir::Block &block);

} // namespace parashard::training

#endif
