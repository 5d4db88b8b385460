// Implements ps-find-segments: assigns a segment to every op of each function except @update.
#include "dialects/ps/Entries.h"
#include "lib/Pipeline/Layers.h"
#include "lib/Pipeline/Passes.h"
#include "lib/Pipeline/Segments.h"

using namespace mlir;

namespace parashard::pipeline {
#define GEN_PASS_DEF_FINDSEGMENTSPASS
#include "lib/Pipeline/Passes.h.inc"

namespace {
struct FindSegmentsPass : impl::FindSegmentsPassBase<FindSegmentsPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.getName() != "update" && function.getBody().hasOneBlock())
        assignSegments(function);
    func::FuncOp model = getCutFunction(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (model && ps::isInferenceEntry(function))
        alignSegments(function, model);
  }
};
} // namespace
} // namespace parashard::pipeline
