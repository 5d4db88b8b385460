// Declares the pipeline stages of a module and their costs.
#ifndef PARASHARD_LIB_IR_STAGES_H
#define PARASHARD_LIB_IR_STAGES_H

#include "dialects/ps/Ps.h"
#include "lib/Schedules/Placement.h"
#include <vector>

namespace parashard::ir {

/// The segments of each stage, and the pipeline coordinate of each stage. The segments of a stage
/// are consecutive.
struct Stages {
  schedules::Placement placement;
  llvm::SmallVector<int64_t> cuts; ///< first segment of each stage except stage 0

  int64_t getCount() const { return placement.getNumStages(); }
  /// Returns the stage of a segment. Example: cuts {4, 8} put segment 4 into stage 1.
  int64_t getStage(int64_t segment) const {
    return llvm::upper_bound(cuts, segment) - cuts.begin();
  }
  /// Returns the pipeline coordinate that runs a stage.
  int64_t getCoordinate(int64_t stage) const { return placement.getRank(stage); }
};

/// Returns the pipeline axis of the module's mesh, or null if no such axis has a size above 1.
mlir::StringAttr getPipelineAxis(mlir::ModuleOp module);
/// Returns the size of the pipeline axis, or 1 if the mesh has no such axis.
int64_t getPipelineSize(mlir::ModuleOp module);

/// Returns the stages that `ps-partition-pipeline` recorded (`ps.stage_cuts`, `ps.num_chunks`,
/// `ps.placement`), or one stage if none are recorded.
Stages getStages(mlir::ModuleOp module);
/// Verifies that the attributes that `getStages` reads agree with each other and with the mesh.
/// Accepts modules without `ps.stage_cuts`. Example: 2 coordinates with 2 chunks have 4 stages, and
/// need 3 ascending cuts. Error messages contain `label`.
mlir::LogicalResult verifyStageMarks(mlir::ModuleOp module, llvm::StringRef label);
void setStages(mlir::ModuleOp module, const Stages &stages);

/// Cost of one micro-batch on one rank of a stage.
struct StageCost {
  int64_t forward = 0, backwardInput = 0, backwardWeight = 0; ///< flops
  int64_t savedBytes = 0; ///< bytes of the activations that forward saves for backward
  int64_t cutBytes = 0;   ///< bytes sent over the cut after the stage, in both directions
};
/// Returns the cost of each stage that `ps-partition-pipeline` recorded (`ps.stage_costs`), or an
/// empty list.
std::vector<StageCost> getStageCosts(mlir::ModuleOp module);
void setStageCosts(mlir::ModuleOp module, llvm::ArrayRef<StageCost> costs);

/// Returns true if the phase of an op is `backward_input` or `backward_weight`.
bool isBackward(mlir::Operation *op);

/// Returns the segment of an op (`ps.segment`), or nullopt.
std::optional<int64_t> getSegment(mlir::Operation *op);

} // namespace parashard::ir

#endif
