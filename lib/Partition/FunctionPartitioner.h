// Rewrites one function of level 2 to local types with collectives.
#ifndef PARASHARD_LIB_PARTITION_FUNCTIONPARTITIONER_H
#define PARASHARD_LIB_PARTITION_FUNCTIONPARTITIONER_H

#include "lib/Sharding/Split.h"

namespace parashard::ps {

/// Replaces `function` (one block) by its local form. Variables are looked up in `symbols`. Errors
/// name the op that cannot be partitioned.
mlir::LogicalResult partitionFunction(mlir::func::FuncOp function, MeshOp mesh,
                                      mlir::SymbolTable &symbols);

/// The order in which segments and phases run: forward (or evaluate) by ascending segment, then
/// backward by descending one, input before weight. Ops without marks: nothing.
std::optional<int64_t> getRunOrder(mlir::Operation *op);

} // namespace parashard::ps

#endif
