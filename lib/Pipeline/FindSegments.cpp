// Implements ps-find-segments: assigns a segment to every op of each function except @update.
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
  }
};
} // namespace
} // namespace parashard::pipeline
