// Maps the elements of each rank's shard to elements of the unsharded tensor.
#ifndef PARASHARD_LIB_EVALUATE_LAYOUT_H
#define PARASHARD_LIB_EVALUATE_LAYOUT_H

#include "dialects/ps/Combine.h"
#include "dialects/ps/Ps.h"

namespace parashard::evaluate {

using PerRank = std::vector<ps::Tensor>;

/// The ranks of one pipeline coordinate, in row-major order of their coordinates on the other axes:
/// the last axis varies fastest. No tensor is sharded over the pipeline axis.
class Layout {
public:
  /// Creates the layout of `mesh`, or of one rank if `mesh` is null.
  explicit Layout(ps::MeshOp mesh);

  int64_t getRankCount() const { return rankCount; }
  /// Returns the linear shard index of `rank` over `axes`. The first axis is the most significant.
  int64_t getShardIndex(int64_t rank, llvm::ArrayRef<mlir::StringAttr> axes) const;
  int64_t getShardIndex(int64_t rank, mlir::ArrayAttr axes) const;
  int64_t getShards(llvm::ArrayRef<mlir::StringAttr> axes) const;
  /// Returns the number of elements per shard of a factor with `size` elements, including padding.
  int64_t getShardSize(int64_t size, llvm::ArrayRef<mlir::StringAttr> axes) const;
  /// Returns the members of `rank`'s group over `axes`, in ascending shard index.
  llvm::SmallVector<int64_t> getGroup(int64_t rank, mlir::ArrayAttr axes) const;

  /// Returns the global index, along one dim, of the element with the local index `local` on
  /// `rank`; -1 for padding. The global dim has `size` elements. Example: a dim of size 5 over 2
  /// shards has 3 local elements. Element 2 of shard 1 is padding.
  int64_t getDimIndex(int64_t rank, ps::DimAttr dim, int64_t size, int64_t local) const;

  /// Returns each rank's shard of `whole`, with zeros as padding. With a partial sum, shard 0 of
  /// the partial axes gets the value, and the others get zeros. With a partial maximum or minimum,
  /// every shard gets the value. Without a sharding, every rank gets `whole`.
  PerRank scatter(const ps::Tensor &whole, ps::ShardingAttr sharding) const;
  /// Fills the padding of shards of a tensor of global type `type` with unspecified values, such as
  /// NaN.
  void fillPadding(PerRank &shards, mlir::RankedTensorType type, ps::ShardingAttr sharding) const;
  /// Returns the unsharded tensor of type `type`. Combines partial shards in ascending order of
  /// shard indices.
  ps::Tensor gather(const PerRank &shards, mlir::RankedTensorType type,
                    ps::ShardingAttr sharding) const;

private:
  struct Axis {
    mlir::StringAttr name;
    int64_t size, stride;
  };
  const Axis *find(mlir::StringAttr name) const;
  int64_t getCoordinate(int64_t rank, const Axis &axis) const {
    return rank / axis.stride % axis.size;
  }
  /// Returns the global linear index of a local multi-index; -1 for padding.
  int64_t getGlobalIndex(int64_t rank, llvm::ArrayRef<int64_t> shape, ps::ShardingAttr sharding,
                         llvm::ArrayRef<int64_t> local) const;

  llvm::SmallVector<Axis> axes;
  int64_t rankCount = 1;
  ps::MeshOp mesh;
};

} // namespace parashard::evaluate

#endif
