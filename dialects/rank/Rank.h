// Declares the dialect `rank`. Include this header to use the ops.
#ifndef PARASHARD_DIALECTS_RANK_RANK_H
#define PARASHARD_DIALECTS_RANK_RANK_H

#include "dialects/ps/Ps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include "dialects/rank/RankDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/rank/RankTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/rank/RankOps.h.inc"

namespace parashard::rank {

/// Returns the size of the pipeline axis of `op`'s mesh, or 1 if the mesh has no pipeline axis.
int64_t getPipelineSize(mlir::Operation *op);

/// Returns the name of the queue for collectives over `axes`: the names of the axes, joined by '+'.
std::string getQueueName(llvm::ArrayRef<mlir::Attribute> axes);

} // namespace parashard::rank

#endif
