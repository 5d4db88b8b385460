// The pass ps-outline-segments: class functions, and stage functions that run them.
#include "lib/Partition/Outline.h"
#include "lib/Partition/Passes.h"

using namespace mlir;

namespace parashard::ps {
#define GEN_PASS_DEF_OUTLINESEGMENTSPASS
#include "lib/Partition/Passes.h.inc"

namespace {
struct OutlineSegmentsPass : impl::OutlineSegmentsPassBase<OutlineSegmentsPass> {
  void runOnOperation() override {
    Outliner outliner(getOperation());
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (function->hasAttr(rank::kClassMark) || function->hasAttr(rank::kStageMark))
        continue;
      FailureOr<Pieces> pieces = function.getName() == "update"  ? cutUpdate(function)
                                 : function.getName() == "count" ? cutCount(function)
                                                                 : cutIntoSegments(function);
      if (failed(pieces))
        return signalPassFailure();
      outliner.outline(function, *pieces);
    }
  }
};
} // namespace
} // namespace parashard::ps
