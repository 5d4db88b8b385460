// Where each rank's elements of a sharded tensor stand in the whole one.
#ifndef PARASHARD_LIB_EVALUATE_LAYOUT_H
#define PARASHARD_LIB_EVALUATE_LAYOUT_H

#include "dialects/ps/Combine.h"
#include "dialects/ps/Ps.h"

namespace parashard {

/// One tensor per rank.
using PerRank = std::vector<ps::Tensor>;

/// The ranks of one pipeline coordinate of a mesh: rank = the other coordinates row-major, the last
/// axis varying fastest. No tensor is split over the pipeline axis.
class Layout {
public:
  /// `mesh` null: one rank.
  explicit Layout(ps::MeshOp mesh);

  int64_t getRankCount() const { return rankCount; }
  /// The linear shard index of `rank` over `axes`, the first most significant.
  int64_t getShardIndex(int64_t rank, llvm::ArrayRef<mlir::StringAttr> axes) const;
  int64_t getShardIndex(int64_t rank, mlir::ArrayAttr axes) const;
  int64_t getShards(llvm::ArrayRef<mlir::StringAttr> axes) const;
  /// The places of each shard of a factor of `size` over `axes`, padding included.
  int64_t getShardSize(int64_t size, llvm::ArrayRef<mlir::StringAttr> axes) const;
  /// The members of the group of `rank` over `axes`, in ascending shard index.
  llvm::SmallVector<int64_t> getGroup(int64_t rank, mlir::ArrayAttr axes) const;

  /// The global place of local place `local` of a dim of `size` on `rank`; -1 for padding.
  int64_t getDimIndex(int64_t rank, ps::DimAttr dim, int64_t size, int64_t local) const;

  /// Each rank's shard of `whole`; padding is zero. A partial sharding gives the value to shard 0
  /// of the partial axes and zeros (for sums; else the value) to the others.
  PerRank scatter(const ps::Tensor &whole, ps::ShardingAttr sharding) const;
  /// Puts what is unspecified (NaN) in the padding of tensors of the whole type `type`.
  void fillPadding(PerRank &shards, mlir::RankedTensorType type, ps::ShardingAttr sharding) const;
  /// The whole tensor of type `type`; shards that are partial are combined in ascending order.
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
  /// The global linear index of a local multi-index; -1 for padding.
  int64_t getGlobalIndex(int64_t rank, llvm::ArrayRef<int64_t> shape, ps::ShardingAttr sharding,
                         llvm::ArrayRef<int64_t> local) const;

  llvm::SmallVector<Axis> axes;
  int64_t rankCount = 1;
  ps::MeshOp mesh;
};

} // namespace parashard

#endif
