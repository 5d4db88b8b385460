// Defines which ops may use the pipeline axis of the mesh from level 3 on. At these levels, the
// coordinates of the pipeline axis run different programs.
#ifndef PARASHARD_LIB_PARTITION_PIPELINEAXIS_H
#define PARASHARD_LIB_PARTITION_PIPELINEAXIS_H

#include "dialects/rank/Rank.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace parashard::partition {

/// Returns true if an attribute contains a sharding that is split or partial over `axis`.
bool splitsOver(mlir::Attribute attribute, mlir::StringAttr axis);

/// Returns the first op with an attribute for which `splitsOver` returns true, or null.
mlir::Operation *findSplitOver(mlir::ModuleOp module, mlir::StringAttr axis);

/// Returns true if `op` has `axis` in its attribute `axes`, and is a collective, a `rank.start`, a
/// `ps.shard_index` or a `ps.shard_slice`.
bool usesAxis(mlir::Operation *op, mlir::StringAttr axis);

/// Returns true if `op` is an all_reduce over `axis` alone in a stage function of `update` or
/// `count`. Such an op reduces a value over pipeline coordinates. The function of each coordinate
/// that takes part has a matching op.
bool isReductionOfCoordinates(mlir::Operation *op, mlir::StringAttr axis);

/// Returns the pipeline coordinates that take part in a reduction of coordinates: the attribute
/// `ps.coordinates`, or all coordinates without this attribute.
llvm::SmallVector<int64_t> getReducingCoordinates(mlir::Operation *op);

/// Checks that each `rank.run` calls a class function, because later passes read the attributes of
/// class functions. Errors contain `label`.
mlir::LogicalResult verifyCallees(mlir::ModuleOp module, llvm::StringRef label);

/// Returns the entry of a stage function: `micro_batch` for @stage0.micro_batch.
llvm::StringRef getEntry(mlir::func::FuncOp stage);
/// Returns true if an entry has one stage function per pipeline coordinate (`update`, `count`).
/// Other entries have one per stage.
bool isByCoordinate(llvm::StringRef entry);

/// Labels of the constraints that `verifyPipelineAxis` reports.
struct PipelineAxisLabels {
  llvm::StringRef shardings, collectives;
};

/// Checks that no tensor is split over the pipeline axis, and that only reductions of coordinates
/// (`isReductionOfCoordinates`) use the axis. Any other collective over the axis would wait
/// forever, because ranks of other coordinates run other functions.
mlir::LogicalResult verifyPipelineAxis(mlir::ModuleOp module, PipelineAxisLabels labels);

} // namespace parashard::partition

#endif
