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

/// Returns the number of coordinates of the pipeline axis of `op`'s mesh, or 1 without one.
int64_t getPipelineSize(mlir::Operation *op);

/// Returns the queue of a collective over `axes`: their names joined by '+'.
std::string getQueueName(llvm::ArrayRef<mlir::Attribute> axes);

} // namespace parashard::rank

#endif
