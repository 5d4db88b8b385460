// Stores pipeline stages as attributes of the module.
#include "lib/IR/Stages.h"
#include "dialects/rank/Rank.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::ir {

StringAttr getPipelineAxis(ModuleOp module) {
  if (MeshOp mesh = getMesh(module))
    for (StringAttr axis : mesh.getAxesOfKind(AxisKind::Pipeline))
      if (mesh.getAxisSize(axis) > 1)
        return axis;
  return {};
}

int64_t getPipelineSize(ModuleOp module) { return rank::getPipelineSize(module); }

Stages getStages(ModuleOp module) {
  Stages stages;
  auto cuts = module->getAttrOfType<DenseI64ArrayAttr>(kStageCutsMark);
  if (!cuts)
    return stages;
  stages.cuts = SmallVector<int64_t>(cuts.asArrayRef());
  stages.placement.ranks = getPipelineSize(module);
  if (auto chunks = module->getAttrOfType<IntegerAttr>(kNumChunksMark))
    stages.placement.chunks = chunks.getInt();
  if (auto kind = module->getAttrOfType<StringAttr>(kPlacementMark); kind && kind == "v")
    stages.placement.kind = schedules::PlacementKind::V;
  return stages;
}

/// Largest number of chunks accepted from a dump. Each chunk has at least one layer, and no model
/// has more layers than this.
static constexpr int64_t kMaxChunks = int64_t(1) << 20;

LogicalResult verifyStageMarks(ModuleOp module, StringRef label) {
  Attribute cuts = module->getAttr(kStageCutsMark), chunks = module->getAttr(kNumChunksMark);
  if (!cuts)
    return success();
  auto number = dyn_cast_if_present<IntegerAttr>(chunks);
  if (chunks && (!number || !number.getType().isInteger(64) || number.getInt() < 1 ||
                 number.getInt() > kMaxChunks))
    return module.emitError() << "(" << label << ") the module has " << kNumChunksMark << " = "
                              << chunks << "; expected an i64 from 1 to 2^20";
  if (!isa<DenseI64ArrayAttr>(cuts))
    return module.emitError() << "(" << label << ") the module has " << kStageCutsMark << " = "
                              << cuts << "; expected an array of i64";
  Stages stages = getStages(module);
  if (int64_t(stages.cuts.size()) + 1 != stages.getCount() || !llvm::is_sorted(stages.cuts))
    return module.emitError() << "(" << label << ") the module has " << kStageCutsMark << " = "
                              << cuts << "; expected " << stages.getCount() - 1
                              << " ascending cuts for " << stages.placement.ranks
                              << " pipeline coordinates with " << stages.placement.chunks
                              << " chunks each";
  return success();
}

void setStages(ModuleOp module, const Stages &stages) {
  Builder b(module.getContext());
  bool isV = stages.placement.kind == schedules::PlacementKind::V;
  module->setAttr(kStageCutsMark, b.getDenseI64ArrayAttr(stages.cuts));
  module->setAttr(kNumChunksMark, b.getI64IntegerAttr(stages.placement.chunks));
  module->setAttr(kPlacementMark, b.getStringAttr(isV ? "v" : "loop"));
}

std::vector<StageCost> getStageCosts(ModuleOp module) {
  std::vector<StageCost> costs;
  auto list = module->getAttrOfType<DenseI64ArrayAttr>(kStageCostsMark);
  for (ArrayRef<int64_t> rest = list ? list.asArrayRef() : ArrayRef<int64_t>(); rest.size() >= 5;
       rest = rest.drop_front(5))
    costs.push_back({rest[0], rest[1], rest[2], rest[3], rest[4]});
  return costs;
}

void setStageCosts(ModuleOp module, ArrayRef<StageCost> costs) {
  SmallVector<int64_t> list;
  for (const StageCost &cost : costs)
    list.append(
        {cost.forward, cost.backwardInput, cost.backwardWeight, cost.savedBytes, cost.cutBytes});
  module->setAttr(kStageCostsMark, Builder(module.getContext()).getDenseI64ArrayAttr(list));
}

bool isBackward(Operation *op) {
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
  return phase &&
         (phase.getValue() == Phase::BackwardInput || phase.getValue() == Phase::BackwardWeight);
}

std::optional<int64_t> getSegment(Operation *op) {
  auto segment = op->getAttrOfType<IntegerAttr>(kSegmentMark);
  return segment ? std::optional(segment.getInt()) : std::nullopt;
}

} // namespace parashard::ir
