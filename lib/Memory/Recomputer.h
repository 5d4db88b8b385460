// Clones forward ops before the backward of their segment.
#ifndef PARASHARD_LIB_MEMORY_RECOMPUTER_H
#define PARASHARD_LIB_MEMORY_RECOMPUTER_H

#include "lib/Sharding/OpSharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include <map>

namespace parashard::memory {

/// The ops of one segment, if the segment has a forward and a backward.
struct ForwardSegment {
  llvm::SmallVector<mlir::Operation *> forward;
  mlir::Operation *firstBackward = nullptr; ///< precedes all other backward ops
};

/// The ops of one segment that run again.
struct Rerun {
  llvm::DenseSet<mlir::Operation *> ops; ///< may run again; run if their results are needed
  llvm::SetVector<mlir::Value> dropped;  ///< results of `ops` that backward recomputes
};

class Recomputer {
public:
  /// Takes a function at level 2.
  explicit Recomputer(mlir::func::FuncOp function);

  const std::map<int64_t, ForwardSegment> &getSegments() const { return segments; }
  /// Returns true for the last segment: its backward follows its forward, so that its values are
  /// not kept for long.
  bool isLast(int64_t segment) const { return segment + 1 == int64_t(segments.size()); }

  /// Returns true if the op can run again: it is pure and does not read variables that change. An
  /// op that moves data between ranks can run again only if `repeatsCommunication` is set.
  bool canRunAgain(mlir::Operation *op, bool repeatsCommunication = false) const;
  /// Returns true if the segment's backward uses the value.
  static bool isKept(mlir::Value value, int64_t segment);
  /// Returns true if each segment clones the value for itself.
  bool isBuiltAnywhere(mlir::Value value) const;

  /// Clones the ops that `rerun` needs, and replaces the uses of their results in the segment's
  /// backward.
  void run(int64_t segment, const Rerun &rerun) const;

private:
  bool moves(mlir::Operation *op) const;
  bool isMovedAgain(mlir::Value value, ps::ShardingAttr needed,
                    std::optional<int64_t> segment) const;

  sharding::MeshShape mesh;
  llvm::DenseSet<mlir::Operation *> cloneable;
  std::map<int64_t, ForwardSegment> segments;
};

} // namespace parashard::memory

#endif
