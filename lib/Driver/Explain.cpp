// The plan in words, of a module at any level from `planned` on.
#include "lib/Sharding/Explain.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "parashard/Driver.h"

using namespace mlir;

namespace parashard {

std::string explainPlan(ModuleOp module) {
  if (getLevel(module) != ps::Level::Planned)
    return ps::getExplanation(module);
  // What a plan moves is known when it is carried out: on a copy, where it can be.
  OwningOpRef<ModuleOp> copy = module.clone();
  WalkOptions walk;
  walk.stopAfter = ps::Level::Partitioned;
  (void)runWalk(*copy, CompileOptions(), walk);
  return ps::getExplanation(*copy);
}

} // namespace parashard
