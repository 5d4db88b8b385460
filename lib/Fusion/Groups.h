// Groups the ops of a class function into kernels.
#ifndef PARASHARD_LIB_FUSION_GROUPS_H
#define PARASHARD_LIB_FUSION_GROUPS_H

#include "Fused.h"
#include "Views.h"
#include "llvm/ADT/SetVector.h"

namespace parashard::fusion {

/// Groups the ops of one block. Views and constants are not in a group: `build` clones them into
/// each group that reads through them. If an op cannot read through a view (the strides do not
/// fit), a separate group copies the view into a buffer.
class Groups {
public:
  explicit Groups(mlir::Block &block);

  /// Forms the groups: starts with one group per op, then merges producers into consumers, then
  /// merges siblings (groups that read the same input).
  mlir::LogicalResult form();
  /// Replaces every group by a ps.fused op.
  void build();

private:
  using Ops = llvm::SmallVector<mlir::Operation *>;

  /// Returns true for views with a buffer: copied views, and reshapes of dense buffers.
  bool isMaterialized(mlir::Operation *op) const {
    return materialized.contains(op) || reshaped.contains(op);
  }
  /// Returns true for views and constants that groups read through, instead of reading a buffer.
  bool isReadThrough(mlir::Operation *op) const;
  void requireDense(mlir::Value value);
  void prepareLibraryOperands(mlir::Operation *op);
  void prepareAllLibraryOperands();
  mlir::LogicalResult formAlone(mlir::Operation *op);
  mlir::LogicalResult formRemaining();
  Ops addReadThroughOps(const llvm::SetVector<mlir::Operation *> &members) const;
  bool isUsedOutside(mlir::Value value, const llvm::SetVector<mlir::Operation *> &members) const;
  llvm::SmallVector<mlir::Value>
  getOutputs(const llvm::SetVector<mlir::Operation *> &members) const;
  bool fits(const llvm::SetVector<mlir::Operation *> &members, std::string &reason) const;
  bool makesCycle(const llvm::SetVector<mlir::Operation *> &members) const;
  bool comesStraightFrom(mlir::Operation *view,
                         const llvm::SetVector<mlir::Operation *> &members) const;
  bool tryMerge(int a, int b);
  llvm::SmallVector<int> getProducers(int group) const;
  void mergeSiblings();
  void buildOne(const llvm::SetVector<mlir::Operation *> &members);

  mlir::Block &block;
  llvm::DenseSet<mlir::Operation *> materialized;
  llvm::DenseSet<mlir::Operation *> reshaped; ///< reshapes that share the bytes of dense buffers
  std::vector<llvm::SetVector<mlir::Operation *>> groups;
  llvm::DenseMap<mlir::Operation *, int> groupOf;
};

} // namespace parashard::fusion

#endif
