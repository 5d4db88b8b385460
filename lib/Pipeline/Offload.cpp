// The pass ps-offload: what is not used for long lies in the host's memory.
#include "Offload.h"
#include "lib/Pipeline/Passes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace parashard::ps {
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
        emitError(getOperation().getLoc()) << "ps-offload takes what=optimizer, activations, "
                                              "activations=all, or several with commas, not '"
                                           << part << "'";
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
    OffloadRates rates{double(flops), double(narrowFlops), double(memory), double(host)};
    if (offloadValues(getOperation(), rates, onlyHidden))
      return;
    if (onlyHidden)
      emitWarning(getOperation().getLoc())
          << "--offload activations changes nothing: no value that forward keeps for backward is "
             "away for as long as its copies would take, and fewer of the bytes kept at once for "
             "it; activations=all minds the bytes alone";
    else
      emitWarning(getOperation().getLoc())
          << "--offload activations=all changes nothing: of what forward "
             "keeps for backward nothing makes the bytes kept at once fewer";
  }

  void offloadOptimizer() {
    if (!offloadVariables(getOperation(), pieceBytes))
      emitWarning(getOperation().getLoc())
          << "--offload optimizer changes nothing: no optimizer state, average or weight is used "
             "by the update alone";
  }
};
} // namespace
} // namespace parashard::ps
