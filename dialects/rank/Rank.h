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

/// Marks of class functions and stage functions (docs/levels.md).
inline constexpr llvm::StringLiteral kClassMark = "ps.class"; ///< name of the class, on a function
inline constexpr llvm::StringLiteral kGlobalMark =
    "ps.global"; ///< global type, on arguments and results
inline constexpr llvm::StringLiteral kStageMark =
    "ps.stage"; ///< number of the stage, on a stage function

/// On arguments and results of stage functions: number of the value that crosses between stages.
inline constexpr llvm::StringLiteral kValueMark = "ps.value";
/// On a reduction over the pipeline: name of the reduced variable, the same on every coordinate.
inline constexpr llvm::StringLiteral kReducedMark = "ps.reduced";
/// On the runs of programs: number of the run's micro-batch.
inline constexpr llvm::StringLiteral kMicroBatchMark = "ps.micro_batch";
/// On a collective over the pipeline axis before level 4: the coordinates that take part, if not
/// all.
inline constexpr llvm::StringLiteral kCoordinatesMark = "ps.coordinates";

/// On a variable from level 4 on: stored in host memory, and staged for runs.
inline constexpr llvm::StringLiteral kHostMark = "ps.host";

/// Returns the number of coordinates of the pipeline axis of `op`'s mesh, or 1 without one.
int64_t getPipelineSize(mlir::Operation *op);

/// Returns the queue of a collective over `axes`: their names joined by '+'.
std::string getQueueName(llvm::ArrayRef<mlir::Attribute> axes);

} // namespace parashard::rank

#endif
