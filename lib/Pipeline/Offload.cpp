// Implements ps-offload: moves variables and values to host memory while they are not used.
#include "Offload.h"
#include "dialects/ps/Refusal.h"
#include "lib/IR/OpTimes.h"
#include "lib/Pipeline/Passes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::pipeline {
#define GEN_PASS_DEF_OFFLOADPASS
#include "lib/Pipeline/Passes.h.inc"

namespace {
struct OffloadPass : impl::OffloadPassBase<OffloadPass> {
  using OffloadPassBase::OffloadPassBase;

  void runOnOperation() override {
    SmallVector<StringRef> parts;
    StringRef(what).split(parts, ',');
    for (StringRef part : parts)
      if (!llvm::is_contained({"optimizer", "activations", "activations=all"}, part)) {
        emitError(getOperation().getLoc())
            << "ps-offload what=" << part
            << " is not valid; use optimizer, activations, "
               "activations=all, or several of them separated by commas";
        return signalPassFailure();
      }
    bool all = llvm::is_contained(parts, "activations=all");
    if (all || llvm::is_contained(parts, "activations"))
      offloadActivations(/*onlyHidden=*/!all);
    if (llvm::is_contained(parts, "optimizer"))
      offloadOptimizer();
  }

private:
  void offloadActivations(bool onlyHidden) {
    FailureOr<costs::Cluster> found = ir::findCluster(getOperation());
    if (failed(found))
      return signalPassFailure();
    if (offloadValues(getOperation(), *found, onlyHidden))
      return;
    if (onlyHidden)
      warnFlag(getOperation().getLoc(), "offload activations")
          << " changes nothing: offloading saved activations would not lower the peak memory "
             "without slowing the step; use --offload activations=all to lower the peak "
             "regardless of time";
    else
      warnFlag(getOperation().getLoc(), "offload activations=all")
          << " changes nothing: offloading saved activations would not lower the peak memory";
  }

  void offloadOptimizer() {
    if (!offloadVariables(getOperation(), pieceBytes))
      warnFlag(getOperation().getLoc(), "offload optimizer")
          << " changes nothing: no optimizer state, average or weight is used "
             "by the update alone";
  }
};
} // namespace
} // namespace parashard::pipeline
