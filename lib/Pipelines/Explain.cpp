// The plan in words, of a module at any level from `planned` on.
#include "lib/Sharding/Explain.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "parashard/Pipelines.h"

using namespace mlir;

namespace parashard {

/// What a plan moves is known when it is carried out: on a copy, up to the words on collectives.
static void addCollectives(ModuleOp module) {
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  if (succeeded(parsePassPipeline(
          "ps-partition,ps-simplify-collectives,ps-explain-collectives{record=true}", pm)))
    (void)pm.run(module); // what cannot be partitioned has said so
}

std::string explainPlan(ModuleOp module) {
  if (getLevel(module) != ps::Level::Planned)
    return ps::getExplanation(module);
  OwningOpRef<ModuleOp> copy = module.clone();
  addCollectives(*copy);
  return ps::getExplanation(*copy);
}

} // namespace parashard
