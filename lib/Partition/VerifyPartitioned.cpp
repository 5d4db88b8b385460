// Implements ps-verify-partitioned: checks class functions and stage functions at level 3.
#include "dialects/ps/VerifyModule.h"
#include "lib/IR/Collectives.h"
#include "lib/IR/Stages.h"
#include "lib/Partition/Passes.h"
#include "lib/Partition/PipelineAxis.h"
#include "lib/Partition/VerifyStages.h"
#include "shared/Counts.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::partition {
#define GEN_PASS_DEF_VERIFYPARTITIONEDPASS
#include "lib/Partition/Passes.h.inc"

namespace {
/// Returns true for ops with the attribute `axes`.
bool namesAxes(Operation *op) { return isCollective(op) || isa<ShardIndexOp, ShardSliceOp>(op); }

LogicalResult verifyClass(func::FuncOp function) {
  auto saved = function->getAttrOfType<IntegerAttr>(kSavedMark);
  if (!function->getAttrOfType<PhaseAttr>(kPhaseMark) || !saved)
    return function.emitOpError("(partitioned_c1) a class function needs ")
           << kPhaseMark << " and " << kSavedMark;
  if (saved.getInt() < 0 || saved.getInt() > int64_t(function.getNumResults()))
    return function.emitOpError("(partitioned_c1) saves ")
           << saved.getInt() << " of " << describeCount(function.getNumResults(), "result");
  WalkResult result = function.walk([&](Operation *op) -> WalkResult {
    if (op != function && op->hasAttr("variable"))
      return op->emitOpError("(partitioned_c2) names a variable inside a class function"),
             WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult verifyStage(func::FuncOp function) {
  for (Operation &op : function.getBody().front().without_terminator()) {
    auto lowering = dyn_cast<LoweringOpInterface>(&op);
    bool moves = lowering && lowering.getLoweringKind() == LoweringKind::Movement;
    if (!isa<rank::RunOp, ReadOp, ConvertOp>(op) && !namesAxes(&op) && !moves)
      return op.emitOpError("(partitioned_c3) is between runs; only reads, conversions, data "
                            "movement, shard indices and collectives are valid here");
  }
  return success();
}

/// Checks that the axes of an op belong to the module's mesh.
LogicalResult verifyAxes(Operation *op, MeshOp mesh) {
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  for (auto axis : axes.getAsRange<StringAttr>())
    if (!mesh || mesh.getAxisSize(axis) == 0)
      return op->emitOpError("(partitioned_c4) the mesh has no axis ") << axis;
  return success();
}

struct VerifyPartitionedPass : impl::VerifyPartitionedPassBase<VerifyPartitionedPass> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (failed(verifyModule(getOperation())) ||
        failed(verifyStageMarks(getOperation(), "partitioned_c11")) ||
        failed(verifyCallees(getOperation(), "partitioned_c12")))
      return signalPassFailure();
    MeshOp mesh = getMesh(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function->hasAttr(kClassMark) && failed(verifyClass(function)))
        return signalPassFailure();
      if (function->hasAttr(kStageMark) && failed(verifyStage(function)))
        return signalPassFailure();
      WalkResult result = function.walk([&](Operation *op) -> WalkResult {
        return namesAxes(op) && failed(verifyAxes(op, mesh)) ? WalkResult::interrupt()
                                                             : WalkResult::advance();
      });
      if (result.wasInterrupted())
        return signalPassFailure();
    }
    if (failed(verifyPipelineAxis(getOperation(), {"partitioned_c5", "partitioned_c6"})) ||
        failed(verifyStages(getOperation())))
      signalPassFailure();
  }
};
} // namespace
} // namespace parashard::partition
