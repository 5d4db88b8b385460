// ps-explain-shardings: prints the sharding of each parameter, or stores this text in the module.
#include "lib/Sharding/Explain.h"
#include "lib/Sharding/Passes.h"
#include "lib/Sharding/Reasons.h"

using namespace mlir;

namespace parashard::sharding {

#define GEN_PASS_DEF_EXPLAINSHARDINGSPASS
#include "lib/Sharding/Passes.h.inc"

namespace {
struct ExplainShardingsPass : impl::ExplainShardingsPassBase<ExplainShardingsPass> {
  using ExplainShardingsPassBase::ExplainShardingsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!ps::getMesh(module)) {
      module.emitError() << "the module has no ps.mesh; run ps-set-mesh first";
      return signalPassFailure();
    }
    std::string text = sharding::getExplanation(module);
    if (!record) {
      llvm::outs() << text;
      return;
    }
    module->setAttr(kExplanationMark, StringAttr::get(&getContext(), text));
    sharding::recordUses(module);
  }
};
} // namespace

} // namespace parashard::sharding
