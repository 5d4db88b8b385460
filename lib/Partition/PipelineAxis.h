// What may go over the mesh's pipeline axis from level 3 on, where its coordinates run different
// programs.
#ifndef PARASHARD_LIB_PARTITION_PIPELINEAXIS_H
#define PARASHARD_LIB_PARTITION_PIPELINEAXIS_H

#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace parashard::ps {

/// Whether an attribute holds a sharding that splits a tensor over `axis`, or is partial over it.
bool splitsOver(mlir::Attribute attribute, mlir::StringAttr axis);

/// The first op with such an attribute; null where there is none.
mlir::Operation *findSplitOver(mlir::ModuleOp module, mlir::StringAttr axis);

/// Whether `op` is a collective of one tensor, or depends on the position in a group of one, and
/// names `axis`.
bool goesOver(mlir::Operation *op, mlir::StringAttr axis);

/// Whether `op` is a reduction that one op of each coordinate's stage function takes part in: an
/// all_reduce over `axis` alone, in an entry that has a function per coordinate.
bool isReductionOfCoordinates(mlir::Operation *op, mlir::StringAttr axis);

/// The pipeline coordinates that take part in such a reduction.
llvm::SmallVector<int64_t> getReducingCoordinates(mlir::Operation *op);

/// Checks that runs call class functions: later passes read their marks. Errors have `label`.
mlir::LogicalResult verifyCallees(mlir::ModuleOp module, llvm::StringRef label);

/// The entry of a stage function: `micro_batch` of @stage0.micro_batch.
llvm::StringRef getEntry(mlir::func::FuncOp stage);
/// Whether an entry has one stage function per pipeline coordinate; the others have one per stage.
bool isByCoordinate(llvm::StringRef entry);

/// The labels of the constraints that `verifyPipelineAxis` reports.
struct PipelineAxisLabels {
  llvm::StringRef shardings, collectives;
};

/// Checks that no tensor is split over the pipeline axis, and that no collective goes over it but
/// reductions of coordinates: a rank of another coordinate would never join.
mlir::LogicalResult verifyPipelineAxis(mlir::ModuleOp module, PipelineAxisLabels labels);

} // namespace parashard::ps

#endif
