// Implements ps-outline-segments: builds class functions, and stage functions that call them.
#include "lib/Partition/Outline.h"
#include "lib/Partition/Passes.h"
#include "lib/Partition/SplitUpdate.h"

using namespace mlir;
using namespace parashard::ir;

namespace parashard::partition {
#define GEN_PASS_DEF_OUTLINESEGMENTSPASS
#include "lib/Partition/Passes.h.inc"

namespace {
struct OutlineSegmentsPass : impl::OutlineSegmentsPassBase<OutlineSegmentsPass> {
  void runOnOperation() override {
    stages = getStages(getOperation());
    Outliner outliner(getOperation());
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (function->hasAttr(kClassMark) || function->hasAttr(kStageMark))
        continue;
      StringRef entry = function.getName().split(".pp").first; // @update.pp0 has the entry `update`
      FailureOr<Pieces> pieces = entry == "update"  ? cutUpdate(function)
                                 : entry == "count" ? cutCount(function)
                                                    : cutIntoSegments(function);
      if (failed(pieces))
        return signalPassFailure();
      outliner.outline(function, entry.str(), pieces->runs, getContents(function, *pieces, entry));
    }
  }

private:
  std::vector<StageContent> getContents(func::FuncOp function, const Pieces &pieces,
                                        StringRef entry) const {
    if (auto coordinate = function->getAttrOfType<IntegerAttr>(kCoordinateMark))
      return {takeAll(function, pieces, coordinate.getInt())};
    if (stages.getCount() == 1)
      return {takeAll(function, pieces, 0)};
    if (entry != "count")
      return divide(function, pieces, stages);
    std::vector<StageContent> everywhere; // every pipeline coordinate runs all of @count
    for (int64_t i = 0; i < stages.placement.ranks; ++i)
      everywhere.push_back(takeAll(function, pieces, i));
    return everywhere;
  }

  Stages stages;
};
} // namespace
} // namespace parashard::partition
