// Which segments make which stage of the pipeline, and which coordinate runs it.
#ifndef PARASHARD_LIB_IR_STAGES_H
#define PARASHARD_LIB_IR_STAGES_H

#include "dialects/ps/Ps.h"
#include "lib/Schedules/Placement.h"
#include <vector>

namespace parashard::ps {

/// Stages as contiguous lists of segments, and where they run.
struct Stages {
  schedules::Placement placement;
  llvm::SmallVector<int64_t> cuts; ///< the first segment of each stage but the first

  int64_t getCount() const { return placement.getNumStages(); }
  /// The stage of a segment.
  int64_t getStage(int64_t segment) const {
    return llvm::upper_bound(cuts, segment) - cuts.begin();
  }
  /// The pipeline coordinate that runs a stage.
  int64_t getCoordinate(int64_t stage) const { return placement.getRank(stage); }
};

/// The pipeline axis of the module's mesh; null where it has none of a size above 1.
mlir::StringAttr getPipelineAxis(mlir::ModuleOp module);
/// Its size; 1 where there is none.
int64_t getPipelineSize(mlir::ModuleOp module);

/// What `ps-partition-pipeline` left on the module (`ps.stage_cuts`, `ps.num_chunks`,
/// `ps.placement`); one stage where it left nothing.
Stages getStages(mlir::ModuleOp module);
/// Checks that these marks fit one another and the mesh: there are `ranks * chunks` stages, and one
/// cut less, in ascending order. Errors have `label`.
mlir::LogicalResult verifyStageMarks(mlir::ModuleOp module, llvm::StringRef label);
void setStages(mlir::ModuleOp module, const Stages &stages);

/// What one rank of a stage does on one micro-batch.
struct StageCost {
  int64_t forward = 0, backwardInput = 0, backwardWeight = 0; ///< flops
  int64_t savedBytes = 0; ///< from the forward on, for the backward
  int64_t cutBytes = 0;   ///< that cross the cut behind it, both ways
};
/// By stage, as `ps-partition-pipeline` left them on the module (`ps.stage_costs`); empty where it
/// left none.
std::vector<StageCost> getStageCosts(mlir::ModuleOp module);
void setStageCosts(mlir::ModuleOp module, llvm::ArrayRef<StageCost> costs);

/// On the module from level 4 on, where it has a pipeline: the schedule, and the micro-batches of a
/// step.
inline constexpr llvm::StringLiteral kScheduleMark = "ps.schedule";
inline constexpr llvm::StringLiteral kMicroBatchesMark = "ps.micro_batches";

/// True for an op that computes gradients, of inputs or weights.
bool isBackward(mlir::Operation *op);

/// The segment of an op that has one.
std::optional<int64_t> getSegment(mlir::Operation *op);

} // namespace parashard::ps

#endif
