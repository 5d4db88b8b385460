// Rewrites one function of level 2 to local types with collectives.
#ifndef PARASHARD_LIB_PARTITION_FUNCTIONPARTITIONER_H
#define PARASHARD_LIB_PARTITION_FUNCTIONPARTITIONER_H

#include "lib/Sharding/Split.h"

namespace parashard::partition {

/// Replaces `function`, which must have a single block, by its local form. Looks variables up in
/// `symbols`. Fails with an error at the first op that cannot be partitioned.
mlir::LogicalResult partitionFunction(mlir::func::FuncOp function, ps::MeshOp mesh,
                                      mlir::SymbolTable &symbols);

/// Returns a number that orders segments and phases by execution: forward (or evaluate) by
/// ascending segment, then backward by descending segment, then update. Within a segment, input
/// gradients precede weight gradients. Returns nullopt for ops without a phase or a segment.
std::optional<int64_t> getRunOrder(mlir::Operation *op);

} // namespace parashard::partition

#endif
