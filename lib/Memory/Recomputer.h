// Clones forward ops before the backward of their segment.
#ifndef PARASHARD_LIB_MEMORY_RECOMPUTER_H
#define PARASHARD_LIB_MEMORY_RECOMPUTER_H

#include "lib/Sharding/OpSharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include <map>

namespace parashard::memory {

struct ForwardSegment {
  llvm::SmallVector<mlir::Operation *> forward;
  mlir::Operation *firstBackward = nullptr; ///< null if the segment has no backward
};

struct Rerun {
  llvm::DenseSet<mlir::Operation *> ops; ///< ops that run again if their results are needed
  llvm::SetVector<mlir::Value> dropped;  ///< results of `ops` that backward recomputes
};

class Recomputer {
public:
  /// Reads the segments of a function at level 2.
  explicit Recomputer(mlir::func::FuncOp function);

  const std::map<int64_t, ForwardSegment> &getSegments() const { return segments; }
  /// Returns true for the last segment, whose backward immediately follows its forward. Recomputing
  /// this segment frees little memory.
  bool isLast(int64_t segment) const { return segment + 1 == int64_t(segments.size()); }

  /// Returns true if the op is pure, has no regions, and does not read a variable that the function
  /// writes. For an op that moves data between ranks, `repeatsCommunication` must also be true.
  bool canRunAgain(mlir::Operation *op, bool repeatsCommunication = false) const;
  /// Returns true if the segment's backward uses the value.
  static bool isKept(mlir::Value value, int64_t segment);
  /// Returns true if each segment has its own clone of the value's producer. Example: the read of a
  /// parameter.
  bool isClonedPerSegment(mlir::Value value) const;

  /// Clones the ops that compute the values `rerun.dropped`, and makes the segment's backward use
  /// the clones.
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
