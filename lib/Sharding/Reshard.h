// Plans how to reshard a tensor: lists the collectives and local ops that are needed.
#ifndef PARASHARD_LIB_SHARDING_RESHARD_H
#define PARASHARD_LIB_SHARDING_RESHARD_H

#include "lib/Sharding/Split.h"

namespace parashard::sharding {

/// One step of a resharding. Its operand and its result are local tensors; the result has shape
/// `shape`.
struct ReshardStep {
  enum class Kind {
    Reshape,   ///< reinterprets the elements as `shape` (splits dims into factors, or merges them)
    AllReduce, ///< combines over `axes` by `reduction`
    ReduceScatter, ///< combines over `axes` by `reduction`, scatters along `dim`
    AllGather,     ///< concatenates over `axes` along `dim`
    AllToAll,      ///< over `axes`: splits `dim`, concatenates along `other`
    ShardSlice,    ///< takes this rank's shard over `axes` along `dim`
    Slice,         ///< removes padding at the end of `dim`
    Pad,           ///< adds padding at the end of `dim`
    KeepFirst ///< keeps the value on the first rank along `axes`, and zeroes it on the other ranks:
              ///< gives a partial sum
  };
  Kind kind;
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<mlir::StringAttr, 2> axes = {};
  unsigned dim = 0;
  unsigned other = 0;
  ps::ReductionKind reduction = ps::ReductionKind::Sum;
};

/// Returns the steps that reshard a tensor of global shape `shape` from `from` to `to` (null:
/// replicated). The order is: slices over unused axes, reduce-scatters, all-reduces, all-to-alls,
/// all-gathers, the remaining slices, `KeepFirst`. Returns no steps if the shardings are
/// equivalent. Example: moving tp from dim 0 to dim 1 ([{tp}, {}] to [{}, {tp}]) takes one
/// all-to-all.
llvm::SmallVector<ReshardStep> planReshard(llvm::ArrayRef<int64_t> shape, ps::ShardingAttr from,
                                           ps::ShardingAttr to, const MeshShape &mesh);

} // namespace parashard::sharding

#endif
