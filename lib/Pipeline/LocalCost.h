// What an op costs one rank.
#ifndef PARASHARD_LIB_PIPELINE_LOCALCOST_H
#define PARASHARD_LIB_PIPELINE_LOCALCOST_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// The type of what one rank holds of a value with a sharding (level 2).
mlir::Type getLocalType(mlir::Value value, MeshOp mesh);

/// Of the op on one rank's types; zeros where it has no cost interface.
OpCost getLocalCost(mlir::Operation *op, MeshOp mesh);

} // namespace parashard::ps

#endif
