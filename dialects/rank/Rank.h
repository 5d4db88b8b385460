// The dialect `rank`: include this to use its ops.
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

/// Marks of class functions and stage functions (docs/levels.md).
inline constexpr llvm::StringLiteral kClassMark = "ps.class"; ///< the class's name, on a function
inline constexpr llvm::StringLiteral kGlobalMark =
    "ps.global";                                              ///< global type, on args and results
inline constexpr llvm::StringLiteral kStageMark = "ps.stage"; ///< N, on a stage function

/// N, on arguments and results of stage functions: the value that crosses from one to the others.
inline constexpr llvm::StringLiteral kValueMark = "ps.value";
/// On a reduction over the pipeline: what it adds up, the same on every coordinate.
inline constexpr llvm::StringLiteral kReducedMark = "ps.reduced";
/// M, on the runs of programs: the micro-batch that it is of.
inline constexpr llvm::StringLiteral kMicroBatchMark = "ps.micro_batch";
/// On a collective over the pipeline axis before level 4: the coordinates that take part, where not
/// all do.
inline constexpr llvm::StringLiteral kCoordinatesMark = "ps.coordinates";

/// On a variable from level 4 on: it lies in the host's memory, and runs have it staged.
inline constexpr llvm::StringLiteral kHostMark = "ps.host";

/// The number of coordinates of the pipeline axis of the mesh that `op` is under; 1 without one.
int64_t getPipelineSize(mlir::Operation *op);

/// The queue of a collective over `axes`: their names joined by '+'.
std::string getQueueName(llvm::ArrayRef<mlir::Attribute> axes);

} // namespace parashard::rank

#endif
