// Builds the backward of a block by walking its ops in reverse.
#ifndef PARASHARD_LIB_TRAINING_BACKWARD_H
#define PARASHARD_LIB_TRAINING_BACKWARD_H

#include "dialects/ps/Ps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace parashard::training {

/// Builds the backward of a block before its terminator.
class Backward {
public:
  /// Numbers the ops of the block, and marks each op with its number (`kOriginMark`). The block
  /// must hold only forward ops. `isTrained` returns true for the symbol of a variable that takes a
  /// gradient.
  Backward(mlir::Block &block, llvm::function_ref<bool(mlir::SymbolRefAttr)> isTrained);

  /// Returns true if the value depends differentiably on a trained variable.
  bool isActive(mlir::Value value) const { return active.contains(value); }

  /// Adds a cotangent to an active value; ignores inactive values.
  void seed(mlir::Value value, mlir::Value cotangent);
  /// Returns a builder at the end of the block for ops of the backward of `value`'s producer.
  ps::BackwardBuilder makeBuilder(mlir::Value value);

  /// Runs the reverse walk. Afterwards, `getGradients` returns the contributions to each variable,
  /// in the order in which they were built.
  mlir::LogicalResult run();
  using Contributions = llvm::SmallVector<std::pair<mlir::Value, ps::ReadOp>>;
  const llvm::MapVector<mlir::SymbolRefAttr, Contributions> &getGradients() const {
    return gradients;
  }

  /// Returns the number of a forward op.
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

/// Gives the phase `backward_weight` to every `backward_input` op that reads a `backward_weight`
/// value.
void spreadWeightPhase(mlir::Block &block);

} // namespace parashard::training

#endif
