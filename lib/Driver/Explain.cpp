// Explains the plan of a module at level `planned` or later.
#include "lib/Sharding/Explain.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "parashard/Driver.h"

using namespace mlir;

namespace parashard::driver {

std::string explainPlan(ModuleOp module) {
  if (getLevel(module) != ps::Level::Planned)
    return sharding::getExplanation(module);
  // Level `planned` does not contain the collectives yet. Partition a copy to find them.
  OwningOpRef<ModuleOp> copy = module.clone();
  WalkOptions walk;
  walk.stopAfter = ps::Level::Partitioned;
  (void)runWalk(*copy, CompileOptions(), walk);
  return sharding::getExplanation(*copy);
}

} // namespace parashard::driver
