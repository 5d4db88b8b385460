// How one index range is split over mesh axes, and the arithmetic of cutting and joining such
// splits.
#ifndef PARASHARD_LIB_SHARDING_SPLIT_H
#define PARASHARD_LIB_SHARDING_SPLIT_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// Sizes and kinds of a mesh's axes, to be looked up by name without touching IR.
class MeshShape {
public:
  MeshShape() = default;
  explicit MeshShape(MeshOp mesh);

  /// The name that shardings refer to.
  mlir::FlatSymbolRefAttr getSymbol() const { return symbol; }
  mlir::MLIRContext *getContext() const { return symbol.getContext(); }
  bool has(mlir::StringAttr axis) const { return find(axis) >= 0; }
  /// Number of devices along an axis; 1 for an unknown one, and for one of kind multiple.
  int64_t getSize(mlir::StringAttr axis) const;
  AxisKind getKind(mlir::StringAttr axis) const;
  /// Whether tensors may be split over an axis of the mesh. False for the pipeline axis: its
  /// coordinates run different programs, which never meet in a collective of one tensor.
  bool splitsTensors(mlir::StringAttr axis) const { return getKind(axis) != AxisKind::Pipeline; }
  /// The names of the axes that `take` selects, as `"dp", "tp"`; empty where it selects none.
  std::string listAxes(llvm::function_ref<bool(AxisAttr)> take) const;
  /// The same of the axes that a user may split tensors over.
  std::string listSplittingAxes() const;
  /// The number of shards over `axes`.
  int64_t getShards(llvm::ArrayRef<mlir::StringAttr> axes) const;
  /// The places that each shard of `size` places over `axes` has, padding included.
  int64_t getShardSize(int64_t size, llvm::ArrayRef<mlir::StringAttr> axes) const;
  /// Whether no shard of `size` places over `axes` is padded.
  bool isEven(int64_t size, llvm::ArrayRef<mlir::StringAttr> axes) const {
    return getShardSize(size, axes) * getShards(axes) == size;
  }
  /// `axes` without the one of kind multiple, as collectives name them.
  llvm::SmallVector<mlir::StringAttr> getDeviceAxes(llvm::ArrayRef<mlir::StringAttr> axes) const;
  /// The axis of kind multiple; null where there is none.
  mlir::StringAttr getMultiple() const {
    return multiple ? multiple.getName() : mlir::StringAttr();
  }
  /// Position in the mesh (the order in which partial axes are listed); -1 when unknown.
  int find(mlir::StringAttr axis) const;
  /// Axes with more than one device of any of `kinds`, in mesh order.
  llvm::SmallVector<mlir::StringAttr> getAxes(llvm::ArrayRef<AxisKind> kinds) const;
  llvm::ArrayRef<AxisAttr> getAxes() const { return axes; }
  /// A dim that is not split: most dims are, so it is made once.
  DimAttr getWholeDim() const { return wholeDim; }
  /// No dim split, nothing partial: most shardings on most meshes, so it is made once a rank.
  ShardingAttr getReplicated(int64_t rank) const;
  /// True for null and for `getReplicated` of any rank.
  bool isReplicated(ShardingAttr sharding) const;

private:
  DimAttr wholeDim;
  mlir::FlatSymbolRefAttr symbol;
  llvm::SmallVector<AxisAttr, 4> axes;
  AxisAttr multiple;                             ///< null where there is none
  llvm::SmallVector<ShardingAttr, 8> replicated; ///< by rank
};

/// `size` consecutive places (of whatever stands minor to them) split over `axes`, major to minor.
struct SubFactor {
  int64_t size = 1;
  llvm::SmallVector<mlir::StringAttr, 2> axes;
  bool operator==(const SubFactor &other) const { return size == other.size && axes == other.axes; }
};

/// How an index range lies on the mesh: its factors major to minor, whose sizes multiply to its
/// size. Shards of each factor are as in `#ps.sharding` (`MeshShape::getShardSize`).
using Split = llvm::SmallVector<SubFactor, 2>;
/// One split per dim of a tensor.
using TensorSplits = llvm::SmallVector<Split, 4>;

/// A range of `size` places that is not split.
Split wholeSplit(int64_t size);
/// A range split as one factor over `axes`.
Split makeSplit(int64_t size, llvm::ArrayRef<mlir::StringAttr> axes);
/// All axes, major to minor.
llvm::SmallVector<mlir::StringAttr> getAxes(const Split &split);
bool isWhole(const Split &split);
/// Number of places each shard holds: the product over factors of theirs.
int64_t getLocalSize(const Split &split, const MeshShape &mesh);

/// The one form of a split among equal ones: axes of one device dropped (one of kind multiple where
/// it adds no padding), neighbours that are
/// together split evenly merged, so that `(6 {"tp"} x 64)` is `(384 {"tp"})` when tp divides 6.
Split simplify(const Split &split, const MeshShape &mesh);
/// The split of a range made of these ranges, major to minor; simplified.
Split join(llvm::ArrayRef<Split> parts, const MeshShape &mesh);
/// The splits of the ranges of `sizes`, major to minor, that make up a range split as `split`; axes
/// that do not fall on the borders (no equal split exists) are left out and added to `dropped`.
llvm::SmallVector<Split> cut(const Split &split, llvm::ArrayRef<int64_t> sizes,
                             const MeshShape &mesh,
                             llvm::SmallVectorImpl<mlir::StringAttr> *dropped = nullptr);
/// The same split without `axes`.
Split without(const Split &split, llvm::function_ref<bool(mlir::StringAttr)> remove);

/// To and from attributes. A dim of an attribute with size 0 takes `size`.
Split getSplit(DimAttr dim, int64_t size);
DimAttr getDimAttr(const Split &split, const MeshShape &mesh);
/// The splits of every dim, each simplified; a null sharding is whole.
TensorSplits getSplits(ShardingAttr sharding, llvm::ArrayRef<int64_t> shape, const MeshShape &mesh);
/// The attribute of these splits (simplified), with `partial` in mesh order.
ShardingAttr getShardingAttr(const TensorSplits &splits, llvm::ArrayRef<PartialAttr> partial,
                             const MeshShape &mesh);
/// The one form of a sharding among equal ones (splits simplified, partial axes in mesh order,
/// axes of one device left out); null becomes replicated.
ShardingAttr simplify(ShardingAttr sharding, llvm::ArrayRef<int64_t> shape, const MeshShape &mesh);

} // namespace parashard::ps

#endif
