// Finds shardings and collectives over the pipeline axis.
#include "lib/Partition/PipelineAxis.h"
#include "lib/IR/Collectives.h"
#include "lib/IR/Stages.h"
#include "lib/Sharding/Split.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;
using namespace parashard::sharding;

namespace parashard::partition {

bool splitsOver(Attribute attribute, StringAttr axis) {
  WalkResult result = attribute.walk([&](ShardingAttr sharding) {
    for (unsigned dim = 0; dim < sharding.getDims().size(); ++dim)
      if (llvm::is_contained(sharding.getDimAxes(dim), axis))
        return WalkResult::interrupt();
    bool isPartial = llvm::any_of(sharding.getPartial(),
                                  [&](PartialAttr partial) { return partial.getAxis() == axis; });
    return isPartial ? WalkResult::interrupt() : WalkResult::advance();
  });
  return result.wasInterrupted();
}

Operation *findSplitOver(ModuleOp module, StringAttr axis) {
  llvm::DenseMap<Attribute, bool> known;
  Operation *found = nullptr;
  module.walk([&](Operation *op) {
    for (NamedAttribute attribute : op->getAttrs()) {
      auto [splits, isNew] = known.try_emplace(attribute.getValue());
      if (isNew)
        splits->second = splitsOver(attribute.getValue(), axis);
      if (splits->second)
        return found = op, WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return found;
}

bool usesAxis(Operation *op, StringAttr axis) {
  if (!isCollective(op) && !isa<ShardIndexOp, ShardSliceOp, rank::StartOp>(op))
    return false;
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  return axes && llvm::is_contained(axes, axis);
}

StringRef getEntry(func::FuncOp stage) { return stage.getName().split('.').second; }

bool isByCoordinate(StringRef entry) { return entry == "update" || entry == "count"; }

bool isReductionOfCoordinates(Operation *op, StringAttr axis) {
  auto reduce = dyn_cast<AllReduceOp>(op);
  auto function = dyn_cast_if_present<func::FuncOp>(op->getParentOp());
  return reduce && reduce.getAxes().size() == 1 && reduce.getAxes()[0] == axis && function &&
         function->hasAttr(kStageMark) && isByCoordinate(getEntry(function));
}

SmallVector<int64_t> getReducingCoordinates(Operation *op) {
  if (auto given = op->getAttrOfType<DenseI64ArrayAttr>(kCoordinatesMark))
    return SmallVector<int64_t>(given.asArrayRef());
  return llvm::to_vector(llvm::seq<int64_t>(0, rank::getPipelineSize(op)));
}

static LogicalResult refuseCollective(Operation *op, StringAttr axis, StringRef label) {
  return op->emitOpError("(") << label << ") uses axis " << axis
                              << " of kind pipeline, whose coordinates run different programs: "
                                 "ranks of other coordinates never join this collective; only "
                                 "an all_reduce over this axis alone is valid, in `update` or "
                                 "`count`";
}

LogicalResult verifyCallees(ModuleOp module, StringRef label) {
  SymbolTable symbols(module);
  WalkResult result = module.walk([&](rank::RunOp run) {
    auto callee = symbols.lookup<func::FuncOp>(run.getCallee());
    if (callee && callee->hasAttr(kClassMark))
      return WalkResult::advance();
    run.emitOpError() << "(" << label << ") runs @" << run.getCallee()
                      << ", which is not a class function: it lacks " << kClassMark;
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult verifyPipelineAxis(ModuleOp module, PipelineAxisLabels labels) {
  StringAttr axis = getPipelineAxis(module);
  if (!axis)
    return success();
  if (Operation *op = findSplitOver(module, axis)) {
    std::string allowed = MeshShape(getMesh(module)).listSplittingAxes();
    return op->emitOpError("(") << labels.shardings << ") has a tensor that is split over axis "
                                << axis << " of kind pipeline, whose devices run different stages; "
                                << "axes that split tensors are "
                                << (allowed.empty() ? "none" : allowed);
  }
  WalkResult result = module.walk([&](Operation *op) {
    if (!usesAxis(op, axis) || isReductionOfCoordinates(op, axis))
      return WalkResult::advance();
    return (void)refuseCollective(op, axis, labels.collectives), WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

} // namespace parashard::partition
