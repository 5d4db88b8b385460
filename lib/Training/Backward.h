// The reverse walk: the backward of a block of ops.
#ifndef PARASHARD_LIB_TRAINING_BACKWARD_H
#define PARASHARD_LIB_TRAINING_BACKWARD_H

#include "dialects/ps/Ps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace parashard {

/// Builds the backward of a block before its terminator.
class Backward {
public:
  /// `isTrained` says of a variable's symbol whether it takes a gradient. The block holds the
  /// forward ops only; its ops are numbered now, and marked with their number.
  Backward(mlir::Block &block, llvm::function_ref<bool(mlir::SymbolRefAttr)> isTrained);

  /// Whether the value depends, differentiably, on a trained variable.
  bool isActive(mlir::Value value) const { return active.contains(value); }

  /// Adds a cotangent to a value (an active one; nothing happens to others).
  void seed(mlir::Value value, mlir::Value cotangent);
  /// A builder for ops that belong to the backward of `value`'s producer, at the end of the block.
  ps::BackwardBuilder makeBuilder(mlir::Value value);

  /// Walks back. Then `getGradients` has the contributions to each variable, in the order made.
  mlir::LogicalResult run();
  using Contributions = llvm::SmallVector<std::pair<mlir::Value, ps::ReadOp>>;
  const llvm::MapVector<mlir::SymbolRefAttr, Contributions> &getGradients() const {
    return gradients;
  }

  /// The ordinal of a forward op.
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

/// Marks `backward_weight` whatever reads a value that is; nothing of `backward_input` may.
void spreadWeightPhase(mlir::Block &block);

} // namespace parashard

#endif
