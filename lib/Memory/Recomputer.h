// Runs forward ops again before the backward of their segment.
#ifndef PARASHARD_LIB_MEMORY_RECOMPUTER_H
#define PARASHARD_LIB_MEMORY_RECOMPUTER_H

#include "lib/Sharding/OpSharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include <map>

namespace parashard {

/// The ops of a function by segment, as far as segments have a forward and a backward.
struct ForwardSegment {
  llvm::SmallVector<mlir::Operation *> forward;
  mlir::Operation *firstBackward = nullptr; ///< all others stand behind it
};

/// What runs again in one segment.
struct Rerun {
  llvm::DenseSet<mlir::Operation *> ops; ///< that may; those do that something needs
  llvm::SetVector<mlir::Value> dropped;  ///< what backward uses and gets anew, made by `ops`
};

class Recomputer {
public:
  /// Of a function at level 2.
  explicit Recomputer(mlir::func::FuncOp function);

  const std::map<int64_t, ForwardSegment> &getSegments() const { return segments; }
  /// The backward of the last segment follows its forward: nothing of it is kept for long.
  bool isLast(int64_t segment) const { return segment + 1 == int64_t(segments.size()); }

  /// Whether the op can run again: it changes nothing, reads nothing that changes, and moves no
  /// data between ranks unless that is allowed.
  bool canRunAgain(mlir::Operation *op, bool repeatsCommunication = false) const;
  /// Whether backward of the segment uses the value.
  static bool isKept(mlir::Value value, int64_t segment);
  /// Whether each segment builds the value for itself.
  bool isBuiltAnywhere(mlir::Value value) const;

  /// Clones what `rerun` needs, and gives it to the backward of the segment.
  void run(int64_t segment, const Rerun &rerun) const;

private:
  bool moves(mlir::Operation *op) const;
  bool isMovedAgain(mlir::Value value, ps::ShardingAttr needed,
                    std::optional<int64_t> segment) const;

  ps::MeshShape mesh;
  llvm::DenseSet<mlir::Operation *> cloneable;
  std::map<int64_t, ForwardSegment> segments;
};

} // namespace parashard

#endif
