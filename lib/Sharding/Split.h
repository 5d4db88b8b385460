// Represents the splits of index ranges over mesh axes, and cuts and joins such splits.
#ifndef PARASHARD_LIB_SHARDING_SPLIT_H
#define PARASHARD_LIB_SHARDING_SPLIT_H

#include "dialects/ps/Ps.h"

namespace parashard::sharding {

/// Sizes and kinds of a mesh's axes. Looks up axes by name without access to the IR.
class MeshShape {
public:
  MeshShape() = default;
  explicit MeshShape(ps::MeshOp mesh);

  mlir::FlatSymbolRefAttr getSymbol() const { return symbol; }
  mlir::MLIRContext *getContext() const { return symbol.getContext(); }
  bool has(mlir::StringAttr axis) const { return find(axis) >= 0; }
  /// Returns the number of devices along an axis. Returns 1 for an unknown axis, and for the
  /// padding axis (kind `multiple`, see dialects/ps/Dialect.td).
  int64_t getSize(mlir::StringAttr axis) const;
  ps::AxisKind getKind(mlir::StringAttr axis) const;
  /// Returns true if tensors may be split over an axis. Returns false for the pipeline axis:
  /// pipeline coordinates run different programs, so they cannot take part in the same collective.
  bool splitsTensors(mlir::StringAttr axis) const {
    return getKind(axis) != ps::AxisKind::Pipeline;
  }
  /// Lists the names of the axes that `take` selects, as `"dp", "tp"`; "" if there are none.
  std::string listAxes(llvm::function_ref<bool(ps::AxisAttr)> take) const;
  /// Lists the axes over which a user may split tensors, as `"dp", "tp"`.
  std::string listSplittingAxes() const;
  int64_t getShards(llvm::ArrayRef<mlir::StringAttr> axes) const;
  /// Returns the number of elements in each shard of `size` elements over `axes`, including
  /// padding. Example: 4 for 7 elements over 2 shards.
  int64_t getShardSize(int64_t size, llvm::ArrayRef<mlir::StringAttr> axes) const;
  /// Returns true if no shard of `size` elements over `axes` is padded.
  bool isEven(int64_t size, llvm::ArrayRef<mlir::StringAttr> axes) const {
    return getShardSize(size, axes) * getShards(axes) == size;
  }
  /// Returns `axes` without the axis of kind `multiple`. Collectives run over the returned axes.
  llvm::SmallVector<mlir::StringAttr> getDeviceAxes(llvm::ArrayRef<mlir::StringAttr> axes) const;
  /// Returns the axis of kind `multiple`; null if there is none.
  mlir::StringAttr getMultiple() const {
    return multiple ? multiple.getName() : mlir::StringAttr();
  }
  /// Returns the position of an axis in the mesh, or -1 for an unknown axis. Partial axes are
  /// sorted by this position.
  int find(mlir::StringAttr axis) const;
  /// Returns the axes with any of `kinds` and more than one device, in mesh order.
  llvm::SmallVector<mlir::StringAttr> getAxes(llvm::ArrayRef<ps::AxisKind> kinds) const;
  llvm::ArrayRef<ps::AxisAttr> getAxes() const { return axes; }
  /// Returns the attribute of a dim that is not split (cached).
  ps::DimAttr getWholeDim() const { return wholeDim; }
  /// Returns a sharding without splits or partial axes, for tensors with `rank` dims (cached).
  ps::ShardingAttr getReplicated(int64_t rank) const;
  /// Returns true for null and for `getReplicated` of any rank.
  bool isReplicated(ps::ShardingAttr sharding) const;

private:
  ps::DimAttr wholeDim;
  mlir::FlatSymbolRefAttr symbol;
  llvm::SmallVector<ps::AxisAttr, 4> axes;
  ps::AxisAttr multiple;                             ///< null if there is none
  llvm::SmallVector<ps::ShardingAttr, 8> replicated; ///< by rank of tensors
};

/// One factor of an index range: `size` indices, split over `axes` from major to minor. Example: a
/// range of 384 indices = (6 x 64) has the factors 6 (major, stride 64) and 64 (minor, stride 1).
struct SubFactor {
  int64_t size = 1;
  llvm::SmallVector<mlir::StringAttr, 2> axes;
  bool operator==(const SubFactor &other) const { return size == other.size && axes == other.axes; }
};

/// The split of an index range: its factors from major to minor, whose sizes multiply to the size
/// of the range. A shard has `MeshShape::getShardSize` indices of each factor.
using Split = llvm::SmallVector<SubFactor, 2>;
/// One split per dim of a tensor.
using TensorSplits = llvm::SmallVector<Split, 4>;

/// Returns the trivial split: one factor of `size` elements without axes.
Split wholeSplit(int64_t size);
Split makeSplit(int64_t size, llvm::ArrayRef<mlir::StringAttr> axes);
/// Returns the axes of all factors, from major to minor.
llvm::SmallVector<mlir::StringAttr> getAxes(const Split &split);
bool isWhole(const Split &split);
/// Returns the number of elements in each shard: the product over all factors.
int64_t getLocalSize(const Split &split, const MeshShape &mesh);

/// Returns the canonical form among equal splits. Drops axes of one device, an axis of kind
/// `multiple` that adds no padding, and whole factors of size 1. Merges adjacent factors that are
/// split evenly together. Example: `(6 {"tp"} x 64)` becomes `(384 {"tp"})` if tp divides 6.
Split simplify(const Split &split, const MeshShape &mesh);
/// Joins ranges, major to minor, into one range, and returns the simplified split of this range.
/// Example: `4 {dp}` and `16` give `64 {dp}` if dp divides 4.
Split join(llvm::ArrayRef<Split> parts, const MeshShape &mesh);
/// Cuts a range with the split `split` into ranges of `sizes`, major to minor, and returns their
/// splits. Appends the axes that do not fit the boundaries to `dropped`, unless `dropped` is null.
/// Example: `64 {dp}` cut into 4 and 16 with dp=2 gives `4 {dp}` and `16`.
llvm::SmallVector<Split> cut(const Split &split, llvm::ArrayRef<int64_t> sizes,
                             const MeshShape &mesh,
                             llvm::SmallVectorImpl<mlir::StringAttr> *dropped = nullptr);
/// Returns the split without the axes that `remove` selects.
Split without(const Split &split, llvm::function_ref<bool(mlir::StringAttr)> remove);

/// Converts the attribute of a dim with `size` elements to a split. In the attribute, a factor of
/// size 0 covers the whole dim.
Split getSplit(ps::DimAttr dim, int64_t size);
ps::DimAttr getDimAttr(const Split &split, const MeshShape &mesh);
/// Returns the splits of all dims, each simplified. A null sharding is replicated.
TensorSplits getSplits(ps::ShardingAttr sharding, llvm::ArrayRef<int64_t> shape,
                       const MeshShape &mesh);
/// Returns the attribute of these splits (simplified), with `partial` in mesh order.
ps::ShardingAttr getShardingAttr(const TensorSplits &splits,
                                 llvm::ArrayRef<ps::PartialAttr> partial, const MeshShape &mesh);
/// Returns the canonical form among equal shardings: splits are simplified, partial axes are in
/// mesh order, and axes of one device are omitted. Null becomes replicated.
ps::ShardingAttr simplify(ps::ShardingAttr sharding, llvm::ArrayRef<int64_t> shape,
                          const MeshShape &mesh);

} // namespace parashard::sharding

#endif
