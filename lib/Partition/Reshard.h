// How a tensor gets from one sharding to another: a short list of collectives and local moves.
#ifndef PARASHARD_LIB_PARTITION_RESHARD_H
#define PARASHARD_LIB_PARTITION_RESHARD_H

#include "lib/Sharding/Split.h"

namespace parashard::ps {

/// One step of a resharding; acts on a local tensor and yields one of local shape `shape`.
struct ReshardStep {
  enum class Kind {
    Reshape,       ///< the same elements under `shape` (factors become dims, or dims again)
    AllReduce,     ///< over `axes` by `reduction`
    ReduceScatter, ///< over `axes` by `reduction`, along `dim`
    AllGather,     ///< over `axes`, along `dim`
    AllToAll,      ///< over `axes`: splits `dim`, joins along `other`
    ShardSlice,    ///< this rank's shard over `axes` along `dim`
    Slice,         ///< cuts padding off the end of `dim`
    Pad,           ///< adds padding at the end of `dim`
    KeepFirst      ///< zero on all ranks but the first over `axes` (becomes partial by sum)
  };
  Kind kind;
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<mlir::StringAttr, 2> axes = {};
  unsigned dim = 0;
  unsigned other = 0;
  ReductionKind reduction = ReductionKind::Sum;
};

/// The steps from `from` to `to` for a tensor of global shape `shape` (null: replicated), in this
/// order: slices over axes that are free, reduce-scatters, all-reduces, all-to-alls, all-gathers,
/// the other slices. Empty when both mean the same.
llvm::SmallVector<ReshardStep> planReshard(llvm::ArrayRef<int64_t> shape, ShardingAttr from,
                                           ShardingAttr to, const MeshShape &mesh);

/// Builds the steps; the result has the local type of `to`.
mlir::Value buildReshard(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                         llvm::ArrayRef<ReshardStep> steps);

} // namespace parashard::ps

#endif
