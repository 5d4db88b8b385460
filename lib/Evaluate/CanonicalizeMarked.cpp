// Implements ps-canonicalize: canonicalizes, and copies marks (discardable attributes) to new ops.
#include "dialects/ps/MarkListener.h"
#include "lib/Evaluate/Passes.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace parashard::evaluate {
#define GEN_PASS_DEF_CANONICALIZEMARKEDPASS
#include "lib/Evaluate/Passes.h.inc"
} // namespace parashard::evaluate

using namespace mlir;
using namespace parashard;
using namespace parashard::evaluate;

namespace {
class CanonicalizeMarkedPass
    : public evaluate::impl::CanonicalizeMarkedPassBase<CanonicalizeMarkedPass> {
  void runOnOperation() override {
    MLIRContext *context = &getContext();
    RewritePatternSet patterns(context);
    for (Dialect *dialect : context->getLoadedDialects())
      dialect->getCanonicalizationPatterns(patterns);
    for (RegisteredOperationName op : context->getRegisteredOperations())
      op.getCanonicalizationPatterns(patterns, context);
    ps::MarkListener listener;
    GreedyRewriteConfig config;
    config.setListener(&listener);
    // Functions have only one block, so there are no regions to simplify. The driver erases dead
    // ops.
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      signalPassFailure();
  }
};
} // namespace
