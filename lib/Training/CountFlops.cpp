// ps-count-flops: counts the floating-point operations of a micro-batch, before sharding.
#include "dialects/ps/Ps.h"
#include "parashard/Training.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::training {

void countFlops(ModuleOp module) {
  auto function = module.lookupSymbol<func::FuncOp>("micro_batch");
  if (!function)
    function = module.lookupSymbol<func::FuncOp>("evaluate");
  if (!function)
    return;
  int64_t flops = 0;
  function.walk([&](CostOpInterface op) {
    flops += op.getCost(op->getOperandTypes(), op->getResultTypes()).contractionFlops;
  });
  module->setAttr(kFlopsMark, OpBuilder(module).getI64IntegerAttr(flops));
}

#define GEN_PASS_DEF_COUNTFLOPSPASS
#include "lib/Training/Passes.h.inc"

namespace {
struct CountFlopsPass : impl::CountFlopsPassBase<CountFlopsPass> {
  void runOnOperation() override { countFlops(getOperation()); }
};
} // namespace

} // namespace parashard::training
